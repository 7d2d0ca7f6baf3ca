//! Beam search: the best sequences that a model writes token after token.
//!
//! The search of tensor2tensor and Mesh TensorFlow. It keeps as many unfinished sequences as the beam
//! has places, those of the greatest log probability, and as many finished ones, those of the greatest
//! score: the log probability over `((5 + tokens) / 6)^alpha` (Wu et al. 2016, arXiv 1609.08144,
//! equation 14, without coverage). It ends when no unfinished sequence can score better than all the
//! finished ones, or at the full length.

use std::panic::Location;

use super::fit::Fit;
use super::log_softmax;
use crate::elementwise::{cast, equal, floordiv, greater, less, logical_and, powf, select};
use crate::reduce::{any, max, min};
use crate::room::*;
use crate::{broadcast, concat, gather, merge_dims, rename, top_k};

/// The score of a place without a sequence.
const NONE: f64 = f64::NEG_INFINITY;

/// How sequences are searched.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::BeamSearch;
/// # let g = mesh_ops::graph();
/// let (batch, vocab) = (dim("batch", 2), dim("vocab", 10));
/// let next = g.variable("next", [dim("last", 10), vocab], F32, Initializer::ONES).value();
/// let first = g.input("first", [batch], I32);
/// let search = BeamSearch::new(dim("beam", 4), dim("length", 6), vocab, 1);
/// // A model that knows the last token alone.
/// let (tokens, scores) = search.search(first, &[], |last, _position, _states| {
///     (next.gather(last, dim("last", 10)), vec![])
/// });
/// assert_eq!(tokens.shape().to_string(), "[batch:2, beam:4, length:6]");
/// assert_eq!(scores.shape().to_string(), "[batch:2, beam:4]");
/// ```
#[derive(Clone, Debug)]
pub struct BeamSearch {
    /// The sequences that are kept, best first.
    pub beam: Dimension,
    /// The most tokens of a sequence.
    pub length: Dimension,
    /// The tokens.
    pub vocab: Dimension,
    /// The token that ends a sequence. If it is none of `vocab`, such as -1, all have the full length.
    pub end: i32,
    /// How much longer sequences are preferred: 0.6 in tensor2tensor; 0 compares log probabilities.
    pub alpha: f64,
}

/// Sequences with their scores, in the place of `beam`.
#[derive(Clone, Copy)]
struct Sequences<'g> {
    /// Batch, beam, length.
    tokens: Tensor<'g>,
    /// Batch, beam.
    scores: Tensor<'g>,
}

/// What an iteration hands to the next.
struct Carried<'g> {
    /// The number of tokens that were written.
    position: Tensor<'g>,
    /// The last token of each unfinished sequence: batch, beam.
    last: Tensor<'g>,
    /// Unfinished sequences; their scores are log probabilities.
    open: Sequences<'g>,
    done: Sequences<'g>,
    states: Vec<Tensor<'g>>,
}

impl<'g> Carried<'g> {
    fn list(&self) -> Vec<Tensor<'g>> {
        let Self { position, last, open, done, states } = self;
        let fixed = [*position, *last, open.tokens, open.scores, done.tokens, done.scores];
        fixed.into_iter().chain(states.iter().copied()).collect()
    }

    fn of(list: &[Tensor<'g>]) -> Self {
        Self {
            position: list[0],
            last: list[1],
            open: Sequences { tokens: list[2], scores: list[3] },
            done: Sequences { tokens: list[4], scores: list[5] },
            states: list[6..].to_vec(),
        }
    }
}

impl BeamSearch {
    /// A search with tensor2tensor's preference for longer sequences, `alpha` 0.6.
    pub fn new(beam: Dimension, length: Dimension, vocab: Dimension, end: i32) -> Self {
        Self { beam, length, vocab, end, alpha: 0.6 }
    }

