//! Compares the copies of a slice bit for bit.

use std::borrow::Cow;

use indexmap::IndexMap;
use indexmap::map::Entry;

use super::{Error, Result, Session};
use crate::names::DType;
use crate::program::{Program, Value};

impl Session {
    /// Compares all variables and the fetches of a call between processors that hold the same slice.
    pub(super) fn check_replicas(&self, index: usize) -> Result<()> {
        let program = &self.programs[index];
        for (variable, held) in self.variables.values().enumerate() {
            let copies = held.holders().map(|(processor, begin)| {
                let bytes = self.backend.slice(processor, variable)?;
                Ok(Replica { processor, begin: begin.clone(), bytes })
            });
            let copies = copies.collect::<Result<Vec<_>>>()?;
            let what = || format!("variable `{}`", held.spec.name);
            same(program, what, &held.local, copies)?;
        }
        for (fetch, (slot, value)) in program.left().enumerate() {
            // A slice is in declared order here, however it lay in memory.
            let value = program.value(value);
            let copies = (0..self.mesh.processors()).map(|processor| {
                let part = |axes: &[_]| self.mesh.group_index(processor, axes);
                let dims = slot.split.iter().zip(&value.extents);
                let begin = dims.map(|(axes, extent)| part(axes) * extent).collect();
                let bytes = self.backend.fetched_slice(processor, index, fetch)?;
                Ok(Replica { processor, begin, bytes })
            });
            let copies = copies.collect::<Result<Vec<_>>>()?;
            same(program, || format!("fetch `{}`", slot.name), value, copies)?;
        }
        Ok(())
    }
}

/// Fails if copies of a slice differ; `what` names the value in the error.
fn same(
    program: &Program,
    what: impl Fn() -> String,
    value: &Value,
    copies: Vec<Replica<'_>>,
) -> Result<()> {
    let Some(Difference { processors, index, values }) = difference(value, copies) else {
        return Ok(());
    };
    Err(Error::Replicas { function: program.name.clone(), what: what(), processors, index, values })
}

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
