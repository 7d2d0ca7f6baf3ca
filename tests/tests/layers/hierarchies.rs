//! Mixtures of mixtures against loops over tokens and places.

use crate::fed::{Fed, near};
use mesh_ops::layers::moe::{Gating, HierarchicalMixture, HierarchicalWeights, MixtureWeights};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use ndarray::ArrayD;

const GROUPS: usize = 4;
const TOKENS: usize = 6;
const MODEL: usize = 3;
const HIDDEN: usize = 2;
const OUTER: usize = 4;
const INNER: usize = 2;

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("a:2", "batch:a"),
    ("a:2", "batch:a;outer:a"),
    ("a:2", "inner:a"),
    ("a:2;b:2", "batch:a+b;outer:b;batch_at_outer:a;inner:a"),
    ("a:2;b:2", "outer:a;hidden:b"),
    ("a:3", "model:a"),
];

/// A token sent to an expert.
struct Sent {
    token: usize,
    expert: usize,
    gate: f64,
    first: bool,
}

/// What is decided for the tokens of a group, given each one's logits and importance; adds to the
/// losses.
fn decide(
    logits: &[Vec<f64>],
    importance: &[f64],
    capacity: usize,
    losses: &mut Losses,
) -> Vec<Sent> {
    let experts = logits[0].len();
    let (mut density, mut proxy) = (vec![0.0; experts], vec![0.0; experts]);
    let (mut sent, mut taken, mut second) = (Vec::new(), vec![0; experts], Vec::new());
    for (token, (logits, &importance)) in logits.iter().zip(importance).enumerate() {
        if importance == 0.0 {
            continue;
        }
        let total: f64 = logits.iter().map(|x| x.exp()).sum();
        losses.squares += total.ln().powi(2);
        losses.tokens += 1;
        let gates: Vec<f64> = logits.iter().map(|x| x.exp() / total).collect();
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|&a, &b| gates[b].total_cmp(&gates[a]));
        let (best, next) = (order[0], order[1]);
        let both = gates[best] + gates[next] + 1e-9;
        if importance == 1.0 {
            density[best] += 1.0;
            (0..experts).for_each(|e| proxy[e] += gates[e]);
            second.push(Sent { token, expert: next, gate: gates[next] / both, first: false });
        }
        if taken[best] < capacity {
            taken[best] += 1;
            sent.push(Sent { token, expert: best, gate: gates[best] / both, first: true });
        }
    }
    for choice in second {
        if taken[choice.expert] < capacity {
            taken[choice.expert] += 1;
            sent.push(choice);
        }
    }
    let size = (logits.len() * logits.len()) as f64;
    let product: f64 = density.iter().zip(&proxy).map(|(a, b)| a * b / size).sum();
    losses.balance += product * experts as f64;
    losses.groups += 1;
    sent
}

/// Sums over groups and tokens.
#[derive(Default)]
struct Losses {
    balance: f64,
    groups: usize,
    squares: f64,
    tokens: usize,
}

impl Losses {
    fn means(&self) -> [f64; 2] {
        [self.balance / self.groups as f64, self.squares / self.tokens as f64]
    }
}

struct Given {
    x: ArrayD<f64>,
    outer: ArrayD<f64>,
    inner: ArrayD<f64>,
    wi: ArrayD<f64>,
    wo: ArrayD<f64>,
}

impl Given {
    fn inner_logits(&self, outer: usize, x: &[f64]) -> Vec<f64> {
        let logit = |e: usize| (0..MODEL).map(|m| x[m] * self.inner[[outer, m, e]]).sum();
        (0..INNER).map(logit).collect()
    }

    fn expert(&self, outer: usize, inner: usize, x: &[f64]) -> Vec<f64> {
        let into = |h: usize| (0..MODEL).map(|m| x[m] * self.wi[[outer, inner, m, h]]).sum::<f64>();
        let hidden: Vec<f64> = (0..HIDDEN).map(|h| into(h).max(0.0)).collect();
        let back = |m: usize| (0..HIDDEN).map(|h| hidden[h] * self.wo[[outer, inner, h, m]]).sum();
        (0..MODEL).map(back).collect()
    }

