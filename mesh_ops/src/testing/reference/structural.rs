//! Ops that move, combine or reduce elements of different indices.

use super::Dense;
use super::dense::offsets;
use mesh_core::graph::{DynOp, TensorType};
use mesh_core::names::{DType, Shape};

/// `None` for an op that is not one of these.
pub(super) fn meaning(
    op: &dyn DynOp,
    inputs: &[&Dense],
    ty: &TensorType,
) -> Option<Result<Dense, String>> {
    Some(match (op.name(), inputs) {
        ("einsum", [a, b]) => einsum(a, b, ty),
        ("broadcast" | "transpose", [x]) => Ok(permuted(x, ty)),
        ("sum", [x]) => Ok(reduce(x, ty, 0.0, |a, b| a + b)),
        ("prod", [x]) => Ok(reduce(x, ty, 1.0, |a, b| a * b)),
        ("max" | "any", [x]) => Ok(reduce(x, ty, f64::NEG_INFINITY, greater)),
        ("min" | "all", [x]) => Ok(reduce(x, ty, f64::INFINITY, |a, b| -greater(-a, -b))),
        ("range", []) => Ok(Dense { ty: ty.clone(), data: (0..ty.shape.size()).map(|i| i as f64).collect() }),
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

/// A result of i32 arithmetic, wrapped; what fits f64 exactly is wrapped exactly.
fn wrap(dense: &mut Dense) {
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
