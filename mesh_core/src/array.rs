//! Arrays that users feed and fetch, over ndarray.

mod integers;

use half::bf16;
use std::ops::Range;

use ndarray::{ArrayD, ArrayViewD, IxDyn, Slice};

pub(crate) use self::integers::Unheld;
pub use self::integers::{Integer, IntegerError, Integers};
use crate::names::DType;

/// An array of any dtype.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// 32-bit floats.
    F32(ArrayD<f32>),
    /// 64-bit floats.
    F64(ArrayD<f64>),
    /// bf16 floats.
    BF16(ArrayD<bf16>),
    /// 32-bit integers.
    I32(ArrayD<i32>),
    /// Booleans.
    Bool(ArrayD<bool>),
}

/// A borrowed array of any dtype, with any strides, or one of other integers that a session converts.
///
/// ```
/// use mesh_core::array::ArrayRef;
/// use mesh_core::names::DType;
/// let (images, labels) = (ndarray::Array2::<f32>::zeros((4, 3)), ndarray::Array1::<u8>::zeros(4));
/// let feeds: [ArrayRef; 2] = [(&images).into(), (&labels).into()];
/// assert_eq!(feeds.map(|feed| feed.dtype()), [Some(DType::F32), None]);
/// ```
#[derive(Clone, Debug)]
pub enum ArrayRef<'a> {
    /// 32-bit floats.
    F32(ArrayViewD<'a, f32>),
    /// 64-bit floats.
    F64(ArrayViewD<'a, f64>),
    /// bf16 floats.
    BF16(ArrayViewD<'a, bf16>),
    /// 32-bit integers.
    I32(ArrayViewD<'a, i32>),
    /// Booleans.
    Bool(ArrayViewD<'a, bool>),
    /// Integers of a type that no dtype is.
    Integers(Integers<'a>),
}

/// What the elements of an array that is fed may be.
#[diagnostic::on_unimplemented(
    message = "an array of `{Self}` cannot be fed",
    label = "no tensor has elements of this type",
    note = "arrays of f32, f64, bf16, bool and integers can; `array.mapv(…)` converts others"
)]
pub trait Element: Copy + 'static {
    /// A view as a feed.
    fn array_ref(view: ArrayViewD<'_, Self>) -> ArrayRef<'_>;
}

/// Evaluates one expression on an array of any dtype.
macro_rules! each {
    ($type:ident, $value:expr, $array:ident => $result:expr) => {
        match $value {
            $type::F32($array) => $result,
            $type::F64($array) => $result,
            $type::BF16($array) => $result,
            $type::I32($array) => $result,
            $type::Bool($array) => $result,
        }
    };
}

impl Array {
    /// Zeros, or `false`, of a dtype.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        let shape = IxDyn(shape);
        match dtype {
            DType::F32 => Array::F32(ArrayD::zeros(shape)),
            DType::F64 => Array::F64(ArrayD::zeros(shape)),
            DType::BF16 => Array::BF16(ArrayD::from_elem(shape, bf16::ZERO)),
            DType::I32 => Array::I32(ArrayD::zeros(shape)),
            DType::Bool => Array::Bool(ArrayD::from_elem(shape, false)),
        }
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Array::F32(_) => DType::F32,
            Array::F64(_) => DType::F64,
            Array::BF16(_) => DType::BF16,
            Array::I32(_) => DType::I32,
            Array::Bool(_) => DType::Bool,
        }
    }

    /// The sizes of the dims.
    pub fn shape(&self) -> &[usize] {
        each!(Array, self, array => array.shape())
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        each!(Array, self, array => array.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A borrowed view of the array.
    pub fn view(&self) -> ArrayRef<'_> {
        each!(Array, self, array => ArrayRef::from(array))
    }

    /// Every element as f64; `true` becomes 1.
    pub fn to_f64(&self) -> ArrayD<f64> {
        match self {
            Array::F32(array) => array.mapv(f64::from),
            Array::F64(array) => array.clone(),
            Array::BF16(array) => array.mapv(f64::from),
            Array::I32(array) => array.mapv(f64::from),
            Array::Bool(array) => array.mapv(f64::from),
        }
    }

    /// Numbers as elements of a dtype, rounded (see [`Scalar::new`](crate::program::Scalar::new)), in
    /// declared order.
    pub(crate) fn from_f64(dtype: DType, numbers: &ArrayD<f64>) -> Self {
        match dtype {
            DType::F32 => numbers.mapv(|x| x as f32).into(),
            DType::F64 => numbers.clone().into(),
            DType::BF16 => numbers.mapv(bf16::from_f64).into(),
            DType::I32 => numbers.mapv(|x| x as i32).into(),
            DType::Bool => numbers.mapv(|x| x != 0.0).into(),
        }
    }

    /// The only element as f64; `None` for an array of several elements or none.
    pub fn item(&self) -> Option<f64> {
        if self.len() == 1 { self.to_f64().first().copied() } else { None }
    }
}

/// Bytes of an element, in which truth values are 0 and 1.
trait Bytes: Copy {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    /// To as many bytes as an element has.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! element_bytes {
    ($($element:ty: $size:literal),*) => {
        $(impl Bytes for $element {
            const SIZE: usize = $size;

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; $size];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

element_bytes!(f32: 4, f64: 8, bf16: 2, i32: 4);

impl Bytes for bool {
    const SIZE: usize = 1;

    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.into();
    }
}

impl Array {
    /// Sets the part that begins at these indices and has these extents to elements in declared order,
    /// little-endian. Does nothing unless the part lies within the array and has as many bytes.
    pub(crate) fn set_part(&mut self, begin: &[usize], extents: &[usize], bytes: &[u8]) {
        fn set<T: Bytes>(array: &mut ArrayD<T>, part: &[Range<usize>], bytes: &[u8]) {
            let mut part = array.slice_each_axis_mut(|axis| Slice::from(part[axis.axis.0].clone()));
            if part.len() * T::SIZE == bytes.len() {
                let elements = bytes.chunks_exact(T::SIZE).map(T::read);
                part.iter_mut().zip(elements).for_each(|(own, element)| *own = element);
            }
        }
        if let Some(part) = part(self.shape(), begin, extents) {
            each!(Array, self, array => set(array, &part, bytes));
        }
    }
}

/// The indices of a part of an array, if it lies within.
fn part(shape: &[usize], begin: &[usize], extents: &[usize]) -> Option<Vec<Range<usize>>> {
    let fits = (begin.len(), extents.len()) == (shape.len(), shape.len());
    let part: Vec<_> = begin.iter().zip(extents).map(|(begin, n)| *begin..begin + n).collect();
    let within = part.iter().zip(shape).all(|(part, size)| part.end <= *size);
    (fits && within).then_some(part)
}

impl ArrayRef<'_> {
    /// The part that begins at these indices and has these extents. None unless it lies within the array, and of
    /// [`Integers`].
    pub(crate) fn part(&self, begin: &[usize], extents: &[usize]) -> Option<ArrayRef<'_>> {
        let part = part(self.shape(), begin, extents)?;
        macro_rules! of {
            ($array:expr) => {
                $array.slice_each_axis(|axis| Slice::from(part[axis.axis.0].clone()))
            };
        }
        Some(match self {
            ArrayRef::F32(array) => ArrayRef::F32(of!(array)),
            ArrayRef::F64(array) => ArrayRef::F64(of!(array)),
            ArrayRef::BF16(array) => ArrayRef::BF16(of!(array)),
            ArrayRef::I32(array) => ArrayRef::I32(of!(array)),
            ArrayRef::Bool(array) => ArrayRef::Bool(of!(array)),
            ArrayRef::Integers(_) => return None,
        })
    }

    /// The bytes of the part that begins at these indices and has these extents: elements in declared
    /// order, little-endian. None unless it lies within the array.
    pub(crate) fn part_bytes(&self, begin: &[usize], extents: &[usize]) -> Vec<u8> {
        fn bytes<T: Bytes>(part: &ArrayViewD<'_, T>) -> Vec<u8> {
            // One loop over memory, which costs no more than a copy.
            let part = part.as_standard_layout();
            let mut bytes = vec![0; part.len() * T::SIZE];
            let elements = part.as_slice().unwrap_or_default().iter();
            bytes.chunks_exact_mut(T::SIZE).zip(elements).for_each(|(own, x)| x.write(own));
            bytes
        }
        match self.part(begin, extents) {
            Some(ArrayRef::F32(part)) => bytes(&part),
            Some(ArrayRef::F64(part)) => bytes(&part),
            Some(ArrayRef::BF16(part)) => bytes(&part),
            Some(ArrayRef::I32(part)) => bytes(&part),
            Some(ArrayRef::Bool(part)) => bytes(&part),
            Some(ArrayRef::Integers(_)) | None => Vec::new(),
        }
    }

    /// The dtype of the elements; `None` for [`Integers`].
    pub fn dtype(&self) -> Option<DType> {
        match self {
            ArrayRef::F32(_) => Some(DType::F32),
            ArrayRef::F64(_) => Some(DType::F64),
            ArrayRef::BF16(_) => Some(DType::BF16),
            ArrayRef::I32(_) => Some(DType::I32),
            ArrayRef::Bool(_) => Some(DType::Bool),
            ArrayRef::Integers(_) => None,
        }
    }

    /// The name of the elements' type.
    pub(crate) fn element(&self) -> String {
        match self {
            ArrayRef::Integers(integers) => integers.element().to_owned(),
            of_a_dtype => of_a_dtype.dtype().unwrap_or_default().to_string(),
        }
    }

    /// The sizes of the dims.
    pub fn shape(&self) -> &[usize] {
        match self {
            ArrayRef::F32(array) => array.shape(),
            ArrayRef::F64(array) => array.shape(),
            ArrayRef::BF16(array) => array.shape(),
            ArrayRef::I32(array) => array.shape(),
            ArrayRef::Bool(array) => array.shape(),
            ArrayRef::Integers(array) => array.shape(),
        }
    }

    /// The same array for a shorter time.
    pub(crate) fn view(&self) -> ArrayRef<'_> {
        match self {
            ArrayRef::F32(array) => array.view().into(),
            ArrayRef::F64(array) => array.view().into(),
            ArrayRef::BF16(array) => array.view().into(),
            ArrayRef::I32(array) => array.view().into(),
            ArrayRef::Bool(array) => array.view().into(),
            ArrayRef::Integers(array) => ArrayRef::Integers(array.view()),
        }
    }

    /// A copy that borrows nothing; `None` for [`Integers`].
    pub fn to_owned(&self) -> Option<Array> {
        Some(match self {
            ArrayRef::F32(array) => array.to_owned().into(),
            ArrayRef::F64(array) => array.to_owned().into(),
            ArrayRef::BF16(array) => array.to_owned().into(),
            ArrayRef::I32(array) => array.to_owned().into(),
            ArrayRef::Bool(array) => array.to_owned().into(),
            ArrayRef::Integers(_) => return None,
        })
    }
}

// One conversion for all elements, so that the compiler says which elements there may be instead of
// listing conversions.
impl<'a, T: Element, D: ndarray::Dimension> From<ndarray::ArrayView<'a, T, D>> for ArrayRef<'a> {
    fn from(view: ndarray::ArrayView<'a, T, D>) -> Self {
        T::array_ref(view.into_dyn())
    }
}

