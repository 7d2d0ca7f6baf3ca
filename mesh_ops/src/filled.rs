//! `einsum_filled(x, y, output, dim, filled)`: the product of two factors of which only the first positions of
//! a dim count; the rest is read to the end of a block at most.
//!
//! | shape | the output dims as given |
//! |---|---|
//! | split | dims not in the output reduced(sum), others parallel |
//! | linear | multiplies each factor |
//! | gradient | of each factor: einsum_filled of dy with the other onto its dims |
//!
//! A cache of keys and values has room for more positions than it holds. The dim is cut into blocks, and each
//! product of a block stands in a guard, which the processor skips if the block begins beyond what is filled.
//! Dims of the factor that lie before the dim, and that all three have, are gone through one by one, so that
//! a block lies side by side and is looked at where it is. A processor that has a slice of the dim does so
//! with its own positions.

use crate::room::*;
use mesh_core::lower::{Local, LocalGiven, LocalLeft};
use mesh_core::program::{Expr, Scalar};

/// Most positions of a block: as keys of 64 numbers of f32 these are 64 KiB, beside which the work of a guard
/// is small, and a token reads on average half of that too much.
const BLOCK: usize = 256;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Filled {
    output: Shape,
    /// The dim of which only the first positions count.
    dim: DimName,
    /// Most positions of a block.
    block: usize,
}

/// The product of `x` and `y`, summed over every dim that is not in `output`, where the positions of `dim` from
/// `filled` on (i32) count as zeros: as [`einsum`](crate::einsum::einsum) of factors that are zero there. Two of
/// `x`, `y` and `output` have `dim`, or all three. `filled` has no dims, or some of the factors'; more than there
/// are is all.
///
/// What lies beyond is not read, but for the rest of a block of at most 256 positions, where it is multiplied by
/// zero and so must be finite.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, memory, kv) = (dim("batch", 2), dim("memory", 1024), dim("kv", 8));
/// let (q, keys) = (g.input("q", [batch, kv], F32), g.input("keys", [batch, memory, kv], F32));
/// let filled = g.input("filled", [batch], I32);
/// let logits = mesh_ops::einsum_filled(q, keys, [batch, memory], memory, filled);
/// assert_eq!(logits.shape().to_string(), "[batch:2, memory:1024]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn einsum_filled<'g>(
    x: Tensor<'g>,
    y: Tensor<'g>,
    output: impl IntoIterator<Item = Dimension>,
    dim: Dimension,
    filled: Tensor<'g>,
) -> Tensor<'g> {
    match Shape::new(output) {
        Ok(output) => in_blocks([x, y], output, dim, filled, BLOCK),
        Err(error) => {
            x.graph().record("einsum_filled", error.to_string());
            x.poisoned()
        }
    }
}

#[track_caller]
fn in_blocks<'g>(
    [x, y]: [Tensor<'g>; 2],
    output: Shape,
    dim: Dimension,
    filled: Tensor<'g>,
    block: usize,
) -> Tensor<'g> {
    x.graph().apply1(Filled { output, dim: dim.name, block }, &[x, y, filled])
}

impl Op for Filled {
    fn name(&self) -> &'static str {
        "einsum_filled"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x, y, filled] = inputs(self.name(), types)?;
        let dtype = crate::elementwise::number(self.name(), &[x.dtype, y.dtype])?;
        let all = x.shape.union(&y.shape)?;
        if let Some(stray) = self.output.iter().find(|d| all.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!("neither {x} nor {y} has the dim {stray}")));
        }
        let (dim, shapes) = (self.dim, [&x.shape, &y.shape, &self.output]);
        if shapes.iter().filter(|shape| shape.contains(dim)).count() < 2 {
            return Err(OpError::new(format!(
                "einsum_filled: {dim} is to be a dim of two of {x}, {y} and the output {}",
                self.output
            )));
        }
        if filled.dtype != DType::I32 {
            let dtype = filled.dtype;
            return Err(OpError::new(format!("einsum_filled: filled is i32, not {dtype}")));
        }
        let others = all.without(&[dim]);
        if let Some(stray) = filled.shape.iter().find(|d| others.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!(
                "einsum_filled: {filled}, how many positions are filled, may have the dims {others}, \
                 not {stray}"
            )));
        }
        Ok(vec![TensorType::new(self.output.clone(), dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let summed = io.inputs.iter().flat_map(|t| t.shape.names());
        let summed: Vec<_> = summed.filter(|&name| !self.output.contains(name)).collect();
        SplitRule::parallel().with(summed, Role::Reduced(ReduceKind::Sum)).product(2)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let made = self.product(cx)?;
        let made = cx.cast(&made, cx.output_dtype(0))?;
        cx.finish(0, made)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, y, filled, dy) = (cx.input(0), cx.input(1), cx.input(2), cx.dy());
        let all = x.shape().union(&y.shape())?;
        let dim = dim_of(self.name(), &TensorType::new(all, x.dtype()), self.dim)?;
        let of = |factors, onto| in_blocks(factors, onto, dim, filled, self.block);
        Ok(vec![Some(of([dy, y], x.shape())), Some(of([dy, x], y.shape())), None])
    }
}

