//! Prodigy: Mishchenko & Defazio 2023 (arXiv 2306.06101), algorithm 4, as `optax.contrib.prodigy`; t counts
//! the updates from 1, sums go over the elements of all variables.
//!
//! ```text
//! l_t = d lr sqrt(1 - b2^t) / (1 - b1^t)                   (without the fraction: no bias correction)
//! m <- b1 m + (1 - b1) d g       v <- b2 v + (1 - b2) (d g)²
//! s <- b3 s + d l_t g / d0       r <- b3 r + d l_t / d0 sum of g (w0 - w)
//! d' = max(d, c r / sum of |s|)
//! w <- w - l_t (m / (sqrt(v) + d' eps) + wd w)
//! ```
//!
//! d estimates how far the solution is from where training began, w0, so that the rate is 1 or a schedule
//! that begins with 1. It is one number for all variables of a call, kept by the first.

use crate::clip::{Pair, full_precision};
use crate::options::{ABOVE_0, About, BELOW_1, FROM_0, Listed, Setting, TO_1, check, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::add_n;
use mesh_ops::elementwise::{abs, cast, equal, maximum, pow, select, sqrt, square};
use mesh_ops::reduce::sum;

const FIRST: &str = "prodigy_m";
const SECOND: &str = "prodigy_v";
const SUM: &str = "prodigy_s";
const START: &str = "prodigy_start";
const DISTANCE: &str = "prodigy_d";
const NUMERATOR: &str = "prodigy_r";
const COUNT: &str = "prodigy_t";

/// Adam with an estimate of the rate.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Prodigy, schedule};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let prodigy = Prodigy::new(schedule::cosine_decay(1.0, 10_000, 0.0));
/// g.function("train", [input], [loss], prodigy.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prodigy {
    /// What the estimate is multiplied by: 1, or a schedule that begins with 1.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// The decay of the sums that the estimate is made of; the root of `beta2` if none.
    pub beta3: Option<Schedule>,
    /// A small number that is added, times the estimate, to the root of the second moment.
    pub epsilon: Schedule,
    /// The first estimate.
    pub d0: f64,
    /// What later estimates are multiplied by.
    pub growth: Schedule,
    /// The fraction of a weight that a step subtracts from it, per unit of rate.
    pub weight_decay: Schedule,
    /// Whether rates that grow during a warm-up are kept out of the sum by which the estimate is divided.
    pub safeguard_warmup: bool,
}

impl Prodigy {
    /// The defaults of the authors and of optax: betas 0.9 and 0.999, epsilon 1e-8, d0 1e-6, growth 1, no
    /// decay of weights. (The authors' program corrects bias only if asked to; optax and this always.)
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            beta3: None,
            epsilon: 1e-8.into(),
            d0: 1e-6,
            growth: 1.0.into(),
            weight_decay: 0.0.into(),
            safeguard_warmup: false,
        }
    }

    /// Of what the sums were, the part that is kept.
    fn kept<'g>(&self, sums: Tensor<'g>) -> Tensor<'g> {
        match &self.beta3 {
            Some(beta3) => sums * beta3,
            None => sums * sqrt(self.beta2.at(sums.graph(), sums.dtype())),
        }
    }

    /// The numbers that all variables share, of the slots of one of them.
    #[track_caller]
    fn shared<'g>(&self, keeper: Variable<'g>) -> Shared<'g> {
        let graph = keeper.graph();
        let number = |name, start| {
            keeper.slot(name, Shape::scalar(), DType::F64, Initializer::Constant(start))
        };
        let t = keeper.slot(COUNT, Shape::scalar(), DType::I32, Initializer::ZEROS);
        let (d, r) = (number(DISTANCE, self.d0), number(NUMERATOR, 0.0));
        let updates = cast(t.stored() + 1.0, DType::F64);
        let left = |beta: &Schedule| 1.0 - pow(beta.at(graph, DType::F64), updates);
        let corrected = sqrt(left(&self.beta2)) / left(&self.beta1);
        let rate = d.stored() * self.learning_rate.at(graph, DType::F64) * corrected;
        Shared { t, d, r, rate }
    }

    /// What one variable adds to the estimate, and its new moments.
    #[track_caller]
    fn moments<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>, all: &Shared<'g>) -> Own<'g> {
        let (dtype, d) = (grad.dtype(), all.d.stored());
        let slot = |name| variable.slot(name, variable.shape(), dtype, Initializer::ZEROS);
        let [first, second, sums, start] = [FIRST, SECOND, SUM, START].map(slot);
        let scaled = grad * cast(d, dtype);
        let m = self.beta1.mixed(first.stored(), scaled);
        let v = self.beta2.mixed(second.stored(), square(scaled));
        let of_sum = if self.safeguard_warmup { d } else { all.rate };
        let s = self.kept(sums.stored()) + scaled * cast(of_sum / self.d0, dtype);
        let weights = cast(variable.value_for_update(), dtype);
        let w0 = select(equal(all.t.stored(), 0.0), weights, start.stored());
        let total = |x: Tensor<'g>| cast(sum(x, x.shape()), DType::F64);
        Own {
            variable,
            m,
            v,
            weights,
            towards: total(grad * (w0 - weights)),
            size: total(abs(s)),
            updates: [first.assign(m), second.assign(v), sums.assign(s), start.assign(w0)],
        }
    }

    /// The update of one variable with the new estimate.
    #[track_caller]
    fn step<'g>(&self, own: &Own<'g>, estimate: Tensor<'g>, rate: Tensor<'g>) -> Update<'g> {
        let dtype = own.m.dtype();
        let root = sqrt(own.v) + cast(estimate * &self.epsilon, dtype);
        // Without gradients so far and without an epsilon, there is no step.
        let step = own.m / select(equal(root, 0.0), 1.0, root) + own.weights * &self.weight_decay;
        own.variable.assign_sub(cast(step * cast(rate, dtype), own.variable.dtype()))
    }
}