impl<'a, T: Element, D: ndarray::Dimension> From<&'a ndarray::Array<T, D>> for ArrayRef<'a> {
    fn from(array: &'a ndarray::Array<T, D>) -> Self {
        array.view().into()
    }
}

impl<'a> From<&'a Array> for ArrayRef<'a> {
    fn from(array: &'a Array) -> Self {
        array.view()
    }
}

/// Implements the accessor of one element type and its conversions into both enums.
macro_rules! element {
    ($element:ty, $variant:ident, $accessor:ident) => {
        impl Array {
            #[doc = concat!("The array, if its elements are ", stringify!($element), ".")]
            pub fn $accessor(&self) -> Option<&ArrayD<$element>> {
                match self {
                    Array::$variant(array) => Some(array),
                    _ => None,
                }
            }
        }

        impl<D: ndarray::Dimension> From<ndarray::Array<$element, D>> for Array {
            fn from(array: ndarray::Array<$element, D>) -> Self {
                Array::$variant(array.into_dyn())
            }
        }

        impl From<$element> for Array {
            fn from(element: $element) -> Self {
                ndarray::arr0(element).into()
            }
        }

        impl Element for $element {
            fn array_ref(view: ArrayViewD<'_, Self>) -> ArrayRef<'_> {
                ArrayRef::$variant(view)
            }
        }
    };
}

element!(f32, F32, as_f32);
element!(f64, F64, as_f64);
element!(bf16, BF16, as_bf16);
element!(i32, I32, as_i32);
element!(bool, Bool, as_bool);

#[cfg(test)]
mod tests {
    use ndarray::{arr1, arr2};

    use super::*;

    #[test]
    fn arrays_keep_their_dtype() {
        let array = Array::from(arr2(&[[1.0_f32, 2.0], [3.0, 4.0]]));
        assert_eq!((array.dtype(), array.shape(), array.len()), (DType::F32, &[2, 2][..], 4));
        assert!(array.as_f32().is_some() && array.as_f64().is_none());
        assert_eq!(array.view().to_owned(), Some(array.clone()));
        assert_eq!(ArrayRef::from(&array).shape(), [2, 2]);
        assert_eq!(array.item(), None);
    }

    #[test]
    fn zeros_of_every_dtype() {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool] {
            let zeros = Array::zeros(dtype, &[2, 3]);
            assert_eq!((zeros.dtype(), zeros.shape()), (dtype, &[2, 3][..]));
            assert!(zeros.to_f64().iter().all(|&x| x == 0.0));
        }
        assert!(Array::zeros(DType::F32, &[0]).is_empty());
    }

    #[test]
    fn scalars_have_rank_0() {
        let scalars: [Array; 5] =
            [2.0_f32.into(), 2.0.into(), bf16::from_f32(2.0).into(), 2.into(), true.into()];
        assert!(scalars.iter().all(|scalar| scalar.shape().is_empty()));
        assert_eq!(scalars.map(|scalar| scalar.item()), [2.0, 2.0, 2.0, 2.0, 1.0].map(Some));
    }

    #[test]
    fn views_of_any_order_are_taken() {
        let matrix = arr2(&[[1, 2], [3, 4]]);
        let turned = ArrayRef::from(matrix.t()).to_owned();
        assert_eq!(turned, Some(arr2(&[[1, 3], [2, 4]]).into()));
        assert_eq!(ArrayRef::from(&arr1(&[true])).dtype(), Some(DType::Bool));
    }
}
