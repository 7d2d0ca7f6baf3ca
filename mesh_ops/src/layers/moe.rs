//! Mixture of experts: every token goes to one or two of many feed-forward layers.
//!
//! Tokens fall into groups, each of which may send at most *capacity* tokens to an expert; what does
//! not fit adds nothing. Groups lie where the batch lies. Dispatched tokens are `[experts_whole,
//! batch, ...]`; a rename of two dims makes them `[experts, batch_at_experts, ...]`:
//!
//! | layout | what the rename is, and the one back |
//! |---|---|
//! | `batch:all;experts:all` | all-to-all: tokens travel to their experts |
//! | `batch:all;batch_at_experts:all` | nothing: every processor has all experts |
//! | `batch:all` | all-gather: every processor does all experts for all tokens |
//!
//! Gates are computed in f32.

use super::fit::Fit;
use super::parameters::weights;
use super::{FeedForward, FeedForwardWeights, Parameters, softmax};
use crate::Cumulative;
use crate::einsum::einsum;
use crate::elementwise::{cast, greater, mul};
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

/// A mixture of feed-forward layers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 4), dim("length", 16), dim("model", 8));
/// let x = g.input("x", [batch, length, model], F32);
/// let experts = MixtureOfExperts::new(model, dim("hidden", 32), dim("experts", 4), Gating::Switch);
/// let weights = experts.weights(&Parameters::like(x), "moe");
/// let (y, balance) = experts.apply(x, &[batch, length], &weights, None);
/// assert_eq!(y.shape(), x.shape());
/// assert!(balance.shape().is_scalar());
/// assert_eq!(experts.capacity(16), 5);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixtureOfExperts {
    /// The layers, for each expert one.
    pub feed_forward: FeedForward,
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
}

/// Weights of a [`MixtureOfExperts`].
#[derive(Clone, Debug)]
pub struct MixtureWeights<'g> {
    /// From the model to gates, `[model, {experts}_whole]`.
    pub router: Tensor<'g>,
    /// Kernels with the dim of experts in front.
    pub feed_forward: FeedForwardWeights<'g>,
}
weights!(MixtureWeights { router, feed_forward });

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

fn whole(dim: Dimension) -> Dimension {
    dim.renamed(&format!("{}_whole", dim.name))
}

impl MixtureOfExperts {
    /// Feed-forward layers with relu and no biases; capacity factor 1.25, at least 4 places.
    pub fn new(model: Dimension, hidden: Dimension, experts: Dimension, gating: Gating) -> Self {
        Self {
            feed_forward: FeedForward::new(model, hidden).for_each([experts]),
            experts,
            gating,
            capacity_factor: 1.25,
            min_capacity: 4,
            groups: None,
        }
    }

