//! Ops that move, combine or reduce elements of different indices.

use super::dense::{offsets, stride};
use super::{Dense, random, windows};
use crate::concat::Concat;
use crate::conv::Convolution;
use crate::pad::Pad;
use crate::random::Random;
use crate::shift::Shift;
use crate::slice::Slice;
use crate::stack::Stack;
use crate::unstack::Pick;
use crate::windows::{Windows, overlap::OverlapAdd};
use mesh_core::graph::{DynOp, TensorType};
use mesh_core::names::{DType, DimName, Shape};

/// `None` for an op that is not one of these.
pub(super) fn meaning(
    op: &dyn DynOp,
    inputs: &[&Dense],
    ty: &TensorType,
) -> Option<Result<Dense, String>> {
    let any = op.as_any();
    if let Some(slice) = any.downcast_ref::<Slice>() {
        return Some(Ok(moved(inputs[0], ty, slice.dim.name, |i| i + slice.begin as i64)));
    }
    if let Some(pad) = any.downcast_ref::<Pad>() {
        return Some(Ok(moved(inputs[0], ty, pad.dim, |i| i - pad.low as i64)));
    }
    if let Some(shift) = any.downcast_ref::<Shift>() {
        let size = ty.shape.get(shift.dim).map_or(1, |d| d.size as i64);
        let from = |i: i64| i - shift.offset;
        let wrapped = |i: i64| from(i).rem_euclid(size);
        return Some(Ok(if shift.wrap {
            moved(inputs[0], ty, shift.dim, wrapped)
        } else {
            moved(inputs[0], ty, shift.dim, from)
        }));
    }
    if let Some(concat) = any.downcast_ref::<Concat>() {
        return Some(Ok(concatenated(inputs, ty, concat.dim)));
    }
    if let Some(convolution) = any.downcast_ref::<Convolution>() {
        return Some(windows::product(convolution, inputs, ty));
    }
    if let Some(stack) = any.downcast_ref::<Stack>() {
        return Some(Ok(stacked(inputs, ty, stack.dim)));
    }
    if let Some(pick) = any.downcast_ref::<Pick>() {
        let at = pick.index * stride(&inputs[0].ty.shape, pick.dim);
        let read = offsets(&inputs[0].ty.shape, &ty.shape);
        let data = read.iter().map(|i| inputs[0].data[i + at]).collect();
        return Some(Ok(Dense { ty: ty.clone(), data }));
    }
    if let Some(op) = any.downcast_ref::<Random>() {
        return Some(Ok(random::numbers(op, inputs, ty)));
    }
    if let Some(op) = any.downcast_ref::<Windows>() {
        return Some(Ok(windows::framed(op, inputs[0], ty)));
    }
    if let Some(op) = any.downcast_ref::<OverlapAdd>() {
        let mut sum = windows::overlapped(op, inputs[0], ty);
        wrap(&mut sum);
        return Some(Ok(sum));
    }
    Some(match (op.name(), inputs) {
        ("einsum", [a, b]) => einsum(a, b, ty),
        ("reshape", [x]) => Ok(Dense { ty: ty.clone(), data: x.data.clone() }),
        ("broadcast" | "transpose", [x]) => Ok(permuted(x, ty)),
        ("sum", [x]) => Ok(reduce(x, ty, 0.0, |a, b| a + b)),
        ("prod", [x]) => Ok(reduce(x, ty, 1.0, |a, b| a * b)),
        ("max" | "any", [x]) => Ok(reduce(x, ty, f64::NEG_INFINITY, greater)),
        ("min" | "all", [x]) => Ok(reduce(x, ty, f64::INFINITY, |a, b| -greater(-a, -b))),
        ("range", []) => {
            Ok(Dense { ty: ty.clone(), data: (0..ty.shape.size()).map(|i| i as f64).collect() })
        }
        _ => return None,
    })
}

/// The greater; NaN if either is.
fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Under the dims of `ty`: reordered, and repeated along dims that `x` lacks.
pub(super) fn permuted(x: &Dense, ty: &TensorType) -> Dense {
    let data = offsets(&x.ty.shape, &ty.shape).into_iter().map(|at| x.data[at]).collect();
    Dense { ty: ty.clone(), data }
}

/// Each element from another position along one dim; 0 from beyond the ends.
fn moved(x: &Dense, ty: &TensorType, dim: DimName, from: impl Fn(i64) -> i64) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let (old, new) = (x.ty.shape.get(dim), ty.shape.get(dim));
    let (Some(old), Some(new)) = (old, new) else { return out };
    // Everything but the dim, at 0 along it; then step by step along it.
    let rest = ty.shape.without(&[dim]);
    let step = |shape: &Shape| stride(shape, dim);
    let (read, write) = (offsets(&x.ty.shape, &rest), offsets(&ty.shape, &rest));
    for i in 0..new.size {
        let j = from(i as i64);
        if !(0..old.size as i64).contains(&j) {
            continue;
        }
        for (read, write) in read.iter().zip(&write) {
            let at = read + j as usize * step(&x.ty.shape);
            out.data[write + i * step(&ty.shape)] = x.data[at];
        }
    }
    out
}

fn concatenated(inputs: &[&Dense], ty: &TensorType, dim: DimName) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let mut begin = 0;
    for x in inputs {
        let part = moved(x, ty, dim, |i| i - begin);
        for (out, part) in out.data.iter_mut().zip(part.data) {
            *out += part;
        }
        begin += x.ty.shape.get(dim).map_or(0, |d| d.size as i64);
    }
    out
}

fn stacked(inputs: &[&Dense], ty: &TensorType, dim: DimName) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let rest = ty.shape.without(&[dim]);
    for (i, x) in inputs.iter().enumerate() {
        let at = i * stride(&ty.shape, dim);
        for (write, read) in offsets(&ty.shape, &rest).iter().zip(offsets(&x.ty.shape, &rest)) {
            out.data[write + at] = x.data[read];
        }
    }
    out
}

/// A result of i32 arithmetic, wrapped; what fits f64 exactly is wrapped exactly.
pub(super) fn wrap(dense: &mut Dense) {
    if dense.ty.dtype == DType::I32 {
        for x in &mut dense.data {
            *x = f64::from(*x as i64 as i32);
        }
    }
}

fn reduce(x: &Dense, ty: &TensorType, start: f64, fold: fn(f64, f64) -> f64) -> Dense {
    let mut out = Dense::filled(ty.clone(), start);
    for (&element, at) in x.data.iter().zip(offsets(&ty.shape, &x.ty.shape)) {
        out.data[at] = fold(out.data[at], element);
    }
    wrap(&mut out);
    out
}

fn einsum(a: &Dense, b: &Dense, ty: &TensorType) -> Result<Dense, String> {
    let all: Shape = a.ty.shape.union(&b.ty.shape).map_err(|error| error.to_string())?;
    let [of_a, of_b, of_out] = [&a.ty.shape, &b.ty.shape, &ty.shape].map(|s| offsets(s, &all));
    let mut out = Dense::zeros(ty.clone());
    for ((&a_at, &b_at), &out_at) in of_a.iter().zip(&of_b).zip(&of_out) {
        out.data[out_at] += a.data[a_at] * b.data[b_at];
    }
    wrap(&mut out);
    Ok(out)
}
