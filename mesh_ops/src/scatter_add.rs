//! `scatter_add(updates, indices, dim, shape)`: sums of updates by their positions along a dim; `scatter_max`,
//! `scatter_min`, `scatter_mul` fold in other ways, for [`scatter`](crate::scatter()) and
//! [`segment_max`](crate::segment_max).
//!
//! | shape | as given; the indexed dim and dims of updates |
//! |---|---|
//! | split | dims of updates that `shape` lacks reduced(kind), others parallel |
//! | linear | adds updates for scatter_add, else none |
//! | gradient | scatter_add: gather of dy; scatter_max, scatter_min: to the updates that attain it, in equal parts; scatter_mul: the product of the others |
//!
//! Over a split `dim` each processor keeps what is for its own positions.

use crate::elementwise::{cast, div, equal, maximum, mul};
use crate::gather::check_indices;
use crate::reduce;
use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct ScatterFold {
    /// How updates are folded.
    kind: ReduceKind,
    /// The dim of the result along which indices are positions.
    dim: DimName,
    /// The result's dims.
    shape: Shape,
}

/// A tensor with the dims of `shape` that holds, at each position along `dim`, the sum of all
/// `updates` whose index (i32) is that position. Dims of `updates` that `shape` lacks are summed;
/// `indices` has some of the dims of `updates`. An index outside `0..dim.size` adds nothing.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (words, width, length) = (dim("words", 1000), dim("width", 8), dim("length", 5));
/// let updates = g.input("updates", [length, width], F32);
/// let text = g.input("text", [length], I32);
/// let sums = mesh_ops::scatter_add(updates, text, words, [words, width]);
/// assert_eq!(sums.shape().to_string(), "[words:1000, width:8]");
/// ```
#[track_caller]
pub fn scatter_add<'g>(
    updates: Tensor<'g>,
    indices: Tensor<'g>,
    dim: Dimension,
    shape: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    scatter_fold(ReduceKind::Sum, updates, indices, dim, shape)
}

/// As [`scatter_add`], of sums, products, greatest or least updates; where there are none it has what changes
/// nothing.
#[track_caller]
pub(crate) fn scatter_fold<'g>(
    kind: ReduceKind,
    updates: Tensor<'g>,
    indices: Tensor<'g>,
    dim: Dimension,
    shape: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let graph = updates.graph();
    match Shape::new(shape) {
        Ok(shape) if shape.get(dim.name) == Some(dim) => {
            graph.apply1(ScatterFold { kind, dim: dim.name, shape }, &[updates, indices])
        }
        Ok(shape) => {
            graph.record(name(kind), format!("the result's dims {shape} lack {dim}"));
            updates.poisoned()
        }
        Err(error) => {
            graph.record(name(kind), error.to_string());
            updates.poisoned()
        }
    }
}

fn name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::Prod => "scatter_mul",
        ReduceKind::Max => "scatter_max",
        ReduceKind::Min => "scatter_min",
        _ => "scatter_add",
    }
}

/// Refuses updates and indices that do not go with each other and with the result's dims.
pub(crate) fn check_updates(
    op: &str,
    [updates, indices]: [&TensorType; 2],
    dim: DimName,
    onto: &Shape,
) -> Result<(), OpError> {
    check_indices(op, indices, dim)?;
    if updates.dtype == DType::Bool {
        return Err(OpError::new(format!("{op} needs numbers, not bool")));
    }
    if updates.shape.contains(dim) {
        return Err(OpError::new(format!(
            "{op}: the updates {updates} have the indexed dim {dim} themselves; rename it"
        )));
    }
    let lacks = |d: &Dimension| updates.shape.get(d.name) != Some(*d);
    let kept = onto.without(&[dim]);
    match kept.iter().chain(&indices.shape).find(lacks) {
        Some(dim) => Err(OpError::new(format!(
            "{op}: the updates {updates} have no dim {dim}; broadcast them"
        ))),
        None => Ok(()),
    }
}

