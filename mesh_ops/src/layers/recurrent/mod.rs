//! Recurrent layers: a cell that runs along a dim by `scan`.
//!
//! The input's part of each cell is computed for all positions at once, before the loop. Weights have torch's
//! order of gates and of dims: `weight_ih_l0`, which is `[4 hidden, input]` there, has the same elements in the same
//! order as `input` here, `[gates:4, state, input]`.

mod cell;
mod names;

pub use cell::{Cell, CellState, CellWeights};
pub use names::TorchName;

use super::Parameters;
use super::fit::Fit;
use super::parameters::weights;
use crate::elementwise::{less, select};
use crate::room::*;
use cell::At;

/// Layers of cells along `time`, from `input` onto `state`; the next layer reads what the one before it writes.
///
/// `time` cannot be split, as `scan` cannot; a split `state` gathers the state once a position, and examples cost
/// nothing.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{Cell, Parameters, Recurrent};
/// # let g = mesh_ops::graph();
/// let (batch, time) = (dim("batch", 4), dim("time", 10));
/// let (input, state) = (dim("input", 8), dim("state", 16));
/// let x = g.input("x", [batch, time, input], F32);
/// let lengths = g.input("lengths", [batch], I32);
///
/// let lstm = Recurrent::new(Cell::Lstm, time, input, state).layers(2).bidirectional();
/// let weights = lstm.weights(&Parameters::like(x), "lstm");
/// let (y, last) = lstm.apply(x, &weights, None, Some(lengths));
/// assert_eq!(y.shape().to_string(), "[batch:4, time:10, directions:2, state:16]");
/// assert_eq!((last.len(), last[0].hidden.shape().to_string()), (4, "[batch:4, state:16]".to_owned()));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Recurrent {
    cell: Cell,
    time: Dimension,
    input: Dimension,
    state: Dimension,
    layers: usize,
    bidirectional: bool,
}

/// Weights of the cells of a [`Recurrent`]: layer by layer, forward and then backward.
#[derive(Clone, Debug)]
pub struct RecurrentWeights<'g> {
    /// One for each layer and direction.
    pub cells: Vec<CellWeights<'g>>,
}
weights!(RecurrentWeights { cells });

impl Recurrent {
    /// One layer that runs forward.
    pub fn new(cell: Cell, time: Dimension, input: Dimension, state: Dimension) -> Self {
        Self { cell, time, input, state, layers: 1, bidirectional: false }
    }

    /// So many layers, at least one.
    pub fn layers(mut self, layers: usize) -> Self {
        self.layers = layers.max(1);
        self
    }

    /// Each layer runs backward as well, with weights of its own; the result has a dim `directions`, forward first.
    pub fn bidirectional(mut self) -> Self {
        self.bidirectional = true;
        self
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The dims that a layer sums over: those of the input, or what the layer before it writes.
    fn inputs(&self, layer: usize) -> Vec<Dimension> {
        match layer {
            0 => vec![self.input],
            _ if self.bidirectional => vec![both_ways(), self.before()],
            _ => vec![self.before()],
        }
    }

    /// The state of the layer before, or of the position before: summed over, so that it is not the state's dim.
    fn before(&self) -> Dimension {
        self.state.renamed(&format!("_{}", self.state.name))
    }

    /// Layers and directions, in order.
    fn each(&self) -> impl Iterator<Item = (usize, bool)> + use<> {
        let directions = self.directions();
        (0..self.layers).flat_map(move |layer| (0..directions).map(move |d| (layer, d == 1)))
    }

    /// New variables `{name}/layer0/input`, `/recurrent`, `/input_bias` and `/recurrent_bias`, and so on;
    /// `/layer0_reverse/` for the other direction. They start as torch's: uniform between plus and minus the root of
    /// `1 / state`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> RecurrentWeights<'g> {
        let _layer = parameters.graph().for_layer("recurrent");
        let _caller = parameters.graph().for_caller();
        let _scope = parameters.scope(name);
        let cells = self.each().map(|(layer, reverse)| {
            let _scope = parameters.scope(&names::cell(layer, reverse));
            self.cell.weights(parameters, &self.inputs(layer), self.before(), self.state)
        });
        RecurrentWeights { cells: cells.collect() }
    }

