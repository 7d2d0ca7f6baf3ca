//! Brute force: every element of every operand found by its labels.

use super::Tensor;
use crate::program::Value;

/// Calls `visit` with every assignment of positions to labels.
pub(super) fn each(extents: &[usize], visit: &mut impl FnMut(&[usize])) {
    let mut at = vec![0; extents.len()];
    loop {
        visit(&at);
        let Some(i) = (0..at.len()).rev().find(|&i| at[i] + 1 < extents[i]) else { return };
        at[i] += 1;
        at[i + 1..].fill(0);
    }
}

/// Index in declared order of the element at the positions of its labels.
pub(super) fn index(value: &Value, dims: &[u8], at: &[usize]) -> usize {
    let pairs = dims.iter().zip(&value.extents);
    pairs.fold(0, |index, (&label, extent)| index * extent + at[label as usize])
}

/// An operand's element at the positions of its labels.
pub(super) fn get(tensor: &Tensor, dims: &[u8], at: &[usize]) -> f64 {
    tensor.data[index(&tensor.value, dims, at)]
}

/// Labels `0..rank`.
pub(super) fn declared(rank: usize) -> Vec<u8> {
    (0..rank as u8).collect()
}

/// Extent of every label.
pub(super) fn extents(operands: &[(&Value, &[u8])]) -> Vec<usize> {
    let labels = operands.iter().flat_map(|(_, dims)| dims.iter()).max().map_or(0, |&l| l + 1);
    let mut extents = vec![1; labels as usize];
    for (value, dims) in operands {
        for (&label, &extent) in dims.iter().zip(&value.extents) {
            extents[label as usize] = extent;
        }
    }
    extents
}
