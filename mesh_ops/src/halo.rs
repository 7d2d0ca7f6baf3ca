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
                in_blocks("halo_exchange", "blocks:4;rows:4", from(2), |x| {
                    halo_exchange(x, blocks(), dim("rows", 4), 2, false)
                }),
                in_blocks("left_halo_exchange", "blocks:4;rows:4", from(2), |x| {
                    left_halo_exchange(x, blocks(), dim("rows", 4), 2, false)
                }),
                in_three_rows("halo", from(1), |x| halo_exchange(x, blocks(), three(), 1, false)),
                in_three_rows("wrapped halo", from(2).wrapped(), |x| {
                    halo_exchange(x, blocks(), three(), 2, true)
                }),
                in_three_rows("wide halo", from(5), |x| {
                    halo_exchange(x, blocks(), three(), 5, false)
                }),
                in_three_rows("wide halo, wrapped", from(7).wrapped(), |x| {
                    halo_exchange(x, blocks(), three(), 7, true)
                }),
                in_three_rows("wider than all blocks", from(14), |x| {
                    halo_exchange(x, blocks(), three(), 14, false)
                }),
                in_three_rows("left halo", from(4), |x| {
                    left_halo_exchange(x, blocks(), three(), 4, false)
                }),
                in_three_rows("left halo, wrapped", from(8).wrapped(), |x| {
                    left_halo_exchange(x, blocks(), three(), 8, true)
                }),
                Case::new("halo of two dims", |_, x| {
                    let columns = halo_exchange(x[0], dim("across", 2), dim("columns", 2), 1, true);
                    halo_exchange(columns, blocks(), dim("rows", 2), 3, false)
                })
                .computes(|x, ty| {
                    let across = |at: &At| {
                        let column = (2 * at.along("across") + at.along("columns") + 3) % 4;
                        x[0].at(&at.with("across", column / 2).with("columns", column % 2))
                    };
                    from(3).of(ty, 2, across)
                })
                .exact()
                .integers("x", "blocks:4;rows:2;across:2;columns:2", F32)
                .meshes(&["a:2", "a:2;b:2", "a:2;b:4"]),
            ]
        },
    };

    fn blocks() -> Dimension {
        dim("blocks", 4)
    }

    fn three() -> Dimension {
        dim("rows", 3)
    }

    /// What blocks get, by index arithmetic: rows from so many before each block on, and those of the
    /// other end beyond the ends of a ring. The result's size says how many follow.
    #[derive(Clone, Copy)]
    struct Halo {
        before: usize,
        wrap: bool,
    }

    fn from(before: usize) -> Halo {
        Halo { before, wrap: false }
    }

    impl Halo {
        fn wrapped(self) -> Self {
            Self { wrap: true, ..self }
        }

        /// Extended blocks of this many rows, of what is at each place of the blocks.
        fn of(self, ty: &TensorType, rows: usize, x: impl Fn(&At) -> f64) -> Dense {
            let all = (blocks().size * rows) as i64;
            Dense::each(ty, |at| {
                let row =
                    (at.along("blocks") * rows + at.along("rows")) as i64 - self.before as i64;
                let inside = (0..all).contains(&row) || self.wrap;
                let row = row.rem_euclid(all) as usize;
                let place = at.with("blocks", row / rows).with("rows", row % rows);
                if inside { x(&place) } else { 0.0 }
            })
        }
    }

    fn in_three_rows(name: &str, halo: Halo, function: Unary) -> Case {
        in_blocks(name, "p:4;blocks:4;rows:3", halo, function)
    }

    fn in_blocks(name: &str, x: &str, halo: Halo, function: Unary) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| {
                halo.of(ty, extent(&x[0].ty.shape, "rows".into()), |at| x[0].at(at))
            })
            .exact()
            .integers("x", x, F32)
            .meshes(GRIDS)
    }
}
