//! The head of a safetensors file: which tensors there are, and where.

use std::cmp::Reverse;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{CheckpointError, Result};
use crate::lower::VariableSpec;
use crate::names::DType;

/// Bytes of the number that says how long the header is.
pub(super) const LENGTH: usize = 8;

/// The longest header that readers of safetensors take.
pub(super) const LONGEST: usize = 100_000_000;

/// The one name that means something else in a header.
const RESERVED: &str = "__metadata__";

/// Where a tensor lies.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// The first byte, counted from the end of the header.
    pub(super) begin: usize,
    pub(super) bytes: usize,
}

/// How files call a dtype.
fn stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::Bool => Dtype::BOOL,
    }
}

/// The dtype that files call so.
fn read(dtype: Dtype) -> Option<DType> {
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool];
    dtypes.into_iter().find(|known| stored(*known) == dtype)
}

/// Where variables go: as safetensors' own writer has them, by falling alignment, then name; so
/// numbers are aligned, and files do not depend on the order of declaration. Gives their numbers in
/// that order.
pub(super) fn arrange<'v>(
    variables: impl Iterator<Item = &'v VariableSpec>,
) -> Result<(Vec<usize>, Vec<Place>)> {
    let mut order: Vec<_> = variables.enumerate().collect();
    order.sort_by_key(|(_, variable)| (Reverse(stored(variable.dtype)), &variable.name));
    let mut begin = 0_usize;
    let mut places = Vec::new();
    for (_, variable) in &order {
        let refuse = |problem: &str| {
            let (name, problem) = (variable.name.clone(), problem.to_owned());
            Err(CheckpointError::Variable { name, problem })
        };
        if variable.name == RESERVED {
            return refuse("the name means something else in safetensors files");
        }
        let bytes = variable.shape.size().checked_mul(variable.dtype.size());
        let Some((bytes, end)) = bytes.and_then(|b| Some((b, begin.checked_add(b)?))) else {
            return refuse("it is too large");
        };
        let (name, dtype) = (variable.name.clone(), variable.dtype);
        places.push(Place { name, dtype, shape: variable.shape.sizes(), begin, bytes });
        begin = end;
    }
    Ok((order.into_iter().map(|(index, _)| index).collect(), places))
}

/// The header of a file with these tensors, its length before it, filled up so that data are
/// aligned.
pub(super) fn write(places: &[Place]) -> Result<Vec<u8>, String> {
    let info = |place: &Place| {
        let data_offsets = (place.begin, place.begin + place.bytes);
        let info =
            TensorInfo { dtype: stored(place.dtype), shape: place.shape.clone(), data_offsets };
        (place.name.clone(), info)
    };
    let metadata = Metadata::new(None, places.iter().map(info).collect());
    let metadata = metadata.map_err(|error| error.to_string())?;
    let mut text = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    text.resize(text.len().next_multiple_of(LENGTH), b' ');
    if text.len() > LONGEST {
        return Err(format!("{} bytes of names are more than readers take", text.len()));
    }
    let length = (text.len() as u64).to_le_bytes();
    Ok([&length[..], &text].concat())
}

/// The tensors of a header without its length, in the order in which they lie. They lie one after
/// the other, and each has the bytes that its shape needs.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Place>, String> {
    let metadata: Metadata = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let place = |name: String| {
        let info = metadata.info(&name).ok_or("a tensor is lost")?;
        let dtype = read(info.dtype);
        let dtype = dtype.ok_or_else(|| format!("`{name}` is of dtype {}", info.dtype))?;
        let (begin, end) = info.data_offsets;
        Ok(Place { name, dtype, shape: info.shape.clone(), begin, bytes: end - begin })
    };
    metadata.offset_keys().into_iter().map(place).collect()
}

/// Bytes of all tensors.
pub(super) fn data_bytes(places: &[Place]) -> usize {
    places.last().map_or(0, |place| place.begin + place.bytes)
}
