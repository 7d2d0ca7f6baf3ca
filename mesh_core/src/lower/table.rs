//! The place sweep: one table of placements for a whole function.

use super::issues::LayoutIssue;
use super::loops::PlacedLoops;
use super::place::{PlaceCx, Placing};
use super::relayout::{Route, route};
use crate::graph::{Data, Key, Operation, OperationId, Signature, Structural, TensorId};
use crate::names::{Axis, Home, Mesh, Placement, RuleSet, Rules};
use crate::program::VariableId;
use crate::split::LayoutProblem;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A tensor in one placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionId(u32);

impl VersionId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) tensor: TensorId,
    pub(crate) placement: Placement,
    /// How it is made out of another version; `None` for what an operation makes.
    pub(crate) source: Option<(VersionId, Route)>,
    /// The phase it belongs to, for what is gathered out of a variable.
    phase: Option<u32>,
}

/// One operation's inputs and outputs.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) operation: OperationId,
    pub(crate) inputs: Vec<VersionId>,
    pub(crate) outputs: Vec<VersionId>,
    /// The outputs are the first inputs; nothing is emitted.
    pub(crate) alias: bool,
    /// For a loop, where everything lies in its body.
    pub(crate) body: Option<Rc<Table>>,
}

/// Where everything lies in one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
    pub(crate) versions: Vec<Version>,
    /// What a loop's body is given.
    pub(crate) given: Vec<VersionId>,
    pub(crate) fetches: Vec<VersionId>,
}

/// What placement needs to know besides the graph.
pub(crate) struct Setting<'a> {
    pub(crate) data: &'a Data,
    pub(crate) mesh: &'a Mesh,
    pub(crate) rules: &'a Rules,
    /// What `*` means for each variable, under `params/` and under `slots/`.
    pub(crate) homes: Vec<[Home; 2]>,
    pub(crate) loops: PlacedLoops,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(data: &'a Data, mesh: &'a Mesh, rules: &'a Rules) -> Self {
        let mut ordinal = 0;
        let mut homes = Vec::new();
        for variable in &data.variables {
            let home = |set| match variable.trainable {
                true => rules.home(mesh, set, &variable.ty.shape, ordinal),
                false => Home::default(),
            };
            homes.push([home(RuleSet::Params), home(RuleSet::Slots)]);
            ordinal += usize::from(variable.trainable);
        }
        Self { data, mesh, rules, homes, loops: PlacedLoops::default() }
    }

    fn home(&self, key: Key) -> &Home {
        static NOWHERE: std::sync::LazyLock<Home> = std::sync::LazyLock::new(Home::default);
        match (key.set, key.variable) {
            (RuleSet::Params, Some(v)) => &self.homes[v.index()][0],
            (RuleSet::Slots, Some(v)) => &self.homes[v.index()][1],
            _ => &NOWHERE,
        }
    }

    /// Where the layout wants a tensor.
    pub(crate) fn wanted(&self, tensor: TensorId) -> Placement {
        let node = &self.data.tensors[tensor.index()];
        let key = node.key.unwrap_or(Key::COMPUTE);
        self.rules.placement(key.set, self.home(key), &node.ty.shape)
    }

    /// Where a variable lies at rest.
    pub(crate) fn at_rest(&self, id: VariableId) -> Placement {
        let variable = &self.data.variables[id.index()];
        // A slot without dims has no owner: operations on scalars lie under no rules.
        if variable.ty.shape.is_scalar() {
            return Placement::replicated();
        }
        let key = variable.key(id);
        self.rules.placement(key.set, self.home(key), &variable.ty.shape)
    }

    /// The rules an operation works under: those of its tensors that are not scalars.
    pub(super) fn key(&self, operation: &Operation) -> Option<Key> {
        let key = |t: &TensorId| self.data.tensors[t.index()].key;
        // An update's input and a relayout's output name the target; others agree.
        let tensors = operation.outputs.iter().chain(&operation.inputs);
        tensors.filter_map(key).next()
    }
}

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
    let mut settled = vec![false; setting.data.tensors.len()];
    loop {
        let mut sweep = Sweep::new(setting, &settled, task.operations.len());
        for (tensor, placement) in task.given {
            let version = sweep.made(*tensor, placement.clone());
            sweep.table.given.push(version);
        }
        for &id in task.operations {
            sweep.operation(id);
        }
        for (tensor, place) in task.fetches {
            sweep.fetch(*tensor, place);
        }
        // A pending tensor that somebody demands whole is settled; that may spare others from
        // carrying its sum on. The set only grows, so this ends.
        let more = sweep.newly_settled(&settled);
        if more.is_empty() || !sweep.issues.is_empty() {
            task.shown.iter().for_each(|&tensor| sweep.fetch(tensor, &Fetch::Settled));
            issues.extend(sweep.issues);
            return sweep.table;
        }
        for tensor in more {
            settled[tensor.index()] = true;
        }
    }
}

