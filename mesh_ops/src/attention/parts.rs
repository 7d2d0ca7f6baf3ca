//! What one processor has of an attention's inputs, with what each of them is.

use crate::room::*;
use mesh_core::lower::{Local, LocalGiven, LocalIteration, LocalLeft};
use mesh_core::program::Expr;

/// Queries, or what they look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Queries,
    Memory,
}

/// What rules are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    Position,
    Segment,
    /// The end of what a query sees whatever else it may.
    Prefix,
    /// The number of a position of the memory.
    Index,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Query,
    Key,
    Value,
    Bias,
    /// Bools: where queries may attend.
    Allowed,
    /// One number for each position.
    Each(Label, Side),
    /// The least of a block.
    Least(Label, Side),
    /// The greatest of a block.
    Greatest(Label, Side),
    /// The gradient of the output.
    OutputGradient,
    /// Of a query's scores.
    LogSumExp,
    /// The mean of a query's gradients of scores, weighted by probability.
    Mean,
    /// Mixed into the key of random numbers.
    Salt(usize),
    /// Where a block begins along a dim of all scores.
    Begin(usize),
}

impl Part {
    /// Whether it is the positions of one side.
    pub(super) fn is_position(self) -> bool {
        matches!(self, Self::Each(Label::Position, _))
    }
}

/// Values with what they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(Vec<(Part, Local)>);

impl Parts {
    pub(super) fn push(&mut self, part: Part, value: Local) {
        self.0.push((part, value));
    }

    pub(super) fn get(&self, part: Part) -> Option<&Local> {
        self.0.iter().find(|(own, _)| *own == part).map(|(_, value)| value)
    }

    pub(super) fn want(&self, part: Part) -> Result<&Local, OpError> {
        let missing = || OpError::new(format!("internal error: attention lacks {part:?}"));
        self.get(part).ok_or_else(missing)
    }

    /// Each with what it is.
    pub(super) fn pairs(self) -> impl Iterator<Item = (Part, Local)> {
        self.0.into_iter()
    }

    pub(super) fn values(&self) -> Vec<Local> {
        self.0.iter().map(|(_, value)| value.clone()).collect()
    }

    /// The same parts of other values.
    pub(super) fn of(&self, values: impl IntoIterator<Item = Local>) -> Self {
        Self(self.0.iter().map(|(part, _)| *part).zip(values).collect())
    }

    /// Those that have a dim, and those that have not.
    pub(super) fn by(&self, dim: DimName) -> (Self, Self) {
        let (with, without) = self.0.iter().cloned().partition(|(_, x)| x.shape().contains(dim));
        (Self(with), Self(without))
    }

    /// Those of some kinds, and the others.
    pub(super) fn divided(self, kind: impl Fn(Part) -> bool) -> (Self, Self) {
        let (of_kind, others) = self.0.into_iter().partition(|(part, _)| kind(*part));
        (Self(of_kind), Self(others))
    }

    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Runs a body for each position along a dim on what is carried, and on slices of the parts that
    /// have the dim and of `sliced`.
    pub(super) fn each(
        &self,
        cx: &mut LocalCx<'_, '_>,
        over: Dimension,
        carried: &[Local],
        sliced: &[Local],
        body: impl FnOnce(&mut LocalCx<'_, '_>, Self, LocalIteration) -> Result<LocalLeft, OpError>,
    ) -> Result<LocalLeft, OpError> {
        let (with, without) = self.by(over.name);
        let captured = without.values();
        let all: Vec<_> = sliced.iter().cloned().chain(with.values()).collect();
        let given = LocalGiven { carried, sliced: &all, captured: &captured };
        cx.repeat(over, given, |cx, mut iteration| {
            let own = iteration.sliced.split_off(sliced.len());
            let parts = with.of(own).and(without.of(std::mem::take(&mut iteration.captured)));
            body(cx, parts, iteration)
        })
    }

    /// Runs a body on what is carried if a condition is true.
    pub(super) fn guard(
        &self,
        cx: &mut LocalCx<'_, '_>,
        condition: &Local,
        carried: &[Local],
        body: impl FnOnce(&mut LocalCx<'_, '_>, &Self, &[Local]) -> Result<Vec<Local>, OpError>,
    ) -> Result<Vec<Local>, OpError> {
        let captured = self.values();
        let given = LocalGiven { carried, captured: &captured, ..LocalGiven::default() };
        cx.guard(condition, given, |cx, LocalIteration { carried, captured, .. }| {
            body(cx, &self.of(captured), &carried)
        })
    }
}

/// Inputs of an expression.
#[derive(Default)]
pub(super) struct Terms(Vec<Local>);

impl Terms {
    pub(super) fn of(&mut self, value: &Local) -> Expr {
        let known = self.0.iter().position(|own| own == value);
        let index = known.unwrap_or_else(|| {
            self.0.push(value.clone());
            self.0.len() - 1
        });
        Expr::input(index as u8)
    }

    /// The labels of queries and of the memory.
    pub(super) fn both(&mut self, parts: &Parts, label: Label) -> Result<[Expr; 2], OpError> {
        let of = |side| parts.want(Part::Each(label, side));
        Ok([self.of(of(Side::Queries)?), self.of(of(Side::Memory)?)])
    }

    pub(super) fn map(
        &self,
        cx: &mut LocalCx<'_, '_>,
        shape: &Shape,
        expr: &Expr,
        dtype: DType,
    ) -> Result<Local, OpError> {
        cx.map_over(shape, &self.0, expr, dtype)
    }
}
