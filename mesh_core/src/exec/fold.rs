//! Left folds over the members of a group, elementwise.
#![allow(unsafe_code, reason = "reads the members' buffers, which no borrow can span")]

use std::mem::{self, MaybeUninit};

use half::bf16;

use crate::names::{DType, ReduceKind};

/// Elements folded at a time; their accumulators stay in the L1 cache.
const BLOCK: usize = 512;

/// A reduction of elements of one dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// Bytes per element.
    pub(crate) size: usize,
    run: unsafe fn(&[*const u8], usize, *mut u8, usize),
}

impl Fold {
    /// `None` if the kind has no meaning for the dtype.
    pub(crate) fn new(kind: ReduceKind, dtype: DType) -> Option<Self> {
        use ReduceKind::{All, Any, Max, Min, Prod, Sum};
        macro_rules! fold {
            ($element:ty, $accumulator:ty, $combine:expr) => {
                |inputs, offset, out, elements| {
                    // SAFETY: the same contract.
                    unsafe {
                        fold::<$element, $accumulator>(inputs, offset, out, elements, $combine);
                    }
                }
            };
        }
        macro_rules! floats {
            ($element:ty, $accumulator:ty) => {
                match kind {
                    Sum => fold!($element, $accumulator, |a, b| a + b),
                    Prod => fold!($element, $accumulator, |a, b| a * b),
                    Max => fold!($element, $accumulator, |a, b| {
                        if a > b || a.is_nan() { a } else { b }
                    }),
                    Min => fold!($element, $accumulator, |a, b| {
                        if a < b || a.is_nan() { a } else { b }
                    }),
                    All | Any => return None,
                }
            };
        }
        let run: unsafe fn(&[*const u8], usize, *mut u8, usize) = match dtype {
            DType::F32 => floats!(f32, f32),
            DType::F64 => floats!(f64, f64),
            DType::BF16 => floats!(bf16, f32),
            DType::I32 => match kind {
                Sum => fold!(i32, i32, i32::wrapping_add),
                Prod => fold!(i32, i32, i32::wrapping_mul),
                Max => fold!(i32, i32, i32::max),
                Min => fold!(i32, i32, i32::min),
                All | Any => return None,
            },
            DType::Bool => match kind {
                All => fold!(u8, u8, |a, b| a & b),
                Any => fold!(u8, u8, |a, b| a | b),
                Sum | Prod | Max | Min => return None,
            },
        };
        Some(Self { size: dtype.size(), run })
    }

    /// `out[i] = inputs[0][i] ∘ inputs[1][i] ∘ …`, each input beginning `offset` bytes after its
    /// pointer.
    ///
    /// # Safety
    ///
    /// All pointers are good for `elements` elements and aligned to them, inputs are initialised,
    /// and `out` is one of the inputs (at `offset`) or disjoint from all. Nobody else writes to the
    /// inputs, nobody else touches `out`.
    pub(crate) unsafe fn run(
        self,
        inputs: &[*const u8],
        offset: usize,
        out: *mut u8,
        elements: usize,
    ) {
        // SAFETY: the same contract.
        unsafe { (self.run)(inputs, offset, out, elements) }
    }
}

/// How an element is folded: in what type, and how it gets there and back.
trait Element<A>: Copy {
    fn load(self) -> A;
    fn store(accumulator: A) -> Self;
}

impl<T: Copy> Element<T> for T {
    fn load(self) -> T {
        self
    }

    fn store(accumulator: T) -> T {
        accumulator
    }
}

impl Element<f32> for bf16 {
    fn load(self) -> f32 {
        self.to_f32()
    }

    fn store(accumulator: f32) -> Self {
        Self::from_f32(accumulator)
    }
}

/// # Safety
///
/// As [`Fold::run`].
unsafe fn fold<T: Element<A>, A: Copy>(
    inputs: &[*const u8],
    offset: usize,
    out: *mut u8,
    elements: usize,
    combine: impl Fn(A, A) -> A,
) {
    debug_assert!(mem::align_of::<T>() <= 8 && !inputs.is_empty());
    let mut accumulators = [const { MaybeUninit::<A>::uninit() }; BLOCK];
    for begin in (0..elements).step_by(BLOCK) {
        let block = &mut accumulators[..BLOCK.min(elements - begin)];
        for (member, input) in inputs.iter().enumerate() {
            // SAFETY: within the input; nobody writes to it while the slice lives, since `out` is
            // written below.
            let input = unsafe {
                std::slice::from_raw_parts(input.add(offset).cast::<T>().add(begin), block.len())
            };
            let pairs = block.iter_mut().zip(input);
            if member == 0 {
                pairs.for_each(|(a, x)| *a = MaybeUninit::new(T::load(*x)));
            } else {
                // SAFETY: the first member initialised the whole block.
                pairs.for_each(|(a, x)| unsafe {
                    *a = MaybeUninit::new(combine(a.assume_init(), T::load(*x)));
                });
            }
        }
        // SAFETY: within `out`; the block is initialised because there is a first member.
        unsafe {
            let out = out.cast::<T>().add(begin);
            for (i, accumulator) in block.iter().enumerate() {
                out.add(i).write(T::store(accumulator.assume_init()));
            }
        }
    }
}
