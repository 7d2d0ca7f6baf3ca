//! Cuts and joins arrays of any dtype along their first dim.

use mesh_core::array::Array;
use ndarray::{Axis, Slice};
use std::ops::Range;

/// Evaluates one expression on an array of any dtype.
macro_rules! each {
    ($value:expr, $array:ident => $result:expr) => {
        match $value {
            Array::F32($array) => Array::F32($result),
            Array::F64($array) => Array::F64($result),
            Array::BF16($array) => Array::BF16($result),
            Array::I32($array) => Array::I32($result),
            Array::Bool($array) => Array::Bool($result),
        }
    };
}

/// Joins arrays of one dtype with a function of ndarray; `None` if their dtypes or shapes do not
/// fit.
macro_rules! join {
    ($arrays:expr, $first:expr, $join:path, $($variant:ident),*) => {
        match $first {
            $(Array::$variant(_) => {
                let views = $arrays.iter().map(|array| match array {
                    Array::$variant(array) => Some(array.view()),
                    _ => None,
                });
                let views: Vec<_> = views.collect::<Option<_>>()?;
                Some(Array::$variant($join(Axis(0), &views).ok()?))
            })*
        }
    };
}

/// The slice at position `index` of a dim, without that dim. The position exists.
pub(super) fn at(array: &Array, axis: usize, index: usize) -> Array {
    each!(array, array => array.index_axis(Axis(axis), index).to_owned())
}

/// The given positions along the first dim, in the order given. All of them exist.
pub(super) fn select(array: &Array, rows: &[usize]) -> Array {
    each!(array, array => array.select(Axis(0), rows))
}

/// A range of positions along the first dim. All of them exist.
pub(super) fn rows(array: &Array, range: Range<usize>) -> Array {
    each!(array, array => array.slice_axis(Axis(0), Slice::from(range)).to_owned())
}

/// Part `index` of `parts` equal parts along the first dim.
pub(super) fn part(array: &Array, parts: usize, index: usize) -> Array {
    let size = array.shape().first().map_or(0, |size| size / parts);
    rows(array, index * size..(index + 1) * size)
}

/// Joins arrays of one dtype and shape along a new first dim.
pub(super) fn stack(arrays: &[&Array]) -> Option<Array> {
    let first = arrays.first()?;
    join!(arrays, first, ndarray::stack, F32, F64, BF16, I32, Bool)
}

/// Joins arrays of one dtype along their first dim. Their other dims agree.
pub(super) fn concatenate(arrays: &[&Array]) -> Option<Array> {
    let first = arrays.first()?;
    join!(arrays, first, ndarray::concatenate, F32, F64, BF16, I32, Bool)
}
