//! The router: which tokens go to which experts, and how they travel.

use crate::Cumulative;
use crate::einsum::einsum;
use crate::elementwise::{cast, greater, greater_equal, mul, square};
use crate::layers::fit::Fit;
use crate::layers::{Parameters, logsumexp, softmax, weighted_mean};
use crate::random::multiplicative_jitter;
use crate::reduce::{mean, sum};
use crate::room::*;
use mesh_core::graph::{Fan, Initializer};

/// Where tokens go.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gating {
    /// To the expert with the greatest gate (Switch Transformer, arXiv 2101.03961); its result is
    /// multiplied by the gate.
    Switch,
    /// To the two experts with the greatest gates (GShard, arXiv 2006.16668), which are scaled to
    /// add up to 1. The second is left out unless its scaled gate is above the threshold; first
    /// choices of the group get their places before any second choice.
    TopTwo {
        /// 0: every token has a second choice.
        threshold: f64,
    },
}

/// Sends tokens to experts.
#[derive(Clone, Debug)]
pub struct Router {
    /// The dim of tokens' features.
    pub model: Dimension,
    /// The dim of experts.
    pub experts: Dimension,
    /// Where tokens go.
    pub gating: Gating,
    /// Places per expert and group, over the tokens of the group per expert. Mesh TensorFlow trains
    /// with 1.25, the default, and evaluates with 2.
    pub capacity_factor: f64,
    /// No fewer places than this; 4.
    pub min_capacity: usize,
    /// Number of groups; by default as many as the first of the tokens' dims is long, so that they
    /// can be split as that dim.
    pub groups: Option<usize>,
    /// The router's inputs are multiplied by random numbers in `[1 - jitter, 1 + jitter)`, those of
    /// experts are not (Switch Transformer, section 2.4). Switch Transformer trains with 0.01; 0, the
    /// default, for evaluation.
    pub jitter: f64,
    /// Dims of tokens for each index of which there is a router of its own; none.
    pub each: Vec<Dimension>,
}

/// What is to be added to the loss, by factors; scalars of f32.
#[derive(Clone, Copy, Debug)]
pub struct RouterLosses<'g> {
    /// 1 if all experts get equal shares, more if not. Mesh TensorFlow adds 0.01 of it.
    pub balance: Tensor<'g>,
    /// The mean over tokens of the squared logarithm of the sum of the exponentials of their logits,
    /// which keeps logits small (ST-MoE, Zoph et al. 2022, arXiv 2202.08906, equation 5). ST-MoE adds
    /// 0.001 of it.
    pub z: Tensor<'g>,
}

/// How tokens of one choice are sent and received.
struct Choice<'g> {
    /// What the result is multiplied by; dims groups, tokens.
    gate: Tensor<'g>,
    /// 1 at the token's expert and place there; dims groups, tokens, experts, places.
    placed: Tensor<'g>,
}

/// The dims of a mixture at work.
#[derive(Clone, Copy)]
struct Dims {
    groups: Dimension,
    tokens: Dimension,
    /// Experts where tokens are, and groups where experts are.
    experts: Dimension,
    sent: Dimension,
    places: Dimension,
}

/// Tokens with what has been decided of them.
pub(super) struct Routed<'g, 'r> {
    router: &'r Router,
    dims: Dims,
    /// The dims of tokens as they came.
    tokens: Vec<Dimension>,
    /// The tensor as it came.
    x: Tensor<'g>,
    grouped: Tensor<'g>,
    choices: Vec<Choice<'g>>,
    pub(super) losses: RouterLosses<'g>,
}

fn whole(dim: Dimension) -> Dimension {
    dim.renamed(&format!("{}_whole", dim.name))
}

impl<'g> RouterLosses<'g> {
    pub(super) fn poisoned(x: Tensor<'g>) -> Self {
        Self { balance: x.poisoned(), z: x.poisoned() }
    }
}

impl Router {
    /// Capacity factor 1.25, at least 4 places, no jitter.
    pub fn new(model: Dimension, experts: Dimension, gating: Gating) -> Self {
        Self {
            model,
            experts,
            gating,
            capacity_factor: 1.25,
            min_capacity: 4,
            groups: None,
            jitter: 0.0,
            each: Vec::new(),
        }
    }

