//! SM3, Adagrad with a sum for each row, column, ... instead of for each element (Anil et al. 2019, arXiv
//! 1901.11150, algorithm SM3-II).
//!
//! ```text
//! a = min over the dims d of s_d, + g²        (with beta2 < 1: beta2 min(s) + (1 - beta2) g²)
//! s_d <- max of a over all dims but d        m <- b1 m + (1 - b1) g / sqrt(a + eps)
//! w <- w - lr m
//! ```

use crate::descent::Descent;
use crate::options::{About, FROM_0, Listed, Setting, TO_1, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::broadcast;
use mesh_ops::elementwise::{cast, equal, greater, minimum, rsqrt, select, square};
use mesh_ops::reduce::max;

const FIRST: &str = "sm3_m";
/// The sums of the first dim, the second, ...
const SUMS: [&str; 8] = ["sm3_0", "sm3_1", "sm3_2", "sm3_3", "sm3_4", "sm3_5", "sm3_6", "sm3_7"];

/// The SM3 optimizer, as `optax.sm3`. A variable of n dims keeps, beside its momentum, n vectors. At most 8 dims
/// are legal.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Sm3};
///
/// let optimizer = Sm3::new(0.1);
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// let kernel = g.trainable_variables()[0];
/// assert_eq!(optimizer.slot(kernel, "sm3_0").unwrap().shape().size(), 8);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sm3 {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the average of steps.
    pub beta1: Schedule,
    /// The decay of the sums; with 1 they are sums of all squares.
    pub beta2: Schedule,
    /// A small number that is added under the root.
    pub epsilon: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Sm3 {
    /// optax's defaults: betas 0.9 and 1, epsilon 1e-8.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 1.0.into(),
            epsilon: 1e-8.into(),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Sm3 {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let shape = variable.shape();
        let dims: Vec<_> = shape.iter().collect();
        if dims.len() > SUMS.len() {
            let message = format!("{shape} has more than {} dims", SUMS.len());
            step.graph().record("sm3", message);
            return Vec::new();
        }
        // What the sum of each dim is over; a scalar has one sum, over nothing.
        let others = |own: &Dimension| dims.iter().filter(|dim| *dim != own).copied().collect();
        let summed: Vec<Vec<Dimension>> = dims.iter().map(others).collect();
        let summed = if dims.is_empty() { vec![Vec::new()] } else { summed };
        let own: Vec<_> = summed.iter().map(|others| without(&shape, others)).collect();
        let slots = own.iter().zip(SUMS).map(|(own, name)| step.slot_of(name, own, 0.0));
        let slots: Vec<_> = slots.collect();
        let g = step.grad;
        let sums = slots.iter().map(|slot| broadcast(slot.stored(), &shape));
        let least = sums.reduce(minimum).unwrap_or_else(|| step.scalar(0.0));
        let beta2 = self.beta2.at(step.graph(), DType::F64);
        let weight = cast(select(equal(beta2, 1.0), 1.0, 1.0 - beta2), step.dtype());
        let all = least * &self.beta2 + square(g) * weight;
        for (slot, others) in slots.iter().zip(summed) {
            step.keep(*slot, max(all, others));
        }
        let (zero, one) = (step.scalar(0.0), step.scalar(1.0));
        let some = greater(all, zero);
        let root = rsqrt(select(some, all + &self.epsilon, one));
        let m = step.average(step.slot(FIRST), &self.beta1, g * select(some, root, zero));
        step.end(m, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        SUMS.into_iter().chain([FIRST]).collect()
    }
}

fn without(shape: &Shape, dims: &[Dimension]) -> Shape {
    shape.without(&dims.iter().map(|dim| dim.name).collect::<Vec<_>>())
}

impl Listed for Sm3 {
    const ABOUT: About = About {
        name: "sm3",
        rate: 1e-1,
        formula: "\
            a = min over the dims d of s_d, + g²        s_d <- max of a over all dims but d\n\
            m <- b1 m + (1 - b1) g / sqrt(a + eps)        w <- w - lr m",
        paper: "Anil et al. 2019, arXiv 1901.11150, algorithm SM3-II",
        peers: "optax's defaults; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in TO_1,
            "beta2": beta2 in TO_1,
            "epsilon": epsilon in FROM_0,
        }
    }
}
