//! What a convolution means, by the equation that ties image, filter and output:
//! `image = stride * output + dilation * filter - low`; and its cases.

use super::*;
use crate::testing::proof::*;

pub(crate) static PROOF: Proof = Proof {
    meanings: &[&Outputs::<Convolution>(|op, x, types| {
        let (a, b, mut out) = (x[0], x[1], Dense::zeros(types[0].clone()));
        let shapes = match op.makes {
            Makes::Output => [&a.ty.shape, &b.ty.shape, &types[0].shape],
            Makes::Image(_) => [&types[0].shape, &a.ty.shape, &b.ty.shape],
            Makes::Filter(_) => [&a.ty.shape, &types[0].shape, &b.ty.shape],
        };
        for [image, filter, output] in meetings(&op.conv, shapes) {
            match op.makes {
                Makes::Output => out.data[output] += a.data[image] * b.data[filter],
                Makes::Image(_) => out.data[image] += a.data[filter] * b.data[output],
                Makes::Filter(_) => out.data[filter] += a.data[image] * b.data[output],
            }
        }
        vec![out]
    })],
    cases: || {
        let mut cases = of_whole_images();
        cases.extend(of_split_images());
        cases
    },
};

fn two() -> Conv {
    Conv::over([("h", "fh"), ("w", "fw")])
}

fn one() -> Conv {
    Conv::over([("h", "fh")])
}

fn of_whole_images() -> Vec<Case> {
    vec![
        Case::new("conv", |_, x| conv(x[0], x[1], &two()))
            .exact()
            .integers("x", "n:2;h:4;w:3;c:4", F32)
            .integers("filter", "fh:3;fw:2;c:4;d:4", F32)
            .meshes(GRIDS),
        Case::new("conv: strides, valid", |_, x| {
            conv(x[0], x[1], &two().strides([2, 1]).padding(Padding::Valid))
        })
        .exact()
        .integers("x", "n:2;h:5;w:3;c:2", F32)
        .integers("filter", "fh:2;fw:2;c:2;d:2", F32)
        .meshes(&["a:2"]),
        Case::new("conv: dilated, depthwise", |_, x| {
            conv(x[0], x[1], &Conv::over([("w", "fw")]).dilations([2]).depthwise(["c"]))
        })
        .exact()
        .integers("x", "n:4;w:6;c:4", F32)
        .integers("filter", "fw:3;c:4", F32)
        .meshes(GRIDS),
        Case::new("conv_transpose", |_, x| {
            conv_transpose(x[0], x[1], &Conv::over([("w", "fw")]).strides([2]))
        })
        .exact()
        .integers("x", "n:4;w:3;d:4", F32)
        .integers("filter", "fw:3;d:4;c:2", F32)
        .meshes(GRIDS),
        Case::new("conv_transpose: three dims", |_, x| {
            let over = Conv::over([("d", "fd"), ("h", "fh"), ("w", "fw")]);
            conv_transpose(x[0], x[1], &over.strides([2, 1, 2]))
        })
        .computes(|x, ty| spread(&[("d", "fd", 2), ("h", "fh", 1), ("w", "fw", 2)], x, ty))
        .exact()
        .integers("x", "d:2;h:4;w:2;o:2", F32)
        .integers("filter", "fd:3;fh:2;fw:2;o:2;c:2", F32)
        .meshes(GRIDS),
        Case::new("conv: what a gradient makes of a filter", |g, x| {
            let grads = g.gradients(&[conv(x[0], x[1], &one())], &[x[1]], Some(&[x[2]]));
            grads[0].unwrap_or(x[1])
        })
        .exact()
        .integers("x", "h:4;c:2", F32)
        .integers("filter", "fh:2;c:2;o:2", F32)
        .integers("dy", "h:4;o:2", F32)
        .meshes(GRIDS),
    ]
}

/// A transposed convolution, padding Same: every element of `x` puts the filter, times itself, onto the
/// output, at `stride` times its own position; what falls off the ends is lost. Dims of `x`, of the filter,
/// and strides.
fn spread(dims: &[(&'static str, &'static str, usize)], x: &[&Dense], ty: &TensorType) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    for from in At::all(&x[0].ty.shape) {
        for tap in At::all(&x[1].ty.shape).iter().filter(|tap| tap.along("o") == from.along("o")) {
            let onto = |&(dim, taps, step): &(&'static str, &'static str, usize)| {
                let count = extent(&x[1].ty.shape, taps.into());
                let before = count.saturating_sub(step) / 2;
                (from.along(dim) * step + tap.along(taps)).checked_sub(before).map(|to| (dim, to))
            };
            let places = dims.iter().map(onto).collect::<Option<Vec<_>>>().unwrap_or_default();
            let inside = |&(dim, to): &(&str, usize)| to < extent(&ty.shape, dim.into());
            if places.is_empty() || !places.iter().all(inside) {
                continue;
            }
            let place = places.iter().fold(tap.clone(), |at, &(dim, to)| at.with(dim, to));
            out.data[place.number(&ty.shape)] += x[0].at(&from) * x[1].at(tap);
        }
    }
    out
}

