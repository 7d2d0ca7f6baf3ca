//! The scalar primitives on tiles: which compiled loop does an instruction.

use super::tile::{ARGS, Binary, Choose, Kind, One, Run, Two, Unary};
use crate::exec::cpu::isa::compiled;
use crate::exec::cpu::vmath;
use crate::program::{Prim, erf_inv, normal_cdf};
use std::marker::PhantomData;

/// One struct per primitive and type, so that each is its own loop.
macro_rules! unary {
    ($($name:ident { $($in:ty => $out:ty, $a:ident, $apply:expr;)* })*) => {$(
        struct $name<T>(PhantomData<T>);
        $(impl Unary for $name<$in> {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply($a: $in) -> $out { $apply }
        })*
    )*};
}

pub(super) use unary;

macro_rules! binary {
    ($($name:ident { $($in:ty => $out:ty, $a:ident $b:ident, $apply:expr;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $(impl Binary for $name<$in> {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply($a: $in, $b: $in) -> $out { $apply }
        })*
    )*};
}

unary! {
    Neg {
        f32 => f32, a, -a; f64 => f64, a, -a; i32 => i32, a, a.wrapping_neg();
    }
    Abs {
        f32 => f32, a, a.abs(); f64 => f64, a, a.abs(); i32 => i32, a, a.wrapping_abs();
    }
    Sign {
        f32 => f32, a, if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a };
        f64 => f64, a, if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a };
        i32 => i32, a, a.signum();
    }
    Floor {
        f32 => f32, a, a.floor(); f64 => f64, a, a.floor();
    }
    Ceil {
        f32 => f32, a, a.ceil(); f64 => f64, a, a.ceil();
    }
    Round {
        f32 => f32, a, a.round_ties_even(); f64 => f64, a, a.round_ties_even();
    }
    Sqrt {
        f32 => f32, a, a.sqrt(); f64 => f64, a, a.sqrt();
    }
    Rsqrt {
        f32 => f32, a, 1.0 / a.sqrt(); f64 => f64, a, 1.0 / a.sqrt();
    }
    Exp {
        f32 => f32, a, vmath::exp(a); f64 => f64, a, a.exp();
    }
    Exp2 {
        f32 => f32, a, vmath::exp2(a); f64 => f64, a, a.exp2();
    }
    Log {
        f64 => f64, a, a.ln();
    }
    Log2 {
        f64 => f64, a, a.log2();
    }
    Log10 {
        f64 => f64, a, a.log10();
    }
    Log1p {
        f32 => f32, a, vmath::log1p(a); f64 => f64, a, a.ln_1p();
    }
    Tanh {
        f32 => f32, a, vmath::tanh(a); f64 => f64, a, a.tanh();
    }
    Logistic {
        f32 => f32, a, vmath::logistic(a); f64 => f64, a, 1.0 / (1.0 + (-a).exp());
    }
    Erf {
        f32 => f32, a, vmath::erf(a); f64 => f64, a, libm::erf(a);
    }
    Erfc {
        f32 => f32, a, vmath::erfc(a); f64 => f64, a, libm::erfc(a);
    }
    ErfInv {
        f32 => f32, a, vmath::erf_inv(a); f64 => f64, a, erf_inv(a);
    }
    NormalCdf {
        f32 => f32, a, vmath::normal_cdf(a); f64 => f64, a, normal_cdf(a);
    }
    Asin {
        f32 => f32, a, vmath::asin(a); f64 => f64, a, a.asin();
    }
    Acos {
        f32 => f32, a, vmath::acos(a); f64 => f64, a, a.acos();
    }
    Sin {
        f64 => f64, a, a.sin();
    }
    Cos {
        f64 => f64, a, a.cos();
    }
    Tan {
        f64 => f64, a, a.tan();
    }
    Not {
        u8 => u8, a, u8::from(a == 0); i32 => i32, a, !a;
    }
}

/// Functions of f32 with operands that are rare: of the others, which are rare, of all.
macro_rules! with_rare {
    ($($name:ident $a:ident, $apply:expr, $rare:expr, $slow:expr;)*) => {$(
        impl Unary for $name<f32> {
            type In = f32;
            type Out = f32;
            const RARE: bool = true;
            #[inline(always)]
            fn apply($a: f32) -> f32 {
                $apply
            }
            #[inline(always)]
            fn rare($a: f32) -> bool {
                $rare
            }
            #[inline(always)]
            fn slow($a: f32) -> f32 {
                $slow
            }
        }
    )*};
}

with_rare! {
    Log a, vmath::log_normal(a), !vmath::is_normal(a), vmath::log(a);
    Log2 a, vmath::log2_normal(a), !vmath::is_normal(a), vmath::log2(a);
    Log10 a, vmath::log10_normal(a), !vmath::is_normal(a), vmath::log10(a);
    // Angles that are far from 0 go by f64.
    Sin a, vmath::sin(a), vmath::is_far(a), if vmath::is_far(a) { f64::from(a).sin() as f32 } else { vmath::sin(a) };
    Cos a, vmath::cos(a), vmath::is_far(a), if vmath::is_far(a) { f64::from(a).cos() as f32 } else { vmath::cos(a) };
    Tan a, vmath::tan(a), vmath::is_far(a), if vmath::is_far(a) { f64::from(a).tan() as f32 } else { vmath::tan(a) };
}

