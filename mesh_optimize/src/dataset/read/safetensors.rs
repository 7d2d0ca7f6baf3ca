//! Files of the safetensors format: the length of the header, the header as JSON, then the elements of
//! all tensors.

use super::array_file::{ArrayFile, Stored};
use super::bytes::{Input, ReadAt};
use super::element::Element;
use super::{ReadError, Result};
use ::safetensors::Dtype;
use ::safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the number before the header, which is the header's length.
const LENGTH: u64 = 8;
/// The longest header that other readers of safetensors accept.
const LONGEST: u64 = 100_000_000;

/// The arrays of a safetensors file by their names. They are not read until examples are asked for.
///
/// ```
/// use mesh_optimize::dataset::read::{self, Input};
///
/// let header = r#"{"x":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}}"#;
/// let mut file = (header.len() as u64).to_le_bytes().to_vec();
/// file.extend(header.bytes());
/// file.extend([4_i64, 5, 6].iter().flat_map(|x| x.to_le_bytes()));
/// let arrays = read::safetensors(Input::of_bytes("a.safetensors", file))?;
/// assert_eq!(arrays["x"].read(&[2, 0])?, ndarray::arr1(&[6, 4]).into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, is no such file, is shorter or longer than its header declares, or has
/// elements of less than a byte, or of a type that is none of numpy's.
pub fn safetensors(file: impl Into<Input>) -> Result<BTreeMap<String, ArrayFile>> {
    let (file, bytes) = file.into().open()?;
    let bytes: Arc<dyn ReadAt> = bytes.into();
    let failed = |source| ReadError::Io { file: file.clone(), source };
    let found = bytes.size().map_err(failed)?;
    if found < LENGTH {
        return Err(ReadError::size(&file, LENGTH, found));
    }
    let mut length = [0; LENGTH as usize];
    bytes.read_exact_at(0, &mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        let problem = format!(
            "it is no safetensors file: a header of {length} bytes, legal are up to {LONGEST}"
        );
        return Err(ReadError::content(&file, "byte 0", problem));
    }
    let begin = LENGTH + length;
    if found < begin {
        return Err(ReadError::size(&file, begin, found));
    }
    let mut header = vec![0; length as usize];
    bytes.read_exact_at(LENGTH, &mut header).map_err(failed)?;
    let refused = |problem: String| ReadError::content(&file, format!("byte {LENGTH}"), problem);
    // Reading the header checks that the tensors lie side by side and have the sizes of their shapes.
    let header: Metadata = serde_json::from_slice(&header)
        .map_err(|error| refused(format!("its header is none of a safetensors file: {error}")))?;
    let whole = begin.saturating_add(header.data_len() as u64);
    if found != whole {
        return Err(ReadError::size(&file, whole, found));
    }
    let mut arrays = BTreeMap::new();
    for (name, info) in header.tensors() {
        let element = element(info.dtype).ok_or_else(|| {
            let of = info.dtype;
            refused(format!(
                "`{name}` is of {of}; legal are BOOL, U8 to U64, I8 to I64, F16, BF16, F32 and F64"
            ))
        })?;
        let stored = Stored {
            file: file.clone(),
            name: Some(name.clone()),
            bytes: bytes.clone(),
            offset: begin + info.data_offsets.0 as u64,
            element,
            big: false,
            shape: info.shape.clone(),
        };
        arrays.insert(name, ArrayFile::new(stored));
    }
    Ok(arrays)
}

fn element(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::BOOL => Element::Bool,
        Dtype::U8 => Element::U8,
        Dtype::I8 => Element::I8,
        Dtype::U16 => Element::U16,
        Dtype::I16 => Element::I16,
        Dtype::U32 => Element::U32,
        Dtype::I32 => Element::I32,
        Dtype::U64 => Element::U64,
        Dtype::I64 => Element::I64,
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::BF16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        _ => return None,
    })
}
