//! Where an attention's tensors lie, and what its processors meet for.
//!
//! Queries, batch and heads are parallel. What products are summed over is gathered by the bodies. A memory that is
//! split apart from its queries makes parts of results, which are merged by their log-sum-exps. Keys and
//! values that are split with their queries are gathered, or go round.

use super::Attention;
use crate::room::*;
use mesh_core::lower::{PlaceCx, Placing};
use mesh_core::names::AxisList;
use mesh_core::split::Collective;

/// What bodies gather.
const GATHERED: &[Collective] = &[Collective::AllGather];
/// What bodies pass on.
const PASSED: &[Collective] = &[Collective::Permute];

/// Keys and values among the inputs, and their gradients among those that are made.
pub(super) const KEYS_VALUES: [usize; 2] = [1, 2];

impl Attention {
    /// Of the attention.
    pub(super) fn rule(&self) -> SplitRule {
        let rule = SplitRule::parallel().with([self.key], Role::Exchange(GATHERED));
        if self.to_itself {
            return rule
                .with([self.length], Role::Exchange(PASSED))
                .with([self.memory], Role::Exchange(GATHERED));
        }
        rule.with([self.memory], Role::ExchangeReduced(ReduceKind::Sum, GATHERED))
    }

    /// Of the gradient: what keys, values or the bias lack is summed for them.
    pub(super) fn rule_of_gradient(&self, made: &[TensorType]) -> SplitRule {
        let rule = SplitRule::parallel().with([self.key, self.value], Role::Exchange(GATHERED));
        let rule = if self.to_itself {
            rule.with([self.length], Role::ExchangeReduced(ReduceKind::Sum, PASSED))
                .with([self.memory], Role::Exchange(GATHERED))
        } else {
            rule.with([self.memory], Role::Reduced(ReduceKind::Sum))
        };
        let dims = made.iter().flat_map(|ty| ty.shape.names());
        let lacking = dims.filter(|&name| made.iter().any(|ty| !ty.shape.contains(name)));
        let mut summed: Vec<_> = lacking.collect();
        summed.dedup();
        rule.with(summed, Role::Reduced(ReduceKind::Sum))
    }

    /// By the rule, but that log-sum-exps owe nothing: the body merges them.
    pub(super) fn placed(&self, cx: &PlaceCx<'_>) -> Placing {
        let mut placing = cx.by_rule(&self.rule());
        for sums in placing.outputs.iter_mut().skip(1) {
            *sums = sums.resolved();
        }
        self.gathered(cx, &mut placing);
        placing
    }

    /// By the rule; where keys and values are gathered, their gradients owe a sum.
    pub(super) fn gradient_placed(&self, cx: &PlaceCx<'_>) -> Placing {
        let rule = self.rule_of_gradient(cx.signature().outputs);
        let mut placing = cx.by_rule(&rule);
        let Some(axes) = self.gathered(cx, &mut placing) else { return placing };
        for i in KEYS_VALUES {
            let own = std::mem::take(&mut placing.outputs[i]);
            let owed: Vec<_> = own.pending_axes().iter().chain(&axes).copied().collect();
            placing.outputs[i] = own.split(self.length, &[]).with_pending(ReduceKind::Sum, &owed);
        }
        placing
    }

    /// Gathers keys and values that lie along the dim of their queries, if all of them are one block: then
    /// there is nothing to compute beside a transfer, and one exchange costs less than several. More
    /// blocks go round. Gives the axes over which they are gathered.
    fn gathered(&self, cx: &PlaceCx<'_>, placing: &mut Placing) -> Option<AxisList> {
        let length = cx.signature().inputs[0].shape.get(self.length)?;
        let axes = AxisList::from_slice(placing.inputs[0].axes(self.length));
        if !self.to_itself || axes.is_empty() || length.size > self.blocks.memory {
            return None;
        }
        for i in KEYS_VALUES {
            let own = std::mem::take(&mut placing.inputs[i]);
            placing.inputs[i] = own.split(self.length, &[]);
        }
        Some(axes)
    }
}
