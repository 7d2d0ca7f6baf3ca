//! An optimizer that hands each variable to another optimizer, or to none, by its name.

use crate::optimizer::apply_each;
use crate::{Optimizer, pattern};
use mesh_core::graph::{Graph, Tensor, Update, Variable};
use std::fmt;

/// Updates each variable with the optimizer of the first pattern that matches in the variable's
/// name.
///
/// A pattern is a regular expression that is searched for in the name: `bias` is found anywhere, `^out/` at
/// the beginning, `/kernel$` at the end, `^(embedding|out)/` in two layers.
///
/// Give several optimizers to have several rates, weight decays or exclusions. A pattern that
/// matches in no name is warned of.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{AdamWeightDecay, ByName, Optimizer, Sgd};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let hidden = input.dense(dim("y", 3), "embedding").relu();
/// let loss = hidden.dense(dim("z", 3), "out").square().mean();
/// let optimizer = ByName::new(AdamWeightDecay::new(1e-3).weight_decay(0.01))
///     .with("bias$", AdamWeightDecay::new(2e-3))
///     .with("^out/", Sgd::new(0.1))
///     .frozen("embedding");
/// let updates = optimizer.minimize(loss);
/// // Adam for the first layer's bias (three updates), descent for the kernel of the second, and
/// // for its bias, which the first pattern has found, Adam.
/// assert_eq!(updates.len(), 3 + 1 + 3);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ByName {
    default: Box<dyn Optimizer>,
    /// Pattern and optimizer. `None` leaves the pattern's variables as they are.
    rules: Vec<(String, Option<Box<dyn Optimizer>>)>,
}

impl ByName {
    /// `default` updates the variables in whose name no pattern matches.
    pub fn new(default: impl Optimizer + 'static) -> Self {
        Self { default: Box::new(default), rules: Vec::new() }
    }

    /// `optimizer` updates the variables in whose name `pattern` matches, and none of the earlier
    /// patterns.
    pub fn with(mut self, pattern: &str, optimizer: impl Optimizer + 'static) -> Self {
        self.rules.push((pattern.to_owned(), Some(Box::new(optimizer))));
        self
    }

    /// Variables in whose name `pattern` matches, and none of the earlier patterns, keep their
    /// value.
    pub fn frozen(mut self, pattern: &str) -> Self {
        self.rules.push((pattern.to_owned(), None));
        self
    }

    /// The index of the first rule whose pattern matches in `name`.
    #[track_caller]
    fn rule(&self, graph: &Graph, name: &str) -> Option<usize> {
        self.rules.iter().position(|(rule, _)| pattern::matches(graph, "by name", rule, name))
    }

    /// The optimizer of a rule; the default for no rule; `None` where the rule's variables are
    /// frozen.
    fn optimizer(&self, rule: Option<usize>) -> Option<&dyn Optimizer> {
        match rule {
            Some(rule) => self.rules[rule].1.as_deref(),
            None => Some(&*self.default),
        }
    }

    #[track_caller]
    fn warn_of_strays(&self, graph: &Graph, variables: &[Variable<'_>]) {
        for (pattern, _) in &self.rules {
            let found = |v: &Variable<'_>| pattern::matches(graph, "by name", pattern, &v.name());
            if !variables.iter().any(found) {
                graph.warn(pattern, "this pattern is found in no variable's name");
            }
        }
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns: Vec<_> = self.rules.iter().map(|(pattern, _)| pattern).collect();
        f.debug_struct("ByName").field("patterns", &patterns).finish_non_exhaustive()
    }
}

impl Optimizer for ByName {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let rule = self.rule(variable.graph(), &variable.name());
        self.optimizer(rule).map_or_else(Vec::new, |optimizer| optimizer.apply_grad(grad, variable))
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let others = self.rules.iter().filter_map(|(_, optimizer)| optimizer.as_deref());
        let mut names: Vec<_> =
            others.chain([&*self.default]).flat_map(|optimizer| optimizer.slot_names()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Each optimizer gets all of its variables in one call.
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        let Some((_, first)) = grads.first() else { return apply_each(grads, |_, _| Vec::new()) };
        let graph = first.graph();
        let variables: Vec<_> = grads.iter().map(|(_, variable)| *variable).collect();
        graph.on_behalf("updates by name", || {
            self.warn_of_strays(graph, &variables);
            let ruled: Vec<_> = variables.iter().map(|v| self.rule(graph, &v.name())).collect();
            let rules = (0..self.rules.len()).map(Some).chain([None]);
            let groups = rules.filter_map(|rule| Some((rule, self.optimizer(rule)?)));
            let group = |(rule, optimizer): (Option<usize>, &dyn Optimizer)| {
                let own = grads.iter().zip(&ruled).filter(|(_, ruled)| **ruled == rule);
                let own: Vec<_> = own.map(|(pair, _)| *pair).collect();
                optimizer.apply_grads(&own)
            };
            groups.flat_map(group).collect()
        })
    }

    /// That of the optimizer that updates the variable.
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        let rule = self.rule(variable.graph(), &variable.name());
        match self.optimizer(rule) {
            Some(optimizer) => optimizer.evaluation_value(variable),
            None => variable.value(),
        }
    }
}
