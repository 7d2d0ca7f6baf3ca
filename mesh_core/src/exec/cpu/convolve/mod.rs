//! `Convolve`: forward, and the gradients of its input and of its kernel.
//!
//! Floats of the usual label pattern go by tiles, blocks or products; everything else goes term by term.

mod block;
pub(super) mod choice;
mod depthwise;
mod direct;
mod few;
mod filters;
mod gathered;
mod input;
mod lines;
mod matrices;
mod micro;
mod naive;
mod narrow;
mod padding;
mod parts;
mod rows;
mod runs;
mod tiled;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::exec::cpu::Kernel;
use crate::exec::cpu::contract;
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::product::{self, Product};
use crate::exec::cpu::strided::{Labels, Loop, Nest};
use crate::exec::cpu::tiles::Tiled;
use crate::names::DType;
use crate::program::{Block, Operand, ValueId, Window};
use depthwise::Depthwise;
use direct::Direct;
use few::Few;
use filters::Filters;
use gathered::Gathered;
use input::InputGradient;
use micro::Element;
use naive::{Naive, window_labels};
use narrow::Narrow;
use parts::Parts;
use tiled::ByTiles;

/// A product, and the way in which it is made.
type Planned = (&'static str, Box<dyn Product>);

pub(super) fn prepare(
    block: &Block,
    lhs: &Operand,
    rhs: &Operand,
    windows: &[Window],
    out: ValueId,
) -> Result<Box<dyn Kernel>, String> {
    let labels = labels(block, [lhs, rhs], windows, out)?;
    let len = block.value(out).len();
    product::kernel(block, [lhs, rhs], out, |dtype| Ok(plan(labels, windows, len, dtype)?.1))
}

/// The way that [`prepare`] chooses.
pub(super) fn way(
    block: &Block,
    lhs: &Operand,
    rhs: &Operand,
    windows: &[Window],
    out: ValueId,
) -> Option<&'static str> {
    let labels = labels(block, [lhs, rhs], windows, out).ok()?;
    let value = block.value(out);
    plan(labels, windows, value.len(), value.dtype.reduction()).ok().map(|(way, _)| way)
}

/// The labels of a convolution, which has those that its windows tie.
fn labels(
    block: &Block,
    factors: [&Operand; 2],
    windows: &[Window],
    out: ValueId,
) -> Result<Labels, String> {
    let labels = Labels::new(block, &factors, out);
    let known = |l: usize| l < labels.extents.len() && (0..3).any(|k| labels.has[k][l]);
    if !windows.iter().flat_map(window_labels).all(known) {
        return Err("a window ties a label that no operand has".to_owned());
    }
    let tied = |l: usize| windows.iter().flat_map(window_labels).any(|tied| tied == l);
    let only_out = |l: usize| [0, 1, 2].map(|k| labels.has[k][l]) == [false, false, true];
    if !labels.select(|l| only_out(l) && !tied(l)).is_empty() {
        return Err("a convolution's result has a dim that no factor has".to_owned());
    }
    Ok(labels)
}

/// A convolution whose result has so many elements, in the fastest way there is for it.
fn plan(labels: Labels, windows: &[Window], len: usize, dtype: DType) -> Result<Planned, String> {
    if let Some(labels) = pointwise(&labels, windows) {
        return Ok(("a product of matrices", contract::plan(labels, dtype)?));
    }
    let naive = "term by term";
    match dtype {
        DType::F32 => Ok(fast::<f32>(&labels, windows)
            .unwrap_or_else(|| (naive, Naive::<f32>::boxed(&labels, windows, len)))),
        DType::F64 => Ok(fast::<f64>(&labels, windows)
            .unwrap_or_else(|| (naive, Naive::<f64>::boxed(&labels, windows, len)))),
        DType::I32 => Ok((naive, Naive::<i32>::boxed(&labels, windows, len))),
        _ => Err(format!("there is no convolution of {dtype}")),
    }
}

/// The labels of the contraction that a convolution is whose kernel has one position.
fn pointwise(labels: &Labels, windows: &[Window]) -> Option<Labels> {
    Parts::new(labels, windows)?;
    let moved = |w: &Window| {
        let [i, k, o] = window_labels(w).map(|l| labels.extents[l]);
        k > 1 || w.pad > 0 || w.stride > 1 || i != o
    };
    if windows.iter().any(moved) {
        return None;
    }
    let kernel = |l: usize| windows.iter().any(|w| w.kernel as usize == l);
    let input = |l: usize| windows.iter().any(|w| w.input as usize == l);
    let kept = labels.select(|l| !kernel(l) && !input(l));
    // Along an output position, the image is where its input position is.
    let of = |k: usize, l: usize| {
        let tied = windows.iter().find(|w| w.output as usize == l && !labels.has[k][l]);
        tied.map_or(l, |w| w.input as usize)
    };
    let strides = |k: usize| kept.iter().map(|&l| labels.strides[k][of(k, l)]).collect();
    let has = |k: usize| kept.iter().map(|&l| labels.has[k][of(k, l)]).collect();
    Some(Labels {
        extents: kept.iter().map(|&l| labels.extents[l]).collect(),
        strides: (0..3).map(strides).collect(),
        has: (0..3).map(has).collect(),
    })
}

