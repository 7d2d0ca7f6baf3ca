//! Which dims a convolution slides over, and how: sizes, strides and padding.

use crate::room::*;

/// What a window sees beyond the ends of the image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Padding {
    /// Zeros, so that there are `ceil(n / stride)` windows; an odd zero stands at the high end.
    #[default]
    Same,
    /// Nothing: windows lie inside the image; there are `ceil((n - filter + 1) / stride)`.
    Valid,
}

/// How a filter slides over an image: pairs of an image dim and the filter dim that moves along
/// it, any number of them.
///
/// All other dims follow one rule. Dims that image and filter share are summed (input channels),
/// unless they are [`depthwise`](Self::depthwise). Other dims of the image stay (batch), other dims
/// of the filter are new in the result (output channels).
///
/// ```
/// use mesh_ops::conv::{Conv, Padding};
/// let conv = Conv::over([("h", "fh"), ("w", "fw")]).strides([2, 2]).padding(Padding::Valid);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Conv {
    pub(crate) pairs: Vec<(DimName, DimName)>,
    pub(crate) padding: Padding,
    /// One per pair; empty for ones.
    pub(crate) strides: Vec<usize>,
    /// One per pair; empty for ones.
    pub(crate) dilations: Vec<usize>,
    /// Zeros before and after, one pair per pair of dims; empty for those of `padding`.
    pub(crate) pads: Vec<(usize, usize)>,
    pub(crate) depthwise: Vec<DimName>,
}

/// One pair with its numbers: `image = stride * output + dilation * filter - pad`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slide {
    pub(crate) image: DimName,
    pub(crate) filter: DimName,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Zeros before and after, where they are given and not a matter of [`Padding`].
    pub(crate) pads: Option<(usize, usize)>,
}

impl Slide {
    /// Positions from the first that a window sees to the last.
    pub(crate) fn reach(&self, filter: usize) -> usize {
        self.dilation.saturating_mul(filter - 1).saturating_add(1)
    }

    /// Refuses filters beyond all bounds, and zeros that a window would see alone.
    fn check(&self, filter: usize) -> Result<(), OpError> {
        const MOST: usize = u32::MAX as usize;
        let reach = self.reach(filter);
        if reach > MOST {
            return Err(OpError::new(format!(
                "the filter reaches over {reach} positions; {MOST} are the most"
            )));
        }
        match self.pads.filter(|&(low, high)| low.max(high) >= reach) {
            Some((low, high)) => Err(OpError::new(format!(
                "pads of {} are {low} and {high}: each must be less than the {reach} positions \
                 that the filter reaches over",
                self.image
            ))),
            None => Ok(()),
        }
    }
}

