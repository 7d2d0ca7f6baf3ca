//! Adds up what a table of placements costs.

use super::{Estimator, Price};
use crate::graph::{OperationId, Report, Structural};
use crate::lower::placed::Placed;
use crate::lower::setting::Setting;
use crate::lower::table::{Table, VersionId};
use crate::names::RuleSet;
use smallvec::SmallVec;
use std::rc::Rc;

/// One walk through a table.
pub(super) struct Bill<'b> {
    estimator: &'b Estimator<'b>,
    setting: &'b Setting<'b>,
    table: &'b Table,
    /// Versions whose moves are counted.
    moved: Vec<bool>,
    price: Price,
}

impl<'b> Bill<'b> {
    pub(super) fn new(
        estimator: &'b Estimator<'b>,
        setting: &'b Setting<'b>,
        table: &'b Table,
    ) -> Self {
        let moved = vec![false; table.versions.len()];
        Self { estimator, setting, table, moved, price: Price::default() }
    }

    /// Every move before the first operation that needs it, every operation, and the most bytes at once.
    /// `inside`: it is a loop's body, so that what it is given is somebody else's.
    ///
    /// Nothing, if the seconds that are fixed reach `limit` while an operation is left to be priced.
    pub(super) fn table(
        mut self,
        inside: bool,
        limit: Option<f64>,
    ) -> Result<Option<Price>, Report> {
        let entries = || self.table.entries.iter().filter(|entry| !entry.alias);
        // Moves first: they are known from placements alone, and settle most layouts that are too slow.
        for entry in entries() {
            let computes = self.computes(entry.operation);
            entry.inputs.iter().try_for_each(|&version| self.moves(version, computes))?;
        }
        self.table.fetches.iter().try_for_each(|&version| self.moves(version, false))?;
        for entry in entries() {
            if limit.is_some_and(|limit| self.price.fixed_seconds >= limit) {
                return Ok(None);
            }
            if let Some(body) = &entry.body {
                let times = self.estimator.known.uses.iterations(entry.operation);
                let body = self.estimator.body(self.setting, body)?;
                self.price.add(&body, times);
                continue;
            }
            let versions = entry.outputs.iter().chain(&entry.inputs);
            let placed: SmallVec<[&Placed; 6]> =
                versions.map(|v| &self.table.versions[v.index()].placement).collect();
            self.feed(entry.operation, &placed);
            let work = self.estimator.work(self.setting, entry.operation, &placed)?;
            self.price.add(&work.price, 1);
            if self.computes(entry.operation) {
                self.price.fixed_seconds += work.price.seconds();
            }
        }
        self.price.value_bytes = self.estimator.peak(self.setting, self.table, inside)?;
        Ok(Some(self.price))
    }

    /// Adds what it takes to copy the slice of a feed. One that lies in one piece is read where it lies.
    fn feed(&mut self, id: OperationId, placed: &[&Placed]) {
        let operation = &self.setting.data.operations[id.index()];
        let Some(Structural::Input { ty, .. }) = operation.structural() else { return };
        let local = placed.first().and_then(|at| at.local_shape(self.setting.mesh, &ty.shape));
        let Some(local) = local else { return };
        let mut rows = 1;
        let is_cut = local.iter().zip(ty.shape.iter()).any(|(own, whole)| {
            let is_within = rows > 1;
            rows *= own.size;
            is_within && own.size < whole.size
        });
        if is_cut {
            let bytes = 2 * local.size() * ty.dtype.size();
            let seconds = bytes as f64 / self.estimator.machine.memory;
            self.price.memory_seconds += seconds;
            self.price.fixed_seconds += seconds;
        }
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
        let work = self.estimator.route(self.setting, tensor, [from, to], route)?;
        self.price.add(&work.price, 1);
        let key = self.setting.data.tensors[tensor.index()].key;
        if computes && key.is_none_or(|key| key.set == RuleSet::Compute) {
            self.price.fixed_seconds += work.price.seconds();
        }
        Ok(())
    }
}

/// What was priced without a limit has a price.
pub(super) fn unlimited() -> Report {
    Report::of("price", "internal error: a limit was reached where there is none")
}

impl Estimator<'_> {
    /// What an iteration of a loop costs.
    pub(super) fn body(
        &self,
        setting: &Setting<'_>,
        body: &Rc<Table>,
    ) -> Result<Rc<Price>, Report> {
        let key = Rc::as_ptr(body) as usize;
        if let Some((_, price)) = self.bodies.borrow().get(&key) {
            return Ok(Rc::clone(price));
        }
        let price = Bill::new(self, setting, body).table(true, None)?.ok_or_else(unlimited)?;
        let price = Rc::new(price);
        self.bodies.borrow_mut().insert(key, (Rc::clone(body), Rc::clone(&price)));
        Ok(price)
    }
}