/// `a` in place of the quotient where `b` is 0.
#[inline(always)]
fn div_i32(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

#[inline(always)]
fn mod_i32(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

binary! {
    Add {
        f32 => f32, a b, a + b; f64 => f64, a b, a + b; i32 => i32, a b, a.wrapping_add(b);
    }
    Sub {
        f32 => f32, a b, a - b; f64 => f64, a b, a - b; i32 => i32, a b, a.wrapping_sub(b);
    }
    Mul {
        f32 => f32, a b, a * b; f64 => f64, a b, a * b; i32 => i32, a b, a.wrapping_mul(b);
    }
    Div {
        f32 => f32, a b, a / b; f64 => f64, a b, a / b; i32 => i32, a b, div_i32(a, b);
    }
    Mod {
        f32 => f32, a b, a - b * (a / b).floor();
        f64 => f64, a b, a - b * (a / b).floor();
        i32 => i32, a b, mod_i32(a, b);
    }
    Pow {
        f32 => f32, a b, vmath::pow(a, b); f64 => f64, a b, a.powf(b);
    }
    Max {
        f32 => f32, a b, vmath::max_f32(a, b);
        f64 => f64, a b, vmath::max_f64(a, b);
        i32 => i32, a b, a.max(b);
    }
    Min {
        f32 => f32, a b, vmath::min_f32(a, b);
        f64 => f64, a b, vmath::min_f64(a, b);
        i32 => i32, a b, a.min(b);
    }
    Atan2 {
        f32 => f32, a b, vmath::atan2(a, b); f64 => f64, a b, a.atan2(b);
    }
    Copysign {
        f32 => f32, a b, vmath::copysign_f32(a, b); f64 => f64, a b, vmath::copysign_f64(a, b);
    }
    And {
        u8 => u8, a b, a & b; i32 => i32, a b, a & b;
    }
    Or {
        u8 => u8, a b, a | b; i32 => i32, a b, a | b;
    }
    Xor {
        u8 => u8, a b, a ^ b; i32 => i32, a b, a ^ b;
    }
    Shl {
        i32 => i32, a b, if b as u32 > 31 { 0 } else { a << (b & 31) };
    }
    Shr {
        i32 => i32, a b, a >> if b as u32 > 31 { 31 } else { b };
    }
    Eq {
        f32 => u8, a b, u8::from(a == b); f64 => u8, a b, u8::from(a == b);
        i32 => u8, a b, u8::from(a == b); u8 => u8, a b, u8::from(a == b);
    }
    Ne {
        f32 => u8, a b, u8::from(a != b); f64 => u8, a b, u8::from(a != b);
        i32 => u8, a b, u8::from(a != b); u8 => u8, a b, u8::from(a != b);
    }
    Lt {
        f32 => u8, a b, u8::from(a < b); f64 => u8, a b, u8::from(a < b);
        i32 => u8, a b, u8::from(a < b); u8 => u8, a b, u8::from(a < b);
    }
    Le {
        f32 => u8, a b, u8::from(a <= b); f64 => u8, a b, u8::from(a <= b);
        i32 => u8, a b, u8::from(a <= b); u8 => u8, a b, u8::from(a <= b);
    }
}

pub(super) fn one<O: Unary>() -> Run {
    compiled::<One<O>>()
}

/// A number of f32 times a function of it.
struct Gate<O>(PhantomData<O>);

impl<O: Unary<In = f32, Out = f32>> Unary for Gate<O> {
    type In = f32;
    type Out = f32;
    #[inline(always)]
    fn apply(a: f32) -> f32 {
        a * O::apply(a)
    }
}

/// The loop for a number of f32 times this function of it.
pub(super) fn gate(function: Prim) -> Option<Run> {
    Some(match function {
        Prim::Logistic => one::<Gate<Logistic<f32>>>(),
        Prim::NormalCdf => one::<Gate<NormalCdf<f32>>>(),
        _ => return None,
    })
}

pub(super) fn two<O: Binary>(uniform: [bool; ARGS]) -> Run {
    match (uniform[0], uniform[1]) {
        (true, false) => compiled::<Two<O, true, false>>(),
        (false, true) => compiled::<Two<O, false, true>>(),
        _ => compiled::<Two<O, false, false>>(),
    }
}

fn choose<T: Copy>(uniform: [bool; ARGS]) -> Run {
    match (uniform[1], uniform[2]) {
        (false, false) => compiled::<Choose<T, false, false>>(),
        (true, false) => compiled::<Choose<T, true, false>>(),
        (false, true) => compiled::<Choose<T, false, true>>(),
        (true, true) => compiled::<Choose<T, true, true>>(),
    }
}

/// The loop for a primitive on arguments held as `kind` (for `Select`: the alternatives), and which
/// argument goes where. `uniform` tells which arguments have one element; if all have, ask with
/// none uniform and run it on one element.
pub(in crate::exec::cpu) fn apply(
    prim: Prim,
    kind: Kind,
    uniform: [bool; ARGS],
) -> Option<(Run, [usize; ARGS])> {
    use Kind::{Bool, F32, F64, I32};
    macro_rules! floats {
        ($name:ident) => {
            match kind {
                F32 => one::<$name<f32>>(),
                F64 => one::<$name<f64>>(),
                _ => return None,
            }
        };
    }
    macro_rules! numbers {
        ($pick:ident $name:ident $(, $uniform:expr)?) => {
            match kind {
                F32 => $pick::<$name<f32>>($($uniform)?),
                F64 => $pick::<$name<f64>>($($uniform)?),
                I32 => $pick::<$name<i32>>($($uniform)?),
                Bool => return None,
            }
        };
    }
    macro_rules! compare {
        ($name:ident, $uniform:expr) => {
            match kind {
                F32 => two::<$name<f32>>($uniform),
                F64 => two::<$name<f64>>($uniform),
                I32 => two::<$name<i32>>($uniform),
                Bool => two::<$name<u8>>($uniform),
            }
        };
    }
    let swapped = [uniform[1], uniform[0], uniform[2], uniform[3]];
    macro_rules! bits {
        ($pick:ident $name:ident $(, $uniform:expr)?) => {
            match kind {
                Bool => $pick::<$name<u8>>($($uniform)?),
                I32 => $pick::<$name<i32>>($($uniform)?),
                _ => return None,
            }
        };
    }
    let run = match prim {
        Prim::Neg => numbers!(one Neg),
        Prim::Abs => numbers!(one Abs),
        Prim::Sign => numbers!(one Sign),
        Prim::Floor => floats!(Floor),
        Prim::Ceil => floats!(Ceil),
        Prim::Round => floats!(Round),
        Prim::Sqrt => floats!(Sqrt),
        Prim::Rsqrt => floats!(Rsqrt),
        Prim::Exp => floats!(Exp),
        Prim::Exp2 => floats!(Exp2),
        Prim::Log => floats!(Log),
        Prim::Log2 => floats!(Log2),
        Prim::Log10 => floats!(Log10),
        Prim::Log1p => floats!(Log1p),
        Prim::Tanh => floats!(Tanh),
        Prim::Logistic => floats!(Logistic),
        Prim::Erf => floats!(Erf),
        Prim::Erfc => floats!(Erfc),
        Prim::ErfInv => floats!(ErfInv),
        Prim::NormalCdf => floats!(NormalCdf),
        Prim::Sin => floats!(Sin),
        Prim::Cos => floats!(Cos),
        Prim::Tan => floats!(Tan),
        Prim::Asin => floats!(Asin),
        Prim::Acos => floats!(Acos),
        Prim::Not => bits!(one Not),
        Prim::Add => numbers!(two Add, uniform),
        Prim::Sub => numbers!(two Sub, uniform),
        Prim::Mul => numbers!(two Mul, uniform),
        Prim::Div => numbers!(two Div, uniform),
        Prim::Mod => numbers!(two Mod, uniform),
        Prim::Max => numbers!(two Max, uniform),
        Prim::Min => numbers!(two Min, uniform),
        Prim::Pow => match kind {
            F32 => two::<Pow<f32>>(uniform),
            F64 => two::<Pow<f64>>(uniform),
            _ => return None,
        },
        Prim::Atan2 => match kind {
            F32 => two::<Atan2<f32>>(uniform),
            F64 => two::<Atan2<f64>>(uniform),
            _ => return None,
        },
        Prim::Copysign => match kind {
            F32 => two::<Copysign<f32>>(uniform),
            F64 => two::<Copysign<f64>>(uniform),
            _ => return None,
        },
        Prim::And => bits!(two And, uniform),
        Prim::Or => bits!(two Or, uniform),
        Prim::Xor => bits!(two Xor, uniform),
        Prim::Shl if kind == I32 => two::<Shl<i32>>(uniform),
        Prim::Shr if kind == I32 => two::<Shr<i32>>(uniform),
        Prim::Shl | Prim::Shr => return None,
        Prim::Eq => compare!(Eq, uniform),
        Prim::Ne => compare!(Ne, uniform),
        Prim::Lt => compare!(Lt, uniform),
        Prim::Le => compare!(Le, uniform),
        Prim::Gt => return Some((compare!(Lt, swapped), [1, 0, 2, 3])),
        Prim::Ge => return Some((compare!(Le, swapped), [1, 0, 2, 3])),
        Prim::Select => match kind.size() {
            1 => choose::<u8>(uniform),
            4 => choose::<u32>(uniform),
            _ => choose::<u64>(uniform),
        },
        Prim::Cast => return None,
    };
    Some((run, [0, 1, 2, 3]))
}
