//! The place sweep: one table of placements for a whole function.

use super::issues::LayoutIssue;
use super::place::PlaceCx;
use super::placed::{Placed, PlacedOperation};
use super::setting::Setting;
use super::table::{Entry, Table, Version, VersionId};
use crate::graph::{Operation, OperationId, Signature, Structural, TensorId};
use crate::names::{Axis, Home, Placement, RuleSet};
use crate::split::LayoutProblem;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is to be placed.
pub(crate) struct Task<'t> {
    /// In order.
    pub(crate) operations: &'t [OperationId],
    /// Tensors made elsewhere, and where they lie.
    pub(crate) given: &'t [(TensorId, Placement)],
    /// What is wanted in the end, and where.
    pub(crate) fetches: &'t [(TensorId, Fetch)],
    /// What is shown besides, owing nothing; where everything else lies does not depend on it.
    pub(crate) shown: &'t [TensorId],
}

/// Where a tensor is wanted in the end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fetch {
    /// There.
    At(Placement),
    /// Wherever it lies, but owing nothing.
    Settled,
    /// As it is made, unless it is settled for others anyway.
    AsMade,
}

/// Places every operation of a function, or of a loop's body; problems go to `issues`.
pub(crate) fn place(
    setting: &Setting<'_>,
    task: &Task<'_>,
    issues: &mut Vec<LayoutIssue>,
) -> Table {
    let mut sweep = Sweep::new(setting, task.operations.len());
    for (tensor, placement) in task.given {
        let version = sweep.made(*tensor, setting.memo.placed(placement.clone()));
        sweep.table.given.push(version);
    }
    let mut from = 0;
    loop {
        task.operations[from..].iter().for_each(|&id| sweep.operation(id));
        for (tensor, place) in task.fetches {
            sweep.fetch(*tensor, place);
        }
        // A pending tensor that somebody demands whole is settled; that may spare others from
        // carrying its sum on. The set only grows, so this ends.
        let takes_more = if sweep.issues.is_empty() { sweep.settle() } else { None };
        let Some(first) = takes_more else {
            task.shown.iter().for_each(|&tensor| sweep.fetch(tensor, &Fetch::Settled));
            issues.extend(sweep.issues);
            return sweep.table;
        };
        sweep.back_to(first);
        from = first;
    }
}

/// Who owns all of what is owned, if it is one: scalars made of it alone are made there too.
fn owner<'p>(available: impl Iterator<Item = &'p Placed>) -> Option<(Axis, usize)> {
    let mut owners = available.flat_map(|placement| placement.owned());
    let first = *owners.next()?;
    owners.all(|owner| *owner == first).then_some(first)
}

pub(super) struct Sweep<'a> {
    pub(super) setting: &'a Setting<'a>,
    /// Whose pending sums are resolved for somebody.
    settled: Vec<bool>,
    table: Table,
    /// How many versions there were before each entry.
    before: Vec<usize>,
    /// The version of each tensor that its operation makes, the first of a list. Aliases share a list by root.
    first: Vec<VersionId>,
    roots: Vec<TensorId>,
    pub(super) issues: Vec<LayoutIssue>,
}

impl<'a> Sweep<'a> {
    fn new(setting: &'a Setting<'a>, operations: usize) -> Self {
        let count = setting.data.tensors.len();
        let (entries, versions) =
            (Vec::with_capacity(operations), Vec::with_capacity(2 * operations));
        Self {
            setting,
            settled: vec![false; count],
            table: Table { entries, versions, ..Table::default() },
            before: Vec::with_capacity(operations),
            first: vec![VersionId::NONE; count],
            roots: (0..count as u32).map(TensorId).collect(),
            issues: Vec::new(),
        }
    }

    fn root(&self, tensor: TensorId) -> TensorId {
        self.roots[tensor.index()]
    }

    fn native(&self, tensor: TensorId) -> VersionId {
        self.first[self.root(tensor).index()]
    }

    /// All versions of a root, as they are made.
    fn versions(&self, root: TensorId) -> impl Iterator<Item = VersionId> {
        let some = |v: VersionId| (v != VersionId::NONE).then_some(v);
        let next = move |v: &VersionId| some(self.table.versions[v.index()].next);
        std::iter::successors(some(self.first[root.index()]), next)
    }

    /// Forgets what was placed from an entry on.
    fn back_to(&mut self, entry: usize) {
        for entry in self.table.entries.drain(entry..) {
            for &output in &self.setting.data.operations[entry.operation.index()].outputs {
                self.roots[output.index()] = output;
            }
        }
        self.table.fetches.clear();
        let kept = self.before[entry];
        self.before.truncate(entry);
        let end = |list: &mut VersionId| {
            if list.index() >= kept {
                *list = VersionId::NONE;
            }
        };
        let gone = self.table.versions.drain(kept..);
        gone.for_each(|version| end(&mut self.first[version.tensor.index()]));
        self.table.versions.iter_mut().for_each(|version| end(&mut version.next));
    }

