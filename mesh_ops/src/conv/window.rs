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
    pub(crate) depthwise: Vec<DimName>,
}

/// One pair with its numbers: `image = stride * output + dilation * filter - pad`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slide {
    pub(crate) image: DimName,
    pub(crate) filter: DimName,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
}

impl Slide {
    /// Positions from the first that a window sees to the last.
    pub(crate) fn reach(&self, filter: usize) -> usize {
        self.dilation * (filter - 1) + 1
    }
}

impl Conv {
    /// A filter dim for each image dim it slides along; padding `Same`, strides and dilations 1.
    pub fn over<I: Into<DimName>, F: Into<DimName>>(
        pairs: impl IntoIterator<Item = (I, F)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(image, filter)| (image.into(), filter.into()));
        Self {
            pairs: pairs.collect(),
            padding: Padding::default(),
            strides: Vec::new(),
            dilations: Vec::new(),
            depthwise: Vec::new(),
        }
    }

    /// Image positions from one window to the next, one number per pair.
    pub fn strides(mut self, strides: impl IntoIterator<Item = usize>) -> Self {
        self.strides = strides.into_iter().collect();
        self
    }

    /// Image positions from one filter position to the next, one number per pair.
    pub fn dilations(mut self, dilations: impl IntoIterator<Item = usize>) -> Self {
        self.dilations = dilations.into_iter().collect();
        self
    }

    /// What a window sees beyond the ends.
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Dims that image and filter share and that are not summed: each position has its own filter.
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
        let number = |numbers: &[usize], i: usize| numbers.get(i).copied().unwrap_or(1);
        let slide = |(i, &(image, filter))| Slide {
            image,
            filter,
            stride: number(&self.strides, i),
            dilation: number(&self.dilations, i),
        };
        Ok(self.pairs.iter().enumerate().map(slide).collect())
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
        for (i, slide) in slides.iter().enumerate() {
            for (name, own, other) in [(slide.image, image, filter), (slide.filter, filter, image)]
            {
                let names = slides.iter().flat_map(|s| [s.image, s.filter]);
                if names.filter(|&n| n == name).count() > 1 {
                    return Err(OpError::new(format!("conv names dim {name} twice")));
                }
                if !own.contains(name) || other.contains(name) {
                    return Err(OpError::new(format!(
                        "conv slides {} along {}: one is a dim of the filter only, the other of \
                         the image only; they are {filter} and {image}",
                        slides[i].filter, slides[i].image
                    )));
                }
            }
        }
        image.union(filter)?;
        let shared = |name| image.contains(name) && filter.contains(name);
        if let Some(&stray) = self.depthwise.iter().find(|&&name| !shared(name)) {
            return Err(OpError::new(format!(
                "depthwise dim {stray} is not in both {image} and {filter}"
            )));
        }
        let slid = |name| slides.iter().any(|s| s.filter == name);
        let new: Vec<_> =
            filter.iter().filter(|d| !image.contains(d.name) && !slid(d.name)).collect();
        let mut dims = Vec::new();
        let mut last = Some(new);
        for d in image.iter() {
            if let Some(slide) = slides.iter().find(|s| s.image == d.name) {
                let reach = filter.get(slide.filter).map_or(1, |f| f.size);
                let resized = size(slide, d.size, reach).ok_or_else(|| {
                    OpError::new(format!(
                        "the filter reaches over {} positions, but the image has only {d}",
                        slide.reach(reach)
                    ))
                })?;
                dims.push(d.resized(resized));
            } else if shared(d.name) && !self.depthwise.contains(&d.name) {
                dims.extend(last.take().into_iter().flatten());
            } else {
                dims.push(d);
            }
        }
        dims.extend(last.into_iter().flatten());
        Ok(Shape::new(dims)?)
    }

    /// The shape of the result.
    pub(crate) fn output(&self, image: &Shape, filter: &Shape) -> Result<Shape, OpError> {
        self.slid(image, filter, |slide, n, f| match self.padding {
            Padding::Same => Some(n.div_ceil(slide.stride)),
            Padding::Valid => (n + 1)
                .checked_sub(slide.reach(f))
                .filter(|&n| n > 0)
                .map(|n| n.div_ceil(slide.stride)),
        })
    }

    /// The shape of the image that a transposed convolution makes.
    pub(crate) fn image(&self, output: &Shape, filter: &Shape) -> Result<Shape, OpError> {
        self.slid(output, filter, |slide, n, f| match self.padding {
            Padding::Same => Some(n * slide.stride),
            Padding::Valid => Some(n * slide.stride + slide.reach(f).saturating_sub(slide.stride)),
        })
    }

    /// Zeros before the first of `n` image positions.
    pub(crate) fn low(&self, slide: &Slide, n: usize, filter: usize) -> usize {
        match self.padding {
            Padding::Valid => 0,
            Padding::Same => {
                let windows = n.div_ceil(slide.stride);
                ((windows - 1) * slide.stride + slide.reach(filter)).saturating_sub(n) / 2
            }
        }
    }
}
