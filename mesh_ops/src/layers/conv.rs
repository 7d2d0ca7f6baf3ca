//! `conv_layer`: a convolution with a filter and a bias of its own; plain, grouped or separable.

use super::Parameters;
use super::fit::Fit;
use crate::conv::Conv;
use crate::room::*;
use mesh_core::graph::{Fan, Initializer};

/// A convolution from some dims (input channels) to another: variables `{name}/kernel` and
/// `{name}/bias`. Separable: `{name}/depthwise`, which slides over every channel by itself, then
/// `{name}/pointwise`, which mixes channels.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{conv::Conv, layers::ConvLayer};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;h:28;w:28;colour:3".parse::<Shape>()?, F32);
/// let slide = Conv::over([("h", "fh"), ("w", "fw")]).strides([2, 2]);
/// let y = ConvLayer::onto(dim("feature", 16), &slide, [5, 5]).without_bias().apply(x, "conv1");
/// assert_eq!(y.shape().to_string(), "[batch:8, h:14, w:14, feature:16]");
///
/// let mixed = ConvLayer::onto(dim("feature", 16), &slide, [5, 5]).from([dim("colour", 3)]);
/// let y = mixed.separable().initializer(Initializer::ZEROS).apply(x, "conv2");
/// assert_eq!(y.shape().to_string(), "[batch:8, h:14, w:14, feature:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConvLayer {
    conv: Conv,
    taps: Vec<usize>,
    output: Dimension,
    inputs: Option<Vec<Dimension>>,
    separable: bool,
    bias: bool,
    initializer: Option<Initializer>,
}

impl ConvLayer {
    /// A layer onto this dim, whose filter slides as `conv` says and has these sizes, one per pair
    /// of `conv`. By default from the input's last dim, with a bias of zeros and a filter of
    /// standard deviation `sqrt(1 / inputs)`. A [depthwise](Conv::depthwise) dim of `conv` is a dim
    /// of filter and bias too: a filter for each group.
    pub fn onto(output: Dimension, conv: &Conv, taps: impl IntoIterator<Item = usize>) -> Self {
        let (conv, taps) = (conv.clone(), taps.into_iter().collect());
        Self { conv, taps, output, inputs: None, separable: false, bias: true, initializer: None }
    }

    /// The dims that are summed over, besides those of the filter.
    pub fn from(mut self, inputs: impl IntoIterator<Item = Dimension>) -> Self {
        self.inputs = Some(inputs.into_iter().collect());
        self
    }

    /// First a filter for every input channel, then a mix of the channels.
    pub fn separable(mut self) -> Self {
        self.separable = true;
        self
    }

    /// No bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }

    /// Other initial filters.
    pub fn initializer(mut self, initializer: Initializer) -> Self {
        self.initializer = Some(initializer);
        self
    }

