//! Rates that rise and fall.

use super::value::problem as of_rate;
use super::{from_to, over_steps, schedule, within};
use crate::Schedule;
use mesh_core::graph::Tensor;
use mesh_ops::Ops;
use std::f64::consts::PI;

/// Goes up from `rate / ratio` to `rate` in the first `cut_fraction` of `total` steps, then down
/// again, and stays at `rate / ratio`.
///
/// Howard & Ruder 2018, section 3.2, where the cut is 0.1, the ratio 32 and the rate 0.01.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::slanted_triangular(0.01, 1000, 0.1, 32.0).at_step(g.scalar(100.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.01).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn slanted_triangular(rate: f64, total: u64, cut_fraction: f64, ratio: f64) -> Schedule {
    let cut = (total as f64 * cut_fraction).floor();
    let ratio_problem = || {
        let legal = ratio > 0.0 && ratio.is_finite();
        (!legal).then(|| format!("ratio {ratio}: legal are positive numbers"))
    };
    let problem = of_rate("rate", rate).or_else(ratio_problem);
    let problem =
        problem.or_else(|| within("cut_fraction", cut_fraction, 0.0, 1.0)).or_else(|| {
            let empty = cut < 1.0 || cut_fraction >= 1.0;
            empty.then(|| {
                format!(
                    "{cut_fraction} of {total} steps leaves no step to rise in, or none to fall in"
                )
            })
        });
    schedule("slanted_triangular", problem, move |t| {
        let rising = t / cut;
        let falling = 1.0 - (t - cut) * (1.0 / (cut * (1.0 / cut_fraction - 1.0)));
        let part = rising.minimum(falling).clip(0.0, 1.0);
        (part * (ratio - 1.0) + 1.0) * (rate / ratio)
    })
}

/// How a rate goes from one value to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Curve {
    /// Along half a cosine.
    #[default]
    Cosine,
    /// Along a line.
    Linear,
    /// With `1 - sqrt`: fast at first. Hägele et al. 2024 (arXiv 2405.18392), equation 1.
    Root,
    /// By equal factors; both values are above 0.
    Exponential,
}

impl Curve {
    /// The rate when a `part`, from 0 to 1, of the way from `start` to `end` is gone.
    #[track_caller]
    fn between<'g>(self, start: f64, end: f64, part: Tensor<'g>) -> Tensor<'g> {
        match self {
            Self::Cosine => ((part * PI).cos() + 1.0) * ((start - end) / 2.0) + end,
            Self::Linear => part * (end - start) + start,
            Self::Root => part.sqrt() * (end - start) + start,
            Self::Exponential => (part * (end / start).ln()).exp() * start,
        }
    }

    /// What is wrong with going so between these values.
    fn problem(self, start: f64, end: f64) -> Option<String> {
        let zero = self == Self::Exponential && (start == 0.0 || end == 0.0);
        zero.then(|| format!("from {start} to {end}: an exponential neither begins nor ends at 0"))
    }
}

/// `first` until `from`; then from each pair's value to the next one's, along a curve, between their steps.
#[track_caller]
fn through<'g>(t: Tensor<'g>, curve: Curve, points: &[(f64, f64)]) -> Tensor<'g> {
    let graph = t.graph();
    let last = points.last().map_or(0.0, |(_, value)| *value);
    let legs = points.windows(2).rev();
    legs.fold(graph.scalar(last, t.dtype()), |after, leg| {
        let ((from, start), (to, end)) = (leg[0], leg[1]);
        let part = ((t - from) / (to - from)).clip(0.0, 1.0);
        t.less(graph.scalar(to, t.dtype())).select(curve.between(start, end, part), after)
    })
}

/// One cycle: the rate rises to its peak and falls to far below where it began (Smith & Topin 2018, arXiv
/// 1708.07120). It becomes a [`Schedule`] where one is asked for.
///
/// PyTorch's `OneCycleLR` is [`OneCycle::new`], also with three phases ([`back`](Self::back) is twice
/// [`rise`](Self::rise) then); optax's `cosine_onecycle_schedule` and `linear_onecycle_schedule` are
/// [`OneCycle::optax_cosine`] and [`OneCycle::optax_linear`].
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// use mesh_optimize::{Schedule, schedule::OneCycle};
///
/// let cycle = OneCycle::new(0.5, 100); // from 0.02 to 0.5 in 30 steps, to 2e-6 in 70
/// let theirs = [OneCycle::optax_cosine(0.5, 100), OneCycle::optax_linear(0.5, 100)];
/// assert_eq!(theirs.map(|cycle| cycle.back), [None, Some(0.85)]);
/// let rate = Schedule::from(cycle).at_step(g.scalar(29.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OneCycle {
    /// The largest rate.
    pub peak: f64,
    /// The number of steps.
    pub steps: u64,
    /// The fraction of the steps in which the rate rises.
    pub rise: f64,
    /// The fraction of the steps after which the rate is back where it began, if that is a phase of its own.
    pub back: Option<f64>,
    /// What the peak is divided by to begin with.
    pub start_divisor: f64,
    /// What that is divided by in the end.
    pub end_divisor: f64,
    /// How the rate rises and falls.
    pub curve: Curve,
    /// Whether phases end with their last step, as PyTorch's do, or a step later, as optax's.
    pub last_included: bool,
}

