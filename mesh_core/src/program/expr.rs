//! Expressions: how op authors write the body of a [`Map`](super::Step::Map).

use super::{Body, Instr, Prim, Reg, Scalar};
use crate::names::DType;
use std::ops;
use std::rc::Rc;

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
methods! { abs Abs sign Sign floor Floor ceil Ceil round Round sqrt Sqrt rsqrt Rsqrt exp Exp exp2 Exp2 log Log log2 Log2 log10 Log10 log1p Log1p tanh Tanh logistic Logistic sin Sin cos Cos tan Tan asin Asin acos Acos erf Erf erfc Erfc erf_inv ErfInv normal_cdf NormalCdf }

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
binary_methods! { max Max min Min pow Pow atan2 Atan2 copysign Copysign xor Xor shift_left Shl shift_right Shr modulo Mod equal Eq not_equal Ne less Lt less_equal Le greater Gt greater_equal Ge and And or Or }

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

impl Body {
    /// Flattens expressions over inputs of the given dtypes, results of the given dtypes.
    ///
    /// Equal subexpressions become one register. A number takes the dtype of what it meets.
    ///
    /// # Errors
    ///
    /// An input that there is not, or dtypes that do not meet.
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
