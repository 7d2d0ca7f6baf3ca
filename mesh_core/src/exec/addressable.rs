//! What of a function's feeds the processors of this process need, and what they may be fed.

use std::ops::Range;

use super::border::{Border, Global};
use crate::array::{Array, ArrayRef};
use crate::names::Mesh;
use crate::program::{Program, Slot, ValueId};

/// Per dim of a feed, the global indices from the first to the last that some processors need.
pub(crate) type Ranges = Vec<Range<usize>>;

/// Whether an array of this shape is a feed of these global sizes, or what of it lies in these ranges: each
/// dim has the one size or the other.
pub(crate) fn is_addressable(shape: &[usize], whole: &[usize], ranges: &Ranges) -> bool {
    let mut dims = shape.iter().zip(whole).zip(ranges);
    shape.len() == whole.len()
        && dims.all(|((size, whole), part)| size == whole || *size == part.len())
}

/// What the processors of this process need of a function's feeds.
#[derive(Debug)]
pub(crate) struct Addressable(Vec<Ranges>);

impl Addressable {
    /// What these processors need, one at least.
    pub(crate) fn new(program: &Program, mesh: &Mesh, processors: &[usize]) -> Self {
        let ranges = |(slot, value): (&Slot, ValueId)| {
            let value = program.value(value);
            let mut ranges = Ranges::new();
            for &processor in processors {
                let begins = Border::begin(slot, value, mesh, processor);
                let slices = begins.iter().zip(&value.extents);
                let slices = slices.map(|(&begin, extent)| begin..begin + extent);
                if ranges.is_empty() {
                    ranges = slices.collect();
                    continue;
                }
                for (range, slice) in ranges.iter_mut().zip(slices) {
                    *range = range.start.min(slice.start)..range.end.max(slice.end);
                }
            }
            ranges
        };
        Self(program.fed().map(ranges).collect())
    }

    pub(crate) fn ranges(&self) -> &[Ranges] {
        &self.0
    }

