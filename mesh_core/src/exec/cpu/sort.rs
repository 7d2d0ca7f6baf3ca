//! `Sort`: each line's keys are packed with their positions, ordered as integers, and whatever goes
//! with them is fetched by position.

use super::isa::{Entry, Task, compiled};
use super::rows::by_size;
use super::strided::Nest;
use super::{Kernel, Memory, vmath};
use crate::names::DType;
use crate::program::{Block, Operand, ValueId};
use std::marker::PhantomData;

struct Sort<K: Key> {
    /// Value, and elements between neighbours along a line.
    inputs: Vec<(ValueId, isize)>,
    outs: Vec<(ValueId, isize)>,
    /// Bytes per element of an input and its out.
    sizes: Vec<usize>,
    /// Loops over lines. Strides: inputs, then outs.
    lines: Nest,
    line: usize,
    kept: usize,
    descending: bool,
    first: Entry<First<K>>,
}

pub(super) fn prepare(
    block: &Block,
    inputs: &[Operand],
    dim: u8,
    descending: bool,
    outs: &[ValueId],
) -> Result<Box<dyn Kernel>, String> {
    let (Some(keys), Some(first)) = (inputs.first(), outs.first()) else {
        return Err("a sort needs keys".to_owned());
    };
    let dim = usize::from(dim);
    let mut extents = block.value(*first).extents.clone();
    let of_keys = |at: usize| block.value(keys.value).extents[at];
    let line = keys.dims.iter().position(|&label| usize::from(label) == dim).map(of_keys);
    let (Some(line), Some(&kept)) = (line, extents.get(dim)) else {
        return Err("a sort along a dim that is not there".to_owned());
    };
    if kept > line || u32::try_from(line).is_err() || inputs.len() != outs.len() {
        return Err(format!("a sort cannot keep {kept} of {line}"));
    }
    extents.remove(dim);
    let mut strides = Vec::new();
    for input in inputs {
        let mut of = vec![0; extents.len() + 1];
        for (&label, stride) in input.dims.iter().zip(block.value(input.value).strides()) {
            of[usize::from(label)] = stride as isize;
        }
        strides.push(of);
    }
    for &out in outs {
        strides.push(block.value(out).strides().iter().map(|&s| s as isize).collect());
    }
    let along: Vec<_> = strides.iter_mut().map(|of| of.remove(dim)).collect();
    let views: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
    let lines = Nest::new(&extents, &views).collapse();
    let size = |(input, &out): (&Operand, &ValueId)| {
        let dtype = block.value(out).dtype;
        let same = block.value(input.value).dtype == dtype;
        if same { Ok(dtype.size()) } else { Err("a sort keeps its dtypes".to_owned()) }
    };
    let sizes = inputs.iter().zip(outs).map(size).collect::<Result<_, _>>()?;
    let (of_inputs, of_outs) = along.split_at(inputs.len());
    let inputs = inputs.iter().map(|input| input.value).zip(of_inputs.iter().copied()).collect();
    let outs = outs.iter().copied().zip(of_outs.iter().copied()).collect();
    let dtype = block.value(keys.value).dtype;
    macro_rules! kernel {
        ($key:ty) => {{
            let first = compiled::<First<$key>>();
            Box::new(Sort { inputs, outs, sizes, lines, line, kept, descending, first })
        }};
    }
    Ok(match dtype {
        DType::F32 => kernel!(f32),
        DType::F64 => kernel!(f64),
        DType::BF16 => kernel!(Half),
        DType::I32 => kernel!(i32),
        DType::Bool => kernel!(bool),
    })
}

/// How keys of a dtype are ordered.
trait Key: Send + 'static {
    /// As in memory.
    type Element: Copy;
    /// An integer of which less is earlier, with the position in the low bits.
    type Packed: Copy + Ord;
    fn pack(element: Self::Element, position: u32, descending: bool) -> Self::Packed;
    fn position(packed: Self::Packed) -> u32;
}

/// bf16, as bits.
struct Half;

