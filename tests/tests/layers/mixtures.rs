//! Mixtures of experts against a loop over tokens.

use crate::fed::{Fed, near};
use mesh_ops::layers::moe::{Gating, MixtureOfExperts, MixtureWeights, Router, split_into_groups};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use ndarray::ArrayD;

const GROUPS: usize = 4;
const TOKENS: usize = 6;
const MODEL: usize = 3;
const HIDDEN: usize = 2;
const EXPERTS: usize = 4;

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("a:2", "batch:a"),
    ("a:4", "experts:a"),
    ("a:4", "batch:a;experts:a"),
    ("a:2;b:2", "batch:a;experts:a;hidden:b"),
    ("a:2;b:2", "batch:a+b;experts:a+b"),
    ("a:2;b:2", "batch:a;experts:b"),
    ("a:2", "length:a"),
    ("a:3", "model:a"),
];

struct Given {
    x: ArrayD<f64>,
    router: ArrayD<f64>,
    wi: ArrayD<f64>,
    wo: ArrayD<f64>,
    counted: Vec<f64>,
}

impl Given {
    /// Exponentials of logits.
    fn weights(&self, g: usize, s: usize) -> Vec<f64> {
        let logit = |e: usize| (0..MODEL).map(|m| self.x[[g, s, m]] * self.router[[m, e]]).sum();
        (0..EXPERTS).map(|e| f64::exp(logit(e))).collect()
    }

    /// Equation 5 of ST-MoE, over the tokens that count.
    fn z_loss(&self) -> f64 {
        let tokens = (0..GROUPS * TOKENS).filter(|i| self.counted[*i] > 0.0);
        let square =
            |i: usize| self.weights(i / TOKENS, i % TOKENS).iter().sum::<f64>().ln().powi(2);
        let squares: Vec<f64> = tokens.map(square).collect();
        squares.iter().sum::<f64>() / squares.len() as f64
    }

    fn gates(&self, g: usize, s: usize) -> Vec<f64> {
        let weights = self.weights(g, s);
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect()
    }

    /// The result of an expert for a token.
    fn expert(&self, e: usize, g: usize, s: usize) -> Vec<f64> {
        let hidden = |h: usize| {
            (0..MODEL).map(|m| self.x[[g, s, m]] * self.wi[[e, m, h]]).sum::<f64>().max(0.0)
        };
        let hidden: Vec<f64> = (0..HIDDEN).map(hidden).collect();
        (0..MODEL).map(|m| (0..HIDDEN).map(|h| hidden[h] * self.wo[[e, h, m]]).sum()).collect()
    }

    /// Computes token by token the choices, the places in experts' capacity and the results; also
    /// returns the balance loss, and how many tokens did not fit.
    fn mixture(&self, gating: Gating, capacity: usize) -> (ArrayD<f64>, f64, usize) {
        let mut y = ArrayD::zeros(vec![GROUPS, TOKENS, MODEL]);
        let (mut balance, mut lost) = (0.0, 0);
        for g in 0..GROUPS {
            let (mut density, mut proxy) = ([0.0; EXPERTS], [0.0; EXPERTS]);
            let mut taken = [0; EXPERTS];
            let mut second = Vec::new();
            for s in (0..TOKENS).filter(|s| self.counted[g * TOKENS + s] > 0.0) {
                let gates = self.gates(g, s);
                let mut order: Vec<usize> = (0..EXPERTS).collect();
                order.sort_by(|&a, &b| gates[b].total_cmp(&gates[a]));
                let (first, next) = (order[0], order[1]);
                density[first] += 1.0 / TOKENS as f64;
                (0..EXPERTS).for_each(|e| proxy[e] += gates[e] / TOKENS as f64);
                let total = gates[first] + gates[next] + 1e-9;
                let gate = match gating {
                    Gating::Switch => gates[first],
                    Gating::TopTwo { threshold } => {
                        if gates[next] / total > threshold {
                            second.push((s, next, gates[next] / total));
                        }
                        gates[first] / total
                    }
                };
                lost += self.send(&mut y, &mut taken, capacity, (g, s, first, gate));
            }
            for (s, e, gate) in second {
                lost += self.send(&mut y, &mut taken, capacity, (g, s, e, gate));
            }
            let products = density.iter().zip(&proxy).map(|(d, p)| d * p);
            balance += products.sum::<f64>() * EXPERTS as f64 / GROUPS as f64;
        }
        (y, balance, lost)
    }