    /// A new variable `router`, `[model, {experts}_whole]`.
    #[track_caller]
    pub(super) fn weights<'g>(&self, parameters: &Parameters<'g>) -> Tensor<'g> {
        let (model, experts) = (self.model, whole(self.experts));
        let initializer = Initializer::variance_scaling(1.0, Fan::In, &[model], &[experts]);
        parameters.variable("router", self.with_each([model, experts]), initializer)
    }

    /// Places of one expert for a group of so many tokens:
    /// `max(min_capacity, min(tokens, tokens * capacity_factor / experts))`, as in Mesh TensorFlow.
    pub fn capacity(&self, tokens: usize) -> usize {
        let share = tokens as f64 * self.capacity_factor / self.experts.size as f64;
        (share as usize).min(tokens).max(self.min_capacity).max(1)
    }

    fn with_each<const N: usize>(&self, dims: [Dimension; N]) -> Vec<Dimension> {
        self.each.iter().copied().chain(dims).collect()
    }

    fn of_tokens(&self, tokens: &[Dimension]) -> Vec<Dimension> {
        self.each.iter().chain(tokens).copied().collect()
    }

    /// Decides for every token of `x`. Nothing if something does not fit, which is recorded.
    #[track_caller]
    pub(super) fn route<'g>(
        &self,
        op: &str,
        x: Tensor<'g>,
        tokens: &[Dimension],
        weights: Tensor<'g>,
        importance: Option<Tensor<'g>>,
    ) -> Option<Routed<'g, '_>> {
        let (dims, mut problem) = match self.dims(x, tokens) {
            Ok(dims) => (Some(dims), None),
            Err(problem) => (None, Some(problem)),
        };
        let kernel = self.with_each([self.model, whole(self.experts)]);
        let kernel = Shape::new(kernel).unwrap_or_default();
        let mut fit = Fit::new().floats("the input", x).and(x, || problem.take());
        fit = fit.exactly("the router", weights, &kernel);
        let of_tokens = self.of_tokens(tokens);
        if let Some(importance) = importance {
            let legal = Shape::new(of_tokens.iter().copied()).unwrap_or_default();
            fit = fit.floats("importance", importance).exactly("importance", importance, &legal);
        }
        let (Some(dims), None) = (dims, fit.refused(op, x)) else { return None };
        let _caller = x.graph().for_caller();
        let grouped = |x: Tensor<'g>, model: Option<Dimension>| {
            let ordered = crate::transpose(x, of_tokens.iter().copied().chain(model));
            let groups = self.with_each([dims.groups, dims.tokens]);
            crate::reshape(ordered, groups.into_iter().chain(model))
        };
        let importance = importance.map(|importance| cast(grouped(importance, None), DType::F32));
        let grouped = grouped(x, Some(self.model));
        let (choices, losses) = self.choose(grouped, weights, dims, importance);
        Some(Routed { router: self, dims, tokens: tokens.to_vec(), x, grouped, choices, losses })
    }

    fn dims(&self, x: Tensor<'_>, tokens: &[Dimension]) -> Result<Dims, String> {
        let own = self.of_tokens(tokens).into_iter().chain([self.model]);
        let expected = Shape::new(own).map_err(|error| error.to_string())?;
        let Some(first) = tokens.first() else {
            return Err("tokens need a dim".to_owned());
        };
        if !expected.is_permutation_of(&x.shape()) {
            return Err(format!("{x:?} should have the dims {expected}: tokens and model"));
        }
        let count: usize = tokens.iter().map(|d| d.size).product();
        let groups = self.groups.unwrap_or(first.size);
        if groups == 0 || !count.is_multiple_of(groups) {
            return Err(format!("{count} tokens do not fall into {groups} equal groups"));
        }
        let size = count / groups;
        let groups = first.resized(groups);
        Ok(Dims {
            groups,
            tokens: Dimension::new("group_tokens", size),
            experts: whole(self.experts),
            sent: groups.renamed(&format!("{}_at_{}", first.name, self.experts.name)),
            places: Dimension::new("places", self.capacity(size)),
        })
    }

    /// The choices of every token, and the losses.
    #[track_caller]
    fn choose<'g>(
        &self,
        grouped: Tensor<'g>,
        weights: Tensor<'g>,
        dims: Dims,
        importance: Option<Tensor<'g>>,
    ) -> (Vec<Choice<'g>>, RouterLosses<'g>) {
        let _caller = grouped.graph().for_caller();
        let number = |x: f64| grouped.graph().scalar(x, DType::F32);
        let sent = importance.map(|x| cast(greater(x, number(0.0)), DType::F32));
        let counted = importance.map(|x| cast(greater_equal(x, number(1.0)), DType::F32));
        let only = |x: Tensor<'g>, those: Option<Tensor<'g>>| those.map_or(x, |those| x * those);

        let wide = multiplicative_jitter(cast(grouped, DType::F32), self.jitter);
        let all = self.with_each([dims.groups, dims.tokens, dims.experts]);
        let logits = einsum(wide, &[cast(weights, DType::F32)], all);
        let gates = softmax(logits, dims.experts);
        let (hot, gate) = chosen(gates, dims);
        let losses = RouterLosses {
            balance: self.balance([hot, gates].map(|x| only(x, counted)), dims),
            z: z_loss(logits, dims, sent),
        };
        let first = places(only(hot, sent), number(0.0), dims);
        let Gating::TopTwo { threshold } = self.gating else {
            return (vec![Choice { gate, placed: first }], losses);
        };
        let (next_hot, next) = chosen(gates * (1.0 - hot), dims);
        let total = gate + next + 1e-9;
        let wanted = cast(greater(next / total, number(threshold)), DType::F32);
        let taken = sum(first, [dims.tokens, dims.places]);
        let second = places(only(next_hot * wanted, counted), taken, dims);
        let gates = [(gate, first), (next, second)];
        (gates.map(|(gate, placed)| Choice { gate: gate / total, placed }).into(), losses)
    }

    /// `experts^2` times the mean of the product of each expert's share of first choices and its mean
    /// gate (GShard, algorithm 1).
    #[track_caller]
    fn balance<'g>(&self, [hot, gates]: [Tensor<'g>; 2], dims: Dims) -> Tensor<'g> {
        let product = mul(mean(hot, [dims.tokens]), mean(gates, [dims.tokens]));
        let scale = (dims.experts.size * dims.experts.size) as f64;
        mean(product, self.with_each([dims.groups, dims.experts])) * scale
    }
}

