//! Branch and bound: dims are decided one by one, and what cannot beat the best is left.
//!
//! Bounds. *Work*: no processor does less of an operation than the part that is left if every axis that can still
//! divide it does. *Memory*: nor does it hold less of what is alive at once. *State*: rules of parameters and slots
//! change neither computations nor what moves among them, so these cost what they cost without such rules, and of the
//! rest all processors can at most share all.
//! Of layouts that differ only in the names of equal axes, or in which processors have which parts on meshes of any
//! shape, one is searched. A layout that is priced is compared with the bounds that it passed; one that beats
//! them would show a bound that is none, and the answer is not proven then.

use super::found::{Certificate, Choice, Found, Pruned, RuleWorth};
use super::space::{Chosen, Space, StateAxes};
use super::state::State;
use super::{Objective, Search, SearchError};
use indexmap::IndexMap;
use mesh_core::lower::{Estimator, Price};
use mesh_core::names::{AxisList, Layout, Mesh, Shape};
use std::time::Instant;

/// Sums of the same terms in another order differ by less than this part.
const ROUNDING: f64 = 1e-9;

/// What a layout costs at least.
#[derive(Clone, Copy)]
struct Least {
    seconds: f64,
    bytes: f64,
}

pub(super) struct Branch<'s> {
    search: &'s Search,
    began: Instant,
    /// The best first, up to as many as are kept.
    best: Vec<Choice>,
    /// Seconds and bytes of all that were priced, if all are.
    all: Vec<Choice>,
    certificate: Certificate,
    tied: Vec<String>,
    parameters: Vec<Shape>,
    /// Prices by what they depend on, whatever the shape of the mesh.
    known: IndexMap<String, Option<Price>>,
    /// Bytes of which nothing needs less that was left for its memory.
    floor: f64,
    /// How many layouts are priced at most.
    most: u64,
}

impl<'s> Branch<'s> {
    /// Searches the layouts of some meshes, of which the first is the estimator's.
    pub(super) fn through(
        search: &'s Search,
        began: Instant,
        first: &Estimator<'_>,
        meshes: &[Mesh],
        most: u64,
    ) -> Self {
        let certificate = Certificate { proven: true, ..Certificate::default() };
        let (best, all, tied, parameters, known) = <_>::default();
        let floor = f64::INFINITY;
        let mut branch =
            Self { search, began, best, all, certificate, tied, parameters, known, floor, most };
        branch.mesh(first);
        for mesh in meshes.iter().skip(1) {
            branch.mesh(&first.on(mesh, &search.machine));
        }
        branch
    }

    /// Searches the layouts of one mesh.
    fn mesh(&mut self, estimator: &Estimator<'_>) {
        let space = Space::new(estimator);
        for group in space.groups.iter().filter(|group| group.dims.len() > 1) {
            let names: Vec<_> = group.dims.iter().map(ToString::to_string).collect();
            let text = format!("layouts that split {} differently", names.join(", "));
            if !self.tied.contains(&text) {
                self.tied.push(text);
            }
        }
        self.parameters = estimator.parameters();
        let mut chosen = vec![None; space.groups.len()];
        self.decide(estimator, &space, &mut chosen, 0);
    }

    fn is_late(&mut self) -> bool {
        let late = self.search.limit.is_some_and(|limit| self.began.elapsed() >= limit)
            || self.certificate.priced >= self.most;
        self.certificate.late |= late;
        late
    }

    /// Whether nothing that costs at least so much can be the best.
    fn is_beaten(&self, least: Least) -> bool {
        let bound = |best: &Choice| match self.search.objective {
            Objective::Seconds => least.seconds >= best.price.seconds() * (1.0 + ROUNDING),
            Objective::Bytes => least.bytes > best.price.bytes() as f64 * (1.0 + ROUNDING),
        };
        !self.search.every && self.best.first().is_some_and(bound)
    }

