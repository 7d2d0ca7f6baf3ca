//! Halo exchange: each block of a tensor gets the margins of its neighbours.
//!
//! A long dim is stated as two, `blocks` (may be split) and the positions of a block (not split).
//! An op with windows over positions then runs on every block by itself. Compositions of slice,
//! shift and concat: only the rows needed travel, and the gradient falls out.

use crate::room::*;

/// `x` with every block extended along `size` by the `halo` positions before and after it, taken
/// from the blocks around it along `blocks`. Beyond the first and last block there are zeros, or
/// with `wrap` the blocks of the other end. A halo may be wider than a block.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (blocks, rows) = (dim("blocks", 4), dim("rows", 16));
/// let x = g.input("x", [blocks, rows], F32);
/// let y = mesh_ops::halo_exchange(x, blocks, rows, 2, false);
/// assert_eq!(y.shape().to_string(), "[blocks:4, rows:20]");
/// ```
#[track_caller]
pub fn halo_exchange(
    x: Tensor<'_>,
    blocks: Dimension,
    size: Dimension,
    halo: usize,
    wrap: bool,
) -> Tensor<'_> {
    exchange(x, blocks, size, [halo, halo], wrap)
}

/// As [`halo_exchange`], with the positions before the block only: what an op that looks back
/// needs.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (blocks, rows) = (dim("blocks", 4), dim("rows", 16));
/// let x = g.input("x", [blocks, rows], F32);
/// let y = mesh_ops::left_halo_exchange(x, blocks, rows, 20, false);
/// assert_eq!(y.shape().to_string(), "[blocks:4, rows:36]");
/// ```
#[track_caller]
pub fn left_halo_exchange(
    x: Tensor<'_>,
    blocks: Dimension,
    size: Dimension,
    halo: usize,
    wrap: bool,
) -> Tensor<'_> {
    exchange(x, blocks, size, [halo, 0], wrap)
}

#[track_caller]
fn exchange<'g>(
    x: Tensor<'g>,
    blocks: Dimension,
    size: Dimension,
    [before, after]: [usize; 2],
    wrap: bool,
) -> Tensor<'g> {
    let lacking = [blocks, size].into_iter().find(|d| x.shape().get(d.name) != Some(*d));
    if let Some(lacking) = lacking.filter(|_| !x.is_poisoned()) {
        x.graph().record("halo_exchange", format!("{x:?} has no dim {lacking}"));
        return x.poisoned();
    }
    if blocks.name == size.name {
        x.graph().record("halo_exchange", format!("{blocks} cannot be blocks and positions both"));
        return x.poisoned();
    }
    if (before, after) == (0, 0) || x.is_poisoned() {
        return x;
    }
    let mut margins = Vec::new();
    // From the outermost block inwards.
    for distance in (1..=before.div_ceil(size.size)).rev() {
        let rows = size.size.min(before - (distance - 1) * size.size);
        let part = crate::slice(x, size.resized(rows), size.size - rows);
        margins.push(crate::shift(part, blocks, distance as i64, wrap));
    }
    margins.push(x);
    for distance in 1..=after.div_ceil(size.size) {
        let rows = size.size.min(after - (distance - 1) * size.size);
        let part = crate::slice(x, size.resized(rows), 0);
        margins.push(crate::shift(part, blocks, -(distance as i64), wrap));
    }
    crate::concat(margins[0], &margins[1..], size.name)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("halo_exchange", |_, x| {
                    halo_exchange(x[0], blocks(), dim("rows", 4), 2, false)
                })
                .exact()
                .integers("x", "blocks:4;rows:4", F32)
                .meshes(GRIDS),
                Case::new("left_halo_exchange", |_, x| {
                    left_halo_exchange(x[0], blocks(), dim("rows", 4), 2, false)
                })
                .exact()
                .integers("x", "blocks:4;rows:4", F32)
                .meshes(GRIDS),
                in_three_rows("halo", |x| halo_exchange(x, blocks(), rows(), 1, false)),
                in_three_rows("wrapped halo", |x| halo_exchange(x, blocks(), rows(), 2, true)),
                in_three_rows("wide halo", |x| halo_exchange(x, blocks(), rows(), 5, false)),
                in_three_rows("left halo", |x| left_halo_exchange(x, blocks(), rows(), 4, false)),
            ]
        },
    };

    fn blocks() -> Dimension {
        dim("blocks", 4)
    }

    fn rows() -> Dimension {
        dim("rows", 3)
    }

    fn in_three_rows(name: &str, function: Unary) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .exact()
            .integers("x", "p:4;blocks:4;rows:3", F32)
            .meshes(GRIDS)
    }
}
