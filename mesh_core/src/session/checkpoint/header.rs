//! The header of a safetensors file: the tensors' names, types and places.

use std::cmp::Reverse;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{CheckpointError, Result};
use crate::lower::VariableSpec;
use crate::names::DType;

/// The bytes of the number before the header, which is the header's length.
pub(super) const LENGTH: usize = 8;

/// The longest header that other readers of safetensors accept.
pub(super) const LONGEST: usize = 100_000_000;

/// The name in a header that is not a tensor's.
const RESERVED: &str = "__metadata__";

/// A tensor's place in the file.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// The position of its first byte after the header.
    pub(super) begin: usize,
    pub(super) bytes: usize,
}

/// The safetensors name of a dtype.
fn stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::Bool => Dtype::BOOL,
    }
}

/// The dtype with a safetensors name.
fn read(dtype: Dtype) -> Option<DType> {
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool];
    dtypes.into_iter().find(|known| stored(*known) == dtype)
}

/// The variables' indices in the order of the file, which is that of safetensors' own writer: by
/// decreasing alignment, then by name. So numbers are aligned, and files do not depend on the order
/// of declaration.
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

/// The header of a file with these tensors, preceded by its length and padded so that the data are
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

/// Reads a header without its length. The tensors are returned in the order of their bytes, which
/// must follow each other and be as many as the shapes need.
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

/// The bytes of all tensors.
pub(super) fn data_bytes(places: &[Place]) -> usize {
    places.last().map_or(0, |place| place.begin + place.bytes)
}
