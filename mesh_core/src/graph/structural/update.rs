//! `assign`, `assign_add`, `assign_sub`: what a call leaves in a variable.

use crate::graph::{Op, OpError, Signature, TensorType};
use crate::lower::LocalCx;
use crate::program::{Expr, VariableId};
use crate::split::SplitRule;

/// How the new value meets the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UpdateKind {
    Assign,
    Add,
    Sub,
}

impl UpdateKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Assign => "assign",
            Self::Add => "assign_add",
            Self::Sub => "assign_sub",
        }
    }
}

/// Without outputs. The old value of `Add` and `Sub` is the one at the call's start.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Update {
    pub(crate) variable: VariableId,
    pub(crate) name: String,
    pub(crate) kind: UpdateKind,
    pub(crate) ty: TensorType,
}

impl Op for Update {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [value] = inputs else {
            return Err(OpError::arity(Op::name(self), 1, inputs.len()));
        };
        let same = value.shape.is_permutation_of(&self.ty.shape) && value.dtype == self.ty.dtype;
        if !same {
            return Err(OpError::new(format!(
                "variable {} is {}; {value} does not fit",
                self.name, self.ty
            )));
        }
        Ok(vec![])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let value = cx.input(0);
        let value = cx.transpose(&value, &self.ty.shape.names().collect::<Vec<_>>());
        let (old, new) = (Expr::input(0), Expr::input(1));
        let expr = match self.kind {
            UpdateKind::Assign => {
                cx.write(self.variable, &value);
                return Ok(());
            }
            UpdateKind::Add => old + new,
            UpdateKind::Sub => old - new,
        };
        let before = cx.variable(self.variable, &value);
        let after = cx.map(&[before, value], &expr, self.ty.dtype)?;
        cx.write(self.variable, &after);
        Ok(())
    }
}