fn fast<T: Element + Tiled + Few>(labels: &Labels, windows: &[Window]) -> Option<Planned> {
    // Offsets in tables are of 32 bits.
    let len = |k: usize| -> usize {
        labels.select(|l| labels.has[k][l]).iter().map(|&l| labels.extents[l]).product()
    };
    if (0..3).any(|k| len(k) > i32::MAX as usize / 2) {
        return None;
    }
    let parts = Parts::new(labels, windows)?;
    if let Some(product) = Depthwise::<T>::new(labels, windows, &parts) {
        return Some(("vectors of channels, each channel by itself", Box::new(product)));
    }
    if choice::is_free()
        && let Some(product) = Narrow::<T>::new(labels, windows, &parts)
    {
        return Some(("vectors of columns, groups of few channels", Box::new(product)));
    }
    if choice::tiles(labels, windows, &parts, size_of::<T>()) {
        let product: Option<Box<dyn Product>> = match parts.roles[1] {
            2 => Filters::<T>::new(labels, windows, &parts).map(|product| Box::new(product) as _),
            _ => ByTiles::<T>::new(labels, windows, &parts).map(|product| Box::new(product) as _),
        };
        if let Some(product) = product {
            return Some(("register tiles", product));
        }
    }
    if choice::gathers(labels, windows, &parts)
        && let Some(product) = Gathered::<T>::new(labels, windows, &parts)
    {
        return Some(("a product of matrices of what windows see", Box::new(product)));
    }
    if parts.roles[0] == 2 {
        let turned = Turned::new::<T>(labels, windows, &parts);
        if let Some(Turned { labels, windows, parts, origin }) = turned {
            let product = Direct::<T>::new(&labels, &windows, parts, origin);
            let way = "register blocks, with the kernel turned round";
            return product.fits().then(|| (way, Box::new(product) as _));
        }
        let product = InputGradient::<T>::new(labels, windows, parts);
        let way = "register blocks of the input's gradient";
        return product.fits().then(|| (way, Box::new(product) as _));
    }
    let product = Direct::<T>::new(labels, windows, parts, 0);
    product.fits().then(|| ("register blocks", Box::new(product) as _))
}

/// An input gradient as the forward convolution of the output's gradient: input and output, channels
/// and features change places, and the kernel is turned round.
struct Turned {
    labels: Labels,
    windows: Vec<Window>,
    parts: Parts,
    /// Where the turned kernel's first position lies.
    origin: isize,
}

impl Turned {
    /// `None` where windows do not move by one, or where channels fill too little of vectors.
    fn new<T: Element>(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let channels: usize = parts.channels.iter().map(|&l| labels.extents[l]).product();
        let lanes = T::micro(isa(), channels).lanes;
        if channels * 4 < channels.next_multiple_of(lanes) * 3 {
            return None;
        }
        let [image, kernel, output] = parts.roles;
        let mut turned = Labels {
            extents: labels.extents.clone(),
            strides: labels.strides.clone(),
            has: labels.has.clone(),
        };
        let mut origin = 0;
        let mut turn = |w: &Window| {
            let last = labels.extents[w.kernel as usize] - 1;
            let stride = &mut turned.strides[kernel][w.kernel as usize];
            origin += last as isize * *stride;
            *stride = -*stride;
            let pad = (w.dilation * last).checked_sub(w.pad).filter(|_| w.stride == 1)?;
            // Zeros around the output's gradient are worth it if they are few.
            let [i, _, o] = window_labels(w).map(|l| labels.extents[l]);
            if o * 4 < i * 3 {
                return None;
            }
            Some(Window { input: w.output, output: w.input, pad, ..*w })
        };
        let windows = windows.iter().map(&mut turn).collect::<Option<_>>()?;
        let roles = [output, kernel, image];
        let swap = |l: &Loop| {
            let mut strides = l.strides.clone();
            strides.reverse();
            Loop { extent: l.extent, strides }
        };
        let groups = Nest { loops: parts.groups.loops.iter().map(swap).collect(), operands: 3 };
        let (batch, channels, features) =
            (parts.batch.clone(), parts.features.clone(), parts.channels.clone());
        let parts = Parts { roles, groups, batch, channels, features };
        Some(Self { labels: turned, windows, parts, origin })
    }
}
