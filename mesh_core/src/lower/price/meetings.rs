//! What is the same under all layouts: which operations are alike, which tensors stay in registers,
//! and which dims meet where.

use super::work::Hidden;
use super::{Data, Estimator, IndexMap};
use crate::graph::{Operation, OperationId, Report, Signature, Structural, TensorId, TensorType};
use crate::lower::place::PlaceCx;
use crate::lower::table::Setting;
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

/// Operations that do the same, by number.
#[derive(Debug, Default)]
pub(super) struct Classes {
    of: Vec<u32>,
    types: Vec<u32>,
    /// Iterations of loops.
    iterations: Vec<u64>,
    /// Tensors that stay in registers.
    hidden: Vec<bool>,
    /// By class: whether all steps are elementwise.
    light: Vec<bool>,
    /// What the priced function computes, and how often; and what others compute.
    used: Vec<(OperationId, u64)>,
    others: Vec<OperationId>,
    meetings: Vec<Meeting>,
}

impl Classes {
    pub(super) fn new(data: &Data, function: &str) -> Result<Self, Report> {
        let Some(node) = data.functions.get(function) else {
            let known: Vec<_> = data.functions.keys().map(String::as_str).collect();
            let message =
                format!("there is no function `{function}`: there are {}", known.join(", "));
            return Err(Report::of("price", message));
        };
        let mut classes = Self::default();
        let mut alike = IndexMap::new();
        for operation in &data.operations {
            let tensors = operation.inputs.iter().chain(&operation.outputs);
            let types: Vec<_> = tensors.map(|t| &data.tensors[t.index()].ty).collect();
            let next = alike.len() as u32;
            let class =
                alike.entry((&*operation.op, operation.inputs.len(), types)).or_insert(next);
            classes.of.push(*class);
            let iterations = match operation.structural() {
                // Of a conditional loop nobody knows it, as in programs' costs.
                Some(Structural::Loop(run)) if !run.conditional => run.iterations.size as u64,
                _ => 1,
            };
            classes.iterations.push(iterations);
        }
        let mut types = IndexMap::new();
        for tensor in &data.tensors {
            let next = types.len() as u32;
            classes.types.push(*types.entry(&tensor.ty).or_insert(next));
        }
        classes.light = vec![false; alike.len()];
        classes.hidden = vec![false; data.tensors.len()];
        let mut used = Vec::new();
        classes.uses(data, &data.reachable(node), 1, &mut used);
        classes.used = used;
        let mut others = Vec::new();
        for (_, node) in data.functions.iter().filter(|(name, _)| *name != function) {
            classes.uses(data, &data.reachable(node), 1, &mut others);
        }
        classes.others = others.into_iter().map(|(id, _)| id).collect();
        Ok(classes)
    }

    /// Lists operations with those in the bodies of loops.
    fn uses(
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
                self.uses(data, &inner, times * self.iterations(id), found);
            }
        }
    }

    pub(super) fn operations(&self) -> usize {
        self.of.len()
    }

    pub(super) fn of(&self, id: OperationId) -> u32 {
        self.of[id.index()]
    }

    pub(super) fn type_of(&self, tensor: TensorId) -> u32 {
        self.types[tensor.index()]
    }

    pub(super) fn iterations(&self, id: OperationId) -> u64 {
        self.iterations[id.index()]
    }

    /// Which of an operation's inputs and outputs stay in registers.
    pub(super) fn hidden_of(&self, data: &Data, id: OperationId) -> Hidden {
        let operation = &data.operations[id.index()];
        let tensors = operation.inputs.iter().chain(&operation.outputs).enumerate();
        let hidden = tensors.filter(|(_, tensor)| self.hidden[tensor.index()]);
        hidden.take_while(|(i, _)| *i < Hidden::BITS as usize).fold(0, |bits, (i, _)| bits | 1 << i)
    }
}

