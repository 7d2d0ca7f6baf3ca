//! Muon: momentum, orthogonalised.
//!
//! Jordan et al. 2024 (kellerjordan.github.io/posts/muon). G is the gradient of a matrix of fan-in n and
//! fan-out m:
//!
//! ```text
//! M <- mu M + (1 - mu) G          B = (1 - mu) G + mu M      (Nesterov; else B = M)
//! X = B / (|B| + eps)             the norm of Frobenius
//! for each (a, b, c):             X <- a X + (b A + c A A) X,  A = X X'
//! W <- W - lr (s X + wd W)        s = sqrt(max(1, m / n))
//! ```
//!
//! Each round maps the singular values s of X to a s + b s³ + c s⁵ and so towards 1; five rounds of
//! (3.4445, -4.7750, 2.0315) bring them to about 0.7 to 1.2 (Jordan). Liu et al. 2025 (arXiv 2502.16982,
//! equation 4) take s = 0.2 sqrt(max(m, n)), for which the root mean square of updates is AdamW's.

mod config;

use crate::descent::Descent;
use crate::matrices::{count, others, renamed};
use crate::{AdamW, Matrices, Optimizer, Others, Schedule, WeightDecay};
use mesh_core::graph::{Fans, Tensor, Update, Variable};
use mesh_ops::einsum::{contract, einsum};
use mesh_ops::elementwise::{sqrt, square};
use mesh_ops::reduce::sum;

const AVERAGE: &str = "muon_m";
const COUNT: &str = "muon_t";

/// The coefficients (a, b, c) of Jordan et al.; PyTorch and optax have the same.
pub const JORDAN: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// The Muon optimizer for matrices, with another optimizer for all other variables.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{AdamW, Matrices, Muon, Optimizer};
///
/// let matrices = Matrices { exclude: vec!["^head/".to_owned()], ..Matrices::default() };
/// let muon = Muon { matrices, others: AdamW::new(3e-4).into(), ..Muon::new(1e-3) };
/// g.function("train", [x], [loss], muon.minimize(loss));
/// # g.check()?;
/// let slots = g.trainable_variables().iter().map(|v| v.slots().len()).collect::<Vec<_>>();
/// assert_eq!(slots, [1, 3]); // one of Muon's for the kernel, three of AdamW's for the bias
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Muon {
    /// The learning rate of matrices.
    pub learning_rate: Schedule,
    /// The decay of matrices.
    pub weight_decay: WeightDecay,
    /// The fraction of the average that is kept in each step.
    pub momentum: Schedule,
    /// Whether to use Nesterov's form.
    pub nesterov: bool,
    /// Whether averages are corrected for having started at zero, as optax does. A slot then counts the
    /// updates.
    pub bias_correction: bool,
    /// (a, b, c) of each round.
    pub coefficients: Vec<[f64; 3]>,
    /// A small number that is added to the norm. PyTorch takes the larger of both, which differs only for
    /// gradients as small as this.
    pub epsilon: Schedule,
    /// The factor of an update.
    pub scale: MuonScale,
    /// Which variables are matrices.
    pub matrices: Matrices,
    /// Updates the variables that are none.
    pub others: Others,
}

/// The factor of a matrix's update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MuonScale {
    /// `sqrt(max(1, fan-out / fan-in))` (Jordan; the default of PyTorch and optax).
    Width,
    /// `factor sqrt(max(fan-out, fan-in))` (Liu et al. with factor 0.2).
    Rms {
        /// The root mean square of an update per unit of learning rate.
        factor: f64,
    },
    /// `sqrt(fan-out / fan-in)` (Bernstein 2025, "Deriving Muon").
    Spectral,
    /// 1.
    One,
}

impl MuonScale {
    fn of(self, fans: &Fans) -> f64 {
        let (inputs, outputs) = (count(&fans.inputs) as f64, count(&fans.outputs) as f64);
        match self {
            Self::Width => (outputs / inputs).max(1.0).sqrt(),
            Self::Rms { factor } => factor * outputs.max(inputs).sqrt(),
            Self::Spectral => (outputs / inputs).sqrt(),
            Self::One => 1.0,
        }
    }
}

impl Muon {
    /// Momentum 0.95 in Nesterov's form, decay 0.1 and five rounds, as in PyTorch; Liu et al.'s scale with
    /// 0.2, so that the rate is one for AdamW, too, which has it for all variables that are no matrices.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        let learning_rate = learning_rate.into();
        Self {
            others: AdamW::new(learning_rate.clone()).into(),
            learning_rate,
            weight_decay: 0.1.into(),
            momentum: 0.95.into(),
            nesterov: true,
            bias_correction: false,
            coefficients: vec![JORDAN; 5],
            epsilon: 1e-7.into(),
            scale: MuonScale::Rms { factor: 0.2 },
            matrices: Matrices::default(),
        }
    }

    /// The matrix with singular values near 1.
    fn orthogonal<'g>(&self, x: Tensor<'g>, fans: &Fans) -> Tensor<'g> {
        let sides = [&fans.inputs[..], &fans.outputs].concat();
        let start = x / (sqrt(sum(square(x), sides)) + &self.epsilon);
        self.coefficients.iter().fold(start, |x, round| iterated(x, fans, round))
    }
}

impl Optimizer for Muon {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(fans) = self.matrices.fans(variable) else {
            return self.others.apply_grad(grad, variable);
        };
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (mu, g) = (&self.momentum, step.grad);
        let average = if self.bias_correction {
            let t = step.count(COUNT);
            step.first_moment(AVERAGE, mu, t, self.nesterov)
        } else {
            let average = step.average(step.slot(AVERAGE), mu, g);
            if self.nesterov { mu.mixed(average, g) } else { average }
        };
        step.end(self.orthogonal(average, &fans) * self.scale.of(&fans), &self.learning_rate)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.others.evaluated(&self.matrices, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let count = self.bias_correction.then_some(COUNT);
        let mut names: Vec<_> = [AVERAGE].into_iter().chain(count).collect();
        names.extend(self.others.slot_names());
        names
    }
}

/// One round. The smaller side is kept in A and the larger one is summed over, so nothing is transposed.
fn iterated<'g>(x: Tensor<'g>, fans: &Fans, [a, b, c]: &[f64; 3]) -> Tensor<'g> {
    let (kept, summed) = match count(&fans.inputs) <= count(&fans.outputs) {
        true => (&fans.inputs, &fans.outputs),
        false => (&fans.outputs, &fans.inputs),
    };
    let (shape, others, third) = (x.shape(), others(kept, "other"), others(kept, "third"));
    let other = renamed(x, kept, &others);
    let gram = contract(x, &[other], summed.iter().copied());
    if count(kept) == count(summed) {
        // As A is symmetric, the second product with it may sum over its first side. So X is needed under
        // other names once in a round, and the result is made under these.
        let once = einsum(gram, &[other], shape.iter());
        let twice = einsum(gram, &[x * *b + once * *c], other.shape().iter());
        return x * *a + renamed(twice, &others, kept);
    }
    let square = contract(gram, &[renamed(gram, kept, &third)], others.iter().copied());
    let polynomial = gram * *b + renamed(square, &third, &others) * *c;
    x * *a + einsum(polynomial, &[other], shape.iter())
}
