//! `top_k(x, dim, k)`: the greatest elements along a dim and where they are. `top_1`,
//! `nth_largest` and `nth_smallest` take one of them.
//!
//! | shape | that of x, `k` in place of `dim` and last |
//! |---|---|
//! | split | `dim` exchange(all-gather), k whole, others parallel |
//! | linear | none |
//! | gradient | values: scatter_add back to where they came from; indices: none |
//!
//! Over a split dim each processor picks its own best, and only these travel. Of equal elements the
//! first comes first, and a NaN counts as greater than everything else: under every layout the
//! same.

use crate::Order;
use crate::room::*;
use mesh_core::split::Collective;

#[derive(Debug, PartialEq, Eq, Hash)]
struct TopK {
    /// The dim along which elements are ranked.
    dim: DimName,
    /// The dim of what is kept.
    kept: Dimension,
    /// What comes first.
    order: Order,
}

/// The `k.size` greatest elements of `x` along `dim`, greatest first, and their indices (i32), both
/// with the dim `k` in place of `dim`, last. Of equal elements the first comes first.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [classes, batch], F32);
/// let (values, indices) = mesh_ops::top_k(logits, classes, dim("best", 3));
/// assert_eq!(values.shape().to_string(), "[batch:4, best:3]");
/// assert_eq!(indices.dtype(), I32);
/// ```
#[track_caller]
pub fn top_k<'g>(x: Tensor<'g>, dim: Dimension, k: Dimension) -> (Tensor<'g>, Tensor<'g>) {
    ranked(x, dim, k, Order::Descending)
}

/// The first elements in an order, and their indices.
#[track_caller]
pub(crate) fn ranked<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    kept: Dimension,
    order: Order,
) -> (Tensor<'g>, Tensor<'g>) {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("top_k", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return (x.poisoned(), x.poisoned());
    }
    let both = x.graph().apply(TopK { dim: dim.name, kept, order }, &[x], 2);
    (both[0], both[1])
}

/// The greatest element along `dim` and its index (i32), without `dim`; of equal elements the
/// first. The gradient goes to that one alone, where [`max`](crate::reduce::max) shares it.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// let (value, index) = mesh_ops::top_1(logits, classes);
/// assert_eq!(value.shape(), index.shape());
/// ```
#[track_caller]
pub fn top_1<'g>(x: Tensor<'g>, dim: Dimension) -> (Tensor<'g>, Tensor<'g>) {
    let one = apart(&x.shape(), dim, "best").resized(1);
    let (values, indices) = top_k(x, dim, one);
    let rest = values.shape().without(&[one.name]);
    (crate::reshape(values, &rest), crate::reshape(indices, &rest))
}

/// The element along `dim` that `n` others come before when the greatest comes first; `n` counts
/// from 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let x = g.input("x", [batch, classes], F32);
/// assert_eq!(mesh_ops::nth_largest(x, 2, classes).shape().to_string(), "[batch:4]");
///
/// mesh_ops::nth_largest(x, 10, classes);
/// assert!(g.check().unwrap_err().to_string().contains("counts from 0 to 9"));
/// ```
#[track_caller]
pub fn nth_largest(x: Tensor<'_>, n: usize, dim: Dimension) -> Tensor<'_> {
    nth("nth_largest", x, n, dim, Order::Descending)
}

/// The element along `dim` that `n` others come before when the least comes first; `n` counts from
/// 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("classes", 10)], F32);
/// assert!(mesh_ops::nth_smallest(x, 0, dim("classes", 10)).shape().is_scalar());
/// ```
#[track_caller]
pub fn nth_smallest(x: Tensor<'_>, n: usize, dim: Dimension) -> Tensor<'_> {
    nth("nth_smallest", x, n, dim, Order::Ascending)
}

#[track_caller]
fn nth<'g>(op: &str, x: Tensor<'g>, n: usize, dim: Dimension, order: Order) -> Tensor<'g> {
    if n >= dim.size {
        let last = dim.size.saturating_sub(1);
        x.graph()
            .record(op, format!("there is no element {n} of {dim}: n counts from 0 to {last}"));
        return x.poisoned();
    }
    let kept = apart(&x.shape(), dim, "ranked").resized(n + 1);
    let (values, _) = ranked(x, dim, kept, order);
    let rest = values.shape().without(&[kept.name]);
    crate::reshape(crate::slice(values, kept.resized(1), n), &rest)
}

