//! Convolutions and windows, by the equation that ties image, filter and output:
//! `image = stride * output + dilation * filter - low`.

use super::Dense;
use super::dense::stride;
use crate::conv::{Conv, Convolution, Makes, Padding};
use crate::windows::{Beyond, Frame, Windows, overlap::OverlapAdd};
use mesh_core::graph::TensorType;
use mesh_core::names::{DType, DimName, Shape};

/// The one of image, filter and output that the op makes of the other two.
pub(super) fn product(
    op: &Convolution,
    inputs: &[&Dense],
    ty: &TensorType,
) -> Result<Dense, String> {
    let [a, b] = inputs else { return Err("a convolution has two factors".to_owned()) };
    let mut out = Dense::zeros(ty.clone());
    let shapes = match op.makes {
        Makes::Output => [&a.ty.shape, &b.ty.shape, &ty.shape],
        Makes::Image(_) => [&ty.shape, &a.ty.shape, &b.ty.shape],
        Makes::Filter(_) => [&a.ty.shape, &ty.shape, &b.ty.shape],
    };
    for [image, filter, output] in meetings(&op.conv, shapes) {
        match op.makes {
            Makes::Output => out.data[output] += a.data[image] * b.data[filter],
            Makes::Image(_) => out.data[image] += a.data[filter] * b.data[output],
            Makes::Filter(_) => out.data[filter] += a.data[image] * b.data[output],
        }
    }
    Ok(out)
}

/// All triples of positions in image, filter and output that belong together.
fn meetings(conv: &Conv, [image, filter, output]: [&Shape; 3]) -> Vec<[usize; 3]> {
    let own = filter.iter().filter(|d| !output.contains(d.name));
    let dims: Vec<_> = output.iter().chain(own).collect();
    let count = dims.iter().map(|d| d.size).product();
    let mut found = Vec::new();
    for mut number in 0..count {
        let mut index = Vec::new();
        for dim in dims.iter().rev() {
            index.push((dim.name, number % dim.size));
            number /= dim.size;
        }
        let of = |name| index.iter().find(|(n, _)| *n == name).map_or(0, |(_, i)| *i);
        let at = |shape: &Shape, position: &dyn Fn(DimName) -> usize| {
            shape.names().map(|name| position(name) * stride(shape, name)).sum::<usize>()
        };
        let mut inside = true;
        let mut image_at = 0;
        for dim in image {
            let position = match conv.pairs.iter().position(|pair| pair.0 == dim.name) {
                None => of(dim.name) as i64,
                Some(pair) => {
                    let along = filter.get(conv.pairs[pair].1).map_or(1, |d| d.size);
                    let step = conv.strides.get(pair).copied().unwrap_or(1);
                    let gap = conv.dilations.get(pair).copied().unwrap_or(1);
                    let given = conv.pads.get(pair).map(|pads| pads.0 as i64);
                    let low =
                        given.unwrap_or_else(|| low(conv.padding, dim.size, along, step, gap));
                    (of(dim.name) * step + of(conv.pairs[pair].1) * gap) as i64 - low
                }
            };
            inside &= (0..dim.size as i64).contains(&position);
            image_at += position.max(0) as usize * stride(image, dim.name);
        }
        if inside {
            found.push([image_at, at(filter, &of), at(output, &of)]);
        }
    }
    found
}

/// Zeros before the image: with padding Same half of what the windows reach beyond it.
fn low(padding: Padding, image: usize, filter: usize, stride: usize, gap: usize) -> i64 {
    let windows = image.div_ceil(stride);
    let needed = (windows - 1) * stride + (filter - 1) * gap + 1;
    match padding {
        Padding::Same => needed.saturating_sub(image) as i64 / 2,
        Padding::Valid => 0,
    }
}

/// Every element of every window.
pub(super) fn framed(op: &Windows, x: &Dense, ty: &TensorType) -> Dense {
    let beyond = match op.beyond {
        Beyond::Least if ty.dtype == DType::I32 => f64::from(i32::MIN),
        Beyond::Least => f64::NEG_INFINITY,
        Beyond::Zero => 0.0,
    };
    let at = seen(&op.frame, &x.ty.shape, &ty.shape);
    let data = at.into_iter().map(|at| at.map_or(beyond, |at| x.data[at])).collect();
    Dense { ty: ty.clone(), data }
}

/// Every element of every window, added where it lies.
pub(super) fn overlapped(op: &OverlapAdd, y: &Dense, ty: &TensorType) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    for (at, element) in seen(&op.frame, &ty.shape, &y.ty.shape).into_iter().zip(&y.data) {
        if let Some(at) = at {
            out.data[at] += element;
        }
    }
    out
}

/// For each element of the windows, in order, where it lies in the image; `None` beyond the ends.
fn seen(frame: &Frame, image: &Shape, windows: &Shape) -> Vec<Option<usize>> {
    let element = |mut number: usize| {
        let mut index = Vec::new();
        for dim in windows.dims().iter().rev() {
            index.push((dim.name, number % dim.size));
            number /= dim.size;
        }
        let of = |name| index.iter().find(|(n, _)| *n == name).map_or(0, |(_, i)| *i as i64);
        let mut at = Some(0);
        for dim in image {
            let mut position = of(dim.name);
            if dim.name == frame.dim {
                position = frame.stride as i64 * position + of(frame.window.name);
                position -= frame.pads[0] as i64;
            }
            let inside = (0..dim.size as i64).contains(&position);
            let step = stride(image, dim.name);
            at = at.filter(|_| inside).map(|at| at + position as usize * step);
        }
        at
    };
    (0..windows.size()).map(element).collect()
}
