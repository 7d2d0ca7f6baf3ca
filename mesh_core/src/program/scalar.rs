//! Scalar primitives: the closed set of functions that bodies of [`Map`](super::Step::Map) are made
//! of.
//!
//! The set is StableHLO's elementwise set, so every body can be spelled there. A body is typed per
//! register; `bf16` registers are computed in f32 and rounded when stored.

use crate::names::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number of some dtype, compared by bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(DType, u64)", into = "(DType, u64)")]
pub struct Scalar {
    dtype: DType,
    /// f64 bits; every value of every dtype is exact in f64.
    bits: u64,
}

impl Scalar {
    /// `value` rounded to `dtype`.
    pub fn new(dtype: DType, value: f64) -> Self {
        let value = match dtype {
            DType::F64 => value,
            DType::F32 => f64::from(value as f32),
            DType::BF16 => f64::from(half::bf16::from_f64(value)),
            DType::I32 => f64::from(value as i32),
            DType::Bool => f64::from(u8::from(value != 0.0)),
        };
        Self { dtype, bits: value.to_bits() }
    }

    /// `value` in `dtype`, or why it would be another number there. Floats are rounded; none becomes
    /// infinite or 0 by that.
    ///
    /// ```
    /// use mesh_core::{names::DType, program::Scalar};
    /// assert_eq!(Scalar::checked(DType::I32, -7.0), Ok(Scalar::new(DType::I32, -7.0)));
    /// let refused = Scalar::checked(DType::I32, 0.5).unwrap_err();
    /// assert!(refused.starts_with("i32 cannot hold 0.5"));
    /// ```
    ///
    /// # Errors
    ///
    /// A number that the dtype does not hold; the error says which it does.
    pub fn checked(dtype: DType, value: f64) -> Result<Self, String> {
        let scalar = Self::new(dtype, value);
        let held = scalar.value();
        let problem = match dtype {
            DType::I32 if held != value => {
                let (least, most) = (i32::MIN, i32::MAX);
                format!(
                    "it holds whole numbers from {least} to {most}; cast to a float dtype first"
                )
            }
            DType::Bool if held != value => "it holds 0 (false) and 1 (true)".to_owned(),
            _ if held == 0.0 && value != 0.0 => "it would become 0".to_owned(),
            _ if held.is_infinite() && value.is_finite() => "it would become infinite".to_owned(),
            _ => return Ok(scalar),
        };
        Err(format!("{dtype} cannot hold {value:?}: {problem}"))
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from_bits(self.bits)
    }
}

impl From<Scalar> for (DType, u64) {
    fn from(Scalar { dtype, bits }: Scalar) -> Self {
        (dtype, bits)
    }
}

impl TryFrom<(DType, u64)> for Scalar {
    type Error = String;

    /// A dtype, and the bits of the number in f64.
    fn try_from((dtype, bits): (DType, u64)) -> Result<Self, String> {
        let scalar = Self::new(dtype, f64::from_bits(bits));
        let exact = scalar.bits == bits || scalar.value().is_nan();
        if exact { Ok(scalar) } else { Err(format!("{dtype} has no number of bits {bits:#x}")) }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::Bool => write!(f, "{}", self.value() != 0.0),
            _ => write!(f, "{:?}", self.value()),
        }
    }
}

