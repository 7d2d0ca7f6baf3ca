//! What one processor's part of a windowed op needs of its neighbours' slices.
//!
//! Image and output are cut into equally many parts along a spatial dim, but part i of the output
//! sees more than part i of the image: windows reach over its ends, and where `stride * output` is
//! not the image (padding Valid, odd sizes) what they see drifts away from part to part. So every
//! processor gets margins wide enough for all of them, zeros beyond the ends, and takes what is its
//! own at a position that depends on the processor.

use crate::placed::resized;
use crate::room::*;
use mesh_core::lower::{Local, LocalPiece};
use mesh_core::program::{Offset, Scalar};
use mesh_core::split::Collective;

/// What ops with windows exchange along a split dim.
pub(crate) const MARGINS: &[Collective] = &[Collective::Permute];

/// One spatial dim, cut into parts: tap `t` of output `o` sits on image position
/// `stride * o + t - low`, for every `t` below `reach`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The dim, of image and output.
    pub(crate) dim: DimName,
    /// Into how many parts it is cut.
    pub(crate) parts: usize,
    /// Image positions of a part.
    pub(crate) image: usize,
    /// Outputs of a part.
    pub(crate) output: usize,
    /// Image positions from one output's first tap to the next output's.
    pub(crate) stride: usize,
    /// Image positions from an output's first tap to its last, both counted.
    pub(crate) reach: usize,
    /// Positions before the image.
    pub(crate) low: usize,
}

/// The outputs that reach a part of the image, and where that part lies under them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    /// Outputs of the parts before and after.
    pub(crate) margins: [usize; 2],
    /// Positions from the first tap of the first output to where any part begins.
    pub(crate) pad: usize,
    /// Positions from there to where every part has ended.
    pub(crate) size: usize,
    /// Of those, the ones before part 0; and how many more (or fewer) before each further part.
    pub(crate) begin: (usize, i64),
}

impl Share {
    /// By how much what outputs see moves away from the image, per part.
    fn drift(&self) -> i64 {
        let drift = (self.stride * self.output) as i64 - self.image as i64;
        if self.parts == 1 { 0 } else { drift }
    }

    /// What the last part has drifted by.
    fn drifted(&self) -> i64 {
        self.drift() * (self.parts as i64 - 1)
    }

    /// The positions that this part's outputs see, from the first tap of the first output on, and
    /// perhaps more after them; zeros beyond the ends of the image.
    pub(crate) fn seen(&self, cx: &mut LocalCx<'_, '_>, image: &Local) -> Result<Local, OpError> {
        let (low, drifted) = (self.low as i64, self.drifted());
        let size = (self.output - 1) * self.stride + self.reach;
        let before = low - drifted.min(0);
        let after = (drifted.max(0) - low + size as i64 - self.image as i64).max(0);
        let wide = extended(cx, image, self.dim, [before, after].map(|rows| rows as usize))?;
        if self.drift() == 0 {
            return Ok(wide);
        }
        let base = (before - low) as usize;
        let begin = Offset { base, axes: cx.axes(self.dim)?, scale: self.drift() };
        cx.cut(&wide, self.dim, begin, size)
    }

    /// See [`Spread`].
    pub(crate) fn spread(&self) -> Spread {
        let (low, stride, drifted) = (self.low as i64, self.stride as i64, self.drifted());
        // Positions counted from where the part's own outputs would begin without `low`.
        let first = (-drifted).min(0);
        let last = (-drifted).max(0) + self.image as i64 - 1;
        let mut before = (self.reach as i64 - 1 - low - first).div_euclid(stride);
        before = before.max(-(first + low).div_euclid(stride)).max(0);
        let after = ((last + low).div_euclid(stride) - (self.output as i64 - 1)).max(0);
        let alone = self.parts == 1;
        let margins = if alone { [0, 0] } else { [before as usize, after as usize] };
        Spread {
            margins,
            pad: (low + first + stride * margins[0] as i64) as usize,
            size: (last - first + 1) as usize,
            begin: (-first as usize, -self.drift()),
        }
    }

    /// This part of positions that lie as [`Spread`] says.
    pub(crate) fn own(&self, cx: &mut LocalCx<'_, '_>, wide: &Local) -> Result<Local, OpError> {
        let (base, scale) = self.spread().begin;
        if scale == 0 {
            return Ok(wide.clone());
        }
        let begin = Offset { base, axes: cx.axes(self.dim)?, scale };
        cx.cut(wide, self.dim, begin, self.image)
    }
}

/// `x` between `before` rows of the slices before it and `after` rows of those after it; zeros
/// beyond the ends.
pub(crate) fn extended(
    cx: &mut LocalCx<'_, '_>,
    x: &Local,
    dim: DimName,
    [before, after]: [usize; 2],
) -> Result<Local, OpError> {
    let Some(own) = x.shape().get(dim).filter(|_| before + after > 0) else {
        return Ok(x.clone());
    };
    let mut pieces = vec![LocalPiece { at: vec![(dim, before)], ..LocalPiece::whole(x.clone()) }];
    for distance in 1..cx.parts(dim)? {
        let nearer = (distance - 1) * own.size;
        for (margin, down) in [(before, true), (after, false)] {
            let rows = own.size.min(margin.saturating_sub(nearer));
            if rows == 0 {
                continue;
            }
            let (begin, at, shift) = if down {
                (own.size - rows, before - nearer - rows, distance as i64)
            } else {
                (0, before + own.size + nearer, -(distance as i64))
            };
            let whole = rows == own.size;
            let sent = if whole { x.clone() } else { cx.cut(x, dim, Offset::fixed(begin), rows)? };
            let input = cx.permute(dim, shift, false, &sent)?;
            pieces.push(LocalPiece { at: vec![(dim, at)], ..LocalPiece::whole(input) });
        }
    }
    let shape = resized(x.shape(), own.resized(before + own.size + after))?;
    let zero = Scalar::new(cx.dtype(x), 0.0);
    cx.assemble(&pieces, zero, &shape)
}
