//! Variables: state that outlives a call.

use super::apply::Asked;
use super::data::{Graph, Structural, Tensor};
use super::ids::{Key, OperationId};
use super::initializer::Initializer;
use super::nodes::{Change, Updated, VariableNode};
use super::op::Op;
use super::types::TensorType;
use crate::names::{DType, Dimension, RuleSet, Shape};
use crate::program::VariableId;
use std::fmt;
use std::panic::Location;

/// A variable of a graph: a handle, free to copy.
#[derive(Clone, Copy)]
pub struct Variable<'g> {
    graph: &'g Graph,
    id: VariableId,
}

/// What a function will do to a variable when it ends. List it among a function's updates.
#[derive(Clone, Copy)]
pub struct Update<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) variable: VariableId,
    /// `None` if an error upstream left it without meaning.
    pub(crate) operation: Option<OperationId>,
}

impl Graph {
    /// A trainable variable. Its name is unique in the graph; scopes count.
    #[track_caller]
    pub fn variable(
        &self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
        initializer: Initializer,
    ) -> Variable<'_> {
        let shape = self.shape(name, dims);
        let name = self.data().names.scoped(name);
        self.declare(name, shape, dtype, initializer, true, None)
    }

    /// A variable that no optimizer touches.
    #[track_caller]
    pub fn state(
        &self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
        initializer: Initializer,
    ) -> Variable<'_> {
        let shape = self.shape(name, dims);
        let name = self.data().names.scoped(name);
        self.declare(name, shape, dtype, initializer, false, None)
    }

    #[track_caller]
    fn declare(
        &self,
        name: String,
        shape: Option<Shape>,
        dtype: DType,
        initializer: Initializer,
        trainable: bool,
        slot_of: Option<VariableId>,
    ) -> Variable<'_> {
        let taken = self.data().variables.iter().find(|v| v.name == name).map(|v| v.at.clone());
        if let Some(first) = taken {
            self.record(&name, format!("a variable of this name exists already, from {first}"));
        }
        if let Err(message) = initializer.check(dtype) {
            self.record(&name, message);
        }
        self.add_variable(name, shape, dtype, initializer, trainable, slot_of)
    }

    /// Records that state is asked for as something else than it is. Of several variables that two lines
    /// disagree on, the first is recorded.
    #[track_caller]
    fn record_unfit(&self, known: Variable<'_>, ty: &TensorType, initializer: Initializer) {
        let at = self.provenance(Location::caller());
        let VariableNode { name, ty: first, initializer: start, at: from, .. } =
            known.node(Clone::clone);
        let lines = [from.location, at.location];
        if self.data().unfit.contains(&lines) {
            return;
        }
        self.data.borrow_mut().unfit.push(lines);
        let (then, now) = match first == *ty {
            true => (format!("{start:?}"), format!("{initializer:?}")),
            false => (first.to_string(), ty.to_string()),
        };
        let message = format!(
            "this state is {then}, from {from}, and is asked for as {now}; functions that train the \
             same variables share their state, so give them optimizers with the same options"
        );
        self.push_issue(&name, message, at);
    }

    #[track_caller]
    fn add_variable(
        &self,
        name: String,
        shape: Option<Shape>,
        dtype: DType,
        initializer: Initializer,
        trainable: bool,
        slot_of: Option<VariableId>,
    ) -> Variable<'_> {
        let at = self.provenance(Location::caller());
        let mut data = self.data.borrow_mut();
        let id = VariableId(data.variables.len() as u32);
        data.variables.push(VariableNode {
            name,
            poisoned: shape.is_none(),
            ty: TensorType::new(shape.unwrap_or_default(), dtype),
            initializer,
            trainable,
            slot_of,
            at,
            stored: None,
            value: None,
        });
        Variable { graph: self, id }
    }

    /// State that belongs to no variable, by its full name, whatever the scopes: not trainable.
    ///
    /// Asked for again with the same dims, dtype and initial value, it is the same variable. One of this
    /// name with others is an error that names both lines.
    #[track_caller]
    pub fn shared_state(
        &self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
        initializer: Initializer,
    ) -> Variable<'_> {
        let shape = self.shape(name, dims);
        let known = self.data().variables.iter().position(|v| v.name == name);
        let known = known.map(|i| self.variable_of(VariableId(i as u32)));
        match known.filter(|known| known.node(|node| !node.trainable && node.slot_of.is_none())) {
            Some(known) => self.as_asked(known, name, shape, dtype, initializer),
            None => self.declare(name.to_owned(), shape, dtype, initializer, false, None),
        }
    }

    /// A variable that exists, if it is what is asked for; an error otherwise.
    #[track_caller]
    fn as_asked<'g>(
        &'g self,
        known: Variable<'g>,
        name: &str,
        shape: Option<Shape>,
        dtype: DType,
        initializer: Initializer,
    ) -> Variable<'g> {
        let Some(ty) = shape.map(|shape| TensorType::new(shape, dtype)) else { return known };
        let fits = |node: &VariableNode| node.ty == ty && node.initializer == initializer;
        if known.node(|node| node.poisoned || fits(node)) {
            return known;
        }
        self.record_unfit(known, &ty, initializer);
        // A variable of its own, so that what is computed with it is not refused as well.
        let owner = known.node(|node| node.slot_of);
        self.add_variable(name.to_owned(), Some(ty.shape), dtype, initializer, false, owner)
    }

    pub(super) fn variable_of(&self, id: VariableId) -> Variable<'_> {
        Variable { graph: self, id }
    }

    /// The number of completed training calls: one i32 variable per graph, or what
    /// [`stepped`](Self::stepped) has put in its place. A function with an update of a trainable
    /// variable adds one to the variable, once.
    #[track_caller]
    pub fn step(&self) -> Tensor<'_> {
        let chosen = self.data().steps.last().copied();
        match chosen {
            Some(id) => Tensor::new(self, id),
            None => self.step_variable().value(),
        }
    }

    #[track_caller]
    pub(crate) fn step_variable(&self) -> Variable<'_> {
        let known = self.data().step;
        let id = match known {
            Some(id) => id,
            None => {
                let (zero, shape) = (Initializer::Constant(0.0), Some(Shape::scalar()));
                self.declare("step".to_owned(), shape, DType::I32, zero, false, None).id
            }
        };
        self.data.borrow_mut().step = Some(id);
        Variable { graph: self, id }
    }

    /// Every trainable variable, in the order of declaration.
    pub fn trainable_variables(&self) -> Vec<Variable<'_>> {
        let data = self.data();
        let trainable = data.variables.iter().enumerate().filter(|(_, v)| v.trainable);
        trainable.map(|(i, _)| Variable { graph: self, id: VariableId(i as u32) }).collect()
    }
}

