//! `sample_with_temperature(logits, dim, temperature)`: a composition.
//!
//! By the Gumbel-max trick: the argmax of `logits + temperature * gumbel`, with `gumbel = -log(-log
//! u)`, follows `softmax(logits / temperature)`. On a split dim that costs what `argmax` costs.

use super::random_uniform;
use crate::elementwise::{cast, log};
use crate::room::*;

/// An index along `dim`, drawn with probability `softmax(logits / temperature)`, as i32; with
/// temperature 0 the greatest.
///
/// Logits of minus infinity are never drawn unless all are. Arithmetic is in f32 at least; the
/// noise has 24 bits, so probabilities below some 2^-24 are not met faithfully.
///
/// **A function that does not train draws the same in every call** unless it is told what its draws
/// depend on, by [`Graph::salted`](mesh_core::graph::Graph::salted): a variable that counts the calls,
/// which checkpoints have, or a seed that is fed.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, vocab) = (dim("batch", 16), dim("vocab", 10));
/// let logits = g.input("logits", [batch, vocab], F32);
/// let calls = g.state("calls", [], I32, Initializer::ZEROS);
/// let token = {
///     let _salt = g.salted(calls.value());
///     mesh_ops::random::sample_with_temperature(logits, vocab, 0.7)
/// };
/// let one = g.scalar(1.0, I32);
/// let sample = g.function("sample", [logits], [token], [calls.assign_add(one)]);
///
/// let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
/// let mut session = Session::threads(&module, 7)?;
/// let logits = ndarray::Array2::<f32>::zeros((16, 10));
/// let [first] = session.call(&sample, [logits.view().into()])?;
/// let [second] = session.call(&sample, [logits.view().into()])?;
/// assert_ne!(first, second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, vocab) = (dim("batch", 4), dim("vocab", 10));
/// let logits = g.input("logits", [batch, vocab], F32);
/// let token = mesh_ops::random::sample_with_temperature(logits, vocab, 0.7);
/// assert_eq!((token.shape().to_string(), token.dtype()), ("[batch:4]".to_owned(), I32));
/// ```
#[track_caller]
pub fn sample_with_temperature<'g>(
    logits: Tensor<'g>,
    dim: Dimension,
    temperature: f64,
) -> Tensor<'g> {
    let (graph, dtype) = (logits.graph(), logits.dtype());
    let problem = if logits.is_poisoned() {
        return logits;
    } else if !dtype.is_float() {
        format!("logits are floats, not {dtype}")
    } else if !(temperature >= 0.0 && temperature.is_finite()) {
        format!("a temperature is at least 0, not {temperature}")
    } else if temperature == 0.0 {
        return crate::argmax(logits, dim);
    } else {
        let wide = dtype.reduction();
        let uniform = random_uniform(graph, logits.shape(), 0.0, 1.0, wide);
        let gumbel = -log(-log(uniform));
        return crate::argmax(cast(logits, wide) + temperature * gumbel, dim);
    };
    graph.record("sample_with_temperature", problem);
    logits.poisoned()
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("sample", |_, x| sample_with_temperature(x[0], q(), 0.7))
                    .shows("sample_with_temperature")
                    .computes(|x, ty| drawn(x[0], ty, 0.7))
                    .normal("x", MATRIX, F32),
                Case::new("sample: cold", |_, x| sample_with_temperature(x[0], q(), 0.0))
                    .shows("sample_with_temperature")
                    .computes(|x, ty| drawn(x[0], ty, 0.0))
                    .normal("x", MATRIX, F32),
                Case::new("sample: bf16", |_, x| sample_with_temperature(x[0], q(), 1.0))
                    .shows("sample_with_temperature")
                    .computes(|x, ty| drawn(x[0], ty, 1.0))
                    .normal("x", MATRIX, BF16)
                    .meshes(FEW),
            ]
        },
    };

    /// The greatest of logits plus noise of a Gumbel distribution, which is of f32.
    fn drawn(logits: &Dense, ty: &TensorType, temperature: f64) -> Dense {
        let wide = TensorType::new(logits.ty.shape.clone(), DType::F32);
        let uniform = crate::random::proof::uniform(0.0, 1.0, &wide);
        let score = |at: &At| match temperature {
            0.0 => logits.at(at),
            _ => logits.at(at) - temperature * (1.0 / uniform.at(at)).ln().ln(),
        };
        Dense::each(ty, |at| {
            let scores: Vec<_> = (0..q().size).map(|q| score(&at.with("q", q))).collect();
            let greatest = |i: &usize| scores.iter().all(|other| *other <= scores[*i]);
            (0..scores.len()).find(greatest).map_or(f64::NAN, |i| i as f64)
        })
    }
}
