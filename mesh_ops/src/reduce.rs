//! Reductions: `sum`, `mean`, `variance`, `prod`, `max`, `min`, `all`, `any` over any dims.
//!
//! | shape | x without the dims |
//! |---|---|
//! | split | the dims reduced(kind), others parallel |
//! | linear | adds x for sum, else none |
//! | gradient | sum: broadcast; max, min: to the elements that attain it, in equal parts; prod: the product of the others; all, any: none |

use crate::elementwise::{cast, equal, logical_and, logical_or, not_equal, select, square};
use crate::room::*;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reduce {
    kind: ReduceKind,
    dims: Vec<DimName>,
}

#[track_caller]
fn reduce<'g>(
    kind: ReduceKind,
    x: Tensor<'g>,
    dims: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let stray = dims.iter().find(|d| x.shape().get(d.name) != Some(**d));
    let repeated = (1..dims.len()).map(|i| dims[i]).zip(1..).find(|(d, i)| dims[..*i].contains(d));
    if let Some((dim, _)) = repeated.filter(|_| !x.is_poisoned()) {
        x.graph().record(kind.name(), format!("the dim {dim} is given twice"));
        return x.poisoned();
    }
    if let Some(stray) = stray.filter(|_| !x.is_poisoned()) {
        x.graph()
            .record(kind.name(), format!("{x:?} has no dim {stray}{}", x.shape().hint(*stray)));
        return x.poisoned();
    }
    if dims.is_empty() {
        return x;
    }
    let dims = dims.iter().map(|d| d.name).collect();
    x.graph().apply1(Reduce { kind, dims }, &[x])
}

/// The sum over some dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (dim("a", 2), dim("b", 3));
/// let x = g.input("x", [a, b], F32);
/// assert_eq!(mesh_ops::reduce::sum(x, [b]).shape().to_string(), "[a:2]");
/// ```
#[track_caller]
pub fn sum<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::Sum, x, dims)
}

/// The sum over the dims that `shape` lacks, in the order of `shape`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (dim("a", 2), dim("b", 3));
/// let (x, scale) = (g.input("x", [a, b], F32), g.input("scale", [b], F32));
/// assert_eq!(mesh_ops::reduce::sum_onto(x * scale, &scale.shape()).shape(), scale.shape());
/// ```
#[track_caller]
pub fn sum_onto<'g>(x: Tensor<'g>, shape: &Shape) -> Tensor<'g> {
    let own = x.shape();
    let lacking: Vec<_> = own.iter().filter(|d| !shape.contains(d.name)).collect();
    let sum = sum(x, lacking);
    if sum.shape().is_permutation_of(shape) { crate::transpose(sum, shape) } else { sum }
}

/// The mean over some dims; floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], F32);
/// assert!(mesh_ops::reduce::mean(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn mean<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let count: usize = dims.iter().map(|d| d.size).product();
    if !x.dtype().is_float() && !x.is_poisoned() {
        x.graph().record("mean", format!("mean needs floats, not {}", x.dtype()));
        return x.poisoned();
    }
    sum(x, dims) * (1.0 / count as f64)
}

/// The mean square distance from the mean over some dims; floats. It is never negative.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], F32);
/// assert!(mesh_ops::reduce::variance(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn variance<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let mean_of_x = mean(x, dims.iter().copied());
    mean(square(x - mean_of_x), dims)
}

/// The product over some dims; numbers, i32 wraps.
///
/// Its gradient is right also where elements are 0, and so are gradients of that. It is computed from the
/// product of what is not 0, so where that overflows or vanishes the gradient does too. The gradient of the
/// gradient looks at every pair of the elements multiplied with each other.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], F32);
/// assert!(mesh_ops::reduce::prod(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn prod<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::Prod, x, dims)
}

/// For each element the product of the others over the dims that `onto` lacks.
#[track_caller]
fn product_of_others<'g>(x: Tensor<'g>, onto: &Shape) -> Tensor<'g> {
    let (here, there) = (onto.clone(), onto.clone());
    let [others] = x.graph().custom_gradient(
        [x],
        |[x]| [others(x, |kind, x| reduce(kind, x, dims_beside(x, &here)))],
        move |cx| vec![Some(of_pairs(cx.input(0), None, cx.dy(), &there))],
    );
    others
}

/// The dims of `x` that `onto` lacks.
fn dims_beside(x: Tensor<'_>, onto: &Shape) -> Vec<Dimension> {
    x.shape().iter().filter(|d| !onto.contains(d.name)).collect()
}

