//! State-space layers: what is seen so far, as a state that a linear recurrence carries along a dim.

mod selective;

pub use selective::selective_scan;

use super::Parameters;
use super::fit::Fit;
use super::parameters::weights;
use crate::associative_scan::AssociativeScan;
use crate::conv::{Conv, conv};
use crate::einsum::einsum;
use crate::elementwise::{equal, exp, select, softplus, swish};
use crate::room::*;
use mesh_core::graph::Initializer;

/// The dim of the two halves of the first map: what is scanned, and what gates it.
const BRANCHES: &str = "branches";
/// The dim of the convolution's filter.
const TAPS: &str = "taps";
/// The steps that `delta` begins with (Gu and Dao 2023, section 3.6).
const FIRST_DELTAS: (f64, f64) = (0.001, 0.1);

/// Mamba's block (Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", section 3.4
/// and algorithm 2), from `model` onto `model`:
///
/// * `u, z = x input`, two halves of `inner` channels;
/// * `u = swish(causal convolution of u)` by a filter of `taps` positions for each channel;
/// * `delta = softplus((u delta_down) delta_up + delta_bias)`;
/// * `y = selective_scan(u, delta, -exp(log_a), u b, u c) + skip u`;
/// * the result is `(y swish(z)) output`.
///
/// `time` may be split: each processor then goes through its positions twice, and one exchange hands on what comes of
/// them, or log2(size) exchanges with neighbours do in [blocks](Self::scan); a split `inner` or `state` owes sums; examples cost nothing.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{AssociativeScan, layers::{Mamba, Parameters}};
/// # let g = mesh_ops::graph();
/// let (batch, time, model) = (dim("batch", 4), dim("time", 16), dim("model", 8));
/// let x = g.input("x", [batch, time, model], F32);
/// let block = Mamba::new(time, model, dim("inner", 16), dim("state", 4))
///     .taps(3)
///     .rank(dim("delta_rank", 2))
///     .scan(AssociativeScan { reverse: false, blocks: Some(4) });
/// let weights = block.weights(&Parameters::like(x), "mamba");
/// let y = block.apply(x, &weights);
/// assert_eq!(y.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mamba {
    time: Dimension,
    model: Dimension,
    inner: Dimension,
    state: Dimension,
    rank: Dimension,
    taps: usize,
    scan: AssociativeScan,
}

/// Weights of a [`Mamba`], in the order of elements of the authors' `mamba_ssm`, whose names stand here in brackets.
#[derive(Clone, Copy, Debug)]
pub struct MambaWeights<'g> {
    /// `[branches:2, inner, model]` (`in_proj.weight`).
    pub input: Tensor<'g>,
    /// `[inner, taps]`, the last tap at the position itself (`conv1d.weight`).
    pub filter: Tensor<'g>,
    /// `[inner]` (`conv1d.bias`).
    pub filter_bias: Tensor<'g>,
    /// `[rank, inner]` (the first rows of `x_proj.weight`).
    pub delta_down: Tensor<'g>,
    /// `[state, inner]` (its next rows).
    pub b: Tensor<'g>,
    /// `[state, inner]` (its last rows).
    pub c: Tensor<'g>,
    /// `[inner, rank]` (`dt_proj.weight`).
    pub delta_up: Tensor<'g>,
    /// `[inner]` (`dt_proj.bias`).
    pub delta_bias: Tensor<'g>,
    /// `[inner, state]` (`A_log`).
    pub log_a: Tensor<'g>,
    /// `[inner]` (`D`).
    pub skip: Tensor<'g>,
    /// `[model, inner]` (`out_proj.weight`).
    pub output: Tensor<'g>,
}
weights!(MambaWeights {
    input,
    filter,
    filter_bias,
    delta_down,
    b,
    c,
    delta_up,
    delta_bias,
    log_a,
    skip,
    output
});

/// What a [`Mamba`] keeps from one position to the next: zeros before the first.
#[derive(Clone, Copy, Debug)]
pub struct MambaState<'g> {
    /// What the filter saw last, the position itself included: `[.., taps, inner]`.
    pub window: Tensor<'g>,
    /// The state of each channel: `[.., inner, state]`.
    pub hidden: Tensor<'g>,
}

impl Mamba {
    /// A block with the paper's filter of 4 positions and `delta` of rank `model / 16`, rounded up, in one dim named
    /// `delta_rank`. The paper's `inner` is twice `model`, its `state` 16.
    pub fn new(time: Dimension, model: Dimension, inner: Dimension, state: Dimension) -> Self {
        let rank = Dimension::new("delta_rank", model.size.div_ceil(16));
        Self { time, model, inner, state, rank, taps: 4, scan: AssociativeScan::default() }
    }

    /// Another rank of `delta`.
    pub fn rank(mut self, rank: Dimension) -> Self {
        self.rank = rank;
        self
    }

