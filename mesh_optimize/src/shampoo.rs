//! Shampoo: gradients between the inverse fourth roots of their second moments.
//!
//! Gupta et al. 2018 (arXiv 1802.09568, algorithm 1), with averages, momentum, blocks and an interval as in
//! Shi et al. 2023 (arXiv 2309.06497, sections 2 and 3). For a matrix, or each block of it:
//!
//! ```text
//! M <- b1 M + (1 - b1) G
//! L <- b2 L + (1 - b2) G G'              R <- b2 R + (1 - b2) G' G
//! W <- W - lr (P M / (1 - b1^t) Q + wd W)
//! P = (L / (1 - b2^t) + eps I)^(-1/4)    Q = (R / (1 - b2^t) + eps I)^(-1/4)
//! ```
//!
//! With b2 = 1, L and R are sums (algorithm 1). P and Q are computed anew in the first of every `interval`
//! updates, by products alone: the papers decompose L and R, or take Newton's method as here.

use crate::descent::Descent;
use crate::matrices::{blocks, first_of, gram, product, sides};
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, TO_1, decayed_settings};
use crate::roots::inverse_root;
use crate::{AdamW, Matrices, Optimizer, Others, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::select;
use mesh_ops::reshape;

const AVERAGE: &str = "shampoo_m";
const COUNT: &str = "shampoo_t";
/// Second moments and roots, of fan-in and fan-out.
const SIDES: [[&str; 2]; 2] = [["shampoo_l", "shampoo_lr"], ["shampoo_r", "shampoo_rr"]];

/// The Shampoo optimizer for matrices, with another optimizer for all other variables.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Shampoo};
///
/// let shampoo = Shampoo { block: 128, interval: 20, ..Shampoo::new(1e-3) };
/// g.function("train", [x], [loss], shampoo.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shampoo {
    /// The learning rate of matrices.
    pub learning_rate: Schedule,
    /// The decay of matrices.
    pub weight_decay: WeightDecay,
    /// The decay of the average of gradients.
    pub beta1: Schedule,
    /// The decay of the second moments; the constant 1 sums them.
    pub beta2: Schedule,
    /// A number that is added to the eigenvalues of the second moments.
    pub epsilon: Schedule,
    /// The number of updates for which roots are kept; 0 counts as 1.
    pub interval: u64,
    /// The most rows and columns of a block. A side is cut into the fewest equal parts of its first dim that
    /// are no larger.
    pub block: u64,
    /// Which variables are matrices.
    pub matrices: Matrices,
    /// Updates the variables that are none.
    pub others: Others,
}

impl Shampoo {
    /// Betas 0.9 and 0.999, epsilon 1e-8, no decay, roots for 10 updates, blocks of up to 1,024; AdamW with
    /// the same rate for all variables that are no matrices.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        let learning_rate = learning_rate.into();
        Self {
            others: AdamW::new(learning_rate.clone()).into(),
            learning_rate,
            weight_decay: 0.0.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
            interval: 10,
            block: 1024,
            matrices: Matrices::default(),
        }
    }
}

impl Optimizer for Shampoo {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(fans) = self.matrices.fans(variable) else {
            return self.others.apply_grad(grad, variable);
        };
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let due = first_of(self.interval, t);
        let (blocked, fans) = blocks(step.grad, &fans, self.block);
        let average = step.first_moment(AVERAGE, &self.beta1, t, false);
        let mut update = reshape(average, blocked.shape().iter());
        for (side, names) in sides(&fans).into_iter().zip(SIDES) {
            let new = gram(blocked, side);
            let [moment, root] = names.map(|name| step.slot_of(name, &new.shape(), 0.0));
            let even = if self.beta2.is(1.0) {
                step.trace(moment, 1.0, new)
            } else {
                let average = step.average(moment, &self.beta2, new);
                step.unbiased(average, &self.beta2, t)
            };
            let fresh = inverse_root(even, side[0], 4, &self.epsilon, due);
            let factor = step.keep(root, select(due, fresh, root.stored()));
            update = product(factor, update, side[0]);
        }
        step.end(reshape(update, variable.shape().iter()), &self.learning_rate)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.others.evaluated(&self.matrices, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let own = [AVERAGE, COUNT].into_iter().chain(SIDES.into_iter().flatten());
        own.chain(self.others.slot_names()).collect()
    }
}

impl Listed for Shampoo {
    const ABOUT: About = About {
        name: "shampoo",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g\n\
            l <- b2 l + (1 - b2) g g'        r <- b2 r + (1 - b2) g' g\n\
            w <- w - lr ((l / (1 - b2^t) + eps)^-¼ m / (1 - b1^t) (r / (1 - b2^t) + eps)^-¼ + wd w)",
        paper: "Gupta et al. 2018, arXiv 1802.09568, algorithm 1; Shi et al. 2023, arXiv 2309.06497",
        peers: "Neither PyTorch nor optax has it. The first paper's moments are sums: beta2 is 1.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        let others = AdamW::new(learning_rate.clone()).into();
        Self { learning_rate, others, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in TO_1,
            "epsilon": epsilon in FROM_0,
            "interval": interval,
            "block": block,
            "no_matrices": matrices.exclude,
        }
    }
}