/// Spatial dims that may be split.
fn of_split_images() -> Vec<Case> {
    let case = |name: &str, x: &str, filter: &str, described: Conv| {
        Case::new(name, move |_, t| conv(t[0], t[1], &described))
            .exact()
            .integers("x", x, F32)
            .integers("filter", filter, F32)
            .meshes(LINES)
    };
    let transposed = |name: &str, described: Conv| {
        Case::new(name, move |_, t| conv_transpose(t[0], t[1], &described))
            .exact()
            .integers("y", "h:6;o:2", F32)
            .integers("filter", "fh:4;o:2;c:2", F32)
            .meshes(LINES)
    };
    let valid = || one().padding(Padding::Valid);
    vec![
        case("same", "n:2;h:12;c:2", "fh:3;c:2;o:2", one()),
        case("same, stride 2", "h:12;c:2", "fh:5;c:2;o:2", one().strides([2])),
        case("same, dilated", "h:12;c:2", "fh:3;c:2", one().dilations([3])),
        case("valid", "h:18;c:2", "fh:7;c:2;o:2", valid()),
        case("valid, stride 2", "h:18", "fh:8;o:2", valid().strides([2])),
        case("causal", "h:12;c:2", "fh:3;c:2;o:2", one().pads([(2, 0)])),
        case("depthwise", "h:12;c:2", "fh:3;c:2", one().depthwise(["c"])),
        case("grouped", "h:6;g:2;c:3", "fh:3;g:2;c:3;o:4", one().depthwise(["g"])),
        transposed("transposed, same", one().strides([2])),
        transposed("transposed, valid", valid().strides([3])),
        transposed("transposed, pads", one().strides([2]).pads([(1, 1)])),
        Case::new("bf16", |_, t| conv(t[0], t[1], &one()))
            .normal("x", "h:8;c:2", BF16)
            .normal("filter", "fh:3;c:2", BF16)
            .meshes(GRIDS),
        Case::new("i32", |_, t| conv(t[0], t[1], &one()))
            .integers("x", "h:8;c:2", I32)
            .integers("filter", "fh:3;c:2", I32)
            .meshes(GRIDS),
        Case::new("two dims", |_, t| conv(t[0], t[1], &two().strides([1, 2])))
            .exact()
            .integers("x", "h:4;w:8;c:2", F32)
            .integers("filter", "fh:3;fw:3;c:2;o:2", F32)
            .meshes(GRIDS),
    ]
}

/// All triples of positions in image, filter and output that belong together.
fn meetings(conv: &Conv, [image, filter, output]: [&Shape; 3]) -> Vec<[usize; 3]> {
    let own = filter.iter().filter(|d| !output.contains(d.name));
    let all = Shape::new(output.iter().chain(own)).unwrap_or_default();
    let (of_filter, of_output) = (offsets(filter, &all), offsets(output, &all));
    let at = |number| {
        let mut at = 0;
        for dim in image {
            let of = |name| along(&all, number, name);
            let position = match conv.pairs.iter().position(|pair| pair.0 == dim.name) {
                None => of(dim.name) as i64,
                Some(pair) => {
                    let taps = extent(filter, conv.pairs[pair].1);
                    let step = conv.strides.get(pair).copied().unwrap_or(1);
                    let gap = conv.dilations.get(pair).copied().unwrap_or(1);
                    let given = conv.pads.get(pair).map(|pads| pads.0 as i64);
                    let low = given.unwrap_or_else(|| low(conv.padding, dim.size, taps, step, gap));
                    (of(dim.name) * step + of(conv.pairs[pair].1) * gap) as i64 - low
                }
            };
            if !(0..dim.size as i64).contains(&position) {
                return None;
            }
            at += position as usize * stride(image, dim.name);
        }
        Some([at, of_filter[number], of_output[number]])
    };
    (0..all.size()).filter_map(at).collect()
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