impl Op for ScatterFold {
    fn name(&self) -> &'static str {
        name(self.kind)
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [updates, indices] = inputs(self.name(), types)?;
        check_updates(self.name(), [updates, indices], self.dim, &self.shape)?;
        Ok(vec![TensorType::new(self.shape.clone(), updates.dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let folded = io.inputs.iter().flat_map(|t| t.shape.names());
        let folded = folded.filter(|&name| !self.shape.contains(name));
        let rule = SplitRule::parallel().with(folded, Role::Reduced(self.kind));
        if self.kind == ReduceKind::Sum { rule.linear(Linearity::Adds, &[&[0]]) } else { rule }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (updates, indices, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let begin = cx.begin(self.dim, onto.get(self.dim).map_or(1, |d| d.size))?;
        let out = cx.scatter(self.kind, &updates, &indices, self.dim, begin, &onto)?;
        let out = cx.cast(&out, cx.output_dtype(0))?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (updates, indices, y, dy) = (cx.input(0), cx.input(1), cx.output(0), cx.dy());
        let dim = dim_of(self.name(), &y.tensor_type(), self.dim)?;
        let positions = Positions { dim, shape: self.shape.clone() };
        let given = [updates, indices];
        let found = |y| positions.found(given, y);
        let dx = match self.kind {
            ReduceKind::Prod => mul(found(dy), positions.clone().product_of_others(given)),
            ReduceKind::Max | ReduceKind::Min => {
                let attained = cast(equal(updates, found(y)), updates.dtype());
                // Where no update comes, none takes anything either.
                let count = maximum(positions.sums(given, attained), 1);
                mul(attained, found(div(dy, count)))
            }
            _ => found(dy),
        };
        Ok(vec![Some(crate::transpose(dx, updates.shape())), None])
    }
}

/// Where updates go.
#[derive(Clone)]
struct Positions {
    dim: Dimension,
    shape: Shape,
}

impl Positions {
    /// For each update what is at its position.
    #[track_caller]
    fn found<'g>(&self, [updates, indices]: [Tensor<'g>; 2], y: Tensor<'g>) -> Tensor<'g> {
        let (all, own, of_index) = (updates.shape(), y.shape(), indices.shape());
        let lacking: Vec<_> =
            all.names().filter(|&d| !own.contains(d) && !of_index.contains(d)).collect();
        // What is looked up lies as the updates do.
        let order = all.without(&lacking);
        crate::broadcast(crate::gather::gather_onto(y, indices, self.dim, order), &all)
    }

    #[track_caller]
    fn sums<'g>(&self, [_, indices]: [Tensor<'g>; 2], x: Tensor<'g>) -> Tensor<'g> {
        crate::scatter_add(x, indices, self.dim, &self.shape)
    }

    /// For each update the product of the others of its position. Its gradient looks at every pair of updates: it is
    /// right where some are 0, and so are its own gradients.
    #[track_caller]
    fn product_of_others<'g>(self, given: [Tensor<'g>; 2]) -> Tensor<'g> {
        let folded = self.shape.without(&[self.dim.name]);
        let [others] = given[0].graph().custom_gradient(
            given,
            move |given @ [updates, indices]| {
                [reduce::others(updates, |kind, x| {
                    let folded = scatter_fold(kind, x, indices, self.dim, &self.shape);
                    self.found(given, folded)
                })]
            },
            move |cx| {
                let [updates, indices] = [cx.input(0), cx.input(1)];
                vec![Some(reduce::of_pairs(updates, Some(indices), cx.dy(), &folded)), None]
            },
        );
        others
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::gather::proof::{OUTSIDE, vocab};
    use crate::reduce::proof::greater;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<ScatterFold>(|op, x, types| {
            let [updates, indices] = [x[0], x[1]];
            let is_i32 = types[0].dtype == DType::I32;
            let (start, fold): (f64, fn(f64, f64) -> f64) = match op.kind {
                ReduceKind::Prod => (1.0, |a, b| a * b),
                ReduceKind::Max if is_i32 => (f64::from(i32::MIN), greater),
                ReduceKind::Max => (f64::NEG_INFINITY, greater),
                ReduceKind::Min if is_i32 => (f64::from(i32::MAX), |a, b| -greater(-a, -b)),
                ReduceKind::Min => (f64::INFINITY, |a, b| -greater(-a, -b)),
                _ => (0.0, |a, b| a + b),
            };
            let (mut out, onto, over) =
                (Dense::filled(types[0].clone(), start), &types[0].shape, &updates.ty.shape);
            let (to, at) = (offsets(onto, over), offsets(&indices.ty.shape, over));
            for i in 0..updates.data.len() {
                let index = indices.data[at[i]];
                if index >= 0.0 && index < extent(onto, op.dim) as f64 {
                    let at = to[i] + index as usize * stride(onto, op.dim);
                    out.data[at] = fold(out.data[at], updates.data[i]);
                }
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("scatter_add", |_, x| {
                    scatter_add(x[0], x[1], vocab(), [dim("width", 4), vocab()])
                })
                .exact()
                .integers("updates", "batch:4;length:2;width:4", F32)
                .input("at", "batch:4;length:2", I32, OUTSIDE),
                Case::new("scatter_add: batched, a dim summed", |_, x| {
                    scatter_add(x[0], x[1], vocab(), [dim("batch", 4), vocab()])
                })
                .normal("updates", "length:2;batch:4;width:4", F32)
                .input("at", "batch:4;length:2", I32, OUTSIDE)
                .meshes(FEW),
                Case::new("scatter_add: bf16", |_, x| scatter_add(x[0], x[1], vocab(), [vocab()]))
                    .normal("updates", "batch:4", BF16)
                    .indices("at", "batch:4", 3)
                    .meshes(FEW),
                Case::new("scatter_add: i32", |_, x| scatter_add(x[0], x[1], vocab(), [vocab()]))
                    .integers("updates", "batch:4", I32)
                    .indices("at", "batch:4", 3)
                    .meshes(FEW),
            ]
        },
    };
}
