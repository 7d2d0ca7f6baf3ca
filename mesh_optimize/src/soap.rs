//! SOAP: Adam in the eigenbasis of Shampoo's second moments.
//!
//! Vyas et al. 2024 (arXiv 2409.11321, algorithms 3 and 4). For a matrix, or each block of it:
//!
//! ```text
//! G~ = QL' G QR                          M <- b1 M + (1 - b1) G          M~ = QL' M QR
//! V <- b2 V + (1 - b2) G~ G~             (by elements)
//! N = QL (M~ / (1 - b1^t) / (sqrt(V / (1 - b2^t)) + eps)) QR'
//! W <- W - lr (N + wd W)
//! L <- b2 L + (1 - b2) G G'              R <- b2 R + (1 - b2) G' G
//! QL <- Q of the QR decomposition of L QL, and QR of R QR alike, after the first of every `interval` updates
//! ```
//!
//! What differs from the paper: bases start as the identity, not as the eigenvectors of the first L and R,
//! which would need a decomposition; the norm of L times 1e-5 is added to L on its diagonal, which changes
//! no eigenvector; the orthogonal factor is made column by column, of products.

use crate::descent::Descent;
use crate::matrices::{blocks, first_of, gram, product, sides};
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings};
use crate::roots::{identity, transposed, turned};
use crate::{AdamW, Matrices, Optimizer, Others, Schedule, WeightDecay};
use mesh_core::graph::{Fans, Tensor, Update, Variable};
use mesh_ops::elementwise::{sqrt, square};
use mesh_ops::reshape;

const FIRST: &str = "soap_m";
const SECOND: &str = "soap_v";
const COUNT: &str = "soap_t";
/// Second moments, and bases less the identity, of fan-in and fan-out.
const SIDES: [[&str; 2]; 2] = [["soap_l", "soap_ql"], ["soap_r", "soap_qr"]];

/// The SOAP optimizer for matrices, with another optimizer for all other variables.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Soap};
///
/// let soap = Soap { block: 256, ..Soap::new(3e-3) };
/// g.function("train", [x], [loss], soap.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Soap {
    /// The learning rate of matrices.
    pub learning_rate: Schedule,
    /// The decay of matrices.
    pub weight_decay: WeightDecay,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moments.
    pub beta2: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// The number of updates for which bases are kept; 0 counts as 1.
    pub interval: u64,
    /// The most rows and columns of a block. A side is cut into the fewest equal parts of its first dim that
    /// are no larger.
    pub block: u64,
    /// Which variables are matrices.
    pub matrices: Matrices,
    /// Updates the variables that are none.
    pub others: Others,
}

impl Soap {
    /// The paper's: betas 0.95, epsilon 1e-8, decay 0.01, bases for 10 updates; blocks of up to 1,024; AdamW
    /// with the same rate for all variables that are no matrices.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        let learning_rate = learning_rate.into();
        Self {
            others: AdamW::new(learning_rate.clone()).into(),
            learning_rate,
            weight_decay: 0.01.into(),
            beta1: 0.95.into(),
            beta2: 0.95.into(),
            epsilon: 1e-8.into(),
            interval: 10,
            block: 1024,
            matrices: Matrices::default(),
        }
    }
}

/// The bases of both sides.
type Bases<'g> = [Tensor<'g>; 2];

/// A matrix in the bases, or out of them.
fn rotated<'g>(x: Tensor<'g>, bases: Bases<'g>, fans: &Fans, into: bool) -> Tensor<'g> {
    sides(fans).into_iter().zip(bases).fold(x, |x, ([side, _], basis)| {
        product(if into { transposed(basis, side) } else { basis }, x, side)
    })
}

impl Optimizer for Soap {
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
        let grams = sides(&fans).map(|side| gram(blocked, side));
        let eyes = [0, 1].map(|i| identity(grams[i], sides(&fans)[i][0]));
        let slots = [0, 1].map(|i| SIDES[i].map(|name| step.slot_of(name, &grams[i].shape(), 0.0)));
        let bases = [0, 1].map(|i| slots[i][1].stored() + eyes[i]);
        let second = step.slot_of(SECOND, &blocked.shape(), 0.0);
        let v = step.average(second, &self.beta2, square(rotated(blocked, bases, &fans, true)));
        let v = step.unbiased(v, &self.beta2, t);
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let m = rotated(reshape(m, blocked.shape().iter()), bases, &fans, true);
        let update = rotated(m / (sqrt(v) + &self.epsilon), bases, &fans, false);
        for (i, [moment, basis]) in slots.into_iter().enumerate() {
            let new = step.average(moment, &self.beta2, grams[i]);
            let next = turned(new, bases[i], sides(&fans)[i][0], due);
            step.keep(basis, next - eyes[i]);
        }
        step.end(reshape(update, variable.shape().iter()), &self.learning_rate)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.others.evaluated(&self.matrices, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let own = [FIRST, SECOND, COUNT].into_iter().chain(SIDES.into_iter().flatten());
        own.chain(self.others.slot_names()).collect()
    }
}

impl Listed for Soap {
    const ABOUT: About = About {
        name: "soap",
        rate: 3e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) (ql' g qr)²\n\
            w <- w - lr (ql (ql' m qr / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)) qr' + wd w)\n\
            l <- b2 l + (1 - b2) g g'        r <- b2 r + (1 - b2) g' g\n\
            ql <- orthogonal(l ql)        qr <- orthogonal(r qr)        (every f updates)",
        paper: "Vyas et al. 2024, arXiv 2409.11321, algorithms 3 and 4",
        peers: "Neither PyTorch nor optax has it. Here bases start as the identity.",
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
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "interval": interval,
            "block": block,
            "no_matrices": matrices.exclude,
        }
    }
}