impl OneCycle {
    /// PyTorch's defaults: 0.3 of the steps rise, from a 25th of the peak; the end is 1e4 below that.
    pub fn new(peak: f64, steps: u64) -> Self {
        Self {
            peak,
            steps,
            rise: 0.3,
            back: None,
            start_divisor: 25.0,
            end_divisor: 1e4,
            curve: Curve::Cosine,
            last_included: true,
        }
    }

    /// optax's `cosine_onecycle_schedule`.
    pub fn optax_cosine(peak: f64, steps: u64) -> Self {
        Self { last_included: false, ..Self::new(peak, steps) }
    }

    /// optax's `linear_onecycle_schedule`: after 0.85 of the steps the rate is back where it began.
    pub fn optax_linear(peak: f64, steps: u64) -> Self {
        Self { curve: Curve::Linear, back: Some(0.85), ..Self::optax_cosine(peak, steps) }
    }

    /// The steps at which phases end, each with its rate; the beginning first.
    fn points(&self) -> Vec<(f64, f64)> {
        let start = self.peak / self.start_divisor;
        let steps = self.steps as f64;
        // PyTorch's second phase begins at the last step of the first, and so ends another step earlier.
        let at = |fraction: f64, phase: f64| match self.last_included {
            true => fraction * steps - phase,
            false => (fraction * steps).trunc(),
        };
        let back = self.back.map(|back| (at(back, 2.0), start));
        let end = (at(1.0, 1.0), start / self.end_divisor);
        [(0.0, start), (at(self.rise, 1.0), self.peak)]
            .into_iter()
            .chain(back)
            .chain([end])
            .collect()
    }

    fn problem(&self) -> Option<String> {
        let positive = |what: &str, x: f64| {
            let legal = x > 0.0 && x.is_finite();
            (!legal).then(|| format!("{what} {x}: legal are positive numbers"))
        };
        let divisors = || {
            let of_start = positive("start_divisor", self.start_divisor);
            of_start.or_else(|| positive("end_divisor", self.end_divisor))
        };
        let fractions = || {
            let back = self.back.and_then(|back| within("back", back, 0.0, 1.0));
            within("rise", self.rise, 0.0, 1.0).or(back)
        };
        let empty = || {
            let points = self.points();
            let empty = points.windows(2).any(|pair| pair[0].0 >= pair[1].0);
            empty.then(|| format!("a phase of the {} steps has none", self.steps))
        };
        let problem = of_rate("peak", self.peak).or_else(|| over_steps(self.steps));
        let problem = problem.or_else(divisors).or_else(fractions).or_else(empty);
        problem.or_else(|| self.curve.problem(self.peak, self.peak))
    }
}

impl From<OneCycle> for Schedule {
    fn from(cycle: OneCycle) -> Self {
        let (points, curve) = (cycle.points(), cycle.curve);
        schedule("one_cycle", cycle.problem(), move |t| through(t, curve, &points))
    }
}

/// Half a cosine from `rate` to `end`, again and again: SGDR (Loshchilov & Hutter 2017, arXiv 1608.03983,
/// equation 5). It becomes a [`Schedule`] where one is asked for.
///
/// PyTorch's `CosineAnnealingWarmRestarts` (`growth` is its `T_mult`) and TensorFlow's
/// `cosine_decay_restarts` (whose `m_mul` is `shrink`, and whose `alpha` is `end` over `rate`).
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// use mesh_optimize::{Schedule, schedule::CosineRestarts};
///
/// let sgdr = CosineRestarts { growth: 2.0, ..CosineRestarts::new(1.0, 10) }; // 10 steps, 20, 40, ...
/// let rate = Schedule::from(sgdr).at_step(g.scalar(20.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CosineRestarts {
    /// The rate at step 0.
    pub rate: f64,
    /// The steps to the first restart.
    pub steps: u64,
    /// How many times as long as the one before a period is, 1 or more.
    pub growth: f64,
    /// What is left at each restart of the height above `end`.
    pub shrink: f64,
    /// The rate just before a restart.
    pub end: f64,
}

