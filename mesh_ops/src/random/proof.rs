//! Random numbers from their definitions: Philox4x32-10 by the book, normals by solving for the
//! quantile; and their cases.

use super::*;
use crate::testing::SEED;
use crate::testing::proof::*;
use mesh_core::names::stable_hash;
use std::f64::consts::{PI, SQRT_2};

pub(crate) static PROOF: Proof = Proof {
    meanings: &[&Outputs::<Random>(|op, rounds, types| vec![numbers(op, rounds, &types[0])])],
    cases: || {
        vec![
            alone("random_uniform", |g| random_uniform(g, [p(), q()], 0.0, 1.0, F32)),
            alone("random_integer", |g| random_integer(g, [p(), q()], 0, 9)),
            alone("random_normal", |g| random_normal(g, [p(), q()], 0.0, 1.0, F32)),
            alone("random_truncated_normal", |g| {
                random_truncated_normal(g, [p(), q()], 0.0, 1.0, F32)
            }),
            case("uniform", F32, |g| random_uniform(g, [p(), q()], -1.0, 3.0, F32)),
            case("uniform: f64", F64, |g| random_uniform(g, [q(), p()], 0.0, 1.0, F64)).meshes(FEW),
            case("uniform: bf16", BF16, |g| random_uniform(g, [q()], 0.0, 1.0, BF16)).meshes(FEW),
            case("integers", I32, |g| random_integer(g, [p(), q()], -3, 4)).meshes(FEW),
            case("normal", F32, |g| random_normal(g, [p(), q()], 1.0, 2.0, F32)).meshes(FEW),
            case("normal: f64", F64, |g| random_normal(g, [q()], 0.0, 1.0, F64)).meshes(FEW),
            case("truncated normal", F32, |g| {
                random_truncated_normal(g, [p(), q()], 0.0, 0.5, F32)
            })
            .meshes(FEW),
            case("a scalar", F32, |g| random_normal(g, [], 0.0, 1.0, F32)).meshes(FEW),
            case("two of a kind", F32, |g| {
                random_uniform(g, [q()], 0.0, 1.0, F32) - random_uniform(g, [q()], 0.0, 1.0, F32)
            })
            .meshes(FEW),
        ]
    },
};

type Source = for<'g> fn(&'g Graph) -> Tensor<'g>;

fn alone(name: &str, source: Source) -> Case {
    Case::new(name, move |g, _| source(g)).meshes(FEW)
}

/// Every layout draws the numbers of the definition.
fn case(name: &str, dtype: DType, source: Source) -> Case {
    Case::new(name, move |g, x| source(g) + x[0]).input("x", "p:8", dtype, Fill::Integers(0, 0))
}

/// The numbers of a graph's first `random_uniform` when nothing has been trained.
pub(super) fn uniform(low: f64, high: f64, ty: &TensorType) -> Dense {
    let key = stable_hash("random_uniform");
    let (low, high) = (number(low), number(high));
    let op = Random { key, distribution: Distribution::Uniform { low, high }, ty: ty.clone() };
    let step = Dense::zeros(TensorType::new(Shape::scalar(), DType::I32));
    numbers(&op, &[&step], ty)
}

/// The uniform numbers of f32 below 1 that an op of this key draws at these rounds.
pub(crate) fn noise(key: u64, rounds: &[&Dense], shape: Shape) -> Dense {
    let (low, high) = (number(0.0), number(1.0));
    let ty = TensorType::new(shape, DType::F32);
    let op = Random { key, distribution: Distribution::Uniform { low, high }, ty: ty.clone() };
    numbers(&op, rounds, &ty)
}

/// The numbers of an op at these rounds, rounded to their dtype: they are what others start from.
fn numbers(op: &Random, rounds: &[&Dense], ty: &TensorType) -> Dense {
    let mut key = mix(SEED.wrapping_add(mix(op.key)));
    for round in rounds {
        let salt = round.data[0] as i32 as u32;
        key = mix(key.wrapping_add(mix(u64::from(salt))));
    }
    let number = |position| Scalar::new(ty.dtype, drawn(op, bits(key, position), ty.dtype)).value();
    Dense { ty: ty.clone(), data: (0..ty.shape.size() as u64).map(number).collect() }
}

fn drawn(op: &Random, bits: u64, dtype: DType) -> f64 {
    // The upper `count` bits as a binary fraction.
    let fraction = |count: u32| (bits >> (64 - count)) as f64 * 2.0_f64.powi(-(count as i32));
    let middle = fraction(52) + 2.0_f64.powi(-53);
    match op.distribution {
        Distribution::Uniform { low, high } => {
            let narrow = matches!(dtype, DType::F32 | DType::BF16);
            let x =
                low.value() + fraction(if narrow { 24 } else { 53 }) * (high.value() - low.value());
            if dtype == DType::I32 { x.floor() } else { x }
        }
        Distribution::Normal { mean, stddev } => mean.value() + stddev.value() * quantile(middle),
        Distribution::TruncatedNormal { mean, stddev } => {
            let inside = below(2.0) - below(-2.0);
            mean.value() + stddev.value() * quantile(below(-2.0) + middle * inside)
        }
    }
}

/// SplitMix64's output function of its next state.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Two words of the Philox block of a position, the first on top.
fn bits(key: u64, position: u64) -> u64 {
    const HALF: u64 = 1 << 32;
    let (mut left, mut right) = (key % HALF, key / HALF);
    let mut block = [position % HALF, position / HALF, 0, 0];
    for _ in 0..10 {
        let (first, second) = (block[0] * 0xd251_1f53, block[2] * 0xcd9e_8d57);
        block = [
            (second / HALF) ^ block[1] ^ left,
            second % HALF,
            (first / HALF) ^ block[3] ^ right,
            first % HALF,
        ];
        left = (left + 0x9e37_79b9) % HALF;
        right = (right + 0xbb67_ae85) % HALF;
    }
    block[0] * HALF + block[1]
}

fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (SQRT_2 * PI.sqrt())
}

/// Probability that a standard normal variable is below `x`: 1/2 and the density times
/// `x + x^3/3 + x^5/(3*5) + …`. Beyond 9 deviations less than 2^-60 is left.
pub(crate) fn below(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 9.0 {
        return 0.5 + x.signum() / 2.0;
    }
    let (mut term, mut sum, mut odd) = (x, 0.0, 1.0);
    while sum + term != sum {
        sum += term;
        odd += 2.0;
        term *= x * x / odd;
    }
    0.5 + density(x) * sum
}

/// Newton's method; from 0 it never passes the quantile.
fn quantile(p: f64) -> f64 {
    let mut x = 0.0;
    for _ in 0..100 {
        let step = (below(x) - p) / density(x);
        x -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known() {
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-13);
        assert!((quantile(0.001) + 3.090_232_306_167_813_5).abs() < 1e-12);
        assert!((below(-2.0) - 0.022_750_131_948_179_21).abs() < 1e-15);
        assert_eq!([below(-100.0), below(100.0)], [0.0, 1.0]);
    }

    /// Known answers of Random123 for the counter and key of zeros.
    #[test]
    fn philox_is_known() {
        assert_eq!(bits(0, 0), 0x6627_e8d5_e169_c58d);
    }
}