    /// The result, the balance loss and the z-loss of both levels.
    fn mixture(&self, [outer_capacity, inner_capacity]: [usize; 2]) -> (ArrayD<f64>, [f64; 2]) {
        let mut y = ArrayD::zeros(vec![GROUPS, TOKENS, MODEL]);
        let (mut above, mut below) = (Losses::default(), Losses::default());
        for g in 0..GROUPS {
            let token = |s: usize| (0..MODEL).map(|m| self.x[[g, s, m]]).collect::<Vec<f64>>();
            let tokens: Vec<_> = (0..TOKENS).map(token).collect();
            let logit =
                |x: &Vec<f64>, e: usize| (0..MODEL).map(|m| x[m] * self.outer[[m, e]]).sum();
            let logits = |x| (0..OUTER).map(|e| logit(x, e)).collect::<Vec<f64>>();
            let logits: Vec<_> = tokens.iter().map(logits).collect();
            let sent = decide(&logits, &[1.0; TOKENS], outer_capacity, &mut above);
            for outer in 0..OUTER {
                let here: Vec<_> = sent.iter().filter(|sent| sent.expert == outer).collect();
                let mut logits = vec![vec![0.0; INNER]; outer_capacity];
                let mut importance = vec![0.0; outer_capacity];
                for (place, sent) in here.iter().enumerate() {
                    logits[place] = self.inner_logits(outer, &tokens[sent.token]);
                    importance[place] = if sent.first { 1.0 } else { 0.5 };
                }
                for choice in decide(&logits, &importance, inner_capacity, &mut below) {
                    let sent = here[choice.token];
                    let found = self.expert(outer, choice.expert, &tokens[sent.token]);
                    for (m, value) in found.into_iter().enumerate() {
                        y[[g, sent.token, m]] += sent.gate * choice.gate * value;
                    }
                }
            }
        }
        let (above, below) = (above.means(), below.means());
        (y, [above[0] + below[0], above[1] + below[1]])
    }
}

#[test]
fn a_hierarchy_equals_loops_over_tokens_and_places() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "hierarchy");
    let (x, of_x) = fed.normal("x", "batch:4;length:6;model:3");
    let (outer, of_outer) = fed.normal("outer", "model:3;outer_whole:4");
    let (inner, of_inner) = fed.normal("inner", "outer:4;model:3;inner_whole:2");
    let (wi, of_wi) = fed.normal("wi", "outer:4;inner:2;model:3;hidden:2");
    let (wo, of_wo) = fed.normal("wo", "outer:4;inner:2;hidden:2;model:3");
    let wide = |x: ArrayD<f32>| x.mapv(f64::from);
    let [x_, outer_, inner_, wi_, wo_] = [of_x, of_outer, of_inner, of_wi, of_wo].map(wide);
    let given = Given { x: x_, outer: outer_, inner: inner_, wi: wi_, wo: wo_ };
    let dense = |kernel| DenseWeights { kernel, bias: None };
    let feed_forward = FeedForwardWeights { inputs: vec![dense(wi)], output: dense(wo) };
    let inner = MixtureWeights { router: inner, feed_forward };
    let weights = HierarchicalWeights { outer, inner };
    let tokens = [dim("batch", GROUPS), dim("length", TOKENS)];
    let experts = [dim("outer", OUTER), dim("inner", INNER)];
    let gating = Gating::TopTwo { threshold: 0.0 };
    let (model, hidden) = (dim("model", MODEL), dim("hidden", HIDDEN));
    // Everything fits; some tokens are dropped at each level.
    for capacities in [[TOKENS, TOKENS], [2, 2], [4, 1]] {
        let mut mixture = HierarchicalMixture::new(model, hidden, experts, gating);
        for (router, capacity) in
            [&mut mixture.outer, &mut mixture.inner.router].into_iter().zip(capacities)
        {
            (router.capacity_factor, router.min_capacity) = (0.0, capacity);
        }
        let (y, losses) = mixture.apply(x, &tokens, &weights, None);
        let (want, of_losses) = given.mixture(capacities);
        near(&fed.value(y, LAYOUTS), &want, 1e-5, "hierarchy");
        for (loss, want) in [losses.balance, losses.z].into_iter().zip(of_losses) {
            let loss = fed.value(loss, LAYOUTS).sum();
            assert!((loss - want).abs() < 1e-5, "{loss} {want}");
        }
    }
}

/// Tokens travel along one axis, then along the other, and back; with them goes how important they are.
#[test]
fn on_two_axes_tokens_travel_along_one_after_the_other() {
    let g = mesh_ops::graph();
    let (batch, length, model) = (dim("batch", 4), dim("length", 8), dim("model", 16));
    let x = g.input("x", [batch, length, model], F32);
    let experts = [dim("outer", 2), dim("inner", 2)];
    let mixture = HierarchicalMixture::new(model, dim("hidden", 32), experts, Gating::Switch);
    let weights = mixture.weights(&Parameters::like(x), "moe");
    let (y, _) = mixture.apply(x, &[batch, length], &weights, None);
    g.function("f", [x], [y], []);
    let layout = "batch:rows+cols;outer:cols;batch_at_outer:rows;inner:rows";
    let mesh: Mesh = "rows:2;cols:2".parse().unwrap();
    let module = g.lower(&mesh, &layout.parse().unwrap()).unwrap();
    let program = module.function("f").unwrap();
    let sent: Vec<_> = program
        .steps()
        .iter()
        .filter_map(|step| Some((step.form.name(), mesh.list(step.axes()?).to_string())))
        .collect();
    let all_to_all = |axis: &str| ("all_to_all", axis.to_owned());
    let [rows, cols] = ["rows", "cols"].map(all_to_all);
    assert_eq!(sent, [cols.clone(), cols.clone(), rows.clone(), rows, cols]);
}