impl Op for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let (dim, kept) = (dim_of(self.name(), x, self.dim)?, self.kept);
        if kept.size > dim.size {
            return Err(OpError::new(format!("{kept} are more than there are along {dim} of {x}")));
        }
        if kept.name == dim.name {
            return Err(OpError::new(format!("{kept} needs another name than {dim} of {x}")));
        }
        if i32::try_from(dim.size).is_err() {
            return Err(OpError::new(format!("positions along {dim} of {x} do not fit i32")));
        }
        let shape = Shape::new(x.shape.without(&[self.dim]).into_iter().chain([kept]))?;
        let indices = TensorType::new(shape.clone(), DType::I32);
        Ok(vec![TensorType::new(shape, x.dtype), indices])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(&[Collective::AllGather]))
            .with([self.kept.name], Role::Whole("a rank is known once all elements are compared"))
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, dim, descending) = (cx.input(0)?, self.dim, self.order == Order::Descending);
        let whole = dim_of(self.name(), &cx.signature().inputs[0], dim)?;
        let own = x.shape().get(dim).map_or(1, |d| d.size);
        let positions = cx.positions(whole)?;
        let few = self.kept.size.min(own);
        let mut best = cx.sort(&x, &[positions], dim, few, descending)?;
        if cx.parts(dim)? > 1 {
            // Slices follow each other as their positions do, so equal elements stay in order.
            let keys = cx.all_gather(dim, &best[0])?;
            let indices = cx.all_gather(dim, &best[1])?;
            best = cx.sort(&keys, &[indices], dim, self.kept.size, descending)?;
        }
        for (i, value) in best.into_iter().enumerate() {
            let renamed = |d: Dimension| if d.name == dim { self.kept } else { d };
            let shape = Shape::new(value.shape().iter().map(renamed))?;
            let value = cx.renamed(&value, shape)?;
            cx.finish(i, value)?;
        }
        Ok(())
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let x = cx.input(0);
        let dim = dim_of(self.name(), &x.tensor_type(), self.dim)?;
        let back = |dy| crate::scatter_add(dy, cx.output(1), dim, x.shape());
        Ok(vec![cx.dy_of(0).map(back)])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;
    use std::cmp::Ordering;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<TopK>(|op, x, types| {
            let (mut values, mut indices) =
                (Dense::zeros(types[0].clone()), Dense::zeros(types[1].clone()));
            let (old, new) = (&x[0].ty.shape, &types[0].shape);
            let lines = old.without(&[op.dim]);
            for (from, to) in offsets(old, &lines).into_iter().zip(offsets(new, &lines)) {
                let element = |i: &usize| x[0].data[from + i * stride(old, op.dim)];
                let mut order: Vec<usize> = (0..extent(old, op.dim)).collect();
                order.sort_by(|a, b| {
                    let ascending = compare(element(a), element(b));
                    if op.order == Order::Descending { ascending.reverse() } else { ascending }
                });
                for (rank, i) in order.iter().take(op.kept.size).enumerate() {
                    let to = to + rank * stride(new, op.kept.name);
                    values.data[to] = element(i);
                    indices.data[to] = *i as f64;
                }
            }
            vec![values, indices]
        })],
        cases: || {
            vec![
                Case::several("top_k", |_, x| pair(top_k(x[0], q(), k()))).input(
                    "x",
                    "p:4;q:12",
                    F32,
                    Fill::Distinct,
                ),
                Case::several("top_k: ties", |_, x| pair(top_k(x[0], q(), k())))
                    .exact()
                    .without_gradient()
                    .input("x", "q:12;p:4", F32, Fill::Integers(-1, 1)),
                Case::several("top_k: NaN", |_, x| pair(top_k(x[0], q(), k())))
                    .exact()
                    .without_gradient()
                    .input("x", "p:4;q:12", F32, with_nan())
                    .meshes(FEW),
                Case::several("top_k: all of them, i32", |_, x| {
                    pair(top_k(x[0], q(), dim("k", 12)))
                })
                .input("x", "p:4;q:12", I32, Fill::Integers(-3, 3))
                .meshes(FEW),
                Case::several("top_k: bf16", |_, x| pair(top_k(x[0], q(), k())))
                    .exact()
                    .input("x", "p:4;q:12", BF16, Fill::Distinct)
                    .meshes(FEW),
                Case::new("top_k: only the indices", |_, x| top_k(x[0], q(), k()).1)
                    .input("x", "p:4;q:12", F64, Fill::Distinct)
                    .meshes(FEW),
                Case::several("top_1", |_, x| pair(top_1(x[0], q())))
                    .composed()
                    .computes_all(|x, types| {
                        let place = |at: &At| ranks(x[0], at, Order::Descending)[0];
                        let value = |at: &At| line(x[0], at, q())[place(at)];
                        let index = |at: &At| place(at) as f64;
                        vec![Dense::each(&types[0], value), Dense::each(&types[1], index)]
                    })
                    .input("x", "p:4;q:12", F32, Fill::Distinct)
                    .meshes(FEW),
                Case::new("nth_largest", |_, x| nth_largest(x[0], 3, q()))
                    .composed()
                    .computes(|x, ty| ranked_at(x[0], ty, 3, Order::Descending))
                    .input("x", "p:4;q:12", F32, Fill::Distinct)
                    .meshes(FEW),
                Case::new("nth_smallest", |_, x| nth_smallest(x[0], 0, q()))
                    .composed()
                    .computes(|x, ty| ranked_at(x[0], ty, 0, Order::Ascending))
                    .input("x", "p:4;q:12", F32, Fill::Distinct)
                    .meshes(FEW),
            ]
        },
    };

    fn k() -> Dimension {
        dim("k", 5)
    }

    /// The positions along q in this order of their elements; of equal ones the first comes first.
    pub(crate) fn ranks(x: &Dense, at: &At, order: Order) -> Vec<usize> {
        let line = line(x, at, q());
        let before = |a: usize, b: usize| {
            let ascending = compare(line[a], line[b]);
            if order == Order::Descending { ascending.reverse() } else { ascending }
        };
        // By insertion, one after the other.
        let mut ranks: Vec<usize> = Vec::new();
        for i in 0..line.len() {
            let place = ranks.iter().position(|&other| before(i, other) == Ordering::Less);
            ranks.insert(place.unwrap_or(ranks.len()), i);
        }
        ranks
    }

    /// The element of this rank along q.
    fn ranked_at(x: &Dense, ty: &TensorType, n: usize, order: Order) -> Dense {
        Dense::each(ty, |at| line(x, at, q())[ranks(x, at, order)[n]])
    }

    fn pair<'g>((one, two): (Tensor<'g>, Tensor<'g>)) -> Vec<Tensor<'g>> {
        vec![one, two]
    }

    pub(crate) fn with_nan() -> Fill {
        Fill::Values(vec![1.0, f64::NAN, -2.0, 1.0, 0.5, f64::INFINITY, f64::NAN])
    }

    /// NaN is the greatest, and equal to itself.
    fn compare(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }
}