/// For each element the product of those that `folded` folds with it and that are not 0, divided by the element if
/// that is not 0; and 0 if another of them is. `folded` gives each element the sum or the product of them and itself.
/// Where there are zeros that is no function to differentiate.
pub(crate) fn others<'g>(
    x: Tensor<'g>,
    folded: impl Fn(ReduceKind, Tensor<'g>) -> Tensor<'g>,
) -> Tensor<'g> {
    let scalar = |value, dtype| x.graph().scalar(value, dtype);
    let is_zero = equal(x, scalar(0.0, x.dtype()));
    let divisor = select(is_zero, scalar(1.0, x.dtype()), x);
    let rest = folded(ReduceKind::Prod, divisor) / divisor;
    let zeros = cast(is_zero, DType::I32);
    let other_zeros = folded(ReduceKind::Sum, zeros) - zeros;
    select(equal(other_zeros, scalar(0.0, DType::I32)), rest, scalar(0.0, x.dtype()))
}

/// The cotangent of `x`, by `dy` of the products of others: for each element the sum, over every other
/// one, of that one's `dy` times the product of all elements but these two. With `groups`, of dims of `x`,
/// elements are multiplied with each other only where their groups are equal.
pub(crate) fn of_pairs<'g>(
    x: Tensor<'g>,
    groups: Option<Tensor<'g>>,
    dy: Tensor<'g>,
    onto: &Shape,
) -> Tensor<'g> {
    let (graph, dims) = (x.graph(), dims_beside(x, onto));
    let twin = |&dim: &Dimension| (dim, apart(&x.shape(), dim, "other"));
    let twins: Vec<_> = dims.iter().map(twin).collect();
    let of_other = |x: Tensor<'g>| {
        let renamed = twins.iter().filter(|(own, _)| x.shape().contains(own.name));
        renamed.fold(x, |x, (own, other)| crate::rename(x, *own, other.name.as_str()))
    };
    let index = |dim: Dimension| crate::range(graph, dim, DType::I32);
    let is_one = |(own, other): &(Dimension, Dimension)| equal(index(*own), index(*other));
    let same = twins.iter().map(is_one).fold(graph.scalar(1.0, DType::Bool), logical_and);
    let no_pair = groups.map_or(same, |own| logical_or(same, not_equal(own, of_other(own))));
    let without_other = select(no_pair, x.scalar_like(1.0), x);
    let rest = product_of_others(without_other, &without_other.shape().without(&names(&dims)));
    let terms = select(no_pair, x.scalar_like(0.0), of_other(dy) * rest);
    sum(terms, twins.iter().map(|(_, other)| *other))
}

fn names(dims: &[Dimension]) -> Vec<DimName> {
    dims.iter().map(|dim| dim.name).collect()
}

/// The greatest element over some dims; NaN if there is one.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], F32);
/// assert!(mesh_ops::reduce::max(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn max<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::Max, x, dims)
}

/// The least element over some dims; NaN if there is one.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], F32);
/// assert!(mesh_ops::reduce::min(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn min<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::Min, x, dims)
}

/// Whether every element over some dims is true; bool.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], Bool);
/// assert!(mesh_ops::reduce::all(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn all<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::All, x, dims)
}

