//! Torch's names of weights.

use super::Recurrent;
use crate::room::*;

/// A weight of torch's `nn.LSTM`, `nn.GRU` or `nn.RNN`, and the variable with the same elements in the same
/// order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TorchName {
    /// In a state dict, after the module's own name: `weight_ih_l0`.
    pub torch: String,
    /// The variable's name: `lstm/layer0/input`.
    pub variable: String,
    /// The variable's dims, under which torch's elements are to be reshaped.
    pub shape: Shape,
}

/// The scope of a cell's variables.
pub(super) fn cell(layer: usize, reverse: bool) -> String {
    format!("layer{layer}{}", if reverse { "_reverse" } else { "" })
}

impl Recurrent {
    /// The weights of torch's layer and the variables of this one, made by [`weights`](Self::weights) under `name`. A
    /// session is given torch's weights by writing each, reshaped, to its variable. In torch the sizes are
    /// `[gates * state, inputs]`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Cell, Recurrent};
    /// let lstm = Recurrent::new(Cell::Lstm, dim("time", 10), dim("input", 8), dim("state", 16));
    /// let names = lstm.torch_names("encoder");
    /// assert_eq!((&*names[0].torch, &*names[0].variable), ("weight_ih_l0", "encoder/layer0/input"));
    /// assert_eq!(names[0].shape.to_string(), "[gates:4, state:16, input:8]");
    /// ```
    pub fn torch_names(&self, name: &str) -> Vec<TorchName> {
        let each = self.each().flat_map(|(layer, reverse)| {
            let parts = [
                ("weight_ih", "input", self.inputs(layer)),
                ("weight_hh", "recurrent", vec![self.before()]),
                ("bias_ih", "input_bias", vec![]),
                ("bias_hh", "recurrent_bias", vec![]),
            ];
            parts.map(|(torch, own, inputs)| TorchName {
                torch: format!("{torch}_l{layer}{}", if reverse { "_reverse" } else { "" }),
                variable: format!("{name}/{}/{own}", cell(layer, reverse)),
                shape: Shape::new(self.cell.kernel(self.state, &inputs)).unwrap_or_default(),
            })
        });
        each.collect()
    }
}
