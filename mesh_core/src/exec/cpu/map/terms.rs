//! Sums of products and of differences: their terms are made as they are added up, in registers. The bits
//! are those of making them first.

use super::fold::{FoldRun, OPERANDS, Source};
use super::tile::is_in;
use crate::exec::cpu::reduce::{Run, Sum};
use crate::names::DType;
use crate::program::{Body, Instr, Prim};
use smallvec::{SmallVec, smallvec};
use std::marker::PhantomData;

/// What is made of operands `a`, `b`, `c` and `d` to be added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `a b`.
    Product,
    /// `(a b) c`.
    ThreeProduct,
    /// `(a - b)^2`.
    SquaredDifference,
    /// `(a - b) c`.
    Difference,
    /// `((a - b) c) d`.
    ScaledDifference,
}

/// The terms of a sum that is a body's only result.
pub(super) struct Terms {
    kind: Kind,
    /// The registers that they are made of; the first one again where there are fewer.
    pub(super) operands: [usize; OPERANDS],
    /// The instructions that make them, in order.
    pub(super) made: SmallVec<[usize; 3]>,
}

impl Terms {
    /// Those of a body of which a sum is made: of as many instructions as there is a loop for.
    pub(super) fn of(body: &Body) -> Option<Self> {
        let product = Self::product(body)?;
        let last = usize::from(body.results[0].0);
        let [a, b, ..] = product.operands;
        let own = |at: usize, count: usize| {
            let Instr::Apply(prim, [of, other, _]) = body.code[at].0 else { return None };
            let is_own = reads(body, at) == count && body.code[at].1 == DType::F32;
            is_own.then_some((prim, [of, other].map(|reg| usize::from(reg.0))))
        };
        if a == b {
            let Some((Prim::Sub, [of, less])) = own(a, 2) else { return Some(product) };
            let operands = [of, less, of, of];
            let made = smallvec![a, last];
            return Some(Self { kind: Kind::SquaredDifference, operands, made });
        }
        let longer = |(inner, d): (usize, usize)| {
            let (prim, [of, other]) = own(inner, 1)?;
            let scaled = |(difference, c): (usize, usize)| {
                let Some((Prim::Sub, [a, b])) = own(difference, 1) else { return None };
                let made = smallvec![difference, inner, last];
                Some(Self { kind: Kind::ScaledDifference, operands: [a, b, c, d], made })
            };
            let made = smallvec![inner, last];
            let operands = [of, other, d, of];
            match prim {
                Prim::Sub => Some(Self { kind: Kind::Difference, operands, made }),
                Prim::Mul => [(of, other), (other, of)]
                    .into_iter()
                    .find_map(scaled)
                    .or(Some(Self { kind: Kind::ThreeProduct, operands, made })),
                _ => None,
            }
        };
        [(a, b), (b, a)].into_iter().find_map(longer).or(Some(product))
    }

    /// Those of the last instruction alone, if that is a product.
    pub(super) fn product(body: &Body) -> Option<Self> {
        let [result] = body.results[..] else { return None };
        let last = usize::from(result.0);
        let (Instr::Apply(Prim::Mul, [a, b, _]), DType::F32) = body.code[last] else { return None };
        let [a, b] = [a, b].map(|reg| usize::from(reg.0));
        let product = Self { kind: Kind::Product, operands: [a, b, a, a], made: smallvec![last] };
        (reads(body, last) == 0).then_some(product)
    }

    /// How many operands there are.
    pub(super) fn count(&self) -> usize {
        match self.kind {
            Kind::Product | Kind::SquaredDifference => 2,
            Kind::ThreeProduct | Kind::Difference => 3,
            Kind::ScaledDifference => 4,
        }
    }

