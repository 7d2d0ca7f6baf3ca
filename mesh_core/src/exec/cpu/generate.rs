//! `Generate`: elements made from their global positions.

use super::isa::{Task, compiled};
use super::moves::{bits, fill};
use super::strided::{Loop, Nest, copy};
use super::{Kernel, Memory};
use crate::array::Array;
use crate::exec::seed::Seed;
use crate::exec::sync::Arc;
use crate::names::DType;
use crate::program::forms::Generate;
use crate::program::random::{self, BATCH, Draw, Rounded};
use crate::program::{Generator, Value, ValueId};
use half::bf16;
use smallvec::SmallVec;
use std::marker::PhantomData;

pub(super) fn prepare(
    form: &Generate,
    given: &[ValueId],
    begin: &[usize],
    value: &Value,
    out: ValueId,
    seed: &Seed,
) -> Result<Box<dyn Kernel>, String> {
    let Generate { generator, global, strides: counts, .. } = form;
    let (salts, shifts) = given.split_at(form.salts(given.len()));
    let rank = value.extents.len();
    let inside = |i: usize| begin[i] + value.extents[i] <= global[i];
    if begin.len() != rank || global.len() != rank || !(0..rank).all(inside) {
        return Err("a generated slice lies outside of the whole".to_owned());
    }
    let dtype = value.dtype;
    if let Generator::Fill(scalar) = generator {
        if scalar.dtype() != dtype {
            return Err("a fill has the dtype of what it fills".to_owned());
        }
        let (len, size) = (value.len(), dtype.size());
        return Ok(Box::new(Fill { out, len, size, bits: bits(*scalar) }));
    }
    if let Generator::Table(array) = generator {
        return table(array, begin, value, out);
    }
    // Position in declared order, or along the one dim that counts.
    let mut positions = vec![0; rank];
    match generator {
        Generator::Iota(dim) => {
            *positions.get_mut(*dim as usize).ok_or("an iota along a dim that is not there")? = 1;
        }
        _ => {
            let mut step = 1;
            for (position, &extent) in positions.iter_mut().zip(global).rev() {
                *position = step;
                step *= extent as isize;
            }
        }
    }
    let start = begin.iter().zip(&positions).map(|(&b, &p)| b as isize * p).sum();
    let strides: Vec<_> = value.strides().iter().map(|&s| s as isize).collect();
    let mut nest = Nest::new(&value.extents, &[&positions, &strides]);
    nest.sort_by(1);
    let (outer, inner) = nest.collapse().split_inner();
    let draw = Draw::of(generator);
    if dtype == DType::Bool {
        return Err("there is no generator of bool but fills and tables".to_owned());
    }
    let key = generator.key();
    let salts = salts.iter().copied().collect();
    let shifts = shifts.iter().copied().zip(counts.iter().copied()).collect();
    Ok(Box::new(Positions {
        out,
        dtype,
        start,
        outer,
        inner,
        draw,
        seed: seed.clone(),
        key,
        salts,
        shifts,
    }))
}

struct Fill {
    out: ValueId,
    len: usize,
    size: usize,
    bits: u64,
}

impl Kernel for Fill {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        // SAFETY: the value's bytes.
        unsafe { fill(memory.pointer(self.out), self.len, self.size, self.bits) };
    }
}

struct Table {
    array: Arc<Array>,
    out: ValueId,
    from: isize,
    nest: Nest,
    size: usize,
}

fn table(
    array: &Arc<Array>,
    begin: &[usize],
    value: &Value,
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let strides: Vec<isize> = match &**array {
        Array::F32(of) => of.strides().to_vec(),
        Array::F64(of) => of.strides().to_vec(),
        Array::BF16(of) => of.strides().to_vec(),
        Array::I32(of) => of.strides().to_vec(),
        Array::Bool(of) => of.strides().to_vec(),
    };
    let shape = array.shape();
    let inside = |i: usize| begin[i] + value.extents[i] <= shape[i];
    if array.dtype() != value.dtype || shape.len() != begin.len() || !(0..shape.len()).all(inside) {
        return Err("a table does not fit what is cut out of it".to_owned());
    }
    let from = begin.iter().zip(&strides).map(|(&b, &s)| b as isize * s).sum();
    let to: Vec<_> = value.strides().iter().map(|&s| s as isize).collect();
    let mut nest = Nest::new(&value.extents, &[&strides, &to]);
    nest.sort_by(1);
    let size = value.dtype.size();
    Ok(Box::new(Table { array: array.clone(), out, from, nest: nest.collapse(), size }))
}