impl Estimator<'_> {
    /// Where dims meet, equal combinations together.
    pub fn meetings(&self) -> &[Meeting] {
        &self.classes.meetings
    }

    pub(super) fn hides(&self, tensor: TensorId) -> bool {
        self.classes.hidden[tensor.index()]
    }

    pub(super) fn is_light(&self, id: OperationId) -> bool {
        self.classes.light[self.classes.of(id) as usize]
    }

    /// Finds what stays in registers, and what meets.
    pub(super) fn prepare(&mut self) -> Result<(), Report> {
        let graph = self.graph;
        let data = graph.data();
        let nothing = Layout::default();
        let rules = Rules::bind(&nothing, &self.mesh);
        let rules =
            rules.map_err(|_| Report::of("price", "internal error: no rules do not bind"))?;
        let mesh = self.mesh.clone();
        let setting = Setting::new(&data, &mesh, &rules);
        let used = std::mem::take(&mut self.classes.used);
        let mut seen = vec![false; self.classes.light.len()];
        for &(id, _) in &used {
            let class = self.classes.of(id) as usize;
            let operation = &data.operations[id.index()];
            if std::mem::replace(&mut seen[class], true) || !has_steps(operation) {
                continue;
            }
            let work = self.of_operation(&setting, operation, &whole(operation), 0);
            self.classes.light[class] = work.is_some_and(|work| work.is_light);
        }
        self.hide(&data, &used);
        let mut meetings = Meetings::default();
        for &(id, times) in &used {
            let operation = &data.operations[id.index()];
            let seconds = match has_steps(operation) {
                true => self.work(&setting, id, whole(operation))?.seconds() * times as f64,
                false => 0.0,
            };
            meetings.operation(&setting, operation, seconds);
        }
        for &id in &self.classes.others {
            meetings.operation(&setting, &data.operations[id.index()], 0.0);
        }
        for variable in &data.variables {
            let dims = variable.ty.shape.iter().collect();
            meetings.add(Meeting { dims, whole: Vec::new(), computes: true, seconds: 0.0 });
        }
        self.classes.meetings = meetings.0.into_values().collect();
        self.classes.used = used;
        Ok(())
    }

    /// What one elementwise operation makes and another alone takes.
    fn hide(&mut self, data: &Data, used: &[(OperationId, u64)]) {
        let mut takers: Vec<(usize, bool)> = vec![(0, true); data.tensors.len()];
        let mut takes = |tensor: &TensorId, light: bool| {
            let (count, all) = &mut takers[tensor.index()];
            (*count, *all) = (*count + 1, *all && light);
        };
        for &(id, _) in used {
            let operation = &data.operations[id.index()];
            let light = self.is_light(id);
            operation.inputs.iter().for_each(|tensor| takes(tensor, light));
            if let Some(Structural::Loop(run)) = operation.structural() {
                let results = data.region(run.region).results.iter().chain(&run.saved);
                results.for_each(|tensor| takes(tensor, false));
            }
        }
        if let Some(node) = data.functions.get(&self.function) {
            node.fetches.iter().for_each(|tensor| takes(tensor, false));
        }
        let light: Vec<_> = used.iter().filter(|(id, _)| self.is_light(*id)).collect();
        for (id, _) in light {
            for output in &data.operations[id.index()].outputs {
                self.classes.hidden[output.index()] = takers[output.index()] == (1, true);
            }
        }
    }
}

/// Whether an operation is emitted by itself.
fn has_steps(operation: &Operation) -> bool {
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

fn whole(operation: &Operation) -> Vec<Placement> {
    vec![Placement::replicated(); operation.outputs.len() + operation.inputs.len()]
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
        let data = setting.data;
        let ty = |t: &TensorId| data.tensors[t.index()].ty.clone();
        let inputs: Vec<TensorType> = operation.inputs.iter().map(ty).collect();
        let outputs: Vec<TensorType> = operation.outputs.iter().map(ty).collect();
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
        let cx = PlaceCx {
            signature,
            mesh: setting.mesh,
            rules: setting.rules,
            set: RuleSet::Compute,
            home: &Home::default(),
            available: vec![Placement::replicated(); inputs.len()],
            settled: vec![false; inputs.len()],
            known: vec![false; inputs.len()],
            problems: RefCell::default(),
            by_rule: Cell::default(),
        };
        operation.op.place(&cx);
        if cx.by_rule.get() {
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
