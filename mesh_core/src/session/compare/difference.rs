//! The distance of two arrays.

use std::fmt;

use ndarray::Dimension;

use crate::array::Array;
use crate::exec::digits;
use crate::names::DType;

/// Which differences are allowed. Two numbers count as equal if their distance is at most
/// `absolute` plus `relative` times the largest magnitude in the tensor. Integers and booleans must
/// be equal.
///
/// The tensor's largest magnitude is used, not the number's own: the rounding error of a sum is
/// relative to its terms, which may cancel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// The part of the largest magnitude; at least 16 roundings of the dtype, which matters for
    /// bf16.
    pub relative: f64,
    /// The distance that is allowed for tensors whose terms cancel.
    pub absolute: f64,
}

impl Default for Tolerance {
    /// The relative part is a thousandth: another order of a sum makes a difference of one rounding
    /// (6e-8 in f32), a deep model amplifies that a few thousand times, and a wrong rule changes
    /// results by far more. The absolute part is a millionth, for terms of magnitude one that
    /// cancel.
    fn default() -> Self {
        Self { relative: 1e-3, absolute: 1e-6 }
    }
}

impl Tolerance {
    fn allowed(self, dtype: DType, largest: f64) -> f64 {
        const ROUNDINGS: f64 = 16.0;
        let rounding = match dtype {
            DType::F32 => f64::from(f32::EPSILON),
            DType::F64 => f64::EPSILON,
            DType::BF16 => half::bf16::EPSILON.to_f64(),
            DType::I32 | DType::Bool => return 0.0,
        };
        self.absolute + self.relative.max(ROUNDINGS * rounding) * largest
    }
}

/// The thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A result of an operation.
    Operation {
        /// The op's name.
        op: String,
        /// The operation's unique name; with the index of the result if there are several.
        name: String,
        /// The user's line.
        at: String,
    },
    /// A variable after the call, where all operations agree: what was written is not what was computed.
    Variable {
        /// The variable's name.
        name: String,
        /// The user's line that asked for its update.
        at: String,
    },
}

/// How well the sides agree on an input of the operation that differs.
#[derive(Clone, PartialEq, Debug)]
pub struct Agreement {
    /// The tensor's name.
    pub name: String,
    /// The largest distance of two elements.
    pub largest: f64,
    /// The largest distance that is allowed.
    pub allowed: f64,
}

/// The first difference of two layouts.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The operation or variable that differs.
    pub subject: Subject,
    /// The global index of the two elements with the largest distance.
    pub index: Vec<usize>,
    /// The values of the two elements.
    pub values: [f64; 2],
    /// The distance of the two elements. It is infinite if only one is NaN, or the two are
    /// different infinities.
    pub largest: f64,
    /// The largest distance that is allowed.
    pub allowed: f64,
    /// How many elements have a larger distance.
    pub far: usize,
    /// How many elements there are.
    pub elements: usize,
    /// Mesh and layout of each side.
    pub sides: [String; 2],
    /// The placement of the tensor on each side.
    pub placements: [String; 2],
    /// The inputs of the operation.
    pub inputs: Vec<Agreement>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Operation { op, name, at } => write!(f, "{op} `{name}` at {at} differs")?,
            Subject::Variable { name, at } => {
                write!(f, "variable `{name}`, updated at {at}, differs after the call")?;
            }
        }
        let Self { index, largest, allowed, far, elements, .. } = self;
        write!(f, " at {index:?} by {largest:.3e}, where {allowed:.3e} is allowed")?;
        write!(f, "; so do {far} of {elements} elements")?;
        for ((side, value), placement) in self.sides.iter().zip(self.values).zip(&self.placements) {
            write!(f, "\n  {} under {side}, {placement}", digits(value))?;
        }
        for Agreement { name, largest, allowed } in &self.inputs {
            let agree = if largest <= allowed { "agrees" } else { "differs" };
            write!(f, "\n  its input `{name}` {agree}: by {largest:.3e}, {allowed:.3e} allowed")?;
        }
        Ok(())
    }
}

/// The distance of two arrays.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Distance {
    pub(super) largest: f64,
    pub(super) allowed: f64,
    pub(super) index: Vec<usize>,
    pub(super) values: [f64; 2],
    pub(super) far: usize,
    pub(super) elements: usize,
}

impl Distance {
    pub(super) fn is_far(&self) -> bool {
        self.far > 0
    }
}

/// The distance of two arrays; `None` if their shapes differ or they have no elements.
pub(super) fn distance(one: &Array, two: &Array, tolerance: Tolerance) -> Option<Distance> {
    if one.shape() != two.shape() || one.is_empty() {
        return None;
    }
    let (dtype, elements) = (one.dtype(), one.len());
    let (one, two) = (one.to_f64(), two.to_f64());
    let finite = one.iter().chain(&two).map(|x| x.abs()).filter(|x| x.is_finite());
    let allowed = tolerance.allowed(dtype, finite.fold(0.0, f64::max));
    let apart = |a: f64, b: f64| match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        false if a.is_finite() && b.is_finite() => (a - b).abs(),
        false => f64::INFINITY,
    };
    let pairs = || one.indexed_iter().zip(&two).map(|((at, &a), &b)| (at, [a, b], apart(a, b)));
    let far = pairs().filter(|(.., apart)| *apart > allowed).count();
    let (index, values, largest) = pairs().reduce(|a, b| if b.2 > a.2 { b } else { a })?;
    Some(Distance { largest, allowed, index: index.slice().to_vec(), values, far, elements })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr1;

    fn far(one: Array, two: Array) -> usize {
        distance(&one, &two, Tolerance::default()).unwrap().far
    }

    #[test]
    fn tolerance_is_of_the_largest_and_of_the_dtype() {
        let (a, b) = ([1000.0_f32, 0.5, 2.0], [1000.0, 1.25, 4.0]);
        assert_eq!(far(arr1(&a).into(), arr1(&b).into()), 1);
        let narrow = |x: [f32; 3]| Array::from(arr1(&x.map(half::bf16::from_f32)));
        assert_eq!(far(narrow([1000.0, 0.0, 2.0]), narrow([1000.0, 120.0, 130.0])), 1);
        assert_eq!(far(arr1(&[1 << 30, 5]).into(), arr1(&[1 << 30, 6]).into()), 1);
        assert_eq!(far(arr1(&[true, false]).into(), arr1(&[true, true]).into()), 1);
        assert_eq!(far(arr1(&[0.0, 0.0]).into(), arr1(&[9e-7, 1.1e-6]).into()), 1);
    }

    #[test]
    fn what_is_not_finite_equals_itself_only() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let one = arr1(&[nan, inf, -inf, 1.0, inf, nan]);
        let two = arr1(&[nan, inf, -inf, nan, -inf, 0.0]);
        let found = distance(&one.into(), &two.into(), Tolerance::default()).unwrap();
        assert_eq!((found.far, found.index, found.largest), (3, vec![3], inf));
    }

    #[test]
    fn the_furthest_is_named() {
        let one = ndarray::arr2(&[[1.0, 2.0], [3.0, 4.0]]);
        let two = ndarray::arr2(&[[1.5, 2.0], [5.0, 4.0]]);
        let found = distance(&one.into(), &two.into(), Tolerance::default()).unwrap();
        assert_eq!((found.index, found.values, found.largest), (vec![1, 0], [3.0, 5.0], 2.0));
        assert_eq!((found.far, found.elements), (2, 4));
    }
}