    /// What the last layer writes at each position, and the last states, in the order of the weights.
    ///
    /// `x` has the dims `time` and `input`. States are those of `initial`, or zeros. Of an example with a length (i32,
    /// with the other dims of `x` or less) only that many positions count: what is written after them is 0, the state
    /// stays what it was, and the backward direction begins at the last of them (torch's packed sequences).
    #[track_caller]
    pub fn apply<'g>(
        &self,
        x: Tensor<'g>,
        weights: &RecurrentWeights<'g>,
        initial: Option<&[CellState<'g>]>,
        lengths: Option<Tensor<'g>>,
    ) -> (Tensor<'g>, Vec<CellState<'g>>) {
        let _layer = x.graph().for_layer("recurrent");
        let _caller = x.graph().for_caller();
        let examples = x.shape().without(&[self.time.name, self.input.name]);
        let fit = Fit::new().has("the input", x, self.time);
        let fit = self.fit(fit, x, weights, &examples, initial);
        let fit = match lengths {
            Some(lengths) => fit.integers("lengths", lengths).among("lengths", lengths, &examples),
            None => fit,
        };
        if let Some(poisoned) = fit.refused("recurrent", x) {
            return (poisoned, Vec::new());
        }
        let (mut read, mut last) = (x, Vec::new());
        for layer in 0..self.layers {
            // The loop's dim comes first: so what the gates are given, which is larger, need not be turned.
            let others = read.shape().without(&[self.time.name]);
            let dims: Vec<_> = std::iter::once(self.time).chain(others.iter()).collect();
            let turned = crate::transpose(read, dims);
            let mut run = |direction: usize| {
                let number = layer * self.directions() + direction;
                let begin = match initial {
                    Some(states) => states[number].clone(),
                    None => self.cell.begin(x, &examples, self.state),
                };
                let run = Run { lengths, reverse: direction == 1, begin };
                let given = self.cell.given(turned, &self.inputs(layer), &weights.cells[number]);
                let (written, state) = self.along(given, &weights.cells[number], run);
                last.push(state);
                written
            };
            let forward = run(0);
            let backward = self.bidirectional.then(|| run(1));
            read = self.joined(forward, backward, &examples);
            if layer + 1 < self.layers {
                read = crate::rename(read, self.state, self.before().name.as_str());
            }
        }
        (read, last)
    }

    /// One position: what the last layer writes, and the states after it. `x` lacks `time`. Not for layers that run
    /// backward.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Cell, CellState, Parameters, Recurrent};
    /// # let g = mesh_ops::graph();
    /// let (input, state) = (dim("input", 8), dim("state", 16));
    /// let gru = Recurrent::new(Cell::Gru, dim("time", 10), input, state);
    /// let weights = gru.weights(&Parameters::new(&g, F32), "gru");
    /// let (x, hidden) = (g.input("x", [input], F32), g.input("hidden", [state], F32));
    /// let (y, states) = gru.step(x, &weights, &[CellState { hidden, memory: None }]);
    /// assert_eq!((y.shape(), states.len()), (hidden.shape(), 1));
    /// ```
    #[track_caller]
    pub fn step<'g>(
        &self,
        x: Tensor<'g>,
        weights: &RecurrentWeights<'g>,
        states: &[CellState<'g>],
    ) -> (Tensor<'g>, Vec<CellState<'g>>) {
        let _layer = x.graph().for_layer("recurrent");
        let _caller = x.graph().for_caller();
        let examples = x.shape().without(&[self.input.name]);
        let fit = self.fit(Fit::new(), x, weights, &examples, Some(states)).and(x, || {
            self.bidirectional.then(|| "a layer that runs backward has no single steps".to_owned())
        });
        if let Some(poisoned) = fit.refused("recurrent", x) {
            return (poisoned, Vec::new());
        }
        let (mut read, mut last) = (x, Vec::new());
        for (layer, (cell, state)) in weights.cells.iter().zip(states).enumerate() {
            if layer > 0 {
                read = crate::rename(read, self.state, self.before().name.as_str());
            }
            let given = self.cell.given(read, &self.inputs(layer), cell);
            let next = self.cell.next(&self.at(), given, cell, state);
            read = next.hidden;
            last.push(next);
        }
        (read, last)
    }

