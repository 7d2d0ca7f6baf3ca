//! Beam search, against a search in plain Rust and against all sequences there are.

use super::conform;
use super::meanings::logsumexp;
use mesh_ops::layers::BeamSearch;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Case, Dense};

const BATCH: usize = 4;
const VOCAB: usize = 6;
const END: usize = 1;

/// A model of `VOCAB` tokens: the logits of the next depend on the last one and on a decaying sum
/// of those before.
struct Model<'a> {
    table: &'a Dense,
    bias: &'a Dense,
}

/// A sequence of an example.
#[derive(Clone)]
struct Sequence {
    tokens: Vec<usize>,
    last: usize,
    sum: f64,
    log_p: f64,
}

impl Sequence {
    fn ended(&self) -> bool {
        self.tokens.last() == Some(&END)
    }

    fn score(&self, alpha: f64) -> f64 {
        self.log_p / ((5.0 + self.tokens.len() as f64) / 6.0).powf(alpha)
    }
}

impl Model<'_> {
    fn continued(&self, before: &Sequence) -> Vec<Sequence> {
        let logit =
            |v: usize| self.table.data[before.last * VOCAB + v] + before.sum * self.bias.data[v];
        let logits: Vec<_> = (0..VOCAB).map(logit).collect();
        let one = |last: usize| Sequence {
            tokens: before.tokens.iter().copied().chain([last]).collect(),
            last,
            sum: 0.5 * before.sum + before.last as f64 / VOCAB as f64,
            log_p: before.log_p + logits[last] - logsumexp(&logits),
        };
        (0..VOCAB).map(one).collect()
    }
}

/// The best come first.
fn sort(sequences: &mut [Sequence], value: impl Fn(&Sequence) -> f64) {
    sequences.sort_by(|a, b| value(b).total_cmp(&value(a)));
}

/// The search as tensor2tensor describes it, without the end before the full length.
fn searched(model: &Model<'_>, first: Sequence, search: &BeamSearch) -> Vec<Sequence> {
    let (size, score) = (search.beam.size, |s: &Sequence| s.score(search.alpha));
    let (mut open, mut done) = (vec![first], Vec::new());
    for _ in 0..search.length.size {
        let mut next: Vec<_> = open.iter().flat_map(|s| model.continued(s)).collect();
        sort(&mut next, |s| s.log_p);
        next.truncate(2 * size);
        let (ended, mut unfinished): (Vec<_>, Vec<_>) =
            next.into_iter().partition(|s| s.ended() && search.end >= 0);
        unfinished.truncate(size);
        open = unfinished;
        done.extend(ended);
        sort(&mut done, score);
        done.truncate(size);
    }
    if done.is_empty() { open } else { done }
}

/// All sequences, best first.
fn all(model: &Model<'_>, first: Sequence, search: &BeamSearch) -> Vec<Sequence> {
    let (mut open, mut done) = (vec![first], Vec::new());
    for _ in 0..search.length.size {
        let next = open.iter().flat_map(|s| model.continued(s));
        let (ended, rest): (Vec<_>, Vec<_>) = next.partition(Sequence::ended);
        (done, open) = ([done, ended].concat(), rest);
    }
    sort(&mut done, |s| s.score(search.alpha));
    done
}

type Search = fn(&Model<'_>, Sequence, &BeamSearch) -> Vec<Sequence>;

/// A case that shows the best `shown` sequences of a search, which `judge` finds as well.
fn case(name: &str, search: BeamSearch, shown: usize, judge: Search) -> Case {
    let (told, beam) = (search.clone(), search.beam);
    Case::several(name, move |_, x| {
        let [first, sum, table, bias] = x[..4].try_into().unwrap();
        let (tokens, scores) = search.search(first, &[sum], |last, _, states| {
            let logits = table.gather(last, dim("last", VOCAB)) + states[0] * bias;
            let share = last.cast(F32) / VOCAB as f64;
            (logits, vec![states[0] * 0.5 + share])
        });
        [tokens, scores].map(|x| mesh_ops::slice(x, beam.resized(shown), 0)).to_vec()
    })
    .without_gradient()
    .computes_all(move |x, types| {
        let model = Model { table: x[2], bias: x[3] };
        let found: Vec<_> = (0..BATCH)
            .map(|b| {
                let first = x[0].data[b] as usize;
                let (tokens, sum) = (Vec::new(), x[1].data[b]);
                judge(&model, Sequence { tokens, last: first, sum, log_p: 0.0 }, &told)
            })
            .collect();
        let of = |at: &At| &found[at.along("batch")][at.along("beam")];
        let token = |at: &At| of(at).tokens.get(at.along("length")).copied().unwrap_or(END) as f64;
        let score = |at: &At| of(at).score(told.alpha);
        vec![Dense::each(&types[0], token), Dense::each(&types[1], score)]
    })
    .indices("first", "batch:4", VOCAB as i32)
    .normal("sum", "batch:4", F32)
    .normal("table", "last:6;vocab:6", F32)
    .normal("bias", "vocab:6", F32)
}

#[test]
fn beam_search() {
    let search = |beam, length, end| {
        BeamSearch::new(dim("beam", beam), dim("length", length), dim("vocab", VOCAB), end)
    };
    let ends = END as i32;
    let by_probability = BeamSearch { alpha: 0.0, ..search(4, 3, -1) };
    // The ops are those of the first case, which says what layouts do.
    let alone = |case: Case| case.meshes(&[]);
    conform(
        "beam_search",
        vec![
            case("beam_search", search(4, 5, ends), 2, searched).meshes(&["a:2", "m:2;n:2"]),
            alone(case("beam_search: nothing ends", by_probability, 4, searched)),
            alone(case("beam_search: all sequences", search(36, 2, ends), 5, all)),
        ],
    );
}
