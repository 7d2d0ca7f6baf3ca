//! Cells: what becomes of a state at one position.

use crate::einsum::einsum;
use crate::elementwise::{sigmoid, tanh};
use crate::layers::fit::Fit;
use crate::layers::parameters::weights;
use crate::layers::{Activation, Parameters};
use crate::room::*;
use mesh_core::graph::Initializer;

/// The dim of a cell's gates.
pub(super) const GATES: &str = "gates";

/// What a recurrent layer repeats. With `x_k` and `h_k` what gate `k` gets of the input and of the state, biases
/// included, `s` the sigmoid, and products element by element:
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000), gates in torch's
    /// order input, forget, new, output: `c' = s(x_1 + h_1) c + s(x_0 + h_0) tanh(x_2 + h_2)`, `h' = s(x_3 + h_3)
    /// tanh(c')`.
    Lstm,
    /// The gated recurrent unit (arXiv 1406.1078), gates in torch's order reset, update, new: `n = tanh(x_2 + s(x_0 +
    /// h_0) h_2)`, `u = s(x_1 + h_1)`, `h' = (1 - u) n + u h`.
    Gru,
    /// Elman's: `h' = activation(x_0 + h_0)`.
    Plain(Activation),
}

/// Weights of a cell, in torch's order of elements.
#[derive(Clone, Copy, Debug)]
pub struct CellWeights<'g> {
    /// `[gates, state, input]`.
    pub input: Tensor<'g>,
    /// `[gates, state, _state]`, the state before being `_state`.
    pub recurrent: Tensor<'g>,
    /// `[gates, state]`, if anything is added.
    pub input_bias: Option<Tensor<'g>>,
    /// `[gates, state]`, if anything is added; a [`Cell::Gru`] resets it with the state.
    pub recurrent_bias: Option<Tensor<'g>>,
}
weights!(CellWeights { input, recurrent, input_bias, recurrent_bias });

/// What a cell keeps from one position to the next.
#[derive(Clone, Debug)]
pub struct CellState<'g> {
    /// What it writes, too.
    pub hidden: Tensor<'g>,
    /// The memory of a [`Cell::Lstm`]; of others nothing.
    pub memory: Option<Tensor<'g>>,
}

impl<'g> CellState<'g> {
    pub(super) fn tensors(&self) -> Vec<Tensor<'g>> {
        std::iter::once(self.hidden).chain(self.memory).collect()
    }
}

/// The dims of a state, as it is made and as it is summed over.
pub(super) struct At {
    pub(super) state: Dimension,
    pub(super) before: Dimension,
}