/// Whether some element over some dims is true; bool.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], Bool);
/// assert!(mesh_ops::reduce::any(x, [dim("a", 2)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn any<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    reduce(ReduceKind::Any, x, dims)
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let logical = matches!(self.kind, ReduceKind::All | ReduceKind::Any);
        if logical != (x.dtype == DType::Bool) {
            let needed = if x.dtype == DType::Bool { "numbers" } else { "bools" };
            return Err(OpError::new(format!(
                "{} needs {needed}, not {}; cast or compare them before",
                self.name(),
                x.dtype
            )));
        }
        Ok(vec![TensorType::new(x.shape.without(&self.dims), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let rule = SplitRule::parallel().with(self.dims.iter().copied(), Role::Reduced(self.kind));
        if self.kind == ReduceKind::Sum { rule.linear(Linearity::Adds, &[&[0]]) } else { rule }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, onto, dtype) = (cx.input(0)?, cx.output_shape(0), cx.output_dtype(0));
        let x = cx.cast(&x, dtype)?;
        let out = cx.reduce(self.kind, &x, &onto)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, y, dy) = (cx.input(0), cx.output(0), cx.dy());
        match self.kind {
            ReduceKind::Sum => Ok(vec![Some(crate::broadcast(dy, &x.shape()))]),
            ReduceKind::Max | ReduceKind::Min => {
                let attained = cast(equal(x, y), x.dtype());
                let count = sum_onto(attained, &y.shape());
                Ok(vec![Some(attained * (dy / count))])
            }
            ReduceKind::Prod => Ok(vec![Some(dy * product_of_others(x, &y.shape()))]),
            _ => Err(OpError::new(format!("{} has no gradient", self.name()))),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Reduce>(|op, x, types| {
            let (start, fold): (f64, fn(f64, f64) -> f64) = match op.kind {
                ReduceKind::Prod => (1.0, |a, b| a * b),
                ReduceKind::Max | ReduceKind::Any => (f64::NEG_INFINITY, greater),
                ReduceKind::Min | ReduceKind::All => (f64::INFINITY, |a, b| -greater(-a, -b)),
                ReduceKind::Sum | ReduceKind::Select => (0.0, |a, b| a + b),
            };
            let mut out = Dense::filled(types[0].clone(), start);
            for (&element, at) in x[0].data.iter().zip(offsets(&types[0].shape, &x[0].ty.shape)) {
                out.data[at] = fold(out.data[at], element);
            }
            wrap(&mut out);
            vec![out]
        })],
        cases: || {
            vec![
                Case::new("sum of one dim", |_, x| x[0].sum([p()]))
                    .shows("sum")
                    .exact()
                    .integers("x", MATRIX, F32),
                Case::new("sum of all", |_, x| x[0].sum_all()).normal("x", MATRIX, F32),
                Case::new("sum: i32", |_, x| x[0].sum([q()])).integers("x", MATRIX, I32),
                Case::new("sum: bf16", |_, x| x[0].sum([q()])).normal("x", MATRIX, BF16),
                Case::new("prod", |_, x| x[0].prod([q()])).away_from_zero("x", MATRIX, F64),
                Case::new("prod: f32", |_, x| x[0].prod([p()]))
                    .away_from_zero("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("prod of all", |_, x| x[0].prod(x[0].shape())).input(
                    "x",
                    "p:4;q:6",
                    F64,
                    Fill::Between(0.5, 1.5),
                ),
                Case::new("prod with zeros", |_, x| x[0].prod([dim("q", 3)])).input(
                    "x",
                    "p:4;q:3",
                    F64,
                    some_zeros(),
                ),
                Case::new("prod with zeros over two dims", |_, x| {
                    x[0].prod([dim("p", 2), dim("q", 3)])
                })
                .input("x", "p:2;r:2;q:3", F64, some_zeros()),
                Case::new("prod: i32", |_, x| x[0].prod([p()])).integers("x", MATRIX, I32),
                Case::new("prod: bf16", |_, x| x[0].prod([dim("q", 4)]))
                    .input("x", "p:8;q:4", BF16, Fill::Between(0.5, 1.5))
                    .meshes(FEW),
                Case::new("prod: one element", |_, x| x[0].prod([dim("q", 1)]))
                    .normal("x", "p:4;q:1", F32)
                    .meshes(FEW),
                Case::new("max", |_, x| x[0].max([q()])).input("x", MATRIX, F32, Fill::Distinct),
                Case::new("max with ties", |_, x| x[0].max([q()]))
                    .without_gradient()
                    .integers("x", MATRIX, F32),
                Case::new("min", |_, x| x[0].min([p()])).input("x", MATRIX, F32, Fill::Distinct),
                Case::new("min of all: i32", |_, x| x[0].min(x[0].shape()))
                    .integers("x", MATRIX, I32),
                Case::new("all", |_, x| all(x[0], [p()])).bools("x", MATRIX),
                Case::new("any", |_, x| any(x[0], [q()])).bools("x", MATRIX),
                Case::new("mean: of one dim", |_, x| mean(x[0], [q()]))
                    .composed()
                    .computes(|x, ty| Dense::each(ty, |at| mean_of(&line(x[0], at, q()))))
                    .normal("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("mean", |_, x| x[0].mean())
                    .computes(|x, ty| Dense::filled(ty.clone(), mean_of(&x[0].data)))
                    .normal("x", MATRIX, F32),
                Case::new("variance", |_, x| x[0].variance([q()]))
                    .composed()
                    .computes(|x, ty| {
                        Dense::each(ty, |at| {
                            let line = line(x[0], at, q());
                            let off = |x: &f64| (x - mean_of(&line)).powi(2);
                            mean_of(&line.iter().map(off).collect::<Vec<_>>())
                        })
                    })
                    .normal("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("sum_onto: one dim", |_, x| sum_onto(x[0], &shape("q:12")))
                    .composed()
                    .computes(|x, ty| Dense::each(ty, |at| line(x[0], at, p()).iter().sum()))
                    .exact()
                    .integers("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("sum_onto", |_, x| sum_onto(x[0], &shape("q:6;p:4")))
                    .computes(|x, ty| {
                        Dense::each(ty, |at| line(x[0], at, dim("r", 2)).iter().sum())
                    })
                    .exact()
                    .integers("x", "p:4;r:2;q:6", F32)
                    .meshes(FEW),
            ]
        },
    };

    fn mean_of(elements: &[f64]) -> f64 {
        elements.iter().sum::<f64>() / elements.len() as f64
    }

    /// The greater; NaN if either is.
    pub(crate) fn greater(a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
    }

    /// Rows of a first: no zero, one, two, three.
    fn some_zeros() -> Fill {
        Fill::Values(vec![1.5, -2.0, 0.5, 0.0, 1.0, 2.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    }
}