impl Conv {
    /// A filter dim for each image dim it slides along; padding `Same`, strides and dilations 1.
    ///
    /// ```
    /// # use mesh_ops::conv::Conv;
    /// let conv = Conv::over([("h", "fh"), ("w", "fw")]);
    /// ```
    pub fn over<I: Into<DimName>, F: Into<DimName>>(
        pairs: impl IntoIterator<Item = (I, F)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(image, filter)| (image.into(), filter.into()));
        Self {
            pairs: pairs.collect(),
            padding: Padding::default(),
            strides: Vec::new(),
            dilations: Vec::new(),
            pads: Vec::new(),
            depthwise: Vec::new(),
        }
    }

    /// Image positions from one window to the next, one number per pair.
    ///
    /// ```
    /// # use mesh_ops::conv::Conv;
    /// let halves = Conv::over([("time", "tap")]).strides([2]);
    /// ```
    pub fn strides(mut self, strides: impl IntoIterator<Item = usize>) -> Self {
        self.strides = strides.into_iter().collect();
        self
    }

    /// Image positions from one filter position to the next, one number per pair.
    ///
    /// ```
    /// # use mesh_ops::conv::Conv;
    /// let wide = Conv::over([("time", "tap")]).dilations([4]);
    /// ```
    pub fn dilations(mut self, dilations: impl IntoIterator<Item = usize>) -> Self {
        self.dilations = dilations.into_iter().collect();
        self
    }

    /// What a window sees beyond the ends.
    ///
    /// ```
    /// # use mesh_ops::conv::{Conv, Padding};
    /// let inside = Conv::over([("time", "tap")]).padding(Padding::Valid);
    /// ```
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Zeros before and after the image, one pair of numbers per pair of dims, in place of
    /// [`padding`](Self::padding). Each is less than what the filter reaches over.
    ///
    /// ```
    /// # use mesh_ops::conv::Conv;
    /// let causal = Conv::over([("time", "tap")]).pads([(2, 0)]);
    /// ```
    pub fn pads(mut self, pads: impl IntoIterator<Item = (usize, usize)>) -> Self {
        self.pads = pads.into_iter().collect();
        self
    }

    /// Dims that image and filter share and that are not summed: each position has its own filter.
    /// Of channels that is a depthwise convolution, of groups of channels a grouped one.
    ///
    /// ```
    /// # use mesh_ops::conv::Conv;
    /// let apart = Conv::over([("h", "fh"), ("w", "fw")]).depthwise(["channel"]);
    /// ```
    pub fn depthwise<D: Into<DimName>>(mut self, dims: impl IntoIterator<Item = D>) -> Self {
        self.depthwise = dims.into_iter().map(Into::into).collect();
        self
    }

    /// The pairs with their numbers.
    pub(crate) fn slides(&self) -> Result<Vec<Slide>, OpError> {
        let pairs = self.pairs.len();
        if pairs == 0 {
            return Err(OpError::new("conv names no dims to slide over"));
        }
        for (numbers, what) in [(&self.strides, "strides"), (&self.dilations, "dilations")] {
            if !numbers.is_empty() && numbers.len() != pairs || numbers.contains(&0) {
                return Err(OpError::new(format!(
                    "conv slides over {pairs} dims: {what} are {pairs} numbers of at least 1, \
                     not {numbers:?}"
                )));
            }
        }
        if !self.pads.is_empty() && self.pads.len() != pairs {
            return Err(OpError::new(format!(
                "conv slides over {pairs} dims: pads are {pairs} pairs of numbers, not {:?}",
                self.pads
            )));
        }
        let number = |numbers: &[usize], i: usize| numbers.get(i).copied().unwrap_or(1);
        let slide = |(i, &(image, filter))| Slide {
            image,
            filter,
            stride: number(&self.strides, i),
            dilation: number(&self.dilations, i),
            pads: self.pads.get(i).copied(),
        };
        Ok(self.pairs.iter().enumerate().map(slide).collect())
    }

    /// Refuses pairs that are not a dim of the image only and a dim of the filter only.
    fn check(&self, slides: &[Slide], image: &Shape, filter: &Shape) -> Result<(), OpError> {
        for (i, slide) in slides.iter().enumerate() {
            let earlier = slides[..i].iter().flat_map(|s| [s.image, s.filter]);
            if earlier.into_iter().any(|n| n == slide.image || n == slide.filter) {
                return Err(OpError::new("conv names a dim twice"));
            }
            for (name, own, other) in [(slide.image, image, filter), (slide.filter, filter, image)]
            {
                if !own.contains(name) || other.contains(name) {
                    return Err(OpError::new(format!(
                        "conv slides {} of the filter along {} of the image, but the filter is \
                         {filter} and the image {image}: each must be a dim of one of them only",
                        slide.filter, slide.image
                    )));
                }
            }
        }
        let stray = self.depthwise.iter().find(|&&n| !image.contains(n) || !filter.contains(n));
        match stray {
            Some(stray) => Err(OpError::new(format!(
                "depthwise dim {stray} is not in both the image {image} and the filter {filter}"
            ))),
            None => Ok(image.union(filter).map(|_| ())?),
        }
    }

    /// The shape that a convolution makes of `image`, or (with another `size`) a transposed one of
    /// its output: spatial dims resized, the shared dims replaced by the filter's own.
    fn slid(
        &self,
        image: &Shape,
        filter: &Shape,
        size: impl Fn(&Slide, usize, usize) -> Option<usize>,
    ) -> Result<Shape, OpError> {
        let slides = self.slides()?;
        self.check(&slides, image, filter)?;
        let slid = |name| slides.iter().any(|s| s.filter == name);
        let own = filter.iter().filter(|d| !image.contains(d.name) && !slid(d.name));
        let mut channels = Some(own.collect::<Vec<_>>());
        let mut dims = Vec::new();
        for d in image.iter() {
            if let Some(slide) = slides.iter().find(|s| s.image == d.name) {
                let taps = filter.get(slide.filter).map_or(1, |f| f.size);
                slide.check(taps)?;
                let resized =
                    size(slide, d.size, taps).filter(|&size| size > 0).ok_or_else(|| {
                        OpError::new(format!(
                            "the filter reaches over {} positions, but the image has only {d}",
                            slide.reach(taps)
                        ))
                    })?;
                dims.push(d.resized(resized));
            } else if filter.contains(d.name) && !self.depthwise.contains(&d.name) {
                dims.extend(channels.take().into_iter().flatten());
            } else {
                dims.push(d);
            }
        }
        dims.extend(channels.into_iter().flatten());
        Ok(Shape::new(dims)?)
    }

    /// The shape of the result.
    pub(crate) fn output(&self, image: &Shape, filter: &Shape) -> Result<Shape, OpError> {
        self.slid(image, filter, |slide, n, f| {
            let (low, high) = match (slide.pads, self.padding) {
                (Some(pads), _) => pads,
                (None, Padding::Valid) => (0, 0),
                (None, Padding::Same) => return Some(n.div_ceil(slide.stride)),
            };
            let last = n.checked_add(low + high)?.checked_sub(slide.reach(f))?;
            Some(last / slide.stride + 1)
        })
    }

    /// The shape of the image that a transposed convolution makes.
    pub(crate) fn image(&self, output: &Shape, filter: &Shape) -> Result<Shape, OpError> {
        self.slid(output, filter, |slide, n, f| match (slide.pads, self.padding) {
            (Some((low, high)), _) => {
                let seen = slide.stride.checked_mul(n - 1)?.checked_add(slide.reach(f))?;
                seen.checked_sub(low + high)
            }
            (None, Padding::Same) => Some(n.saturating_mul(slide.stride)),
            (None, Padding::Valid) => {
                let beyond = slide.reach(f).saturating_sub(slide.stride);
                Some(n.saturating_mul(slide.stride).saturating_add(beyond))
            }
        })
    }

    /// Zeros before the first of `n` image positions.
    pub(crate) fn low(&self, slide: &Slide, n: usize, filter: usize) -> usize {
        match (slide.pads, self.padding) {
            (Some((low, _)), _) => low,
            (None, Padding::Valid) => 0,
            (None, Padding::Same) => {
                let windows = n.div_ceil(slide.stride);
                let end = ((windows - 1) * slide.stride).saturating_add(slide.reach(filter));
                end.saturating_sub(n) / 2
            }
        }
    }
}
