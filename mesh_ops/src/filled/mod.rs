//! `einsum_filled(x, y, output, dim, filled)`: the product of two factors of which only the first positions of
//! a dim count; the rest is read to the end of a block at most.
//!
//! | shape | the output dims as given |
//! |---|---|
//! | split | dims not in the output reduced(sum), others parallel |
//! | linear | multiplies x or y |
//! | gradient | of each factor: einsum_filled of dy with the other onto its dims |
//!
//! A cache of keys and values has room for more positions than it holds. The dim is cut into blocks, and each
//! product of a block stands in a guard, which the processor skips if the block begins beyond what is filled.
//! Dims of the factor that lie before the dim, and that all three have, are gone through one by one, so that
//! a block lies side by side and is looked at where it is. A processor that has a slice of the dim does so
//! with its own positions.

mod blocks;

use crate::room::*;
use blocks::Frame;
use mesh_core::lower::Local;
use mesh_core::program::Expr;

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
    einsum_filled_in_blocks(x, y, output, dim, filled, BLOCK)
}

/// As [`einsum_filled`], in blocks of at most so many positions.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (memory, kv) = (dim("memory", 1024), dim("kv", 8));
/// let weights = g.input("weights", [memory], F32);
/// let (values, filled) = (g.input("values", [memory, kv], F32), g.input("filled", [], I32));
/// let mean = mesh_ops::einsum_filled_in_blocks(weights, values, [kv], memory, filled, 64);
/// assert_eq!(mean.shape().to_string(), "[kv:8]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn einsum_filled_in_blocks<'g>(
    x: Tensor<'g>,
    y: Tensor<'g>,
    output: impl IntoIterator<Item = Dimension>,
    dim: Dimension,
    filled: Tensor<'g>,
    block: usize,
) -> Tensor<'g> {
    match Shape::new(output) {
        Ok(output) => x.graph().apply1(Filled { output, dim: dim.name, block }, &[x, y, filled]),
        Err(error) => {
            x.graph().record("einsum_filled", error.to_string());
            x.poisoned()
        }
    }
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
        let of = |other: Tensor<'g>, onto: Shape| {
            // The dims that the factor alone has, over which the product summed it.
            let shared: Vec<_> = dy.shape().names().chain(other.shape().names()).collect();
            let spread = dy.shape().union(&onto.without(&shared))?;
            let dy = crate::broadcast(dy, &spread);
            Ok::<_, OpError>(einsum_filled_in_blocks(dy, other, &onto, dim, filled, self.block))
        };
        Ok(vec![Some(of(y, x.shape())?), Some(of(x, y.shape())?), None])
    }
}

impl Filled {
    fn product(&self, cx: &mut LocalCx<'_, '_>) -> Result<Local, OpError> {
        let [mut short, mut long, filled] = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
        if !long.shape().contains(self.dim) {
            std::mem::swap(&mut short, &mut long);
        }
        let frame = Frame::new(cx, [&short, &long], self.dim, self.block)?;
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
                    let output = output.iter().copied();
                    einsum_filled_in_blocks(x[0], x[1], output, dim("m", 8), x[2], 2)
                })
                .shows("einsum_filled_in_blocks")
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
                    .input("filled", "", I32, Fill::Values(vec![5.0]))
                    .meshes(FEW),
                of("scores in blocks, each of a batch", scores.clone())
                    .exact()
                    .integers("q", "b:4;k:2;g:2", F32)
                    .integers("keys", "b:4;m:8;k:2", F32)
                    .input("filled", "b:4", I32, counts()),
                of("values in blocks, each of a batch", values.clone())
                    .normal("p", "b:4;g:2;m:8", F32)
                    .normal("v", "b:4;m:8;k:2", F32)
                    .input("filled", "b:4", I32, counts()),
                of("a batch behind, a count for each row", vec![g, m])
                    .normal("x", "m:8;b:4;g:2", F32)
                    .normal("y", "m:8;b:4", F32)
                    .input("filled", "b:4;g:2", I32, counts())
                    .meshes(FEW),
                of("bf16", values.clone())
                    .normal("p", "b:4;g:2;m:8", BF16)
                    .normal("v", "b:4;m:8;k:2", BF16)
                    .input("filled", "b:4", I32, counts())
                    .meshes(FEW),
                of("a dim of one factor alone", vec![g, m])
                    .normal("q", "b:4;g:2", F64)
                    .normal("keys", "m:8;k:2", F64)
                    .input("filled", "b:4", I32, counts())
                    .meshes(FEW),
            ]
        },
    };
}
