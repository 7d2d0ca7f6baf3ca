//! Loops: placing and emitting a region with the loop that runs it.
//!
//! What a loop carries lies where the layout says, and may owe sums: if an iteration only adds partial
//! sums to what it was given, the sum is owed over all iterations and settled once, after the loop. Which
//! carried tensors are of that kind is tried: those for which the body settles sums are given pending
//! over the same axes; one that the body then settles, or does not leave pending again, is given whole.

use super::emit::Emitter;
use super::issues::LayoutIssue;
use super::local::{Local, extents};
use super::memo::PlacedLoop;
use super::origins::origin;
use super::place::{PlaceCx, Placing};
use super::placed::Placed;
use super::setting::Setting;
use super::sweep::{Fetch, Sweep, Task, place};
use super::table::{Entry, Table, Version, VersionId};
use crate::graph::{Key, Loop, OperationId, Report, Structural, TensorId};
use crate::names::{Axis, AxisList, Placement, ReduceKind, Shape};
use crate::program::{Block, forms};
use crate::split::LayoutProblem;
use std::rc::Rc;

/// Places the region of a loop.
struct RegionPlacer<'a> {
    setting: &'a Setting<'a>,
    operations: Vec<OperationId>,
    /// Carried, sliced, captured, the position; where each is given.
    given: Vec<(TensorId, Placement)>,
    results: Vec<TensorId>,
    carried: usize,
    conditional: bool,
    /// Who alone runs it.
    owner: Option<(Axis, usize)>,
}

impl RegionPlacer<'_> {
    /// The body's table if carried tensor `i` owes a sum over `owed[i]`.
    fn place(&self, owed: &[AxisList], issues: &mut Vec<LayoutIssue>) -> Table {
        let mut given = self.given.clone();
        for ((_, placement), owed) in given.iter_mut().zip(owed) {
            *placement = placement.clone().with_pending(ReduceKind::Sum, owed);
        }
        let last = self.results.len() - 1;
        let whole = |i: usize| self.conditional && i == last;
        let fetch = |(i, &tensor): (usize, &TensorId)| {
            let place = match i < self.carried {
                true => Fetch::At(given[i].1.clone()),
                false if whole(i) => Fetch::At(owned(Placement::replicated(), self.owner)),
                // What is stacked may owe its sums until all iterations are over.
                false => Fetch::AsMade,
            };
            (tensor, place)
        };
        let fetches: Vec<_> = self.results.iter().enumerate().map(fetch).collect();
        let (operations, given) = (&self.operations, &given);
        let task = Task { operations, given, fetches: &fetches, shown: &[] };
        place(self.setting, &task, issues)
    }

    /// The axes over which each carried tensor may owe its sum through all iterations, and the table.
    fn settle(&self, issues: &mut Vec<LayoutIssue>) -> (Vec<AxisList>, Table) {
        let nothing = vec![AxisList::new(); self.carried];
        let whole = self.place(&nothing, issues);
        if !issues.is_empty() {
            return (nothing, whole);
        }
        let mut owed = nothing.clone();
        for (i, owed) in owed.iter_mut().enumerate() {
            *owed = self.settled_for(&whole, i);
        }
        while owed.iter().any(|owed| !owed.is_empty()) {
            let mut problems = Vec::new();
            let table = self.place(&owed, &mut problems);
            let kept = |(i, owed): (usize, &AxisList)| match problems.is_empty() {
                true if self.is_only_added_to(&table, i) => owed.clone(),
                // Perhaps over fewer axes.
                true => self.left_pending(&table, i, owed),
                false => AxisList::new(),
            };
            let next: Vec<_> = owed.iter().enumerate().map(kept).collect();
            if next == owed {
                return (owed, table);
            }
            owed = next;
        }
        (nothing, whole)
    }

    /// The axes over which sums are settled, if nothing carried is owed, on the way to what an
    /// iteration leaves to carry in place `i`.
    fn settled_for(&self, table: &Table, i: usize) -> AxisList {
        let mut makers = vec![None; table.versions.len()];
        for entry in table.entries.iter().filter(|entry| !entry.alias) {
            entry.outputs.iter().for_each(|v| makers[v.index()] = Some(&entry.inputs));
        }
        let (mut axes, mut seen) = (AxisList::new(), vec![false; table.versions.len()]);
        let mut ahead = vec![table.fetches[i]];
        while let Some(version) = ahead.pop() {
            if std::mem::replace(&mut seen[version.index()], true) {
                continue;
            }
            ahead.extend(makers[version.index()].into_iter().flatten());
            let Version { placement, source, .. } = &table.versions[version.index()];
            let Some((source, _)) = source else { continue };
            ahead.push(*source);
            let from = &table.versions[source.index()].placement;
            let owes = matches!(from.pending(), Some(ReduceKind::Sum | ReduceKind::Select));
            if owes && placement.pending().is_none() {
                axes.extend(from.pending_axes().iter().copied());
            }
        }
        axes.sort_unstable();
        axes.dedup();
        axes.retain(|axis| self.given[i].1.dim_on(*axis).is_none());
        axes
    }

    /// Those of the axes `given` over which an iteration owes what it leaves to carry in place `i`, as it
    /// makes it; none if they are all.
    fn left_pending(&self, table: &Table, i: usize, given: &AxisList) -> AxisList {
        let mut made = table.fetches[i];
        while let Some((source, _)) = &table.versions[made.index()].source {
            made = *source;
        }
        let placement = &table.versions[made.index()].placement;
        let mut left = given.clone();
        let sum = placement.pending() == Some(ReduceKind::Sum);
        left.retain(|axis| sum && placement.pending_axes().contains(axis));
        if left == *given { AxisList::new() } else { left }
    }

    /// Whether the body moves neither what it is given in place `i` nor what it leaves there.
    fn is_only_added_to(&self, table: &Table, i: usize) -> bool {
        let given = table.given[i];
        let moved = |version: VersionId| {
            table
                .versions
                .iter()
                .any(|v| v.source.as_ref().is_some_and(|(from, _)| *from == version))
        };
        table.versions[table.fetches[i].index()].source.is_none() && !moved(given)
    }
}