    /// The loop that adds them up, and the operands in its order, if there is one for the operands that do not vary
    /// along rows.
    pub(super) fn run(&self, uniform: [bool; OPERANDS]) -> Option<(FoldRun, [usize; OPERANDS])> {
        let uniform: usize = (0..self.count()).map(|k| usize::from(uniform[k]) << k).sum();
        let (run, swapped) = match (self.kind, uniform) {
            (Kind::Product, 0) => (run::<Product, 0>(), false),
            (Kind::Product, 0b01 | 0b10) => (run::<Product, 0b10>(), uniform == 0b01),
            (Kind::ThreeProduct, 0) => (run::<ThreeProduct, 0>(), false),
            (Kind::ThreeProduct, 0b01 | 0b10) => (run::<ThreeProduct, 0b10>(), uniform == 0b01),
            (Kind::SquaredDifference, 0) => (run::<SquaredDifference, 0>(), false),
            (Kind::SquaredDifference, 0b01 | 0b10) => {
                (run::<SquaredDifference, 0b10>(), uniform == 0b01)
            }
            (Kind::Difference, 0) => (run::<Difference, 0>(), false),
            (Kind::Difference, 0b10) => (run::<Difference, 0b10>(), false),
            (Kind::ScaledDifference, 0) => (run::<ScaledDifference, 0>(), false),
            (Kind::ScaledDifference, 0b110) => (run::<ScaledDifference, 0b110>(), false),
            _ => return None,
        };
        // These terms are the same with the first two operands swapped.
        Some((run, if swapped { [1, 0, 2, 3] } else { [0, 1, 2, 3] }))
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

fn run<T: Term, const UNIFORM: usize>() -> FoldRun {
    FoldRun::of::<Sum<f32>, Made<T, UNIFORM>>()
}

/// Terms of some numbers. Bit `k` of `UNIFORM` tells whether operand `k` is one for all.
trait Term: Copy + 'static {
    /// Those of some elements of rows, from one on.
    ///
    /// # Safety
    ///
    /// The operands that it has have these elements, or one.
    unsafe fn lanes<const UNIFORM: usize, const LANES: usize>(
        of: [*const f32; OPERANDS],
        first: usize,
    ) -> [f32; LANES];
}

/// Some elements of an operand.
macro_rules! operand {
    ($of:ident, $k:literal, $first:ident) => {
        if is_in(UNIFORM, $k) { [*$of[$k]; LANES] } else { *$of[$k].add($first).cast() }
    };
}

macro_rules! terms {
    ($($name:ident [$($arg:ident $k:literal),*] $made:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl Term for $name {
            #[inline(always)]
            unsafe fn lanes<const UNIFORM: usize, const LANES: usize>(
                of: [*const f32; OPERANDS],
                first: usize,
            ) -> [f32; LANES] {
                let mut made = [0.0; LANES];
                // SAFETY: as this function's contract says.
                unsafe {
                    $(let $arg: [f32; LANES] = operand!(of, $k, first);)*
                    for i in 0..LANES {
                        $(let $arg = $arg[i];)*
                        made[i] = $made;
                    }
                }
                made
            }
        }
    )*};
}

terms! {
    Product [a 0, b 1] a * b;
    ThreeProduct [a 0, b 1, c 2] a * b * c;
    SquaredDifference [a 0, b 1] (a - b) * (a - b);
    Difference [a 0, b 1, c 2] (a - b) * c;
    ScaledDifference [a 0, b 1, c 2, d 3] (a - b) * c * d;
}

/// Terms of the elements of rows.
#[derive(Clone, Copy)]
struct Made<T, const UNIFORM: usize> {
    of: [*const f32; OPERANDS],
    term: PhantomData<T>,
}

impl<T: Term, const UNIFORM: usize> Run<f32> for Made<T, UNIFORM> {
    #[inline(always)]
    unsafe fn lanes<const LANES: usize>(self, first: usize) -> [f32; LANES] {
        // SAFETY: as this function's contract says.
        unsafe { T::lanes::<UNIFORM, LANES>(self.of, first) }
    }
}

impl<T: Term, const UNIFORM: usize> Source<f32> for Made<T, UNIFORM> {
    #[inline(always)]
    fn row(from: [*const u8; OPERANDS]) -> Self {
        let [a, b, c, d] = from;
        Self { of: [a.cast(), b.cast(), c.cast(), d.cast()], term: PhantomData }
    }
}
