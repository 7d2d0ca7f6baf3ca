//! Cutting and joining arrays of any dtype along their first dim.

use mesh_core::array::Array;
use ndarray::{Axis, Slice};
use std::ops::Range;

/// The same expression for the array of every dtype.
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

/// Arrays of one dtype, joined by a function of ndarray; `None` if they do not go together.
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

/// Position `index` along a dim, which the result lacks. The dim has such a position.
pub(super) fn at(array: &Array, axis: usize, index: usize) -> Array {
    each!(array, array => array.index_axis(Axis(axis), index).to_owned())
}

/// Some positions along the first dim, in the order given. The dim has them all.
pub(super) fn select(array: &Array, rows: &[usize]) -> Array {
    each!(array, array => array.select(Axis(0), rows))
}

/// A range of positions along the first dim. The dim has them all.
pub(super) fn rows(array: &Array, range: Range<usize>) -> Array {
    each!(array, array => array.slice_axis(Axis(0), Slice::from(range)).to_owned())
}

/// Part `index` of `parts` along the first dim, whose size they divide.
pub(super) fn part(array: &Array, parts: usize, index: usize) -> Array {
    let size = array.shape().first().map_or(0, |size| size / parts);
    rows(array, index * size..(index + 1) * size)
}

/// Arrays of one dtype and shape side by side along a new first dim.
pub(super) fn stack(arrays: &[&Array]) -> Option<Array> {
    let first = arrays.first()?;
    join!(arrays, first, ndarray::stack, F32, F64, BF16, I32, Bool)
}

/// Arrays of one dtype one after another along their first dim; their other dims agree.
pub(super) fn concatenate(arrays: &[&Array]) -> Option<Array> {
    let first = arrays.first()?;
    join!(arrays, first, ndarray::concatenate, F32, F64, BF16, I32, Bool)
}
