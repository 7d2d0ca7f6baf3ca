//! Wrong ops that use elements beyond their own slices: by index, or of neighbours.

use crate::caught;
use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, LocalPiece};
use mesh_core::names::{DimName, ReduceKind};
use mesh_core::program::{Offset, Scalar};
use mesh_core::split::{Collective, Linearity, Role, SplitRule};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Dense};

type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

fn q() -> DimName {
    "q".into()
}

/// The elements of `x` at positions along `q`; or the reverse, which adds elements up at positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Lookup {
    Right,
    /// Every slice assumes that it begins at 0.
    FromZero,
    /// Declares the dim of positions as parallel.
    Parallel,
    /// Combines the processors' results by their maximum.
    Max,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Gather(Lookup);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Scatter(Lookup);

impl Lookup {
    fn role(self) -> Role {
        match self {
            Self::Parallel => Role::Parallel,
            Self::Max => Role::Reduced(ReduceKind::Max),
            _ => Role::Reduced(ReduceKind::Sum),
        }
    }

    fn begin(self, cx: &LocalCx<'_, '_>, size: usize) -> Result<Offset, OpError> {
        if self == Self::FromZero { Ok(Offset::default()) } else { cx.begin(q(), size) }
    }
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "own_gather"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![TensorType::new(types[1].shape.clone(), types[0].dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().with([q()], self.0.role())
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, indices, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let begin = self.0.begin(cx, x.shape().size())?;
        let found = cx.gather(&x, &indices, q(), begin, &onto)?;
        cx.finish(0, found)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![
            Some(cx.dy().graph().apply1(Scatter(Lookup::Right), &[cx.dy(), cx.input(1)])),
            None,
        ])
    }
}

impl Op for Scatter {
    fn name(&self) -> &'static str {
        "own_scatter"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![TensorType::new(Shape::new([dim("q", 6)])?, types[0].dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        // Here the positions are those of the result, and the updates are summed.
        SplitRule::parallel().with(["p".into()], self.0.role())
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, indices, onto) = (cx.input(0)?, cx.input(1)?, cx.output_shape(0));
        let (begin, dtype) = (self.0.begin(cx, onto.size())?, cx.output_dtype(0));
        let sums = cx.scatter(ReduceKind::Sum, &x, &indices, q(), begin, &onto)?;
        let sums = cx.cast(&sums, dtype)?;
        cx.finish(0, sums)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![Some(cx.dy().graph().apply1(Gather(Lookup::Right), &[cx.dy(), cx.input(1)])), None])
    }
}

fn gathered(x: &[&Dense], ty: &TensorType) -> Dense {
    let data = x[1].data.iter().map(|&i| x[0].data[i as usize]).collect();
    Dense { ty: ty.clone(), data }
}

fn scattered(x: &[&Dense], ty: &TensorType) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    x[0].data.iter().zip(&x[1].data).for_each(|(x, &i)| out.data[i as usize] += x);
    out
}

fn lookup(build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Tensor<'g> + 'static) -> Case {
    let case = Case::new("lookup", build);
    let case = case.meaning("own_gather", gathered).meaning("own_scatter", scattered);
    case.exact().meshes(&["a:2", "a:2;b:2"])
}

fn gather(fault: Lookup) -> Case {
    let case = lookup(move |g, x| g.apply1(Gather(fault), x));
    case.integers("x", "q:6", F32).indices("at", "p:4", 6)
}

fn scatter(fault: Lookup) -> Case {
    let case = lookup(move |g, x| g.apply1(Scatter(fault), x));
    case.integers("x", "p:4", F32).indices("at", "p:4", 6)
}

#[test]
fn wrong_lookups_are_caught() {
    gather(Lookup::Right).check().unwrap();
    scatter(Lookup::Right).check().unwrap();
    for fault in [Lookup::FromZero, Lookup::Parallel, Lookup::Max] {
        caught(&gather(fault), "layout q:a");
    }
    caught(&scatter(Lookup::FromZero), "layout q:a");
    for fault in [Lookup::Parallel, Lookup::Max] {
        caught(&scatter(fault), "layout p:a");
    }
}

/// `y[i] = x[i - 1]` along `q`, zero first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Before {
    Right,
    /// Takes the element from the processor two places before.
    Far,
    /// Takes the element from the processor after.
    Behind,
    /// Treats the last processor as the one before the first.
    Wrapped,
    /// Declares no exchange, but makes one.
    Undeclared,
    /// Makes no exchange.
    Silent,
}

impl Op for Before {
    fn name(&self) -> &'static str {
        "own_before"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(types.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let role = match self {
            Self::Undeclared | Self::Silent => Role::Parallel,
            _ => Role::Exchange(&[Collective::Permute]),
        };
        SplitRule::parallel().with([q()], role).linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let size = shape.get(q()).map_or(1, |d| d.size);
        let mut pieces = Vec::new();
        if size > 1 {
            let own = cx.cut(&x, q(), Offset::default(), size - 1)?;
            pieces.push(LocalPiece { at: vec![(q(), 1)], ..LocalPiece::whole(own) });
        }
        if cx.parts(q())? > 1 && *self != Self::Silent {
            let last = cx.cut(&x, q(), Offset::fixed(size - 1), 1)?;
            let shift = match self {
                Self::Far => 2,
                Self::Behind => -1,
                _ => 1,
            };
            pieces.push(LocalPiece::whole(cx.permute(
                q(),
                shift,
                *self == Self::Wrapped,
                &last,
            )?));
        }
        let out = cx.assemble(&pieces, Scalar::new(cx.dtype(&x), 0.0), &shape)?;
        cx.finish(0, out)
    }
}

fn before(fault: Before) -> Case {
    Case::new("before", move |g, x| g.apply1(fault, x))
        .meaning("own_before", |x, ty| {
            let lines = x[0].data.chunks(8).flat_map(|line| [&[0.0], &line[..7]].concat());
            Dense { ty: ty.clone(), data: lines.collect() }
        })
        .exact()
        .without_gradient()
        .integers("x", "p:2;q:8", F32)
        .meshes(&["a:4", "a:2;b:2"])
}

#[test]
fn wrong_exchanges_are_caught() {
    before(Before::Right).check().unwrap();
    for fault in [Before::Far, Before::Behind, Before::Wrapped, Before::Silent] {
        caught(&before(fault), "layout q:a");
    }
    caught(&before(Before::Undeclared), "Permute along q, whose role is parallel");
}