#[track_caller]
fn z_loss<'g>(logits: Tensor<'g>, dims: Dims, sent: Option<Tensor<'g>>) -> Tensor<'g> {
    let squares = square(logsumexp(logits, dims.experts));
    match sent {
        Some(sent) => weighted_mean(squares, sent),
        None => mean(squares, squares.shape()),
    }
}

/// 1 at each token's expert of the greatest gate, and that gate.
#[track_caller]
fn chosen<'g>(gates: Tensor<'g>, dims: Dims) -> (Tensor<'g>, Tensor<'g>) {
    let hot = crate::one_hot(crate::argmax(gates, dims.experts), dims.experts, DType::F32);
    (hot, sum(gates * hot, [dims.experts]))
}

/// Places of tokens: 1 at the number of earlier tokens of the group that want the same expert,
/// after those `taken`; nothing where that is beyond the places.
#[track_caller]
fn places<'g>(wanted: Tensor<'g>, taken: Tensor<'g>, dims: Dims) -> Tensor<'g> {
    let earlier = Cumulative { exclusive: true, ..Cumulative::default() };
    let before = crate::cumsum_with(wanted, dims.tokens, earlier);
    let place = sum((before + taken) * wanted, [dims.experts]);
    wanted * crate::one_hot(cast(place, DType::I32), dims.places, DType::F32)
}

impl<'g> Routed<'g, '_> {
    /// The dims of tokens where experts are.
    pub(super) fn places(&self) -> [Dimension; 2] {
        [self.dims.sent, self.dims.places]
    }

    /// The dims of what is sent, where tokens are and where experts are.
    fn ends<const N: usize>(&self, last: [Dimension; N]) -> [Vec<Dimension>; 2] {
        let Dims { experts, groups, sent, places, .. } = self.dims;
        let dims = |pair: [Dimension; 2]| {
            let all = self.router.with_each(pair).into_iter().chain([places]);
            all.chain(last).collect()
        };
        [dims([experts, groups]), dims([self.router.experts, sent])]
    }

    /// Tokens where their experts are: dims experts, [`places`](Self::places), model.
    #[track_caller]
    pub(super) fn dispatched(&self) -> Tensor<'g> {
        let _caller = self.x.graph().for_caller();
        let [here, there] = self.ends([self.router.model]);
        let placed = self.choices.iter().map(|choice| choice.placed).reduce(|a, b| a + b);
        let placed = placed.unwrap_or(self.grouped);
        crate::reshape(einsum(self.grouped, &[cast(placed, self.x.dtype())], here), there)
    }

    /// 1 at places of first choices, 1/2 at those of second choices, 0 at empty ones: dims experts,
    /// [`places`](Self::places).
    #[track_caller]
    pub(super) fn importance(&self) -> Tensor<'g> {
        let _caller = self.x.graph().for_caller();
        let [here, there] = self.ends([]);
        let weighted = self.choices.iter().zip([1.0, 0.5]).map(|(choice, by)| choice.placed * by);
        let all = weighted.reduce(|a, b| a + b).unwrap_or(self.grouped);
        crate::reshape(crate::transpose(sum(all, [self.dims.tokens]), here), there)
    }

    /// Experts' results, of the dims of [`dispatched`](Self::dispatched), back where tokens are, by
    /// their gates, in the dims in which they came.
    #[track_caller]
    pub(super) fn combined(&self, h: Tensor<'g>) -> Tensor<'g> {
        let _caller = self.x.graph().for_caller();
        let Dims { groups, tokens, .. } = self.dims;
        let model = self.router.model;
        let [here, there] = self.ends([model]);
        let back = crate::reshape(crate::transpose(h, there), here);
        let gated = self.choices.iter().map(|choice| choice.placed * choice.gate);
        let gated = gated.reduce(|a, b| a + b).unwrap_or(self.grouped);
        let y = einsum(
            cast(gated, self.x.dtype()),
            &[back],
            self.router.with_each([groups, tokens, model]),
        );
        let own = self.router.of_tokens(&self.tokens).into_iter().chain([model]);
        crate::transpose(crate::reshape(y, own), self.x.shape())
    }
}
