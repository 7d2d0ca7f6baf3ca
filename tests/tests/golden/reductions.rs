//! Reductions, products with contraction, cumulative sums, softmax.

use crate::Builder;
use mesh_ops::layers::{log_softmax_with, logsumexp_with, softmax_with};
use mesh_ops::prelude::*;
use mesh_ops::reduce::sum_onto;
use mesh_ops::{Cumulative, add_n};

/// Builders of `reductions.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("sum", |i| vec![i.x[0].sum(i.dims("dims"))]),
    ("mean", |i| vec![i.x[0].mean_over(i.dims("dims"))]),
    ("variance", |i| vec![i.x[0].variance(i.dims("dims"))]),
    ("prod", |i| vec![i.x[0].prod(i.dims("dims"))]),
    ("prod_with_zeros", |i| vec![i.x[0].prod(i.dims("dims"))]),
    ("max", |i| vec![i.x[0].max(i.dims("dims"))]),
    ("max_with_ties", |i| vec![i.x[0].max(i.dims("dims"))]),
    ("min", |i| vec![i.x[0].min(i.dims("dims"))]),
    ("all", |i| vec![i.x[0].all(i.dims("dims"))]),
    ("any", |i| vec![i.x[0].any(i.dims("dims"))]),
    ("argmax", |i| vec![i.x[0].argmax(i.along("dim"))]),
    ("argmin", |i| vec![i.x[0].argmin(i.along("dim"))]),
    ("softmax", |i| vec![i.x[0].softmax(i.along("dim"))]),
    ("log_softmax", |i| vec![i.x[0].log_softmax(i.along("dim"))]),
    ("logsumexp", |i| vec![i.x[0].logsumexp(i.along("dim"))]),
    ("cumsum", |i| {
        let taken = Cumulative { exclusive: i.is("exclusive"), reverse: i.is("reverse") };
        if taken == Cumulative::default() {
            return vec![i.x[0].cumsum(i.along("dim"))];
        }
        vec![i.x[0].cumsum_with(i.along("dim"), taken)]
    }),
    ("logsumexp_with", |i| vec![logsumexp_with(i.x[0], i.dims("dims"), Some(i.x[1]))]),
    ("softmax_with", |i| vec![softmax_with(i.x[0], i.dim("q"), Some(i.x[1]))]),
    ("log_softmax_with", |i| vec![log_softmax_with(i.x[0], i.dim("q"), Some(i.x[1]))]),
    ("einsum", |i| vec![i.x[0].einsum(&i.x[1..], i.dims("output"))]),
    ("at_the_ends", |i| {
        let (x, q) = (i.x[0], [i.dim("q")]);
        let all = [x.max(q), x.min(q), x.sum(q), x.prod(q)];
        all.map(Tensor::stop_gradient).to_vec()
    }),
    ("softmax_of_infinities", |i| {
        let (x, q) = (i.x[0].stop_gradient(), i.dim("q"));
        vec![x.softmax(q), x.logsumexp(q)]
    }),
    ("of_nothing", |i| {
        let (x, q) = (i.x[0].stop_gradient(), i.dim("q"));
        vec![x.max([q]), x.softmax(q), x.log_softmax(q), x.logsumexp(q)]
    }),
    ("add_n", |i| vec![add_n(i.x[0], &i.x[1..])]),
    ("sum_onto", |i| {
        let shape = Shape::new([i.dim("r"), i.dim("p")]).unwrap();
        vec![sum_onto(i.x[0], &shape)]
    }),
    ("matmul", |i| vec![i.x[0].matmul(&i.x[1..])]),
];
