//! The decay of Adafactor's second moment. t counts steps from 0:
//!
//! ```text
//! pow      b = 1 - (t - offset + 1)^-exponent                     (section 7.2 of the paper)
//! adam     b = beta2 (1 - beta2^t) / (1 - beta2^(t+1))            (section 7.1)
//! ```
//!
//! Both are 0 at the first step, so the zeros in which the second moment starts have no weight.

use crate::Schedule;
use mesh_core::graph::{Graph, Tensor};
use mesh_core::names::DType;
use mesh_ops::elementwise::{cast, maximum, pow, powf};

/// The fraction of the old second moment that a step keeps.
#[derive(Clone, Debug)]
pub enum Decay {
    /// `Pow`: 0 at first, then nearer to 1 as a power of the step.
    Pow {
        /// The exponent, from 0 to 1.
        exponent: f64,
        /// The step from which steps are counted (for fine-tuning). Before it the decay is 0.
        offset: u32,
    },
    /// `Adam`: Adam's decay with its bias correction.
    Adam {
        /// The constant decay that it approaches, from 0 to below 1.
        beta2: f64,
    },
    /// A number from 0 to below 1, or a function of the step with such values. Where it is not 0 at first, the zeros
    /// at the start have their weight.
    Given(Schedule),
}

impl Decay {
    /// The decay at the graph's step, computed in f64 and rounded once to `dtype`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// use mesh_optimize::Decay;
    ///
    /// let decay = Decay::Pow { exponent: 0.8, offset: 0 }.at(&g, F32);
    /// # let f = g.function("decay", [], [decay], []);
    /// # let module = g.lower(&Mesh::single(), &Layout::default())?;
    /// # let [decay] = Session::threads(&module, 0)?.call(&f, [])?;
    /// assert_eq!(decay.item(), Some(0.0)); // at step 0
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
            Self::Given(decay) => decay.at(graph, dtype),
        }
    }
}