impl<'g> Variable<'g> {
    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its number in the graph and in modules made of it.
    pub fn id(self) -> VariableId {
        self.id
    }

    /// Its unique name.
    pub fn name(self) -> String {
        self.node(|node| node.name.clone())
    }

    /// Dims in declared order, global sizes.
    pub fn shape(self) -> Shape {
        self.node(|node| node.ty.shape.clone())
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.node(|node| node.ty.dtype)
    }

    /// How it starts.
    pub fn initializer(self) -> Initializer {
        self.node(|node| node.initializer)
    }

    fn node<T>(self, read: impl FnOnce(&VariableNode) -> T) -> T {
        read(&self.graph.data().variables[self.id.index()])
    }

    /// The value as the call starts, under the rules the variable lies under at rest.
    #[track_caller]
    pub fn stored(self) -> Tensor<'g> {
        if let Some(id) = self.node(|node| node.stored) {
            return Tensor::new(self.graph, id);
        }
        if self.node(|node| node.poisoned) {
            return self.graph.poison();
        }
        let (name, ty) = self.node(|node| (node.name.clone(), node.ty.clone()));
        let op = Structural::Read { variable: self.id, ty };
        let key = self.node(|node| node.key(self.id));
        let asked = Asked::key(Some(key)).named(name);
        let _outside = self.graph.outside(0);
        let tensor = self.graph.apply_as(op, &[], 1, asked).outputs[0];
        self.graph.data.borrow_mut().variables[self.id.index()].stored = Some(tensor.id());
        tensor
    }

    /// The value as the call starts, for computing with.
    #[track_caller]
    pub fn value(self) -> Tensor<'g> {
        if let Some(id) = self.node(|node| node.value) {
            return Tensor::new(self.graph, id);
        }
        let _outside = self.graph.outside(0);
        let tensor = self.stored().relayout(Key::COMPUTE);
        self.graph.data.borrow_mut().variables[self.id.index()].value = Some(tensor.id());
        tensor
    }

    /// The value as the call starts, where its optimizer state lies.
    #[track_caller]
    pub fn value_for_update(self) -> Tensor<'g> {
        self.stored().relayout(self.slots_key())
    }

    /// The rules its optimizer state lies under.
    pub fn slots_key(self) -> Key {
        Key { set: RuleSet::Slots, variable: Some(self.id) }
    }

    /// Optimizer state `{variable}/{name}`: not trainable, laid out by the `slots/` rules.
    ///
    /// Asked for again with the same dims, dtype and initial value, it is the same slot: functions that
    /// train the same variables share their slots, as those of several batch sizes do. A slot that
    /// exists with others is an error that names both lines.
    #[track_caller]
    pub fn slot(
        self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
        initializer: Initializer,
    ) -> Variable<'g> {
        let shape = self.graph.shape(name, dims);
        let full = format!("{}/{name}", self.name());
        let Some(known) = self.find_slot(name) else {
            return self.graph.declare(full, shape, dtype, initializer, false, Some(self.id));
        };
        self.graph.as_asked(known, &full, shape, dtype, initializer)
    }

    /// The slots that it has, in the order of declaration.
    pub fn slots(self) -> Vec<Variable<'g>> {
        let data = self.graph.data();
        let own = data.variables.iter().enumerate().filter(|(_, v)| v.slot_of == Some(self.id));
        own.map(|(i, _)| Variable { graph: self.graph, id: VariableId(i as u32) }).collect()
    }

    /// The slot `{variable}/{name}`, if there is one.
    pub fn find_slot(self, name: &str) -> Option<Variable<'g>> {
        let full = format!("{}/{name}", self.name());
        self.slots().into_iter().find(|slot| slot.name() == full)
    }

    /// Sets the variable when the call ends.
    #[track_caller]
    pub fn assign(self, value: Tensor<'g>) -> Update<'g> {
        self.update(None, value)
    }

    /// Adds to the variable when the call ends.
    #[track_caller]
    pub fn assign_add(self, delta: Tensor<'g>) -> Update<'g> {
        self.update(Some(Change::Add), delta)
    }

    /// Subtracts from the variable when the call ends.
    #[track_caller]
    pub fn assign_sub(self, delta: Tensor<'g>) -> Update<'g> {
        self.update(Some(Change::Sub), delta)
    }

    #[track_caller]
    fn update(self, change: Option<Change>, value: Tensor<'g>) -> Update<'g> {
        if !self.graph.data().open.is_empty() {
            let message = "an update cannot stand in a loop's body; return the value from the body \
                           and update the variable after the loop";
            self.graph.record(&self.name(), message);
        }
        let (key, ty, name) =
            self.node(|node| (node.key(self.id), node.ty.clone(), node.name.clone()));
        let value =
            if std::ptr::eq(value.graph(), self.graph) { value.relayout(key) } else { value };
        let asked = |op: &Structural| Asked::key(Some(key)).named(format!("{name}/{}", op.name()));
        let updated = Updated { variable: self.id, name: name.clone(), ty };
        let value = match change {
            None => value,
            Some(change) => {
                let op = Structural::Changed(change, updated.clone());
                let asked = asked(&op);
                self.graph.apply_as(op, &[self.stored(), value], 1, asked).outputs[0]
            }
        };
        let op = Structural::Update(updated);
        let asked = asked(&op);
        let operation = self.graph.apply_as(op, &[value], 0, asked).operation;
        Update { graph: self.graph, variable: self.id, operation }
    }
}

impl fmt::Debug for Variable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node(|node| write!(f, "{}: {}", node.name, node.ty))
    }
}

impl fmt::Debug for Update<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update of {}", self.graph.data().variables[self.variable.index()].name)
    }
}