/// A placement, of whoever runs a loop.
fn owned(placement: Placement, owner: Option<(Axis, usize)>) -> Placement {
    owner.into_iter().fold(placement, |placement, (axis, at)| placement.with_owner(axis, at))
}

impl Setting<'_> {
    /// Whether a tensor lies under the rules of `key`, or under none.
    fn fits(&self, tensor: TensorId, key: Key) -> bool {
        self.data.tensors[tensor.index()].key.is_none_or(|own| own == key)
    }

    /// Whether all that a loop computes lies under the rules of `key`. Then their owner can run it alone.
    fn all_under(&self, key: Key, run: &Loop) -> bool {
        let operations = self.data.region(run.region).operations.iter();
        operations.map(|id| &self.data.operations[id.index()]).all(|operation| {
            let inner = match operation.structural() {
                Some(Structural::Loop(inner)) => self.all_under(key, inner),
                _ => true,
            };
            let mut tensors = operation.inputs.iter().chain(&operation.outputs);
            inner && tensors.all(|t| self.fits(*t, key))
        })
    }
}

impl<'a> Sweep<'a> {
    /// Places a loop and its body.
    pub(super) fn run(
        &mut self,
        run: &Loop,
        id: OperationId,
        here: &[Placed],
        cx: &PlaceCx<'_>,
    ) -> PlacedLoop {
        let memo = &self.setting.memo;
        let mut key = self.setting.of_loop(id);
        key.extend(here.iter().map(Placed::number));
        if let Some(placed) = memo.of_loop(&key) {
            return placed;
        }
        let (placing, table) = self.anew(run, id, cx);
        let placed = (Rc::new(memo.placing(placing)), Rc::new(table));
        if self.issues.is_empty() && cx.problems.borrow().is_empty() {
            memo.keep_loop(key, placed.clone());
        }
        placed
    }

