//! What was found where numbers went wrong, for people.

use std::fmt;

use crate::names::DType;
use crate::program::Origin;

/// The numbers of one processor's slice of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The least that is a number, infinities included; infinity if there is none.
    pub min: f64,
    /// The greatest; minus infinity if there is none.
    pub max: f64,
    /// How many are NaN.
    pub nan: usize,
    /// How many are infinite.
    pub infinite: usize,
    /// How many there are.
    pub elements: usize,
}

impl Default for Summary {
    /// Of no numbers.
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { min, max, nan: 0, infinite: 0, elements: 0 }
    }
}

impl Summary {
    pub(super) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        numbers.fold(Self::default(), |so_far, x| Self {
            min: if x < so_far.min { x } else { so_far.min },
            max: if x > so_far.max { x } else { so_far.max },
            nan: so_far.nan + usize::from(x.is_nan()),
            infinite: so_far.infinite + usize::from(x.is_infinite()),
            elements: so_far.elements + 1,
        })
    }

    /// How many are no finite numbers.
    pub fn not_finite(&self) -> usize {
        self.nan + self.infinite
    }
}

/// A number in as few digits as tell it from others of its dtype.
pub(crate) fn digits(x: f64) -> String {
    let narrow = x as f32;
    let text = match f64::from(narrow) == x {
        true => format!("{narrow:?}"),
        false => format!("{x:?}"),
    };
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// `-3.5 to 88, 2 of 64 NaN`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, nan, infinite, elements } = self;
        match (elements, nan == elements) {
            (0, _) => return f.write_str("nothing"),
            (_, true) => return write!(f, "all {elements} NaN"),
            _ if min == max => f.write_str(&digits(*min))?,
            _ => write!(f, "{} to {}", digits(*min), digits(*max))?,
        }
        let counts = [(nan, "NaN"), (infinite, "infinite")];
        for (count, what) in counts.into_iter().filter(|(count, _)| **count > 0) {
            write!(f, ", {count} of {elements} {what}")?;
        }
        Ok(())
    }
}

/// The iteration of a loop in which something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InIteration {
    /// The loop's operation.
    pub name: String,
    /// The iteration's position, which is its place in what the loop slices and stacks.
    pub position: usize,
    /// How many iterations the loop has, or the most.
    pub count: usize,
}

/// An input of the step that made the first bad number, or of the one that was given it.
#[derive(Clone, PartialEq, Debug)]
pub struct GivenTo {
    /// The value as programs print it, `%7`, with the name of the tensor it is a slice of.
    pub value: String,
    /// Its numbers before the step, which may have written over them.
    pub numbers: Summary,
}

/// The first NaN or infinity that a processor met.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct NonFinite {
    /// The function that was called.
    pub function: String,
    /// Which operation: kind, name, source line; with all of them, if several were merged.
    pub origin: Origin,
    /// The step as programs print it, or the feed.
    pub step: String,
    /// Who met it.
    pub processor: usize,
    /// Where that processor stands, `rows=1, cols=0`.
    pub coordinates: String,
    /// The loops it is in, the outermost first.
    pub iterations: Vec<InIteration>,
    /// The tensor it is in, if it is in one of the graph's.
    pub tensor: Option<String>,
    /// Element type.
    pub dtype: DType,
    /// NaN or infinity.
    pub value: f64,
    /// Its index in the processor's slice.
    pub index: Vec<usize>,
    /// Its index in the tensor.
    pub global: Option<Vec<usize>>,
    /// What stands beside it along the last dim, itself included.
    pub around: Vec<f64>,
    /// The index along the last dim at which `around` begins.
    pub around_from: usize,
    /// All numbers of the slice.
    pub numbers: Summary,
    /// What the step was given.
    pub inputs: Vec<GivenTo>,
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, origin, value, .. } = self;
        write!(f, "{value} in `{function}`, {} `{}`", origin.op, origin.name)?;
        if !origin.at.is_empty() {
            write!(f, " at {}", origin.at)?;
        }
        for one in &origin.merged {
            let Origin { op, name, at, .. } = &**one;
            write!(f, "\n  of which: {op} `{name}` at {at}")?;
        }
        write!(f, "\n  step: {}\n  on processor {}", self.step, self.processor)?;
        if !self.coordinates.is_empty() {
            write!(f, " ({})", self.coordinates)?;
        }
        for InIteration { name, position, count } in &self.iterations {
            write!(f, ", at position {position} of the {count} iterations of loop `{name}`")?;
        }
        self.place(f)?;
        write!(f, "\n  its slice: {}", self.numbers)?;
        for GivenTo { value, numbers } in &self.inputs {
            write!(f, "\n  given {value}: {numbers}")?;
        }
        let bad = self.inputs.iter().any(|input| input.numbers.not_finite() > 0);
        f.write_str(match (self.inputs.is_empty(), bad) {
            (true, _) => "",
            (_, true) => "\n  what it was given is not all finite",
            (_, false) => "\n  what it was given is finite: it was made here",
        })?;
        f.write_str("\nthe session runs nothing more; variables may be half written")
    }
}

impl NonFinite {
    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\n  ")?;
        match (&self.tensor, &self.global) {
            (Some(tensor), Some(global)) => write!(f, "tensor `{tensor}` at {global:?}, ")?,
            (Some(tensor), None) => write!(f, "tensor `{tensor}`, ")?,
            _ => f.write_str("a value between tensors, ")?,
        }
        write!(f, "at {:?} of the processor's slice:", self.index)?;
        let own = self.index.last().copied().unwrap_or_default();
        for (position, number) in (self.around_from..).zip(&self.around) {
            match (position == own, digits(*number)) {
                (true, number) => write!(f, " [{number}]")?,
                (false, number) => write!(f, " {number}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_count_and_read_well() {
        let table: [(&[f64], &str); 6] = [
            (&[], "nothing"),
            (&[0.1], "0.1"),
            (&[1e30, f64::from(-1.1f32)], "-1.1 to 1e30"),
            (&[f64::NAN, f64::NAN], "all 2 NaN"),
            (&[f64::NAN, 1.0, 3.0], "1 to 3, 1 of 3 NaN"),
            (
                &[f64::NEG_INFINITY, f64::NAN, 1.0, f64::INFINITY],
                "-inf to inf, 1 of 4 NaN, 2 of 4 infinite",
            ),
        ];
        for (numbers, text) in table {
            assert_eq!(Summary::of(numbers.iter().copied()).to_string(), text);
        }
    }
}