macro_rules! prims {
    ($($(#[$doc:meta])* $name:ident $text:literal $arity:literal $flops:literal;)*) => {
        /// A scalar function. Arguments have one dtype, which is also the result's, unless stated.
        #[derive(
            Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Prim { $($(#[$doc])* $name,)* }

        impl Prim {
            /// Every primitive.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in printed programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Number of arguments.
            pub fn arity(self) -> usize {
                match self { $(Self::$name => $arity,)* }
            }

            /// Floating-point operations per element, for cost estimates.
            pub fn flops(self) -> usize {
                match self { $(Self::$name => $flops,)* }
            }
        }
    };
}

prims! {
    /// `-a`
    Neg "neg" 1 1;
    /// `|a|`
    Abs "abs" 1 1;
    /// -1, 0 or 1; NaN of NaN.
    Sign "sign" 1 1;
    /// Largest integer not above.
    Floor "floor" 1 1;
    /// Smallest integer not below.
    Ceil "ceil" 1 1;
    /// Nearest integer; of two that are as near the even one.
    Round "round" 1 1;
    /// Square root.
    Sqrt "sqrt" 1 1;
    /// `1 / sqrt(a)`
    Rsqrt "rsqrt" 1 2;
    /// e to the a.
    Exp "exp" 1 10;
    /// 2 to the a.
    Exp2 "exp2" 1 10;
    /// Natural logarithm.
    Log "log" 1 10;
    /// Logarithm to base two. In StableHLO a natural one times a number.
    Log2 "log2" 1 10;
    /// Logarithm to base ten. In StableHLO a natural one times a number.
    Log10 "log10" 1 10;
    /// `log(1 + a)`, which does not cancel for small a.
    Log1p "log1p" 1 15;
    /// Hyperbolic tangent.
    Tanh "tanh" 1 12;
    /// `1 / (1 + exp(-a))`
    Logistic "logistic" 1 12;
    /// Sine.
    Sin "sin" 1 12;
    /// Cosine.
    Cos "cos" 1 12;
    /// Tangent.
    Tan "tan" 1 15;
    /// The angle from -pi/2 to pi/2 whose sine is a. In StableHLO the composite `chlo.asin`.
    Asin "asin" 1 20;
    /// The angle from 0 to pi whose cosine is a. In StableHLO the composite `chlo.acos`.
    Acos "acos" 1 20;
    /// Error function, `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to a. In StableHLO
    /// the composite `chlo.erf`.
    Erf "erf" 1 20;
    /// `1 - erf(a)`, which does not cancel for large a. In StableHLO the composite `chlo.erfc`.
    Erfc "erfc" 1 30;
    /// The number whose error function is a; infinite at -1 and 1, NaN beyond. In StableHLO the composite
    /// `chlo.erf_inv`.
    ErfInv "erf_inv" 1 50;
    /// The share of a standard normal distribution that is below a. In StableHLO made of the composite `chlo.erfc`.
    NormalCdf "normal_cdf" 1 30;
    /// Logical negation of bool, every bit's of i32.
    Not "not" 1 0;
    /// `a + b`; i32 wraps.
    Add "add" 2 1;
    /// `a - b`; i32 wraps.
    Sub "sub" 2 1;
    /// `a * b`; i32 wraps.
    Mul "mul" 2 1;
    /// `a / b`; i32 truncates, and gives 0 for b = 0.
    Div "div" 2 1;
    /// `a - b * floor(a / b)`: the sign of b; i32 gives 0 for b = 0.
    Mod "mod" 2 3;
    /// a to the b; floats.
    Pow "pow" 2 20;
    /// The greater; NaN if either is; of two zeros the second.
    Max "max" 2 1;
    /// The lesser; NaN if either is; of two zeros the second.
    Min "min" 2 1;
    /// The angle of the point with ordinate a and abscissa b, from -pi to pi, by the signs of zeros too.
    Atan2 "atan2" 2 25;
    /// `|a|` with the sign of b, whose zeros have one; NaN counts as positive there, since no sign of it is reliable.
    Copysign "copysign" 2 1;
    /// Both; of i32 each bit.
    And "and" 2 0;
    /// Either; of i32 each bit.
    Or "or" 2 0;
    /// One but not both; of i32 each bit.
    Xor "xor" 2 0;
    /// The bits of a moved up by b, zeros coming in; 0 for b outside 0..32; i32.
    Shl "shl" 2 1;
    /// The bits of a moved down by b, copies of the sign coming in; the sign alone for b outside 0..32; i32.
    Shr "shr" 2 1;
    /// `a == b`, bool.
    Eq "eq" 2 1;
    /// `a != b`, bool.
    Ne "ne" 2 1;
    /// `a < b`, bool.
    Lt "lt" 2 1;
    /// `a <= b`, bool.
    Le "le" 2 1;
    /// `a > b`, bool.
    Gt "gt" 2 1;
    /// `a >= b`, bool.
    Ge "ge" 2 1;
    /// `if a { b } else { c }`; a is bool, b and c of the result's dtype.
    Select "select" 3 0;
    /// `a` in the register's dtype. To i32: towards zero, saturating, 0 of NaN. To bool: `a != 0`.
    Cast "cast" 1 0;
}

impl Prim {
    /// Whether the result is bool whatever the arguments are.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }

    /// Whether arguments of `dtype` make sense (the condition of `Select` aside).
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Not | Self::And | Self::Or | Self::Xor => !dtype.is_float(),
            Self::Shl | Self::Shr => dtype == DType::I32,
            Self::Neg
            | Self::Abs
            | Self::Sign
            | Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Mod
            | Self::Max
            | Self::Min => dtype != DType::Bool,
            Self::Floor
            | Self::Ceil
            | Self::Round
            | Self::Sqrt
            | Self::Rsqrt
            | Self::Exp
            | Self::Exp2
            | Self::Log
            | Self::Log2
            | Self::Log10
            | Self::Log1p
            | Self::Tanh
            | Self::Logistic
            | Self::Sin
            | Self::Cos
            | Self::Tan
            | Self::Asin
            | Self::Acos
            | Self::Erf
            | Self::Erfc
            | Self::ErfInv
            | Self::NormalCdf
            | Self::Atan2
            | Self::Copysign
            | Self::Pow => dtype.is_float(),
            _ => true,
        }
    }
}

/// A register of a body: the instruction that defines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reg(pub u16);

/// One instruction; instruction `i` defines register `i`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Instr {
    /// An element of input `.0`.
    Input(u8),
    /// The same number everywhere.
    Const(Scalar),
    /// A primitive of earlier registers; unused arguments repeat the first.
    Apply(Prim, [Reg; 3]),
}

/// A straight-line program on scalars.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Body {
    /// Instructions with the dtype of what each defines.
    pub code: Vec<(Instr, DType)>,
    /// One register per out.
    pub results: Vec<Reg>,
}

impl Body {
    /// Whether it makes what its one input is.
    pub(crate) fn is_identity(&self) -> bool {
        matches!((&self.code[..], &self.results[..]), ([(Instr::Input(0), _)], [Reg(0)]))
    }

    /// Floating-point operations per element.
    pub fn flops(&self) -> usize {
        self.code
            .iter()
            .map(|(instr, _)| if let Instr::Apply(prim, _) = instr { prim.flops() } else { 0 })
            .sum()
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reg) in self.results.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(&self.text(*reg, false))?;
        }
        Ok(())
    }
}

impl Body {
    fn text(&self, reg: Reg, nested: bool) -> String {
        let (instr, dtype) = self.code[reg.0 as usize];
        let (prim, args) = match instr {
            Instr::Input(index) => return format!("x{index}"),
            Instr::Const(scalar) => return number(scalar),
            Instr::Apply(prim, args) => (prim, args),
        };
        let infix = match prim {
            Prim::Add => "+",
            Prim::Sub => "-",
            Prim::Mul => "*",
            Prim::Div => "/",
            _ => "",
        };
        if !infix.is_empty() {
            let text = format!("{} {infix} {}", self.text(args[0], true), self.text(args[1], true));
            return if nested { format!("({text})") } else { text };
        }
        let list: Vec<_> = args[..prim.arity()].iter().map(|&a| self.text(a, false)).collect();
        let name = if prim == Prim::Cast { dtype.to_string() } else { prim.name().to_owned() };
        format!("{name}({})", list.join(", "))
    }
}

fn number(scalar: Scalar) -> String {
    if scalar.dtype() == DType::F32 {
        return format!("{}", scalar.value() as f32);
    }
    match scalar.dtype() {
        DType::Bool => format!("{scalar:?}"),
        _ => format!("{}", scalar.value()),
    }
}
