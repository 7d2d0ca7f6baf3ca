use super::backward::AttentionGradient;
use super::parts::Label;
use super::*;
use crate::random::proof::noise;
use crate::testing::proof::*;

pub(crate) static PROOF: Proof = Proof {
    meanings: &[
        &Outputs::<Attention>(|op, x, types| {
            let whole = Whole::new(op, x);
            let rows = &types[1];
            let sums = Dense::each(rows, |at| whole.log_sum_exp(at));
            let mean = |at: &At| {
                let shift = sums.at(at);
                let weight = |at: &At| whole.score(at).map_or(0.0, |score| (score - shift).exp());
                whole.along_memory(at, |at| weight(at) * whole.kept(at) * whole.value(at))
            };
            vec![Dense::each(&types[0], mean), sums]
        }),
        &Outputs::<AttentionGradient>(|op, x, types| {
            let own = op.forward.inputs().len();
            let gradient = Gradient { whole: Whole::new(&op.forward, &x[..own]), of: &x[own..] };
            types.iter().enumerate().map(|(i, ty)| gradient.sum(i, ty)).collect()
        }),
    ],
    cases: cases::cases,
};

/// What an attention is given.
struct Whole<'a> {
    op: &'a Attention,
    parts: Vec<(Part, &'a Dense)>,
    /// The random numbers of dropout, and what is kept of those below 1.
    noise: Option<(Dense, f64)>,
}

impl<'a> Whole<'a> {
    fn new(op: &'a Attention, x: &[&'a Dense]) -> Self {
        let parts: Vec<_> = op.inputs().into_iter().zip(x.iter().copied()).collect();
        let salts = parts.iter().filter(|(part, _)| matches!(part, Part::Salt(_)));
        let salts: Vec<_> = salts.map(|(_, x)| *x).collect();
        // Dims of queries that keys have, then the others, then the memory's.
        let [rows, of_keys] = [0, 1].map(|i: usize| x[i].ty.shape.without(&[op.key]));
        let own = if op.to_itself { op.length } else { op.memory };
        let memory = Dimension::new(op.memory.as_str(), extent(&of_keys, own));
        let shared = |d: &Dimension| of_keys.contains(d.name) && d.name != own;
        let (mut dims, mut alone): (Vec<_>, Vec<_>) = rows.iter().partition(shared);
        dims.append(&mut alone);
        dims.push(memory);
        let shape = Shape::new(dims).unwrap_or_default();
        let drawn = |how: Dropped| (noise(how.key, &salts, shape), how.keep.value());
        Self { op, noise: op.dropped.map(drawn), parts }
    }

    /// What a weight counts for: 0 or 1 over the probability to be kept.
    fn kept(&self, at: &At) -> f64 {
        let kept = |(noise, keep): &(Dense, f64)| match noise.at(at) < f64::from(*keep as f32) {
            true => 1.0 / keep,
            false => 0.0,
        };
        self.noise.as_ref().map_or(1.0, kept)
    }

    fn get(&self, part: Part) -> Option<&'a Dense> {
        self.parts.iter().find(|(own, _)| *own == part).map(|(_, x)| *x)
    }

    fn at(&self, part: Part, at: &At) -> f64 {
        self.get(part).map_or(f64::NAN, |x| match part {
            Part::Key | Part::Value => x.at(&self.in_memory(at)),
            _ => x.at(at),
        })
    }

    /// The place in keys and values for one in scores: they may have the dim of queries in place of the
    /// memory's.
    fn in_memory(&self, at: &At) -> At {
        let op = self.op;
        let own = || at.with(op.length.as_str(), at.along(op.memory.as_str()));
        if op.to_itself { own() } else { at.clone() }
    }

    /// How many positions the memory has.
    fn memory(&self) -> usize {
        self.size(Part::Key, if self.op.to_itself { self.op.length } else { self.op.memory })
    }

    fn value(&self, at: &At) -> f64 {
        self.at(Part::Value, at)
    }

    fn size(&self, part: Part, dim: DimName) -> usize {
        self.get(part).map_or(0, |x| extent(&x.ty.shape, dim))
    }

    fn along_memory(&self, at: &At, term: impl Fn(&At) -> f64) -> f64 {
        let memory = self.op.memory;
        total(self.memory(), |j| term(&at.with(memory.as_str(), j)))
    }

    /// The product of a query and a key.
    fn product(&self, at: &At) -> f64 {
        let key = self.op.key;
        total(self.size(Part::Query, key), |i| {
            let at = at.with(key.as_str(), i);
            self.at(Part::Query, &at) * self.at(Part::Key, &at)
        })
    }

    fn is_allowed(&self, at: &At) -> bool {
        self.get(Part::Allowed).is_none_or(|x| x.at(at) != 0.0)
    }

    fn rules_allow(&self, at: &At) -> bool {
        let Rules { causal, window, prefix, segments } = self.op.rules;
        let of = |label, side| self.at(Part::Each(label, side), at);
        let both = |label| [of(label, Side::Queries), of(label, Side::Memory)];
        let mut legal = true;
        if causal || window.is_some() {
            let [q, k] = both(Label::Position);
            let near = window.is_none_or(|width| (q - k).abs() < width as f64);
            let before = prefix && k < of(Label::Prefix, Side::Queries);
            legal = before || near && (!causal || k <= q);
        }
        let [q, k] = if segments { both(Label::Segment) } else { [0.0; 2] };
        legal && q == k
    }

    /// The score of a query and a position; none where rules let them not meet.
    fn score(&self, at: &At) -> Option<f64> {
        if !self.rules_allow(at) || !self.is_allowed(at) {
            return None;
        }
        let product = self.product(at);
        let bent = |cap: Scalar| cap.value() * (product / cap.value()).tanh();
        let bias = self.get(Part::Bias).map_or(0.0, |x| x.at(at));
        Some(self.op.cap.map_or(product, bent) + bias)
    }

    fn log_sum_exp(&self, at: &At) -> f64 {
        let memory = self.op.memory;
        let scores = (0..self.memory()).filter_map(|j| self.score(&at.with(memory.as_str(), j)));
        let scores: Vec<_> = scores.collect();
        let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if scores.is_empty() {
            return greatest;
        }
        greatest + scores.iter().map(|score| (score - greatest).exp()).sum::<f64>().ln()
    }
}

