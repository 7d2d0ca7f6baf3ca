//! Which dims of a variable are summed over where it is used, and which are produced.

use super::data::{Data, Operation, Structural};
use super::ids::TensorId;
use super::types::Signature;
use super::variable::Variable;
use crate::names::{Dimension, ReduceKind};
use crate::program::VariableId;
use crate::split::Role;

/// What a variable is as a matrix: the dims that its product sums over, and those that it produces.
/// A dim of the variable that is in neither, as of layers or experts, counts matrices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fans {
    /// The dims summed over, in declared order.
    pub inputs: Vec<Dimension>,
    /// The dims produced, in declared order.
    pub outputs: Vec<Dimension>,
}

impl Variable<'_> {
    /// The variable as a matrix, as the first product says in which it is a factor: its dims that the
    /// result lacks are summed over, those that only it and the result have are produced. `None` if no
    /// operation so far multiplies it like that, as for norms and biases, or if its rows are looked up
    /// before, as those of embeddings.
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer, Tensor}, names::{dim, DType::F32}};
    /// # fn example<'g>(g: &'g Graph, einsum: impl Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>) {
    /// let (batch, model, heads, depth) = (dim("batch", 8), dim("model", 6), dim("heads", 2), dim("depth", 3));
    /// let x = g.input("x", [batch, model], F32);
    /// let w = g.variable("w", [model, heads, depth], F32, Initializer::ONES);
    /// einsum(x, w.value()); // [batch, heads, depth]
    /// let fans = w.fans().unwrap();
    /// assert_eq!((fans.inputs, fans.outputs), (vec![model], vec![heads, depth]));
    /// # }
    /// ```
    pub fn fans(self) -> Option<Fans> {
        self.graph().data().fans(self.id())
    }
}

impl Data {
    fn fans(&self, variable: VariableId) -> Option<Fans> {
        let stored = self.variables[variable.index()].stored?;
        let mut same = vec![false; self.tensors.len()];
        same[stored.index()] = true;
        // The body of a loop stands before the loop that slices the variable for it.
        while self.spread(&mut same) {}
        let factor = |operation: &Operation| {
            let at = operation.inputs.iter().position(|t| same[t.index()])?;
            self.use_in(operation, at)
        };
        self.operations.iter().find_map(factor).flatten()
    }

    /// Marks tensors with the elements of marked ones; whether there were any.
    fn spread(&self, same: &mut [bool]) -> bool {
        let mut grown = false;
        for operation in &self.operations {
            for (i, input) in operation.inputs.iter().enumerate() {
                let copy = same[input.index()].then(|| self.copy(operation, i)).flatten();
                if let Some(copy) = copy {
                    grown |= !std::mem::replace(&mut same[copy.index()], true);
                }
            }
        }
        grown
    }

    /// What has the elements of an operation's input, or multiples of them.
    fn copy(&self, operation: &Operation, input: usize) -> Option<TensorId> {
        match operation.structural() {
            Some(Structural::Loop(run)) if input < run.carried => None,
            Some(Structural::Loop(run)) => self.region(run.region).given().nth(input),
            Some(_) => operation.outputs.get(input).copied(),
            None => {
                let shape = |t: &TensorId| &self.tensors[t.index()].ty.shape;
                let [output] = operation.outputs[..] else { return None };
                let mut others = operation.inputs.iter().enumerate().filter(|(i, _)| *i != input);
                let alone = others.all(|(_, other)| shape(other).is_scalar());
                let own = shape(&operation.inputs[input]);
                (alone && shape(&output).is_permutation_of(own)).then_some(output)
            }
        }
    }

    /// What an operation's input is: a matrix, if the operation is its product with something else; none, if
    /// rows are looked up in it. Other operations do not say.
    fn use_in(&self, operation: &Operation, input: usize) -> Option<Option<Fans>> {
        let types = |list: &[TensorId]| -> Vec<_> {
            list.iter().map(|t| self.tensors[t.index()].ty.clone()).collect()
        };
        let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
        let [output] = &outputs[..] else { return None };
        let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
        let elsewhere = |dim: &Dimension| {
            let mut others = inputs.iter().enumerate().filter(|(i, _)| *i != input);
            others.any(|(_, other)| other.shape.contains(dim.name))
        };
        let own = &inputs[input].shape;
        let summed: Vec<_> = own.iter().filter(|dim| !output.shape.contains(dim.name)).collect();
        let produced: Vec<_> =
            own.iter().filter(|d| !summed.contains(d) && !elsewhere(d)).collect();
        let is = |dim: &Dimension, kind| rule.role(dim.name) == Role::Reduced(kind);
        if summed.iter().any(|dim| is(dim, ReduceKind::Select)) {
            return Some(None);
        }
        let multiplies = summed.iter().any(|dim| is(dim, ReduceKind::Sum) && elsewhere(dim));
        let matrix = multiplies && !produced.is_empty();
        matrix.then_some(Some(Fans { inputs: summed, outputs: produced }))
    }
}
