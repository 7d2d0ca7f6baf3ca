//! The optimizer that a configuration names, with its options, and what becomes of others' options.

use crate::list::optimizers;
use crate::options::{ConfigError, Entry, Keys, Prototype, list};
use crate::{Optimizer, Schedule};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The optimizers of GPT-style models. A file that names one of them may have the others' keys, too.
const PUBLISHED: [&str; 5] = ["adam", "adamw", "adafactor", "sgd", "momentum"];

/// The keys that such files have whichever of the optimizers they name, with those of tensor2tensor.
fn is_published(key: &str) -> bool {
    const KEYS: [&str; 9] = [
        "beta1",
        "beta2",
        "epsilon",
        "momentum",
        "nesterov",
        "ada_epsilon1",
        "ada_epsilon2",
        "ada_decay_rate",
        "simulated_parameter_quantize_bits",
    ];
    KEYS.contains(&key) || key.starts_with("optimizer_adafactor_")
}

/// What `exclude` is in a configuration that lacks it: norms and biases are not decayed.
const SPARED: [&str; 2] = ["norm", "bias"];

impl Entry {
    /// The optimizer with a rate and some of its options, named and checked as in a configuration; others
    /// have their defaults.
    ///
    /// ```
    /// let adamw = mesh_optimize::optimizers().iter().find(|entry| entry.name() == "adamw").unwrap();
    /// let options = [("beta1".to_owned(), 0.95.into())].into_iter().collect();
    /// let optimizer = adamw.optimizer(&3e-4.into(), options)?;
    /// let error = adamw.optimizer(&3e-4.into(), [("epsilon".to_owned(), (-2).into())].into_iter().collect());
    /// let error = error.err().unwrap().to_string();
    /// assert_eq!(error, "epsilon: -2 is not legal; legal is a number from 0 on, or `{from, to, steps}` of such");
    /// # Ok::<(), mesh_optimize::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it has no option of a name, or a value is out of its range. The error lists all problems.
    pub fn optimizer(
        &self,
        rate: &Schedule,
        options: Map<String, Value>,
    ) -> Result<Box<dyn Optimizer>, ConfigError> {
        let mut keys = Keys::new(options);
        let prototype = prototype(self, &mut keys);
        refuse_strangers(self, &mut keys);
        keys.finish()?;
        prototype
            .map(|prototype| prototype.optimizer(rate))
            .ok_or_else(|| ConfigError::one("inner: it is missing"))
    }
}

/// The optimizer that `opt_name` names.
pub(super) fn name(keys: &mut Keys) -> Option<&'static Entry> {
    let names: Vec<_> = optimizers().iter().map(|entry| (entry.name(), entry)).collect();
    let found = keys.word("opt_name", &names);
    if found.is_none() && !keys.complained_of("opt_name") {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        keys.problem(format!("opt_name: it is missing; legal is {}", list(&names, "or")));
    }
    found
}

/// The optimizer's options; norms and biases are not decayed unless `exclude` says otherwise.
pub(super) fn spared(entry: &Entry, keys: &mut Keys) -> Option<Arc<dyn Prototype>> {
    if entry.options().iter().any(|option| option.name == "exclude") {
        keys.supply("exclude", Value::from(SPARED.map(str::to_owned).to_vec()));
    }
    prototype(entry, keys)
}

/// The optimizer's options. Of an optimizer around another one, `inner` has the other's name and options.
fn prototype(entry: &Entry, keys: &mut Keys) -> Option<Arc<dyn Prototype>> {
    if !entry.wraps() {
        return entry.read(keys, None);
    }
    let inner = inner(entry, keys);
    if inner.is_none() {
        // What is wrong with it is said; its own options are not.
        let own = entry.options();
        let _ = keys.part(|key| own.iter().any(|option| option.name == key));
    }
    entry.read(keys, Some(inner?))
}

/// What an optimizer is around: the object under `inner`.
fn inner(outer: &Entry, keys: &mut Keys) -> Option<Arc<dyn Prototype>> {
    let Some(map) = keys.inner("inner") else {
        if !keys.complained_of("inner") {
            let example = r#"as {"opt_name": "adamw", "beta2": 0.95}"#;
            keys.problem(format!(
                "inner: {} is around another optimizer; give that one's name and options, {example}",
                outer.name()
            ));
        }
        return None;
    };
    let mut own = Keys::new(map);
    let entry = name(&mut own);
    let found = entry.and_then(|entry| spared(entry, &mut own));
    if let Some(entry) = entry {
        refuse_strangers(entry, &mut own);
    }
    match own.finish() {
        Ok(()) => found,
        Err(error) => {
            error.problems().iter().for_each(|problem| keys.problem(format!("inner: {problem}")));
            None
        }
    }
}

/// Checks the keys of other optimizers: those of the published ones have no effect among each other, others
/// are errors.
pub(super) fn pass_over(entry: Option<&Entry>, keys: &mut Keys) {
    if entry.is_none_or(|entry| PUBLISHED.contains(&entry.name())) {
        let mut others = keys.part(is_published);
        for other in optimizers().iter().filter(|entry| PUBLISHED.contains(&entry.name())) {
            other.read(&mut others, None);
        }
        keys.absorb(others);
    }
    match entry {
        Some(entry) => refuse_strangers(entry, keys),
        // The name is an error already.
        None => {
            let _ = keys.part(|key| key == "inner" || !owners(key).is_empty());
        }
    }
}

/// The optimizers that have an option. Some of Adafactor's keys are no options of their own.
fn owners(key: &str) -> Vec<&'static str> {
    let has = |entry: &&Entry| entry.options().iter().any(|option| option.name == key);
    let owners: Vec<_> = optimizers().iter().filter(has).map(Entry::name).collect();
    if owners.is_empty() && is_published(key) { vec!["adafactor"] } else { owners }
}

/// Says whose the keys are that this optimizer does not have. No weight decay is none.
fn refuse_strangers(entry: &Entry, keys: &mut Keys) {
    if keys.peek("weight_decay").is_some_and(|decay| decay.as_f64() == Some(0.0) || decay.is_null())
    {
        let _ = keys.part(|key| key == "weight_decay");
    }
    keys.drop_with(|key| {
        const SHOWN: usize = 5;
        let mut owners: Vec<_> = owners(key).iter().map(ToString::to_string).collect();
        let verb = if owners.len() == 1 { "has" } else { "have" };
        if owners.len() > SHOWN {
            let others = owners.len() - SHOWN;
            owners.truncate(SHOWN);
            owners.push(format!("{others} others"));
        }
        let who = list(&owners, "and");
        (!owners.is_empty())
            .then(|| format!("{key}: {} has no such option; {who} {verb}", entry.name()))
    });
}
