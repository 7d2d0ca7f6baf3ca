//! The keys of the learning rate's decay.

use crate::Schedule;
use crate::options::Keys;
use crate::schedule::{
    CosineRestarts, Exponential, OneCycle, WarmupStableDecay, cosine_decay,
    cyclic_polynomial_decay, polynomial_decay,
};
use std::ops::Bound::{Excluded, Unbounded};

/// The fraction of the largest rate that is left when a decay has ended.
const LEFT: f64 = 0.1;

/// How the rate falls; `end` is the step at which it has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RateDecay {
    /// The rate stays.
    None,
    /// The rate falls along a polynomial; a power of 1 is a line.
    Polynomial { end: u64, power: f64, cycle: bool },
    /// The rate falls along half a cosine.
    Cosine { end: u64 },
    /// The rate falls by equal factors, and goes on doing so.
    Exponential { end: u64 },
    /// The rate stays, and falls in the last `steps`.
    Stable { end: u64, steps: u64 },
    /// The rate falls along half a cosine in `steps`, and again.
    Restarts { steps: u64, growth: f64 },
    /// The rate rises from far below and falls.
    OneCycle { end: u64 },
}

/// The word of `lr_decay`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Word {
    Linear,
    Polynomial,
    Cosine,
    Exponential,
    Stable,
    Restarts,
    OneCycle,
    None,
}

const WORDS: [(&str, Word); 8] = [
    ("linear", Word::Linear),
    ("polynomial", Word::Polynomial),
    ("cosine", Word::Cosine),
    ("exponential", Word::Exponential),
    ("stable", Word::Stable),
    ("restarts", Word::Restarts),
    ("one_cycle", Word::OneCycle),
    ("none", Word::None),
];

impl RateDecay {
    pub(super) fn read(keys: &mut Keys, train_steps: Option<u64>) -> Self {
        let word = keys.word("lr_decay", &WORDS).unwrap_or(Word::None);
        let end = keys.whole("lr_decay_end", 1).or(train_steps);
        let positive = (Excluded(0.0), Unbounded);
        let power = keys.number("lr_decay_power", positive, "a positive number");
        let cycle = keys.truth("lr_decay_cycle");
        let steps = keys.whole("lr_decay_steps", 1);
        let growth = keys.number("lr_decay_growth", 1.0.., "a number from 1 on");
        let polynomial: (&[Word], _) = (&[Word::Polynomial], "a lr_decay of \"polynomial\" has it");
        let owners = [
            ("lr_decay_power", power.is_some(), polynomial),
            ("lr_decay_cycle", cycle.is_some(), polynomial),
            (
                "lr_decay_steps",
                steps.is_some(),
                (
                    &[Word::Stable, Word::Restarts],
                    "lr_decays of \"stable\" and \"restarts\" have it",
                ),
            ),
            (
                "lr_decay_growth",
                growth.is_some(),
                (&[Word::Restarts], "a lr_decay of \"restarts\" has it"),
            ),
        ];
        for (key, given, (words, who)) in owners {
            if given && !words.contains(&word) {
                keys.problem(format!("{key}: only {who}"));
            }
        }
        let Some(end) = end else {
            if word != Word::None {
                keys.problem(
                    "lr_decay: its end is missing; give lr_decay_end or train_steps".to_owned(),
                );
            }
            return Self::None;
        };
        let steps = steps.unwrap_or_else(|| (end / 5).max(1));
        match word {
            Word::None => Self::None,
            Word::Linear => Self::Polynomial { end, power: 1.0, cycle: false },
            Word::Polynomial => {
                let (power, cycle) = (power.unwrap_or(1.0), cycle.unwrap_or(false));
                Self::Polynomial { end, power, cycle }
            }
            Word::Cosine => Self::Cosine { end },
            Word::Exponential => Self::Exponential { end },
            Word::Stable => Self::Stable { end, steps },
            Word::Restarts => Self::Restarts { steps, growth: growth.unwrap_or(1.0) },
            Word::OneCycle => Self::OneCycle { end },
        }
    }

    /// Reports what does not fit together.
    pub(super) fn check(self, keys: &mut Keys, warmup: u64) {
        match self {
            Self::Stable { end, steps } if steps.saturating_add(warmup) > end => {
                keys.problem(format!(
                    "lr_decay_steps: {steps} and {warmup} of warm-up are more than all {end}"
                ));
            }
            Self::OneCycle { .. } if warmup > 0 => {
                keys.problem("warmup_steps: a lr_decay of \"one_cycle\" has its own".to_owned());
            }
            // Fewer leave no step to rise in.
            Self::OneCycle { end } if end < 4 => {
                keys.problem(format!("lr_decay: a cycle has 4 steps or more, not {end}"));
            }
            _ => {}
        }
    }

    /// The rate with this decay, without a warm-up.
    pub(super) fn rate(self, rate: f64) -> Schedule {
        let left = rate * LEFT;
        match self {
            Self::None => rate.into(),
            Self::Cosine { end } => cosine_decay(rate, end, LEFT),
            Self::Polynomial { end, power, cycle: false } => {
                polynomial_decay(rate, left, end, power)
            }
            Self::Polynomial { end, power, cycle: true } => {
                cyclic_polynomial_decay(rate, left, end, power)
            }
            Self::Exponential { end } => Exponential::new(rate, end, LEFT).into(),
            Self::Stable { end, steps } => {
                WarmupStableDecay { end: left, ..WarmupStableDecay::new(rate, 0, end, steps) }
                    .into()
            }
            Self::Restarts { steps, growth } => {
                CosineRestarts { growth, end: left, ..CosineRestarts::new(rate, steps) }.into()
            }
            Self::OneCycle { end } => OneCycle::new(rate, end).into(),
        }
    }
}
