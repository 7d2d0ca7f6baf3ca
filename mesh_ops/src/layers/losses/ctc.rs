//! Connectionist temporal classification: how likely a sequence of labels is, whatever its timing.

use crate::elementwise::{
    cast, equal, exp, greater, less, log, logical_and, maximum, not_equal, select,
};
use crate::layers::fit::Fit;
use crate::layers::softmax::log_softmax;
use crate::reduce::sum;
use crate::room::*;

/// The logarithm of no probability: far from all others, and finite, so that differences of it are numbers.
const NEVER: f64 = -1e30;

/// The negative logarithm of the probability of a sequence of labels, summed over all ways in which the positions
/// of a longer sequence can spell it: each label once or several times, with blanks between (Graves et al.,
/// Connectionist Temporal Classification, 2006, equations 6 and 8).
///
/// The recursion runs along `time` by `scan`, so `time` cannot be split; labels and classes can. It computes in f32
/// at least.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Ctc;
/// # let g = mesh_ops::graph();
/// let (batch, time, classes) = (dim("batch", 4), dim("time", 50), dim("classes", 29));
/// let labels = dim("labels", 12);
/// let logits = g.input("logits", [batch, time, classes], F32);
/// let spelt = g.input("spelt", [batch, labels], I32);
/// let [times, lengths] = ["times", "lengths"].map(|name| g.input(name, [batch], I32));
/// let loss = Ctc { time, classes, labels, blank: 0 }.apply(logits, spelt, times, lengths);
/// assert_eq!(loss.shape().to_string(), "[batch:4]");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ctc {
    /// Positions of the logits.
    pub time: Dimension,
    /// Labels that there are, the blank among them.
    pub classes: Dimension,
    /// Positions of the sequence of labels.
    pub labels: Dimension,
    /// The class that spells nothing.
    pub blank: usize,
}

/// What the recursion carries: the probabilities, as logarithms, of having spelt a part of the labels.
#[derive(Clone, Copy)]
struct Spelt<'g> {
    /// Nothing.
    nothing: Tensor<'g>,
    /// All up to each label, which the last position spells.
    label: Tensor<'g>,
    /// All up to each label, and a blank at the last position.
    blank: Tensor<'g>,
}