/// Who owns all of what is owned, if it is one: scalars made of it alone are made there too.
fn owner(available: &[Placement]) -> Option<(Axis, usize)> {
    let mut owners = available.iter().flat_map(|placement| placement.owned());
    let first = *owners.next()?;
    owners.all(|owner| *owner == first).then_some(first)
}

pub(super) struct Sweep<'a> {
    pub(super) setting: &'a Setting<'a>,
    settled: &'a [bool],
    table: Table,
    /// Versions of each tensor, the one its operation makes first. Aliases share a list by root.
    versions: Vec<SmallVec<[VersionId; 2]>>,
    roots: Vec<TensorId>,
    pub(super) issues: Vec<LayoutIssue>,
}

impl<'a> Sweep<'a> {
    fn new(setting: &'a Setting<'a>, settled: &'a [bool], operations: usize) -> Self {
        let count = setting.data.tensors.len();
        let (entries, versions) = (Vec::with_capacity(operations), Vec::with_capacity(operations));
        Self {
            setting,
            settled,
            table: Table { entries, versions, ..Table::default() },
            versions: std::iter::repeat_with(SmallVec::new).take(count).collect(),
            roots: (0..count as u32).map(TensorId).collect(),
            issues: Vec::new(),
        }
    }

    fn root(&self, tensor: TensorId) -> TensorId {
        self.roots[tensor.index()]
    }

    pub(super) fn native(&self, tensor: TensorId) -> VersionId {
        self.versions[self.root(tensor).index()][0]
    }

    pub(super) fn placement(&self, version: VersionId) -> &Placement {
        &self.table.versions[version.index()].placement
    }

    fn operation(&mut self, id: OperationId) {
        let setting = self.setting;
        let operation = &setting.data.operations[id.index()];
        let types = |list: &[TensorId]| -> SmallVec<[_; 2]> {
            list.iter().map(|t| setting.data.tensors[t.index()].ty.clone()).collect()
        };
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let key = setting.key(operation);
        let available = operation.inputs.iter().map(|&t| self.placement(self.native(t)).clone());
        let available: Vec<_> = available.collect();
        // A variable without dims has no owner, whoever makes its new value.
        let update = matches!(operation.structural(), Some(Structural::Update(_)));
        let of_scalars = Home { owner: owner(&available).filter(|_| !update), ..Home::default() };
        let cx = PlaceCx {
            signature: Signature { inputs: &inputs, outputs: &outputs },
            mesh: setting.mesh,
            rules: setting.rules,
            set: key.map_or(RuleSet::Compute, |key| key.set),
            home: key.map_or(&of_scalars, |key| setting.home(key)),
            available,
            settled: operation.inputs.iter().map(|&t| self.settled[self.root(t).index()]).collect(),
            known: operation.inputs.iter().map(|&t| self.is_known(t)).collect(),
            problems: RefCell::default(),
            by_rule: Cell::default(),
        };
        let (placing, body) = match operation.structural() {
            Some(Structural::Loop(run)) => {
                let (placing, body) = self.run(run, id, &cx);
                (placing, Some(body))
            }
            _ => (operation.op.place(&cx).by_owner(cx.home.owner), None),
        };
        for (problem, tensor) in cx.problems.take() {
            let ids: Vec<_> = operation.inputs.iter().chain(&operation.outputs).collect();
            let name = setting.data.tensor_name(*ids[tensor]);
            let ty = &setting.data.tensors[ids[tensor].index()].ty;
            self.issues.push(LayoutIssue {
                problem,
                operation: operation.name.clone(),
                tensor: format!("{name}: {ty}"),
                at: operation.at.clone(),
            });
        }
        self.record(id, operation, placing, body);
    }

    /// Whether a tensor is one number, known when the graph was made, finite and not 0.
    fn is_known(&self, tensor: TensorId) -> bool {
        let data = self.setting.data;
        let Some((producer, _)) = data.tensors[tensor.index()].producer else { return false };
        let op = data.operations[producer.index()].structural();
        let Some(Structural::Fill(fill)) = op else { return false };
        let value = fill.value().value();
        value.is_finite() && value != 0.0
    }

