//! What is the same under all layouts: what a function computes, how often, and which dims meet where.

use super::{Data, Estimator, IndexMap, Listed};
use crate::graph::{Operation, OperationId, Report, Signature, Structural, TensorId, TensorType};
use crate::lower::place::PlaceCx;
use crate::lower::placed::Placed;
use crate::lower::setting::Setting;
use crate::names::{DimName, Dimension, Home, Layout, Placement, RuleSet, Rules};
use crate::split::Role;
use std::cell::{Cell, RefCell};

/// Dims that meet in operations, and the work that they divide there.
#[derive(Clone, PartialEq, Debug)]
pub struct Meeting {
    /// All dims of the operations' tensors. An axis may split one of them only.
    pub dims: Vec<Dimension>,
    /// Those of them that must not be split.
    pub whole: Vec<DimName>,
    /// Whether only compute rules place these tensors.
    pub computes: bool,
    /// Seconds of these operations in a call of the priced function, with nothing split. If the dims
    /// are split into so many parts all together, a processor does at least that part of it.
    pub seconds: f64,
}

/// What is computed, with the bodies of loops.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// By operation: iterations, if it is a loop.
    iterations: Vec<u64>,
    /// What the priced function computes, and how often; and what others compute.
    pub(super) used: Vec<(OperationId, u64)>,
    others: Vec<OperationId>,
}

impl Uses {
    pub(super) fn new(data: &Data, functions: &[Listed]) -> Self {
        let iterations = data.operations.iter().map(|operation| match operation.structural() {
            // Of a conditional loop nobody knows it, as in programs' costs.
            Some(Structural::Loop(run)) if !run.conditional => run.iterations.size as u64,
            _ => 1,
        });
        let mut uses = Self { iterations: iterations.collect(), ..Self::default() };
        let (mut used, mut others) = (Vec::new(), Vec::new());
        for (i, function) in functions.iter().enumerate() {
            let found = if i == 0 { &mut used } else { &mut others };
            uses.list(data, &function.operations, 1, found);
        }
        uses.used = used;
        uses.others = others.into_iter().map(|(id, _)| id).collect();
        uses
    }

    /// Lists operations with those in the bodies of loops.
    fn list(
        &self,
        data: &Data,
        operations: &[OperationId],
        times: u64,
        found: &mut Vec<(OperationId, u64)>,
    ) {
        for &id in operations {
            found.push((id, times));
            if let Some(Structural::Loop(run)) = data.operations[id.index()].structural() {
                let region = data.region(run.region);
                let results: Vec<_> = region.results.iter().chain(&run.saved).copied().collect();
                let inner = data.computing(run.region, &results);
                self.list(data, &inner, times * self.iterations(id), found);
            }
        }
    }

    pub(super) fn iterations(&self, id: OperationId) -> u64 {
        self.iterations[id.index()]
    }
}

impl Estimator<'_> {
    /// Whether every operation that is priced goes by its split rule.
    pub(super) fn all_by_rule(&self, data: &Data) -> Result<bool, Report> {
        self.unsplit(data, |setting| {
            let used = self.known.uses.used.iter().map(|(id, _)| &data.operations[id.index()]);
            let mut own = used.filter(|operation| operation.structural().is_none());
            own.all(|operation| goes_by_rule(setting, operation))
        })
    }

    /// Finds what meets.
    pub(super) fn meet(&self, data: &Data) -> Result<Vec<Meeting>, Report> {
        self.unsplit(data, |setting| {
            let mut meetings = Meetings::default();
            let whole = setting.memo.placed(Placement::replicated());
            for &(id, times) in &self.known.uses.used {
                let operation = &data.operations[id.index()];
                let seconds = match has_steps(operation) {
                    true => {
                        let placed: Vec<&Placed> = vec![&whole; values(operation)];
                        self.work(setting, id, &placed)?.seconds() * times as f64
                    }
                    false => 0.0,
                };
                meetings.operation(setting, operation, seconds);
            }
            for &id in &self.known.uses.others {
                meetings.operation(setting, &data.operations[id.index()], 0.0);
            }
            for variable in &data.variables {
                let dims = variable.ty.shape.iter().collect();
                meetings.add(Meeting { dims, whole: Vec::new(), computes: true, seconds: 0.0 });
            }
            Ok(meetings.0.into_values().collect())
        })?
    }

    /// Does something where nothing is split.
    pub(super) fn unsplit<T>(
        &self,
        data: &Data,
        with: impl FnOnce(&Setting<'_>) -> T,
    ) -> Result<T, Report> {
        let rules = Rules::bind(&Layout::default(), &self.mesh);
        let rules =
            rules.map_err(|_| Report::of("price", "internal error: no rules do not bind"))?;
        Ok(with(&Setting::with(data, &self.mesh, &rules, std::rc::Rc::clone(&self.memo))))
    }
}

