//! The gradient of attention as a composition over whole scores: what the gradient's own gradient is
//! made of.

use super::Attention;
use super::dropped::scores;
use super::mask::Mask;
use super::parts::{Label, Part, Side};
use crate::einsum::einsum;
use crate::elementwise::{cast, equal, exp, select, tanh};
use crate::random::{dropout::dropped, uniform_of};
use crate::reduce::sum_onto;
use crate::room::*;
use mesh_core::program::Scalar;

/// What an attention is given, whole.
struct Whole<'a, 'g> {
    op: &'a Attention,
    inputs: Vec<(Part, Tensor<'g>)>,
    dtype: DType,
}

impl<'g> Whole<'_, 'g> {
    fn get(&self, part: Part) -> Option<Tensor<'g>> {
        self.inputs.iter().find(|(own, _)| *own == part).map(|(_, tensor)| *tensor)
    }

    fn pair(&self, label: Label) -> Option<[Tensor<'g>; 2]> {
        let of = |side| self.get(Part::Each(label, side));
        Some([of(Side::Queries)?, of(Side::Memory)?])
    }

    /// True where the rules let a query look.
    #[track_caller]
    fn rule(&self) -> Option<Tensor<'g>> {
        let mask = Mask {
            rules: self.op.rules,
            positions: self.pair(Label::Position),
            order: self.op.order,
            prefix: self.get(Part::Each(Label::Prefix, Side::Queries)),
            segments: self.pair(Label::Segment),
            own: false,
        };
        mask.tensor()
    }

    /// The random numbers of dropout, and what is kept of those below 1. The keys have the memory's dim.
    #[track_caller]
    fn noise(&self, q: Tensor<'g>, k: Tensor<'g>) -> Option<(Tensor<'g>, Scalar)> {
        let how = self.op.dropped?;
        let salts: Vec<_> = how.parts().filter_map(|part| self.get(part)).collect();
        let shape = scores(&q.shape(), &k.shape(), self.op.key).unwrap_or_default();
        Some((uniform_of(q.graph(), how.key, &salts, shape), how.keep))
    }

    /// Scores without the rules, and what the cap bends.
    #[track_caller]
    fn scores(
        &self,
        q: Tensor<'g>,
        k: Tensor<'g>,
        onto: &Shape,
    ) -> (Tensor<'g>, Option<Tensor<'g>>) {
        let mut scores = einsum(q, &[k], onto);
        let bent = self.op.cap.map(|cap| tanh(scores * (1.0 / cap.value())));
        if let (Some(bent), Some(cap)) = (bent, self.op.cap) {
            scores = bent * cap.value();
        }
        if let Some(bias) = self.get(Part::Bias) {
            scores = scores + cast(bias, self.dtype);
        }
        if let Some(allowed) = self.get(Part::Allowed) {
            scores = select(allowed, scores, q.scalar_like(f64::NEG_INFINITY));
        }
        (scores, bent)
    }
}

/// The outputs of an attention's gradient from its inputs.
#[track_caller]
pub(super) fn gradients<'g>(forward: &Attention, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
    let parts = forward.inputs();
    let (own, rest) = inputs.split_at(parts.len());
    let [q, y, sums, dy] = [own[0], rest[0], rest[1], rest[2]];
    let memory = own[1].shape().get(forward.length).map(|d| d.renamed(forward.memory.as_str()));
    let memory = memory.filter(|_| forward.to_itself);
    let renamed = |x: Tensor<'g>, [from, to]: [DimName; 2]| match memory {
        Some(memory) => crate::rename(x, memory.renamed(from.as_str()), to.as_str()),
        None => x,
    };
    let [k, v] = [own[1], own[2]].map(|x| renamed(x, [forward.length, forward.memory]));
    let dtype = q.dtype().reduction();
    let types = [q, k, v].map(|x| x.tensor_type());
    let [wide_q, wide_k, wide_v, y, dy] = [q, k, v, y, dy].map(|x| cast(x, dtype));
    let whole =
        Whole { op: forward, inputs: parts.into_iter().zip(own.iter().copied()).collect(), dtype };
    let rows = sums.shape();
    let memory = k.shape().iter().filter(|d| d.name == forward.memory).collect::<Vec<_>>();
    let onto = Shape::new(rows.iter().chain(memory)).unwrap_or_default();
    let (mut scores, bent) = whole.scores(wide_q, wide_k, &onto);
    if let Some(rule) = whole.rule() {
        scores = select(rule, scores, q.graph().scalar(f64::NEG_INFINITY, dtype));
    }
    let nothing = equal(sums, q.graph().scalar(f64::NEG_INFINITY, dtype));
    let sums = select(nothing, q.graph().scalar(0.0, dtype), sums);
    let weights = exp(scores - sums);
    let mut mean = sum_onto(y * dy, &rows);
    if let Some(&of_sums) = rest.get(3) {
        mean = mean - of_sums;
    }
    let noise = whole.noise(q, k);
    let kept = |x: Tensor<'g>| noise.map_or(x, |(noise, keep)| dropped(x, noise, keep));
    let of_scores = weights * (kept(einsum(dy, &[wide_v], &onto)) - mean);
    let weights = kept(weights);
    let of_products = match bent {
        Some(bent) => of_scores * (1.0 - bent * bent),
        None => of_scores,
    };
    let mut made = vec![
        einsum(of_products, &[wide_k], &types[0].shape),
        einsum(of_products, &[wide_q], &types[1].shape),
        einsum(weights, &[dy], &types[2].shape),
    ];
    if let Some(bias) = whole.get(Part::Bias) {
        made.push(cast(sum_onto(of_scores, &bias.shape()), bias.dtype()));
    }
    let of_keys = [forward.memory, forward.length];
    for x in &mut made[1..3] {
        *x = renamed(*x, of_keys);
    }
    let narrow = |(x, ty): (Tensor<'g>, &TensorType)| cast(x, ty.dtype);
    let more = made.split_off(3);
    made.into_iter().zip(&types).map(narrow).chain(more).collect()
}
