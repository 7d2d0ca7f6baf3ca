//! Adds up what a table of placements costs.

use super::{Estimator, Price};
use crate::graph::{OperationId, Report};
use crate::lower::table::{Setting, Table, VersionId};
use crate::names::RuleSet;

/// One walk through a table.
pub(super) struct Bill<'b> {
    estimator: &'b Estimator<'b>,
    setting: &'b Setting<'b>,
    table: &'b Table,
    /// How often the table is gone through in a call.
    times: u64,
    /// Versions whose moves are counted.
    moved: Vec<bool>,
    price: &'b mut Price,
}

impl<'b> Bill<'b> {
    pub(super) fn new(
        estimator: &'b Estimator<'b>,
        setting: &'b Setting<'b>,
        table: &'b Table,
        times: u64,
        price: &'b mut Price,
    ) -> Self {
        let moved = vec![false; table.versions.len()];
        Self { estimator, setting, table, times, moved, price }
    }

    /// Adds every operation, and every move before the first operation that needs it.
    pub(super) fn table(mut self) -> Result<(), Report> {
        for entry in self.table.entries.iter().filter(|entry| !entry.alias) {
            let computes = self.computes(entry.operation);
            for &version in &entry.inputs {
                self.moves(version, computes)?;
            }
            if let Some(body) = &entry.body {
                let times = self.times * self.estimator.classes.iterations(entry.operation);
                Bill::new(self.estimator, self.setting, body, times, self.price).table()?;
                continue;
            }
            let versions = entry.outputs.iter().chain(&entry.inputs);
            let placements = versions.map(|v| self.table.versions[v.index()].placement.clone());
            let placements = placements.collect();
            let work = self.estimator.work(self.setting, entry.operation, placements)?;
            self.price.add(&work, self.times);
            if computes {
                self.price.fixed_seconds += work.all_seconds() * self.times as f64;
            }
        }
        self.table.fetches.iter().try_for_each(|&version| self.moves(version, false))
    }

    /// Whether compute rules alone place an operation.
    fn computes(&self, id: OperationId) -> bool {
        let operation = &self.setting.data.operations[id.index()];
        self.setting.key(operation).is_none_or(|key| key.set == RuleSet::Compute)
    }

    /// Adds what it takes to make a version, unless that is done.
    fn moves(&mut self, version: VersionId, computes: bool) -> Result<(), Report> {
        let found = &self.table.versions[version.index()];
        let Some((source, route)) = &found.source else { return Ok(()) };
        if std::mem::replace(&mut self.moved[version.index()], true) {
            return Ok(());
        }
        self.moves(*source, computes)?;
        let from = &self.table.versions[source.index()].placement;
        let (tensor, to) = (found.tensor, &found.placement);
        let work = self.estimator.route(self.setting, tensor, from, to, route)?;
        self.price.add(&work, self.times);
        let key = self.setting.data.tensors[tensor.index()].key;
        if computes && key.is_none_or(|key| key.set == RuleSet::Compute) {
            self.price.fixed_seconds += work.all_seconds() * self.times as f64;
        }
        Ok(())
    }
}
