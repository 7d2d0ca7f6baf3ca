//! How fast Adafactor's second moment forgets. t counts steps from 0:
//!
//! ```text
//! pow      b = 1 - (t - offset + 1)^-exponent                     (section 7.2 of the paper)
//! adam     b = beta2 (1 - beta2^t) / (1 - beta2^(t+1))            (section 7.1)
//! ```
//!
//! Both are 0 at the first step, so the zeros that the second moment starts from do not count.

use crate::LearningRate;
use mesh_core::graph::{Graph, Tensor};
use mesh_core::names::DType;
use mesh_ops::elementwise::{cast, maximum, pow, powf};

/// The share of the old second moment that is kept.
#[derive(Clone, Debug)]
pub enum Decay {
    /// Memory that grows as a power of the steps.
    Pow {
        /// From 0 to 1.
        exponent: f64,
        /// The step to count from, in fine-tuning; before it the decay is 0.
        offset: u32,
    },
    /// Adam's decay, its bias correction included.
    Adam {
        /// From 0 to below 1.
        beta2: f64,
    },
    /// The same at every step, from 0 to below 1. The zeros at the start count.
    Constant(f64),
    /// A function of the step, with values from 0 to below 1.
    OfStep(LearningRate),
}

impl Decay {
    /// The decay at the graph's step, in f64 and rounded once.
    #[track_caller]
    pub fn at<'g>(&self, graph: &'g Graph, dtype: DType) -> Tensor<'g> {
        let _caller = graph.for_caller();
        let number = |value: f64| graph.scalar(value, DType::F64);
        let steps = || cast(graph.step(), DType::F64);
        match self {
            Self::Pow { exponent, offset } => {
                let since = maximum(steps() - f64::from(*offset), number(0.0)) + 1.0;
                cast(1.0 - powf(since, -exponent), dtype)
            }
            Self::Adam { beta2 } => {
                let unseen = |steps| 1.0 - pow(number(*beta2), steps);
                cast(unseen(steps()) / unseen(steps() + 1.0) * *beta2, dtype)
            }
            Self::Constant(decay) => graph.scalar(*decay, dtype),
            Self::OfStep(decay) => decay.at(graph, dtype),
        }
    }
}
