//! Scalar primitives: the closed set of functions that bodies of [`Map`](super::Step::Map) are
//! made of, and the expressions that op authors write them with.
//!
//! The set is StableHLO's elementwise set, so every body can be spelled there. A body is typed per
//! register; `bf16` registers are computed in f32 and rounded when stored.

use crate::names::DType;
use std::fmt;
use std::ops;
use std::rc::Rc;

/// A number of some dtype, compared by bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

    /// Element type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from_bits(self.bits)
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
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
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
    /// Square root.
    Sqrt "sqrt" 1 1;
    /// `1 / sqrt(a)`
    Rsqrt "rsqrt" 1 2;
    /// e to the a.
    Exp "exp" 1 10;
    /// Natural logarithm.
    Log "log" 1 10;
    /// Hyperbolic tangent.
    Tanh "tanh" 1 12;
    /// `1 / (1 + exp(-a))`
    Logistic "logistic" 1 12;
    /// Sine.
    Sin "sin" 1 12;
    /// Cosine.
    Cos "cos" 1 12;
    /// Logical negation; bool.
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
    /// The greater; NaN if either is.
    Max "max" 2 1;
    /// The lesser; NaN if either is.
    Min "min" 2 1;
    /// Both; bool.
    And "and" 2 0;
    /// Either; bool.
    Or "or" 2 0;
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
            Self::Not | Self::And | Self::Or => dtype == DType::Bool,
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
            | Self::Sqrt
            | Self::Rsqrt
            | Self::Exp
            | Self::Log
            | Self::Tanh
            | Self::Logistic
            | Self::Sin
            | Self::Cos
            | Self::Pow => dtype.is_float(),
            _ => true,
        }
    }
}

/// A register of a body: the instruction that defines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reg(pub u16);

/// One instruction; instruction `i` defines register `i`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instr {
    /// An element of input `.0`.
    Input(u8),
    /// The same number everywhere.
    Const(Scalar),
    /// A primitive of earlier registers; unused arguments repeat the first.
    Apply(Prim, [Reg; 3]),
}

/// A straight-line program on scalars.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Body {
    /// Instructions with the dtype of what each defines.
    pub code: Vec<(Instr, DType)>,
    /// One register per out.
    pub results: Vec<Reg>,
}

impl Body {
    /// Floating-point operations per element.
    pub fn flops(&self) -> usize {
        self.code
            .iter()
            .map(|(instr, _)| if let Instr::Apply(prim, _) = instr { prim.flops() } else { 0 })
            .sum()
    }

    /// Flattens expressions over inputs of the given dtypes, results of the given dtypes.
    ///
    /// Equal subexpressions become one register. A number takes the dtype of what it meets.
    pub fn new(inputs: &[DType], results: &[(Expr, DType)]) -> Result<Self, String> {
        let mut flat = Flatten { inputs, code: Vec::new() };
        let mut regs = Vec::new();
        for (expr, dtype) in results {
            let reg = flat.reg(expr, Some(*dtype))?;
            regs.push(flat.cast(reg, *dtype));
        }
        Ok(Self { code: flat.code, results: regs })
    }
}

/// An expression over the inputs of a `Map`, written with operators and methods.
///
/// ```
/// use mesh_core::{names::DType, program::{Body, Expr}};
/// let x = Expr::input(0);
/// let softsign = x.clone() / (1.0 + x.abs());
/// let body = Body::new(&[DType::F32], &[(softsign, DType::F32)]).unwrap();
/// assert_eq!(body.to_string(), "x0 / (1 + abs(x0))");
/// ```
#[derive(Clone, Debug)]
pub struct Expr(Rc<Node>);

#[derive(Debug)]
enum Node {
    Input(u8),
    Number(f64),
    Apply(Prim, Vec<Expr>),
    Cast(DType, Expr),
}

impl Expr {
    /// Input `index`.
    pub fn input(index: u8) -> Self {
        Self(Rc::new(Node::Input(index)))
    }

    /// A number of whatever dtype it meets.
    pub fn number(value: f64) -> Self {
        Self(Rc::new(Node::Number(value)))
    }

    /// A primitive of some arguments. Arity and dtypes are checked when a body is made.
    pub fn apply(prim: Prim, args: impl IntoIterator<Item = Self>) -> Self {
        Self(Rc::new(Node::Apply(prim, args.into_iter().collect())))
    }

    /// The same number in another dtype.
    pub fn cast(self, dtype: DType) -> Self {
        Self(Rc::new(Node::Cast(dtype, self)))
    }

    /// `if self { yes } else { no }`
    pub fn select(self, yes: impl Into<Self>, no: impl Into<Self>) -> Self {
        Self::apply(Prim::Select, [self, yes.into(), no.into()])
    }
}

macro_rules! methods {
    ($($method:ident $prim:ident)*) => {
        impl Expr {
            $(#[doc = concat!("[`Prim::", stringify!($prim), "`].")]
            pub fn $method(self) -> Self { Self::apply(Prim::$prim, [self]) })*
        }
    };
}
methods! { abs Abs sign Sign floor Floor sqrt Sqrt rsqrt Rsqrt exp Exp log Log tanh Tanh logistic Logistic sin Sin cos Cos }

macro_rules! binary_methods {
    ($($method:ident $prim:ident)*) => {
        impl Expr {
            $(#[doc = concat!("[`Prim::", stringify!($prim), "`].")]
            pub fn $method(self, other: impl Into<Self>) -> Self {
                Self::apply(Prim::$prim, [self, other.into()])
            })*
        }
    };
}
binary_methods! { max Max min Min pow Pow modulo Mod equal Eq not_equal Ne less Lt less_equal Le greater Gt greater_equal Ge and And or Or }