    /// A filter of so many positions, at least one, in the dim `taps`.
    pub fn taps(mut self, taps: usize) -> Self {
        self.taps = taps.max(1);
        self
    }

    /// How the states are scanned: in blocks, for example.
    pub fn scan(mut self, how: AssociativeScan) -> Self {
        self.scan = how;
        self
    }

    fn filter(&self) -> Dimension {
        Dimension::new(TAPS, self.taps)
    }

    fn branches(&self) -> Dimension {
        Dimension::new(BRANCHES, 2)
    }

    /// The dims of each weight, in the order of [`MambaWeights`].
    fn dims(&self) -> [(&'static str, Vec<Dimension>); 11] {
        let &Self { model, inner, state, rank, .. } = self;
        [
            ("input", vec![self.branches(), inner, model]),
            ("filter", vec![inner, self.filter()]),
            ("filter_bias", vec![inner]),
            ("delta_down", vec![rank, inner]),
            ("b", vec![state, inner]),
            ("c", vec![state, inner]),
            ("delta_up", vec![inner, rank]),
            ("delta_bias", vec![inner]),
            ("log_a", vec![inner, state]),
            ("skip", vec![inner]),
            ("output", vec![model, inner]),
        ]
    }

    /// New variables `{name}/input`, `/filter` and so on, by the names of [`MambaWeights`].
    ///
    /// Maps start uniform between plus and minus the root of `1 / inputs`, as the authors' do; `delta` at steps between
    /// 0.001 and 0.1, log-uniform; `a` at `-exp(n)` for normal `n`, which serves as well as `-1, -2, ..` (the paper's
    /// table 8); `skip` at 1.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> MambaWeights<'g> {
        let _layer = parameters.graph().for_layer("mamba");
        let _caller = parameters.graph().for_caller();
        let _scope = parameters.scope(name);
        let made =
            self.dims().map(|(name, dims)| parameters.variable(name, dims, self.initializer(name)));
        let [
            input,
            filter,
            filter_bias,
            delta_down,
            b,
            c,
            delta_up,
            delta_bias,
            log_a,
            skip,
            output,
        ] = made;
        MambaWeights {
            input,
            filter,
            filter_bias,
            delta_down,
            b,
            c,
            delta_up,
            delta_bias,
            log_a,
            skip,
            output,
        }
    }

    fn initializer(&self, name: &str) -> Initializer {
        let over = |inputs: usize| {
            let bound = (inputs as f64).powf(-0.5);
            Initializer::Uniform { low: -bound, high: bound }
        };
        // The inverse of softplus.
        let before = |delta: f64| delta.exp_m1().ln();
        match name {
            "input" => over(self.model.size),
            "filter" | "filter_bias" => over(self.taps),
            "delta_up" => over(self.rank.size),
            "delta_bias" => {
                let (low, high) = FIRST_DELTAS;
                Initializer::Uniform { low: before(low), high: before(high) }
            }
            "log_a" => Initializer::Normal { mean: 0.0, stddev: 1.0 },
            "skip" => Initializer::ONES,
            _ => over(self.inner.size),
        }
    }