    fn placed(&self, version: VersionId) -> &Placed {
        &self.table.versions[version.index()].placement
    }

    fn operation(&mut self, id: OperationId) {
        self.before.push(self.table.versions.len());
        let setting = self.setting;
        let operation = &setting.data.operations[id.index()];
        let here = || operation.inputs.iter().map(|&t| self.placed(self.native(t)));
        let is_settled = |t: &TensorId| self.settled[self.root(*t).index()];
        let (key, structural) = (setting.key(operation), operation.structural());
        // A variable without dims has no owner, whoever makes its new value.
        let update = matches!(structural, Some(Structural::Update(_)));
        let owner = if key.is_none() && !update { owner(here()) } else { None };
        let of_scalars = Home { owner, ..Home::default() };
        let set = key.map_or(RuleSet::Compute, |key| key.set);
        let home = key.map_or(&of_scalars, |key| setting.home(key));
        let number = match structural {
            Some(Structural::Loop(_)) => None,
            _ => {
                let settled = operation.inputs.iter().map(is_settled);
                setting.number(id, (key, home), here().zip(settled))
            }
        };
        if let Some(placed) = number.as_ref().and_then(|number| setting.memo.operation(number)) {
            return self.record(id, operation, &placed, None);
        }
        let here: SmallVec<[Placed; 4]> = here().cloned().collect();
        let types = |list: &[TensorId]| -> SmallVec<[_; 2]> {
            list.iter().map(|t| setting.data.tensors[t.index()].ty.clone()).collect()
        };
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let cx = PlaceCx {
            signature: Signature { inputs: &inputs, outputs: &outputs },
            mesh: setting.mesh,
            rules: setting.rules,
            set,
            home,
            available: here.iter().map(|placed| Placement::clone(placed)).collect(),
            settled: operation.inputs.iter().map(is_settled).collect(),
            known: operation.inputs.iter().map(|&t| setting.data.is_known(t)).collect(),
            problems: RefCell::default(),
            by_rule: Cell::default(),
        };
        let (placed, body) = match structural {
            Some(Structural::Loop(run)) => {
                let (placed, body) = self.run(run, id, &here, &cx);
                (placed, Some(body))
            }
            _ => {
                let placing = operation.op.place(&cx).by_owner(cx.home.owner);
                (Rc::new(setting.memo.placing(placing)), None)
            }
        };
        let problems = cx.problems.take();
        if let Some(number) = number.filter(|_| problems.is_empty()) {
            setting.memo.keep(number, &placed);
        }
        self.refuse(operation, problems);
        self.record(id, operation, &placed, body);
    }

    /// Puts on record what is illegal about an operation; each problem has the number of a tensor.
    fn refuse(&mut self, operation: &Operation, problems: Vec<(LayoutProblem, usize)>) {
        let data = self.setting.data;
        for (problem, tensor) in problems {
            let ids: Vec<_> = operation.inputs.iter().chain(&operation.outputs).collect();
            let name = data.tensor_name(*ids[tensor]);
            let ty = &data.tensors[ids[tensor].index()].ty;
            self.issue(problem, operation, format!("{name}: {ty}"));
        }
    }

    fn record(
        &mut self,
        id: OperationId,
        operation: &Operation,
        placed: &PlacedOperation,
        body: Option<Rc<Table>>,
    ) {
        if placed.alias {
            let mut outputs = SmallVec::new();
            for (output, &input) in operation.outputs.iter().zip(&operation.inputs) {
                self.roots[output.index()] = self.root(input);
                outputs.push(self.native(input));
            }
            let inputs = outputs.iter().copied().collect();
            self.table.entries.push(Entry { operation: id, inputs, outputs, alias: true, body });
            return;
        }
        // Lists are pushed, as `collect` takes longer for so few.
        let (mut inputs, mut outputs) = (SmallVec::new(), SmallVec::new());
        for (&tensor, to) in operation.inputs.iter().zip(&placed.inputs) {
            inputs.push(self.demand(tensor, to, operation.phase));
        }
        for (&tensor, placement) in operation.outputs.iter().zip(&placed.outputs) {
            outputs.push(self.made(tensor, placement.clone()));
        }
        self.table.entries.push(Entry { operation: id, inputs, outputs, alias: false, body });
    }