    fn at(&self) -> At {
        At { state: self.state, before: self.before() }
    }

    /// What is demanded of all but `time`.
    fn fit<'g>(
        &self,
        fit: Fit,
        x: Tensor<'g>,
        weights: &RecurrentWeights<'g>,
        examples: &Shape,
        initial: Option<&[CellState<'g>]>,
    ) -> Fit {
        let count = self.layers * self.directions();
        let fit = fit.floats("the input", x).has("the input", x, self.input).and(x, || {
            let names = [self.state.name, self.before().name, both_ways().name, cell::GATES.into()];
            let stray = x.shape().iter().find(|dim| names.contains(&dim.name));
            stray.map(|dim| format!("the input {x:?} must not have the layer's dim {dim}"))
        });
        let cells = weights.cells.len();
        let fit =
            fit.and(x, || (cells != count).then(|| format!("{cells} cells instead of {count}")));
        let fit = weights.cells.iter().zip(self.each()).fold(fit, |fit, (cell, (layer, _))| {
            self.cell.fit(fit, x, cell, &self.inputs(layer), &self.at())
        });
        let Some(states) = initial else { return fit };
        let given = states.len();
        let fit =
            fit.and(x, || (given != count).then(|| format!("{given} states instead of {count}")));
        states
            .iter()
            .fold(fit, |fit, state| self.cell.fit_state(fit, x, state, examples, self.state))
    }

    /// The cell along `time`.
    #[track_caller]
    fn along<'g>(
        &self,
        given: Tensor<'g>,
        weights: &CellWeights<'g>,
        run: Run<'g>,
    ) -> (Tensor<'g>, CellState<'g>) {
        let turned = |x| if run.reverse { crate::reverse(x, self.time) } else { x };
        let positions = crate::range(given.graph(), self.time, DType::I32);
        let mut sliced = vec![turned(given)];
        sliced.extend(run.lengths.map(|_| turned(positions)));
        let (last, written) = given.graph().scan_lists(
            self.time,
            &run.begin.tensors(),
            &sliced,
            |carried, sliced| {
                let before = self.cell.state(carried);
                let next = self.cell.next(&self.at(), sliced[0], weights, &before);
                let (next, written) = match run.lengths {
                    None => (next.tensors(), next.hidden),
                    Some(lengths) => {
                        let counts = less(sliced[1], lengths);
                        let kept = next.tensors().into_iter().zip(carried);
                        let kept = kept.map(|(next, before)| select(counts, next, *before));
                        (kept.collect(), select(counts, next.hidden, 0.0))
                    }
                };
                (next, vec![written])
            },
        );
        (turned(written[0]), self.cell.state(&last))
    }

    /// What the directions write, in the order of dims of the examples, `time`, `directions`, state.
    #[track_caller]
    fn joined<'g>(
        &self,
        forward: Tensor<'g>,
        backward: Option<Tensor<'g>>,
        examples: &Shape,
    ) -> Tensor<'g> {
        let all = match backward {
            Some(backward) => crate::stack(forward, &[backward], both_ways().name),
            None => forward,
        };
        let directions = backward.map(|_| both_ways());
        let dims = examples.iter().chain([self.time]).chain(directions).chain([self.state]);
        crate::transpose(all, dims.collect::<Vec<_>>())
    }
}

/// The dim of what runs forward and what runs backward.
fn both_ways() -> Dimension {
    mesh_core::names::dim("directions", 2)
}

/// One run of a cell along all positions.
struct Run<'g> {
    lengths: Option<Tensor<'g>>,
    reverse: bool,
    begin: CellState<'g>,
}
