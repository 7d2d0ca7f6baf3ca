//! One option of an optimizer: its name, what it may be, and the field that holds it.

use super::keys::{Keys, changing};
use super::range::Range;
use crate::Schedule;

/// An option of the optimizer `O`.
pub(crate) struct Setting<O> {
    /// Its name in configurations and errors.
    pub(crate) name: &'static str,
    /// What it may be, if it is a number.
    pub(crate) range: Option<Range>,
    /// The field that holds it.
    pub(crate) get: fn(&O) -> &dyn Field,
    /// The same field, to be set.
    pub(crate) get_mut: fn(&mut O) -> &mut dyn Field,
}

/// A type that the fields of options have.
pub(crate) trait Field {
    /// Takes the option from a configuration. What is absent or wrong leaves the field as it is.
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>);

    /// The option as a configuration would say it.
    fn text(&self) -> String;

    /// What the option may be.
    fn legal(&self, range: Option<Range>) -> String {
        range.map(|range| range.legal.to_owned()).unwrap_or_default()
    }

    /// The number that has to be in the option's range, if there is one.
    fn number(&self) -> Option<f64> {
        None
    }
}

impl Field for f64 {
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>) {
        if let Some(number) = range.and_then(|range| keys.option(key, range)) {
            *self = number;
        }
    }
    fn text(&self) -> String {
        match *self {
            0.0 => "0".to_owned(),
            x if x.abs() < 1e-3 => format!("{x:e}"),
            x => x.to_string(),
        }
    }
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

/// A null says that there is no number.
impl Field for Option<Schedule> {
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>) {
        if keys.peek(key).is_some_and(|value| value.is_null()) {
            *self = None;
        }
        if let Some(number) = range.and_then(|range| keys.changing(key, range)) {
            *self = Some(number);
        }
    }
    fn legal(&self, range: Option<Range>) -> String {
        changing(range)
    }
    fn text(&self) -> String {
        self.as_ref().map_or_else(|| "null".to_owned(), Field::text)
    }
    fn number(&self) -> Option<f64> {
        self.as_ref()?.constant()
    }
}

/// A number, or an object that says between which numbers it goes, and in how many steps; code may also give any
/// function of the step.
impl Field for Schedule {
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>) {
        if let Some(number) = range.and_then(|range| keys.changing(key, range)) {
            *self = number;
        }
    }
    fn legal(&self, range: Option<Range>) -> String {
        changing(range)
    }
    fn text(&self) -> String {
        self.constant().map_or_else(|| "of the step".to_owned(), |number| number.text())
    }
    fn number(&self) -> Option<f64> {
        self.constant()
    }
}

/// A number of steps.
impl Field for u64 {
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>) {
        let read = match range {
            Some(range) => keys.whole_in(key, range),
            None => keys.whole(key, 0),
        };
        if let Some(number) = read {
            *self = number;
        }
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn legal(&self, range: Option<Range>) -> String {
        range.map_or("a whole number from 0 on", |range| range.legal).to_owned()
    }
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl Field for bool {
    fn read(&mut self, keys: &mut Keys, key: &'static str, _: Option<Range>) {
        if let Some(truth) = keys.truth(key) {
            *self = truth;
        }
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn legal(&self, _: Option<Range>) -> String {
        "true or false".to_owned()
    }
}

/// Regular expressions.
impl Field for Vec<String> {
    fn read(&mut self, keys: &mut Keys, key: &'static str, range: Option<Range>) {
        if let Some(patterns) = keys.patterns(key, &self.legal(range)) {
            *self = patterns;
        }
    }
    fn text(&self) -> String {
        format!("{self:?}")
    }
    fn legal(&self, _: Option<Range>) -> String {
        "a list of regular expressions".to_owned()
    }
}

/// The options of an optimizer: `"name": field` or, for numbers, `"name": field in RANGE`.
macro_rules! settings {
    ($($name:literal: $($field:ident).+ $(in $range:expr)?),* $(,)?) => {
        vec![$($crate::options::Setting {
            name: $name,
            range: None$(.or(Some($range)))?,
            get: |optimizer| &optimizer.$($field).+,
            get_mut: |optimizer| &mut optimizer.$($field).+,
        }),*]
    };
}
pub(crate) use settings;

/// The options of an optimizer with a field `weight_decay`: those of [`settings!`], then those of the decay.
macro_rules! decayed_settings {
    ($($name:literal: $($field:ident).+ $(in $range:expr)?),* $(,)?) => {
        $crate::options::settings! {
            $($name: $($field).+ $(in $range)?,)*
            "weight_decay": weight_decay.fraction in $crate::options::FROM_0,
            "coupled_decay": weight_decay.coupled,
            "exclude": weight_decay.exclude,
        }
    };
}
pub(crate) use decayed_settings;
