//! What attention demands of what it is given.

use super::dot_product::AttentionOptions;
use crate::attention::Attend;
use crate::layers::fit::Fit;
use crate::room::*;

/// What attention demands of all: broadcasting by name would make an outer product of a misspelt dim.
pub(super) fn fit<'g>(
    [q, k, v]: [Tensor<'g>; 3],
    how: &Attend<'g>,
    options: &AttentionOptions<'g>,
) -> Fit {
    let Attend { memory, own, key, value, .. } = *how;
    // Where positions of the memory lie in keys and values.
    let at = own.unwrap_or(memory);
    let mut fit = Fit::new();
    for (what, x) in [("queries", q), ("keys", k), ("values", v)] {
        fit = fit.floats(what, x);
    }
    fit = fit.has("queries", q, key).has("keys", k, key).has("keys", k, at);
    fit = fit.has("values", v, at).has("values", v, value).and(q, || {
        let twice = q.shape().contains(memory.name);
        let advice = "rename the dim of keys and values first";
        twice.then(|| format!("{q:?} has the memory's dim {memory}; {advice}"))
    });
    let shared = q.shape().without(&[key.name]);
    let others = shared.without(&[at.name]);
    let with = |dims: &[Dimension]| Shape::new(others.iter().chain(dims.iter().copied()));
    let of = |shape: Result<Shape, _>| shape.unwrap_or_else(|_| shared.clone());
    let of_softmax = options.in_softmax(&shared);
    let logits = of(Shape::new(of_softmax.iter().chain([memory])));
    if let Some(talking) = options.talking {
        fit = talking.fit(fit, q);
    }
    fit = fit.among("keys", k, &of(with(&[at, key])));
    fit = fit.among("values", v, &of(with(&[at, value])));
    if let Some(mask) = options.mask {
        fit = fit_mask(fit, mask, &logits);
    }
    for rule in options.rules.tensors() {
        fit = fit.integers("rules", rule).among("rules", rule, &logits);
    }
    let rate = options.dropout;
    fit = fit.and(q, || {
        let wrong = !(0.0..1.0).contains(&rate);
        wrong.then(|| format!("a rate is at least 0 and below 1, not {rate}"))
    });
    if let Some(filled) = options.filled {
        fit = fit.integers("what is filled", filled).among("what is filled", filled, &shared);
    }
    if let Some(bias) = options.bias {
        fit = fit.floats("a bias", bias).among("a bias", bias, &logits);
    }
    match options.extra_logit {
        Some(extra) => {
            fit.floats("an extra logit", extra).among("an extra logit", extra, &of_softmax)
        }
        None => fit,
    }
}

/// A mask is of bools or floats and has some of the logits' dims.
pub(super) fn fit_mask(fit: Fit, mask: Tensor<'_>, logits: &Shape) -> Fit {
    let problem = || format!("a mask is of bools, or of floats to be added; {mask:?} is neither");
    let fit = fit.and(mask, || (mask.dtype() == DType::I32).then(problem));
    fit.among("a mask", mask, logits)
}
