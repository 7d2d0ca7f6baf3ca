//! Expressions that are one loop as a whole. The bits are those of one operation after the other.

use super::instr::{one, two, unary};
use super::tile::{ARGS, Binary, Run, Unary};
use super::triples::{huber, left, within};
use crate::exec::cpu::vmath::{max_f32, min_f32};
use crate::names::DType;
use crate::program::{Body, Instr, Prim, Reg};
use Prim::{Abs, Add, And, Ge, Gt, Le, Lt, Max, Min, Mul, Ne, Select, Sub};
use Tree::{Bound, Leaf, Number, Of};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// An expression of f32, as bodies have it.
#[derive(Clone, Copy)]
enum Tree {
    /// An argument of the loop; the same wherever it has this number.
    Leaf(usize),
    /// As a leaf, of a constant.
    Bound(usize),
    Number(f32),
    Of(Prim, &'static [Tree]),
}

struct Idiom {
    tree: Tree,
    /// The loop, if these arguments are uniform.
    run: fn([bool; ARGS]) -> Option<Run>,
}

const X: Tree = Leaf(0);
const DIFFERENCE: Tree = Of(Sub, &[X, Leaf(1)]);
const CUT: Tree = Of(Min, &[Of(Max, &[DIFFERENCE, Bound(2)]), Bound(3)]);
const HARD_SIGMOID: Tree = {
    const SHIFTED: Tree = Of(Add, &[X, Number(3.0)]);
    const RELU6: Tree = Of(Min, &[Of(Max, &[SHIFTED, Number(0.0)]), Number(6.0)]);
    Of(Mul, &[RELU6, Number(SIXTH)])
};
const SIXTH: f32 = 1.0 / 6.0;
const INSIDE: Tree = Of(And, &[Of(Ge, &[X, Bound(2)]), Of(Le, &[X, Bound(3)])]);

/// What has another one within comes before it.
const IDIOMS: [Idiom; 9] = [
    Idiom { tree: Of(Mul, &[X, HARD_SIGMOID]), run: |_| Some(one::<HardSwish<f32>>()) },
    Idiom { tree: HARD_SIGMOID, run: |_| Some(one::<HardSigmoid<f32>>()) },
    // Of a parametric ReLU.
    Idiom {
        tree: Of(Mul, &[X, Of(Select, &[Of(Gt, &[X, Number(0.0)]), Number(1.0), Leaf(1)])]),
        run: |uniform| Some(two::<Sloped<f32>>(uniform)),
    },
    // Of `nan_to_num`.
    Idiom {
        tree: Of(
            Select,
            &[
                Of(Ne, &[X, X]),
                Number(0.0),
                Of(Min, &[Of(Max, &[X, Number(f32::MIN)]), Number(f32::MAX)]),
            ],
        ),
        run: |_| Some(one::<Numbers<f32>>()),
    },
    // Of a Huber loss.
    Idiom {
        tree: Of(Mul, &[CUT, Of(Sub, &[DIFFERENCE, Of(Mul, &[CUT, Number(0.5)])])]),
        run: huber,
    },
    Idiom {
        tree: Of(Mul, &[DIFFERENCE, DIFFERENCE]),
        run: |uniform| Some(two::<Squared<f32>>(uniform)),
    },
    Idiom { tree: Of(Abs, &[DIFFERENCE]), run: |uniform| Some(two::<Apart<f32>>(uniform)) },
    // Of the gradient of a cut.
    Idiom { tree: Of(Select, &[INSIDE, Leaf(1), Number(0.0)]), run: within },
    // Of a dropout.
    Idiom {
        tree: Of(Select, &[Of(Lt, &[Leaf(1), Bound(2)]), Of(Mul, &[X, Bound(3)]), Number(0.0)]),
        run: left,
    },
];

unary! {
    HardSwish { f32 => f32, a, a * (HardSigmoid::<f32>::apply(a)); }
    HardSigmoid { f32 => f32, a, min_f32(max_f32(a + 3.0, 0.0), 6.0) * SIXTH; }
    Numbers { f32 => f32, a, if a.is_nan() { 0.0 } else { min_f32(max_f32(a, f32::MIN), f32::MAX) }; }
}

macro_rules! binary {
    ($($name:ident $a:ident $b:ident, $apply:expr;)*) => {$(
        struct $name<T>(PhantomData<T>);
        impl Binary for $name<f32> {
            type In = f32;
            type Out = f32;
            #[inline(always)]
            fn apply($a: f32, $b: f32) -> f32 { $apply }
        }
    )*};
}

binary! {
    Sloped a b, a * if a > 0.0 { 1.0 } else { b };
    Squared a b, (a - b) * (a - b);
    Apart a b, (a - b).abs();
}

/// An idiom of a body.
pub(in crate::exec::cpu) struct Found {
    /// The registers of its arguments; the first one again where it has fewer.
    pub(in crate::exec::cpu) leaves: [usize; ARGS],
    /// The instructions within that nobody else needs, but for the last.
    pub(in crate::exec::cpu) inner: SmallVec<[usize; 8]>,
    pub(in crate::exec::cpu) run: fn([bool; ARGS]) -> Option<Run>,
}

/// The idiom whose last instruction is this one, if it takes the place of others as well.
pub(in crate::exec::cpu) fn find(body: &Body, last: usize) -> Option<Found> {
    IDIOMS.iter().find_map(|Idiom { tree, run }| {
        let (mut leaves, mut inner) = ([None; ARGS], SmallVec::new());
        if !matches(body, last, tree, &mut leaves, &mut inner) {
            return None;
        }
        inner.retain(|&mut at| at != last);
        // What is needed elsewhere is made, and all that it is made of.
        inner.sort_unstable();
        for k in (0..inner.len()).rev() {
            let at = inner[k];
            let within = |reader: usize| reader == last || inner[k..].contains(&reader);
            let mut readers = (at + 1..body.code.len()).filter(|&reader| reads(body, reader, at));
            let is_result = body.results.iter().any(|result| usize::from(result.0) == at);
            if is_result || !readers.all(within) {
                inner.remove(k);
            }
        }
        let first = leaves[0]?;
        let leaves = leaves.map(|leaf| leaf.unwrap_or(first));
        (!inner.is_empty()).then_some(Found { leaves, inner, run: *run })
    })
}

/// Whether an instruction reads a register.
fn reads(body: &Body, reader: usize, register: usize) -> bool {
    match &body.code[reader].0 {
        Instr::Apply(prim, args) => {
            args[..prim.arity()].iter().any(|arg| usize::from(arg.0) == register)
        }
        _ => false,
    }
}

/// Whether register `at` is such an expression; of which arguments and instructions.
fn matches(
    body: &Body,
    at: usize,
    tree: &Tree,
    leaves: &mut [Option<usize>; ARGS],
    inner: &mut SmallVec<[usize; 8]>,
) -> bool {
    let (instr, dtype) = body.code[at];
    match (*tree, instr) {
        (Number(number), Instr::Const(scalar)) => {
            dtype == DType::F32 && (scalar.value() as f32).to_bits() == number.to_bits()
        }
        (Bound(_), Instr::Apply(..) | Instr::Input(_)) => false,
        (Leaf(k) | Bound(k), _) => dtype == DType::F32 && *leaves[k].get_or_insert(at) == at,
        (Of(prim, trees), Instr::Apply(applied, args)) => {
            if !inner.contains(&at) {
                inner.push(at);
            }
            let mut parts = trees.iter().zip(args);
            applied == prim
                && matches!(dtype, DType::F32 | DType::Bool)
                && parts
                    .all(|(tree, Reg(arg))| matches(body, usize::from(arg), tree, leaves, inner))
        }
        _ => false,
    }
}
