//! A naive evaluator of whole graphs: one processor, no slices, no steps, all in f64.
//!
//! It shares nothing with lowering or kernels. Dims go by name; every op is a loop over the
//! indices of its dims. Floats are not rounded, so differences of nearby results are derivatives;
//! i32 wraps and bool is 0 or 1, exactly. What an op means, its room says ([`Proof`](super::Proof)), or
//! who evaluates says it by name; an op of which nobody says it is an error.

pub(super) mod dense;

pub use dense::{At, Dense};

use super::alone::{computed, inner};
use super::proof;
use mesh_core::graph::{Graph, Kind, LoopView, OperationId, OperationView, TensorId, TensorType};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// What an op of another crate means: from its inputs to its outputs, of these types.
pub type Meaning = Rc<dyn Fn(&[&Dense], &[TensorType]) -> Vec<Dense>>;

/// What a function returns, and its variables afterwards.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// In the order of the function's fetches.
    pub fetches: Vec<Dense>,
    /// Every variable that the function updates, by name.
    pub updated: BTreeMap<String, Dense>,
}

/// The evaluator of one graph, as that is when the evaluator is made.
pub struct Reference<'g> {
    graph: &'g Graph,
    operations: Vec<OperationView>,
    variables: Vec<String>,
    meanings: BTreeMap<String, Meaning>,
    /// Operations from this number on may be unknown.
    trusted: usize,
    /// What has been evaluated, if that is asked for.
    met: Option<RefCell<BTreeMap<OperationId, Met>>>,
}

/// An operation that was evaluated.
#[derive(Clone, Debug)]
pub(super) struct Met {
    /// Its number in the graph.
    pub(super) number: usize,
    pub(super) operation: OperationView,
    /// What it was given; in a loop, in the last round.
    pub(super) inputs: Vec<Dense>,
    pub(super) outputs: Vec<Dense>,
    /// Whether its meaning is known.
    pub(super) explained: bool,
}

impl fmt::Debug for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({} operations)", self.operations.len())
    }
}

/// Feeds or variables by name.
pub type Values = BTreeMap<String, Dense>;

