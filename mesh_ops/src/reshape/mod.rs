//! `reshape(x, dims)`: the same elements in declared order, under other dims. `rename` is the case
//! of one dim. Changing a dim's name is how one tensor is laid out otherwise than the rest.
//!
//! | shape | any of equal size |
//! |---|---|
//! | split | every dim parallel: a split passes on where groups allow it, else data move |
//! | linear | moves x |
//! | gradient | reshape back |
//!
//! Old and new dims fall into the finest groups of equal size, as in `[a:6, b:8] -> [x:2, y:3,
//! b:8]`: (a | x y), (b | b). A split of a group's first old dim is a split of its first new dim,
//! as far as both divide; nothing travels for it. The rest is relayout, before or after,
//! whichever moves fewer bytes:
//!
//! | old split | new split | what happens |
//! |---|---|---|
//! | first dim of a group | first dim of its group | nothing |
//! | none | some dim | each processor keeps its part |
//! | some dim | none | all-gather |
//! | some dim | another group's dim, same axis | all-to-all |
//! | pending sum | some dim | reduce-scatter |
//! | inner dim of a group | any | all-gather, then each processor keeps its part |

mod groups;

use crate::room::*;
use groups::{Group, groups};
use mesh_core::lower::{PlaceCx, Placing, relayout_cost};
use mesh_core::names::{AxisList, Placement};

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reshape {
    shape: Shape,
}

/// The elements of `x`, in declared order, under other dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("pixels", 784)], F32);
/// let y = mesh_ops::reshape(x, [dim("rows", 28), dim("cols", 28)]);
/// assert_eq!(y.shape().to_string(), "[rows:28, cols:28]");
/// ```
#[track_caller]
pub fn reshape<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    match Shape::new(dims) {
        Ok(shape) if x.shape() == shape => x,
        Ok(shape) => x.graph().apply1(Reshape { shape }, &[x]),
        Err(error) => {
            x.graph().record("reshape", error.to_string());
            x.poisoned()
        }
    }
}

/// `x` with a dim of another name, which other layout rules may match.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 8);
/// let x = g.input("x", [batch], F32);
/// assert_eq!(mesh_ops::rename(x, batch, "batch_whole").shape().to_string(), "[batch_whole:8]");
/// ```
#[track_caller]
pub fn rename<'g>(x: Tensor<'g>, dim: Dimension, name: &str) -> Tensor<'g> {
    let shape = x.shape();
    if !x.is_poisoned() && shape.get(dim.name) != Some(dim) {
        x.graph().record("rename", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    let renamed = |d: Dimension| if d == dim { d.renamed(name) } else { d };
    reshape(x, shape.iter().map(renamed))
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        if x.shape.size() != self.shape.size() {
            return Err(OpError::new(format!(
                "{x} has {} elements, {} has {}; a reshape keeps their number",
                x.shape.size(),
                self.shape,
                self.shape.size()
            )));
        }
        Ok(vec![TensorType::new(self.shape.clone(), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let out = cx.reshape(&x, &shape)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![Some(reshape(cx.dy(), cx.input(0).shape()))])
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.check_output(0);
        let io = cx.signature();
        let (old, new) = (&io.inputs[0], &io.outputs[0]);
        let groups = groups(&old.shape, &new.shape);
        let wanted = cx.wanted(&new.shape);
        let candidates =
            [through(cx, &groups, &wanted, true), through(cx, &groups, cx.available(0), false)];
        let cost = |(from, to): &(Placement, Placement)| {
            let element = old.dtype.reduction().size();
            let before = relayout_cost(cx.mesh(), &old.shape, element, cx.available(0), from);
            let after = relayout_cost(cx.mesh(), &new.shape, element, to, &wanted);
            before.zip(after).map_or(usize::MAX, |(before, after)| before + after)
        };
        let [by_output, by_input] = candidates;
        let best = if cost(&by_output) <= cost(&by_input) { by_output } else { by_input };
        Placing::new(vec![best.0], vec![best.1])
    }
}

/// The placements of input and output that a local reshape maps onto each other, as near as can be
/// to a given placement of the output (`backwards`) or of the input.
fn through(
    cx: &PlaceCx<'_>,
    groups: &[Group],
    given: &Placement,
    backwards: bool,
) -> (Placement, Placement) {
    let (mut input, mut output) = (Placement::replicated(), Placement::replicated());
    for group in groups {
        let (old, new) = (group.old, group.new);
        let (from, onto) = if backwards { (new, old) } else { (old, new) };
        let mut axes = AxisList::new();
        for &axis in given.axes(from.name) {
            axes.push(axis);
            let parts = cx.mesh().group_size(&axes);
            if from.size % parts != 0 || onto.size % parts != 0 {
                axes.pop();
                break;
            }
        }
        input = input.split(old.name, &axes);
        output = output.split(new.name, &axes);
    }
    // What is owed over axes that stay free is carried.
    let available = cx.available(0);
    if let Some(kind) = available.pending() {
        let free = |axis: &_| input.dim_on(*axis).is_none();
        let owed: AxisList = available.pending_axes().iter().copied().filter(free).collect();
        return (input.with_pending(kind, &owed), output.with_pending(kind, &owed));
    }
    (input, output)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Reshape>(|_, x, types| {
            vec![Dense { ty: types[0].clone(), ..x[0].clone() }]
        })],
        cases: || {
            vec![
                exact("reshape: a dim cut", |x| {
                    reshape(x, [dim("p", 8), dim("u", 4), dim("v", 3)])
                }),
                exact("reshape: dims joined", |x| reshape(x, [dim("u", 96)])),
                exact("reshape: across", |x| reshape(x, [dim("u", 6), dim("v", 16)])),
                exact("rename", |x| rename(x, p(), "u")),
                exact("rename back and forth", |x| {
                    rename(rename(x, p(), "u") * 2.0, p().renamed("u"), "p") + x
                }),
            ]
        },
    };
}
