//! `einsum`: products of tensors summed over named dims.
//!
//! | shape | the output dims as given or inferred |
//! |---|---|
//! | split | dims not in the output reduced(sum), others parallel |
//! | linear | multiplies each factor |
//! | gradient | of each factor: einsum of dy with the others onto its dims |
//!
//! The op takes two factors. More are multiplied pairwise, cheapest first; one is a sum.

use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Einsum {
    output: Shape,
}

/// The product of `first` and `others`, summed over every dim that is not in `output`. Dims of
/// `output` that no factor has are broadcast.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, j, k) = (dim("i", 2), dim("j", 3), dim("k", 4));
/// let (a, b) = (g.input("a", [i, k], F32), g.input("b", [k, j], F32));
/// let c = mesh_ops::einsum::einsum(a, &[b], [i, j]);
/// assert_eq!(c.shape().to_string(), "[i:2, j:3]");
/// ```
#[track_caller]
pub fn einsum<'g>(
    first: Tensor<'g>,
    others: &[Tensor<'g>],
    output: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    match Shape::new(output) {
        Ok(output) => product(first, others, &output),
        Err(error) => refuse(first, &error.to_string()),
    }
}

/// The product summed over `reduced`; all other dims stay, in the order in which they first occur.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, k) = (dim("i", 2), dim("k", 4));
/// let (a, b) = (g.input("a", [i, k], F32), g.input("b", [k], F32));
/// assert_eq!(mesh_ops::einsum::contract(a, &[b], [k]).shape().to_string(), "[i:2]");
/// ```
#[track_caller]
pub fn contract<'g>(
    first: Tensor<'g>,
    others: &[Tensor<'g>],
    reduced: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    let reduced: Vec<_> = reduced.into_iter().collect();
    match union(first, others) {
        Ok(all) => match reduced.iter().find(|d| all.get(d.name) != Some(**d)) {
            Some(stray) => refuse(first, &format!("no factor has the dim {stray}")),
            None => {
                let names: Vec<_> = reduced.iter().map(|d| d.name).collect();
                product(first, others, &all.without(&names))
            }
        },
        Err(error) => refuse(first, &error.to_string()),
    }
}

/// The product summed over every dim that two or more factors share.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, j, k) = (dim("i", 2), dim("j", 3), dim("k", 4));
/// let (a, b) = (g.input("a", [i, k], F32), g.input("b", [k, j], F32));
/// assert_eq!(mesh_ops::einsum::matmul(a, &[b]).shape().to_string(), "[i:2, j:3]");
/// ```
#[track_caller]
pub fn matmul<'g>(first: Tensor<'g>, others: &[Tensor<'g>]) -> Tensor<'g> {
    let shapes: Vec<_> = std::iter::once(&first).chain(others).map(|t| t.shape()).collect();
    match union(first, others) {
        Ok(all) => {
            let shared = |name: &DimName| shapes.iter().filter(|s| s.contains(*name)).count() > 1;
            let names: Vec<_> = all.names().filter(shared).collect();
            product(first, others, &all.without(&names))
        }
        Err(error) => refuse(first, &error.to_string()),
    }
}

#[track_caller]
fn refuse<'g>(first: Tensor<'g>, message: &str) -> Tensor<'g> {
    first.graph().record("einsum", message);
    first.poisoned()
}

fn union(first: Tensor<'_>, others: &[Tensor<'_>]) -> Result<Shape, mesh_core::names::NameError> {
    others.iter().try_fold(first.shape(), |all, t| all.union(&t.shape()))
}