    fn send(
        &self,
        y: &mut ArrayD<f64>,
        taken: &mut [usize; EXPERTS],
        capacity: usize,
        (g, s, e, gate): (usize, usize, usize, f64),
    ) -> usize {
        if taken[e] == capacity {
            return 1;
        }
        taken[e] += 1;
        for (m, value) in self.expert(e, g, s).into_iter().enumerate() {
            y[[g, s, m]] += gate * value;
        }
        0
    }
}

fn compare(gating: Gating, capacity: usize, padding: bool) -> usize {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "mixture");
    let (x, of_x) = fed.normal("x", "batch:4;length:6;model:3");
    let (router, of_router) = fed.normal("router", "model:3;experts_whole:4");
    let (wi, of_wi) = fed.normal("wi", "experts:4;model:3;hidden:2");
    let (wo, of_wo) = fed.normal("wo", "experts:4;hidden:2;model:3");
    let weight = |i: usize| if padding && i % 3 == 1 { 0.0 } else { 1.0 };
    let counted: Vec<f32> = (0..GROUPS * TOKENS).map(weight).collect();
    let weights = fed.given("counted", "batch:4;length:6", &counted);
    let given = Given {
        x: of_x.mapv(f64::from),
        router: of_router.mapv(f64::from),
        wi: of_wi.mapv(f64::from),
        wo: of_wo.mapv(f64::from),
        counted: match padding {
            true => counted.into_iter().map(f64::from).collect(),
            false => vec![1.0; GROUPS * TOKENS],
        },
    };
    let (model, hidden, experts) =
        (dim("model", MODEL), dim("hidden", HIDDEN), dim("experts", EXPERTS));
    let mut mixture = MixtureOfExperts::new(model, hidden, experts, gating);
    mixture.router.capacity_factor = 0.0;
    mixture.router.min_capacity = capacity;
    let dense = |kernel| DenseWeights { kernel, bias: None };
    let feed_forward = FeedForwardWeights { inputs: vec![dense(wi)], output: dense(wo) };
    let tokens = [dim("batch", GROUPS), dim("length", TOKENS)];
    let mixed = MixtureWeights { router, feed_forward };
    let counted = padding.then_some(weights);
    let (y, losses) = mixture.apply(x, &tokens, &mixed, counted);
    let (want, want_balance, lost) = given.mixture(gating, capacity);
    near(&fed.value(y, LAYOUTS), &want, 1e-5, "mixture");
    for (loss, want) in [(losses.balance, want_balance), (losses.z, given.z_loss())] {
        let loss = fed.value(loss, LAYOUTS).sum();
        assert!((loss - want).abs() < 1e-5, "{loss} {want}");
    }
    lost
}

#[test]
fn switch_equals_a_loop_over_tokens() {
    assert_eq!(compare(Gating::Switch, TOKENS, false), 0, "everything fits");
    assert!(compare(Gating::Switch, 1, false) > 0, "some tokens are dropped");
    assert!(compare(Gating::Switch, 1, true) > 0);
}

#[test]
fn top_two_equals_a_loop_over_tokens() {
    assert_eq!(compare(Gating::TopTwo { threshold: 0.0 }, TOKENS, false), 0);
    assert!(compare(Gating::TopTwo { threshold: 0.0 }, 2, false) > 0);
    assert!(compare(Gating::TopTwo { threshold: 0.25 }, 2, true) > 0);
}

#[test]
fn groups_are_cut_as_in_mesh_tensorflow() {
    let table = [
        ((1024, 1024, 1), Some((1, 1024))),
        ((4096, 1024, 8), Some((8, 512))),
        ((1000, 128, 4), Some((8, 125))),
        ((96, 100, 3), Some((3, 32))),
        ((100, 30, 1), Some((4, 25))),
        ((10, 4, 4), None),
    ];
    for ((tokens, most, multiple), expected) in table {
        assert_eq!(split_into_groups(tokens, most, multiple), expected);
    }
}