/// Bits that are ordered as the floats are: zeros equal, NaN above all.
#[inline(always)]
fn ordered(x: f32) -> u32 {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    match (x.is_nan(), bits >> 31) {
        (true, _) => u32::MAX,
        (_, 0) => bits | 1 << 31,
        _ => !bits,
    }
}

/// As [`ordered`].
#[inline(always)]
fn ordered_f64(x: f64) -> u64 {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    match (x.is_nan(), bits >> 63) {
        (true, _) => u64::MAX,
        (_, 0) => bits | 1 << 63,
        _ => !bits,
    }
}

macro_rules! narrow_keys {
    ($($key:ty, $element:ty, |$x:ident| $ordered:expr;)*) => {$(
        impl Key for $key {
            type Element = $element;
            type Packed = u64;
            #[inline(always)]
            fn pack($x: $element, position: u32, descending: bool) -> u64 {
                let key: u32 = $ordered;
                let key = if descending { !key } else { key };
                u64::from(key) << 32 | u64::from(position)
            }
            #[inline(always)]
            fn position(packed: u64) -> u32 {
                packed as u32
            }
        }
    )*};
}

narrow_keys! {
    f32, f32, |x| ordered(x);
    Half, u16, |x| ordered(vmath::widen(x));
    i32, i32, |x| x as u32 ^ 1 << 31;
    bool, u8, |x| u32::from(x);
}

impl Key for f64 {
    type Element = f64;
    type Packed = (u64, u32);
    #[inline(always)]
    fn pack(x: f64, position: u32, descending: bool) -> (u64, u32) {
        let key = ordered_f64(x);
        (if descending { !key } else { key }, position)
    }
    #[inline(always)]
    fn position(packed: (u64, u32)) -> u32 {
        packed.1
    }
}

/// If no more are kept, they are held in order while the line is read once.
const FEW: usize = 64;

/// Keys that are compared at once with the last that is kept.
const BLOCK: usize = 32;

/// Parts of a line of which the first keys are found side by side, if one is kept of all.
const LANES: usize = 16;

/// A line of keys, longer than what is kept of it.
struct Line<K: Key> {
    keys: *const K::Element,
    stride: isize,
    len: usize,
    descending: bool,
    /// Room for what is kept.
    first: *mut K::Packed,
    kept: usize,
}

impl<K: Key> Line<K> {
    /// # Safety
    ///
    /// The line is valid; `i` lies within it.
    #[inline(always)]
    unsafe fn key(&self, i: usize, stride: isize) -> K::Packed {
        // SAFETY: a position of the line.
        let key = unsafe { *self.keys.offset(i as isize * stride) };
        K::pack(key, i as u32, self.descending)
    }

    /// What comes first of all.
    ///
    /// # Safety
    ///
    /// The line is valid at this stride.
    #[inline(always)]
    unsafe fn least(&self, stride: isize) -> K::Packed {
        // SAFETY: positions of the line.
        unsafe {
            let mut lanes = [self.key(0, stride); LANES];
            let whole = self.len / LANES * LANES;
            for done in (0..whole).step_by(LANES) {
                for (i, least) in lanes.iter_mut().enumerate() {
                    let next = self.key(done + i, stride);
                    *least = if next < *least { next } else { *least };
                }
            }
            let mut least = lanes[0];
            for next in lanes {
                least = if next < least { next } else { least };
            }
            for i in whole..self.len {
                let next = self.key(i, stride);
                least = if next < least { next } else { least };
            }
            least
        }
    }
}

/// Finds what comes first in a line, in order.
struct First<K>(PhantomData<K>);