    fn record(
        &mut self,
        id: OperationId,
        operation: &Operation,
        placing: Placing,
        body: Option<Rc<Table>>,
    ) {
        if placing.alias {
            let mut outputs = Vec::new();
            for (output, &input) in operation.outputs.iter().zip(&operation.inputs) {
                self.roots[output.index()] = self.root(input);
                outputs.push(self.native(input));
            }
            let inputs = outputs.clone();
            self.table.entries.push(Entry { operation: id, inputs, outputs, alias: true, body });
            return;
        }
        let demands = operation.inputs.iter().zip(placing.inputs);
        let inputs =
            demands.map(|(&tensor, to)| self.demand(tensor, to, operation.phase)).collect();
        let mut outputs = Vec::new();
        for (&tensor, placement) in operation.outputs.iter().zip(placing.outputs) {
            outputs.push(self.made(tensor, placement));
        }
        self.table.entries.push(Entry { operation: id, inputs, outputs, alias: false, body });
    }

    /// The version of a tensor that is there first.
    fn made(&mut self, tensor: TensorId, placement: Placement) -> VersionId {
        let version = self.version(Version { tensor, placement, source: None, phase: None });
        self.versions[tensor.index()].push(version);
        version
    }

    fn version(&mut self, version: Version) -> VersionId {
        self.table.versions.push(version);
        VersionId(self.table.versions.len() as u32 - 1)
    }

    /// The version of a tensor in a placement, by the cheapest way from what there is.
    fn demand(&mut self, tensor: TensorId, to: Placement, phase: u32) -> VersionId {
        let root = self.root(tensor);
        let node = &self.setting.data.tensors[root.index()];
        let usable =
            |v: &&VersionId| self.table.versions[v.index()].phase.is_none_or(|of| of == phase);
        let candidates: SmallVec<[_; 4]> =
            self.versions[root.index()].iter().filter(usable).copied().collect();
        if let Some(&same) = candidates.iter().find(|v| *self.placement(**v) == to) {
            return same;
        }
        let routes = candidates.into_iter().filter_map(|v| {
            let from = self.placement(v);
            let element = from.held(node.ty.dtype).size();
            route(self.setting.mesh, &node.ty.shape, element, from, &to).map(|r| (v, r))
        });
        let best = routes.min_by_key(|(_, route)| (route.bytes, route.moves.len()));
        let native = self.native(tensor);
        let is_variable = self.is_variable(root);
        let gathered = best.as_ref().is_some_and(|(_, route)| route.bytes > 0);
        if best.is_none() && self.issues.is_empty() {
            self.no_route(root, native, &to);
        }
        let version = Version {
            tensor: root,
            placement: to,
            source: Some(best.unwrap_or((native, Route::default()))),
            phase: (is_variable && gathered).then_some(phase),
        };
        let id = self.version(version);
        self.versions[root.index()].push(id);
        id
    }

    /// Where the layout is illegal there may be no way; that is on record already.
    fn no_route(&mut self, tensor: TensorId, native: VersionId, to: &Placement) {
        let (mesh, data) = (self.setting.mesh, self.setting.data);
        let ty = &data.tensors[tensor.index()].ty;
        let problem = LayoutProblem::NoRoute {
            from: self.placement(native).describe(mesh, &ty.shape),
            to: to.describe(mesh, &ty.shape),
        };
        let Some((operation, _)) = data.tensors[tensor.index()].producer else { return };
        let operation = &data.operations[operation.index()];
        self.issues.push(LayoutIssue {
            problem,
            operation: operation.name.clone(),
            tensor: format!("{}: {ty}", operation.name),
            at: operation.at.clone(),
        });
    }

    /// Whether a tensor is a variable at rest.
    fn is_variable(&self, tensor: TensorId) -> bool {
        let key = self.setting.data.tensors[tensor.index()].key;
        key.is_some_and(|key| key.set != RuleSet::Compute)
            && self.placement(self.native(tensor)).pending().is_none()
    }

    fn fetch(&mut self, tensor: TensorId, place: &Fetch) {
        let made = self.placement(self.native(tensor)).clone();
        let root = self.root(tensor).index();
        let to = match place {
            Fetch::At(placement) => placement.clone(),
            Fetch::Settled => made.resolved().everywhere(),
            Fetch::AsMade => {
                let mut versions = self.versions[root].iter().map(|v| self.placement(*v));
                let settled = versions.rfind(|placement| placement.pending().is_none());
                settled.cloned().unwrap_or(made)
            }
        };
        let version = self.demand(tensor, to, 0);
        self.table.fetches.push(version);
    }

    fn newly_settled(&self, settled: &[bool]) -> Vec<TensorId> {
        let versions = &self.table.versions;
        let mut more = Vec::new();
        for version in versions {
            let Some((source, _)) = &version.source else { continue };
            let was_pending = versions[source.index()].placement.pending().is_some();
            let tensor = version.tensor;
            if was_pending && version.placement.pending().is_none() && !settled[tensor.index()] {
                more.push(tensor);
            }
        }
        more
    }
}