    /// Whether nothing that needs at least so many bytes fits, and so is left.
    fn is_too_large(&mut self, least: Least) -> bool {
        let too_large = least.bytes > self.search.capacity() as f64 * (1.0 + ROUNDING);
        let left = too_large && !self.search.every;
        if left {
            self.certificate.pruned.memory += 1;
            self.floor = self.floor.min(least.bytes);
        }
        left
    }

    fn decide(
        &mut self,
        estimator: &Estimator<'_>,
        space: &Space<'_>,
        chosen: &mut Chosen,
        next: usize,
    ) {
        self.certificate.visited += 1;
        if self.is_late() {
            return;
        }
        let state = if self.search.state { StateAxes::Open } else { StateAxes::NONE };
        let (seconds, bytes) = (space.least(chosen, state), space.least_bytes(chosen, state));
        let least = Least { seconds, bytes };
        if self.is_too_large(least) {
            return;
        }
        if self.is_beaten(least) {
            let Pruned { work, memory, .. } = &mut self.certificate.pruned;
            *match self.search.objective {
                Objective::Seconds => work,
                Objective::Bytes => memory,
            } += 1;
            return;
        }
        let Some(group) = space.groups.get(next) else {
            return self.leaf(estimator, space, chosen, least);
        };
        // The most promising first, so that a good layout bounds the rest.
        let mut options: Vec<(f64, &AxisList)> = Vec::new();
        for axes in &group.options {
            if !space.allows(chosen, next, axes) {
                self.certificate.pruned.rules += 1;
                continue;
            }
            chosen[next] = Some(axes.clone());
            if space.is_repeated(chosen, next) {
                self.certificate.pruned.alike += 1;
                continue;
            }
            let order = match self.search.objective {
                Objective::Seconds => space.least(chosen, state),
                Objective::Bytes => space.least_bytes(chosen, state),
            };
            options.push((order, axes));
        }
        options.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, axes) in options {
            chosen[next] = Some(axes.clone());
            self.decide(estimator, space, chosen, next + 1);
        }
        chosen[next] = None;
    }

    /// All dims are decided: prices the layout, and those with rules of parameters and slots.
    fn leaf(
        &mut self,
        estimator: &Estimator<'_>,
        space: &Space<'_>,
        chosen: &Chosen,
        least: Least,
    ) {
        let (rules, splits) = (space.rules(chosen), space.splits(chosen));
        if !self.search.every && !self.search.single_dims && !space.is_in_order(&splits) {
            self.certificate.pruned.alike += 1;
            return;
        }
        let likeness = space.likeness(&splits);
        let Some(plain) = self.price(estimator, &rules, likeness, least) else { return };
        if !self.search.state {
            return;
        }
        let seconds = plain.fixed_seconds + space.state_least();
        let least = Least { seconds, ..least };
        let (parameters, single) = (std::mem::take(&mut self.parameters), self.search.single_dims);
        for state in State::new(estimator.mesh(), &parameters, single).all() {
            if self.is_beaten(least) {
                self.certificate.pruned.state += 1;
                break;
            }
            if self.is_late() {
                break;
            }
            let Some(state) = state else {
                self.certificate.pruned.rules += 1;
                continue;
            };
            let least = Least { bytes: space.least_bytes(chosen, state.sets()), ..least };
            if self.is_too_large(least) {
                continue;
            }
            let likeness = space.likeness(&[&splits[..], &state.splits].concat());
            let rules: Vec<_> = rules.iter().cloned().chain(state.text).collect();
            self.price(estimator, &rules, likeness, least);
        }
        self.parameters = parameters;
    }

    /// Prices a layout, which a bound says costs at least so much, unless one that is like it has been.
    fn price(
        &mut self,
        estimator: &Estimator<'_>,
        rules: &[String],
        likeness: String,
        least: Least,
    ) -> Option<Price> {
        if !self.search.every
            && let Some(known) = self.known.get(&likeness)
        {
            self.certificate.pruned.alike += 1;
            return known.clone();
        }
        let price = self.price_anew(estimator, rules, least);
        self.known.insert(likeness, price.clone());
        price
    }

    fn price_anew(
        &mut self,
        estimator: &Estimator<'_>,
        rules: &[String],
        least: Least,
    ) -> Option<Price> {
        let layout: Layout = rules.join(";").parse().ok()?;
        let bounds = self.search.objective == Objective::Seconds && !self.search.every;
        let best = self.best.first().filter(|_| bounds);
        let limit = best.map(|best| best.price.seconds() * (1.0 + ROUNDING));
        let Ok(price) = estimator.price_below(&layout, limit) else {
            self.certificate.pruned.illegal += 1;
            return None;
        };
        let Some(price) = price else {
            self.certificate.pruned.state += 1;
            return None;
        };
        self.certificate.priced += 1;
        let below = |price: f64, least: f64| price < least * (1.0 - ROUNDING);
        if below(price.seconds(), least.seconds) || below(price.bytes() as f64, least.bytes) {
            self.certificate.proven = false;
        }
        let choice = Choice { mesh: estimator.mesh().clone(), layout, price: price.clone() };
        self.keep(choice);
        Some(price)
    }

    fn keep(&mut self, choice: Choice) {
        if self.search.every {
            self.all.push(choice.clone());
        }
        if choice.price.bytes() as u64 > self.search.capacity() {
            self.certificate.pruned.memory += 1;
            self.floor = self.floor.min(choice.price.bytes() as f64);
            return;
        }
        let key = |choice: &Choice| self.search.objective.key(choice);
        let (own, rules) = (key(&choice), choice.layout.rules().len());
        let before = |other: &Choice| {
            let theirs = key(other);
            let order = theirs.0.total_cmp(&own.0).then(theirs.1.total_cmp(&own.1));
            order.then(other.layout.rules().len().cmp(&rules)).is_le()
        };
        let at = self.best.iter().take_while(|other| before(other)).count();
        self.best.insert(at, choice);
        self.best.truncate(self.search.runners_up + 1);
    }

    /// Bytes of which no layout needs less, if there are layouts of which none fits.
    pub(super) fn none_below(&self) -> Option<u64> {
        let Certificate { late, pruned, .. } = self.certificate;
        let is_too_small = self.best.is_empty() && !late && pruned.memory > 0;
        is_too_small.then_some((self.floor * (1.0 - ROUNDING)).ceil() as u64)
    }

    /// What was found; what each rule of it is worth is priced now.
    pub(super) fn found(mut self, estimator: &Estimator<'_>) -> Result<Found, SearchError> {
        self.certificate.proven &= !self.certificate.late;
        if self.best.is_empty() {
            return Err(SearchError::Nothing { late: self.certificate.late });
        }
        let best = self.best.remove(0);
        let estimator = estimator.on(&best.mesh, &self.search.machine);
        let rules: Vec<_> = best.layout.rules().iter().map(ToString::to_string).collect();
        let mut worth = Vec::new();
        for (i, rule) in rules.iter().enumerate() {
            let others = rules.iter().enumerate().filter(|(j, _)| *j != i);
            let others: Vec<_> = others.map(|(_, rule)| rule.clone()).collect();
            let layout = others.join(";").parse::<Layout>().ok();
            let without = layout.and_then(|layout| estimator.price(&layout).ok());
            worth.push(RuleWorth { rule: rule.clone(), without });
        }
        let mut left_out = match self.search.state {
            true => State::left_out(self.search.single_dims),
            false => vec!["all `params/` and `slots/` rules".to_owned()],
        };
        left_out.extend(self.tied);
        let seconds_searched = self.began.elapsed().as_secs_f64();
        let (runners_up, all, certificate) = (self.best, self.all, self.certificate);
        Ok(Found { best, runners_up, worth, certificate, left_out, seconds_searched, all })
    }
}

impl Objective {
    fn key(self, choice: &Choice) -> (f64, f64) {
        let (seconds, bytes) = (choice.price.seconds(), choice.price.bytes() as f64);
        match self {
            Self::Seconds => (seconds, bytes),
            Self::Bytes => (bytes, seconds),
        }
    }
}
