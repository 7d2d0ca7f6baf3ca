//! Elementwise ops: a scalar function applied to every element, broadcasting by name.
//!
//! | shape | the union of the inputs' dims, first come first |
//! |---|---|
//! | split | every dim parallel |
//! | linear | as the room says |
//! | gradient | the scalar derivative, summed to each input's dims |
//!
//! A room states the scalar function as an expression of the program's primitives, so it fuses,
//! runs in every dtype and can be spelled in StableHLO.

mod activations;
mod arithmetic;
mod bases;
mod bits;
mod cast;
mod compare;
mod division;
mod elu;
mod exponential;
mod extrema;
mod hyperbolic;
mod hypot;
mod logical;
mod powers;
mod predicates;
mod relu;
pub(crate) mod select;
mod sigmoid;
mod special;
mod steps;
#[cfg(test)]
mod tests;
mod trigonometric;
mod unary;

rooms! {
    arithmetic: add, div, lerp, mul, neg, sub;
    division: floordiv, modulo;
    powers: cbrt, pow, powf, reciprocal, rsqrt, sqrt, square;
    hypot: hypot;
    exponential: exp, expm1, log, log1mexp, log1p;
    bases: exp2, log10, log2, logaddexp, xlogy;
    trigonometric: acos, asin, atan, atan2, cos, sin, tan;
    hyperbolic: acosh, asinh, atanh, cosh, sinh;
    special: digamma, erfinv, lgamma;
    sigmoid: erf, erfc, gelu, gelu_exact, sigmoid, softplus, swish, tanh;
    relu: relu;
    elu: elu, leaky_relu, selu;
    activations: celu, hard_sigmoid, hard_swish, hard_tanh, log_sigmoid, mish, prelu, relu6, softsign;
    steps: abs, ceil, floor, round, sign, trunc;
    extrema: clip, maximum, minimum;
    cast: cast;
    compare: equal, greater, greater_equal, less, less_equal, not_equal;
    logical: logical_and, logical_not, logical_or, logical_xor;
    predicates: copysign, is_finite, is_inf, is_nan, nan_to_num;
    bits: bit_and, bit_not, bit_or, bit_xor, shift_left, shift_right;
    select: select;
}

use crate::room::*;
use mesh_core::program::{Expr, Scalar};
use std::fmt::Debug;
use std::hash::Hash;

/// How a function is linear, and in which sets of inputs.
pub(crate) type Linear = (Linearity, &'static [&'static [usize]]);

/// Linear in no input.
const NOT_LINEAR: Linear = (Linearity::Multiplies, &[]);

/// What an elementwise room states.
pub(crate) trait Elementwise: Debug + Eq + Hash + Send + Sync + 'static {
    /// Name and number of inputs.
    const NAME: &'static str;
    const ARITY: usize;

    /// The result's dtype, or why these dtypes are refused. By default one float dtype.
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        float(Self::NAME, inputs)
    }

    /// The function of one element of each input.
    fn expr(&self, x: Vec<Expr>) -> Expr;

    /// The input sets it is jointly linear in, and how.
    fn linear(&self, _inputs: &[DType]) -> Linear {
        NOT_LINEAR
    }

    /// Derivative with respect to each input times `dy`, over the output's dims; the summing to
    /// the inputs' dims is done for the room.
    fn gradient<'g>(&self, x: &[Tensor<'g>], y: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g>;
}

/// An elementwise room as an op.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Map<T>(pub(crate) T);

impl<T: Elementwise> Op for Map<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        if inputs.len() != T::ARITY {
            return Err(OpError::arity(T::NAME, T::ARITY, inputs.len()));
        }
        let dtypes: Vec<_> = inputs.iter().map(|t| t.dtype).collect();
        let dtype = self.0.dtype(&dtypes)?;
        Ok(vec![TensorType::new(broadcast_shape(inputs)?, dtype)])
    }

    fn split(&self, io: Signature<'_>) -> SplitRule {
        let dtypes: Vec<_> = io.inputs.iter().map(|t| t.dtype).collect();
        let (how, sets) = self.0.linear(&dtypes);
        SplitRule::parallel().linear(how, sets)
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let expr = self.0.expr((0..T::ARITY as u8).map(Expr::input).collect());
        let (shape, mut inputs, dtype) = (cx.output_shape(0), cx.inputs(), cx.output_dtype(0));
        let declared = cx.signature().outputs[0].dtype;
        // A carried sum is held in a wider dtype; what it meets is widened to that.
        for input in inputs.iter_mut().filter(|_| dtype != declared) {
            if cx.dtype(input) == declared {
                *input = cx.cast(input, dtype)?;
            }
        }
        let out = cx.map_over(&shape, &inputs, &expr, dtype)?;
        cx.finish(0, out)
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let x: Vec<_> = (0..cx.arity()).map(|i| cx.input(i)).collect();
        let grads = self.0.gradient(&x, cx.output(0), cx.dy())?;
        let onto = |(grad, x): (Option<Tensor<'g>>, &Tensor<'g>)| {
            grad.map(|grad| crate::reduce::sum_onto(grad, &x.shape()))
        };
        Ok(grads.into_iter().zip(&x).map(onto).collect())
    }
}

/// Dims by name: the shape that has all, in its order; else the first's dims, then new ones.
pub(crate) fn broadcast_shape(inputs: &[TensorType]) -> Result<Shape, OpError> {
    let all = inputs.iter().find(|t| {
        inputs.iter().all(|other| other.shape.iter().all(|d| t.shape.get(d.name) == Some(d)))
    });
    if let Some(all) = all {
        return Ok(all.shape.clone());
    }
    let mut shape = Shape::scalar();
    for input in inputs {
        shape = shape.union(&input.shape)?;
    }
    Ok(shape)
}

/// One dtype for all inputs.
pub(crate) fn same(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    let first = inputs.first().copied().unwrap_or_default();
    match inputs.iter().find(|&&dtype| dtype != first) {
        None => Ok(first),
        Some(other) => Err(OpError::new(format!(
            "{op} needs inputs of one dtype, not {first} and {other}; cast one of them"
        ))),
    }
}

/// One float dtype for all inputs.
pub(crate) fn float(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    let dtype = same(op, inputs)?;
    if dtype.is_float() {
        Ok(dtype)
    } else {
        Err(OpError::new(format!("{op} needs floats, not {dtype}; cast it")))
    }
}

/// One dtype for all inputs, numbers.
pub(crate) fn number(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    let dtype = same(op, inputs)?;
    if dtype == DType::Bool {
        Err(OpError::new(format!("{op} needs numbers, not bool; cast it")))
    } else {
        Ok(dtype)
    }
}

/// Applies a room to tensors.
#[track_caller]
pub(crate) fn map<'g, T: Elementwise>(op: T, inputs: &[Tensor<'g>]) -> Tensor<'g> {
    inputs[0].graph().apply1(Map(op), inputs)
}

/// That an op's attribute is a number of the op's dtype.
pub(crate) fn holds(op: &str, dtype: DType, value: f64) -> Result<DType, OpError> {
    match Scalar::checked(dtype, value) {
        Ok(_) => Ok(dtype),
        Err(problem) => Err(OpError::new(format!("{op}: {problem}"))),
    }
}