/// What attention's gradient is given: that of the attention, and its own inputs.
struct Gradient<'a> {
    whole: Whole<'a>,
    of: &'a [&'a Dense],
}

impl Gradient<'_> {
    fn weight(&self, at: &At) -> f64 {
        self.whole.score(at).map_or(0.0, |score| (score - self.of[1].at(at)).exp())
    }

    fn along_value(&self, at: &At, term: impl Fn(&At) -> f64) -> f64 {
        let value = self.whole.op.value;
        let size = self.whole.size(Part::Value, value);
        total(size, |i| term(&at.with(value.as_str(), i)))
    }

    fn of_score(&self, at: &At) -> f64 {
        let of_sums = self.of.get(3).map_or(0.0, |x| x.at(at));
        let of_weight = self.along_value(at, |at| self.of[2].at(at) * self.whole.value(at));
        let of_weight = of_weight * self.whole.kept(at);
        let mean = self.along_value(at, |at| self.of[2].at(at) * self.of[0].at(at)) - of_sums;
        self.weight(at) * (of_weight - mean)
    }

    fn of_product(&self, at: &At) -> f64 {
        let bent =
            self.whole.op.cap.map_or(0.0, |cap| (self.whole.product(at) / cap.value()).tanh());
        self.of_score(at) * (1.0 - bent * bent)
    }

    /// The gradient of input `i`: what each query and position of the memory add to it.
    fn sum(&self, i: usize, ty: &TensorType) -> Dense {
        let mut sum = Dense::zeros(ty.clone());
        let memory = Dimension::new(self.whole.op.memory.as_str(), self.whole.memory());
        let scores = self.of[1].ty.shape.iter().chain([memory]);
        let scores = Shape::new(scores).unwrap_or_default();
        for at in At::all(&scores) {
            let (score, weight) = (self.of_product(&at), self.weight(&at));
            let last = ty.shape.iter().filter(|d| !scores.contains(d.name));
            for at in At::all(&Shape::new(last).unwrap_or_default()).iter().map(|own| at.and(own)) {
                let place = if i == 1 || i == 2 { self.whole.in_memory(&at) } else { at.clone() };
                sum.data[place.number(&ty.shape)] += match i {
                    0 => score * self.whole.at(Part::Key, &at),
                    1 => score * self.whole.at(Part::Query, &at),
                    2 => weight * self.whole.kept(&at) * self.of[2].at(&at),
                    _ => self.of_score(&at),
                };
            }
        }
        sum
    }
}
