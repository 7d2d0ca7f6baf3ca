//! Takes a configuration's keys one by one and collects what is wrong with them.

use super::ConfigError;
use crate::range::Range;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeBounds;

/// A map from which values are taken by key.
pub(super) struct Keys {
    left: Map<String, Value>,
    /// Every key that was asked for; these are the legal ones.
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl Keys {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self { left: map, known: Vec::new(), problems: Vec::new() }
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The value of a key that has not been taken yet.
    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.left.get(key)
    }

    /// Whether `is` holds for one of the keys that have not been taken yet.
    pub(super) fn any(&self, is: impl Fn(&str) -> bool) -> bool {
        self.left.keys().any(|key| is(key))
    }

    /// Whether a problem with this key was found.
    pub(super) fn complained_of(&self, key: &str) -> bool {
        self.problems.iter().any(|problem| problem.starts_with(&format!("{key}: ")))
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.left.remove(key)
    }

    /// The value of a key, as `read` understands it. A null counts as an absent key.
    fn read<T>(
        &mut self,
        key: &'static str,
        legal: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key).filter(|value| !value.is_null())?;
        let found = read(&value);
        if found.is_none() {
            self.problem(format!("{key}: {value} is not legal; legal is {legal}"));
        }
        found
    }

    /// A number in a range; `legal` is the range in words.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: impl RangeBounds<f64>,
        legal: &str,
    ) -> Option<f64> {
        let read = |value: &Value| value.as_f64().filter(|x| x.is_finite() && range.contains(x));
        self.read(key, legal, read)
    }

    /// An option of an optimizer.
    pub(super) fn option(&mut self, key: &'static str, range: Range) -> Option<f64> {
        let read = |value: &Value| value.as_f64().filter(|x| range.holds(*x));
        self.read(key, range.legal, read)
    }

    /// A whole number that is at least `least`.
    pub(super) fn whole(&mut self, key: &'static str, least: u64) -> Option<u64> {
        let legal = format!("a whole number from {least} on");
        self.read(key, &legal, |value| whole(value).filter(|x| *x >= least))
    }

    pub(super) fn truth(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// One of several words, in upper or lower case.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let value = self.take(key).filter(|value| !value.is_null())?;
        let is = |word: &str| value.as_str().is_some_and(|found| found.eq_ignore_ascii_case(word));
        let found = words.iter().find(|(word, _)| is(word));
        if found.is_none() {
            let legal: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let meant = suggestion(value.as_str().unwrap_or_default(), &legal);
            self.problem(format!(
                "{key}: {value} is not legal; legal is {}{meant}",
                list(&legal, "or")
            ));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// An object whose keys are whole numbers and whose values are positive numbers.
    pub(super) fn by_number(&mut self, key: &'static str) -> Option<Vec<(u64, f64)>> {
        let entry = |(number, rate): (&String, &Value)| {
            let rate = rate.as_f64().filter(|rate| *rate > 0.0 && rate.is_finite())?;
            Some((number.parse::<u64>().ok().filter(|n| *n > 0)?, rate))
        };
        let legal = "a table from batch sizes to positive rates, as {\"64\": 0.1, \"128\": 0.15}";
        self.read(key, legal, |value| {
            let table = value.as_object().filter(|table| !table.is_empty())?;
            table.iter().map(entry).collect()
        })
    }

    /// The problems found, unknown keys among them.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        for key in self.left.keys() {
            let meant = suggestion(key, &self.known);
            let legal = if meant.is_empty() {
                format!("; legal are {}", list(&self.known, "and"))
            } else {
                meant
            };
            self.problems.push(format!("{key}: there is no such key{legal}"));
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ConfigError::new(self.problems)) }
    }
}

/// A whole number, written as 3 or as 3.0.
fn whole(value: &Value) -> Option<u64> {
    const LARGEST: f64 = (1u64 << 53) as f64;
    let number = value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..=LARGEST).contains(x))?;
    Some(number as u64)
}

/// `a, b or c`.
pub(super) fn list(items: &[impl Display], last: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.to_string(),
        [others @ .., end] => {
            let others: Vec<_> = others.iter().map(ToString::to_string).collect();
            format!("{} {last} {end}", others.join(", "))
        }
    }
}

/// ` (did you mean ...?)`, or nothing.
fn suggestion(found: &str, legal: &[&str]) -> String {
    const ALIKE: f64 = 0.85;
    let found = found.to_lowercase();
    legal
        .iter()
        .map(|word| (strsim::jaro_winkler(&found, &word.to_lowercase()), word))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| format!(" (did you mean `{word}`?)"))
        .unwrap_or_default()
}
