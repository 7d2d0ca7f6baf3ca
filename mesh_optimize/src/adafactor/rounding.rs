//! How Adafactor stores a new value: as computed, rounded to a few bits, or rounded to bf16 without
//! bias (tensor2tensor's `_simulated_quantize` and `_to_bfloat16_unbiased`, 2018).
//!
//! Values are rounded up or down by chance. An update that is smaller than the last bit is then
//! made in some steps instead of in none. All elements of a step share one random number, a
//! multiple of the golden ratio:
//!
//! ```text
//! noise = phi (t+1) mod 1                                      phi = (sqrt(5) - 1) / 2
//! bits:  scale = (max |x| over the last dim + 1e-9) / (2^(bits-1) - 1)
//!        x <- floor(x / scale + noise) scale
//! bf16:  x = |w| + 1e-30      a = bf16(x)      b = bf16(a 1.005 if x > a else a 0.995)
//!        w <- sign(w) (b if (x - a) / (b - a) > noise else a)
//! ```
//!
//! For a positive bf16 number a, `1.005 a` rounds to the next larger bf16 number and `0.995 a` to
//! the next smaller.

use mesh_core::graph::{Graph, Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{abs, cast, floor, greater, modulo, select, sign};
use mesh_ops::reduce::max;

/// The golden ratio as phi = HIGH / 2^32 + LOW / 2^64, right to 2^-64. HIGH is written as an i32.
const HIGH: f64 = 0x9E37_79B9_u32 as i32 as f64;
const LOW: f64 = 0x7F4A_7C15 as f64;
const TWO_32: f64 = 4_294_967_296.0;

/// The fractional part of `phi (t+1)` at the graph's step t: an f32 in `[0, 1)`, a multiple of
/// 2^-24. Its values over any run of steps are evenly spread.
///
/// The product with HIGH is computed in i32, where overflow drops whole turns and the rest stays
/// exact; the product with LOW is small. So the fraction is as exact at step 2^31 as at step 0.
///
/// ```
/// use mesh_ops::prelude::*;
///
/// let g = mesh_ops::graph();
/// let noise = g.function("noise", [], [mesh_optimize::step_noise(&g)], []);
/// let module = g.lower(&Mesh::single(), &Layout::default())?;
/// let [first] = Session::threads(&module, 0)?.call(&noise, [])?;
/// assert!((first.to_f64().sum() - 0.618034).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn step_noise(graph: &Graph) -> Tensor<'_> {
    let steps = graph.step() + 1.0;
    let high = cast(steps * HIGH, DType::F64) * (1.0 / TWO_32);
    let low = cast(steps, DType::F64) * (LOW / TWO_32 / TWO_32);
    let fraction = modulo(high + low, graph.scalar(1.0, DType::F64));
    let grid = f64::from(1 << 24);
    cast(floor(fraction * grid) * (1.0 / grid), DType::F32)
}

/// Subtracts `delta` from the variable. `value` is the variable's value in the dtype of `delta`.
pub(super) fn subtract<'g>(
    variable: Variable<'g>,
    value: Tensor<'g>,
    delta: Tensor<'g>,
    bits: Option<u32>,
) -> Update<'g> {
    let (graph, dtype) = (variable.graph(), variable.dtype());
    let noise = || cast(step_noise(graph), delta.dtype());
    match bits {
        Some(bits) => {
            let rounded = quantized(value - delta, bits, noise());
            variable.assign(cast(rounded, dtype))
        }
        None if dtype == DType::BF16 => variable.assign(unbiased(value - delta, noise())),
        None => variable.assign_sub(cast(delta, dtype)),
    }
}

/// `x` rounded to `bits` bits per element. A vector, or a matrix of one column, stays as it is.
fn quantized<'g>(x: Tensor<'g>, bits: u32, noise: Tensor<'g>) -> Tensor<'g> {
    let shape = x.shape();
    match shape.dims() {
        [_, .., last] if last.size > 1 => {
            let most = f64::from((1_u32 << (bits - 1)) - 1);
            let scale = (max(abs(x), [*last]) + 1e-9) / most;
            floor(x / scale + noise) * scale
        }
        _ => x,
    }
}

/// `w` in bf16, rounded up or down by `noise`.
fn unbiased<'g>(w: Tensor<'g>, noise: Tensor<'g>) -> Tensor<'g> {
    let round = |x| cast(cast(x, DType::BF16), w.dtype());
    let x = abs(w) + 1e-30;
    let near = round(x);
    let other = round(select(greater(x, near), near * 1.005, near * 0.995));
    let rounded = select(greater((x - near) / (other - near), noise), other, near);
    cast(rounded * sign(w), DType::BF16)
}
