//! Element types.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use super::error::NameError;

/// The type of a tensor's elements.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// 32-bit float.
    #[default]
    F32,
    /// 64-bit float.
    F64,
    /// bfloat16: the upper half of an [`DType::F32`].
    BF16,
    /// 32-bit signed integer.
    I32,
    /// Boolean.
    Bool,
}

impl DType {
    const ALL: [DType; 5] = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool];

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::BF16 => 2,
            DType::Bool => 1,
        }
    }

    /// Whether it is a float type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::BF16)
    }

    /// The largest finite number of the type.
    pub fn largest(self) -> f64 {
        match self {
            DType::F64 => f64::MAX,
            DType::F32 => f64::from(f32::MAX),
            DType::BF16 => half::bf16::MAX.to_f64(),
            DType::I32 => f64::from(i32::MAX),
            DType::Bool => 1.0,
        }
    }

    /// The dtype in which partial sums are held: `F32` for `BF16`, otherwise the dtype itself.
    pub fn reduction(self) -> DType {
        match self {
            DType::BF16 => DType::F32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::Bool => "bool",
        })
    }
}

impl FromStr for DType {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let named = Self::ALL.into_iter().find(|dtype| dtype.to_string() == text);
        named.ok_or_else(|| NameError::UnknownDType { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert_eq!(
            "f16".parse::<DType>().unwrap_err().to_string(),
            "there is no dtype `f16`: the dtypes are f32, f64, bf16, i32 and bool"
        );
    }

    #[test]
    fn sums_of_bf16_are_held_in_f32() {
        let held: Vec<_> = DType::ALL.iter().map(|dtype| dtype.reduction().size()).collect();
        assert_eq!(held, [4, 8, 4, 4, 1]);
        assert!(DType::BF16.is_float() && !DType::I32.is_float() && !DType::Bool.is_float());
    }
}
