//! Sums of products and of squared differences: their terms are made as they are added up, in registers. The bits
//! are those of making them first.

use super::fold::{FoldRun, OPERANDS, Source};
use crate::exec::cpu::reduce::{Run, Sum};
use crate::names::DType;
use crate::program::{Body, Instr, Prim};
use smallvec::{SmallVec, smallvec};
use std::marker::PhantomData;

/// What is made of two operands to be added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Product,
    SquaredDifference,
}

/// The terms of a sum that is a body's only result.
pub(super) struct Terms {
    kind: Kind,
    /// The registers that they are made of.
    pub(super) operands: [usize; OPERANDS],
    /// The instructions that make them, in order.
    pub(super) made: SmallVec<[usize; 2]>,
}

impl Terms {
    /// Those of a body of which a sum is made.
    pub(super) fn of(body: &Body) -> Option<Self> {
        let [result] = body.results[..] else { return None };
        let last = usize::from(result.0);
        let (Instr::Apply(Prim::Mul, [a, b, _]), DType::F32) = body.code[last] else { return None };
        if reads(body, last) > 0 {
            return None;
        }
        let difference = usize::from(a.0);
        if let (true, Instr::Apply(Prim::Sub, [of, less, _])) = (a == b, body.code[difference].0)
            && reads(body, difference) == OPERANDS
        {
            let operands = [of, less].map(|reg| usize::from(reg.0));
            let made = smallvec![difference, last];
            return Some(Self { kind: Kind::SquaredDifference, operands, made });
        }
        let operands = [a, b].map(|reg| usize::from(reg.0));
        Some(Self { kind: Kind::Product, operands, made: smallvec![last] })
    }

    /// The loop that adds them up, if an operand does not vary along rows or none; it comes last.
    pub(super) fn run(&self, last_is_uniform: bool) -> FoldRun {
        match (self.kind, last_is_uniform) {
            (Kind::Product, false) => run::<Product, false>(),
            (Kind::Product, true) => run::<Product, true>(),
            (Kind::SquaredDifference, false) => run::<SquaredDifference, false>(),
            (Kind::SquaredDifference, true) => run::<SquaredDifference, true>(),
        }
    }
}

/// How often instructions read a register.
fn reads(body: &Body, register: usize) -> usize {
    let read = |instr: &Instr| match instr {
        Instr::Apply(prim, args) => {
            args[..prim.arity()].iter().filter(|arg| usize::from(arg.0) == register).count()
        }
        _ => 0,
    };
    body.code.iter().map(|(instr, _)| read(instr)).sum()
}

fn run<T: Term, const UNIFORM: bool>() -> FoldRun {
    FoldRun::of::<Sum<f32>, Made<T, UNIFORM>>()
}

/// A term of two numbers, of which either may come first.
trait Term: Copy + 'static {
    fn of(a: f32, b: f32) -> f32;
}

#[derive(Clone, Copy)]
struct Product;

impl Term for Product {
    #[inline(always)]
    fn of(a: f32, b: f32) -> f32 {
        a * b
    }
}

#[derive(Clone, Copy)]
struct SquaredDifference;

impl Term for SquaredDifference {
    #[inline(always)]
    fn of(a: f32, b: f32) -> f32 {
        let difference = a - b;
        difference * difference
    }
}

/// Terms of the elements of two rows, or of one row's and a number, if the second is `UNIFORM`.
#[derive(Clone, Copy)]
struct Made<T, const UNIFORM: bool> {
    of: [*const f32; OPERANDS],
    term: PhantomData<T>,
}

impl<T: Term, const UNIFORM: bool> Run<f32> for Made<T, UNIFORM> {
    #[inline(always)]
    unsafe fn lanes<const LANES: usize>(self, first: usize) -> [f32; LANES] {
        let [a, b] = self.of;
        let mut made = [0.0; LANES];
        // SAFETY: the rows have these elements, or the second has one.
        unsafe {
            let a = *a.add(first).cast::<[f32; LANES]>();
            let b = if UNIFORM { [*b; LANES] } else { *b.add(first).cast() };
            for i in 0..LANES {
                made[i] = T::of(a[i], b[i]);
            }
        }
        made
    }
}

impl<T: Term, const UNIFORM: bool> Source<f32> for Made<T, UNIFORM> {
    #[inline(always)]
    fn row(from: [*const u8; OPERANDS]) -> Self {
        Self { of: from.map(<*const u8>::cast), term: PhantomData }
    }
}