/// What the number of restarts is rounded up by, as logarithms of exact powers may fall short of them. It
/// is less than a step's part of a period in runs of up to 10^11 steps.
const ROUNDING: f64 = 1e-12;

impl CosineRestarts {
    /// Equal periods, each from `rate` to 0.
    pub fn new(rate: f64, steps: u64) -> Self {
        Self { rate, steps, growth: 1.0, shrink: 1.0, end: 0.0 }
    }

    /// The number of restarts so far, and the part of the period that is gone.
    #[track_caller]
    fn position<'g>(&self, t: Tensor<'g>) -> (Tensor<'g>, Tensor<'g>) {
        let periods = t.clip(0.0, f64::INFINITY) / self.steps as f64;
        if self.growth == 1.0 {
            let restarts = periods.floor();
            return (restarts, periods - restarts);
        }
        let more = self.growth - 1.0;
        let restarts = ((periods * more + 1.0).log() / self.growth.ln() + ROUNDING).floor();
        let length = t.graph().scalar(self.growth, t.dtype()).pow(restarts);
        (restarts, (periods - (length - 1.0) / more) / length)
    }
}

impl From<CosineRestarts> for Schedule {
    fn from(restarts: CosineRestarts) -> Self {
        let CosineRestarts { rate, steps, growth, shrink, end } = restarts;
        let growth_problem = || {
            let legal = growth >= 1.0 && growth.is_finite();
            (!legal).then(|| format!("growth {growth}: legal are finite numbers from 1 on"))
        };
        let problem = from_to(rate, end).or_else(|| over_steps(steps)).or_else(growth_problem);
        let problem = problem.or_else(|| within("shrink", shrink, 0.0, 1.0));
        schedule("cosine_restarts", problem, move |t| {
            let (count, gone) = restarts.position(t);
            let height = match shrink {
                1.0 => t.graph().scalar(1.0, t.dtype()),
                _ => t.graph().scalar(shrink, t.dtype()).pow(count),
            };
            ((gone * PI).cos() + 1.0) * height * ((rate - end) / 2.0) + end
        })
    }
}

/// Up along a line, then level, then down in the last steps: the trapezoid of Hu et al. 2024 (arXiv
/// 2404.06395, section 4) and Hägele et al. 2024 (arXiv 2405.18392). It becomes a [`Schedule`] where one
/// is asked for.
///
/// A run can go on from a checkpoint of the level part, with more steps, as if it had always had them.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// use mesh_optimize::{Schedule, schedule::WarmupStableDecay};
///
/// let rate = WarmupStableDecay::new(1.0, 10, 100, 20); // up to step 10, down from step 80
/// let rate = Schedule::from(rate).at_step(g.scalar(85.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WarmupStableDecay {
    /// The rate of the level part.
    pub rate: f64,
    /// The steps in which it rises from 0.
    pub warmup: u64,
    /// All steps.
    pub steps: u64,
    /// The last of them, in which it falls.
    pub decay: u64,
    /// The rate after the last step.
    pub end: f64,
    /// How it falls.
    pub curve: Curve,
}

impl WarmupStableDecay {
    /// Down to 0 with [`Curve::Root`], which Hägele et al. found best.
    pub fn new(rate: f64, warmup: u64, steps: u64, decay: u64) -> Self {
        Self { rate, warmup, steps, decay, end: 0.0, curve: Curve::Root }
    }

    fn problem(&self) -> Option<String> {
        let fits = self.warmup.checked_add(self.decay).is_some_and(|both| both <= self.steps);
        let problem = from_to(self.rate, self.end).or_else(|| over_steps(self.decay));
        let too_long = || {
            let Self { warmup, steps, decay, .. } = self;
            format!("{warmup} steps of warm-up and {decay} of decay are more than all {steps}")
        };
        let problem = problem.or_else(|| (!fits).then(too_long));
        problem.or_else(|| self.curve.problem(self.rate, self.end))
    }
}

impl From<WarmupStableDecay> for Schedule {
    fn from(wsd: WarmupStableDecay) -> Self {
        schedule("warmup_stable_decay", wsd.problem(), move |t| {
            let WarmupStableDecay { rate, warmup, steps, decay, end, curve } = wsd;
            let falls = steps as f64 - decay as f64;
            let rising = (t / warmup.max(1) as f64).clip(0.0, 1.0) * rate;
            let falling = curve.between(rate, end, ((t - falls) / decay as f64).clip(0.0, 1.0));
            t.less(warmup as f64).select(rising, falling)
        })
    }
}