    /// The version of a tensor that is there first.
    fn made(&mut self, tensor: TensorId, placement: Placed) -> VersionId {
        self.version(Version {
            tensor,
            placement,
            source: None,
            phase: None,
            next: VersionId::NONE,
        })
    }

    fn version(&mut self, version: Version) -> VersionId {
        let id = VersionId(self.table.versions.len() as u32);
        match self.versions(version.tensor).last() {
            Some(last) => self.table.versions[last.index()].next = id,
            None => self.first[version.tensor.index()] = id,
        }
        self.table.versions.push(version);
        id
    }

    /// The version of a tensor in a placement, by the cheapest way from what there is.
    fn demand(&mut self, tensor: TensorId, to: &Placed, phase: u32) -> VersionId {
        let root = self.root(tensor);
        let Setting { data, mesh, memo, .. } = self.setting;
        let usable =
            |v: &VersionId| self.table.versions[v.index()].phase.is_none_or(|of| of == phase);
        let candidates = || self.versions(root).filter(usable);
        if let Some(same) = candidates().find(|v| self.placed(*v) == to) {
            return same;
        }
        let routes = candidates().filter_map(|v| {
            memo.route(mesh, data, root, [self.placed(v), to]).map(|route| (v, route))
        });
        let best = routes.min_by_key(|(_, route)| (route.bytes, route.moves.len()));
        let native = self.native(tensor);
        let is_variable = self.is_variable(root);
        let gathered = best.as_ref().is_some_and(|(_, route)| route.bytes > 0);
        if best.is_none() && self.issues.is_empty() {
            self.no_route(root, native, to);
        }
        let version = Version {
            tensor: root,
            placement: to.clone(),
            source: Some(best.unwrap_or_else(|| (native, Rc::default()))),
            phase: (is_variable && gathered).then_some(phase),
            next: VersionId::NONE,
        };
        self.version(version)
    }

    /// Where the layout is illegal there may be no way; that is on record already.
    fn no_route(&mut self, tensor: TensorId, native: VersionId, to: &Placement) {
        let (mesh, data) = (self.setting.mesh, self.setting.data);
        let ty = &data.tensors[tensor.index()].ty;
        let problem = LayoutProblem::NoRoute {
            from: self.placed(native).describe(mesh, &ty.shape),
            to: to.describe(mesh, &ty.shape),
        };
        let Some((operation, _)) = data.tensors[tensor.index()].producer else { return };
        let operation = &data.operations[operation.index()];
        self.issue(problem, operation, format!("{}: {ty}", operation.name));
    }

    fn issue(&mut self, problem: LayoutProblem, operation: &Operation, tensor: String) {
        let (operation, at) = (operation.name.clone(), operation.at.clone());
        self.issues.push(LayoutIssue { problem, operation, tensor, at });
    }

    /// Whether a tensor is a variable at rest.
    fn is_variable(&self, tensor: TensorId) -> bool {
        let key = self.setting.data.tensors[tensor.index()].key;
        key.is_some_and(|key| key.set != RuleSet::Compute)
            && self.placed(self.native(tensor)).pending().is_none()
    }

    fn fetch(&mut self, tensor: TensorId, place: &Fetch) {
        let made = self.placed(self.native(tensor)).clone();
        let root = self.root(tensor);
        let memo = &self.setting.memo;
        let to = match place {
            Fetch::At(placement) => memo.placed(placement.clone()),
            Fetch::Settled => memo.placed(made.resolved().everywhere()),
            Fetch::AsMade => {
                let versions = self.versions(root).map(|v| self.placed(v));
                let settled = versions.filter(|placement| placement.pending().is_none()).last();
                settled.cloned().unwrap_or(made)
            }
        };
        let version = self.demand(tensor, &to, 0);
        self.table.fetches.push(version);
    }

    /// Marks what has been settled since it was last asked, and says which entry takes some of it first.
    fn settle(&mut self) -> Option<usize> {
        let Table { versions, entries, .. } = &self.table;
        let mut more: SmallVec<[TensorId; 32]> = SmallVec::new();
        for version in versions {
            let Some((source, _)) = &version.source else { continue };
            let was_pending = versions[source.index()].placement.pending().is_some();
            let settled = &mut self.settled[version.tensor.index()];
            if was_pending && version.placement.pending().is_none() && !*settled {
                *settled = true;
                more.push(version.tensor);
            }
        }
        let takes = |entry: &Entry| {
            let operation = &self.setting.data.operations[entry.operation.index()];
            operation.inputs.iter().any(|t| more.contains(&self.root(*t)))
        };
        entries.iter().position(takes).filter(|_| !more.is_empty())
    }
}