/// Multiplies pairwise, the pair with the fewest multiply-adds first.
#[track_caller]
fn product<'g>(first: Tensor<'g>, others: &[Tensor<'g>], output: &Shape) -> Tensor<'g> {
    let mut factors: Vec<_> = std::iter::once(first).chain(others.iter().copied()).collect();
    if factors.iter().any(|t| t.is_poisoned()) {
        return first.poisoned();
    }
    while factors.len() > 2 {
        let (i, j) = cheapest(&factors);
        let (b, a) = (factors.remove(j), factors.remove(i));
        let kept: Vec<_> = a
            .shape()
            .union(&b.shape())
            .unwrap_or_default()
            .iter()
            .filter(|d| {
                output.contains(d.name) || factors.iter().any(|f| f.shape().contains(d.name))
            })
            .collect();
        factors.push(pair(a, b, &Shape::new(kept).unwrap_or_default()));
    }
    // Dims that no factor has are added last, so that nothing larger than needed is multiplied.
    let has = |d: &Dimension| factors.iter().any(|f| f.shape().contains(d.name));
    let own = Shape::new(output.iter().filter(has)).unwrap_or_default();
    let result = match factors[..] {
        [a, b] => pair(a, b, &own),
        _ => crate::reduce::sum_onto(factors[0], &own),
    };
    crate::broadcast(result, output)
}

fn cheapest(factors: &[Tensor<'_>]) -> (usize, usize) {
    let pairs = (0..factors.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    let cost = |&(i, j): &(usize, usize)| {
        factors[i].shape().union(&factors[j].shape()).map_or(usize::MAX, |s| s.size())
    };
    pairs.min_by_key(cost).unwrap_or((0, 1))
}

#[track_caller]
fn pair<'g>(a: Tensor<'g>, b: Tensor<'g>, output: &Shape) -> Tensor<'g> {
    a.graph().apply1(Einsum { output: output.clone() }, &[a, b])
}

impl Op for Einsum {
    fn name(&self) -> &'static str {
        "einsum"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [a, b] = inputs(self.name(), types)?;
        let dtype = crate::elementwise::number(self.name(), &[a.dtype, b.dtype])?;
        let all = a.shape.union(&b.shape)?;
        if let Some(stray) = self.output.iter().find(|d| all.get(d.name) != Some(*d)) {
            return Err(OpError::new(format!("neither {a} nor {b} has the dim {stray}")));
        }
        Ok(vec![TensorType::new(self.output.clone(), dtype)])
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        let summed = io.inputs.iter().flat_map(|t| t.shape.names());
        let summed: Vec<_> = summed.filter(|&name| !self.output.contains(name)).collect();
        SplitRule::parallel().with(summed, Role::Reduced(ReduceKind::Sum)).product(2)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (a, b, onto, dtype) =
            (cx.input(0)?, cx.input(1)?, cx.output_shape(0), cx.output_dtype(0));
        let sums = [&a, &b].iter().any(|t| t.shape().names().any(|n| !onto.contains(n)));
        let out = if sums {
            cx.contract(&a, &b, &onto, dtype)?
        } else {
            let (a, b) = (cx.cast(&a, dtype)?, cx.cast(&b, dtype)?);
            cx.map_over(&onto, &[a, b], &(Expr::input(0) * Expr::input(1)), dtype)?
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (a, b, dy) = (cx.input(0), cx.input(1), cx.dy());
        Ok(vec![Some(einsum(dy, &[b], a.shape())), Some(einsum(dy, &[a], b.shape()))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Einsum>(|_, x, types| vec![sum_of_products(x[0], x[1], &types[0])])],
        cases: || {
            vec![
                Case::new("matrix product", |_, x| x[0].einsum(&[x[1]], [i(), j()]))
                    .shows("einsum")
                    .normal("x", "i:8;k:6", F32)
                    .normal("y", "k:6;j:12", F32),
                Case::new("batched", |_, x| x[0].einsum(&[x[1]], [dim("b", 4), i(), j()]))
                    .exact()
                    .integers("x", "b:4;i:8;k:4", F32)
                    .integers("y", "j:12;k:4;b:4", F32)
                    .meshes(&["a:2", "a:4", "a:2;b:2"]),
                Case::new("inner product", |_, x| x[0].einsum(&[x[1]], []))
                    .normal("x", MATRIX, F32)
                    .normal("y", MATRIX, F32),
                Case::new("outer product", |_, x| x[0].einsum(&[x[1]], [j(), i()]))
                    .exact()
                    .integers("x", "i:8", F32)
                    .integers("y", "j:12", F32),
                Case::new("a dim of one factor summed", |_, x| x[0].einsum(&[x[1]], [i()]))
                    .normal("x", "i:8;k:6", F32)
                    .normal("y", "i:8;j:12", F32),
                Case::new("three factors", |_, x| x[0].einsum(&[x[1], x[2]], [i()]))
                    .exact()
                    .integers("x", "i:8;k:6", F32)
                    .integers("y", "k:6;j:12", F32)
                    .integers("z", "j:12", F32)
                    .meshes(&["a:2", "a:4", "a:3", "a:2;b:2"]),
                Case::new("one factor, a dim repeated", |_, x| x[0].einsum(&[], [j(), i()]))
                    .exact()
                    .integers("x", "i:8;k:6", F32),
                Case::new("i32", |_, x| x[0].einsum(&[x[1]], [i()]))
                    .integers("x", "i:8;k:6", I32)
                    .integers("y", "k:6", I32),
                Case::new("bf16", |_, x| x[0].einsum(&[x[1]], [i()]))
                    .normal("x", "i:8;k:6", BF16)
                    .normal("y", "k:6", BF16),
                Case::new("contract: one dim of two", |_, x| x[0].contract(&[x[1]], [k()]))
                    .computes(over_k)
                    .composed()
                    .normal("x", "i:4;k:6", F32)
                    .normal("y", "k:6;j:8", F32)
                    .meshes(FEW),
                Case::new("contract", |_, x| x[0].contract(&[x[1]], [k()]))
                    .computes(over_k)
                    .exact()
                    .integers("x", "i:8;k:6", F64)
                    .integers("y", "k:6;i:8", F64),
                Case::new("matmul", |_, x| x[0].matmul(&[x[1]]))
                    .computes(over_k)
                    .composed()
                    .normal("x", "i:8;k:6", F32)
                    .normal("y", "k:6;j:4", F32),
            ]
        },
    };

    fn i() -> Dimension {
        dim("i", 8)
    }

    fn j() -> Dimension {
        dim("j", 12)
    }

    fn k() -> Dimension {
        dim("k", 6)
    }

    /// Of factors that share k.
    fn over_k(x: &[&Dense], ty: &TensorType) -> Dense {
        let meeting = |at: &At| x[0].at(at) * x[1].at(at);
        Dense::each(ty, |at| total(k().size, |k| meeting(&at.with("k", k))))
    }

    fn sum_of_products(a: &Dense, b: &Dense, ty: &TensorType) -> Dense {
        let all = a.ty.shape.union(&b.ty.shape).unwrap_or_default();
        let [of_a, of_b, of_out] = [&a.ty.shape, &b.ty.shape, &ty.shape].map(|s| offsets(s, &all));
        let mut out = Dense::zeros(ty.clone());
        for ((&a_at, &b_at), &out_at) in of_a.iter().zip(&of_b).zip(&of_out) {
            out.data[out_at] += a.data[a_at] * b.data[b_at];
        }
        wrap(&mut out);
        out
    }
}