    /// Whether arrays have the order and dtypes of the program's feeds, and in each dim the size of
    /// the whole or that of the range.
    pub(super) fn fits(&self, program: &Program, feeds: &[ArrayRef<'_>]) -> bool {
        let mut slots = program.fed().zip(&self.0).zip(feeds);
        feeds.len() == program.feeds.len()
            && slots.all(|(((slot, value), ranges), feed)| {
                feed.dtype() == Some(program.value(value).dtype)
                    && is_addressable(feed.shape(), &slot.shape, ranges)
            })
    }

    /// Arrays that [fit](Self::fits), as the global arrays of which they are all that the processors
    /// of this process look at.
    pub(super) fn globals(
        &self,
        program: &Program,
        feeds: &[ArrayRef<'_>],
    ) -> impl Iterator<Item = Global> {
        program.feeds.iter().zip(&self.0).zip(feeds).map(|((slot, ranges), feed)| {
            let dims = feed.shape().iter().zip(&slot.shape).zip(ranges);
            let begins = dims.map(|((size, whole), part)| match size == whole {
                true => 0,
                false => part.start,
            });
            Global::of(feed).beginning_at(begins)
        })
    }
}

/// Whether arrays have the order, shapes and dtypes of a program's slots, feeds in what is
/// addressable of them.
pub(super) fn fits(
    program: &Program,
    addressable: &Addressable,
    feeds: &[ArrayRef<'_>],
    fetches: &[Array],
    probes: &[Array],
) -> Result<(), String> {
    let outputs = || fetches.iter().chain(probes);
    let mut left = program.left().zip(outputs());
    if !addressable.fits(program, feeds)
        || program.block.results.len() != outputs().count()
        || !left.all(|((slot, value), output)| {
            program.value(value).dtype == output.dtype() && slot.shape == output.shape()
        })
    {
        return Err(format!("the arrays do not fit the slots of `{}`", program.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::names::{AxisList, DType};
    use crate::program::Builder;

    /// A program that is fed one f32 array of 8x6, its dims split over these axes.
    fn program(mesh: &Mesh, split: [&[&str]; 2]) -> Program {
        let split: Vec<AxisList> = split
            .iter()
            .map(|axes| axes.iter().map(|name| mesh.axis(name).unwrap()).collect())
            .collect();
        let sizes = [8, 6].iter().zip(&split).map(|(size, axes)| size / mesh.group_size(axes));
        let sizes = sizes.collect();
        let slot = Slot { name: "x".to_owned(), shape: vec![8, 6], split, ..Slot::default() };
        let mut builder = Builder::new("f", mesh);
        builder.feed(DType::F32, sizes, slot);
        builder.finish()
    }

    #[test]
    fn hulls_cover_the_slices_of_their_processors_and_no_more() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        for (split, processors, expected) in [
            ([&[][..], &[]], 0..1, [0..8, 0..6]),
            ([&["a"], &["b"]], 0..1, [0..4, 0..3]),
            ([&["a"], &["b"]], 3..4, [4..8, 3..6]),
            ([&["a"], &["b"]], 2..4, [4..8, 0..6]),
            ([&["a"], &["b"]], 1..3, [0..8, 0..6]),
            ([&["b", "a"], &[]], 1..2, [4..6, 0..6]),
            ([&["b", "a"], &[]], 0..2, [0..6, 0..6]),
            ([&["a", "b"], &[]], 1..3, [2..6, 0..6]),
            ([&["a", "b"], &[]], 0..4, [0..8, 0..6]),
        ] {
            let program = program(&mesh, split);
            let here: Vec<_> = processors.clone().collect();
            let addressable = Addressable::new(&program, &mesh, &here);
            assert_eq!(addressable.ranges(), [expected], "{split:?} of {processors:?}");
        }
    }

    #[test]
    fn each_dim_is_whole_or_the_hull() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        let program = program(&mesh, [&["a"], &["b"]]);
        let addressable = Addressable::new(&program, &mesh, &[3]);
        for shape in [[8, 6], [4, 6], [8, 3], [4, 3]] {
            let array = Array::zeros(DType::F32, &shape);
            assert!(addressable.fits(&program, &[array.view()]), "{shape:?}");
        }
        for shape in [&[8, 2][..], &[2, 3], &[3, 4], &[4], &[4, 3, 1], &[]] {
            let array = Array::zeros(DType::F32, shape);
            assert!(!addressable.fits(&program, &[array.view()]), "{shape:?}");
        }
        let other = Array::zeros(DType::I32, &[4, 3]);
        assert!(!addressable.fits(&program, &[other.view()]));
        let good = Array::zeros(DType::F32, &[4, 3]);
        assert!(!addressable.fits(&program, &[]));
        assert!(!addressable.fits(&program, &[good.view(), good.view()]));
    }

    /// Slices of a part that is there, alone or within something larger, are those of the whole.
    #[test]
    #[allow(unsafe_code, reason = "copies slices")]
    fn slices_of_a_part_are_those_of_the_whole() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        let whole = Array2::from_shape_fn((8, 6), |(i, j)| (10 * i + j) as f32);
        let turned = whole.t().as_standard_layout().into_owned();
        for split in [[&["a"][..], &["b"]], [&["b", "a"], &[]], [&[], &["a"]], [&["b"], &["a"]]] {
            let program = program(&mesh, split);
            let (slot, value) = (&program.feeds[0], &program.block.values[0]);
            for here in [&[0][..], &[1], &[3], &[0, 1], &[1, 3], &[2, 3], &[1, 2], &[0, 1, 2, 3]] {
                let addressable = Addressable::new(&program, &mesh, here);
                let [rows, cols] = [0, 1].map(|d| addressable.ranges()[0][d].clone());
                let part = whole.slice(s![rows.clone(), cols.clone()]).to_owned();
                let fed: [ArrayRef<'_>; 6] = [
                    (&whole).into(),
                    (&part).into(),
                    whole.slice(s![rows.clone(), cols.clone()]).into(),
                    whole.slice(s![rows.clone(), ..]).into(),
                    whole.slice(s![.., cols.clone()]).into(),
                    turned.t().slice_move(s![rows, cols]).into(),
                ];
                for array in fed {
                    assert!(addressable.fits(&program, std::slice::from_ref(&array)));
                    let mut globals = addressable.globals(&program, std::slice::from_ref(&array));
                    let global = globals.next().unwrap();
                    for &processor in here {
                        let border = Border::of_slot(slot, value, &mesh, processor);
                        let mut slice = vec![0_f32; value.len()];
                        // SAFETY: the array is alive, fits, and has what this processor needs.
                        unsafe { border.cut(&global, slice.as_mut_ptr().cast()) };
                        let begins = Border::begin(slot, value, &mesh, processor);
                        let [r, c] = [0, 1].map(|d| begins[d]..begins[d] + value.extents[d]);
                        let expected = whole.slice(s![r, c]);
                        assert_eq!(slice, expected.iter().copied().collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}
