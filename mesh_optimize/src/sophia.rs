//! Sophia, whose steps are divided by a diagonal of curvature (Liu et al. 2023, arXiv 2305.14342, algorithm 3).
//!
//! ```text
//! m <- b1 m + (1 - b1) g
//! w <- w - lr (clip(m / (1 - b1^t) / max(gamma h, eps), threshold) + wd w)
//! h <- b2 h + (1 - b2) estimate                (in some of the steps: `Sophia::curvature`)
//! ```
//!
//! The estimate of the diagonal of the Hessian is another input than the gradient, needed in one of ten steps
//! or so. It has a function of its own: a function that lists [`Sophia::curvature`]'s updates beside those of
//! the training function renews h, another one trains with the h that there is.

use crate::descent::Descent;
use crate::optimizer::apply_each;
use crate::options::{
    About, BELOW_1, FROM_0, Listed, Setting, check, decayed_settings, rate_field,
};
use crate::{Optimizer, Schedule, WeightDecay, compute_gradients};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{less, maximum, minimum, select};
use mesh_ops::random::random_uniform;
use mesh_ops::reduce::sum;

const FIRST: &str = "sophia_m";
const CURVATURE: &str = "sophia_h";
const COUNT: &str = "sophia_t";

/// The Sophia optimizer, as `optax.contrib.sophia`.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sophia, hutchinson};
///
/// let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// let loss = x.dense(dim("out", 3), "out").square().mean();
/// let sophia = Sophia::new(1e-3);
/// // Nine calls of ten:
/// g.function("train", [x], [loss], sophia.minimize(loss));
/// // The tenth:
/// let updates = [sophia.minimize(loss), sophia.curvature(&hutchinson(loss, &[]))].concat();
/// g.function("train and look", [x], [loss], updates);
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sophia {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the curvature.
    pub beta2: Schedule,
    /// The least that a first moment is divided by.
    pub epsilon: Schedule,
    /// The factor of the curvature.
    pub gamma: Schedule,
    /// The largest size of a direction; `None` does not clip.
    pub clip_threshold: Option<Schedule>,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Sophia {
    /// optax's defaults: betas 0.965 and 0.99, epsilon 1e-8, gamma 0.01, threshold 1, weight decay 1e-4.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.965.into(),
            beta2: 0.99.into(),
            epsilon: 1e-8.into(),
            gamma: 0.01.into(),
            clip_threshold: Some(1.0.into()),
            weight_decay: 1e-4.into(),
        }
    }

    /// The updates of h by estimates of the diagonal of the Hessian: those of [`hutchinson`], or others, as the
    /// Gauss-Newton-Bartlett estimate (algorithm 2): the squared gradient of a loss by labels that are drawn
    /// from the model, times the batch size. An update of the variables in the same call has the old h.
    #[track_caller]
    pub fn curvature<'g>(
        &self,
        estimates: &[(Option<Tensor<'g>>, Variable<'g>)],
    ) -> Vec<Update<'g>> {
        apply_each(estimates, |estimate, variable| {
            if !check(self, estimate.graph()) {
                return Vec::new();
            }
            let dtype = estimate.dtype();
            let h = variable.slot(CURVATURE, variable.shape(), dtype, Initializer::ZEROS);
            vec![h.assign(self.beta2.mixed(h.stored(), estimate))]
        })
    }
}

impl Optimizer for Sophia {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let curvature = step.slot(CURVATURE).stored() * &self.gamma;
        let mut direction = m / maximum(curvature, &self.epsilon);
        if let Some(threshold) = &self.clip_threshold {
            let most = threshold.at(step.graph(), step.dtype());
            direction = minimum(maximum(direction, -most), most);
        }
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, CURVATURE, COUNT]
    }
}

/// Hutchinson's estimate of the diagonal of the Hessian of `loss` (Liu et al. 2023, algorithm 1): `r ⊙ H r`,
/// where the elements of r are drawn from -1 and 1 in each call. For each of `variables`, or every trainable
/// variable if the list is empty. See [`Sophia`].
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::hutchinson;
///
/// let g = mesh_ops::graph();
/// let w = g.variable("w", [dim("x", 3)], F32, Initializer::ONES);
/// let loss = w.value().square().sum_all();
/// let [(Some(estimate), _)] = hutchinson(loss, &[])[..] else { panic!("one variable") };
/// let look = g.function("look", [], [estimate], []);
/// # let module = g.lower(&Mesh::single(), &Layout::default())?;
/// # let [diagonal] = Session::threads(&module, 0)?.call(&look, [])?;
/// assert_eq!(diagonal.to_f64(), ndarray::arr1(&[2.0; 3]).into_dyn()); // whatever r is
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn hutchinson<'g>(
    loss: Tensor<'g>,
    variables: &[Variable<'g>],
) -> Vec<(Option<Tensor<'g>>, Variable<'g>)> {
    let graph = loss.graph();
    graph.on_behalf("curvature", || {
        let grads = compute_gradients(loss, variables);
        let signs = grads.iter().map(|(grad, variable)| {
            grad.map(|grad| {
                let drawn = random_uniform(graph, variable.shape().iter(), -1.0, 1.0, DType::F32);
                let zero = graph.scalar(0.0, DType::F32);
                let [minus, plus] = [-1.0, 1.0].map(|x| graph.scalar(x, grad.dtype()));
                (grad, select(less(drawn, zero), minus, plus))
            })
        });
        let signs: Vec<_> = signs.collect();
        let along = signs.iter().flatten().map(|(grad, sign)| {
            let dims: Vec<_> = grad.shape().iter().collect();
            sum(*grad * *sign, dims)
        });
        let Some(along) = along.reduce(|a, b| a + b) else { return Vec::new() };
        let values: Vec<_> = grads.iter().map(|(_, variable)| variable.value()).collect();
        let products = graph.gradients(&[along], &values, None);
        let pairs = products.into_iter().zip(signs).zip(grads);
        pairs
            .map(|((product, sign), (_, variable))| {
                let estimate = product.zip(sign).map(|(product, (_, sign))| product * sign);
                (estimate, variable)
            })
            .collect()
    })
}

impl Listed for Sophia {
    const ABOUT: About = About {
        name: "sophia",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        h <- b2 h + (1 - b2) estimate, in some steps\n\
            w <- w - lr (clip(m / (1 - b1^t) / max(gamma h, eps), threshold) + wd w)",
        paper: "Liu et al. 2023, arXiv 2305.14342, algorithm 3",
        peers: "optax's defaults. `Sophia::curvature` renews h, in a function of its own; by configurations h \
                stays 0 and steps are signs. PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "gamma": gamma in FROM_0,
            "clip_threshold": clip_threshold in FROM_0,
        }
    }
}
