//! `searchsorted(sorted, x, dim, side)`: the places of elements among those of a line in order.
//!
//! | shape | the dims of x and of sorted, without `dim` |
//! |---|---|
//! | split | `dim` reduced(sum), others parallel |
//! | linear | none |
//! | gradient | none |
//!
//! By halves: log2(size) elements of a line are looked at for each one of x. Over a split `dim` each processor finds
//! the place within its own slice, and the places are added.

use crate::room::*;
use mesh_core::program::{Expr, Offset};

/// Of equal elements, before which a number is put in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Side {
    /// The first.
    #[default]
    Left,
    /// The one after the last.
    Right,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SearchSorted {
    /// The dim along which the line is in order.
    dim: DimName,
    /// The place among equal elements.
    side: Side,
}

/// For each element of `x` its place among those of `sorted`, which rise along `dim`: how many are less (`Left`)
/// or not greater (`Right`); i32. Dims that both have are gone through side by side. NaN is greater than all numbers
/// and equal to NaN. As `jnp.searchsorted` and `torch.searchsorted`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{Side, searchsorted};
/// # let g = mesh_ops::graph();
/// let edges = g.input("edges", [dim("edge", 20)], F32);
/// let x = g.input("x", [dim("n", 3)], F32);
/// assert_eq!(searchsorted(edges, x, dim("edge", 20), Side::Left).shape().to_string(), "[n:3]");
/// ```
#[track_caller]
pub fn searchsorted<'g>(
    sorted: Tensor<'g>,
    x: Tensor<'g>,
    dim: Dimension,
    side: Side,
) -> Tensor<'g> {
    if let Some(problem) = lacking(sorted, dim) {
        x.graph().record("searchsorted", problem);
        return x.poisoned();
    }
    x.graph().apply1(SearchSorted { dim: dim.name, side }, &[sorted, x])
}

impl SearchSorted {
    /// Whether an element of the line comes before one of x.
    fn comes_before(&self, sorted: Expr, x: Expr) -> Expr {
        let is_nan = |x: &Expr| x.clone().not_equal(x.clone());
        match self.side {
            Side::Left => {
                let is_number = !is_nan(&sorted);
                sorted.less(x.clone()).or(is_nan(&x).and(is_number))
            }
            Side::Right => sorted.less_equal(x.clone()).or(is_nan(&x)),
        }
    }
}

impl Op for SearchSorted {
    fn name(&self) -> &'static str {
        "searchsorted"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [sorted, x] = inputs(self.name(), types)?;
        dim_of(self.name(), sorted, self.dim)?;
        if x.shape.contains(self.dim) {
            return Err(OpError::new(format!(
                "searchsorted: {x} has the dim {} itself; rename it in one",
                self.dim
            )));
        }
        if sorted.dtype != x.dtype || x.dtype == DType::Bool {
            return Err(OpError::new(format!(
                "searchsorted needs numbers of one dtype, not {} and {}; cast them",
                sorted.dtype, x.dtype
            )));
        }
        let shape = x.shape.union(&sorted.shape.without(&[self.dim]))?;
        Ok(vec![TensorType::new(shape, DType::I32)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().with([self.dim], Role::Reduced(ReduceKind::Sum))
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (sorted, x, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let size = sorted.shape().get(self.dim).map_or(0, |d| d.size);
        let from = (size + 1).next_power_of_two() / 2;
        let mut place = cx.map_over(&onto, &[], &Expr::number(0.0), DType::I32)?;
        for step in std::iter::successors(Some(from), |step| Some(step / 2)).take_while(|n| *n > 0)
        {
            let [place_before, element, own] = [0, 1, 2].map(Expr::input);
            let last = place_before.clone() + (step as f64 - 1.0);
            let looked_at = cx.map(std::slice::from_ref(&place), &last, DType::I32)?;
            let found = cx.gather(&sorted, &looked_at, self.dim, Offset::fixed(0), &onto)?;
            let is_there = place_before.clone().less_equal((size - step) as f64);
            let goes_on = is_there.and(self.comes_before(element, own));
            let next = goes_on.select(place_before.clone() + step as f64, place_before);
            place = cx.map_over(&onto, &[place, found, x.clone()], &next, DType::I32)?;
        }
        cx.finish(0, place)
    }
    fn gradient<'g>(&self, _: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![None, None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<SearchSorted>(|op, x, types| {
            let out = Dense::each(&types[0], |at| {
                let (line, own) = (x[0].ty.shape.get(op.dim), x[1].at(at));
                let before = |other: &f64| match op.side {
                    _ if own.is_nan() => op.side == Side::Right || !other.is_nan(),
                    Side::Left => *other < own,
                    Side::Right => *other <= own,
                };
                let line = line.map(|dim| line_of(x[0], at, dim)).unwrap_or_default();
                line.iter().filter(|other| before(other)).count() as f64
            });
            vec![out]
        })],
        cases: || {
            let numbers = vec![-2.0, -1.0, -1.0, 0.0, 1.5, 3.0];
            let (nan, infinity) = (f64::NAN, f64::INFINITY);
            let with_nan = vec![-infinity, -1.0, -1.0, infinity, nan, nan];
            vec![
                searched("searchsorted", Side::Left, numbers.clone()),
                searched("searchsorted: right", Side::Right, numbers),
                searched("searchsorted: NaN", Side::Left, with_nan.clone()),
                searched("searchsorted: NaN, right", Side::Right, with_nan),
                Case::new("searchsorted: side by side, i32", |_, x| {
                    searchsorted(x[0], x[1], dim("s", 5), Side::Left)
                })
                .input("sorted", "p:2;s:5", I32, Fill::Values(vec![1.0, 1.0, 2.0, 3.0, 5.0]))
                .integers("x", "p:2;q:3", I32)
                .meshes(FEW),
            ]
        },
    };

    fn line_of(x: &Dense, at: &At, dim: Dimension) -> Vec<f64> {
        (0..dim.size).map(|i| x.at(&at.with(dim.name.as_str(), i))).collect()
    }

    fn searched(name: &str, side: Side, sorted: Vec<f64>) -> Case {
        let looked_for = vec![-1.0, 0.5, 3.0, f64::INFINITY, -3.0, f64::NAN, f64::NEG_INFINITY];
        Case::new(name, move |_, x| searchsorted(x[0], x[1], dim("s", 6), side))
            .input("sorted", "s:6", F32, Fill::Values(sorted))
            .input("x", "p:4;q:2", F32, Fill::Values(looked_for))
            .meshes(FEW)
    }
}
