//! Statistics, folds so far along a dim, counts.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::prelude::*;
use mesh_ops::{
    AssociativeScan, Side, associative_scan, associative_scan_with, bincount, count_nonzero,
    cummax, cummin, cumprod, histogram, linear_recurrence, logcumsumexp, median, quantile,
    searchsorted, std, var, vector_norm,
};

fn places<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    let side = if i.text("side") == "right" { Side::Right } else { Side::Left };
    vec![searchsorted(i.x[0], i.x[1], i.dim("p"), side)]
}

/// Builders of `statistics.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("var", |i| vec![var(i.x[0], i.dims("dims"), i.size("number"))]),
    ("std", |i| vec![std(i.x[0], i.dims("dims"), i.size("number"))]),
    ("vector_norm", |i| vec![vector_norm(i.x[0], i.number("number"), i.dims("dims"))]),
    ("count_nonzero", |i| vec![count_nonzero(i.x[0], i.dims("dims"))]),
    ("norms_at_the_ends", |i| {
        let orders = [f64::INFINITY, f64::NEG_INFINITY];
        orders.map(|order| vector_norm(i.x[0], order, [i.dim("q")])).to_vec()
    }),
    ("median", |i| vec![median(i.x[0], i.along("dim"))]),
    ("median_of_nan", |i| vec![median(i.x[0], i.dim("q")).stop_gradient()]),
    ("quantile", |i| vec![quantile(i.x[0], i.number("q_part"), i.along("dim"))]),
    ("cumprod", |i| vec![cumprod(i.x[0], i.along("dim"))]),
    ("cummax", |i| vec![cummax(i.x[0], i.along("dim"))]),
    ("cummin", |i| vec![cummin(i.x[0], i.along("dim"))]),
    ("logcumsumexp", |i| vec![logcumsumexp(i.x[0], i.along("dim"))]),
    ("linear_recurrence", |i| {
        let how = AssociativeScan { reverse: i.is("reverse"), blocks: None };
        vec![linear_recurrence(i.x[0], i.x[1], i.dim("p"), how)]
    }),
    ("associative_scan", |i| {
        let (rows, columns, between) = (i.dim("i"), i.dim("j"), dim("between", 2));
        associative_scan([i.x[0]], i.dim("p"), |[a], [b]| {
            let (a, b) = (a.rename(columns, "between"), b.rename(rows, "between"));
            [mesh_ops::einsum::contract(a, &[b], [between])]
        })
        .to_vec()
    }),
    ("associative_scan_with", |i| {
        let how = AssociativeScan { reverse: i.is("reverse"), blocks: None };
        associative_scan_with(&i.x, i.dim("p"), how, |x, y| vec![x[0] * y[0], x[1] * y[0] + y[1]])
    }),
    ("extremes_of_nan", |i| {
        [cummax, cummin].map(|fold| fold(i.x[0], i.dim("q")).stop_gradient()).to_vec()
    }),
    ("bincount", |i| vec![bincount(i.x[0], dim("bins", i.size("bins")))]),
    ("histogram", |i| vec![histogram(i.x[0], dim("bins", i.size("bins")), -1.0, 1.0)]),
    ("searchsorted", places),
    ("searchsorted_of_nan", places),
];
