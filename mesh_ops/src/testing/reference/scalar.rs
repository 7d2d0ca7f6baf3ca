//! What elementwise ops mean for one element.

use super::random::below;
use crate::elementwise::elu::{LeakyRelu, LeakyReluGradient};
use crate::elementwise::extrema::{Clip, ClipGradient, Won};
use crate::elementwise::powers::Powf;
use crate::elementwise::select::Chosen;
use crate::elementwise::{Elementwise, Map};
use crate::random::dropout::Dropped;
use mesh_core::graph::DynOp;
use mesh_core::names::DType;
use std::f64::consts::{PI, SQRT_2};

type Function = fn(&[f64]) -> f64;
type Closure = Box<dyn Fn(&[f64]) -> f64>;

/// The function of an op; `None` for one that is not known. `inputs` and `output` are dtypes.
pub(super) fn function(op: &dyn DynOp, inputs: &[DType], output: DType) -> Option<Closure> {
    if let Some(function) = with_attributes(op) {
        return Some(function);
    }
    let (name, integers) = (op.name(), output == DType::I32 && inputs == [DType::I32; 2]);
    let function = match inputs.len() {
        _ if name == "add_n" && output == DType::I32 => Some(wrapped_sum as Function),
        _ if name == "add_n" => Some((|x| x.iter().sum()) as Function),
        1 if name == "cast" => Some(cast(inputs[0], output)),
        1 if name == "square" && output == DType::I32 => Some(square as Function),
        1 => unary(name),
        2 if integers => integer(name).or_else(|| binary(name)),
        2 => binary(name),
        3 => ternary(name),
        _ => None,
    };
    Some(Box::new(function?))
}

/// The room's description behind an elementwise op.
fn room<T: Elementwise>(op: &dyn DynOp) -> Option<&T> {
    op.as_any().downcast_ref::<Map<T>>().map(|map| &map.0)
}

