//! From a file's text to a checked configuration.

use super::keys::{Keys, list};
use super::{ConfigError, OptimizerConfig, OptimizerName, RateDecay};
use crate::range::{BELOW_1, FROM_0, TO_1};
use crate::{Adafactor, Decay, Factoring};
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;

const NAMES: [(&str, OptimizerName); 5] = [
    ("adam", OptimizerName::Adam),
    ("adamw", OptimizerName::AdamW),
    ("adafactor", OptimizerName::Adafactor),
    ("sgd", OptimizerName::Sgd),
    ("momentum", OptimizerName::Momentum),
];

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 20;

/// The shape of the learning rate's decay.
#[derive(Clone, Copy, PartialEq, Debug)]
enum DecayShape {
    Linear,
    Polynomial,
    Cosine,
    None,
}

impl OptimizerConfig {
    /// Reads a JSON object.
    ///
    /// ```
    /// let config = mesh_optimize::OptimizerConfig::from_json(r#"{"opt_name": "sgd", "lr": 0.1}"#)?;
    /// assert_eq!(config.name(), mesh_optimize::OptimizerName::Sgd);
    /// # Ok::<(), mesh_optimize::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is no JSON object, a key is unknown or a value is out of its range. The error
    /// lists all problems.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        Self::from_map(json(text)?)
    }

    /// Reads TOML.
    ///
    /// ```
    /// let config = mesh_optimize::OptimizerConfig::from_toml("opt_name = 'sgd'\nlr = 0.1")?;
    /// assert_eq!(config.name(), mesh_optimize::OptimizerName::Sgd);
    /// # Ok::<(), mesh_optimize::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is no TOML, a key is unknown or a value is out of its range. The error lists all
    /// problems.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::from_map(toml(text)?)
    }

    /// The keys of a `.json` or `.toml` file, not checked yet, so that a program can add keys from
    /// its flags before it calls [`from_map`](Self::from_map).
    ///
    /// ```
    /// use mesh_optimize::OptimizerConfig;
    ///
    /// let path = std::env::temp_dir().join(format!("config-{}.toml", std::process::id()));
    /// std::fs::write(&path, "opt_name = 'sgd'")?;
    /// let mut keys = OptimizerConfig::read(&path)?;
    /// keys.insert("lr".to_owned(), 0.1.into());
    /// assert!(OptimizerConfig::from_map(keys).is_ok());
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is longer than 1 MiB, or is neither JSON nor TOML.
    pub fn read(path: &Path) -> Result<Map<String, Value>, ConfigError> {
        let name = path.display();
        let text = mesh_core::files::read_text(path, LONGEST)
            .map_err(|error| ConfigError::one(format!("{name}: {error}")))?;
        let map = match path.extension().and_then(|end| end.to_str()) {
            Some("json") => json(&text),
            Some("toml") => toml(&text),
            _ => return Err(ConfigError::one(format!("{name}: legal are .json and .toml files"))),
        };
        map.map_err(|error| ConfigError::one(format!("{name}: {error}")))
    }

    /// Reads a `.json` or `.toml` file.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("load-{}.json", std::process::id()));
    /// std::fs::write(&path, r#"{"opt_name": "adam", "lr": 1e-3}"#)?;
    /// let config = mesh_optimize::OptimizerConfig::load(&path)?;
    /// assert_eq!(config.name(), mesh_optimize::OptimizerName::Adam);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is neither JSON nor TOML, or has an unknown key or a value out
    /// of its range.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::from_map(Self::read(path)?)
    }

    /// Checks keys and values.
    ///
    /// ```
    /// use mesh_optimize::OptimizerConfig;
    ///
    /// let keys = [("opt_name".to_owned(), "sgd".into()), ("lr".to_owned(), (-1).into())];
    /// let error = OptimizerConfig::from_map(keys.into_iter().collect()).unwrap_err();
    /// assert_eq!(error.problems().len(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// If a key is missing or unknown, or a value is out of its range. The error lists all
    /// problems.
    pub fn from_map(map: Map<String, Value>) -> Result<Self, ConfigError> {
        let mut keys = Keys::new(map);
        let positive = (Excluded(0.0), Unbounded);
        let name = name(&mut keys);
        let mut notes = Vec::new();
        if keys.truth("use_tpu") == Some(true) {
            notes.push(USE_TPU.to_owned());
        }
        let train_steps = keys.whole("train_steps", 1);
        let train_batch_size = keys.whole("train_batch_size", 1);
        let rate = rate(&mut keys, name, train_batch_size);
        let decay = decay(&mut keys, train_steps);
        if decay != RateDecay::None && rate.is_none() && name == Some(OptimizerName::Adafactor) {
            keys.problem(
                "lr_decay: there is no lr that could decay; give one, or leave lr_decay \
                          out: Adafactor's own rate falls by itself"
                    .to_owned(),
            );
        }
        let base = preset(&keys);
        let beta1 = beta1(&mut keys, name);
        let config = Self {
            name: name.unwrap_or(OptimizerName::Sgd),
            rate,
            decay,
            warmup_steps: keys.whole("warmup_steps", 0).unwrap_or(0),
            gradient_clipping: keys.number(
                "gradient_clipping",
                positive,
                "a positive number or null",
            ),
            weight_decay: weight_decay(&mut keys, name),
            beta1,
            beta2: keys.option("beta2", BELOW_1),
            epsilon: keys.option("epsilon", FROM_0),
            momentum: keys.option("momentum", BELOW_1).unwrap_or(0.9),
            nesterov: keys.truth("nesterov").unwrap_or(false),
            adafactor: adafactor(&mut keys, base, beta1),
            train_steps,
            train_batch_size,
            notes,
        };
        keys.finish()?;
        Ok(config)
    }
}

