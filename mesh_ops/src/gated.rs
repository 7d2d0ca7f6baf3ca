//! Gates: `glu(x, dim)`, `swiglu(x, dim)`: one half of a tensor along a dim lets the other pass.
//!
//! Compositions of slices and elementwise functions. Along a split dim the halves move to where their parts lie.

use crate::elementwise::{sigmoid, swish};
use crate::room::*;

/// The halves of `x` along `dim`.
#[track_caller]
fn halves<'g>(op: &str, x: Tensor<'g>, dim: Dimension) -> [Tensor<'g>; 2] {
    let odd = (dim.size % 2 == 1).then(|| format!("{dim} has no halves"));
    if let Some(problem) = lacking(x, dim).or(odd).filter(|_| !x.is_poisoned()) {
        x.graph().record(op, problem);
        return [x.poisoned(); 2];
    }
    let half = dim.resized(dim.size / 2);
    [crate::slice(x, half, 0), crate::slice(x, half, half.size)]
}

/// The first half of `x` along `dim`, gated by the second: `a sigmoid(b)` (Dauphin et al. 2017, "Language
/// Modeling with Gated Convolutional Networks"). As in JAX and PyTorch the second half is the gate.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let width = dim("width", 8);
/// let x = g.input("x", [dim("batch", 4), width], F32);
/// assert_eq!(mesh_ops::glu(x, width).shape().to_string(), "[batch:4, width:4]");
/// ```
#[track_caller]
pub fn glu(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    let [a, b] = halves("glu", x, dim);
    a * sigmoid(b)
}

/// The second half of `x` along `dim`, gated by the first: `swish(a) b` (Shazeer 2020, "GLU Variants Improve
/// Transformer").
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let width = dim("width", 8);
/// let x = g.input("x", [dim("batch", 4), width], F32);
/// assert_eq!(mesh_ops::swiglu(x, width).shape().to_string(), "[batch:4, width:4]");
/// ```
#[track_caller]
pub fn swiglu(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    let [a, b] = halves("swiglu", x, dim);
    swish(a) * b
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                gated("glu", |x| glu(x, q()), |a, b| a * logistic(b)),
                gated("swiglu", |x| swiglu(x, q()), |a, b| a * logistic(a) * b),
            ]
        },
    };

    fn logistic(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// Of halves of six along q.
    fn gated(name: &str, function: Unary, means: fn(f64, f64) -> f64) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| {
                let second = |at: &At| x[0].at(&at.with("q", at.along("q") + 6));
                Dense::each(ty, |at| means(x[0].at(at), second(at)))
            })
            .normal("x", "p:4;q:12", F32)
            .meshes(FEW)
    }
}
