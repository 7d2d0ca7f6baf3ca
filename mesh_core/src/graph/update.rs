//! What an update will do, for optimizers around optimizers.

use super::data::{Structural, Tensor};
use super::nodes::Change;
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
        self.assigned().map_or_else(|| self.graph.poison(), |value| self.ordered(value))
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
        let Some(value) = self.assigned() else { return self.graph.poison() };
        match self.change_of(value) {
            Some((Change::Add, change)) => self.ordered(change),
            Some((Change::Sub, change)) => -self.ordered(change),
            None => self.ordered(value) - self.variable().stored(),
        }
    }

    /// What the variable is set to; nothing if an error left it without meaning.
    fn assigned(self) -> Option<Tensor<'g>> {
        let operation = self.operation?;
        let input = self.graph.data().operations[operation.index()].inputs.first().copied()?;
        Some(Tensor::new(self.graph, input))
    }

    /// With its dims in the variable's order.
    #[track_caller]
    fn ordered(self, value: Tensor<'g>) -> Tensor<'g> {
        let shape = self.variable().shape();
        if value.shape() == shape { value } else { self.graph.algebra().broadcast(value, &shape) }
    }

    /// How a value came about, if it is the variable's with a change.
    fn change_of(self, value: Tensor<'g>) -> Option<(Change, Tensor<'g>)> {
        let data = self.graph.data();
        let (operation, _) = data.tensors[value.id().index()].producer?;
        let operation = &data.operations[operation.index()];
        let Some(Structural::Changed(change, of)) = operation.structural() else { return None };
        let input = Tensor::new(self.graph, *operation.inputs.last()?);
        (of.variable == self.variable).then_some((*change, input))
    }
}
