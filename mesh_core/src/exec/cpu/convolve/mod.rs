//! `Convolve`: forward, and the gradients of its input and of its kernel.
//!
//! Floats of the usual label pattern go to register blocks; everything else goes term by term.

mod block;
mod direct;
mod input;
mod naive;
mod padding;
mod rows;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::exec::cpu::Kernel;
use crate::exec::cpu::product::{self, Product};
use crate::exec::cpu::strided::{Labels, Nest};
use crate::names::DType;
use crate::program::{Operand, Program, ValueId, Window};
use block::Element;
use direct::Direct;
use input::InputGradient;
use naive::{Naive, window_labels};

/// Bytes of one chunk's images that should stay in the second-level cache.
pub(super) const CHUNK: usize = 256 << 10;

pub(super) fn prepare(
    program: &Program,
    lhs: &Operand,
    rhs: &Operand,
    windows: &[Window],
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let labels = Labels::new(program, &[lhs, rhs], out);
    let known = |l: usize| l < labels.extents.len() && (0..3).any(|k| labels.has[k][l]);
    if !windows.iter().flat_map(window_labels).all(known) {
        return Err("a window ties a label that no operand has".to_owned());
    }
    let tied = |l: usize| windows.iter().flat_map(window_labels).any(|tied| tied == l);
    let only_out = |l: usize| [0, 1, 2].map(|k| labels.has[k][l]) == [false, false, true];
    if !labels.select(|l| only_out(l) && !tied(l)).is_empty() {
        return Err("a convolution's result has a dim that no factor has".to_owned());
    }
    let len = program.value(out).len();
    product::kernel(program, [lhs, rhs], out, |dtype| match dtype {
        DType::F32 => Ok(fast::<f32>(&labels, windows)
            .unwrap_or_else(|| Naive::<f32>::boxed(&labels, windows, len))),
        DType::F64 => Ok(fast::<f64>(&labels, windows)
            .unwrap_or_else(|| Naive::<f64>::boxed(&labels, windows, len))),
        DType::I32 => Ok(Naive::<i32>::boxed(&labels, windows, len)),
        _ => Err(format!("there is no convolution of {dtype}")),
    })
}

/// Operands by part: who is image, kernel and output image, and the labels by what they do.
pub(super) struct Parts {
    /// Operand (lhs, rhs, out) of image, kernel and output.
    pub(super) roles: [usize; 3],
    /// Labels of all three; strides of (image, kernel, output).
    pub(super) groups: Nest,
    pub(super) batch: Vec<usize>,
    pub(super) channels: Vec<usize>,
    pub(super) features: Vec<usize>,
}

impl Parts {
    /// `None` if the labels are not those of a usual convolution.
    fn new(labels: &Labels, windows: &[Window]) -> Option<Self> {
        let only = |l: usize| {
            let mut having = (0..3).filter(|&k| labels.has[k][l]);
            having.next().filter(|_| having.next().is_none())
        };
        let mut roles = None;
        for window in windows {
            let [image, kernel, output] = window_labels(window).map(only);
            let of = [image?, kernel?, output?];
            let mut sorted = of;
            sorted.sort_unstable();
            if sorted != [0, 1, 2] || roles.is_some_and(|roles| roles != of) {
                return None;
            }
            roles = Some(of);
        }
        let roles = roles?;
        let tied = |l: usize| windows.iter().any(|w| window_labels(w).contains(&l));
        let pattern = |l: usize| roles.map(|k| labels.has[k][l]);
        let group = |want: [bool; 3]| labels.select(|l| !tied(l) && pattern(l) == want);
        let odd = labels.select(|l| {
            !tied(l) && labels.extents[l] > 1 && pattern(l).iter().filter(|&&has| has).count() < 2
        });
        if !odd.is_empty() {
            return None;
        }
        Some(Self {
            roles,
            groups: labels.nest(&group([true, true, true]), &roles).collapse(),
            batch: group([true, false, true]),
            channels: group([true, true, false]),
            features: group([false, true, true]),
        })
    }
}

/// Offsets of all combinations of some labels in two operands, in the memory order of the second.
pub(super) fn pairs(labels: &Labels, of: &[usize], operands: [usize; 2]) -> Vec<[isize; 2]> {
    let mut nest = labels.nest(of, &operands);
    nest.sort_by(1);
    nest.offsets(0).into_iter().zip(nest.offsets(1)).map(|(a, b)| [a, b]).collect()
}

fn fast<T: Element>(labels: &Labels, windows: &[Window]) -> Option<Box<dyn Product>> {
    // Offsets in tables are of 32 bits.
    let len = |k: usize| -> usize {
        labels.select(|l| labels.has[k][l]).iter().map(|&l| labels.extents[l]).product()
    };
    if (0..3).any(|k| len(k) > i32::MAX as usize / 2) {
        return None;
    }
    let parts = Parts::new(labels, windows)?;
    if parts.roles[0] == 2 {
        let product = InputGradient::<T>::new(labels, windows, parts);
        return if product.fits() { Some(Box::new(product)) } else { None };
    }
    let product = Direct::<T>::new(labels, windows, parts);
    if product.fits() { Some(Box::new(product)) } else { None }
}

/// Elements of an operand.
pub(super) fn labels_len(labels: &Labels, k: usize) -> usize {
    labels.select(|l| labels.has[k][l]).iter().map(|&l| labels.extents[l]).product()
}
