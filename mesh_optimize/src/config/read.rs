//! From a file's text to a checked configuration.

use super::OptimizerConfig;
use super::decay::RateDecay;
use super::named::{name, pass_over, spared};
use crate::options::{ConfigError, Keys, Prototype, list};
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 20;

impl OptimizerConfig {
    /// Reads a JSON object.
    ///
    /// ```
    /// let config = mesh_optimize::OptimizerConfig::from_json(r#"{"opt_name": "sgd", "lr": 0.1}"#)?;
    /// assert_eq!(config.name(), "sgd");
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
    /// assert_eq!(config.name(), "sgd");
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
    /// assert_eq!(config.name(), "adam");
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
        let entry = name(&mut keys);
        let mut notes = Vec::new();
        if keys.truth("use_tpu") == Some(true) {
            notes.push(USE_TPU.to_owned());
        }
        let train_steps = keys.whole("train_steps", 1);
        let train_batch_size = keys.whole("train_batch_size", 1);
        let rate = rate(&mut keys, train_batch_size);
        let decay = RateDecay::read(&mut keys, train_steps);
        let clipping = keys.number("gradient_clipping", positive, "a positive number or null");
        let units = keys.number("adaptive_clipping", positive, "a positive number or null");
        let warmup_steps = keys.whole("warmup_steps", 0).unwrap_or(0);
        decay.check(&mut keys, warmup_steps);
        let prototype = entry.and_then(|entry| spared(entry, &mut keys));
        pass_over(entry, &mut keys);
        if let Some(prototype) = &prototype {
            own_rate(&mut keys, &**prototype, rate, decay);
        }
        keys.finish()?;
        let (Some(entry), Some(prototype)) = (entry, prototype) else {
            return Err(ConfigError::one("opt_name: it is missing"));
        };
        Ok(Self {
            entry,
            prototype,
            rate,
            decay,
            warmup_steps,
            gradient_clipping: clipping,
            adaptive_clipping: units,
            train_steps,
            train_batch_size,
            notes,
        })
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

/// The learning rate: `lr`, or the entry of `lr_by_batch` for this batch size.
fn rate(keys: &mut Keys, batch: Option<u64>) -> Option<f64> {
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
        (lr, None, _) => lr,
    }
}

/// Without a rate, the optimizer's own is used, if it has one.
fn own_rate(keys: &mut Keys, prototype: &dyn Prototype, rate: Option<f64>, decay: RateDecay) {
    let complained = keys.complained_of("lr") || keys.complained_of("lr_by_batch");
    if rate.is_some() || complained {
        return;
    }
    if prototype.own_rate().is_none() {
        keys.problem("lr: it is missing; only adafactor has a rate of its own".to_owned());
    } else if decay != RateDecay::None {
        keys.problem(
            "lr_decay: there is no lr that could decay; give one, or leave lr_decay out: Adafactor's own \
             rate falls by itself"
                .to_owned(),
        );
    }
}
