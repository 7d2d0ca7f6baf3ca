//! Left folds over the members of a group, elementwise.
#![allow(unsafe_code, reason = "reads and writes the members' buffers, which no borrow can span")]

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::{ptr, slice};

use super::super::cpu::isa::{Entry, Task, compiled};
use super::super::cpu::reduce::{self, All, Any, Max, Min, Prod, Select, Sum};
use crate::names::{DType, ReduceKind};

/// Elements folded at a time; what is held of them stays in the L1 cache.
const BLOCK: usize = 512;

/// A reduction of elements of one dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// Bytes per element.
    pub(crate) size: usize,
    run: unsafe fn(Folding),
}

/// Elements to fold.
#[derive(Clone, Copy, Debug)]
struct Folding {
    inputs: *const [*const u8],
    from: usize,
    outs: *const [*mut u8],
    to: usize,
    elements: usize,
}

impl Fold {
    /// `None` if the kind has no meaning for the dtype.
    pub(crate) fn new(kind: ReduceKind, dtype: DType) -> Option<Self> {
        macro_rules! table {
            ($($dtype:ident $element:ty: $($kind:ident)*;)*) => {
                match (dtype, kind) {
                    $($((DType::$dtype, ReduceKind::$kind) => entry::<$kind<$element>>(),)*)*
                    _ => return None,
                }
            };
        }
        let run = table! {
            F32 f32: Sum Prod Max Min Select;
            F64 f64: Sum Prod Max Min Select;
            BF16 u16: Sum Prod Max Min Select;
            I32 i32: Sum Prod Max Min Select;
            Bool u8: All Any Select;
        };
        Some(Self { size: dtype.size(), run })
    }

    /// `out[i] = inputs[0][i] ∘ inputs[1][i] ∘ …` for every out, each input beginning `from` bytes
    /// after its pointer, each out `to` bytes.
    ///
    /// # Safety
    ///
    /// All pointers are good for `elements` elements and aligned to them, inputs are initialised;
    /// each out is one of the inputs, at the same offset, or disjoint from all, and from the other
    /// outs. Nobody else writes to the inputs, nobody else touches the outs.
    pub(crate) unsafe fn run(
        self,
        inputs: &[*const u8],
        from: usize,
        outs: &[*mut u8],
        to: usize,
        elements: usize,
    ) {
        // SAFETY: `run` was compiled for instructions that this machine has; inputs and outs are good for
        // so many elements at these offsets, and disjoint, as `Members::run` requires.
        unsafe { (self.run)(Folding { inputs, from, outs, to, elements }) }
    }
}

fn entry<F: reduce::Fold>() -> Entry<Members<F>> {
    compiled::<Members<F>>()
}

/// The fold of a group's members.
struct Members<F>(PhantomData<F>);

impl<F: reduce::Fold> Task for Members<F> {
    type Args = Folding;
    type Result = ();

    /// # Safety
    ///
    /// Inputs and outs are as [`Fold::run`] requires, at these offsets, and this many; the lists of them
    /// are alive.
    #[inline(always)]
    unsafe fn run(Folding { inputs, from, outs, to, elements }: Folding) {
        // SAFETY: `Fold::run` borrows both lists while this runs.
        let (inputs, outs) = unsafe { (&*inputs, &*outs) };
        debug_assert!(mem::align_of::<F::Element>() <= 8 && !inputs.is_empty());
        let mut held = [const { MaybeUninit::<F::Held>::uninit() }; BLOCK];
        let mut made = [const { MaybeUninit::<F::Element>::uninit() }; BLOCK];
        for begin in (0..elements).step_by(BLOCK) {
            let count = BLOCK.min(elements - begin);
            let (held, made) = (&mut held[..count], &mut made[..count]);
            // SAFETY: within the input; nobody writes to it while the slice lives, since outs are
            // written below.
            let block = |input: &*const u8| unsafe {
                slice::from_raw_parts(input.add(from).cast::<F::Element>().add(begin), count)
            };
            let load = |(held, &x): (&mut MaybeUninit<F::Held>, &F::Element)| {
                held.write(F::load(x));
            };
            match inputs {
                [one] => held.iter_mut().zip(block(one)).for_each(load),
                [one, two, others @ ..] => {
                    let pairs = block(one).iter().zip(block(two));
                    for (held, (&a, &b)) in held.iter_mut().zip(pairs) {
                        held.write(F::fold(F::load(a), F::load(b)));
                    }
                    for other in others {
                        for (held, &x) in held.iter_mut().zip(block(other)) {
                            // SAFETY: the first members initialised the whole block.
                            held.write(F::fold(unsafe { held.assume_init() }, F::load(x)));
                        }
                    }
                }
                [] => {}
            }
            for (made, held) in made.iter_mut().zip(&*held) {
                // SAFETY: initialised, because there is a first member.
                made.write(F::store(unsafe { held.assume_init() }));
            }
            for out in outs {
                // SAFETY: within the out, which is no memory of ours.
                unsafe {
                    let out = out.add(to).cast::<F::Element>().add(begin);
                    ptr::copy_nonoverlapping(made.as_ptr().cast(), out, count);
                }
            }
        }
    }
}
