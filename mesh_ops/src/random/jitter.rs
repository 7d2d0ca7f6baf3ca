//! `multiplicative_jitter(x, epsilon)`: a composition.

use super::random_uniform;
use crate::elementwise::cast;
use crate::room::*;

/// `x` times numbers uniform in `[1 - epsilon, 1 + epsilon)`; floats. The product is taken in f32
/// where x is of bf16.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 4)], F32);
/// assert_eq!(mesh_ops::random::multiplicative_jitter(x, 0.01).shape(), x.shape());
/// ```
#[track_caller]
pub fn multiplicative_jitter(x: Tensor<'_>, epsilon: f64) -> Tensor<'_> {
    let (dtype, wide) = (x.dtype(), x.dtype().reduction());
    let problem = if x.is_poisoned() {
        return x;
    } else if !dtype.is_float() {
        format!("multiplicative_jitter needs floats, not {dtype}")
    } else if !(epsilon >= 0.0 && epsilon.is_finite()) {
        format!("epsilon is at least 0, not {epsilon}")
    } else if epsilon == 0.0 {
        return x;
    } else {
        let noise = random_uniform(x.graph(), x.shape(), 1.0 - epsilon, 1.0 + epsilon, wide);
        return cast(cast(x, wide) * noise, dtype);
    };
    x.graph().record("multiplicative_jitter", problem);
    x.poisoned()
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("multiplicative_jitter", |_, x| multiplicative_jitter(x[0], 0.1))
                    .computes(times_noise)
                    .normal("x", MATRIX, F32)
                    .meshes(FEW),
                Case::new("multiplicative_jitter: bf16", |_, x| multiplicative_jitter(x[0], 0.1))
                    .computes(times_noise)
                    .normal("x", MATRIX, BF16)
                    .meshes(FEW),
            ]
        },
    };

    /// The noise is of f32 for either dtype.
    fn times_noise(x: &[&Dense], ty: &TensorType) -> Dense {
        let wide = TensorType::new(ty.shape.clone(), DType::F32);
        let noise = crate::random::proof::uniform(0.9, 1.1, &wide);
        Dense::each(ty, |at| x[0].at(at) * noise.at(at))
    }
}
