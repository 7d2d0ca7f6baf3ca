//! What steps mean, naively: kernels, passes and other back-ends are judged by it. Each form's meaning
//! stands in its room, `program/forms/`.
//!
//! A value is an array of f64 in declared order, which holds numbers of the value's dtype: all of them
//! are exact there. A step computes in f64, or i32, and what it makes is rounded to the out's dtype
//! once. Two things are rounded after each operation as well, so that their bits are stated: the
//! registers of a [`Body`], and folds in a stated order (over groups, scans, scattered sums), to the
//! dtype in which sums are held. A NaN is a NaN: nothing is said of its bits.

use super::arithmetic::rounded;
use super::forms::{Loop, Read, StepCx, Write};
use super::{Body, Dims, Extents, Offset};
use crate::names::Mesh;
use ndarray::{ArrayD, ArrayViewD, Axis, Slice};
use std::borrow::Cow;
use std::iter::zip;

/// The numbers of a value on one processor, in declared order.
pub(crate) type Numbers = ArrayD<f64>;

/// Who runs a step.
pub(crate) struct Here<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) processor: usize,
    /// The session's.
    pub(crate) seed: u64,
}

impl Here<'_> {
    /// Positions on this processor.
    pub(super) fn at(&self, offsets: &[Offset]) -> Vec<usize> {
        offsets.iter().map(|offset| offset.at(self.mesh, self.processor)).collect()
    }
}

/// An input of a local step.
pub(crate) struct Given<'a> {
    pub(super) numbers: &'a Numbers,
    /// The label of each dim.
    pub(super) dims: &'a Dims,
    /// Its elements in declared order.
    elements: Cow<'a, [f64]>,
    /// Per dim, the elements from one position to the next.
    strides: Extents,
}

impl<'a> Given<'a> {
    /// The input of these numbers and labels.
    pub(crate) fn new(numbers: &'a Numbers, dims: &'a Dims) -> Self {
        let copied = || numbers.iter().copied().collect::<Vec<_>>().into();
        let elements = numbers.as_slice().map_or_else(copied, Cow::Borrowed);
        let within = |dim: usize| numbers.shape()[dim + 1..].iter().product();
        Self { numbers, dims, elements, strides: (0..numbers.ndim()).map(within).collect() }
    }

    /// The element at a point, which has a position for each label.
    pub(super) fn at(&self, point: &[usize]) -> f64 {
        let steps = zip(self.dims, &self.strides);
        self.elements[steps.map(|(&label, step)| point[usize::from(label)] * step).sum::<usize>()]
    }

    /// The element at a point of the part that begins at these positions.
    pub(super) fn behind(&self, begin: &[usize], point: &[usize]) -> f64 {
        let first: usize = zip(begin, &self.strides).map(|(begin, step)| begin * step).sum();
        let steps = zip(self.dims, &self.strides);
        let steps = steps.map(|(&label, step)| point[usize::from(label)] * step);
        self.elements[first + steps.sum::<usize>()]
    }
}

/// What a form means that meets nobody.
pub(crate) trait Local {
    /// The outs of a legal step, before they are rounded.
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers>;
}

/// What a form means that the members of a group do together.
pub(crate) trait Collective {
    /// The outs of each member of the group, from the inputs of each, both in the order of the group
    /// index; none for a member that gets nothing. A member has no inputs if its own are not read.
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>>;
}

/// Who says what a form means.
pub(crate) enum Meaning<'a> {
    /// The form, for one processor.
    Local(&'a dyn Local),
    /// The form, for a group.
    Collective(&'a dyn Collective),
    /// What holds the variables.
    Read(&'a Read),
    /// What holds the variables.
    Write(&'a Write),
    /// What runs blocks.
    Loop(&'a Loop),
    /// Nobody: it makes nothing.
    Nothing,
}

impl<'a> StepCx<'a> {
    /// The extents of out `i`.
    pub(super) fn shape(&self, i: usize) -> &'a [usize] {
        &self.out(i).extents
    }

    /// The extent of each label of the out and the inputs.
    pub(super) fn space(&self) -> Vec<usize> {
        let mut space = self.shape(0).to_vec();
        for input in &self.step.inputs {
            for (&label, &extent) in zip(&input.dims, &self.value(input.value).extents) {
                let label = usize::from(label);
                space.resize(space.len().max(label + 1), 1);
                space[label] = extent;
            }
        }
        space
    }

    /// The outs' numbers, rounded to the outs' dtypes.
    pub(crate) fn rounded(&self, mut outs: Vec<Numbers>) -> Vec<Numbers> {
        for (out, &id) in zip(&mut outs, &self.step.outs) {
            let dtype = self.value(id).dtype;
            out.mapv_inplace(|x| rounded(dtype, x));
        }
        outs
    }
}

/// Visits all points of a space, the last position fastest.
pub(super) fn each(space: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut point = vec![0; space.len()];
    if space.contains(&0) {
        return;
    }
    loop {
        visit(&point);
        let Some(dim) = (0..space.len()).rev().find(|&dim| point[dim] + 1 < space[dim]) else {
            return;
        };
        point[dim] += 1;
        point[dim + 1..].fill(0);
    }
}

/// A body's results at all points, from an element of each input at each point.
pub(super) fn mapped(
    body: &Body,
    shape: &[usize],
    input: impl Fn(usize, &[usize]) -> f64,
) -> Vec<Numbers> {
    let mut outs = vec![Numbers::zeros(shape); body.results.len()];
    let mut registers = Vec::new();
    each(shape, |point| {
        body.run(&mut registers, |i| input(i, point));
        for (out, result) in zip(&mut outs, &body.results) {
            out[point] = registers[usize::from(result.0)];
        }
    });
    outs
}

/// Numbers in their order, under other extents.
pub(super) fn reshaped(numbers: ArrayViewD<'_, f64>, shape: &[usize]) -> Numbers {
    let mut out = Numbers::zeros(shape);
    zip(&mut out, numbers).for_each(|(out, &x)| *out = x);
    out
}

/// Part `k` of so many equal ones along a dim.
pub(super) fn part(numbers: &Numbers, dim: u8, k: usize, parts: usize) -> ArrayViewD<'_, f64> {
    let dim = Axis(dim.into());
    let extent = numbers.len_of(dim) / parts;
    numbers.slice_axis(dim, Slice::from(k * extent..(k + 1) * extent))
}

/// Equal parts one after the other along a dim.
pub(super) fn joined(shape: &[usize], dim: u8, parts: &[ArrayViewD<'_, f64>]) -> Numbers {
    let mut out = Numbers::zeros(shape);
    let chunks = out.axis_chunks_iter_mut(Axis(dim.into()), shape[usize::from(dim)] / parts.len());
    zip(chunks, parts).for_each(|(mut chunk, part)| chunk.assign(part));
    out
}
