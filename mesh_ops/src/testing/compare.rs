//! Whether two lists of elements agree.

use mesh_core::names::DType;

/// How far two results may lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// Not even by the sign of a zero; NaN is NaN.
    Bits,
    /// Not at all; zeros are equal.
    Exact,
    /// By this fraction of the greatest element, or of 1 if all are smaller.
    Within(f64),
}

impl Tolerance {
    /// So many times as wide.
    pub(super) fn times(self, factor: f64) -> Self {
        match self {
            Self::Within(fraction) => Self::Within(fraction * factor),
            exact => exact,
        }
    }

    /// The wider of two.
    pub(super) fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bits, wider) | (wider, Self::Bits) => wider,
            (Self::Exact, wider) | (wider, Self::Exact) => wider,
            (Self::Within(a), Self::Within(b)) => Self::Within(a.max(b)),
        }
    }

    /// What roundings add up to: a checked graph sums at most some 2^7 terms and rounds after each
    /// of its few ops, so 2^9 roundings; bf16 sums in f32 and rounds only after each op, 2^4 times.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::Within(512.0 * f64::from(f32::EPSILON)),
            DType::F64 => Self::Within(512.0 * f64::EPSILON),
            DType::BF16 => Self::Within(1.0 / 16.0),
            DType::I32 | DType::Bool => Self::Exact,
        }
    }
}

/// Whether two lists of elements agree; else what differs first.
///
/// # Errors
/// What differs first.
///
/// ```
/// use mesh_ops::testing::{Tolerance, compare};
/// assert!(compare([1.0], &[1.5], Tolerance::Within(0.25)).is_err());
/// assert!(compare([1.0], &[1.5], Tolerance::Within(0.5)).is_ok());
/// ```
pub fn compare(
    got: impl IntoIterator<Item = f64>,
    want: &[f64],
    tolerance: Tolerance,
) -> Result<(), String> {
    let got: Vec<_> = got.into_iter().collect();
    if got.len() != want.len() {
        return Err(format!("{} elements instead of {}", got.len(), want.len()));
    }
    let scale = want.iter().filter(|x| x.is_finite()).fold(1.0, |most: f64, x| most.max(x.abs()));
    let same = |got: f64, want: f64| {
        let near = match tolerance {
            Tolerance::Bits => got.to_bits() == want.to_bits(),
            Tolerance::Exact => got == want,
            Tolerance::Within(fraction) => got == want || (got - want).abs() <= fraction * scale,
        };
        near || (got.is_nan() && want.is_nan())
    };
    match (0..got.len()).find(|&i| !same(got[i], want[i])) {
        None => Ok(()),
        Some(i) => Err(format!("element {i} is {}, not {} ({tolerance:?})", got[i], want[i])),
    }
}
