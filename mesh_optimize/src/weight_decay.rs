//! Decay of weights: how much, on which way, and of which variables.

use crate::Schedule;

/// How much of a variable a step takes away.
///
/// *Decoupled* (Loshchilov & Hutter 2019, arXiv 1711.05101): a step subtracts the fraction times the learning
/// rate from the variable, and no moment knows of it. *Coupled* (PyTorch's `weight_decay` where nothing else is
/// said): the fraction of the variable is added to the gradient before all else.
///
/// ```
/// use mesh_optimize::{Lion, WeightDecay};
///
/// let exclude = vec!["bias$".to_owned()];
/// let lion = Lion { weight_decay: WeightDecay { exclude, ..0.1.into() }, ..Lion::new(1e-4) };
/// assert!(!lion.weight_decay.coupled);
/// ```
#[derive(Clone, Debug)]
pub struct WeightDecay {
    /// The fraction, per unit of learning rate if it is decoupled; a number or a function of the step.
    pub fraction: Schedule,
    /// Whether it is added to the gradient.
    pub coupled: bool,
    /// Regular expressions. A variable in whose name one of them matches is not decayed.
    pub exclude: Vec<String>,
}

impl WeightDecay {
    /// Decay that is added to the gradient.
    ///
    /// ```
    /// use mesh_optimize::{Momentum, WeightDecay};
    ///
    /// let torch = Momentum { weight_decay: WeightDecay::coupled(1e-4), ..Momentum::new(0.1, 0.9) };
    /// ```
    pub fn coupled(fraction: impl Into<Schedule>) -> Self {
        Self { fraction: fraction.into(), coupled: true, exclude: Vec::new() }
    }
}

/// Decoupled decay.
impl From<f64> for WeightDecay {
    fn from(fraction: f64) -> Self {
        Schedule::from(fraction).into()
    }
}

/// Decoupled decay of which the fraction changes with the step.
impl From<Schedule> for WeightDecay {
    fn from(fraction: Schedule) -> Self {
        Self { fraction, coupled: false, exclude: Vec::new() }
    }
}
