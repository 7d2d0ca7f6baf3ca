//! Recurrent layers against PyTorch's, with its weights in its order.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

/// What is written, and the last states; weights come after the input and the lengths.
fn along<'g>(i: &Given<'g>, cell: Cell, packed: bool) -> Vec<Tensor<'g>> {
    let [time, input, state] = ["time", "input", "state"].map(|name| i.dim(name));
    let mut layer = Recurrent::new(cell, time, input, state).layers(i.size("layers"));
    if i.is("both_ways") {
        layer = layer.bidirectional();
    }
    let begin = if packed { 2 } else { 1 };
    let cell = |w: &[Tensor<'g>]| CellWeights {
        input: w[0],
        recurrent: w[1],
        input_bias: Some(w[2]),
        recurrent_bias: Some(w[3]),
    };
    let cells: Vec<_> = i.x[begin..].chunks(4).map(cell).collect();
    let lengths = packed.then(|| i.x[1]);
    let (y, last) = layer.apply(i.x[0], &RecurrentWeights { cells }, None, lengths);
    let states = last.iter().flat_map(|state| [Some(state.hidden), state.memory]);
    std::iter::once(y).chain(states.flatten()).collect()
}

/// Builders of `torch_recurrent.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("lstm", |i| along(i, Cell::Lstm, false)),
    ("gru", |i| along(i, Cell::Gru, false)),
    ("plain", |i| along(i, Cell::Plain(Activation::Tanh), false)),
    ("lstm_packed", |i| along(i, Cell::Lstm, true)),
    ("gru_packed", |i| along(i, Cell::Gru, true)),
    ("plain_packed", |i| along(i, Cell::Plain(Activation::Tanh), true)),
];