const USE_TPU: &str = "use_tpu: no wrapper is needed: gradients are summed over the mesh because the \
                       layout splits the batch (docs/from-cross-shard-optimizer.md)";

/// Reads what [`OptimizerConfig::from_map`] reads.
impl<'de> serde::Deserialize<'de> for OptimizerConfig {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::from_map(Map::deserialize(source)?).map_err(D::Error::custom)
    }
}

fn json(text: &str) -> Result<Map<String, Value>, ConfigError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(ConfigError::one("an object of keys and values is needed, as {\"lr\": 0.1}")),
        Err(error) => Err(ConfigError::one(format!("this is no JSON: {error}"))),
    }
}

fn toml(text: &str) -> Result<Map<String, Value>, ConfigError> {
    let map: Map<String, Value> = toml::from_str(text)
        .map_err(|error| ConfigError::one(format!("this is no TOML: {error}")))?;
    // TOML has no null: it stands for the numbers that JSON does not have.
    let problem = |(key, _): (&String, &Value)| format!("{key}: a number is neither nan nor inf");
    let problems: Vec<_> = map.iter().filter(|(_, value)| has_null(value)).map(problem).collect();
    if problems.is_empty() { Ok(map) } else { Err(ConfigError::new(problems)) }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(entries) => entries.values().any(has_null),
        other => other.is_null(),
    }
}

fn name(keys: &mut Keys) -> Option<OptimizerName> {
    let name = keys.word("opt_name", &NAMES);
    if name.is_none() && !keys.complained_of("opt_name") {
        let legal = list(&NAMES.map(|(name, _)| name), "or");
        keys.problem(format!("opt_name: it is missing; legal is {legal}"));
    }
    name
}

/// The learning rate: `lr`, or the entry of `lr_by_batch` for this batch size.
fn rate(keys: &mut Keys, name: Option<OptimizerName>, batch: Option<u64>) -> Option<f64> {
    let lr = keys.number("lr", (Excluded(0.0), Unbounded), "a positive number");
    let table = keys.by_number("lr_by_batch");
    match (lr, table, batch) {
        (Some(_), Some(_), _) => {
            keys.problem("lr_by_batch: there is lr already; give one of them".to_owned());
            lr
        }
        (None, Some(_), None) => {
            keys.problem("lr_by_batch: it needs train_batch_size to choose by".to_owned());
            None
        }
        (None, Some(table), Some(batch)) => {
            let found = table.iter().find(|(size, _)| *size == batch).map(|(_, rate)| *rate);
            if found.is_none() {
                let mut sizes: Vec<_> = table.iter().map(|(size, _)| *size).collect();
                sizes.sort_unstable();
                let sizes = list(&sizes, "and");
                keys.problem(format!(
                    "lr_by_batch: it has no rate for a train_batch_size of {batch}; it has {sizes}"
                ));
            }
            found
        }
        (lr, None, _) => {
            let own = name.is_none_or(|name| name == OptimizerName::Adafactor);
            if lr.is_none() && !own && !keys.complained_of("lr") {
                keys.problem("lr: it is missing; only adafactor has a rate of its own".to_owned());
            }
            lr
        }
    }
}