    /// Searches what follows `first`, i32 with the dims of a batch: tokens, i32 `[batch, beam,
    /// length]`, and scores `[batch, beam]`, best first. Positions after the end token hold it, too.
    /// If no sequence of an example has ended within `length` tokens, its result are the
    /// unfinished ones. A score of minus infinity stands where there are fewer sequences than
    /// places.
    ///
    /// `step` is given the last tokens `[batch, beam]` (the first time, `first`), their position (i32,
    /// from 0), and states; it returns logits with the dims `[batch, beam, vocab]` and the states
    /// after these tokens. `states` are those before the first token, such as the keys and values
    /// of an empty cache, without `beam`; in `step` they have that dim, and follow their
    /// sequences. What is the same for all sequences, `step` may use from outside.
    ///
    /// There is no gradient.
    #[track_caller]
    pub fn search<'g>(
        &self,
        first: Tensor<'g>,
        states: &[Tensor<'g>],
        step: impl FnOnce(Tensor<'g>, Tensor<'g>, &[Tensor<'g>]) -> (Tensor<'g>, Vec<Tensor<'g>>),
    ) -> (Tensor<'g>, Tensor<'g>) {
        let (g, line) = (first.graph(), Location::caller());
        // What the search makes is of this line, what `step` makes of its own lines.
        let own = || [g.for_line(line), g.for_layer("beam_search")];
        let begin = own();
        let fit = states
            .iter()
            .fold(self.fits(first), |fit, x| fit.and(*x, || stray("a state", *x, self.beam)));
        if let Some(poisoned) = fit.refused("beam_search", first) {
            return (poisoned, poisoned);
        }
        let start = self.start(first, states).list();
        drop(begin);
        let goes_on = |list: &[Tensor<'g>]| {
            let _own = own();
            self.goes_on(&Carried::of(list))
        };
        let last = g.while_lists(&start, goes_on, |list| {
            let now = Carried::of(list);
            let (logits, states) = step(now.last, now.position, &now.states);
            let _own = own();
            self.extend(&now, logits, &states).list()
        });
        let _own = own();
        let Carried { position, open, done, .. } = Carried::of(&last);
        let ended = any(greater(done.scores, NONE), [self.beam]);
        let scores = select(ended, done.scores, open.scores / self.penalty(position));
        let tokens = broadcast(select(ended, done.tokens, open.tokens), &open.tokens.shape());
        (tokens, broadcast(scores, &open.scores.shape()))
    }

    fn fits(&self, first: Tensor<'_>) -> Fit {
        let Self { beam, length, vocab, alpha, .. } = self;
        let fit = Fit::new().integers("first tokens", first);
        let fit = [beam, length, vocab].into_iter().fold(fit, |fit, dim| {
            fit.and(first, || stray("the batch of first tokens", first, *dim))
        });
        let problem = || format!("alpha is at least 0, not {alpha}");
        fit.and(first, || (!(*alpha >= 0.0 && alpha.is_finite())).then(problem))
    }

    /// One unfinished sequence without tokens, in the first place.
    fn start<'g>(&self, first: Tensor<'g>, states: &[Tensor<'g>]) -> Carried<'g> {
        let (g, beam) = (first.graph(), self.beam);
        let with = |shape: Shape, dims: &[Dimension]| {
            let dims = shape.iter().chain(dims.iter().copied()).collect::<Vec<_>>();
            Shape::new(dims).unwrap_or_default()
        };
        let places = with(first.shape(), &[beam]);
        let tokens = g.fill(f64::from(self.end), with(places.clone(), &[self.length]), DType::I32);
        let none = g.fill(NONE, places.clone(), DType::F32);
        let begins = equal(crate::range(g, beam, DType::I32), 0);
        let spread = |x: &Tensor<'g>| {
            let rest: Vec<_> = x.shape().iter().filter(|d| !places.contains(d.name)).collect();
            broadcast(*x, &with(places.clone(), &rest))
        };
        Carried {
            position: g.scalar(0.0, DType::I32),
            last: spread(&first),
            open: Sequences { tokens, scores: broadcast(select(begins, 0.0, none), &places) },
            done: Sequences { tokens, scores: none },
            states: states.iter().map(spread).collect(),
        }
    }

    /// Whether an unfinished sequence may still score better than a finished one. A log probability
    /// does not grow, so its score is at most that over the penalty of the full length.
    fn goes_on<'g>(&self, now: &Carried<'g>) -> Tensor<'g> {
        let longest = self.penalty(now.position.scalar_like(self.length.size as f64));
        let open = max(now.open.scores, [self.beam]) / longest;
        let better = greater(open, min(now.done.scores, [self.beam]));
        let dims: Vec<_> = better.shape().iter().collect();
        logical_and(less(now.position, self.length.size as f64), any(better, dims))
    }

