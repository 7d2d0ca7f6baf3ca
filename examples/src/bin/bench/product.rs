//! The product of a contraction by itself, as `ndarray` makes it: the same shape and transpositions, as many
//! products as in a step.

use super::lines::median;
use mesh_core::program::{Block, Form, Operand, Step, Value};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Ix2, ShapeBuilder, StrideShape};
use std::fmt;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// The bytes that are written between two measurements.
const BYTES_BETWEEN: usize = 4 << 20;
/// The most bytes of all runs' matrices together.
const BYTES_OF_SETS: usize = 256 << 20;

/// Products of `m x k` and `k x n` matrices: how many, and which matrices are stored by columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Product {
    count: usize,
    m: usize,
    n: usize,
    k: usize,
    turned: [bool; 3],
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.turned.map(|turned| if turned { 'T' } else { 'N' });
        let Self { count, m, n, k, .. } = self;
        write!(f, "{a}{b}{c} {count} of {m}x{k}x{n}")
    }
}

/// What a label of a contraction is to the product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Batch,
    Row,
    Column,
    Summed,
}

impl Product {
    /// The product of a step; `None` if the step is no contraction of f32, or no product of
    /// matrices.
    pub(crate) fn of(block: &Block, step: &Step) -> Option<Self> {
        let (Form::Contract(_), [lhs, rhs, ..], [out, ..]) =
            (&step.form, &step.inputs[..], &step.outs[..])
        else {
            return None;
        };
        let result = block.value(*out);
        let rank = result.extents.len();
        let role = |label: u8| {
            let in_out = usize::from(label) < rank;
            match (lhs.dims.contains(&label), rhs.dims.contains(&label), in_out) {
                (true, true, true) => Some(Role::Batch),
                (true, false, true) => Some(Role::Row),
                (false, true, true) => Some(Role::Column),
                (true, true, false) => Some(Role::Summed),
                _ => None,
            }
        };
        let mut sizes = [1; 4];
        for label in 0..rank as u8 {
            sizes[role(label)? as usize] *= result.extents[usize::from(label)];
        }
        let left = block.value(lhs.value);
        for (&label, &extent) in lhs.dims.iter().zip(&left.extents) {
            if role(label)? == Role::Summed {
                sizes[Role::Summed as usize] *= extent;
            }
        }
        let innermost = |value: &Value, dims: &[u8]| {
            let last = value.order.iter().rev().find(|&&dim| value.extents[usize::from(dim)] > 1);
            last.and_then(|&dim| role(dims[usize::from(dim)]))
        };
        let of = |operand: &Operand| innermost(block.value(operand.value), &operand.dims);
        let labels: Vec<u8> = (0..rank as u8).collect();
        let turned = [
            of(lhs) == Some(Role::Row),
            of(rhs) == Some(Role::Summed),
            innermost(result, &labels) == Some(Role::Row),
        ];
        let [count, m, n, k] = sizes;
        let floats = [left, block.value(rhs.value), result];
        let floats = floats.iter().all(|value| value.dtype == mesh_ops::prelude::F32);
        floats.then_some(Self { count, m, n, k, turned })
    }

    /// Floating-point operations.
    pub(crate) fn flops(&self) -> f64 {
        2.0 * (self.count * self.m * self.n * self.k) as f64
    }

    /// The median seconds of `runs` products, while as many threads do the same. If `apart`, each
    /// product has matrices of its own, which come from memory; otherwise all use the same ones,
    /// which stay in a cache.
    pub(crate) fn seconds(&self, runs: u64, apart: bool, threads: usize) -> f64 {
        // At least five measurements, and more of short ones.
        let rounds = ((2e9 / self.flops() / runs as f64) as usize).clamp(5, 50);
        let barrier = Barrier::new(threads);
        let work = || {
            let mut sets = self.sets(if apart { runs } else { 1 });
            let mut other = vec![0u8; BYTES_BETWEEN];
            let mut times = Vec::new();
            for _ in 0..rounds {
                other.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                black_box(&mut other);
                barrier.wait();
                let (started, count) = (Instant::now(), sets.len());
                (0..runs as usize).for_each(|run| self.run(&mut sets[run % count]));
                black_box(&mut sets);
                times.push(started.elapsed().as_secs_f64());
            }
            median(times)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).fold(0.0, f64::max)
        })
    }

    /// The left factor, right factor and result of each run; fewer sets if they would take too much
    /// memory.
    fn sets(&self, runs: u64) -> Vec<[Vec<f32>; 3]> {
        let Self { count, m, n, k, .. } = *self;
        let sizes = [m * k, k * n, m * n].map(|size| count * size);
        let most = BYTES_OF_SETS / (4 * sizes.iter().sum::<usize>());
        let set = || [(0.5, sizes[0]), (0.25, sizes[1]), (0.0, sizes[2])].map(|(x, n)| vec![x; n]);
        (0..most.clamp(1, runs as usize)).map(|_| set()).collect()
    }

    fn run(&self, [a, b, c]: &mut [Vec<f32>; 3]) {
        let Self { m, n, k, turned, .. } = *self;
        let factors = a.chunks_exact(m * k).zip(b.chunks_exact(k * n));
        for (c, (a, b)) in c.chunks_exact_mut(m * n).zip(factors) {
            let a = ArrayView2::from_shape(shape(m, k, turned[0]), a);
            let b = ArrayView2::from_shape(shape(k, n, turned[1]), b);
            let c = ArrayViewMut2::from_shape(shape(m, n, turned[2]), c);
            if let (Ok(a), Ok(b), Ok(mut c)) = (a, b, c) {
                general_mat_mul(1.0, &a, &b, 0.0, &mut c);
            }
        }
    }
}

/// By rows or, if turned, by columns.
fn shape(rows: usize, columns: usize, turned: bool) -> StrideShape<Ix2> {
    (rows, columns).set_f(turned).into()
}
