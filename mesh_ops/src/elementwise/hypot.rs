//! `hypot(a, b)`: the length of the hypotenuse; floats.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `hypot(a, b) = sqrt(a^2 + b^2)` | `a / y dy` to a, `b / y dy` to b | both 0 where y is 0 |
//!
//! Not linear.

use super::{Elementwise, equal, map, select};
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::SQRT_2;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hypot;

/// `sqrt(a^2 + b^2)`, without squares that overflow or vanish; at most 2 ulp off in f32, NaN if either
/// is.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (g.fill(3e30, [dim("r", 2)], F32), g.fill(4e30, [dim("c", 3)], F32));
/// assert_eq!(mesh_ops::elementwise::hypot(a, b).shape().to_string(), "[r:2, c:3]");
/// ```
#[track_caller]
pub fn hypot<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    map(Hypot, &[a, b])
}

impl Elementwise for Hypot {
    const NAME: &'static str = "hypot";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (a, b) = (x[0].clone().abs(), x[1].clone().abs());
        let (most, least) = (a.clone().max(b.clone()), a.min(b));
        let ratio = least.clone() / most.clone();
        // Of two zeros or infinities there is no ratio.
        let equal = most.clone().equal(least);
        let length = most.clone() * (1.0 + ratio.clone() * ratio).sqrt();
        equal.select(SQRT_2 * most, length)
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], y: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let length = select(equal(y, y.scalar_like(0.0)), y.scalar_like(1.0), y);
        Ok(x.iter().map(|&side| Some(dy * (side / length))).collect())
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Elements::<Map<Hypot>>(|_, x, _| (x[0] * x[0] + x[1] * x[1]).sqrt())],
        cases: || {
            let of = |name: &str, dtype| {
                Case::new(name, |_, x| hypot(x[0], x[1]))
                    .away_from_zero("x", "p:4;q:6", dtype)
                    .normal("y", "q:6", dtype)
                    .meshes(FEW)
            };
            vec![of("hypot", F32), of("hypot: f64", F64), of("hypot: bf16", BF16)]
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    fn off(a: Vec<f32>, b: Vec<f32>) -> (f64, Vec<f32>) {
        worst(&[a, b], |x| hypot(x[0], x[1]), |x| x[0].hypot(x[1])).unwrap()
    }

    #[test]
    fn hypot_is_exact_at_every_size() {
        let a: Vec<_> = floats().filter(|x| x.abs() >= f32::MIN_POSITIVE).collect();
        // Beside one of any other size, and beside one of its own.
        let mut b = a.clone();
        b.rotate_left(a.len() / 3);
        let near = a.iter().zip((1..200).cycle()).map(|(x, i)| x * 0.01 * i as f32).collect();
        for b in [b, near] {
            let (off, at) = off(a.clone(), b);
            assert!(off <= 2.0, "{off} ulp off at {at:?}");
        }
    }

    #[test]
    fn hypot_at_its_ends() {
        let inf = f32::INFINITY;
        let (a, b) = (vec![0.0, -0.0, inf, -inf, inf, 3e38], vec![0.0, 3.0, 1.0, inf, inf, 3e38]);
        assert_eq!(off(a, b).0, 0.0);
        let nan = worst(&[vec![f32::NAN], vec![1.0]], |x| hypot(x[0], x[1]), |_| 0.0).unwrap();
        assert!(nan.0.is_nan());
    }

    #[test]
    fn the_gradient_of_hypot_neither_overflows_nor_divides_by_0() {
        fn slope<'g>(x: &[Tensor<'g>]) -> Tensor<'g> {
            x[0].graph().gradients(&[hypot(x[0], x[1])], x, None)[0].unwrap()
        }
        let exact = |x: &[f64]| if x[0] == 0.0 { 0.0 } else { x[0] / x[0].hypot(x[1]) };
        let (a, b) = (vec![0.0, -0.0, 3e30, 4e-30, -5.0], vec![0.0, 2.0, 4e30, 3e-30, 12.0]);
        let (off, at) = worst(&[a, b], slope, exact).unwrap();
        assert!(off <= 2.0, "{off} ulp off at {at:?}");
    }
}
