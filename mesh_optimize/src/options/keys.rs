//! Takes a configuration's keys one by one and collects what is wrong with them.

use super::error::ConfigError;
use super::range::Range;
use crate::Schedule;
use crate::schedule::linear_decay;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeBounds;

/// What a number in a range, or one that changes between two of such, may be; in words.
pub(crate) fn changing(range: Option<Range>) -> String {
    range.map_or_else(String::new, |range| {
        format!("{}, or `{{from, to, steps}}` of such", range.legal)
    })
}

/// A map from which values are taken by key.
pub(crate) struct Keys {
    left: Map<String, Value>,
    /// Every key that was asked for; these are the legal ones.
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl Keys {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        Self { left: map, known: Vec::new(), problems: Vec::new() }
    }

    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The value of a key that has not been taken yet.
    pub(crate) fn peek(&self, key: &str) -> Option<&Value> {
        self.left.get(key)
    }

    /// The keys that have not been taken yet and for which `is` holds, on their own.
    pub(crate) fn part(&mut self, is: impl Fn(&str) -> bool) -> Self {
        let keys: Vec<_> = self.left.keys().filter(|key| is(key)).cloned().collect();
        let taken = keys.into_iter().filter_map(|key| self.left.remove_entry(&key));
        Self::new(taken.collect())
    }

    /// Takes over what another set of keys found and has left.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.left.extend(other.left);
        self.known.extend(other.known);
        self.problems.extend(other.problems);
    }

    /// Sets a key that is absent or null.
    pub(crate) fn supply(&mut self, key: &str, value: Value) {
        if self.left.get(key).is_none_or(Value::is_null) {
            self.left.insert(key.to_owned(), value);
        }
    }

    /// Drops the keys for which `is` holds, with what is wrong with each.
    pub(crate) fn drop_with(&mut self, problem: impl Fn(&str) -> Option<String>) {
        let found = self.part(|key| problem(key).is_some());
        self.problems.extend(found.left.keys().filter_map(|key| problem(key)));
    }

    /// Whether `is` holds for one of the keys that have not been taken yet.
    pub(crate) fn any(&self, is: impl Fn(&str) -> bool) -> bool {
        self.left.keys().any(|key| is(key))
    }

    /// Whether a problem with this key was found.
    pub(crate) fn complained_of(&self, key: &str) -> bool {
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
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        range: impl RangeBounds<f64>,
        legal: &str,
    ) -> Option<f64> {
        let read = |value: &Value| value.as_f64().filter(|x| x.is_finite() && range.contains(x));
        self.read(key, legal, read)
    }

    /// A number in a range, or one that goes from one to another along a line in so many steps.
    pub(crate) fn changing(&mut self, key: &'static str, range: Range) -> Option<Schedule> {
        let number = |value: &Value| value.as_f64().filter(|x| range.holds(*x));
        self.read(key, &changing(Some(range)), |value| {
            let Some(object) = value.as_object() else { return number(value).map(Schedule::from) };
            let of = |name| object.get(name);
            let steps = whole(of("steps")?).filter(|steps| *steps > 0)?;
            let linear = linear_decay(number(of("from")?)?, number(of("to")?)?, steps);
            (object.len() == 3).then_some(linear)
        })
    }

    /// An option of an optimizer.
    pub(crate) fn option(&mut self, key: &'static str, range: Range) -> Option<f64> {
        let read = |value: &Value| value.as_f64().filter(|x| range.holds(*x));
        self.read(key, range.legal, read)
    }

    /// A whole number that is at least `least`.
    pub(crate) fn whole(&mut self, key: &'static str, least: u64) -> Option<u64> {
        let legal = format!("a whole number from {least} on");
        self.read(key, &legal, |value| whole(value).filter(|x| *x >= least))
    }

    /// A whole number in a range.
    pub(crate) fn whole_in(&mut self, key: &'static str, range: Range) -> Option<u64> {
        let holds = |x: &u64| range.holds(*x as f64);
        self.read(key, range.legal, |value| whole(value).filter(holds))
    }

    pub(crate) fn truth(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// One of several words, in upper or lower case.
    pub(crate) fn word<T: Copy>(
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

    /// A list of texts; `legal` is what they are.
    pub(crate) fn patterns(&mut self, key: &'static str, legal: &str) -> Option<Vec<String>> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.read(key, legal, |value| value.as_array()?.iter().map(text).collect())
    }

    /// An object of keys of its own.
    pub(crate) fn inner(&mut self, key: &'static str) -> Option<Map<String, Value>> {
        self.read(key, "an object with an opt_name and options", |value| value.as_object().cloned())
    }

    /// An object whose keys are whole numbers and whose values are positive numbers.
    pub(crate) fn by_number(&mut self, key: &'static str) -> Option<Vec<(u64, f64)>> {
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
    pub(crate) fn finish(mut self) -> Result<(), ConfigError> {
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
pub(crate) fn list(items: &[impl Display], last: &str) -> String {
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
