//! The types of elements that files have, and the arrays that are made of them.

use half::{bf16, f16};
use mesh_core::array::Array;
use mesh_core::names::DType;
use ndarray::ArrayD;

/// The type of the elements of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
    Bool,
}

/// An element that no dtype of an array can hold: its position, and it as text.
pub(super) struct Unheld {
    pub(super) position: usize,
    pub(super) value: String,
}

impl Element {
    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The dtype of the arrays that are read: of integers i32, of f16 f32.
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F16 | Self::F32 => DType::F32,
            Self::F64 => DType::F64,
            Self::BF16 => DType::BF16,
            Self::Bool => DType::Bool,
            _ => DType::I32,
        }
    }

    /// The elements in `bytes`, as an array of this shape. `big` says whether the first byte of an
    /// element is its highest.
    pub(super) fn array(self, bytes: &[u8], big: bool, shape: &[usize]) -> Result<Array, Unheld> {
        match self {
            Self::U8 => integers(bytes, big, shape, |[byte]: [u8; 1]| i64::from(byte)),
            Self::I8 => integers(bytes, big, shape, |b| i64::from(i8::from_le_bytes(b))),
            Self::U16 => integers(bytes, big, shape, |b| i64::from(u16::from_le_bytes(b))),
            Self::I16 => integers(bytes, big, shape, |b| i64::from(i16::from_le_bytes(b))),
            Self::U32 => integers(bytes, big, shape, |b| i64::from(u32::from_le_bytes(b))),
            Self::I32 => integers(bytes, big, shape, |b| i64::from(i32::from_le_bytes(b))),
            Self::U64 => integers(bytes, big, shape, u64::from_le_bytes),
            Self::I64 => integers(bytes, big, shape, i64::from_le_bytes),
            Self::F16 => {
                shaped(each(bytes, big, |b| f16::from_le_bytes(b).to_f32()).collect(), shape)
            }
            Self::BF16 => shaped(each(bytes, big, bf16::from_le_bytes).collect(), shape),
            Self::F32 => shaped(each(bytes, big, f32::from_le_bytes).collect(), shape),
            Self::F64 => shaped(each(bytes, big, f64::from_le_bytes).collect(), shape),
            Self::Bool => {
                let truth = |(position, byte): (usize, &u8)| match byte {
                    0 => Ok(false),
                    1 => Ok(true),
                    other => {
                        Err(Unheld { position, value: format!("the byte {other}, not 0 or 1,") })
                    }
                };
                shaped(bytes.iter().enumerate().map(truth).collect::<Result<_, _>>()?, shape)
            }
        }
    }
}

/// The elements, each from its bytes in little-endian order.
fn each<T, const W: usize>(
    bytes: &[u8],
    big: bool,
    number: impl Fn([u8; W]) -> T,
) -> impl Iterator<Item = T> {
    bytes.as_chunks::<W>().0.iter().map(move |element| {
        let mut element = *element;
        if big {
            element.reverse();
        }
        number(element)
    })
}

fn integers<T: Copy + TryInto<i32> + ToString, const W: usize>(
    bytes: &[u8],
    big: bool,
    shape: &[usize],
    number: impl Fn([u8; W]) -> T,
) -> Result<Array, Unheld> {
    let held = |(position, number): (usize, T)| {
        number.try_into().map_err(|_| Unheld { position, value: number.to_string() })
    };
    let numbers = each(bytes, big, number).enumerate().map(held);
    shaped(numbers.collect::<Result<Vec<i32>, _>>()?, shape)
}

/// `elements` are as many as the shape has.
fn shaped<T>(elements: Vec<T>, shape: &[usize]) -> Result<Array, Unheld>
where
    ArrayD<T>: Into<Array>,
{
    let count = elements.len();
    let array = ArrayD::from_shape_vec(shape, elements);
    array
        .map(Into::into)
        .map_err(|_| Unheld { position: count, value: "the end of the elements".to_owned() })
}
