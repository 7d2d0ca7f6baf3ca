//! State-space layers under the legal layouts, against their formulas, number by number.

use crate::conform;
use crate::meanings::sigmoid;
use mesh_core::graph::TensorType;
use mesh_ops::AssociativeScan;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Case, Dense, Fill};

const AXIS: &[&str] = &["m:2"];
const TIME: usize = 4;

/// The state of each channel, carried from one position to the next.
fn scanned(x: &[&Dense], ty: &TensorType) -> Dense {
    Dense::each(ty, |at| {
        let state = |n: usize| {
            let (mut h, at) = (0.0, at.with("state", n));
            for time in 0..=at.along("time") {
                let [x, delta, a, b] = [0, 1, 2, 3].map(|i| x[i].at(&at.with("time", time)));
                h = (delta * a).exp() * h + delta * b * x;
            }
            h * x[4].at(&at)
        };
        state(0) + state(1)
    })
}

/// A block's input and weights, by position in the list of inputs.
struct Naive<'a, 'b>(&'b [&'a Dense]);

impl Naive<'_, '_> {
    /// Half `branch` of the first map.
    fn half(&self, at: &At, branch: usize) -> f64 {
        let term = |m: usize| {
            let at = at.with("model", m).with("branches", branch);
            self.0[0].at(&at) * self.0[1].at(&at)
        };
        term(0) + term(1)
    }

    /// What is scanned: the filter's second tap is at the position itself.
    fn seen(&self, at: &At) -> f64 {
        let tap = |k: usize| {
            let there = (at.along("time") + k).checked_sub(1);
            let seen = there.map_or(0.0, |time| self.half(&at.with("time", time), 0));
            seen * self.0[2].at(&at.with("taps", k))
        };
        let u = tap(0) + tap(1) + self.0[3].at(at);
        u * sigmoid(u)
    }

    /// The sum over channels of what is scanned times weight `i`.
    fn mapped(&self, at: &At, i: usize) -> f64 {
        let term = |inner| {
            let at = at.with("inner", inner);
            self.seen(&at) * self.0[i].at(&at)
        };
        term(0) + term(1)
    }

    fn delta(&self, at: &At) -> f64 {
        let up =
            self.mapped(&at.with("delta_rank", 0), 4) * self.0[7].at(&at.with("delta_rank", 0));
        (up + self.0[8].at(at)).exp().ln_1p()
    }

    fn state(&self, at: &At) -> f64 {
        let a = -self.0[9].at(at).exp();
        (0..=at.along("time")).fold(0.0, |h, time| {
            let at = at.with("time", time);
            let delta = self.delta(&at);
            (delta * a).exp() * h + delta * self.mapped(&at, 5) * self.seen(&at)
        })
    }

    fn channel(&self, at: &At) -> f64 {
        let state = |n| {
            let at = at.with("state", n);
            self.state(&at) * self.mapped(&at, 6)
        };
        let y = state(0) + state(1) + self.0[10].at(at) * self.seen(at);
        let gate = self.half(at, 1);
        y * gate * sigmoid(gate) * self.0[11].at(at)
    }
}

fn block() -> Mamba {
    let [time, model] = [dim("time", TIME), dim("model", 2)];
    Mamba::new(time, model, dim("inner", 2), dim("state", 2)).taps(2)
}

fn weights<'g>(x: &[Tensor<'g>]) -> MambaWeights<'g> {
    MambaWeights {
        input: x[1],
        filter: x[2],
        filter_bias: x[3],
        delta_down: x[4],
        b: x[5],
        c: x[6],
        delta_up: x[7],
        delta_bias: x[8],
        log_a: x[9],
        skip: x[10],
        output: x[11],
    }
}

fn of_block(
    name: &str,
    build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Tensor<'g> + 'static,
) -> Case {
    let shapes = [
        ("input", "branches:2;inner:2;model:2"),
        ("filter", "inner:2;taps:2"),
        ("filter_bias", "inner:2"),
        ("delta_down", "delta_rank:1;inner:2"),
        ("b", "state:2;inner:2"),
        ("c", "state:2;inner:2"),
        ("delta_up", "inner:2;delta_rank:1"),
        ("delta_bias", "inner:2"),
        ("log_a", "inner:2;state:2"),
        ("skip", "inner:2"),
        ("output", "model:2;inner:2"),
    ];
    let case = Case::new(name, build).computes(|x, ty| {
        Dense::each(ty, |at| {
            let channel = |inner| Naive(x).channel(&at.with("inner", inner));
            channel(0) + channel(1)
        })
    });
    let case = case.normal("x", &format!("b:2;time:{TIME};model:2"), F32);
    let case = shapes.into_iter().fold(case, |case, (name, shape)| case.normal(name, shape, F32));
    case.meshes(AXIS)
}

#[test]
fn state_space_layers() {
    let scan = |name: &str, blocks: usize| {
        let how = AssociativeScan { blocks: Some(blocks), ..AssociativeScan::default() };
        Case::new(name, move |_, x| {
            selective_scan(x[0], x[1], x[2], x[3], x[4], dim("time", TIME), how)
        })
        .computes(scanned)
        .normal("x", "b:2;time:4;inner:2", F32)
        .input("delta", "b:2;time:4;inner:2", F32, Fill::Between(0.0, 2.0))
        .normal("a", "inner:2;state:2", F32)
        .normal("b_of", "b:2;time:4;state:2", F32)
        .normal("c_of", "b:2;time:4;state:2", F32)
    };
    conform(
        "state_space_layers",
        vec![
            scan("selective_scan", 1).meshes(&["m:2", "m:2;n:2"]),
            scan("selective_scan, in blocks", 2).meshes(AXIS),
            of_block("mamba", |_, x| Mamba::apply(&block(), x[0], &weights(x))),
            // One position after another: the same.
            of_block("mamba, step by step", |_, x| {
                let (block, weights) = (block(), weights(x));
                let mut written = Vec::new();
                let mut state = None;
                for at in mesh_ops::unstack(x[0], dim("time", TIME)) {
                    let before = state.unwrap_or_else(|| block.begin(at));
                    let (y, after) = Mamba::step(&block, at, &weights, &before);
                    written.push(y);
                    state = Some(after);
                }
                written[0].stack(&written[1..], "time").transpose(x[0].shape())
            }),
        ],
    );
}
