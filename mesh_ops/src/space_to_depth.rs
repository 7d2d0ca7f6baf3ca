//! `space_to_depth(x, dims, block, channels)`: blocks of positions become channels; `depth_to_space` is the way
//! back.
//!
//! Compositions of reshape and transpose: a spatial dim that is split stays so, and nothing travels.

use crate::room::*;

/// `x` with each of some spatial dims cut into blocks of `block` positions, whose places in the block become
/// channels: the first dim's place counts most, the channel itself least. That is TensorFlow's order, and Flax's;
/// `torch.nn.PixelUnshuffle` has the channel first.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (h, w, c) = (dim("h", 4), dim("w", 6), dim("c", 3));
/// let x = g.input("x", [h, w, c], F32);
/// assert_eq!(mesh_ops::space_to_depth(x, &[h, w], 2, c).shape().to_string(), "[h:2, w:3, c:12]");
/// ```
#[track_caller]
pub fn space_to_depth<'g>(
    x: Tensor<'g>,
    dims: &[Dimension],
    block: usize,
    channels: Dimension,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    let uneven = dims.iter().find(|d| block == 0 || !d.size.is_multiple_of(block));
    let uneven = uneven.map(|d| format!("{d} has no blocks of {block}"));
    let Some(places) = places("space_to_depth", x, dims, block, channels, uneven) else {
        return x.poisoned();
    };
    let shape = x.shape();
    let cut = dims.iter().zip(&places).fold(x, |x, (&dim, &place)| {
        crate::replace_dims(x, [dim], [dim.resized(dim.size / block), place])
    });
    let deep = places.iter().copied().chain([channels]).collect::<Vec<_>>();
    let size = deep.iter().map(|d| d.size).product();
    let joined = crate::replace_dims(cut, deep, [channels.resized(size)]);
    let small = |d: Dimension| match dims.contains(&d) {
        true => d.resized(d.size / block),
        false if d == channels => d.resized(size),
        false => d,
    };
    crate::transpose(joined, shape.iter().map(small).collect::<Vec<_>>())
}

/// What [`space_to_depth`] came from.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (h, w, c) = (dim("h", 2), dim("w", 3), dim("c", 12));
/// let x = g.input("x", [h, w, c], F32);
/// assert_eq!(mesh_ops::depth_to_space(x, &[h, w], 2, c).shape().to_string(), "[h:4, w:6, c:3]");
/// ```
#[track_caller]
pub fn depth_to_space<'g>(
    x: Tensor<'g>,
    dims: &[Dimension],
    block: usize,
    channels: Dimension,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    let count = dims.iter().fold(1, |count: usize, _| count.saturating_mul(block));
    let uneven = count == 0 || !channels.size.is_multiple_of(count);
    let uneven = uneven.then(|| format!("{channels} are not {count} times as many as others"));
    let Some(places) = places("depth_to_space", x, dims, block, channels, uneven) else {
        return x.poisoned();
    };
    let shape = x.shape();
    let kept = channels.resized(channels.size / count);
    let deep = places.iter().copied().chain([kept]).collect::<Vec<_>>();
    let cut = crate::replace_dims(x, [channels], deep);
    let joined = dims.iter().zip(&places).fold(cut, |x, (&dim, &place)| {
        crate::replace_dims(x, [dim, place], [dim.resized(dim.size * block)])
    });
    let large = |d: Dimension| match dims.contains(&d) {
        true => d.resized(d.size * block),
        false if d == channels => kept,
        false => d,
    };
    crate::transpose(joined, shape.iter().map(large).collect::<Vec<_>>())
}

/// A dim for the places in the blocks of each dim, if nothing is wrong.
#[track_caller]
fn places(
    op: &str,
    x: Tensor<'_>,
    dims: &[Dimension],
    block: usize,
    channels: Dimension,
    problem: Option<String>,
) -> Option<Vec<Dimension>> {
    if x.is_poisoned() {
        return None;
    }
    let lacks = dims.iter().chain([&channels]).find_map(|&d| lacking(x, d));
    let twice = (1..dims.len()).find(|&i| dims[..i].contains(&dims[i]));
    let twice = twice.map(|i| format!("the dim {} is given twice", dims[i]));
    let both = dims.contains(&channels).then(|| format!("{channels} is a spatial dim, too"));
    if let Some(problem) = lacks.or(twice).or(both).or(problem) {
        x.graph().record(op, problem);
        return None;
    }
    Some(dims.iter().map(|d| apart(&x.shape(), *d, "place").resized(block)).collect())
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("space_to_depth", |_, x| {
                    space_to_depth(x[0], &[dim("h", 4), dim("w", 6)], 2, dim("c", 2))
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| {
                        let place = at.along("c") / 2;
                        let row = 2 * at.along("h") + place / 2;
                        let at = at.with("h", row).with("w", 2 * at.along("w") + place % 2);
                        x[0].at(&at.with("c", at.along("c") % 2))
                    })
                })
                .exact()
                .integers("x", "h:4;w:6;c:2", F32)
                .meshes(FEW),
                Case::new("depth_to_space", |_, x| {
                    depth_to_space(x[0], &[dim("h", 2), dim("w", 4)], 2, dim("c", 8))
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| {
                        let (row, column) = (at.along("h"), at.along("w"));
                        let channel = (row % 2 * 2 + column % 2) * 2 + at.along("c");
                        x[0].at(&at.with("h", row / 2).with("w", column / 2).with("c", channel))
                    })
                })
                .exact()
                .integers("x", "c:8;h:2;w:4", F32)
                .meshes(FEW),
            ]
        },
    };
}