/// How one processor goes through its positions.
struct Frame {
    /// Dims of the long factor that are gone through one by one.
    outer: Vec<Dimension>,
    /// The dim, and what it is cut into.
    whole: Dimension,
    blocks: Dimension,
    rows: Dimension,
    /// What the product has.
    onto: Shape,
    dtype: DType,
}

impl Filled {
    fn product(&self, cx: &mut LocalCx<'_, '_>) -> Result<Local, OpError> {
        let [mut short, mut long, filled] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
        if !long.shape().contains(self.dim) {
            std::mem::swap(&mut short, &mut long);
        }
        let frame = self.frame(cx, &short, &long)?;
        let [here, x] = [0, 1].map(Expr::input);
        let begin = cx.begin(self.dim, frame.whole.size)?;
        let end = frame.whole.size * cx.parts(self.dim)?;
        let positions = cx.counted(frame.whole, begin, end)?;
        let counts =
            cx.map(&[positions.clone(), filled.clone()], &here.clone().less(x), DType::Bool)?;
        let here_only = |cx: &mut LocalCx<'_, '_>, value: &Local, shape: &Shape| {
            let value = cx.cast(value, frame.dtype)?;
            let kept = here.clone().select(Expr::input(1), 0.0);
            cx.map_over(shape, &[counts.clone(), value], &kept, frame.dtype)
        };
        // What counts is chosen in the smaller values: what is made, if it has the dims, else a factor.
        let of_output = counts.shape().names().all(|name| frame.onto.contains(name));
        if !of_output {
            let shape = short.shape().union(counts.shape())?;
            short = here_only(cx, &short, &shape)?;
        }
        let made = match frame.blocks.size == 1 && end == frame.whole.size {
            true => cx.contract(&short, &long, &frame.onto, frame.dtype)?,
            false => frame.guarded(cx, [&short, &long, &filled], &positions)?,
        };
        if of_output { here_only(cx, &made, &frame.onto) } else { Ok(made) }
    }

    fn frame(&self, cx: &LocalCx<'_, '_>, short: &Local, long: &Local) -> Result<Frame, OpError> {
        let (onto, dtype) = (cx.output_shape(0), cx.output_dtype(0).reduction());
        let missing =
            || OpError::new(format!("einsum_filled: {} has no {}", long.shape(), self.dim));
        let whole = long.shape().get(self.dim).ok_or_else(missing)?;
        let shared = |d: &Dimension| onto.contains(d.name) && short.shape().contains(d.name);
        let before = long.shape().iter().take_while(|d| d.name != self.dim);
        let outer = before.take_while(shared).collect();
        let taken: Vec<_> = short.shape().union(long.shape())?.names().collect();
        let named = |what: &str, size| {
            let name = DimName::new(&format!("{}_{what}", self.dim));
            Dimension::new(unlike(name, &taken).as_str(), size)
        };
        let rows = rows_of(whole.size, self.block);
        let (blocks, rows) = (named("blocks", whole.size / rows), named("in_block", rows));
        Ok(Frame { outer, whole, blocks, rows, onto, dtype })
    }
}

/// Positions of a block: the greatest number up to `most` that divides all; all of them, if that is too few
/// for a block to be worth its guard.
fn rows_of(size: usize, most: usize) -> usize {
    let fits = (1..=most.min(size)).rev().find(|rows| size.is_multiple_of(*rows)).unwrap_or(1);
    if fits * 8 < most.min(size) { size } else { fits }
}

