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
    cases,
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

/// So many positions of queries and memory that blocks of these sizes do not divide them.
const SMALL: Blocks = Blocks { queries: 3, memory: 4 };

fn length() -> Dimension {
    dim("length", 8)
}

fn memory() -> Dimension {
    dim("memory", 6)
}

fn how<'g>(mask: Mask<'g>) -> Attend<'g> {
    let kv = dim("kv", 2);
    Attend { mask, blocks: SMALL, ..Attend::new(memory(), kv, kv) }
}

fn first<'g>(x: &[Tensor<'g>], how: &Attend<'g>) -> Tensor<'g> {
    attention(x[0], x[1], x[2], how).0
}

/// Queries, keys and values of f64.
fn given(
    name: &str,
    build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>> + 'static,
) -> Case {
    Case::several(name, build)
        .shows("attention")
        .normal("q", "batch:2;length:8;kv:2", F64)
        .normal("k", "batch:2;memory:6;kv:2", F64)
        .normal("v", "memory:6;batch:2;kv:2", F64)
        .meshes(FEW_ATTENDED)
}

fn own() -> Dimension {
    dim("memory", 8)
}

/// Queries, keys and values of one tensor's positions: more than a block.
fn itself(
    name: &str,
    build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>> + 'static,
) -> Case {
    Case::several(name, build)
        .shows("attention")
        .normal("q", "batch:2;heads:2;length:8;kv:2", F64)
        .normal("k", "length:8;batch:2;kv:2", F64)
        .normal("v", "batch:2;length:8;kv:2", F64)
        .meshes(GONE_ROUND)
}

fn to_itself<'g>(mask: Mask<'g>) -> Attend<'g> {
    let kv = dim("kv", 2);
    Attend { mask, blocks: SMALL, ..Attend::to_itself(length(), own(), kv, kv) }
}

/// With so many weights dropped that each query loses some.
fn dropping(how: Attend<'_>) -> Attend<'_> {
    Attend { dropout: 0.4, ..how }
}

fn exchanged<'g>(mask: Mask<'g>, exchange: Exchange) -> Attend<'g> {
    Attend { exchange, ..to_itself(mask) }
}

const GONE_ROUND: &[&str] = &["a:2", "a:4", "a:2;b:2"];

const FEW_ATTENDED: &[&str] = &["a:2", "a:2;b:2"];

