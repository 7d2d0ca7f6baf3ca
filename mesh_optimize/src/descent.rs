//! What optimizers have in common: one update of one variable by one gradient.

use crate::options::{Listed, check};
use crate::{Schedule, WeightDecay, pattern};
use mesh_core::graph::{Graph, Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::elementwise::{cast, pow, square};

/// An update that is being made: the gradient, the variable, and the updates of its slots so far.
pub(crate) struct Descent<'a, 'g> {
    /// The gradient, with coupled decay.
    pub(crate) grad: Tensor<'g>,
    variable: Variable<'g>,
    /// Decoupled decay of this variable.
    decay: Option<&'a WeightDecay>,
    updates: Vec<Update<'g>>,
}

impl<'a, 'g> Descent<'a, 'g> {
    /// `None` if an option of the optimizer is out of its range, which is then an error of the graph.
    #[track_caller]
    pub(crate) fn new<O: Listed>(
        optimizer: &O,
        decay: &'a WeightDecay,
        grad: Tensor<'g>,
        variable: Variable<'g>,
    ) -> Option<Self> {
        if !check(optimizer, grad.graph()) {
            return None;
        }
        let spared = pattern::found(grad.graph(), "exclude", &decay.exclude, &variable.name());
        let decay = Some(decay).filter(|decay| !decay.fraction.is(0.0) && !spared);
        let mut descent = Self { grad, variable, decay, updates: Vec::new() };
        if let Some(coupled) = decay.filter(|decay| decay.coupled) {
            descent.grad = grad + descent.value() * &coupled.fraction;
            descent.decay = None;
        }
        Some(descent)
    }

    pub(crate) fn graph(&self) -> &'g Graph {
        self.grad.graph()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.grad.dtype()
    }

    pub(crate) fn name(&self) -> String {
        self.variable.name()
    }

    /// A number in the gradient's dtype.
    pub(crate) fn scalar(&self, number: f64) -> Tensor<'g> {
        self.graph().scalar(number, self.dtype())
    }

    /// The variable's value, in the gradient's dtype.
    pub(crate) fn value(&self) -> Tensor<'g> {
        cast(self.variable.value_for_update(), self.dtype())
    }

    /// A slot with the variable's dims and the gradient's dtype that starts at zero.
    pub(crate) fn slot(&self, name: &str) -> Variable<'g> {
        self.slot_from(name, 0.0)
    }

    /// A slot with the variable's dims and the gradient's dtype that starts at `start`.
    pub(crate) fn slot_from(&self, name: &str, start: f64) -> Variable<'g> {
        self.slot_of(name, &self.variable.shape(), start)
    }

    /// A slot of other dims, in the gradient's dtype, that starts at `start`.
    pub(crate) fn slot_of(&self, name: &str, shape: &Shape, start: f64) -> Variable<'g> {
        self.variable.slot(name, shape, self.dtype(), Initializer::Constant(start))
    }

    /// A scalar slot in f64.
    pub(crate) fn scalar_slot(&self, name: &str, start: f64) -> Variable<'g> {
        self.variable.slot(name, Shape::scalar(), DType::F64, Initializer::Constant(start))
    }

    /// Lets a slot have a new value, and returns the value.
    pub(crate) fn keep(&mut self, slot: Variable<'g>, value: Tensor<'g>) -> Tensor<'g> {
        self.updates.push(slot.assign(value));
        value
    }

    /// `beta` of what the slot has and `1 - beta` of something new; the slot keeps it.
    pub(crate) fn average(
        &mut self,
        slot: Variable<'g>,
        beta: impl Into<Schedule>,
        new: Tensor<'g>,
    ) -> Tensor<'g> {
        self.keep(slot, beta.into().mixed(slot.stored(), new))
    }

    /// `decay` of what the slot has and all of something new; the slot keeps it.
    pub(crate) fn trace(
        &mut self,
        slot: Variable<'g>,
        decay: impl Into<Schedule>,
        new: Tensor<'g>,
    ) -> Tensor<'g> {
        self.keep(slot, slot.stored() * &decay.into() + new)
    }

    /// The number t of this update, from 1, which a slot keeps; an f64 scalar.
    pub(crate) fn count(&mut self, name: &str) -> Tensor<'g> {
        let slot = self.variable.slot(name, Shape::scalar(), DType::I32, Initializer::ZEROS);
        cast(self.keep(slot, slot.stored() + 1.0), DType::F64)
    }

    /// An average that started at zero, divided by the weight `1 - beta^t` of all that went into it.
    pub(crate) fn unbiased(
        &self,
        average: Tensor<'g>,
        beta: impl Into<Schedule>,
        t: Tensor<'g>,
    ) -> Tensor<'g> {
        let power = pow(beta.into().at(self.graph(), DType::F64), t);
        average * cast(1.0 / (1.0 - power), self.dtype())
    }

    /// The average of gradients, without bias. Nesterov's form looks a step ahead (Dozat 2016, as optax has it):
    /// `b1 m / (1 - b1^(t+1)) + (1 - b1) g / (1 - b1^t)`.
    pub(crate) fn first_moment(
        &mut self,
        slot: &str,
        beta: impl Into<Schedule>,
        t: Tensor<'g>,
        nesterov: bool,
    ) -> Tensor<'g> {
        let (grad, beta) = (self.grad, &beta.into());
        let average = self.average(self.slot(slot), beta, grad);
        if nesterov {
            beta.mixed(self.unbiased(average, beta, t + 1.0), self.unbiased(grad, beta, t))
        } else {
            self.unbiased(average, beta, t)
        }
    }

    /// The average of squared gradients, without bias.
    pub(crate) fn second_moment(
        &mut self,
        slot: &str,
        beta: impl Into<Schedule>,
        t: Tensor<'g>,
    ) -> Tensor<'g> {
        let (squares, beta) = (square(self.grad), &beta.into());
        let average = self.average(self.slot(slot), beta, squares);
        self.unbiased(average, beta, t)
    }

    /// What decoupled decay subtracts, per unit of learning rate.
    pub(crate) fn decay(&self) -> Option<Tensor<'g>> {
        self.decay.map(|decay| self.value() * &decay.fraction)
    }

    /// A direction with decoupled decay.
    pub(crate) fn decayed(&self, direction: Tensor<'g>) -> Tensor<'g> {
        self.decay().map_or(direction, |decay| direction + decay)
    }

    /// The updates: the variable less the rate times the decayed direction, and the slots.
    pub(crate) fn end(self, direction: Tensor<'g>, rate: &Schedule) -> Vec<Update<'g>> {
        let delta = self.decayed(direction) * rate.at(self.graph(), self.dtype());
        self.subtract(delta)
    }

    /// The updates: the variable less `delta`, and the slots.
    pub(crate) fn subtract(mut self, delta: Tensor<'g>) -> Vec<Update<'g>> {
        let update = self.variable.assign_sub(cast(delta, self.variable.dtype()));
        self.updates.insert(0, update);
        self.updates
    }
}