impl<'g> Reference<'g> {
    /// The evaluator of a graph.
    pub fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            operations: graph.operations(),
            variables: graph.variable_names(),
            meanings: BTreeMap::new(),
            trusted: usize::MAX,
            met: None,
        }
    }

    /// Teaches it an op by name.
    pub fn with(mut self, op: &str, meaning: Meaning) -> Self {
        self.meanings.insert(op.to_owned(), meaning);
        self
    }

    /// Operations from this number on whose op is not known mean what one processor computes.
    pub(super) fn trusting(self, from: usize) -> Self {
        Self { trusted: from, ..self }
    }

    /// Keeps what is evaluated of ops from outside core.
    pub(super) fn recording(self) -> Self {
        Self { met: Some(RefCell::default()), ..self }
    }

    /// What was kept, in the graph's order.
    pub(super) fn recorded(self) -> Vec<Met> {
        self.met.map_or_else(Vec::new, |met| met.into_inner().into_values().collect())
    }

    /// The values of tensors, and of whatever they are computed from.
    ///
    /// # Errors
    /// If a feed or variable is missing or of another type, or an op is not known.
    pub fn evaluate(
        &self,
        feeds: &Values,
        variables: &Values,
        wanted: &[TensorId],
    ) -> Result<BTreeMap<TensorId, Dense>, String> {
        self.evaluate_from(BTreeMap::new(), feeds, variables, wanted)
    }

    /// As `evaluate`, some tensors being known.
    fn evaluate_from(
        &self,
        known: BTreeMap<TensorId, Dense>,
        feeds: &Values,
        variables: &Values,
        wanted: &[TensorId],
    ) -> Result<BTreeMap<TensorId, Dense>, String> {
        let mut values = known;
        let mut needed: Vec<TensorId> = wanted.to_vec();
        let mut run = Vec::new();
        for operation in self.operations.iter().rev() {
            let makes = |t: &TensorId| needed.contains(t) && !values.contains_key(t);
            if operation.outputs.iter().any(makes) {
                needed.extend(&operation.inputs);
                run.push(operation);
            }
        }
        for operation in run.into_iter().rev() {
            let made = self.operation(operation, feeds, variables, &values).map_err(|message| {
                format!("reference of {} ({}): {message}", operation.name, operation.op.name())
            })?;
            values.extend(operation.outputs.iter().copied().zip(made));
        }
        match wanted.iter().find(|t| !values.contains_key(t)) {
            Some(missing) => Err(format!("{missing:?} is not made by any operation")),
            None => Ok(values),
        }
    }

    /// What a call of a function returns and leaves in variables.
    ///
    /// # Errors
    /// If there is no such function, and as [`evaluate`](Self::evaluate).
    pub fn call(&self, function: &str, feeds: &Values, variables: &Values) -> Result<Call, String> {
        let functions = self.graph.functions();
        let function = functions.iter().find(|f| f.name == function);
        let function = function.ok_or("no such function")?;
        let update = |id| self.operations.iter().find(|o| o.id == id);
        let updates: Vec<_> = function.updates.iter().filter_map(|&id| update(id)).collect();
        let wanted = updates.iter().flat_map(|o| &o.inputs).chain(&function.fetches);
        let wanted: Vec<_> = wanted.copied().collect();
        let values = self.evaluate(feeds, variables, &wanted)?;
        let mut updated = BTreeMap::new();
        for operation in updates {
            let Kind::Update(variable) = operation.kind else {
                return Err(format!("{} is no update", operation.name));
            };
            let name = &self.variables[variable.index()];
            let old = variables.get(name).ok_or_else(|| format!("variable {name} has no value"))?;
            updated.insert(name.clone(), dense::permuted(&values[&operation.inputs[0]], &old.ty));
        }
        let fetches = function.fetches.iter().map(|t| values[t].clone()).collect();
        Ok(Call { fetches, updated })
    }

    /// One value per output.
    fn operation(
        &self,
        operation: &OperationView,
        feeds: &Values,
        variables: &Values,
        values: &BTreeMap<TensorId, Dense>,
    ) -> Result<Vec<Dense>, String> {
        let types: Vec<_> = operation.outputs.iter().map(|&t| self.graph.type_of(t)).collect();
        let input = |t: &TensorId| values.get(t).ok_or_else(|| format!("{t:?} is missing"));
        let inputs = operation.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        match &operation.kind {
            Kind::Loop(l) => return self.rounds(l, operation, &inputs, feeds, variables),
            Kind::Identity => {
                return Ok(inputs.into_iter().take(types.len()).cloned().collect());
            }
            Kind::Changed(sign) => {
                let [mut value, change] =
                    [inputs[0].clone(), dense::permuted(inputs[1], &inputs[0].ty)];
                for (value, change) in value.data.iter_mut().zip(&change.data) {
                    *value += f64::from(*sign) * change;
                }
                return Ok(vec![value]);
            }
            Kind::Other => return self.other(operation, &inputs, &types),
            _ => {}
        }
        let [ty] = &types[..] else {
            return Err("a source has one output".to_owned());
        };
        let given = |from: &Values, name: &str| match from.get(name) {
            Some(value) if value.ty == *ty => Ok(value.clone()),
            Some(value) => Err(format!("{name} is {}, not {ty}", value.ty)),
            None => Err(format!("{name} has no value")),
        };
        let value = match &operation.kind {
            Kind::Input(name) => given(feeds, name)?,
            Kind::Read(variable) => given(variables, &self.variables[variable.index()])?,
            Kind::Fill(value) => Dense::filled(ty.clone(), *value),
            Kind::Constant(array) => Dense::from_array(array, &ty.shape),
            _ => return Err(format!("{} has no value", operation.op.name())),
        };
        Ok(vec![value])
    }

    /// A loop, round by round.
    fn rounds(
        &self,
        l: &LoopView,
        operation: &OperationView,
        inputs: &[&Dense],
        feeds: &Values,
        variables: &Values,
    ) -> Result<Vec<Dense>, String> {
        let (carries, slices) = (l.carried.len(), l.sliced.len());
        let mut carried: Vec<Dense> = inputs[..carries].iter().map(|&x| x.clone()).collect();
        let mut outputs: Vec<_> =
            operation.outputs.iter().map(|&t| Dense::zeros(self.graph.type_of(t))).collect();
        let last = inputs[inputs.len() - 1];
        let mut go_on = !l.conditional || last.data[0] != 0.0;
        let mut round = 0;
        while go_on && round < l.iterations {
            let position = if l.reverse { l.iterations - 1 - round } else { round };
            let mut known: BTreeMap<_, _> =
                l.carried.iter().copied().zip(carried.clone()).collect();
            for (&slice, whole) in l.sliced.iter().zip(&inputs[carries..]) {
                let mut part = Dense::zeros(self.graph.type_of(slice));
                let size = part.data.len();
                part.data.copy_from_slice(&whole.data[position * size..][..size]);
                known.insert(slice, part);
            }
            let captured = l.captured.iter().zip(&inputs[carries + slices..]);
            known.extend(captured.map(|(&id, &value)| (id, value.clone())));
            let at = Dense::filled(self.graph.type_of(l.position), position as f64);
            known.insert(l.position, at);
            let values = self.evaluate_from(known, feeds, variables, &l.results)?;
            let results: Vec<_> = l.results.iter().map(|id| values[id].clone()).collect();
            for (stack, piece) in outputs.iter_mut().zip(&results).skip(carries) {
                let size = piece.data.len();
                stack.data[position * size..][..size].copy_from_slice(&piece.data);
            }
            carried = results[..carries].to_vec();
            go_on = !l.conditional || results.last().is_some_and(|flag| flag.data[0] != 0.0);
            round += 1;
        }
        outputs.splice(..carries, carried);
        Ok(outputs)
    }

    /// What an op from outside core makes of its inputs.
    fn other(
        &self,
        operation: &OperationView,
        inputs: &[&Dense],
        types: &[TensorType],
    ) -> Result<Vec<Dense>, String> {
        let number = self.operations.partition_point(|other| other.id < operation.id);
        let op = inner(&*operation.op);
        let meaning = match self.meanings.get(op.name()) {
            Some(meaning) => Some(meaning(inputs, types)),
            None => proof::meaning(op, inputs, types),
        };
        let explained = meaning.is_some();
        let outputs = match meaning {
            Some(values) => values,
            None if number >= self.trusted => computed(&operation.op, inputs, types)?,
            None => return Err("this op is not known".to_owned()),
        };
        if let Some(met) = &self.met {
            let inputs = inputs.iter().map(|&x| x.clone()).collect();
            let (operation, outputs) = (operation.clone(), outputs.clone());
            let one = Met { number, operation, inputs, outputs, explained };
            met.borrow_mut().insert(one.operation.id, one);
        }
        Ok(outputs)
    }
}