#[test]
fn capacity_is_that_of_mesh_tensorflow() {
    let mixture = |factor| Router {
        capacity_factor: factor,
        ..Router::new(dim("m", 4), dim("e", 8), Gating::Switch)
    };
    assert_eq!(mixture(1.25).capacity(1024), 160);
    assert_eq!(mixture(2.0).capacity(1024), 256);
    assert_eq!(mixture(1.25).capacity(10), 4, "no fewer than 4");
    assert_eq!(mixture(100.0).capacity(64), 64, "no more than there are tokens");
}

#[test]
fn groups_may_be_other_than_the_batch() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "groups");
    let (x, _) = fed.normal("x", "batch:4;length:6;model:3");
    let (model, experts) = (dim("model", MODEL), dim("experts", EXPERTS));
    let tokens = [dim("batch", GROUPS), dim("length", TOKENS)];
    let mut mixture = MixtureOfExperts::new(model, dim("hidden", 2), experts, Gating::Switch);
    mixture.router.min_capacity = 12;
    let weights = mixture.weights(&Parameters::like(x), "moe");
    let mut results = Vec::new();
    for groups in [None, Some(2), Some(8)] {
        mixture.router.groups = groups;
        let (y, _) = mixture.apply(x, &tokens, &weights, None);
        results.push(fed.value(y, &[("", ""), ("a:2", "batch:a;experts:a")]));
    }
    near(&results[1], &results[0], 1e-6, "all fit, so groups do not matter");
    near(&results[2], &results[0], 1e-6, "all fit, so groups do not matter");
    mixture.router.groups = Some(5);
    mixture.apply(x, &tokens, &weights, None);
    mixture.apply(x, &tokens[..1], &weights, None);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("24 tokens do not fall into 5 equal groups"), "{report}");
    assert!(report.contains("should have the dims [batch:4, model:3]"), "{report}");
}

/// The gate of one of two experts is `sigmoid(noise * 1)`, and the expert itself is given 1.
#[test]
fn jitter_is_of_what_the_router_sees() {
    const JITTER: f64 = 0.25;
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "jitter");
    let (batch, length, model) = (dim("batch", 4), dim("length", 256), dim("model", 1));
    let x = fed.given("x", "batch:4;length:256;model:1", &[1.0; 1024]);
    let router = fed.given("router", "model:1;experts_whole:2", &[0.0, 1.0]);
    let one = fed.given("one", "experts:2;model:1;hidden:1", &[1.0; 2]);
    let dense = |kernel| DenseWeights { kernel, bias: None };
    let back = one.transpose([dim("experts", 2), dim("hidden", 1), model]);
    let feed_forward = FeedForwardWeights { inputs: vec![dense(one)], output: dense(back) };
    let weights = MixtureWeights { router, feed_forward };
    let experts = dim("experts", 2);
    let mut mixture = MixtureOfExperts::new(model, dim("hidden", 1), experts, Gating::Switch);
    mixture.router.min_capacity = 256;
    let layouts = [("", ""), ("a:4", "batch:a"), ("a:2", "experts:a")];
    let noise = |mixture: &MixtureOfExperts| {
        let (y, _) = mixture.apply(x, &[batch, length], &weights, None);
        fed.value(y, &layouts).mapv(|gate| (gate / (1.0 - gate)).ln())
    };
    assert!(noise(&mixture).iter().all(|x| (x - 1.0).abs() < 1e-5), "no jitter");
    mixture.router.jitter = JITTER;
    let noise = noise(&mixture);
    assert!(noise.iter().all(|x| (x - 1.0).abs() < JITTER + 1e-5));
    // Of 1,024 uniform numbers: four standard errors.
    assert!((noise.mean().unwrap() - 1.0).abs() < 4.0 * JITTER / 3f64.sqrt() / 32.0);
    assert!((noise.std(0.0) / (JITTER / 3f64.sqrt()) - 1.0).abs() < 0.1);
}