    /// The block along `time`; `x` has the dims `time` and `model`, and so has the result.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, weights: &MambaWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("mamba");
        let _caller = x.graph().for_caller();
        let fit = Fit::new().has("the input", x, self.time);
        if let Some(poisoned) = self.fit(fit, x, weights).refused("mamba", x) {
            return poisoned;
        }
        let (seen, gate) = self.halves(x, weights);
        let slide = Conv::over([(self.time.name, TAPS)]).depthwise([self.inner.name]);
        let filtered = conv(seen, weights.filter, &slide.pads([(self.taps - 1, 0)]));
        let u = swish(filtered + weights.filter_bias);
        let [delta, b, c] = self.selected(u, weights);
        let y = selective_scan(u, delta, -exp(weights.log_a), b, c, self.time, self.scan);
        self.gated(y + weights.skip * u, gate, weights, &x.shape())
    }

    /// One position: the result and the state after it. `x` lacks `time`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Mamba, Parameters};
    /// # let g = mesh_ops::graph();
    /// let model = dim("model", 8);
    /// let x = g.input("x", [model], F32);
    /// let block = Mamba::new(dim("time", 16), model, dim("inner", 16), dim("state", 4));
    /// let weights = block.weights(&Parameters::like(x), "mamba");
    /// let (y, after) = block.step(x, &weights, &block.begin(x));
    /// assert_eq!(y.shape(), x.shape());
    /// assert_eq!(after.window.shape().to_string(), "[taps:4, inner:16]");
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn step<'g>(
        &self,
        x: Tensor<'g>,
        weights: &MambaWeights<'g>,
        before: &MambaState<'g>,
    ) -> (Tensor<'g>, MambaState<'g>) {
        let _layer = x.graph().for_layer("mamba");
        let _caller = x.graph().for_caller();
        let [window, hidden] = self.states(x);
        let parts = [("the window", before.window, window), ("the state", before.hidden, hidden)];
        let fit = parts.into_iter().fold(self.fit(Fit::new(), x, weights), |fit, part| {
            fit.exactly(part.0, part.1, &part.2).like(part.0, part.1, x)
        });
        if let Some(poisoned) = fit.refused("mamba", x) {
            return (poisoned, *before);
        }
        let (seen, gate) = self.halves(x, weights);
        let last =
            equal(crate::range(x.graph(), self.filter(), DType::I32), (self.taps - 1) as f64);
        let window = select(last, seen, crate::shift(before.window, self.filter(), -1, false));
        let u = swish(einsum(window, &[weights.filter], seen.shape()) + weights.filter_bias);
        let [delta, b, c] = self.selected(u, weights);
        let decay = exp(delta * -exp(weights.log_a));
        let hidden = decay * before.hidden + (delta * u) * b;
        let y = einsum(hidden, &[c], u.shape());
        let y = self.gated(y + weights.skip * u, gate, weights, &x.shape());
        let ordered = |x, like: Tensor<'g>| crate::transpose(x, like.shape());
        let (window, hidden) = (ordered(window, before.window), ordered(hidden, before.hidden));
        (y, MambaState { window, hidden })
    }

    /// The state before the first position of examples like `x`, which lacks `time`: zeros.
    #[track_caller]
    pub fn begin<'g>(&self, x: Tensor<'g>) -> MambaState<'g> {
        let _caller = x.graph().for_caller();
        let zeros = |shape: Shape| x.graph().fill(0.0, shape, x.dtype());
        let [window, hidden] = self.states(x).map(zeros);
        MambaState { window, hidden }
    }

    /// The dims of the state of examples like `x`.
    fn states(&self, x: Tensor<'_>) -> [Shape; 2] {
        let examples = x.shape().without(&[self.model.name]);
        let with = |own: [Dimension; 2]| Shape::new(examples.iter().chain(own)).unwrap_or_default();
        [with([self.filter(), self.inner]), with([self.inner, self.state])]
    }

    /// What is demanded of all but `time`.
    fn fit<'g>(&self, fit: Fit, x: Tensor<'g>, weights: &MambaWeights<'g>) -> Fit {
        let own = [self.inner, self.state, self.rank, self.filter(), self.branches()];
        let fit = fit.floats("the input", x).has("the input", x, self.model).and(x, || {
            let stray = x.shape().iter().find(|dim| own.iter().any(|own| own.name == dim.name));
            stray.map(|dim| format!("the input {x:?} must not have the layer's dim {dim}"))
        });
        let given = super::Weights::tensors(weights);
        given.into_iter().zip(self.dims()).fold(fit, |fit, (weight, (name, dims))| {
            let shape = Shape::new(dims).unwrap_or_default();
            fit.exactly(name, weight, &shape).like(name, weight, x)
        })
    }

    /// What is filtered and scanned, and what gates the result.
    #[track_caller]
    fn halves<'g>(&self, x: Tensor<'g>, weights: &MambaWeights<'g>) -> (Tensor<'g>, Tensor<'g>) {
        let half = |number| {
            let kernel = crate::pick(weights.input, self.branches(), number);
            self.onto(x, kernel, self.model, self.inner)
        };
        (half(0), half(1))
    }

    /// `delta`, `b` and `c`, as the input chooses them.
    #[track_caller]
    fn selected<'g>(&self, u: Tensor<'g>, weights: &MambaWeights<'g>) -> [Tensor<'g>; 3] {
        let low = self.onto(u, weights.delta_down, self.inner, self.rank);
        let delta = self.onto(low, weights.delta_up, self.rank, self.inner) + weights.delta_bias;
        let of = |kernel| self.onto(u, kernel, self.inner, self.state);
        [crate::transpose(softplus(delta), u.shape()), of(weights.b), of(weights.c)]
    }

    /// A linear map from one dim onto another.
    #[track_caller]
    fn onto<'g>(
        &self,
        x: Tensor<'g>,
        kernel: Tensor<'g>,
        from: Dimension,
        onto: Dimension,
    ) -> Tensor<'g> {
        let dims = x.shape().iter().filter(|dim| *dim != from).chain([onto]).collect::<Vec<_>>();
        einsum(x, &[kernel], dims)
    }

    /// The last map, of what the other half lets through.
    #[track_caller]
    fn gated<'g>(
        &self,
        y: Tensor<'g>,
        gate: Tensor<'g>,
        weights: &MambaWeights<'g>,
        shape: &Shape,
    ) -> Tensor<'g> {
        einsum(y * swish(gate), &[weights.output], shape)
    }
}
