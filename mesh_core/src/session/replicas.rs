//! Compares the copies of a slice bit for bit.

use std::borrow::Cow;

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::names::DType;
use crate::program::Value;

/// A copy of a slice on one processor.
pub(super) struct Replica<'m> {
    pub(super) processor: usize,
    /// The global index of its first element.
    pub(super) begin: Vec<usize>,
    pub(super) bytes: Cow<'m, [u8]>,
}

/// A difference between two processors.
#[derive(PartialEq, Debug)]
pub(super) struct Difference {
    pub(super) processors: (usize, usize),
    pub(super) index: Vec<usize>,
    pub(super) values: (f64, f64),
}

/// The first difference between two copies of one slice of `value`.
pub(super) fn difference<'m>(
    value: &Value,
    copies: impl IntoIterator<Item = Replica<'m>>,
) -> Option<Difference> {
    let mut firsts: IndexMap<Vec<usize>, (usize, Cow<'m, [u8]>)> = IndexMap::new();
    for Replica { processor, begin, bytes } in copies {
        let (first, expected) = match firsts.entry(begin.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert((processor, bytes));
                continue;
            }
        };
        if *expected == bytes {
            continue;
        }
        let position = expected.iter().zip(&*bytes).position(|(a, b)| a != b)?;
        let element = position / value.dtype.size();
        let dims = value.strides().into_iter().zip(&value.extents).zip(begin);
        return Some(Difference {
            processors: (*first, processor),
            index: dims.map(|((stride, extent), b)| b + element / stride % extent).collect(),
            values: (number(value.dtype, expected, element), number(value.dtype, &bytes, element)),
        });
    }
    None
}

/// Element `index` of a slice's bytes, as f64.
fn number(dtype: DType, bytes: &[u8], index: usize) -> f64 {
    let mut word = [0; 8];
    let size = dtype.size();
    word[..size].copy_from_slice(&bytes[index * size..][..size]);
    let word = u64::from_le_bytes(word);
    match dtype {
        DType::F32 => f64::from(f32::from_bits(word as u32)),
        DType::F64 => f64::from_bits(word),
        DType::BF16 => half::bf16::from_bits(word as u16).to_f64(),
        DType::I32 => f64::from(word as i32),
        DType::Bool => word as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let mut value = Value::new(DType::I32, [2, 3]);
        value.order = [1, 0].into_iter().collect();
        let bytes = |elements: [i32; 6]| elements.map(i32::to_le_bytes).concat();
        let (good, bad) = (bytes([0, 1, 2, 3, 4, 5]), bytes([0, 1, 2, -3, 4, -5]));
        fn copy(processor: usize, begin: [usize; 2], bytes: &[u8]) -> Replica<'_> {
            Replica { processor, begin: begin.to_vec(), bytes: bytes.into() }
        }
        let copies = || [copy(0, [0, 0], &good), copy(1, [0, 3], &bad), copy(2, [0, 0], &good)];
        assert_eq!(difference(&value, copies()), None);
        let found = difference(&value, copies().into_iter().chain([copy(3, [0, 3], &good)]));
        let expected = Difference { processors: (1, 3), index: vec![1, 4], values: (-3.0, 3.0) };
        assert_eq!(found, Some(expected));
    }
}
