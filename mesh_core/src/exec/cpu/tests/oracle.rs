//! Brute force: every element of every operand found by its labels.

use super::Tensor;
use crate::names::{DType, Mesh};
use crate::program::forms::StepCx;
use crate::program::meaning::{Given, Here, Meaning, Numbers};
use crate::program::{Block, Step, Value};

/// Above so many elements a step is not judged: meanings are slow.
const JUDGED: usize = 2_000;

/// How far an element may be from what is meant, relative to the largest number of its value, if numbers
/// of a dtype are computed with: sums in another order, and functions that f32 has to an ulp or two; one
/// rounding of bf16.
fn tolerance(value: &Value) -> f64 {
    match value.dtype {
        DType::BF16 => 1.0 / 128.0,
        DType::F32 => 2e-6,
        DType::F64 => 1e-13,
        DType::I32 | DType::Bool => 0.0,
    }
}

/// Compares what a kernel of the session's seed 7 has made with what its step means: to the bit where
/// the form states the bits, NaN aside.
pub(super) fn judge(
    block: &Block,
    step: &Step,
    mesh: &Mesh,
    processor: usize,
    inputs: &[Tensor],
    made: &[Tensor],
) {
    if block.values.iter().map(Value::len).sum::<usize>() > JUDGED {
        return;
    }
    let array = |tensor: &Tensor| {
        let data = tensor.data.iter().copied();
        let flat: ndarray::Array1<f64> = data.collect();
        flat.into_shape_with_order(&tensor.value.extents[..]).unwrap()
    };
    let numbers: Vec<Numbers> = inputs.iter().map(array).collect();
    let given = numbers.iter().zip(&step.inputs);
    let given: Vec<_> = given.map(|(numbers, of)| Given::new(numbers, &of.dims)).collect();
    let Meaning::Local(form) = step.form.meaning() else { panic!("{} is met", step.form.name()) };
    let cx = StepCx { block, step, mesh, variables: &[] };
    let meant = cx.rounded(form.apply(&cx, &Here { mesh, processor, seed: 7 }, &given));
    let coarsest = block.values.iter().map(tolerance).fold(0.0, f64::max);
    let exact = !matches!(step.form.name(), "map" | "reduce" | "contract" | "convolve" | "pool");
    for (made, meant) in made.iter().zip(&meant) {
        let finite = meant.iter().filter(|x| x.is_finite());
        let largest = finite.fold(1.0, |most: f64, x| most.max(x.abs()));
        let near = if exact { 0.0 } else { coarsest * largest };
        for (i, (&a, &b)) in made.data.iter().zip(meant).enumerate() {
            let same = a == b && (!exact || a.to_bits() == b.to_bits());
            let fits = same || a.is_nan() && b.is_nan() || (a - b).abs() <= near;
            assert!(fits, "element {i} of {} is {a}, but {b} is meant: {step:?}", made.value);
        }
    }
}

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
