//! Adafactor in configurations: the keys of GPT-style Mesh TensorFlow models and of tensor2tensor.

use super::{Adafactor, Decay, Factoring};
use crate::Schedule;
use crate::options::{
    About, BELOW_1, FROM_0, FROM_1, Field, Keys, Listed, Setting, TO_1, settings,
};

impl Listed for Adafactor {
    const ABOUT: About = About {
        name: "adafactor",
        rate: 1e-2,
        formula: "\
            vr <- b vr + (1 - b) mean_d0(g² + eps1)        vc <- b vc + (1 - b) mean_d1(g² + eps1)\n\
            u  = g / sqrt(vr / mean_d1(vr)) / sqrt(vc)        u = u / max(1, rms(u) / clip)\n\
            w <- w - lr max(rms(w), eps2) u                b = 1 - (t + 1)^-0.8",
        paper: "Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 and 5",
        peers: "Without lr its rate is min((t + 1)^-½, 0.01). PyTorch's Adafactor has none of the momentum, \
                tensor2tensor's and Mesh TensorFlow's defaults differ in what is factored.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::default().learning_rate(rate)
    }

    fn with_rate(self, rate: Schedule) -> Self {
        self.learning_rate(rate)
    }

    fn own_rate(&self) -> Option<Schedule> {
        Some(self.relative_rate())
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {
            "beta1": beta1 in TO_1,
            "ada_epsilon1": epsilon1 in FROM_0,
            "ada_epsilon2": epsilon2 in FROM_0,
            "optimizer_adafactor_multiply_by_parameter_scale": multiply_by_parameter_scale,
            "optimizer_adafactor_clipping_threshold": clipping_threshold in FROM_1,
        }
    }

    fn read(keys: &mut Keys) -> Self {
        refuse_weight_decay(keys);
        let base = preset(keys);
        let beta1 = beta1(keys);
        let mut clipping_threshold = base.clipping_threshold;
        clipping_threshold.read(keys, "optimizer_adafactor_clipping_threshold", Some(FROM_1));
        let scale = keys.truth("optimizer_adafactor_multiply_by_parameter_scale");
        let factored = keys.truth("optimizer_adafactor_factored").unwrap_or(true);
        let epsilon1 = keys.changing("ada_epsilon1", FROM_0).unwrap_or(base.epsilon1);
        let epsilon2 = keys.changing("ada_epsilon2", FROM_0).unwrap_or(base.epsilon2);
        Self {
            multiply_by_parameter_scale: scale.unwrap_or(base.multiply_by_parameter_scale),
            decay: second_moment(keys).unwrap_or(base.decay),
            beta1: beta1.unwrap_or(base.beta1),
            clipping_threshold,
            factoring: if factored { base.factoring } else { Factoring::Never },
            epsilon1,
            epsilon2,
            quantize_bits: bits(keys),
            ..base
        }
    }
}

fn refuse_weight_decay(keys: &mut Keys) {
    if keys.option("weight_decay", FROM_0).is_some_and(|decay| decay != 0.0) {
        keys.problem(
            "weight_decay: Adafactor has none; the decay of its second moment is ada_decay_rate"
                .to_owned(),
        );
    }
}

/// `beta1`; tensor2tensor has another name for it.
fn beta1(keys: &mut Keys) -> Option<Schedule> {
    let both = ["beta1", "optimizer_adafactor_beta1"];
    let [one, other] = both.map(|key| keys.peek(key).filter(|value| !value.is_null()).cloned());
    let [own, theirs] = both.map(|key| keys.changing(key, TO_1));
    if own.is_some() && theirs.is_some() && one != other {
        keys.problem(
            "optimizer_adafactor_beta1: beta1 says otherwise; give one of them".to_owned(),
        );
    }
    theirs.or(own)
}

/// The options that Adafactor starts from: tensor2tensor's if one of its keys is there, otherwise
/// Mesh TensorFlow's.
fn preset(keys: &Keys) -> Adafactor {
    let theirs = keys.any(|key| {
        key.starts_with("optimizer_adafactor_") || key == "simulated_parameter_quantize_bits"
    });
    if theirs { Adafactor::tensor2tensor() } else { Adafactor::default() }
}

/// The decay of Adafactor's second moment.
fn second_moment(keys: &mut Keys) -> Option<Decay> {
    let given = keys.changing("ada_decay_rate", BELOW_1);
    let types = [("pow", false), ("Adam", true)];
    let adam = keys.word("optimizer_adafactor_decay_type", &types);
    let exponent = keys.option("optimizer_adafactor_memory_exponent", TO_1);
    let beta2 = keys.option("optimizer_adafactor_beta2", BELOW_1);
    let pow = given.is_none() && adam != Some(true);
    let ignored = [
        ("optimizer_adafactor_memory_exponent", exponent.is_some() && !pow, "pow"),
        ("optimizer_adafactor_beta2", beta2.is_some() && adam != Some(true), "Adam"),
    ];
    for (key, ignored, of) in ignored {
        if ignored {
            keys.problem(format!(
                "{key}: only an optimizer_adafactor_decay_type of \"{of}\" has it"
            ));
        }
    }
    if given.is_some() && adam.is_some() {
        keys.problem(
            "ada_decay_rate: optimizer_adafactor_decay_type says otherwise; give one of them"
                .to_owned(),
        );
    }
    match (given, adam) {
        (Some(decay), _) => Some(Decay::Given(decay)),
        (None, Some(true)) => Some(Decay::Adam { beta2: beta2.unwrap_or(0.999) }),
        (None, _) => exponent.map(|exponent| Decay::Pow { exponent, offset: 0 }),
    }
}

/// `simulated_parameter_quantize_bits`; 0 stands for none.
fn bits(keys: &mut Keys) -> Option<u32> {
    let key = "simulated_parameter_quantize_bits";
    let bits = keys.whole(key, 0).filter(|bits| *bits != 0)?;
    if !(2..=22).contains(&bits) {
        keys.problem(format!("{key}: {bits} is not legal; legal is 2 to 22, or 0 for none"));
    }
    u32::try_from(bits).ok()
}