impl<K: Key> Task for First<K> {
    type Args = Line<K>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(line: Line<K>) {
        let &Line { keys, stride, len, descending, first, kept } = &line;
        if kept == 1 {
            // SAFETY: the caller's line, and room for one key. The stride is said where it is known.
            return unsafe {
                first.write(if stride == 1 { line.least(1) } else { line.least(stride) });
            };
        }
        // SAFETY: the caller's line.
        let key = |i: usize| unsafe { line.key(i, stride) };
        // SAFETY: the caller's room, which is written before it is read.
        let first = unsafe {
            for i in 0..kept {
                first.add(i).write(key(i));
            }
            std::slice::from_raw_parts_mut(first, kept)
        };
        first.sort_unstable();
        let mut block = [first[0]; BLOCK];
        let mut done = kept;
        while done < len {
            let count = BLOCK.min(len - done);
            if count == BLOCK && stride == 1 {
                for (i, packed) in block.iter_mut().enumerate() {
                    // SAFETY: a whole block of the line.
                    let key = unsafe { *keys.add(done + i) };
                    *packed = K::pack(key, (done + i) as u32, descending);
                }
            } else {
                for (i, packed) in block[..count].iter_mut().enumerate() {
                    *packed = key(done + i);
                }
            }
            let block = &block[..count];
            let last = first[kept - 1];
            if block.iter().fold(false, |any, packed| any | (*packed < last)) {
                block.iter().for_each(|packed| insert(first, *packed));
            }
            done += count;
        }
    }
}

/// Puts `new` where it belongs in an order, whose last goes, unless it comes after all.
#[inline(always)]
fn insert<P: Ord + Copy>(order: &mut [P], new: P) {
    let mut at = order.len() - 1;
    if new >= order[at] {
        return;
    }
    while at > 0 && new < order[at - 1] {
        order[at] = order[at - 1];
        at -= 1;
    }
    order[at] = new;
}

impl<K: Key> Sort<K> {
    /// Where a line begins in one of the values.
    fn at(&self, mut line: usize, operand: usize) -> isize {
        let Some((outer, inner)) = self.lines.loops.split_first() else { return 0 };
        let mut at = 0;
        for l in inner.iter().rev() {
            at += (line % l.extent) as isize * l.strides[operand];
            line /= l.extent;
        }
        at + line as isize * outer.strides[operand]
    }

    /// The positions that come first, in order.
    ///
    /// # Safety
    ///
    /// `keys` is valid along the line, `scratch` for [`Kernel::scratch_bytes`].
    unsafe fn order<'s>(&self, keys: *const K::Element, scratch: *mut u8) -> &'s [K::Packed] {
        let (packed, stride) = (scratch.cast::<K::Packed>(), self.inputs[0].1);
        if self.kept <= FEW && self.kept < self.line {
            let line = Line {
                keys,
                stride,
                len: self.line,
                descending: self.descending,
                first: packed,
                kept: self.kept,
            };
            // SAFETY: compiled for this machine; scratch has room for a line, which is longer than
            // what is kept.
            return unsafe {
                (self.first)(line);
                std::slice::from_raw_parts(packed, self.kept)
            };
        }
        // SAFETY: scratch has room for a line, which is written before it is read.
        let packed = unsafe {
            for i in 0..self.line {
                let key = *keys.offset(i as isize * stride);
                packed.add(i).write(K::pack(key, i as u32, self.descending));
            }
            std::slice::from_raw_parts_mut(packed, self.line)
        };
        if self.kept < self.line {
            packed.select_nth_unstable(self.kept - 1);
        }
        let first = &mut packed[..self.kept];
        first.sort_unstable();
        first
    }
}

impl<K: Key> Kernel for Sort<K> {
    fn scratch_bytes(&self) -> usize {
        self.line * size_of::<K::Packed>()
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        let keys = memory.pointer(self.inputs[0].0).cast::<K::Element>().cast_const();
        for line in 0..self.lines.len() {
            // SAFETY: the line's offset; scratch as promised.
            let order = unsafe { self.order(keys.offset(self.at(line, 0)), scratch) };
            for (k, &size) in self.sizes.iter().enumerate() {
                let ((input, from_step), (out, to_step)) = (self.inputs[k], self.outs[k]);
                let (from, to) = (self.at(line, k), self.at(line, self.inputs.len() + k));
                by_size!(size, T => {
                    let source = memory.pointer(input).cast::<T>().cast_const();
                    let target = memory.pointer(out).cast::<T>();
                    for (i, &packed) in (0..).zip(order) {
                        let position = K::position(packed) as isize;
                        // SAFETY: positions of the line in input and out.
                        unsafe {
                            let element = *source.offset(from + position * from_step);
                            *target.offset(to + i * to_step) = element;
                        }
                    }
                });
            }
        }
    }
}