    /// As [`run`](Self::run), of a loop that is met for the first time.
    fn anew(&mut self, run: &Loop, id: OperationId, cx: &PlaceCx<'_>) -> (Placing, Table) {
        let setting = self.setting;
        let operation = &setting.data.operations[id.index()];
        let along = run.iterations.name;
        (0..operation.outputs.len()).for_each(|i| cx.check_output(i));
        for &tensor in operation.inputs.iter().chain(&operation.outputs) {
            let axes = AxisList::from_slice(setting.wanted(tensor).axes(along));
            if !axes.is_empty() {
                cx.refuse_whole(along, &axes, "the iterations of a loop follow each other");
                break;
            }
        }
        let region = setting.data.region(run.region);
        let owner = cx.home.owner.filter(|_| {
            setting.key(operation).is_some_and(|key| {
                let mut tensors = operation.inputs.iter().chain(&operation.outputs);
                tensors.all(|t| setting.fits(*t, key)) && setting.all_under(key, run)
            })
        });
        let (sliced, captured) = (run.carried, run.carried + run.sliced);
        let mut inputs = Vec::new();
        for (i, &tensor) in operation.inputs.iter().enumerate() {
            // What is carried lies as the layout says. The rest is given as it lies, so that what an
            // iteration gathers of it lives no longer than the iteration.
            let here = cx.available(i).resolved();
            let whole = i >= captured || here.axes(along).is_empty();
            let whole = whole && here.owned().is_empty() && owner.is_none();
            let given = i >= sliced && i < captured + region.captured.len() && whole;
            let wanted = || owned(setting.wanted(tensor).split(along, &[]), owner);
            inputs.push(if given { here } else { wanted() });
        }
        // The iteration's position comes last.
        let placements = inputs[..captured + region.captured.len()].iter().cloned();
        let placements = placements.chain([owned(Placement::replicated(), owner)]);
        let results: Vec<_> = region.results.iter().chain(&run.saved).copied().collect();
        let placer = RegionPlacer {
            setting,
            operations: setting.data.computing(run.region, &results),
            given: region.given().zip(placements).collect(),
            results,
            carried: run.carried,
            conditional: run.conditional,
            owner,
        };
        let mut issues = Vec::new();
        let (owed, table) = placer.settle(&mut issues);
        // Where the layout is illegal anyway there may be no way inside.
        let faulty = !self.issues.is_empty() || !cx.problems.borrow().is_empty();
        let news = |issue: &LayoutIssue| {
            !faulty || !matches!(issue.problem, LayoutProblem::NoRoute { .. })
        };
        self.issues.extend(issues.into_iter().filter(news));
        for (input, owed) in inputs.iter_mut().zip(&owed) {
            *input = input.clone().with_pending(ReduceKind::Sum, owed);
        }
        let placement = |v: &VersionId| Placement::clone(&table.versions[v.index()].placement);
        let fetched = table.fetches.iter().map(placement);
        let outputs = fetched.take(run.outputs.len()).collect();
        (Placing::new(inputs, outputs), table)
    }
}

impl<'a> Emitter<'a> {
    /// Emits a loop whose inputs are there.
    pub(super) fn run(
        &mut self,
        entry: &'a Entry,
        table: &'a Table,
        inputs: &[Local],
    ) -> Result<(), Report> {
        let data = self.setting.data;
        let operation = &data.operations[entry.operation.index()];
        let Some(Structural::Loop(run)) = operation.structural() else {
            return Err(Report::of(&operation.name, "internal error: a body without a loop"));
        };
        let mut body = self.body(run, &operation.name, table)?;
        // Numbers that the body makes of nothing are made by those who run it, too.
        let owners = entry.outputs.first().map_or(&[][..], |&out| self.placement(out).owned());
        body.everywhere(&mut |block: &mut Block| {
            for step in &mut block.steps {
                let named = |owner: &&(Axis, usize)| step.owners.contains(owner);
                let missing: Vec<_> =
                    owners.iter().filter(|owner| !named(owner)).copied().collect();
                step.owners.extend(missing);
            }
        });
        let ids: Vec<_> = inputs.iter().map(|input| input.id).collect();
        let form = forms::Loop {
            body: Box::new(body),
            count: run.iterations.size,
            reverse: run.reverse,
            conditional: run.conditional,
            carried: run.carried,
            sliced: run.sliced,
        };
        let outs = self.builder.repeat(form, &ids);
        for ((&version, &tensor), id) in entry.outputs.iter().zip(&operation.outputs).zip(outs) {
            let shape = self.local_shape(tensor, self.placement(version));
            self.define(version, Local::new(id, shape));
        }
        Ok(())
    }

    fn local_shape(&self, tensor: TensorId, placement: &Placement) -> Shape {
        let shape = &self.setting.data.tensors[tensor.index()].ty.shape;
        placement.local_shape(self.setting.mesh, shape).unwrap_or_else(|| shape.clone())
    }

    fn body(&self, run: &Loop, name: &str, table: &'a Table) -> Result<Block, Report> {
        let data = self.setting.data;
        let region = data.region(run.region);
        let mut inner = Emitter::new(self.setting, name, table);
        for (tensor, &version) in region.given().zip(&table.given) {
            let placement = inner.placement(version);
            let shape = self.local_shape(tensor, placement);
            let dtype = placement.held(data.tensors[tensor.index()].ty.dtype);
            let id = inner.builder.param(dtype, extents(&shape));
            inner.define(version, Local::new(id, shape));
        }
        inner.entries()?;
        // What follows belongs to the loop as a whole.
        inner.builder.origin(origin("loop", name, None, String::new()));
        for &version in &table.fetches {
            let value = inner.value(version)?;
            inner.builder.result(value.id);
        }
        Ok(inner.finish().block)
    }
}
