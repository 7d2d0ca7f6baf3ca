//! `conv_with_blocks`: convolution of an image whose spatial dims are split over processors.

use super::{Conv, Padding, conv};
use crate::room::*;

/// As [`conv`], for an image whose spatial dims are each stated as two: blocks, which may be split,
/// and positions of a block. Equal to the convolution of the whole image with padding `Same` and
/// stride 1; each block gets the margins of its neighbours by
/// [`halo_exchange`](crate::halo_exchange).
///
/// A spatial dim that is not cut into blocks may be split too: see [the module](super). Blocks are
/// for models that state them anyway, and for several blocks on one processor.
///
/// `blocks` has one entry per pair of `conv`: the dim of the blocks, or `None` for a spatial dim
/// that is not cut into blocks. Filters are odd.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::conv::{Conv, conv_with_blocks};
/// # let g = mesh_ops::graph();
/// let (rows, columns) = (dim("rows", 2), dim("columns", 4));
/// let dims = [dim("batch", 8), rows, columns, dim("h", 14), dim("w", 7), dim("colour", 3)];
/// let x = g.input("x", dims, F32);
/// let filter = g.input("filter", "fh:3;fw:3;colour:3;feature:16".parse::<Shape>()?, F32);
/// let y = conv_with_blocks(x, filter, &Conv::over([("h", "fh"), ("w", "fw")]), [rows, columns]);
/// assert_eq!(y.shape().to_string(), "[batch:8, rows:2, columns:4, h:14, w:7, feature:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn conv_with_blocks<'g>(
    x: Tensor<'g>,
    filter: Tensor<'g>,
    description: &Conv,
    blocks: impl IntoIterator<Item = impl Into<Option<Dimension>>>,
) -> Tensor<'g> {
    if x.is_poisoned() || filter.is_poisoned() {
        return x.poisoned();
    }
    let blocks: Vec<_> = blocks.into_iter().map(Into::into).collect();
    let halos = match halos(description, &x.shape(), &filter.shape(), &blocks) {
        Ok(halos) => halos,
        Err(error) => {
            x.graph().record("conv_with_blocks", error.to_string());
            return x.poisoned();
        }
    };
    // One spatial dim after the other: the second exchange takes corners along.
    let mut wide = x;
    for ((positions, halo), blocks) in halos.into_iter().zip(blocks) {
        wide = match blocks {
            Some(blocks) => crate::halo_exchange(wide, blocks, positions, halo, false),
            None => crate::pad(wide, positions, halo, halo),
        };
    }
    conv(wide, filter, &description.clone().padding(Padding::Valid))
}

/// The positions dim of each pair and how far windows reach beyond it.
fn halos(
    conv: &Conv,
    image: &Shape,
    filter: &Shape,
    blocks: &[Option<Dimension>],
) -> Result<Vec<(Dimension, usize)>, OpError> {
    conv.output(image, filter)?;
    let slides = conv.slides()?;
    if blocks.len() != slides.len() {
        return Err(OpError::new(format!(
            "conv slides over {} dims, but there are {} blocks dims",
            slides.len(),
            blocks.len()
        )));
    }
    let same = conv.padding == Padding::Same && conv.pads.is_empty();
    if !same || slides.iter().any(|s| s.stride != 1) {
        return Err(OpError::new(
            "blocks are for padding Same and stride 1; with other strides windows do not begin \
             at the same position of every block",
        ));
    }
    let mut halos = Vec::new();
    for slide in slides {
        let (Some(positions), Some(size)) = (image.get(slide.image), filter.get(slide.filter))
        else {
            continue;
        };
        let reach = slide.reach(size.size);
        if reach % 2 == 0 {
            return Err(OpError::new(format!(
                "the filter reaches over {reach} positions of {positions} ({size}); with blocks \
                 it must be an odd number"
            )));
        }
        halos.push((positions, reach / 2));
    }
    Ok(halos)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("conv_with_blocks: two of two", |_, x| {
                    conv_with_blocks(x[0], x[1], &along(), [blocks()])
                })
                .exact()
                .integers("x", "blocks:4;h:4;c:2", F32)
                .integers("filter", "fh:3;c:2;o:2", F32)
                .meshes(GRIDS),
                Case::new("conv_with_blocks", |_, x| {
                    conv_with_blocks(x[0], x[1], &along(), [blocks()])
                })
                .exact()
                .integers("x", "blocks:4;h:3;c:2", F32)
                .integers("filter", "fh:3;c:2;d:2", F32)
                .meshes(GRIDS),
            ]
        },
    };

    fn along() -> Conv {
        Conv::over([("h", "fh")])
    }

    fn blocks() -> Dimension {
        dim("blocks", 4)
    }
}