fn cases() -> Vec<Case> {
    vec![
        given("attention: all, and log-sum-exps", |_, x| {
            let (y, sums) = attention(x[0], x[1], x[2], &how(Mask::default()));
            vec![y, sums]
        }),
        // The first query sees nothing.
        given("attention: causal, from positions that are dealt", |_, x| {
            vec![first(x, &how(Mask::of_positions(x[3], x[4]).causal()))]
        })
        .input(
            "p",
            "length:8",
            I32,
            Fill::Values([-1, 5, 2, 3, 4, 1, 0, 6].map(f64::from).to_vec()),
        )
        .input(
            "r",
            "memory:6",
            I32,
            Fill::Values([0, 1, 5, 4, 2, 3].map(f64::from).to_vec()),
        ),
        given("attention: a window, a prefix, bias, cap", |g, x| {
            let mask = Mask::along(g, length(), memory()).causal().window(3).prefix(x[4]);
            vec![first(x, &Attend { bias: Some(x[3]), cap: Some(2.0), ..how(mask) })]
        })
        .normal("bias", "length:8;memory:6", F64)
        .input("prefix", "batch:2", I32, Fill::Values(vec![0.0, 2.0])),
        given("attention: packed segments, both ways within a window", |g, x| {
            let mask = Mask::along(g, length(), memory()).window(4).segments(x[3], x[4]);
            vec![first(x, &how(mask))]
        })
        .input("s", "batch:2;length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:6", I32, Fill::Integers(0, 2))
        .meshes(&["a:2"]),
        given("attention: bools, a bias of each key", |_, x| {
            vec![first(
                x,
                &Attend { allowed: Some(x[3]), bias: Some(x[4]), ..how(Mask::default()) },
            )]
        })
        .bools("allowed", "memory:6;length:8")
        .normal("bias", "memory:6", F64)
        .meshes(&["a:2"]),
        Case::new("attention: shared keys, f32", |g, x| {
            let mask = Mask::along(g, dim("length", 4), memory()).causal();
            first(x, &Attend { blocks: Blocks { queries: 2, memory: 3 }, ..how(mask) })
        })
        .normal("q", "length:4;groups:2;heads:2;kv:2", F32)
        .normal("k", "memory:6;groups:2;kv:2", F32)
        .normal("v", "memory:6;groups:2;kv:2", F32)
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, causal, a bias, log-sum-exps", |g, x| {
            let mask = Mask::along(g, length(), own()).causal().window(5);
            let (y, sums) =
                attention(x[0], x[1], x[2], &Attend { bias: Some(x[3]), ..to_itself(mask) });
            vec![y, sums]
        })
        .normal("bias", "length:8;memory:8", F64),
        itself(
            "attention: to itself, bools, a bias of each key, segments, shared heads",
            |_, x| {
                let mask = Mask::default().segments(x[5], x[6]);
                let how = Attend { allowed: Some(x[3]), bias: Some(x[4]), ..to_itself(mask) };
                vec![first(x, &how)]
            },
        )
        .bools("allowed", "memory:8;length:8")
        .normal("bias", "memory:8", F64)
        .input("s", "length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:8", I32, Fill::Integers(0, 2))
        .meshes(&["a:4"]),
        itself("attention: to itself, all of it one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &Attend { blocks, ..to_itself(Mask::default()) })]
        })
        .meshes(&["a:2"]),
        given("attention: dropout, and log-sum-exps", |_, x| {
            let (y, sums) = attention(x[0], x[1], x[2], &dropping(how(Mask::default())));
            vec![y, sums]
        }),
        given("attention: dropout, bools, a bias of each key, a cap, causal", |g, x| {
            let mask = Mask::along(g, length(), memory()).causal();
            let how = Attend { allowed: Some(x[3]), bias: Some(x[4]), cap: Some(2.0), ..how(mask) };
            vec![first(x, &dropping(how))]
        })
        .bools("allowed", "memory:6;length:8")
        .normal("bias", "memory:6", F64)
        .meshes(&["a:2"]),
        itself(
            "attention: to itself, dropout, causal, shared heads, a bias, log-sum-exps",
            |g, x| {
                let mask = Mask::along(g, length(), own()).causal();
                let how = Attend { bias: Some(x[3]), ..to_itself(mask) };
                let (y, sums) = attention(x[0], x[1], x[2], &dropping(how));
                vec![y, sums]
            },
        )
        .normal("bias", "length:8;memory:8", F64),
        itself("attention: to itself, dropout, in zigzag order", |g, x| {
            let mask = Mask::in_zigzag(g, length(), own(), 4).causal();
            vec![first(x, &dropping(to_itself(mask)))]
        })
        .meshes(&["a:2"]),
        itself("attention: to itself, dropout, all of it one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &dropping(Attend { blocks, ..to_itself(Mask::default()) }))]
        })
        .meshes(&["a:2"]),
        Case::new("attention: dropout, queries of groups, f32", |_, x| {
            let how = Attend { blocks: Blocks { queries: 2, memory: 4 }, ..how(Mask::default()) };
            first(x, &dropping(how))
        })
        .normal("q", "length:4;groups:2;heads:2;kv:2", F32)
        .normal("k", "memory:6;groups:2;kv:2", F32)
        .normal("v", "memory:6;groups:2;kv:2", F32)
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, all-to-alls, causal, a bias, log-sum-exps", |g, x| {
            let mask = Mask::along(g, length(), own()).causal();
            let how =
                Attend { bias: Some(x[3]), ..exchanged(mask, Exchange::AllToAll("batch".into())) };
            let (y, sums) = attention(x[0], x[1], x[2], &how);
            vec![y, sums]
        })
        .normal("bias", "length:8;memory:8", F64)
        .meshes(&["a:2", "a:2;b:2;c:2"]),
        itself("attention: to itself, all-to-alls to heads that keys lack, segments", |_, x| {
            let mask = Mask::default().segments(x[3], x[4]);
            vec![first(x, &exchanged(mask, Exchange::AllToAll("heads".into())))]
        })
        .input("s", "length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:8", I32, Fill::Integers(0, 2))
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, all-to-alls, dropout", |g, x| {
            let mask = Mask::along(g, length(), own()).causal();
            vec![first(x, &dropping(exchanged(mask, Exchange::AllToAll("heads".into()))))]
        })
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, a ring of one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &Attend { blocks, ..exchanged(Mask::default(), Exchange::Ring) })]
        })
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, several blocks gathered", |g, x| {
            let mask = Mask::along(g, length(), own()).causal().window(5);
            vec![first(x, &exchanged(mask, Exchange::Gather))]
        })
        .meshes(FEW_ATTENDED),
        Case::new("attention: bf16", |_, x| first(x, &how(Mask::default())))
            .normal("q", "length:4;kv:2", BF16)
            .normal("k", "memory:6;kv:2", BF16)
            .normal("v", "memory:6;kv:2", BF16)
            .meshes(&["a:2"]),
    ]
}