impl Frame {
    /// The product, block by block; a block that begins beyond what is filled is skipped.
    fn guarded(
        &self,
        cx: &mut LocalCx<'_, '_>,
        [short, long, filled]: [&Local; 3],
        positions: &Local,
    ) -> Result<Local, OpError> {
        // The most of all that is not gone through one by one.
        let outer = Shape::new(self.outer.iter().copied())?;
        let counted = Shape::new(outer.iter().filter(|d| filled.shape().contains(d.name)))?;
        let filled = cx.reduce(ReduceKind::Max, filled, &counted)?;
        let cut = Shape::new([self.blocks, self.rows])?;
        let positions = cx.reshape(positions, &cut)?;
        let first = cx.reduce(ReduceKind::Min, &positions, &Shape::new([self.blocks])?)?;
        let of_blocks = Shape::new(counted.iter().chain([self.blocks]))?;
        let begins = Expr::input(0).less(Expr::input(1));
        let meets = cx.map_over(&of_blocks, &[first, filled], &begins, DType::Bool)?;
        let [short, long] = [self.arranged(cx, short)?, self.arranged(cx, long)?];
        let inner = self.onto.without(&outer.names().collect::<Vec<_>>());
        let made = along(cx, &self.outer, &[short, long, meets], &mut |cx, values| {
            if inner.contains(self.whole.name) {
                self.side_by_side(cx, values, &inner)
            } else {
                self.summed(cx, values, &inner)
            }
        })?;
        match inner.contains(self.whole.name) {
            true => {
                let rest = inner.iter().filter(|d| *d != self.whole);
                cx.reshape(&made, &Shape::new(outer.iter().chain([self.whole]).chain(rest))?)
            }
            false => Ok(made),
        }
    }

    /// A factor with the dims first that are gone through, in blocks.
    fn arranged(&self, cx: &mut LocalCx<'_, '_>, x: &Local) -> Result<Local, OpError> {
        let dims: Vec<_> = x.shape().iter().collect();
        let has = dims.contains(&self.whole);
        let first: Vec<_> = self.outer.iter().copied().filter(|d| dims.contains(d)).collect();
        let rest = |d: &&Dimension| **d != self.whole && !first.contains(d);
        let rest: Vec<_> = dims.iter().filter(rest).copied().collect();
        let whole = has.then_some(self.whole);
        let order = first.iter().copied().chain(whole).chain(rest.iter().copied());
        let x = cx.transpose(x, &order.map(|d| d.name).collect::<Vec<_>>())?;
        let cut = has.then_some([self.blocks, self.rows]).into_iter().flatten();
        cx.reshape(&x, &Shape::new(first.into_iter().chain(cut).chain(rest))?)
    }

    /// A result that has the dim: blocks side by side, zeros where one is skipped.
    fn side_by_side(
        &self,
        cx: &mut LocalCx<'_, '_>,
        values: &[Local],
        inner: &Shape,
    ) -> Result<Local, OpError> {
        let rest = inner.iter().filter(|d| *d != self.whole);
        let shape = Shape::new([self.rows].into_iter().chain(rest))?;
        along(cx, &[self.blocks], values, &mut |cx, values| {
            let [short, long, meets] = three(values)?;
            let nothing = cx.fill(Scalar::new(self.dtype, 0.0), &shape);
            let given = LocalGiven {
                carried: &[nothing],
                captured: &[short.clone(), long.clone()],
                ..LocalGiven::default()
            };
            let left = cx.guard(meets, given, |cx, it| {
                Ok(vec![cx.contract(&it.captured[0], &it.captured[1], &shape, self.dtype)?])
            })?;
            one(left)
        })
    }

    /// A result that lacks the dim: the sum over blocks.
    fn summed(
        &self,
        cx: &mut LocalCx<'_, '_>,
        values: &[Local],
        inner: &Shape,
    ) -> Result<Local, OpError> {
        let nothing = [cx.fill(Scalar::new(self.dtype, 0.0), inner)];
        let (sliced, captured) = by(values, self.blocks);
        let given = LocalGiven { carried: &nothing, sliced: &sliced, captured: &captured };
        let left = cx.repeat(self.blocks, given, |cx, it| {
            let values = joined(values, self.blocks, it.sliced, it.captured)?;
            let [short, long, meets] = three(&values)?;
            let captured = [short.clone(), long.clone()];
            let given =
                LocalGiven { carried: &it.carried, captured: &captured, ..LocalGiven::default() };
            let carried = cx.guard(meets, given, |cx, it| {
                let more = cx.contract(&it.captured[0], &it.captured[1], inner, self.dtype)?;
                let sum = Expr::input(0) + Expr::input(1);
                Ok(vec![cx.map_over(inner, &[it.carried[0].clone(), more], &sum, self.dtype)?])
            })?;
            Ok(LocalLeft { carried, stacked: Vec::new() })
        })?;
        one(left.carried)
    }
}

type Body<'b> = dyn FnMut(&mut LocalCx<'_, '_>, &[Local]) -> Result<Local, OpError> + 'b;