    /// What scores of sequences of so many tokens, i32, are divided by.
    fn penalty<'g>(&self, tokens: Tensor<'g>) -> Tensor<'g> {
        powf((cast(tokens, DType::F32) + 5.0) / 6.0, self.alpha)
    }

    /// The sequences with one token more, and states that follow them.
    fn extend<'g>(
        &self,
        now: &Carried<'g>,
        logits: Tensor<'g>,
        states: &[Tensor<'g>],
    ) -> Carried<'g> {
        let (places, beam) = (now.last.shape(), self.beam);
        if let Some(poisoned) = self.continues(now, logits, states).refused("beam_search", logits) {
            let all = vec![poisoned; now.list().len()];
            return Carried::of(&all);
        }
        // Of each sequence the likeliest tokens, of all these the likeliest: so many that those that do
        // not end fill the beam.
        let sized = |word, size| apart(&places, beam, word).resized(size);
        let each = sized("each", self.vocab.size.min(2 * beam.size));
        let every = sized("every", each.size * beam.size);
        let best = sized("best", every.size.min(2 * beam.size));
        let log_p = log_softmax(cast(logits, DType::F32), self.vocab) + now.open.scores;
        let (scores, tokens) = top_k(log_p, self.vocab, each);
        let flat = |x| merge_dims(x, [beam, each], every.name.as_str());
        let (scores, at) = top_k(flat(scores), every, best);
        let (token, source) = (gather(flat(tokens), at, every), floordiv(at, each.size as f64));
        let tokens = self.written(self.follow(now.open.tokens, source), token, now.position);
        let (ends, position) = (equal(token, self.end), now.position + 1);

        let (open, at) = top_k(select(ends, NONE, scores), best, beam);
        let source = gather(source, at, best);
        let follow = |x: &Tensor<'g>| self.follow(*x, source);

        let both = sized("both", beam.size + best.size);
        let join = |old, new| {
            let rename = |x, dim| rename(x, dim, both.name.as_str());
            concat(rename(old, beam), &[rename(new, best)], both.name)
        };
        let ended = select(ends, scores / self.penalty(position), NONE);
        let (done, which) = top_k(join(now.done.scores, ended), both, beam);
        Carried {
            position,
            last: gather(token, at, best),
            open: Sequences { tokens: gather(tokens, at, best), scores: open },
            done: Sequences {
                tokens: gather(join(now.done.tokens, tokens), which, both),
                scores: done,
            },
            states: states.iter().map(follow).collect(),
        }
    }

    /// What a step returns is what [`search`](Self::search) demands.
    fn continues(&self, now: &Carried<'_>, logits: Tensor<'_>, states: &[Tensor<'_>]) -> Fit {
        let dims = now.last.shape().iter().chain([self.vocab]).collect::<Vec<_>>();
        let fit = Fit::new().floats("logits", logits);
        let fit = fit.exactly("logits", logits, &Shape::new(dims).unwrap_or_default());
        let (given, back) = (now.states.len(), states.len());
        let problem = || format!("a step is given {given} states and returns {back}");
        states.iter().fold(fit.and(logits, || (given != back).then(problem)), |fit, x| {
            fit.has("a state", *x, self.beam)
        })
    }

    /// In each place, x of the place that `source` says.
    fn follow<'g>(&self, x: Tensor<'g>, source: Tensor<'g>) -> Tensor<'g> {
        let from = apart(&x.shape(), self.beam, "from");
        gather(rename(x, self.beam, from.name.as_str()), source, from)
    }

    /// Sequences with a token at a position.
    fn written<'g>(
        &self,
        tokens: Tensor<'g>,
        token: Tensor<'g>,
        position: Tensor<'g>,
    ) -> Tensor<'g> {
        let here = equal(crate::range(tokens.graph(), self.length, DType::I32), position);
        broadcast(select(here, token, tokens), &tokens.shape())
    }
}

/// That a tensor has a dim that the search adds, if it has.
fn stray(what: &str, x: Tensor<'_>, dim: Dimension) -> Option<String> {
    let has = x.shape().contains(dim.name);
    has.then(|| format!("{what} {x:?} must not have the dim {dim} of the search"))
}