impl Kernel for Table {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let from: *const u8 = match &*self.array {
            Array::F32(of) => of.as_ptr().cast(),
            Array::F64(of) => of.as_ptr().cast(),
            Array::BF16(of) => of.as_ptr().cast(),
            Array::I32(of) => of.as_ptr().cast(),
            Array::Bool(of) => of.as_ptr().cast(),
        };
        let first = self.nest.loops.first().map_or(1, |l| l.extent);
        // SAFETY: the slice lies within the table, as `table` has checked.
        unsafe {
            let from = from.offset(self.from * self.size as isize);
            copy(&self.nest.loops, first, self.size, from, memory.pointer(self.out));
        }
    }
}

/// Numbers one after another in memory.
struct Numbers<T>(PhantomData<T>);

impl<T: Rounded> Task for Numbers<T> {
    /// Key, first position, distance of positions, where and how many.
    type Args = (Draw, [u32; 2], isize, isize, *mut T, usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((draw, key, first, step, out, count): Self::Args) {
        // SAFETY: `out` is good for so many.
        draw.fill(key, first, step, unsafe { std::slice::from_raw_parts_mut(out, count) });
    }
}

struct Positions {
    out: ValueId,
    dtype: DType,
    start: isize,
    /// Strides: position, result.
    outer: Nest,
    inner: Loop,
    draw: Draw,
    seed: Seed,
    /// Of the generator; `None` where nothing is random.
    key: Option<u64>,
    salts: SmallVec<[ValueId; 1]>,
    /// With the positions that each counts.
    shifts: SmallVec<[(ValueId, u64); 4]>,
}

impl Positions {
    /// # Safety
    ///
    /// `out` is valid at all offsets of the nest.
    unsafe fn write<T: Rounded>(&self, out: *mut T, key: [u32; 2], start: isize) {
        let [step, stride] = [self.inner.strides[0], self.inner.strides[1]];
        let fill = compiled::<Numbers<T>>();
        self.outer.walk([start, 0], &mut |[first, to]| {
            if stride == 1 {
                // SAFETY: compiled for this machine; offsets of the nest.
                unsafe {
                    fill((self.draw, key, first, step, out.offset(to), self.inner.extent));
                }
                return;
            }
            for done in (0..self.inner.extent).step_by(BATCH) {
                let first = first + done as isize * step;
                let count = BATCH.min(self.inner.extent - done);
                let mut made = [T::ZERO; BATCH];
                // SAFETY: compiled for this machine; `made` holds as many.
                unsafe { fill((self.draw, key, first, step, made.as_mut_ptr(), count)) };
                for (i, x) in made[..count].iter().enumerate() {
                    // SAFETY: an offset of the nest.
                    unsafe { *out.offset(to + (done + i) as isize * stride) = *x };
                }
            }
        });
    }
}

impl Kernel for Positions {
    unsafe fn run(&self, memory: &Memory, _: *mut u8) {
        let out = memory.pointer(self.out);
        // SAFETY: salts and shifts are scalars of i32.
        let scalar = |id: &ValueId| unsafe { *memory.pointer(*id).cast::<i32>() };
        let keyed = |key| random::key(self.seed.get(), key);
        let salted = |key| self.salts.iter().map(scalar).fold(keyed(key), random::salted);
        // Where nothing is random, any key does.
        let key = random::words(self.key.map_or(0, salted));
        let start = self.shifts.iter().fold(self.start, |start, (shift, count)| {
            start.wrapping_add((scalar(shift) as isize).wrapping_mul(*count as isize))
        });
        // SAFETY: the value's memory, of its dtype.
        unsafe {
            match self.dtype {
                DType::F32 => self.write::<f32>(out.cast(), key, start),
                DType::F64 => self.write::<f64>(out.cast(), key, start),
                DType::BF16 => self.write::<bf16>(out.cast(), key, start),
                _ => self.write::<i32>(out.cast(), key, start),
            }
        }
    }
}