impl Cell {
    pub(super) fn gates(self) -> Dimension {
        let count = match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Plain(_) => 1,
        };
        mesh_core::names::dim(GATES, count)
    }

    /// The dims of the weights, in torch's order.
    pub(super) fn kernel(self, state: Dimension, inputs: &[Dimension]) -> Vec<Dimension> {
        [self.gates(), state].into_iter().chain(inputs.iter().copied()).collect()
    }

    #[track_caller]
    pub(super) fn weights<'g>(
        self,
        parameters: &Parameters<'g>,
        inputs: &[Dimension],
        before: Dimension,
        state: Dimension,
    ) -> CellWeights<'g> {
        let bound = (state.size as f64).powf(-0.5);
        let uniform = Initializer::Uniform { low: -bound, high: bound };
        let made = |name, inputs: &[Dimension]| {
            parameters.variable(name, self.kernel(state, inputs), uniform)
        };
        CellWeights {
            input: made("input", inputs),
            recurrent: made("recurrent", &[before]),
            input_bias: Some(made("input_bias", &[])),
            recurrent_bias: Some(made("recurrent_bias", &[])),
        }
    }

    /// That weights have their dims.
    pub(super) fn fit<'g>(
        self,
        fit: Fit,
        x: Tensor<'g>,
        weights: &CellWeights<'g>,
        inputs: &[Dimension],
        at: &At,
    ) -> Fit {
        let biases = weights.input_bias.into_iter().chain(weights.recurrent_bias);
        let given = [(weights.input, inputs), (weights.recurrent, &[at.before])];
        let given = given.into_iter().chain(biases.map(|bias| (bias, &[][..])));
        given.fold(fit, |fit, (weight, inputs)| {
            let shape = Shape::new(self.kernel(at.state, inputs)).unwrap_or_default();
            fit.exactly("a weight", weight, &shape).like("a weight", weight, x)
        })
    }

    /// That a state has its parts and dims.
    pub(super) fn fit_state<'g>(
        self,
        fit: Fit,
        x: Tensor<'g>,
        state: &CellState<'g>,
        examples: &Shape,
        dim: Dimension,
    ) -> Fit {
        let shape = Shape::new(examples.iter().chain([dim])).unwrap_or_default();
        let wants = self == Self::Lstm;
        let fit = fit.and(x, || {
            let problem = if wants { "an LSTM has a memory" } else { "only an LSTM has a memory" };
            (state.memory.is_some() != wants).then(|| problem.to_owned())
        });
        state
            .tensors()
            .into_iter()
            .fold(fit, |fit, part| fit.exactly("a state", part, &shape).like("a state", part, x))
    }

    /// Zeros for each example.
    #[track_caller]
    pub(super) fn begin<'g>(
        self,
        x: Tensor<'g>,
        examples: &Shape,
        dim: Dimension,
    ) -> CellState<'g> {
        let zeros = x.graph().fill(0.0, examples.iter().chain([dim]), x.dtype());
        self.state(&[zeros, zeros])
    }

    /// What a loop carries as a state.
    pub(super) fn state<'g>(self, carried: &[Tensor<'g>]) -> CellState<'g> {
        let memory = carried.get(1).copied().filter(|_| self == Self::Lstm);
        CellState { hidden: carried[0], memory }
    }

    /// What the gates get of the input but for the bias, of all positions that it has.
    #[track_caller]
    pub(super) fn given<'g>(
        self,
        x: Tensor<'g>,
        inputs: &[Dimension],
        weights: &CellWeights<'g>,
    ) -> Tensor<'g> {
        onto_gates(x, inputs, weights.input)
    }

    /// The state after a position.
    #[track_caller]
    pub(super) fn next<'g>(
        self,
        at: &At,
        given: Tensor<'g>,
        weights: &CellWeights<'g>,
        state: &CellState<'g>,
    ) -> CellState<'g> {
        let hidden = state.hidden;
        let before = crate::rename(hidden, at.state, at.before.name.as_str());
        let kept = onto_gates(before, &[at.before], weights.recurrent);
        let each = |x| crate::unstack(x, self.gates());
        let biased = |x, bias: Option<Tensor<'g>>| match bias {
            Some(bias) => each(x).into_iter().zip(each(bias)).map(|(x, bias)| x + bias).collect(),
            None => each(x),
        };
        let (input_bias, recurrent_bias) = (weights.input_bias, weights.recurrent_bias);
        // Of gates that add up what they are given, the biases are added up first.
        let together = || {
            let kept = each(kept).into_iter();
            let sums = each(given).into_iter().zip(kept).map(|(given, kept)| given + kept);
            let biases = input_bias.into_iter().chain(recurrent_bias).reduce(|a, b| a + b);
            match biases.map(each) {
                Some(biases) => sums.zip(biases).map(|(sum, bias)| sum + bias).collect(),
                None => sums.collect(),
            }
        };
        match (self, state.memory) {
            (Self::Lstm, Some(memory)) => {
                let gates: Vec<_> = together();
                let [input, forget, new, output] = [0, 1, 2, 3].map(|number| gates[number]);
                let memory = sigmoid(forget) * memory + sigmoid(input) * tanh(new);
                CellState { hidden: sigmoid(output) * tanh(memory), memory: Some(memory) }
            }
            (Self::Gru, _) => {
                let given: Vec<_> = biased(given, input_bias);
                let kept: Vec<_> = biased(kept, recurrent_bias);
                let [reset, update, new] = [0, 1, 2].map(|number| (given[number], kept[number]));
                let reset = sigmoid(reset.0 + reset.1);
                let update = sigmoid(update.0 + update.1);
                let new = tanh(new.0 + reset * new.1);
                CellState { hidden: (1.0 - update) * new + update * hidden, memory: None }
            }
            (Self::Plain(activation), _) => {
                CellState { hidden: activation.apply(together()[0]), memory: None }
            }
            (Self::Lstm, None) => CellState { hidden: hidden.poisoned(), memory: None },
        }
    }
}

/// `x`, summed over its inputs, for each gate.
#[track_caller]
fn onto_gates<'g>(x: Tensor<'g>, inputs: &[Dimension], kernel: Tensor<'g>) -> Tensor<'g> {
    let (own, of_kernel) = (x.shape(), kernel.shape());
    let is_made = |dim: &Dimension| !inputs.contains(dim);
    let made = own.iter().filter(is_made).chain(of_kernel.iter().filter(is_made));
    einsum(x, &[kernel], made.collect::<Vec<_>>())
}
