//! Recurrent layers under the legal layouts, against their formulas, number by number.

use crate::conform;
use crate::meanings::sigmoid;
use mesh_core::graph::TensorType;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Case, Dense, Fill};

const AXIS: &[&str] = &["m:2"];

/// Two examples, three positions, two numbers each, states of two numbers.
const X: &str = "b:2;time:3;input:2";

fn layer(cell: Cell) -> Recurrent {
    Recurrent::new(cell, dim("time", 3), dim("input", 2), dim("state", 2))
}

/// Inputs for the weights of each cell: with biases.
fn with_weights(mut case: Case, gates: usize, inputs: &[&str]) -> Case {
    for (i, input) in inputs.iter().enumerate() {
        case = case
            .normal(&format!("w{i}"), &format!("gates:{gates};state:2;{input}"), F32)
            .normal(&format!("u{i}"), &format!("gates:{gates};state:2;_state:2"), F32)
            .normal(&format!("b{i}"), &format!("gates:{gates};state:2"), F32)
            .normal(&format!("c{i}"), &format!("gates:{gates};state:2"), F32);
    }
    case
}

fn weights<'g>(x: &[Tensor<'g>]) -> RecurrentWeights<'g> {
    let cell = |w: &[Tensor<'g>]| CellWeights {
        input: w[0],
        recurrent: w[1],
        input_bias: Some(w[2]),
        recurrent_bias: Some(w[3]),
    };
    RecurrentWeights { cells: x.chunks(4).map(cell).collect() }
}

/// A cell, its weights, and the number of its gates.
struct Naive<'a> {
    gates: usize,
    weights: &'a [&'a Dense],
}

impl Naive<'_> {
    /// The state `[hidden, memory]` after an input of numbers by place.
    fn next(&self, input: &[(At, f64)], [h, c]: &[[f64; 2]; 2]) -> [[f64; 2]; 2] {
        let [w, u, b, d] = [0, 1, 2, 3].map(|i| self.weights[i]);
        let gate = |k: usize, s: usize| {
            let at = At::default().with("gates", k).with("state", s);
            let with = |place: &At| {
                let at = at.with("input", place.along("input"));
                at.with("directions", place.along("directions"))
                    .with("_state", place.along("_state"))
            };
            let given: f64 = input.iter().map(|(place, x)| w.at(&with(place)) * x).sum();
            let kept: f64 = (0..2).map(|i| u.at(&at.with("_state", i)) * h[i]).sum();
            (given + b.at(&at), kept + d.at(&at))
        };
        let sum = |k, s| {
            let (given, kept) = gate(k, s);
            given + kept
        };
        let memory = |s: usize| match self.gates {
            4 => sigmoid(sum(1, s)) * c[s] + sigmoid(sum(0, s)) * sum(2, s).tanh(),
            _ => 0.0,
        };
        let hidden = |s: usize| match self.gates {
            4 => sigmoid(sum(3, s)) * memory(s).tanh(),
            3 => {
                let (given, kept) = gate(2, s);
                let new = (given + sigmoid(sum(0, s)) * kept).tanh();
                let update = sigmoid(sum(1, s));
                (1.0 - update) * new + update * h[s]
            }
            _ => sum(0, s).tanh(),
        };
        [[0, 1].map(hidden), [0, 1].map(memory)]
    }

    /// What it writes at each of the first `length` positions, given what it reads there.
    fn along(
        &self,
        read: &dyn Fn(usize) -> Vec<(At, f64)>,
        length: usize,
        reverse: bool,
    ) -> Vec<[f64; 2]> {
        let mut state = [[0.0; 2]; 2];
        let mut written = vec![[0.0; 2]; 3];
        for step in 0..length {
            let time = if reverse { length - 1 - step } else { step };
            state = self.next(&read(time), &state);
            written[time] = state[0];
        }
        written
    }
}

/// The numbers of an example's position.
fn numbers(x: &Dense, at: &At, time: usize) -> Vec<(At, f64)> {
    let place = |i| At::default().with("input", i);
    (0..2).map(|i| (place(i), x.at(&at.with("time", time).with("input", i)))).collect()
}

/// One layer, with a length for each example behind the weights perhaps.
fn one_layer(gates: usize) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    move |x, ty| {
        Dense::each(ty, |at| {
            let length = x.get(5).map_or(3, |lengths| lengths.at(at) as usize);
            let cell = Naive { gates, weights: &x[1..5] };
            let written = cell.along(&|time| numbers(x[0], at, time), length, false);
            written[at.along("time")][at.along("state")]
        })
    }
}

#[test]
fn recurrent_layers() {
    let lengths = || Fill::Values(vec![2.0, 3.0]);
    let tanh = Cell::Plain(Activation::Tanh);
    let case = |name: &str, cell: Cell, gates: usize| {
        let case = Case::new(name, move |_, x| {
            Recurrent::apply(&layer(cell), x[0], &weights(&x[1..5]), None, x.get(5).copied()).0
        });
        with_weights(case.computes(one_layer(gates)).normal("x", X, F32), gates, &["input:2"])
            .meshes(AXIS)
    };
    conform(
        "recurrent_layers",
        vec![
            case("plain", tanh, 1).meshes(&["m:2", "m:2;n:2"]),
            case("gru", Cell::Gru, 3),
            case("lstm, lengths", Cell::Lstm, 4).input("lengths", "b:2", I32, lengths()),
            // Two plain layers both ways: the backward direction of an example begins at its end.
            with_weights(
                Case::new("two layers both ways, lengths", move |_, x| {
                    let layer = layer(tanh).layers(2).bidirectional();
                    let (all, lengths) = (weights(&x[2..]), Some(x[1]));
                    Recurrent::apply(&layer, x[0], &all, None, lengths).0
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| {
                        let length = x[1].at(at) as usize;
                        let cell = |i: usize| Naive { gates: 1, weights: &x[2 + 4 * i..6 + 4 * i] };
                        let read = |time: usize| numbers(x[0], at, time);
                        let first = [0, 1].map(|i| cell(i).along(&read, length, i == 1));
                        let between = |time: usize| {
                            let both = [(0, 0), (0, 1), (1, 0), (1, 1)];
                            let place =
                                |(d, s)| At::default().with("directions", d).with("_state", s);
                            both.map(|(d, s)| (place((d, s)), first[d][time][s])).to_vec()
                        };
                        let d = at.along("directions");
                        let second = cell(2 + d).along(&between, length, d == 1);
                        second[at.along("time")][at.along("state")]
                    })
                })
                .normal("x", X, F32)
                .input("lengths", "b:2", I32, lengths()),
                1,
                &["input:2", "input:2", "directions:2;_state:2", "directions:2;_state:2"],
            )
            .meshes(AXIS),
        ],
    );
}