/// Ops whose names and types do not say all.
fn with_attributes(op: &dyn DynOp) -> Option<Closure> {
    let slope = |x: f64, alpha| if x > 0.0 { 1.0 } else { alpha };
    if let Some(LeakyRelu(alpha)) = room(op) {
        let alpha = alpha.value();
        return Some(Box::new(move |x| x[0] * slope(x[0], alpha)));
    }
    if let Some(LeakyReluGradient(alpha)) = room(op) {
        let alpha = alpha.value();
        return Some(Box::new(move |x| x[1] * slope(x[0], alpha)));
    }
    if let Some(&Clip { low, high }) = room::<Clip>(op) {
        let (low, high) = (low.value(), high.value());
        return Some(Box::new(move |x| if x[0].is_nan() { x[0] } else { x[0].clamp(low, high) }));
    }
    if let Some(&ClipGradient { low, high }) = room::<ClipGradient>(op) {
        let inside = low.value()..=high.value();
        return Some(Box::new(move |x| if inside.contains(&x[0]) { x[1] } else { 0.0 }));
    }
    if let Some(won) = room::<Won>(op) {
        let sign = if *won == Won::Maximum { 1.0 } else { -1.0 };
        return Some(Box::new(move |x| match (sign * x[0]).partial_cmp(&(sign * x[1])) {
            Some(std::cmp::Ordering::Greater) => x[2],
            Some(std::cmp::Ordering::Equal) => 0.5 * x[2],
            _ => 0.0,
        }));
    }
    if let Some(Powf(power)) = room(op) {
        let power = power.value();
        return Some(Box::new(move |x| x[0].powf(power)));
    }
    if let Some(&dropped) = room::<Dropped>(op) {
        let keep = dropped.keep.value();
        let scale = if dropped.dtype.is_float() { 1.0 / keep } else { 1.0 };
        let below = f64::from(keep as f32);
        return Some(Box::new(move |x| if x[1] < below { x[0] * scale } else { 0.0 }));
    }
    if let Some(&Chosen { when }) = room::<Chosen>(op) {
        return Some(Box::new(move |x| if (x[0] != 0.0) == when { x[1] } else { 0.0 }));
    }
    None
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn unary(name: &str) -> Option<Function> {
    Some(match name {
        "neg" => |x| -x[0],
        "abs" => |x| x[0].abs(),
        "sign" => |x| if x[0] == 0.0 { 0.0 } else { x[0].signum() },
        "floor" => |x| x[0].floor(),
        "sqrt" => |x| x[0].sqrt(),
        "rsqrt" => |x| 1.0 / x[0].sqrt(),
        "reciprocal" => |x| 1.0 / x[0],
        "square" => |x| x[0] * x[0],
        "exp" => |x| x[0].exp(),
        "log" => |x| x[0].ln(),
        "expm1" => |x| x[0].exp_m1(),
        "log1p" => |x| x[0].ln_1p(),
        "erf" => |x| erf(x[0]),
        "erfc" => |x| 2.0 * below(-x[0] * SQRT_2),
        "gelu_exact" => |x| 0.5 * x[0] * (1.0 + erf(x[0] / SQRT_2)),
        "sin" => |x| x[0].sin(),
        "cos" => |x| x[0].cos(),
        "tanh" => |x| x[0].tanh(),
        "elu" => |x| if x[0] > 0.0 { x[0] } else { x[0].exp_m1() },
        "selu" => |x| {
            1.0507009873554805 * if x[0] > 0.0 { x[0] } else { 1.6732632423543772 * x[0].exp_m1() }
        },
        "gelu" => |x| {
            let inner = (2.0 / PI).sqrt() * (x[0] + 0.044715 * x[0].powi(3));
            0.5 * x[0] * (1.0 + inner.tanh())
        },
        "sigmoid" => |x| sigmoid(x[0]),
        "swish" => |x| x[0] * sigmoid(x[0]),
        "softplus" => |x| x[0].max(0.0) + (-x[0].abs()).exp().ln_1p(),
        "relu" => |x| x[0].max(0.0),
        "logical_not" => |x| 1.0 - x[0],
        _ => return None,
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn erf(x: f64) -> f64 {
    2.0 * below(x * SQRT_2) - 1.0
}

/// NaN if either is.
fn extreme(a: f64, b: f64, first: bool) -> f64 {
    match (a.is_nan() || b.is_nan(), first) {
        (true, _) => f64::NAN,
        (false, true) => a,
        (false, false) => b,
    }
}

fn wrapped_sum(x: &[f64]) -> f64 {
    f64::from(x.iter().fold(0, |sum: i32, &x| sum.wrapping_add(x as i32)))
}

fn square(x: &[f64]) -> f64 {
    f64::from((x[0] as i32).wrapping_mul(x[0] as i32))
}

fn binary(name: &str) -> Option<Function> {
    Some(match name {
        "add" => |x| x[0] + x[1],
        "sub" => |x| x[0] - x[1],
        "mul" => |x| x[0] * x[1],
        "div" => |x| x[0] / x[1],
        "floordiv" => |x| (x[0] / x[1]).floor(),
        "modulo" => |x| x[0] - x[1] * (x[0] / x[1]).floor(),
        "pow" => |x| x[0].powf(x[1]),
        "maximum" => |x| extreme(x[0], x[1], x[0] > x[1]),
        "minimum" => |x| extreme(x[0], x[1], x[0] < x[1]),
        "logical_and" => |x| x[0] * x[1],
        "logical_or" => |x| x[0].max(x[1]),
        "equal" => |x| truth(x[0] == x[1]),
        "not_equal" => |x| truth(x[0] != x[1]),
        "less" => |x| truth(x[0] < x[1]),
        "less_equal" => |x| truth(x[0] <= x[1]),
        "greater" => |x| truth(x[0] > x[1]),
        "greater_equal" => |x| truth(x[0] >= x[1]),
        // The output and its cotangent.
        "relu_gradient" => |x| if x[0] > 0.0 { x[1] } else { 0.0 },
        _ => return None,
    })
}

/// Arithmetic of i32: it wraps, and division by 0 is 0.
fn integer(name: &str) -> Option<Function> {
    Some(match name {
        "add" => |x| f64::from((x[0] as i32).wrapping_add(x[1] as i32)),
        "sub" => |x| f64::from((x[0] as i32).wrapping_sub(x[1] as i32)),
        "mul" => |x| f64::from((x[0] as i32).wrapping_mul(x[1] as i32)),
        "div" => |x| match (x[0] as i32, x[1] as i32) {
            (_, 0) => 0.0,
            (a, b) => f64::from(a.wrapping_div(b)),
        },
        "floordiv" => |x| if x[1] == 0.0 { 0.0 } else { (x[0] / x[1]).floor() },
        "modulo" => |x| if x[1] == 0.0 { 0.0 } else { x[0] - x[1] * (x[0] / x[1]).floor() },
        _ => return None,
    })
}

fn ternary(name: &str) -> Option<Function> {
    Some(match name {
        "select" => |x| if x[0] != 0.0 { x[1] } else { x[2] },
        _ => return None,
    })
}

/// Between dtypes: to i32 towards zero, saturating, 0 of NaN; to bool whether not 0. Floats stay
/// unrounded, as everywhere in the reference.
fn cast(from: DType, to: DType) -> Function {
    match (from, to) {
        (_, DType::Bool) => |x| truth(x[0] != 0.0),
        (from, DType::I32) if from.is_float() => |x| f64::from(x[0] as i32),
        _ => |x| x[0],
    }
}
