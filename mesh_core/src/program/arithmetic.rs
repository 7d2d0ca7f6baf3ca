//! What scalar primitives and folds mean, on numbers held as f64: every number of every dtype is exact
//! there. Truth values are 0 and 1.

use super::{Body, Instr, Prim, Scalar};
use crate::names::{DType, ReduceKind};

/// A number rounded to a dtype; i32 wraps.
pub(crate) fn rounded(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::I32 => f64::from(x as i64 as i32),
        _ => Scalar::new(dtype, x).value(),
    }
}

/// The dtype in which sums are exact enough to be rounded once: f64 for floats.
pub(crate) fn widest(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

impl Prim {
    /// The primitive on arguments of a dtype (for `Select`: the alternatives), each result rounded to
    /// it; bf16 is held, and rounded to, f32. A cast is [`cast`].
    ///
    /// Functions that no dtype computes exactly are meant as f64 has them.
    pub(crate) fn apply(self, dtype: DType, [a, b, c]: [f64; 3]) -> f64 {
        let whole = dtype == DType::I32;
        let held = |x: f64| rounded(dtype.reduction(), x);
        let truth = |x: bool| f64::from(u8::from(x));
        held(match self {
            Self::Neg => -a,
            Self::Abs => a.abs(),
            Self::Sign if a > 0.0 => 1.0,
            Self::Sign if a < 0.0 => -1.0,
            Self::Sign | Self::Cast => a,
            Self::Floor => a.floor(),
            Self::Ceil => a.ceil(),
            Self::Round => a.round_ties_even(),
            Self::Sqrt => a.sqrt(),
            Self::Rsqrt => 1.0 / a.sqrt(),
            Self::Exp => a.exp(),
            Self::Exp2 => a.exp2(),
            Self::Log => a.ln(),
            Self::Log2 => a.log2(),
            Self::Log10 => a.log10(),
            Self::Log1p => a.ln_1p(),
            Self::Tanh => a.tanh(),
            Self::Logistic => 1.0 / (1.0 + (-a).exp()),
            Self::Sin => a.sin(),
            Self::Cos => a.cos(),
            Self::Tan => a.tan(),
            Self::Asin => a.asin(),
            Self::Acos => a.acos(),
            Self::Erf => libm::erf(a),
            Self::Erfc => libm::erfc(a),
            Self::ErfInv => erf_inv(a),
            Self::NormalCdf => normal_cdf(a),
            Self::Pow => a.powf(b),
            Self::Atan2 => a.atan2(b),
            Self::Copysign => copysign(a, b),
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul if whole => f64::from((a as i32).wrapping_mul(b as i32)),
            Self::Mul => a * b,
            Self::Div | Self::Mod if whole && b == 0.0 => 0.0,
            Self::Div if whole => (a / b).trunc(),
            Self::Div => a / b,
            Self::Mod if whole => a - b * (a / b).floor(),
            Self::Mod => a - held(b * held(a / b).floor()),
            Self::Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Min => {
                if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Not if whole => f64::from(!(a as i32)),
            Self::Not => truth(a == 0.0),
            // Truth values are whole numbers.
            Self::And => f64::from(a as i32 & b as i32),
            Self::Or => f64::from(a as i32 | b as i32),
            Self::Xor => f64::from(a as i32 ^ b as i32),
            Self::Shl if (0.0..32.0).contains(&b) => f64::from((a as i32) << b as u32),
            Self::Shl => 0.0,
            Self::Shr if (0.0..32.0).contains(&b) => f64::from(a as i32 >> b as u32),
            Self::Shr => f64::from(a as i32 >> 31),
            Self::Eq => return truth(a == b),
            Self::Ne => return truth(a != b),
            Self::Lt => return truth(a < b),
            Self::Le => return truth(a <= b),
            Self::Gt => return truth(a > b),
            Self::Ge => return truth(a >= b),
            Self::Select => {
                if a != 0.0 {
                    b
                } else {
                    c
                }
            }
        })
    }
}

/// The share of a standard normal distribution that is below `x`.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-std::f64::consts::FRAC_1_SQRT_2 * x)
}

/// `|a|` with the sign of `b`, in which NaN counts as positive.
fn copysign(a: f64, b: f64) -> f64 {
    a.copysign(if b.is_nan() { 0.0 } else { b })
}

/// The number whose error function is `x`: Giles' approximation (2010, "Approximating the erfinv function", table
/// 5), good to f32, corrected twice by Halley's method.
pub(crate) fn erf_inv(x: f64) -> f64 {
    const MIDDLE: [f64; 9] = [
        1.50140941,
        0.246640727,
        -0.00417768164,
        -0.00125372503,
        0.00021858087,
        -4.39150654e-06,
        -3.5233877e-06,
        3.43273939e-07,
        2.81022636e-08,
    ];
    const TAIL: [f64; 9] = [
        2.83297682,
        1.00167406,
        0.00943887047,
        -0.0076224613,
        0.00573950773,
        -0.00367342844,
        0.00134934322,
        0.000100950558,
        -0.000200214257,
    ];
    let size = x.abs();
    if size == 1.0 {
        return x * f64::INFINITY;
    }
    // Exact where it is needed.
    let rest = 1.0 - size;
    let w = -(rest * (1.0 + size)).ln();
    let (t, terms) = if w < 5.0 { (w - 2.5, MIDDLE) } else { (w.sqrt() - 3.0, TAIL) };
    let mut y = size * terms.iter().rev().fold(0.0, |sum, term| sum * t + term);
    for _ in 0..2 {
        let off = if size < 0.5 { libm::erf(y) - size } else { rest - libm::erfc(y) };
        let step = off * (y * y).exp() / std::f64::consts::FRAC_2_SQRT_PI;
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// A number in another dtype. A register of bf16 holds f32: only a cast from elsewhere rounds it.
fn cast(from: DType, to: DType, x: f64) -> f64 {
    if from == to { x } else { Scalar::new(to, x).value() }
}

impl Body {
    /// The registers' numbers for one element of each input, in room for them.
    pub(crate) fn run(&self, registers: &mut Vec<f64>, input: impl Fn(usize) -> f64) {
        registers.clear();
        for &(instr, dtype) in &self.code {
            let x = match instr {
                Instr::Input(index) => input(usize::from(index)),
                Instr::Const(scalar) => scalar.value(),
                Instr::Apply(prim, args) => {
                    let of = if prim == Prim::Select { args[1] } else { args[0] };
                    let of = self.code[usize::from(of.0)].1;
                    let args = args.map(|arg| registers[usize::from(arg.0)]);
                    match prim {
                        Prim::Cast => cast(of, dtype, args[0]),
                        _ => prim.apply(of, args),
                    }
                }
            };
            registers.push(x);
        }
    }
}

impl ReduceKind {
    /// Two numbers folded, the result rounded to the dtype.
    pub(crate) fn fold(self, dtype: DType, a: f64, b: f64) -> f64 {
        let prim = match self {
            Self::Sum => Prim::Add,
            Self::Prod => Prim::Mul,
            Self::Max => Prim::Max,
            Self::Min => Prim::Min,
            Self::All => Prim::And,
            Self::Any => Prim::Or,
            Self::Select => return f64::from_bits(a.to_bits() | b.to_bits()),
        };
        prim.apply(dtype, [a, b, a])
    }

    /// What a fold of no numbers is.
    pub(crate) fn start(self, dtype: DType) -> f64 {
        let least = if dtype == DType::I32 { f64::from(i32::MIN) } else { f64::NEG_INFINITY };
        let most = if dtype == DType::I32 { f64::from(i32::MAX) } else { f64::INFINITY };
        match self {
            Self::Sum | Self::Any | Self::Select => 0.0,
            Self::Prod | Self::All => 1.0,
            Self::Max => least,
            Self::Min => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_divide_towards_zero() {
        let (least, most) = (i32::MIN, i32::MAX);
        let numbers = [least, least + 1, -7, -2, -1, 0, 1, 2, 3, 7, 46341, most - 1, most];
        let divided = |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_div(b) };
        let modulo = |a: i32, b: i32| match b {
            0 | -1 => 0,
            b => {
                (i64::from(a) - i64::from(b) * (f64::from(a) / f64::from(b)).floor() as i64) as i32
            }
        };
        for (a, b) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
            let found = |prim: Prim| {
                let x = prim.apply(DType::I32, [f64::from(a), f64::from(b), 0.0]);
                assert!(x.fract() == 0.0 && (x != 0.0 || x.is_sign_positive()), "{prim:?}");
                x as i64
            };
            for (prim, expected) in [
                (Prim::Add, a.wrapping_add(b)),
                (Prim::Sub, a.wrapping_sub(b)),
                (Prim::Mul, a.wrapping_mul(b)),
                (Prim::Div, divided(a, b)),
                (Prim::Mod, modulo(a, b)),
                (Prim::Max, a.max(b)),
                (Prim::Neg, a.wrapping_neg()),
                (Prim::Abs, a.wrapping_abs()),
                (Prim::Sign, a.signum()),
                (Prim::Not, -1 - a),
                (Prim::And, a & b),
                (Prim::Or, a | b),
                (Prim::Xor, a ^ b),
                (Prim::Shl, if b as u32 > 31 { 0 } else { a.wrapping_mul(1 << b) }),
                (Prim::Shr, if b as u32 > 31 { a.min(0).signum() } else { a >> b }),
            ] {
                assert_eq!(found(prim), i64::from(expected), "{prim:?} of {a} and {b}");
            }
        }
    }

    #[test]
    fn floats_are_rounded_after_each_primitive() {
        let third = Prim::Div.apply(DType::F32, [1.0, 3.0, 0.0]);
        assert_eq!(third, f64::from(1.0_f32 / 3.0));
        // A register of bf16 holds f32; a cast rounds it, if it comes from elsewhere.
        assert_eq!(Prim::Div.apply(DType::BF16, [1.0, 3.0, 0.0]), third);
        assert_eq!(cast(DType::BF16, DType::BF16, third), third);
        assert_eq!(cast(DType::F32, DType::BF16, third), 0.333_984_375);
        assert_eq!(cast(DType::F32, DType::I32, -3e9), f64::from(i32::MIN));
        assert_eq!(cast(DType::F64, DType::I32, f64::NAN), 0.0);
        assert!(Prim::Max.apply(DType::F32, [1.0, f64::NAN, 0.0]).is_nan());
        assert!(Prim::Min.apply(DType::F32, [f64::NAN, 1.0, 0.0]).is_nan());
        assert!(Prim::Max.apply(DType::F32, [0.0, -0.0, 0.0]).is_sign_negative());
    }

    /// Abramowitz and Stegun 1964, tables 26.1 (to 15 digits) and 26.2 (the negative decimal logarithm, to 5).
    #[test]
    fn the_normal_distribution_is_that_of_tables() {
        for (x, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (2.0, 0.977_249_868_051_821),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((normal_cdf(x) - share).abs() < 1e-15, "{x}");
            assert!((normal_cdf(-x) - (1.0 - share)).abs() < 1e-15, "{x}");
        }
        for (x, digits) in [(5.0, 6.54265), (10.0, 23.11805)] {
            assert!((normal_cdf(-x).log10() + digits).abs() < 1e-5, "{x}");
        }
    }

    #[test]
    fn a_selection_keeps_the_bits() {
        for x in [-0.0, 1.5, f64::NEG_INFINITY] {
            assert_eq!(ReduceKind::Select.fold(DType::F32, 0.0, x).to_bits(), x.to_bits());
            assert_eq!(ReduceKind::Select.fold(DType::F32, x, 0.0).to_bits(), x.to_bits());
        }
    }
}