fn decay(keys: &mut Keys, train_steps: Option<u64>) -> RateDecay {
    let shapes = [
        ("linear", DecayShape::Linear),
        ("polynomial", DecayShape::Polynomial),
        ("cosine", DecayShape::Cosine),
        ("none", DecayShape::None),
    ];
    let shape = keys.word("lr_decay", &shapes).unwrap_or(DecayShape::None);
    let end = keys.whole("lr_decay_end", 1).or(train_steps);
    let power = keys.number("lr_decay_power", (Excluded(0.0), Unbounded), "a positive number");
    let cycle = keys.truth("lr_decay_cycle");
    for (key, given) in [("lr_decay_power", power.is_some()), ("lr_decay_cycle", cycle.is_some())] {
        if given && shape != DecayShape::Polynomial {
            keys.problem(format!("{key}: only a lr_decay of \"polynomial\" has it"));
        }
    }
    let Some(end) = end else {
        if shape != DecayShape::None {
            keys.problem(
                "lr_decay: its end is missing; give lr_decay_end or train_steps".to_owned(),
            );
        }
        return RateDecay::None;
    };
    match shape {
        DecayShape::None => RateDecay::None,
        DecayShape::Cosine => RateDecay::Cosine { end },
        DecayShape::Linear => RateDecay::Polynomial { end, power: 1.0, cycle: false },
        DecayShape::Polynomial => {
            let (power, cycle) = (power.unwrap_or(1.0), cycle.unwrap_or(false));
            RateDecay::Polynomial { end, power, cycle }
        }
    }
}

/// `beta1` of Adam or Adafactor; tensor2tensor has another name for Adafactor's.
fn beta1(keys: &mut Keys, name: Option<OptimizerName>) -> Option<f64> {
    let adafactor = name == Some(OptimizerName::Adafactor);
    let own = keys.option("beta1", if adafactor { TO_1 } else { BELOW_1 });
    let theirs = keys.option("optimizer_adafactor_beta1", TO_1);
    if !adafactor {
        return own;
    }
    if own.is_some() && theirs.is_some() && own != theirs {
        keys.problem(
            "optimizer_adafactor_beta1: beta1 says otherwise; give one of them".to_owned(),
        );
    }
    theirs.or(own)
}

fn weight_decay(keys: &mut Keys, name: Option<OptimizerName>) -> Option<f64> {
    let decay = keys.option("weight_decay", FROM_0).filter(|decay| *decay != 0.0);
    match name {
        _ if decay.is_none() => {}
        Some(OptimizerName::Adafactor) => keys.problem(
            "weight_decay: Adafactor has none; the decay of its second moment is ada_decay_rate"
                .to_owned(),
        ),
        Some(OptimizerName::Sgd | OptimizerName::Momentum) => {
            keys.problem("weight_decay: only adam and adamw have it".to_owned());
        }
        _ => {}
    }
    decay
}

/// The options that Adafactor starts from: tensor2tensor's if one of its keys is there, otherwise
/// Mesh TensorFlow's.
fn preset(keys: &Keys) -> Adafactor {
    let theirs = keys.any(|key| {
        key.starts_with("optimizer_adafactor_") || key == "simulated_parameter_quantize_bits"
    });
    if theirs { Adafactor::tensor2tensor() } else { Adafactor::default() }
}

fn adafactor(keys: &mut Keys, base: Adafactor, beta1: Option<f64>) -> Adafactor {
    let threshold = "optimizer_adafactor_clipping_threshold";
    let unclipped = keys.peek(threshold).is_some_and(|value| value.is_null());
    let clipping = keys.number(threshold, 1.0.., "a number from 1 on, or null");
    let scale = keys.truth("optimizer_adafactor_multiply_by_parameter_scale");
    let factored = keys.truth("optimizer_adafactor_factored").unwrap_or(true);
    let epsilons = [keys.option("ada_epsilon1", FROM_0), keys.option("ada_epsilon2", FROM_0)];
    Adafactor {
        multiply_by_parameter_scale: scale.unwrap_or(base.multiply_by_parameter_scale),
        decay: second_moment(keys).unwrap_or(base.decay),
        beta1: beta1.unwrap_or(base.beta1),
        clipping_threshold: if unclipped { None } else { clipping.or(base.clipping_threshold) },
        factoring: if factored { base.factoring } else { Factoring::Never },
        epsilon1: epsilons[0].unwrap_or(base.epsilon1),
        epsilon2: epsilons[1].unwrap_or(base.epsilon2),
        quantize_bits: bits(keys),
        ..base
    }
}

/// The decay of Adafactor's second moment.
fn second_moment(keys: &mut Keys) -> Option<Decay> {
    let constant = keys.option("ada_decay_rate", BELOW_1);
    let types = [("pow", false), ("Adam", true)];
    let adam = keys.word("optimizer_adafactor_decay_type", &types);
    let exponent = keys.option("optimizer_adafactor_memory_exponent", TO_1);
    let beta2 = keys.option("optimizer_adafactor_beta2", BELOW_1);
    let pow = constant.is_none() && adam != Some(true);
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
    if constant.is_some() && adam.is_some() {
        keys.problem(
            "ada_decay_rate: optimizer_adafactor_decay_type says otherwise; give one of them"
                .to_owned(),
        );
    }
    match (constant, adam) {
        (Some(constant), _) => Some(Decay::Constant(constant)),
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
