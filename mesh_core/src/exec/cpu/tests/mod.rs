//! Each kernel against brute force over labels in f64, and against what its step means.

mod call;
mod contract;
mod convolve;
mod generate;
mod idioms;
mod index;
mod map;
mod moves;
mod oracle;
mod order;
mod pairs;
mod pool;
mod reduce;
mod transpose;
mod vmath;

use super::{Memory, Seed, prepare};
use crate::names::{DType, Mesh};
use crate::program::{Block, Form, Operand, Owners, Scalar, Step, Value, ValueId};
use proptest::prelude::*;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;

/// Bytes around every value and the scratch that must stay as they are.
const GUARD: usize = 64;
const POISON: u8 = 0xa5;

/// Memory of a value between guards.
struct Guarded {
    at: *mut u8,
    bytes: usize,
}

impl Guarded {
    fn new(bytes: usize) -> Self {
        // SAFETY: the layout has a size.
        let at = unsafe { alloc(Self::layout(bytes)) };
        // SAFETY: just allocated.
        unsafe { at.write_bytes(POISON, bytes + 2 * GUARD) };
        Self { at, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes + 2 * GUARD, 64).unwrap()
    }

    fn pointer(&self) -> *mut u8 {
        self.at.wrapping_add(GUARD)
    }

    fn is_guarded(&self) -> bool {
        // SAFETY: the guards are part of the allocation.
        let guard = |at| unsafe { std::slice::from_raw_parts(self.at.wrapping_add(at), GUARD) };
        [0, GUARD + self.bytes].into_iter().all(|at| guard(at).iter().all(|&b| b == POISON))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, Self::layout(self.bytes)) };
    }
}

/// A tensor in declared order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) value: Value,
    pub(super) data: Vec<f64>,
}

impl Tensor {
    pub(super) fn new(value: Value, data: impl IntoIterator<Item = f64>) -> Self {
        let round = |x| Scalar::new(value.dtype, x).value();
        let data: Vec<_> = data.into_iter().map(round).take(value.len()).collect();
        assert_eq!(data.len(), value.len());
        Self { value, data }
    }

    /// Offset in memory of every element, in declared order.
    fn offsets(value: &Value) -> Vec<usize> {
        let mut offsets = vec![0];
        for (&extent, stride) in value.extents.iter().zip(value.strides()) {
            offsets =
                offsets.iter().flat_map(|at| (0..extent).map(move |i| at + i * stride)).collect();
        }
        offsets
    }

    unsafe fn write(&self, at: *mut u8) {
        for (&x, offset) in self.data.iter().zip(Self::offsets(&self.value)) {
            // SAFETY: the caller's block has room for the value.
            unsafe {
                match self.value.dtype {
                    DType::F32 => *at.cast::<f32>().add(offset) = x as f32,
                    DType::F64 => *at.cast::<f64>().add(offset) = x,
                    DType::BF16 => *at.cast::<half::bf16>().add(offset) = half::bf16::from_f64(x),
                    DType::I32 => *at.cast::<i32>().add(offset) = x as i32,
                    DType::Bool => *at.add(offset) = u8::from(x != 0.0),
                }
            }
        }
    }

    unsafe fn read(value: &Value, at: *const u8) -> Self {
        let one = |offset: usize| {
            // SAFETY: the caller's block holds the value.
            unsafe {
                match value.dtype {
                    DType::F32 => f64::from(*at.cast::<f32>().add(offset)),
                    DType::F64 => *at.cast::<f64>().add(offset),
                    DType::BF16 => f64::from(*at.cast::<half::bf16>().add(offset)),
                    DType::I32 => f64::from(*at.cast::<i32>().add(offset)),
                    DType::Bool => match *at.add(offset) {
                        0 => 0.0,
                        1 => 1.0,
                        other => panic!("a bool of {other}"),
                    },
                }
            }
        };
        let data = Self::offsets(value).into_iter().map(one).collect();
        Self { value: value.clone(), data }
    }
}