/// Whether an operation is placed by its split rule, and does not find its own way.
pub(super) fn goes_by_rule(setting: &Setting<'_>, operation: &Operation) -> bool {
    if let Some(Structural::Loop(_)) = operation.structural() {
        return false;
    }
    let count = operation.inputs.len();
    let types = |list| types(setting.data, list);
    let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
    let cx = PlaceCx {
        signature: Signature { inputs: &inputs, outputs: &outputs },
        mesh: setting.mesh,
        rules: setting.rules,
        set: RuleSet::Compute,
        home: &Home::default(),
        available: vec![Placement::replicated(); count],
        settled: vec![false; count],
        known: vec![false; count],
        problems: RefCell::default(),
        by_rule: Cell::default(),
    };
    operation.op.place(&cx);
    cx.by_rule.get()
}

/// Whether an operation is emitted by itself.
pub(super) fn has_steps(operation: &Operation) -> bool {
    !matches!(
        operation.structural(),
        Some(
            Structural::Relayout
                | Structural::Probe { .. }
                | Structural::Custom { .. }
                | Structural::Recompute { .. }
                | Structural::Reversible(_)
                | Structural::Loop(_)
                | Structural::Param { .. }
        )
    )
}

/// How many inputs and outputs there are.
pub(super) fn values(operation: &Operation) -> usize {
    operation.outputs.len() + operation.inputs.len()
}

fn types(data: &Data, list: &[TensorId]) -> Vec<TensorType> {
    list.iter().map(|tensor| data.tensors[tensor.index()].ty.clone()).collect()
}

#[derive(Default)]
struct Meetings(IndexMap<(Vec<Dimension>, Vec<DimName>, bool), Meeting>);

impl Meetings {
    fn add(&mut self, mut meeting: Meeting) {
        meeting.dims.sort_by_key(|dim| (dim.name, dim.size));
        meeting.dims.dedup();
        meeting.whole.sort();
        meeting.whole.dedup();
        let key = (meeting.dims.clone(), meeting.whole.clone(), meeting.computes);
        let seconds = meeting.seconds;
        match self.0.get_mut(&key) {
            Some(known) => known.seconds += seconds,
            None => drop(self.0.insert(key, meeting)),
        }
    }

    fn operation(&mut self, setting: &Setting<'_>, operation: &Operation, seconds: f64) {
        let types = |list| types(setting.data, list);
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let signature = Signature { inputs: &inputs, outputs: &outputs };
        let key = setting.key(operation);
        let computes = key.is_none_or(|key| key.set == RuleSet::Compute);
        let dims = |types: &[TensorType]| -> Vec<Dimension> {
            types.iter().flat_map(|ty| ty.shape.iter().collect::<Vec<_>>()).collect()
        };
        if let Some(Structural::Loop(run)) = operation.structural() {
            let along = run.iterations.name;
            for ty in inputs.iter().chain(&outputs) {
                let dims = dims(std::slice::from_ref(ty));
                let whole: Vec<_> = dims.iter().map(|d| d.name).filter(|d| *d == along).collect();
                self.add(Meeting { dims, whole, computes, seconds: 0.0 });
            }
            return;
        }
        if goes_by_rule(setting, operation) {
            let mut all = dims(&inputs);
            all.extend(dims(&outputs));
            let rule = operation.op.split(signature);
            let is_whole = |name: &DimName| matches!(rule.role(*name), Role::Whole(_));
            let whole = all.iter().map(|dim| dim.name).filter(is_whole).collect();
            self.add(Meeting { dims: all, whole, computes, seconds });
        } else if has_steps(operation) {
            // What moves data checks what it makes only, and finds its own way.
            for ty in &outputs {
                let dims = dims(std::slice::from_ref(ty));
                self.add(Meeting { dims, whole: Vec::new(), computes, seconds: 0.0 });
            }
        }
    }
}