impl From<f64> for Expr {
    fn from(value: f64) -> Self {
        Self::number(value)
    }
}

macro_rules! operators {
    ($($op:ident $method:ident $prim:ident)*) => {$(
        impl<T: Into<Expr>> ops::$op<T> for Expr {
            type Output = Self;
            fn $method(self, other: T) -> Self { Self::apply(Prim::$prim, [self, other.into()]) }
        }
        impl ops::$op<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr { Expr::apply(Prim::$prim, [self.into(), other]) }
        }
    )*};
}
operators! { Add add Add Sub sub Sub Mul mul Mul Div div Div }

impl ops::Neg for Expr {
    type Output = Self;
    fn neg(self) -> Self {
        Self::apply(Prim::Neg, [self])
    }
}

impl ops::Not for Expr {
    type Output = Self;
    fn not(self) -> Self {
        Self::apply(Prim::Not, [self])
    }
}

struct Flatten<'a> {
    inputs: &'a [DType],
    code: Vec<(Instr, DType)>,
}

impl Flatten<'_> {
    fn push(&mut self, instr: Instr, dtype: DType) -> Reg {
        let found = self.code.iter().position(|&entry| entry == (instr, dtype));
        let index = found.unwrap_or_else(|| {
            self.code.push((instr, dtype));
            self.code.len() - 1
        });
        Reg(index as u16)
    }

    fn dtype(&self, reg: Reg) -> DType {
        self.code[reg.0 as usize].1
    }

    fn cast(&mut self, reg: Reg, dtype: DType) -> Reg {
        if self.dtype(reg) == dtype {
            return reg;
        }
        self.push(Instr::Apply(Prim::Cast, [reg; 3]), dtype)
    }

    /// The dtype an expression has by itself; `None` for bare numbers.
    fn natural(&self, expr: &Expr) -> Option<DType> {
        match &*expr.0 {
            Node::Input(index) => self.inputs.get(*index as usize).copied(),
            Node::Number(_) => None,
            Node::Cast(dtype, _) => Some(*dtype),
            Node::Apply(prim, _) if prim.is_comparison() => Some(DType::Bool),
            Node::Apply(Prim::Select, args) => args[1..].iter().find_map(|a| self.natural(a)),
            Node::Apply(_, args) => args.iter().find_map(|a| self.natural(a)),
        }
    }

    /// The register of `expr`; `hint` is the dtype of numbers that meet nothing else.
    fn reg(&mut self, expr: &Expr, hint: Option<DType>) -> Result<Reg, String> {
        match &*expr.0 {
            Node::Input(index) => {
                let dtype = self.inputs.get(*index as usize);
                let dtype = *dtype.ok_or_else(|| format!("there is no input {index}"))?;
                Ok(self.push(Instr::Input(*index), dtype))
            }
            Node::Number(value) => {
                let dtype = hint.ok_or("a number needs a neighbour to take its dtype from")?;
                Ok(self.push(Instr::Const(Scalar::new(dtype, *value)), dtype))
            }
            Node::Cast(dtype, inner) => {
                let reg = self.reg(inner, Some(*dtype))?;
                Ok(self.cast(reg, *dtype))
            }
            Node::Apply(prim, args) => self.apply(*prim, args, hint),
        }
    }

    fn apply(&mut self, prim: Prim, args: &[Expr], hint: Option<DType>) -> Result<Reg, String> {
        if args.len() != prim.arity() {
            return Err(format!(
                "{} takes {} arguments, not {}",
                prim.name(),
                prim.arity(),
                args.len()
            ));
        }
        let typed = if prim == Prim::Select { &args[1..] } else { args };
        let common = typed.iter().find_map(|a| self.natural(a));
        let common = common.or(if prim.is_comparison() { None } else { hint });
        let mut regs = [Reg(0); 3];
        for (i, arg) in args.iter().enumerate() {
            let condition = prim == Prim::Select && i == 0;
            let want = if condition { Some(DType::Bool) } else { common };
            regs[i] = self.reg(arg, want)?;
            let got = self.dtype(regs[i]);
            let legal = if condition { got == DType::Bool } else { prim.accepts(got) };
            if !legal || want.is_some_and(|want| want != got) {
                return Err(format!("argument {i} of {} is {got}", prim.name()));
            }
        }
        for i in args.len()..3 {
            regs[i] = regs[0];
        }
        let dtype = match prim.is_comparison() {
            true => DType::Bool,
            false => self.dtype(regs[args.len() - 1]),
        };
        Ok(self.push(Instr::Apply(prim, regs), dtype))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_subexpressions_become_one_register() {
        let x = Expr::input(0);
        let square = x.clone() * x;
        let body = Body::new(&[DType::F32], &[(square.clone() + square, DType::F32)]).unwrap();
        assert_eq!(body.code.len(), 3);
        assert_eq!(body.to_string(), "(x0 * x0) + (x0 * x0)");
    }

    #[test]
    fn numbers_take_the_dtype_they_meet() {
        let body =
            Body::new(&[DType::F64], &[(Expr::input(0).less(2.0).select(1.0, 0.0), DType::F64)])
                .unwrap();
        assert_eq!(body.to_string(), "select(lt(x0, 2), 1, 0)");
        assert!(body.code.iter().all(|(_, d)| matches!(d, DType::F64 | DType::Bool)));
    }

    #[test]
    fn wrong_dtypes_are_refused() {
        let sum = Expr::input(0) + Expr::input(1);
        let error = Body::new(&[DType::F32, DType::I32], &[(sum, DType::F32)]).unwrap_err();
        assert_eq!(error, "argument 1 of add is i32");
        let error = Body::new(&[DType::I32], &[(Expr::input(0).exp(), DType::I32)]).unwrap_err();
        assert_eq!(error, "argument 0 of exp is i32");
    }
}