    /// New variables `{name}/router` and those of the feed-forward layers under `{name}/experts`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> MixtureWeights<'g> {
        let _layer = parameters.graph().for_layer("mixture_of_experts");
        let _scope = parameters.scope(name);
        let (model, experts) = (self.feed_forward.model, whole(self.experts));
        let initializer = Initializer::variance_scaling(1.0, Fan::In, &[model], &[experts]);
        MixtureWeights {
            router: parameters.variable("router", [model, experts], initializer),
            feed_forward: self.feed_forward.weights(parameters, "experts"),
        }
    }

    /// Places of one expert for a group of so many tokens:
    /// `max(min_capacity, min(tokens, tokens * capacity_factor / experts))`, as in Mesh TensorFlow.
    pub fn capacity(&self, tokens: usize) -> usize {
        let share = tokens as f64 * self.capacity_factor / self.experts.size as f64;
        (share as usize).min(tokens).max(self.min_capacity).max(1)
    }

    /// The result for `x`, whose dims are those of tokens and the model, and the balance loss, a
    /// scalar (f32): 1 if all experts get equal shares, more if not. Mesh TensorFlow adds 0.01 of it
    /// to the loss. Tokens with 0 in `counted` (f32, dims of tokens) go nowhere.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        x: Tensor<'g>,
        tokens: &[Dimension],
        weights: &MixtureWeights<'g>,
        counted: Option<Tensor<'g>>,
    ) -> (Tensor<'g>, Tensor<'g>) {
        let _layer = x.graph().for_layer("mixture_of_experts");
        let (dims, mut problem) = match self.dims(x, tokens) {
            Ok(dims) => (Some(dims), None),
            Err(problem) => (None, Some(problem)),
        };
        let routed = Shape::new([self.feed_forward.model, whole(self.experts)]).unwrap_or_default();
        let mut fit = Fit::new().floats("the input", x).and(x, || problem.take());
        fit = fit.exactly("the router", weights.router, &routed);
        if let Some(counted) = counted {
            let tokens = Shape::new(tokens.iter().copied()).unwrap_or_default();
            fit = fit.exactly("counted", counted, &tokens);
        }
        let refused = fit.refused("mixture_of_experts", x);
        let (Some(dims), None) = (dims, refused) else { return (x.poisoned(), x.poisoned()) };
        let model = self.feed_forward.model;
        let own = x.shape();
        let ordered = crate::transpose(x, tokens.iter().copied().chain([model]));
        let grouped = crate::reshape(ordered, [dims.groups, dims.tokens, model]);
        let counted = counted.map(|counted| {
            let counted = crate::transpose(counted, tokens.iter().copied());
            cast(crate::reshape(counted, [dims.groups, dims.tokens]), DType::F32)
        });
        let (choices, balance) = self.route(grouped, weights.router, dims, counted);
        let mut dispatch = choices[0].placed;
        let mut combine = choices[0].placed * choices[0].gate;
        for choice in &choices[1..] {
            dispatch = dispatch + choice.placed;
            combine = combine + choice.placed * choice.gate;
        }
        let (dispatch, combine) = (cast(dispatch, x.dtype()), cast(combine, x.dtype()));
        let there = einsum(grouped, &[dispatch], [dims.experts, dims.groups, dims.places, model]);
        let at_experts = [self.experts, dims.sent, dims.places, model];
        let h = self.feed_forward.apply(crate::reshape(there, at_experts), &weights.feed_forward);
        let h = crate::transpose(h, at_experts);
        let back = crate::reshape(h, [dims.experts, dims.groups, dims.places, model]);
        let y = einsum(combine, &[back], [dims.groups, dims.tokens, model]);
        let y = crate::reshape(y, tokens.iter().copied().chain([model]));
        (crate::transpose(y, own), balance)
    }

    fn dims(&self, x: Tensor<'_>, tokens: &[Dimension]) -> Result<Dims, String> {
        let model = self.feed_forward.model;
        let expected = Shape::new(tokens.iter().copied().chain([model]));
        let expected = expected.map_err(|error| error.to_string())?;
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
            sent: groups.renamed(&format!("{}_at_experts", first.name)),
            places: Dimension::new("places", self.capacity(size)),
        })
    }

    /// The choices of every token, and the balance loss.
    #[track_caller]
    fn route<'g>(
        &self,
        grouped: Tensor<'g>,
        router: Tensor<'g>,
        dims: Dims,
        counted: Option<Tensor<'g>>,
    ) -> (Vec<Choice<'g>>, Tensor<'g>) {
        let wide = cast(grouped, DType::F32);
        let all = [dims.groups, dims.tokens, dims.experts];
        let logits = einsum(wide, &[cast(router, DType::F32)], all);
        let gates = softmax(logits, dims.experts);
        let counted_gates = counted.map_or(gates, |counted| gates * counted);
        let first = chosen(gates, dims, counted);
        let density = mean(first.0, [dims.tokens]);
        let proxy = mean(counted_gates, [dims.tokens]);
        let scale = (dims.experts.size * dims.experts.size) as f64;
        let balance = mean(mul(density, proxy), [dims.groups, dims.experts]) * scale;
        let none = grouped.graph().scalar(0.0, DType::F32);
        let placed = places(first.0, none, dims);
        let Gating::TopTwo { threshold } = self.gating else {
            return (vec![Choice { gate: first.1, placed }], balance);
        };
        let second = chosen(gates * (1.0 - first.0), dims, counted);
        let total = first.1 + second.1 + 1e-9;
        let gate = second.1 / total;
        let threshold = grouped.graph().scalar(threshold, DType::F32);
        let wanted = second.0 * cast(greater(gate, threshold), DType::F32);
        let taken = sum(placed, [dims.tokens, dims.places]);
        let second = Choice { gate, placed: places(wanted, taken, dims) };
        (vec![Choice { gate: first.1 / total, placed }, second], balance)
    }
}

/// 1 at each token's expert of the greatest gate, and that gate.
#[track_caller]
fn chosen<'g>(
    gates: Tensor<'g>,
    dims: Dims,
    counted: Option<Tensor<'g>>,
) -> (Tensor<'g>, Tensor<'g>) {
    let hot = crate::one_hot(crate::argmax(gates, dims.experts), dims.experts, DType::F32);
    let gate = sum(gates * hot, [dims.experts]);
    (counted.map_or(hot, |counted| hot * counted), gate)
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

/// Groups of tokens as Mesh TensorFlow cuts them: the number and the size of groups. The size is
/// the greatest up to `most` for which the number of groups is a multiple of `multiple`, which lets
/// them be split so; `None` if there is none.
///
/// ```
/// use mesh_ops::layers::moe::split_into_groups;
/// assert_eq!(split_into_groups(4096, 1024, 8), Some((8, 512)));
/// ```
pub fn split_into_groups(tokens: usize, most: usize, multiple: usize) -> Option<(usize, usize)> {
    let fits = |&size: &usize| {
        tokens.is_multiple_of(size) && (tokens / size).is_multiple_of(multiple.max(1))
    };
    (1..=most.min(tokens)).rev().find(fits).map(|size| (tokens / size, size))
}
