//! Talking heads: logits of all heads are mixed before the softmax, weights after it (Shazeer et al.
//! 2020, arXiv 2003.02436, section 3).
//!
//! With heads split over an axis each mix is a sum that is owed: it costs a reduce-scatter of
//! logits, as large as logits are.

use crate::einsum::einsum;
use crate::elementwise::cast;
use crate::layers::fit::Fit;
use crate::layers::{Parameters, Weights};
use crate::room::*;
use mesh_core::graph::{Fan, Initializer};

/// How heads are mixed before and after the softmax.
///
/// An option of [attention](super::AttentionOptions). With logits `J[h]` of the heads of queries and
/// keys,
///
/// ```text
/// K[s] = sum_h J[h] logits[h, s]
/// U[h] = sum_s softmax(K)[s] weights[s, h]
/// ```
///
/// and values are summed by `U`. Masks, biases, a cap and an extra logit apply to `K`: where they
/// have a dim of heads, it is `softmax_heads`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::attention::{AttentionOptions, MultiHead, TalkingHeads, causal};
/// # let g = mesh_ops::graph();
/// let (length, model, heads) = (dim("length", 16), dim("model", 32), dim("heads", 4));
/// let x = g.input("x", [length, model], F32);
/// let parameters = Parameters::like(x);
/// let attention = MultiHead::new(model, heads, dim("kv", 8));
/// let weights = attention.weights(&parameters, "attention");
/// let talking = TalkingHeads::new(&parameters, heads, dim("softmax_heads", 6), "talking");
/// let options = AttentionOptions {
///     mask: Some(causal(&g, length)),
///     talking: Some(talking),
///     ..Default::default()
/// };
/// let y = attention.self_attention(x, length, &weights, None, &options);
/// assert_eq!(y.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TalkingHeads<'g> {
    /// Heads of queries and values.
    pub heads: Dimension,
    /// Heads of the softmax.
    pub softmax_heads: Dimension,
    /// `[heads, softmax_heads]`.
    pub logits: Tensor<'g>,
    /// `[softmax_heads, heads]`.
    pub weights: Tensor<'g>,
}

impl<'g> Weights<'g> for TalkingHeads<'g> {
    fn mapped(self, f: &mut dyn FnMut(Tensor<'g>) -> Tensor<'g>) -> Self {
        Self { logits: f(self.logits), weights: f(self.weights), ..self }
    }
}

impl<'g> TalkingHeads<'g> {
    /// New variables `{name}/logits` and `{name}/weights` of standard deviation `inputs^-1/2`.
    #[track_caller]
    pub fn new(
        parameters: &Parameters<'g>,
        heads: Dimension,
        softmax_heads: Dimension,
        name: &str,
    ) -> Self {
        let _scope = parameters.scope(name);
        let _caller = parameters.graph().for_caller();
        let variable = |name, from, onto| {
            let initializer = Initializer::variance_scaling(1.0, Fan::In, &[from], &[onto]);
            parameters.variable(name, [from, onto], initializer)
        };
        let logits = variable("logits", heads, softmax_heads);
        Self { heads, softmax_heads, logits, weights: variable("weights", softmax_heads, heads) }
    }

    /// What it demands of queries and of its own weights.
    pub(super) fn fit(&self, fit: Fit, q: Tensor<'g>) -> Fit {
        let both = Shape::new([self.heads, self.softmax_heads]).unwrap_or_default();
        let taken = q.shape().contains(self.softmax_heads.name);
        fit.has("queries", q, self.heads)
            .and(q, || {
                let problem = || format!("{q:?} has the dim {} of the softmax", self.softmax_heads);
                taken.then(problem)
            })
            .floats("a mix of logits", self.logits)
            .exactly("a mix of logits", self.logits, &both)
            .floats("a mix of weights", self.weights)
            .exactly("a mix of weights", self.weights, &both)
    }

    /// Logits of the heads of the softmax.
    #[track_caller]
    pub(super) fn before(&self, logits: Tensor<'g>) -> Tensor<'g> {
        mixed(logits, self.logits, self.heads, self.softmax_heads)
    }

    /// Weights of the heads of values.
    #[track_caller]
    pub(super) fn after(&self, weights: Tensor<'g>) -> Tensor<'g> {
        mixed(weights, self.weights, self.softmax_heads, self.heads)
    }
}

#[track_caller]
fn mixed<'g>(x: Tensor<'g>, mix: Tensor<'g>, from: Dimension, onto: Dimension) -> Tensor<'g> {
    let shape = x.shape();
    let dims: Vec<_> = shape.iter().map(|d| if d == from { onto } else { d }).collect();
    einsum(x, &[cast(mix, x.dtype())], dims)
}
