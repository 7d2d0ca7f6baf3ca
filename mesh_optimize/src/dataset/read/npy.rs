//! Files of numpy's `np.save` (NEP 1): a magic number, a version, the length of the header, the header
//! (a Python dictionary as text), then the elements.

use super::array_file::{ArrayFile, Stored};
use super::bytes::Input;
use super::element::Element;
use super::{ReadError, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The longest header that is read.
const LONGEST: u64 = 1 << 16;

/// The array in a file that numpy's `np.save` has written. It is not read until examples are asked for.
///
/// ```
/// use mesh_optimize::dataset::read::{self, Input};
///
/// let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
/// let mut file = b"\x93NUMPY\x01\x00".to_vec();
/// file.extend((header.len() as u16).to_le_bytes());
/// file.extend(header.bytes());
/// file.extend([1.5_f32, 2.5].iter().flat_map(|x| x.to_le_bytes()));
/// let array = read::npy(Input::of_bytes("x.npy", file))?;
/// assert_eq!(array.whole()?, ndarray::arr2(&[[1.5_f32], [2.5]]).into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, is no such file, is shorter or longer than its header declares, or has
/// elements that are no numbers, or dims in Fortran's order.
pub fn npy(file: impl Into<Input>) -> Result<ArrayFile> {
    let (file, bytes) = file.into().open()?;
    let failed = |source| ReadError::Io { file: file.clone(), source };
    let found = bytes.size().map_err(failed)?;
    let part = |at: u64, size: u64| {
        if found < at + size {
            return Err(ReadError::size(&file, at + size, found));
        }
        let mut part = vec![0; size as usize];
        bytes.read_exact_at(at, &mut part).map_err(failed).map(|()| part)
    };
    let start = part(0, 10)?;
    if !start.starts_with(MAGIC) {
        let problem = "it is no file of np.save: it does not begin with \\x93NUMPY";
        return Err(ReadError::content(&file, "byte 0", problem));
    }
    let (begin, length) = match start[6] {
        1 => (10, u64::from(u16::from_le_bytes([start[8], start[9]]))),
        2 | 3 => {
            let length = part(8, 4)?;
            (12, length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte)))
        }
        version => {
            let problem = format!("its version is {version}, legal are 1, 2 and 3");
            return Err(ReadError::content(&file, "byte 6", problem));
        }
    };
    if length > LONGEST {
        let problem = format!("a header of {length} bytes: legal are up to {LONGEST}");
        return Err(ReadError::content(&file, "byte 8", problem));
    }
    let header = part(begin, length)?;
    let Header { element, big, shape } = header_of(&String::from_utf8_lossy(&header))
        .map_err(|problem| ReadError::content(&file, format!("byte {begin}"), problem))?;
    let offset = begin + length;
    let whole = Stored::size(element, &shape).and_then(|size| size.checked_add(offset));
    let Some(whole) = whole else {
        let problem = format!("an array of {shape:?} has more bytes than a file can have");
        return Err(ReadError::content(&file, format!("byte {begin}"), problem));
    };
    if found != whole {
        return Err(ReadError::size(&file, whole, found));
    }
    let bytes = bytes.into();
    Ok(ArrayFile::new(Stored { file, name: None, bytes, offset, element, big, shape }))
}

/// What a header says.
struct Header {
    element: Element,
    big: bool,
    shape: Vec<usize>,
}

fn header_of(text: &str) -> Result<Header, String> {
    let value = |key: &str| {
        let found = text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
        found.ok_or_else(|| format!("the header has no '{key}': {}", text.trim()))
    };
    let descr = value("descr")?;
    let name = descr.strip_prefix('\'').and_then(|rest| Some(rest.split_once('\'')?.0));
    let name = name.ok_or_else(|| format!("arrays of records are not read: {}", text.trim()))?;
    let (big, element) = element(name)?;
    if !value("fortran_order")?.starts_with("False") {
        return Err("its dims are in Fortran's order: save np.ascontiguousarray(x)".to_owned());
    }
    let shape = value("shape")?.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.0));
    let sizes = shape.unwrap_or("?").split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape = sizes.map(|size| {
        size.parse().map_err(|_| format!("{size:?} is no size of a dim: {}", text.trim()))
    });
    Ok(Header { element, big, shape: shape.collect::<Result<_, String>>()? })
}

/// The element type of a dtype's name, such as `<f4`, and whether its highest byte comes first.
fn element(name: &str) -> Result<(bool, Element), String> {
    let kind = name.trim_start_matches(['<', '>', '|', '=']);
    let element = match kind {
        "u1" => Element::U8,
        "i1" => Element::I8,
        "u2" => Element::U16,
        "i2" => Element::I16,
        "u4" => Element::U32,
        "i4" => Element::I32,
        "u8" => Element::U64,
        "i8" => Element::I64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        "b1" => Element::Bool,
        _ => {
            return Err(format!(
                "its elements are {name:?}; legal are b1, u1 to u8, i1 to i8, f2, f4 and f8"
            ));
        }
    };
    Ok((name.starts_with('>'), element))
}