impl Ctc {
    /// The loss of each example: infinite, without a gradient, where its positions are too few for its labels.
    ///
    /// `logits` have the dims `time` and `classes`, `labels` (i32) the dim `labels`; of each example the first
    /// `times` positions and the first `lengths` labels (both i32, without these dims) count. Labels and lengths
    /// have the other dims of the logits, or less.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        logits: Tensor<'g>,
        labels: Tensor<'g>,
        times: Tensor<'g>,
        lengths: Tensor<'g>,
    ) -> Tensor<'g> {
        let _layer = logits.graph().for_layer("ctc");
        let _caller = logits.graph().for_caller();
        if let Some(poisoned) = self.refused(logits, labels, times, lengths) {
            return poisoned;
        }
        let examples = logits.shape().without(&[self.time.name, self.classes.name]);
        let log_p = log_softmax(cast(logits, logits.dtype().reduction()), self.classes);
        let of_labels = crate::gather(log_p, labels, self.classes);
        let class = crate::range(logits.graph(), self.classes, DType::I32);
        let blank = equal(class, self.blank as f64);
        let of_blank = sum(select(blank, log_p, 0.0), [self.classes]);

        let spelt = self.start(of_labels, &examples);
        let follows = self.follows(labels);
        let positions = crate::range(logits.graph(), self.time, DType::I32);
        let ([nothing, label, blank], []) = logits.graph().scan(
            self.time,
            [spelt.nothing, spelt.label, spelt.blank],
            [of_labels, of_blank, positions],
            |[nothing, label, blank], [of_label, of_blank, position]| {
                let before = Spelt { nothing, label, blank };
                let after = self.extended(before, of_label, of_blank, follows);
                let counts = less(position, times);
                let next = |after, before| select(counts, after, before);
                let next = [
                    next(after.nothing, before.nothing),
                    next(after.label, before.label),
                    next(after.blank, before.blank),
                ];
                (next, [])
            },
        );
        self.all(Spelt { nothing, label, blank }, lengths)
    }

    #[track_caller]
    fn refused<'g>(
        &self,
        logits: Tensor<'g>,
        labels: Tensor<'g>,
        times: Tensor<'g>,
        lengths: Tensor<'g>,
    ) -> Option<Tensor<'g>> {
        let examples = logits.shape().without(&[self.time.name, self.classes.name]);
        let with_labels: Vec<_> = examples.iter().chain([self.labels]).collect();
        let fit = Fit::new().floats("logits", logits).has("logits", logits, self.time);
        let fit = fit.has("logits", logits, self.classes).integers("labels", labels);
        let fit = fit.and(logits, || {
            let has = examples.contains(self.labels.name);
            has.then(|| {
                format!("logits {logits:?} must not have the dim {} of labels", self.labels)
            })
        });
        let fit = fit.has("labels", labels, self.labels);
        let fit = fit.among("labels", labels, &Shape::new(with_labels).unwrap_or_default());
        let fit = [("times", times), ("lengths", lengths)]
            .into_iter()
            .fold(fit, |fit, (what, x)| fit.integers(what, x).among(what, x, &examples));
        let fit = fit.and(logits, || {
            let problem =
                || format!("the blank is a class of {}, not {}", self.classes, self.blank);
            (self.blank >= self.classes.size).then(problem)
        });
        fit.refused("ctc", logits)
    }

    /// Before the first position nothing is spelt.
    fn start<'g>(&self, of_labels: Tensor<'g>, examples: &Shape) -> Spelt<'g> {
        let (g, dtype) = (of_labels.graph(), of_labels.dtype());
        let never = g.fill(NEVER, of_labels.shape().without(&[self.time.name]), dtype);
        Spelt { nothing: g.fill(0.0, examples, dtype), label: never, blank: never }
    }

    /// Whether a label may follow the label before it without a blank: it differs, and is not the first.
    fn follows<'g>(&self, labels: Tensor<'g>) -> Tensor<'g> {
        let before = crate::shift(labels, self.labels, 1, false);
        let place = crate::range(labels.graph(), self.labels, DType::I32);
        logical_and(not_equal(labels, before), greater(place, 0.0))
    }

    /// After one more position.
    fn extended<'g>(
        &self,
        before: Spelt<'g>,
        of_label: Tensor<'g>,
        of_blank: Tensor<'g>,
        follows: Tensor<'g>,
    ) -> Spelt<'g> {
        let place = crate::range(of_label.graph(), self.labels, DType::I32);
        let one_less = |x| crate::shift(x, self.labels, 1, false);
        let behind_blank = select(equal(place, 0.0), before.nothing, one_less(before.blank));
        let behind_label = select(follows, one_less(before.label), NEVER);
        Spelt {
            nothing: before.nothing + of_blank,
            label: log_sum(&[before.label, behind_blank, behind_label]) + of_label,
            blank: log_sum(&[before.blank, before.label]) + of_blank,
        }
    }

    /// The loss, when all positions are over: of what ends with the last label, or with a blank behind it.
    fn all<'g>(&self, spelt: Spelt<'g>, lengths: Tensor<'g>) -> Tensor<'g> {
        let place = crate::range(lengths.graph(), self.labels, DType::I32);
        let last = equal(place, lengths - 1);
        let of_last = |x| sum(select(last, x, 0.0), [self.labels]);
        let some = log_sum(&[of_last(spelt.label), of_last(spelt.blank)]);
        let log_p = select(equal(lengths, 0.0), spelt.nothing, some);
        select(less(log_p, NEVER / 2.0), f64::INFINITY, -log_p)
    }
}

/// `log(sum(exp(x)))` of finite tensors, element by element.
fn log_sum<'g>(terms: &[Tensor<'g>]) -> Tensor<'g> {
    let greatest = terms[1..].iter().fold(terms[0], |most, x| maximum(most, *x)).stop_gradient();
    let sum = terms[1..].iter().fold(exp(terms[0] - greatest), |sum, x| sum + exp(*x - greatest));
    log(sum) + greatest
}
