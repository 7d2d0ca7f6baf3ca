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
            let cut = |name| (Some("blocks"), name);
            let narrow = "fh:3;c:2;o:2";
            vec![
                case("conv_with_blocks: two of two", &[cut("h")], 1, "blocks:4;h:4;c:2", narrow),
                case("conv_with_blocks", &[cut("h")], 1, "blocks:4;h:3;c:2", "fh:3;c:2;d:2"),
                case("conv_with_blocks: dilated", &[cut("h")], 2, "blocks:4;h:3;c:2", narrow),
                case("conv_with_blocks: wide", &[cut("h")], 1, "blocks:4;h:2;c:2", "fh:7;c:2"),
                case("conv_with_blocks: no blocks", &[(None, "h")], 1, "h:8;c:2", narrow),
                case(
                    "conv_with_blocks: two dims",
                    &[(Some("blocks"), "h"), (Some("across"), "w")],
                    1,
                    "blocks:2;across:4;h:2;w:2;c:2",
                    "fh:3;fw:5;c:2;o:2",
                )
                .meshes(GRID_OF_EIGHT),
                case(
                    "conv_with_blocks: one of two dims",
                    &[(None, "h"), (Some("blocks"), "w")],
                    1,
                    "h:4;blocks:4;w:2;c:2",
                    "fh:3;fw:3;c:2;o:2",
                ),
                case(
                    "conv_with_blocks: three dims",
                    &[(Some("blocks"), "h"), (None, "d"), (Some("across"), "w")],
                    1,
                    "blocks:2;across:4;h:2;d:2;w:1",
                    "fh:3;fd:3;fw:3;o:2",
                )
                .meshes(GRID_OF_EIGHT),
                case(
                    "conv_with_blocks: three dims of blocks",
                    &[(Some("blocks"), "h"), (Some("deep"), "d"), (Some("across"), "w")],
                    1,
                    "blocks:2;deep:2;across:2;h:1;d:2;w:2",
                    "fh:3;fd:1;fw:3;o:2",
                )
                .meshes(GRIDS),
            ]
        },
    };

    const GRID_OF_EIGHT: &[&str] = &["a:2", "a:2;b:2", "a:2;b:4"];

    /// The dim of blocks, if any, and that of positions; the filter's is called `f` and that.
    type Spatial = (Option<&'static str>, &'static str);

    fn case(name: &str, dims: &[Spatial], gap: usize, x: &str, filter: &str) -> Case {
        let dims = dims.to_vec();
        let pair = |(_, h): &Spatial| (DimName::new(h), DimName::new(&format!("f{h}")));
        let conv = Conv::over(dims.iter().map(pair));
        let conv = conv.dilations(vec![gap; dims.len()]);
        let blocks: Vec<_> = dims.iter().map(|(blocks, _)| *blocks).collect();
        Case::new(name, move |_, x| {
            let shape = x[0].shape();
            let blocks = blocks.iter().map(|blocks| blocks.and_then(|name| shape.get(name.into())));
            conv_with_blocks(x[0], x[1], &conv, blocks)
        })
        .computes(move |x, ty| unblocked(&dims, gap, x, ty))
        .exact()
        .integers("x", x, F32)
        .integers("filter", filter, F32)
        .meshes(GRIDS)
    }

    /// The convolution, padding Same and stride 1, of the image that the blocks were cut from: for each
    /// position of the output the sum over the filter of the element times what lies under it.
    fn unblocked(dims: &[Spatial], gap: usize, x: &[&Dense], ty: &TensorType) -> Dense {
        let (image, filter) = (x[0], x[1]);
        let size = |name: &'static str| extent(&image.ty.shape, name.into());
        let taps = At::all(&filter.ty.shape);
        let term = |at: &At, tap: &At| {
            let channels = ["o", "d"].iter().filter(|name| ty.shape.contains((**name).into()));
            let spatial = |name: &str| dims.iter().any(|(_, own)| *own == name);
            let mut outputs = channels.filter(|name| !spatial(name));
            if outputs.any(|name| tap.along(name) != at.along(name)) {
                return 0.0;
            }
            let mut place = at.with("c", tap.along("c"));
            for &(blocks, h) in dims {
                let count = blocks.map_or(1, size);
                let fh = format!("f{h}");
                let reach = (extent(&filter.ty.shape, fh.as_str().into()) - 1) * gap + 1;
                let block = blocks.map_or(0, |blocks| at.along(blocks));
                let under = block * size(h) + at.along(h) + tap.along(&fh) * gap;
                // What is before the image.
                let Some(position) = under.checked_sub(reach / 2) else { return 0.0 };
                if position >= count * size(h) {
                    return 0.0;
                }
                place = place.with(h, position % size(h));
                if let Some(blocks) = blocks {
                    place = place.with(blocks, position / size(h));
                }
            }
            image.at(&place) * filter.at(tap)
        };
        Dense::each(ty, |at| taps.iter().map(|tap| term(at, tap)).sum())
    }
}
