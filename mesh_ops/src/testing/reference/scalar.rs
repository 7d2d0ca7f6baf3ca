//! What elementwise ops mean for one element.

use mesh_core::names::DType;

type Function = fn(&[f64]) -> f64;

/// The function of an op's name; `None` for a name that is not known. `inputs` and `output` are
/// dtypes.
pub(super) fn function(name: &str, inputs: &[DType], output: DType) -> Option<Function> {
    let integers = inputs.iter().all(|&dtype| dtype == DType::I32);
    match inputs.len() {
        1 if name == "cast" => Some(cast(inputs[0], output)),
        1 => unary(name),
        2 if integers && output == DType::I32 => integer(name).or_else(|| binary(name)),
        2 => binary(name),
        3 => ternary(name),
        _ => None,
    }
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
        "ceil" => |x| x[0].ceil(),
        "sqrt" => |x| x[0].sqrt(),
        "rsqrt" => |x| 1.0 / x[0].sqrt(),
        "reciprocal" => |x| 1.0 / x[0],
        "square" => |x| x[0] * x[0],
        "exp" => |x| x[0].exp(),
        "log" => |x| x[0].ln(),
        "log1p" => |x| x[0].ln_1p(),
        "expm1" => |x| x[0].exp_m1(),
        "sin" => |x| x[0].sin(),
        "cos" => |x| x[0].cos(),
        "tanh" => |x| x[0].tanh(),
        "sigmoid" | "logistic" => |x| sigmoid(x[0]),
        "swish" | "silu" => |x| x[0] * sigmoid(x[0]),
        "softplus" => |x| x[0].max(0.0) + (-x[0].abs()).exp().ln_1p(),
        "relu" => |x| x[0].max(0.0),
        "not" => |x| 1.0 - x[0],
        _ => return None,
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn binary(name: &str) -> Option<Function> {
    Some(match name {
        "add" => |x| x[0] + x[1],
        "sub" => |x| x[0] - x[1],
        "mul" => |x| x[0] * x[1],
        "div" => |x| x[0] / x[1],
        "mod" | "modulo" => |x| x[0] - x[1] * (x[0] / x[1]).floor(),
        "pow" => |x| x[0].powf(x[1]),
        "max" | "maximum" => |x| if x[0].is_nan() { x[0] } else if x[1] > x[0] { x[1] } else { x[0] },
        "min" | "minimum" => |x| if x[0].is_nan() { x[0] } else if x[1] < x[0] { x[1] } else { x[0] },
        "and" => |x| x[0] * x[1],
        "or" => |x| x[0].max(x[1]),
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
        "mod" | "modulo" => |x| match (x[0] as i64, x[1] as i64) {
            (_, 0) => 0.0,
            (a, b) => (a - b * (a as f64 / b as f64).floor() as i64) as f64,
        },
        _ => return None,
    })
}

fn ternary(name: &str) -> Option<Function> {
    Some(match name {
        "select" | "where" => |x| if x[0] != 0.0 { x[1] } else { x[2] },
        "clamp" => |x| x[0].max(x[1]).min(x[2]),
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
