//! What a [`Step::Generate`](super::Step::Generate) makes.

use super::Scalar;
use crate::array::Array;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a generated value's elements come from. Positions are global, so slices agree under every
/// layout.
///
/// Random numbers are Philox4x32-10 with the element's position in declared order as counter. The
/// block's key is made of the session's seed, the generator's key, and the step's salts. StableHLO
/// spells them as integer arithmetic on iotas.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Generator {
    /// Every element the same.
    Fill(Scalar),
    /// The global index along one dim.
    Iota(u8),
    /// A slice of data known when the program was made; global shape.
    Table(#[serde(with = "table")] Arc<Array>),
    /// Uniform in `[low, high)`; of i32, every whole number there.
    Uniform {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Least value.
        low: f64,
        /// Bound above.
        high: f64,
    },
    /// Normal, by inverse CDF.
    Normal {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stddev: f64,
    },
    /// Normal, cut at two standard deviations, by inverse CDF.
    TruncatedNormal {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Mean before cutting.
        mean: f64,
        /// Standard deviation before cutting.
        stddev: f64,
    },
}

impl Generator {
    /// The key of random numbers; `None` where nothing is random.
    pub fn key(&self) -> Option<u64> {
        match *self {
            Self::Fill(_) | Self::Iota(_) | Self::Table(_) => None,
            Self::Uniform { key, .. }
            | Self::Normal { key, .. }
            | Self::TruncatedNormal { key, .. } => Some(key),
        }
    }
}

/// A table in a file: its dtype, its sizes, its bytes as hexadecimal digits.
mod table {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    use crate::array::Array;
    use crate::names::DType;

    pub(super) fn serialize<S: Serializer>(table: &Arc<Array>, to: S) -> Result<S::Ok, S::Error> {
        let begin = vec![0; table.shape().len()];
        let bytes = table.view().part_bytes(&begin, table.shape());
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (table.dtype(), table.shape(), digits).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Array>, D::Error> {
        let (dtype, shape, digits) = <(DType, Vec<usize>, String)>::deserialize(from)?;
        let elements = shape.iter().try_fold(dtype.size(), |bytes, size| bytes.checked_mul(*size));
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes = pairs.map(byte).collect::<Option<Vec<u8>>>();
        let bytes = bytes.filter(|bytes| Some(bytes.len()) == elements);
        let bytes = bytes.ok_or_else(|| {
            D::Error::custom(format!("the digits of a table are not those of {dtype}{shape:?}"))
        })?;
        let mut table = Array::zeros(dtype, &shape);
        table.set_part(&vec![0; shape.len()], &shape, &bytes);
        Ok(Arc::new(table))
    }
}