    /// Applies the layer; a summed dim that is also produced is renamed to `_name` first.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, name: &str) -> Tensor<'g> {
        let _layer = x.graph().for_layer("conv_layer");
        if let Some(poisoned) = Fit::new().floats("the input", x).refused("conv_layer", x) {
            return poisoned;
        }
        let (mut inputs, groups) = match self.dims(&x.shape()) {
            Ok(dims) => dims,
            Err(error) => {
                x.graph().record(name, error.to_string());
                return x.poisoned();
            }
        };
        let mut x = x;
        for dim in inputs.iter_mut().filter(|dim| dim.name == self.output.name) {
            let other = format!("_{}", dim.name);
            x = crate::rename(x, *dim, &other);
            *dim = dim.renamed(&other);
        }
        let _scope = x.graph().scope(name);
        let y = if self.separable {
            self.in_two_steps(x, &inputs, &groups)
        } else {
            let inner: Vec<_> = self.filter().chain(inputs).collect();
            let kernel = self.variable(x, "kernel", &groups, &inner, &[self.output]);
            crate::conv::conv(x, kernel, &self.conv)
        };
        if !self.bias || y.is_poisoned() {
            return y;
        }
        let dims = groups.into_iter().chain([self.output]);
        y + Parameters::like(x).variable("bias", dims, Initializer::ZEROS)
    }

    /// The dims of `x` that are summed and those that are batched with the filter.
    fn dims(&self, x: &Shape) -> Result<(Vec<Dimension>, Vec<Dimension>), OpError> {
        let pairs = &self.conv.pairs;
        if self.taps.len() != pairs.len() || self.taps.contains(&0) {
            return Err(OpError::new(format!(
                "the filter slides over {} dims: its sizes are {0} numbers of at least 1, not {:?}",
                pairs.len(),
                self.taps
            )));
        }
        let groups = x.iter().filter(|d| self.conv.depthwise.contains(&d.name)).collect();
        let last = || x.dims().last().map(|d| vec![*d]).unwrap_or_default();
        let inputs = self.inputs.clone().unwrap_or_else(last);
        let other = |d: &Dimension| {
            let slid = pairs.iter().any(|pair| pair.0 == d.name);
            slid || self.conv.depthwise.contains(&d.name) || x.get(d.name) != Some(*d)
        };
        match inputs.iter().find(|d| other(d)) {
            Some(stray) => Err(OpError::new(format!(
                "{stray} is no dim of input channels of {x}; `from` says which dims are"
            ))),
            None => Ok((inputs, groups)),
        }
    }

    /// The dims of the filter that slide.
    fn filter(&self) -> impl Iterator<Item = Dimension> {
        let sizes = self.conv.pairs.iter().zip(&self.taps);
        sizes.map(|(pair, &size)| Dimension { name: pair.1, size })
    }

    /// A filter with these dims, of which `inner` are summed.
    #[track_caller]
    fn variable<'g>(
        &self,
        x: Tensor<'g>,
        name: &str,
        groups: &[Dimension],
        inner: &[Dimension],
        outputs: &[Dimension],
    ) -> Tensor<'g> {
        let initializer = self
            .initializer
            .unwrap_or_else(|| Initializer::variance_scaling(1.0, Fan::In, inner, outputs));
        let dims = inner.iter().chain(groups).chain(outputs).copied();
        Parameters::like(x).variable(name, dims, initializer)
    }

    #[track_caller]
    fn in_two_steps<'g>(
        &self,
        x: Tensor<'g>,
        inputs: &[Dimension],
        groups: &[Dimension],
    ) -> Tensor<'g> {
        let apart: Vec<_> = groups.iter().chain(inputs).copied().collect();
        let taps: Vec<_> = self.filter().collect();
        let depthwise = self.variable(x, "depthwise", &apart, &taps, &[]);
        let conv = self.conv.clone().depthwise(apart.iter().map(|d| d.name));
        let y = crate::conv::conv(x, depthwise, &conv);
        let pointwise = self.variable(x, "pointwise", groups, inputs, &[self.output]);
        if y.is_poisoned() || pointwise.is_poisoned() {
            return y.poisoned();
        }
        let kept = y.shape().iter().filter(|d| !inputs.contains(d)).collect::<Vec<_>>();
        crate::einsum::einsum(y, &[pointwise], kept.into_iter().chain([self.output]))
    }
}

/// A convolution of the last dim of `x` onto `output`, by a filter of these sizes.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{conv::Conv, layers::conv_layer};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;time:30;channel:4".parse::<Shape>()?, F32);
/// let y = conv_layer(x, &Conv::over([("time", "tap")]), [3], dim("feature", 16), "conv1");
/// assert_eq!(y.shape().to_string(), "[batch:8, time:30, feature:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn conv_layer<'g>(
    x: Tensor<'g>,
    conv: &Conv,
    taps: impl IntoIterator<Item = usize>,
    output: Dimension,
    name: &str,
) -> Tensor<'g> {
    ConvLayer::onto(output, conv, taps).apply(x, name)
}

/// As [`conv_layer`], in two steps: a filter for every channel by itself, then a mix of channels.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{conv::Conv, layers::separable_conv_layer};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:8;time:30;channel:4".parse::<Shape>()?, F32);
/// let time = Conv::over([("time", "tap")]);
/// let y = separable_conv_layer(x, &time, [3], dim("feature", 16), "conv1");
/// assert_eq!(y.shape().to_string(), "[batch:8, time:30, feature:16]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn separable_conv_layer<'g>(
    x: Tensor<'g>,
    conv: &Conv,
    taps: impl IntoIterator<Item = usize>,
    output: Dimension,
    name: &str,
) -> Tensor<'g> {
    let _layer = x.graph().for_layer("separable_conv_layer");
    ConvLayer::onto(output, conv, taps).separable().apply(x, name)
}