/// What all variables of a call share.
struct Shared<'g> {
    t: Variable<'g>,
    /// The estimate of the distance.
    d: Variable<'g>,
    /// The numerator of the next estimate.
    r: Variable<'g>,
    /// `l_t`.
    rate: Tensor<'g>,
}

/// What a variable has of its own.
struct Own<'g> {
    variable: Variable<'g>,
    m: Tensor<'g>,
    v: Tensor<'g>,
    weights: Tensor<'g>,
    /// The sum of g (w0 - w).
    towards: Tensor<'g>,
    /// The sum of |s|.
    size: Tensor<'g>,
    updates: [Update<'g>; 4],
}

impl Optimizer for Prodigy {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.apply_grads(&[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, SUM, START, DISTANCE, NUMERATOR, COUNT]
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let grads = present(&full_precision(grads));
        let Some((_, keeper)) = grads.first() else { return Vec::new() };
        let graph = keeper.graph();
        if !check(self, graph) {
            return Vec::new();
        }
        graph.on_behalf("prodigy", || {
            let all = self.shared(*keeper);
            let own: Vec<_> = grads.iter().map(|&(grad, v)| self.moments(grad, v, &all)).collect();
            let total = |part: fn(&Own<'g>) -> Tensor<'g>| {
                let parts: Vec<_> = own.iter().map(part).collect();
                add_n(parts[0], &parts[1..])
            };
            let d = all.d.stored();
            let towards = total(|own| own.towards) * (d / self.d0) * all.rate;
            let r = self.kept(all.r.stored()) + towards;
            let size = total(|own| own.size);
            let found = r * &self.growth / select(equal(size, 0.0), 1.0, size);
            let estimate = maximum(d, select(equal(size, 0.0), d, found));
            let mut updates: Vec<_> =
                own.iter().map(|own| self.step(own, estimate, all.rate)).collect();
            updates.extend(own.iter().flat_map(|own| own.updates));
            let one = graph.scalar(1.0, DType::I32);
            updates.extend([all.d.assign(estimate), all.r.assign(r), all.t.assign_add(one)]);
            updates
        })
    }
}

/// The variables that have a gradient; a warning names each that has none.
#[track_caller]
fn present<'g>(grads: &[Pair<'g>]) -> Vec<(Tensor<'g>, Variable<'g>)> {
    let mut found = Vec::new();
    for &(grad, variable) in grads {
        match grad {
            Some(grad) => found.push((grad, variable)),
            None => {
                let message = "no gradient reaches this variable; it is not updated";
                variable.graph().warn(&variable.name(), message);
            }
        }
    }
    found
}

impl Listed for Prodigy {
    const ABOUT: About = About {
        name: "prodigy",
        rate: 1.0,
        formula: "s <- b3 s + d l g / d0        r <- b3 r + d l / d0 sum g (w0 - w)        d <- max(d, r / sum |s|)\n\
                  w <- w - l (m / (sqrt(v) + d eps) + wd w), l = d lr sqrt(1 - b2^t) / (1 - b1^t), Adam's m and v of d g",
        paper: "Mishchenko & Defazio 2023, algorithm 4",
        peers: "optax: the same. PyTorch has none.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        Self { learning_rate, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "beta3": beta3 in TO_1,
            "epsilon": epsilon in FROM_0,
            "d0": d0 in ABOVE_0,
            "growth": growth in ABOVE_0,
            "weight_decay": weight_decay in FROM_0,
            "safeguard_warmup": safeguard_warmup,
        }
    }
}
