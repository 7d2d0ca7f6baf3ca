//! Muon in configurations.

use super::{JORDAN, Muon, MuonScale};
use crate::options::{
    About, BELOW_1, FROM_0, Field, Keys, Listed, Range, Setting, decayed_settings,
};
use crate::{AdamW, Schedule};

/// More than anybody needs: a singular value of 1e-38 is 1 after 75 rounds.
const MOST_ROUNDS: f64 = 100.0;

const WORDS: &[(&str, MuonScale)] = &[
    ("width", MuonScale::Width),
    ("rms", MuonScale::Rms { factor: 0.2 }),
    ("spectral", MuonScale::Spectral),
    ("one", MuonScale::One),
];

impl Listed for Muon {
    const ABOUT: About = About {
        name: "muon",
        rate: 1e-3,
        formula: "\
            m <- mu m + (1 - mu) g        x = (mu m + (1 - mu) g) / norm\n\
            x <- a x + (b y + c y y) x,  y = x x'        (for each round)\n\
            w <- w - lr (0.2 sqrt(max(fan-in, fan-out)) x + wd w)",
        paper: "Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv 2502.16982, \
                equation 4",
        peers: "PyTorch's and optax's scale is `width`; optax corrects averages for their start and does not \
                decay. PyTorch iterates in bf16. Here what is no matrix has AdamW's update.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        let others = AdamW::new(learning_rate.clone()).into();
        Self { learning_rate, others, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "momentum": momentum in BELOW_1,
            "nesterov": nesterov,
            "bias_correction": bias_correction,
            "epsilon": epsilon in FROM_0,
            "rounds": coefficients in FROM_0,
            "scale": scale in FROM_0,
            "no_matrices": matrices.exclude,
        }
    }
}

/// The number of rounds, each with the coefficients of Jordan et al.
impl Field for Vec<[f64; 3]> {
    fn read(&mut self, keys: &mut Keys, key: &'static str, _: Option<Range>) {
        if let Some(rounds) = keys.number(key, 0.0..=MOST_ROUNDS, &self.legal(None)) {
            *self = vec![JORDAN; rounds as usize];
        }
    }
    fn text(&self) -> String {
        self.len().to_string()
    }
    fn legal(&self, _: Option<Range>) -> String {
        format!("a whole number from 0 to {MOST_ROUNDS}")
    }
    /// Something out of every range if a coefficient is no finite number.
    fn number(&self) -> Option<f64> {
        let finite = self.iter().flatten().all(|x| x.is_finite());
        Some(if finite { self.len() as f64 } else { f64::NAN })
    }
}

/// The word for it; the factor of `rms` is 0.2.
impl Field for MuonScale {
    fn read(&mut self, keys: &mut Keys, key: &'static str, _: Option<Range>) {
        if let Some(scale) = keys.word(key, WORDS) {
            *self = scale;
        }
    }
    fn text(&self) -> String {
        let word = WORDS.iter().find(|(_, scale)| scale == self);
        word.map_or_else(|| format!("{self:?}"), |(word, _)| (*word).to_owned())
    }
    fn legal(&self, _: Option<Range>) -> String {
        "`width`, `rms`, `spectral` or `one`".to_owned()
    }
    fn number(&self) -> Option<f64> {
        if let Self::Rms { factor } = self { Some(*factor) } else { None }
    }
}