/// Runs a body for each position along all of some dims, the first outermost, on slices of the values that
/// have them first; what it makes lies side by side.
fn along(
    cx: &mut LocalCx<'_, '_>,
    over: &[Dimension],
    values: &[Local],
    body: &mut Body<'_>,
) -> Result<Local, OpError> {
    let Some((&dim, rest)) = over.split_first() else { return body(cx, values) };
    let (sliced, captured) = by(values, dim);
    let given = LocalGiven { carried: &[], sliced: &sliced, captured: &captured };
    let left = cx.repeat(dim, given, |cx, it| {
        let values = joined(values, dim, it.sliced, it.captured)?;
        let stacked = vec![along(cx, rest, &values, body)?];
        Ok(LocalLeft { carried: Vec::new(), stacked })
    })?;
    one(left.stacked)
}

/// Values that have a dim, and those that have not.
fn by(values: &[Local], dim: Dimension) -> (Vec<Local>, Vec<Local>) {
    values.iter().cloned().partition(|value| value.shape().contains(dim.name))
}

/// What an iteration has of values, in their order.
fn joined(
    values: &[Local],
    dim: Dimension,
    sliced: Vec<Local>,
    captured: Vec<Local>,
) -> Result<Vec<Local>, OpError> {
    let (mut sliced, mut captured) = (sliced.into_iter(), captured.into_iter());
    let of = |value: &Local| match value.shape().contains(dim.name) {
        true => sliced.next(),
        false => captured.next(),
    };
    values.iter().map(of).collect::<Option<_>>().ok_or_else(lost)
}

fn three(values: &[Local]) -> Result<&[Local; 3], OpError> {
    values.try_into().map_err(|_| lost())
}

fn one(values: Vec<Local>) -> Result<Local, OpError> {
    values.into_iter().next().ok_or_else(lost)
}

fn lost() -> OpError {
    OpError::new("internal error: einsum_filled lost a value on its way through a loop")
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Filled>(|op, x, types| {
            let all = x[0].ty.shape.union(&x[1].ty.shape).unwrap_or_default();
            let points = Dense::each(&TensorType::new(all.clone(), DType::F64), |at| {
                let counts = (at.along(op.dim.as_str()) as f64) < x[2].at(at);
                if counts { x[0].at(at) * x[1].at(at) } else { 0.0 }
            });
            let mut out = Dense::zeros(types[0].clone());
            for (&to, point) in offsets(&types[0].shape, &all).iter().zip(&points.data) {
                out.data[to] += point;
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            let (b, m, k, g) = (dim("b", 4), dim("m", 8), dim("k", 2), dim("g", 2));
            let of = |name: &str, output: Vec<Dimension>| {
                Case::new(name, move |_, x| {
                    let output = Shape::new(output.iter().copied()).unwrap_or_default();
                    in_blocks([x[0], x[1]], output, dim("m", 8), x[2], 2)
                })
                .shows("einsum_filled")
            };
            let (scores, values) = (vec![b, g, m], vec![b, g, k]);
            let counts = || Fill::Values(vec![5.0, 0.0, 9.0, 2.0]);
            vec![
                Case::new("einsum_filled", move |_, x| einsum_filled(x[0], x[1], [b, m], m, x[2]))
                    .normal("q", "b:4;k:2", F32)
                    .normal("keys", "b:4;m:8;k:2", F32)
                    .input("filled", "", I32, Fill::Values(vec![3.0]))
                    .meshes(FEW),
                of("scores in blocks", scores.clone())
                    .exact()
                    .integers("q", "b:4;k:2;g:2", F64)
                    .integers("keys", "b:4;m:8;k:2", F64)
                    .input("filled", "", I32, Fill::Values(vec![5.0])),
                of("scores in blocks, each of a batch", scores.clone())
                    .exact()
                    .integers("q", "b:4;k:2;g:2", F32)
                    .integers("keys", "b:4;m:8;k:2", F32)
                    .input("filled", "b:4", I32, counts()),
                of("values in blocks, each of a batch", values.clone())
                    .normal("weights", "b:4;g:2;m:8", F32)
                    .normal("values", "b:4;m:8;k:2", F32)
                    .input("filled", "b:4", I32, counts()),
                of("a batch behind, a count for each row", vec![g, m])
                    .normal("x", "m:8;b:4;g:2", F32)
                    .normal("y", "m:8;b:4", F32)
                    .input("filled", "b:4;g:2", I32, counts())
                    .meshes(FEW),
                of("bf16", values.clone())
                    .normal("weights", "b:4;g:2;m:8", BF16)
                    .normal("values", "b:4;m:8;k:2", BF16)
                    .input("filled", "b:4", I32, counts())
                    .meshes(FEW),
            ]
        },
    };
}
