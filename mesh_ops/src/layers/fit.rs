//! What layers demand of the tensors that they are given.
//!
//! Ops broadcast by name, so a misspelt dim makes an outer product and no error. A layer knows which
//! dims each of its tensors may have, and refuses others.

use crate::room::*;

/// Demands on tensors, stated one after another; the first that is not met is told. With a poisoned
/// tensor among them nothing is told: its error is on record.
#[derive(Default)]
pub(crate) struct Fit {
    problem: Option<String>,
    poisoned: bool,
}

impl Fit {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Any other demand: `problem` says what is wrong, if something is.
    pub(crate) fn and(mut self, x: Tensor<'_>, problem: impl FnOnce() -> Option<String>) -> Self {
        self.poisoned |= x.is_poisoned();
        if self.problem.is_none() && !self.poisoned {
            self.problem = problem();
        }
        self
    }

    /// `x` is of floats.
    pub(crate) fn floats(self, what: &str, x: Tensor<'_>) -> Self {
        let problem = || format!("{what} must be floats, and {x:?} is of {}; cast it", x.dtype());
        self.and(x, || (!x.dtype().is_float()).then(problem))
    }

    /// `x` is of i32.
    pub(crate) fn integers(self, what: &str, x: Tensor<'_>) -> Self {
        let problem = || format!("{what} must be i32, and {x:?} is of {}; cast it", x.dtype());
        self.and(x, || (x.dtype() != DType::I32).then(problem))
    }

    /// `x` is of the dtype of another tensor.
    pub(crate) fn like(self, what: &str, x: Tensor<'_>, other: Tensor<'_>) -> Self {
        let fit = self.and(other, || None);
        fit.and(x, || {
            let problem = || format!("{what} {x:?} must be of the dtype of {other:?}; cast it");
            (x.dtype() != other.dtype()).then(problem)
        })
    }

    /// `x` has the dim.
    pub(crate) fn has(self, what: &str, x: Tensor<'_>, dim: Dimension) -> Self {
        self.and(x, || lacking(x, dim).map(|problem| format!("{what} {problem}")))
    }

    /// `x` has no dims but `legal`; it may lack some.
    pub(crate) fn among(self, what: &str, x: Tensor<'_>, legal: &Shape) -> Self {
        self.and(x, || {
            let shape = x.shape();
            let stray = shape.iter().find(|d| legal.get(d.name) != Some(*d))?;
            let hint = legal.hint(stray);
            Some(format!("{what} {x:?} may have the dims {legal}, not {stray}{hint}"))
        })
    }

    /// `x` has the dims `legal`, in whatever order.
    pub(crate) fn exactly(self, what: &str, x: Tensor<'_>, legal: &Shape) -> Self {
        legal.iter().fold(self.among(what, x, legal), |fit, dim| fit.has(what, x, dim))
    }

    /// Records on the caller's line what is wrong; then, or with a poisoned tensor, the layer gives
    /// what this gives.
    #[track_caller]
    pub(crate) fn refused<'g>(self, op: &str, x: Tensor<'g>) -> Option<Tensor<'g>> {
        if self.poisoned {
            return Some(x.poisoned());
        }
        let problem = self.problem?;
        x.graph().record(op, problem);
        Some(x.poisoned())
    }
}
