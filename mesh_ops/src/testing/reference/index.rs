//! Ops that go by index or order: each element looked up, each line sorted by itself.

use super::Dense;
use super::dense::{offsets, stride};
use super::structural::wrap;
use crate::Order;
use crate::cumsum::Cumsum;
use crate::gather::Gather;
use crate::scatter_add::ScatterAdd;
use crate::top_k::TopK;
use mesh_core::graph::{DynOp, TensorType};
use mesh_core::names::{DimName, Shape};
use std::cmp::Ordering;

/// `None` for an op that is not one of these.
pub(super) fn meaning(
    op: &dyn DynOp,
    inputs: &[&Dense],
    types: &[TensorType],
) -> Option<Vec<Dense>> {
    let any = op.as_any();
    match (inputs, types) {
        ([x, indices], [ty]) => {
            let gather = any.downcast_ref::<Gather>().map(|op| gather(x, indices, ty, op.dim));
            let scatter =
                || any.downcast_ref::<ScatterAdd>().map(|op| scatter(x, indices, ty, op.dim));
            gather.or_else(scatter).map(|value| vec![value])
        }
        ([x], [ty]) => any.downcast_ref::<Cumsum>().map(|op| vec![cumsum(x, ty, op)]),
        ([x], [values, indices]) => any.downcast_ref::<TopK>().map(|op| {
            let (mut out, mut at) = (Dense::zeros(values.clone()), Dense::zeros(indices.clone()));
            top_k(x, op, &mut out, &mut at);
            vec![out, at]
        }),
        _ => None,
    }
}

fn extent(shape: &Shape, dim: DimName) -> usize {
    shape.get(dim).map_or(1, |d| d.size)
}

fn gather(x: &Dense, indices: &Dense, ty: &TensorType, dim: DimName) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let (from, at) = (offsets(&x.ty.shape, &ty.shape), offsets(&indices.ty.shape, &ty.shape));
    for i in 0..out.data.len() {
        let index = indices.data[at[i]];
        if index >= 0.0 && index < extent(&x.ty.shape, dim) as f64 {
            out.data[i] = x.data[from[i] + index as usize * stride(&x.ty.shape, dim)];
        }
    }
    out
}

fn scatter(updates: &Dense, indices: &Dense, ty: &TensorType, dim: DimName) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let over = &updates.ty.shape;
    let (to, at) = (offsets(&ty.shape, over), offsets(&indices.ty.shape, over));
    for i in 0..updates.data.len() {
        let index = indices.data[at[i]];
        if index >= 0.0 && index < extent(&ty.shape, dim) as f64 {
            out.data[to[i] + index as usize * stride(&ty.shape, dim)] += updates.data[i];
        }
    }
    wrap(&mut out);
    out
}

fn cumsum(x: &Dense, ty: &TensorType, op: &Cumsum) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let (size, step) = (extent(&ty.shape, op.dim), stride(&ty.shape, op.dim));
    for line in offsets(&ty.shape, &ty.shape.without(&[op.dim])) {
        for i in 0..size {
            let taken = (0..size).filter(|&j| match (op.taken.exclusive, op.taken.reverse) {
                (false, false) => j <= i,
                (true, false) => j < i,
                (false, true) => j >= i,
                (true, true) => j > i,
            });
            out.data[line + i * step] = taken.map(|j| x.data[line + j * step]).sum();
        }
    }
    wrap(&mut out);
    out
}

fn top_k(x: &Dense, op: &TopK, values: &mut Dense, indices: &mut Dense) {
    let (old, new) = (&x.ty.shape, values.ty.shape.clone());
    let lines = old.without(&[op.dim]);
    for (from, to) in offsets(old, &lines).into_iter().zip(offsets(&new, &lines)) {
        let element = |i: &usize| x.data[from + i * stride(old, op.dim)];
        let mut order: Vec<usize> = (0..extent(old, op.dim)).collect();
        order.sort_by(|a, b| {
            let ascending = compare(element(a), element(b));
            if op.order == Order::Descending { ascending.reverse() } else { ascending }
        });
        for (rank, i) in order.iter().take(op.kept.size).enumerate() {
            let to = to + rank * stride(&new, op.kept.name);
            values.data[to] = element(i);
            indices.data[to] = *i as f64;
        }
    }
}

/// NaN is the greatest, and equal to itself.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
