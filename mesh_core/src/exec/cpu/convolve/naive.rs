//! Convolutions of any labels and dtypes, term by term.

use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::product::Product;
use crate::exec::cpu::strided::Labels;
use crate::program::Window;
use std::marker::PhantomData;

/// A loop over a label, or over the (kernel, output) pairs of a window.
enum Turn {
    Label { extent: usize, strides: [isize; 3] },
    Window { window: Window, extents: [usize; 3], strides: [[isize; 3]; 3] },
}

pub(super) struct Naive<T> {
    turns: Vec<Turn>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Number> Naive<T> {
    pub(super) fn boxed(labels: &Labels, windows: &[Window], len: usize) -> Box<dyn Product> {
        let strides = |l: usize| [0, 1, 2].map(|k: usize| labels.strides[k][l]);
        let tied = |l: usize| windows.iter().any(|w| window_labels(w).contains(&l));
        let mut plain = labels.select(|l| !tied(l));
        plain.sort_by_key(|&l| std::cmp::Reverse(labels.strides[2][l]));
        let window = |w: &Window| {
            let of = window_labels(w);
            let (extents, strides) = (of.map(|l| labels.extents[l]), of.map(strides));
            Turn::Window { window: *w, extents, strides }
        };
        let label = |&l: &usize| Turn::Label { extent: labels.extents[l], strides: strides(l) };
        let turns = windows.iter().map(window).chain(plain.iter().map(label)).collect();
        Box::new(Self { turns, len, element: PhantomData })
    }
}

/// The labels of input, kernel and output.
pub(super) fn window_labels(window: &Window) -> [usize; 3] {
    [window.input, window.kernel, window.output].map(usize::from)
}

/// The input position of a term, if it is inside.
pub(super) fn input_position(
    w: &Window,
    output: usize,
    kernel: usize,
    extent: usize,
) -> Option<usize> {
    let at = (w.stride * output + w.dilation * kernel).checked_sub(w.pad)?;
    (at < extent).then_some(at)
}

fn moved(at: [isize; 3], strides: &[isize; 3], turns: usize) -> [isize; 3] {
    std::array::from_fn(|k| at[k] + strides[k] * turns as isize)
}

/// # Safety
///
/// The operands are valid at all offsets of the turns.
unsafe fn add<T: Number>(turns: &[Turn], at: [isize; 3], operands: (*const T, *const T, *mut T)) {
    let Some((turn, rest)) = turns.split_first() else {
        // SAFETY: the offsets are those of one point of the loops, for which the operands are
        // valid.
        unsafe {
            let out = operands.2.offset(at[2]);
            *out = (*out).plus((*operands.0.offset(at[0])).times(*operands.1.offset(at[1])));
        }
        return;
    };
    match turn {
        Turn::Label { extent, strides } => {
            for i in 0..*extent {
                // SAFETY: the operands are valid for all points of the loops, of which these are
                // some.
                unsafe { add(rest, moved(at, strides, i), operands) };
            }
        }
        Turn::Window { window, extents: [inputs, kernels, outputs], strides } => {
            for (o, k) in (0..*outputs).flat_map(|o| (0..*kernels).map(move |k| (o, k))) {
                if let Some(i) = input_position(window, o, k, *inputs) {
                    let at = moved(moved(at, &strides[0], i), &strides[1], k);
                    // SAFETY: the operands are valid for all points of the loops, of which these
                    // are some.
                    unsafe { add(rest, moved(at, &strides[2], o), operands) };
                }
            }
        }
    }
}

impl<T: Number> Product for Naive<T> {
    fn scratch_bytes(&self) -> usize {
        0
    }

    unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, _: *mut u8) {
        let out = out.cast::<T>();
        // SAFETY: the operands are valid for the product's loops, the result for `len` elements,
        // as `Product::run` requires.
        unsafe {
            std::slice::from_raw_parts_mut(out, self.len).fill(T::ZERO);
            add(&self.turns, [0; 3], (lhs.cast(), rhs.cast(), out));
        }
    }
}