/// A block's values: the inputs, then the outs.
pub(super) fn block(inputs: &[Tensor], outs: &[Value]) -> Block {
    let values = inputs.iter().map(|t| t.value.clone()).chain(outs.iter().cloned()).collect();
    Block { values, ..Block::default() }
}

/// A step whose inputs are a block's first values, with these labels, and its outs those behind.
pub(super) fn step(
    form: impl Into<Form>,
    dims: impl IntoIterator<Item = impl AsRef<[u8]>>,
    outs: usize,
) -> Step {
    let operand = |(index, dims): (usize, _)| labelled(index, AsRef::as_ref(&dims));
    let inputs: SmallVec<[Operand; 2]> = dims.into_iter().enumerate().map(operand).collect();
    let outs = (inputs.len()..inputs.len() + outs).map(id).collect();
    let (owners, origin) = (Owners::new(), Arc::default());
    Step { form: form.into(), inputs, outs, owners, origin }
}

/// Runs one step on a mesh of one processor.
pub(super) fn run(inputs: &[Tensor], outs: &[Value], step: &Step) -> Result<Vec<Tensor>, String> {
    run_with(inputs, outs, step, &Mesh::single(), 0, &[])
}

/// Runs one step; `shared` pairs outs with the inputs whose memory they take.
pub(super) fn run_with(
    inputs: &[Tensor],
    outs: &[Value],
    step: &Step,
    mesh: &Mesh,
    processor: usize,
    shared: &[(usize, usize)],
) -> Result<Vec<Tensor>, String> {
    let block = block(inputs, outs);
    let kernel =
        prepare(&block, step, mesh, processor, &Seed::new(7))?.ok_or("not a local form")?;
    let held: Vec<_> = block.values.iter().map(|value| Guarded::new(value.bytes())).collect();
    let mut memory = Memory::new(held.iter().map(Guarded::pointer).collect());
    for &(out, input) in shared {
        memory.pointers[inputs.len() + out] = memory.pointers[input];
    }
    let scratch = Guarded::new(kernel.scratch_bytes());
    // Twice: nothing may be left over from the first run.
    for _ in 0..2 {
        for (tensor, &at) in inputs.iter().zip(&memory.pointers) {
            // SAFETY: the block has the value's size.
            unsafe { tensor.write(at) };
        }
        // SAFETY: all blocks are of the values' sizes, aligned and apart.
        unsafe { kernel.run(&memory, scratch.pointer()) };
    }
    assert!(held.iter().chain([&scratch]).all(Guarded::is_guarded), "wrote beyond a value");
    let pointers = &memory.pointers[inputs.len()..];
    // SAFETY: the kernel has written the outs, which lie in the arena.
    let made = outs.iter().zip(pointers).map(|(v, &at)| unsafe { Tensor::read(v, at) });
    let made: Vec<_> = made.collect();
    oracle::judge(&block, step, mesh, processor, inputs, &made);
    Ok(made)
}

/// A value's id by position.
pub(super) fn id(index: usize) -> ValueId {
    ValueId(index as u32)
}

/// A value by position with labels for its dims.
pub(super) fn labelled(index: usize, dims: &[u8]) -> Operand {
    Operand { value: id(index), dims: dims.iter().copied().collect() }
}

/// Values in random memory orders.
pub(super) fn value(dtype: DType, extents: Vec<usize>) -> impl Strategy<Value = Value> {
    let order: Vec<u8> = (0..extents.len() as u8).collect();
    Just(order).prop_shuffle().prop_map(move |order| {
        let mut value = Value::new(dtype, extents.iter().copied());
        value.order = order.into_iter().collect();
        value
    })
}

/// Small whole numbers: sums of products of a few are exact in every dtype but bf16.
pub(super) fn whole(value: &Value, seed: u64) -> Tensor {
    let mut state = seed;
    let next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 7) as f64 - 3.0
    };
    let data: Vec<f64> = std::iter::repeat_with(next).take(value.len()).collect();
    Tensor::new(value.clone(), data)
}

/// Every dtype, floats first.
pub(super) const DTYPES: [DType; 5] =
    [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool];
