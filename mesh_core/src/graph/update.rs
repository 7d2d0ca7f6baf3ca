//! What an update will do, for optimizers around optimizers.

use super::data::{Structural, Tensor};
use super::nodes::UpdateKind;
use super::variable::{Update, Variable};

impl<'g> Update<'g> {
    /// The variable that it updates.
    pub fn variable(self) -> Variable<'g> {
        self.graph.variable_of(self.variable)
    }

    /// The value that it will leave in the variable, where the variable lies.
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer}, names::{dim, DType::F32}};
    /// # fn doc(g: &Graph) {
    /// let w = g.variable("w", [dim("x", 3)], F32, Initializer::ONES);
    /// let update = w.assign_sub(w.stored() * 0.5);
    /// let halved = update.value();
    /// g.function("f", [], [halved], [update]);
    /// # }
    /// ```
    #[track_caller]
    pub fn value(self) -> Tensor<'g> {
        let Some((kind, operand)) = self.operand() else { return self.graph.poison() };
        let stored = self.variable().stored();
        match kind {
            UpdateKind::Assign => operand,
            UpdateKind::Add => stored + operand,
            UpdateKind::Sub => stored - operand,
        }
    }

    /// What it will add to the variable, where the variable lies: without a rounding, if it was made by
    /// [`Variable::assign_add`] or [`Variable::assign_sub`].
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer}, names::{dim, DType::F32}};
    /// # fn doc(g: &Graph) {
    /// let w = g.variable("w", [dim("x", 3)], F32, Initializer::ONES);
    /// let delta = w.assign_sub(w.stored() * 0.5).change(); // -w / 2
    /// # let _ = delta;
    /// # }
    /// ```
    #[track_caller]
    pub fn change(self) -> Tensor<'g> {
        let Some((kind, operand)) = self.operand() else { return self.graph.poison() };
        match kind {
            UpdateKind::Assign => operand - self.variable().stored(),
            UpdateKind::Add => operand,
            UpdateKind::Sub => -operand,
        }
    }

    /// What is done with which tensor, whose dims stand in the variable's order; nothing if an error left
    /// it without meaning.
    #[track_caller]
    fn operand(self) -> Option<(UpdateKind, Tensor<'g>)> {
        let operation = self.graph.data().operations[self.operation?.index()].clone();
        let Some(Structural::Update(update)) = operation.structural() else { return None };
        let operand = Tensor::new(self.graph, *operation.inputs.first()?);
        let shape = self.variable().shape();
        let ordered = operand.shape() == shape;
        let operand =
            if ordered { operand } else { self.graph.algebra().broadcast(operand, &shape) };
        Some((update.kind, operand))
    }
}
