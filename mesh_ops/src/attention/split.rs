//! Where an attention's tensors lie, and what its processors meet for.
//!
//! Queries, batch and heads are parallel. What products are summed over is gathered by the bodies. A memory that is
//! split apart from its queries makes parts of results, which are merged by their log-sum-exps. Keys and
//! values that are split with their queries are gathered, or go round; or everything is exchanged by
//! all-to-alls, so that another dim is split in place of the length.

use super::{Attention, Dims};
use crate::room::*;
use mesh_core::lower::{PlaceCx, Placing};
use mesh_core::names::AxisList;
use mesh_core::split::Collective;

/// How queries meet keys and values of other processors, where all of them are split along `length`
/// ([`Attend::to_itself`](super::Attend::to_itself)): the results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Exchange {
    /// `Gather` where all positions are one block of the memory, or two processors share them; else `Ring`.
    #[default]
    Auto,
    /// Each processor has all keys and values, by an all-gather.
    Gather,
    /// Keys and values go round, and each processor has little more than its own.
    Ring,
    /// All-to-alls split this dim in place of `length`, as heads (arXiv 2309.14509), and outputs go back by one
    /// more. Its size is to divide over its own axes and those of `length`. Keys and values that lack it are
    /// gathered.
    AllToAll(DimName),
}

impl Exchange {
    /// Whether attention of whole scores cannot do it.
    pub(crate) fn needs_blocks(self) -> bool {
        matches!(self, Self::Ring | Self::AllToAll(_))
    }
}

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
        let mut placing = self.split_by(&self.rule(), cx);
        for sums in placing.outputs.iter_mut().skip(1) {
            *sums = sums.resolved();
        }
        self.gathered(cx, &mut placing);
        placing
    }

    /// By the rule; where keys and values are gathered, their gradients owe a sum.
    pub(super) fn gradient_placed(&self, cx: &PlaceCx<'_>) -> Placing {
        let rule = self.rule_of_gradient(cx.signature().outputs);
        let mut placing = self.split_by(&rule, cx);
        let Some(axes) = self.gathered(cx, &mut placing) else { return placing };
        for i in KEYS_VALUES {
            let own = std::mem::take(&mut placing.outputs[i]);
            let owed: Vec<_> = own.pending_axes().iter().chain(&axes).copied().collect();
            placing.outputs[i] = own.split(self.length, &[]).with_pending(ReduceKind::Sum, &owed);
        }
        placing
    }

    /// That the dim which is split in place of the length, if one is, is a dim of outputs but for that.
    pub(super) fn exchanged(&self, dims: &Dims) -> Result<(), OpError> {
        let Exchange::AllToAll(to) = self.exchange else { return Ok(()) };
        let legal: Vec<_> = dims.rows.names().filter(|&name| name != self.length).collect();
        if !self.to_itself {
            let message = "attention: only what looks at positions of its own tensor is exchanged by all-to-all";
            return Err(OpError::new(message));
        }
        if legal.contains(&to) {
            return Ok(());
        }
        let rows = &dims.rows;
        Err(OpError::new(format!(
            "attention: the length's split can pass to dims of queries that are neither {} nor {}, not to {to}; \
             queries have {rows} besides",
            self.length, self.key
        )))
    }

    /// By a rule, with another dim split in place of the length where that is chosen.
    fn split_by(&self, rule: &SplitRule, cx: &PlaceCx<'_>) -> Placing {
        match self.exchange {
            Exchange::AllToAll(to) if self.to_itself => cx.by_rule_passing(rule, self.length, to),
            _ => cx.by_rule(rule),
        }
    }

    /// Gathers keys and values that lie along the dim of their queries, where that is chosen. By itself it is if
    /// all of them are one block: then there is nothing to compute beside a transfer, and one exchange costs
    /// less than several. It is between two processors as well: the ring would save half of what is gathered, and
    /// goes through its blocks in an order that keeps less of the outputs in caches. Gives the axes over which they
    /// are gathered.
    fn gathered(&self, cx: &PlaceCx<'_>, placing: &mut Placing) -> Option<AxisList> {
        let length = cx.signature().inputs[0].shape.get(self.length)?;
        let axes = AxisList::from_slice(placing.inputs[0].axes(self.length));
        let gathers = match self.exchange {
            Exchange::Auto => length.size <= self.blocks.memory || cx.mesh().group_size(&axes) == 2,
            Exchange::Gather => true,
            Exchange::Ring | Exchange::AllToAll(_) => false,
        };
        if !self.to_itself || axes.is_empty() || !gathers {
            return None;
        }
        for i in KEYS_VALUES {
            let own = std::mem::take(&mut placing.inputs[i]);
            placing.inputs[i] = own.split(self.length, &[]);
        }
        Some(axes)
    }
}
