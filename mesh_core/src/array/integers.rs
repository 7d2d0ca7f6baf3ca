//! Integers of types that no dtype is, at the border: arrays of them may be fed and written, kept in data sets
//! ([`Array::from_integers`]) and made of what was fetched ([`Array::to_integers`]). Nothing computes in them: a tensor
//! is of i32 where it counts and of floats where it is measured, so a byte is converted once, where it comes in.

use std::ops::RangeInclusive;

use half::bf16;
use ndarray::{ArrayD, ArrayViewD, Dimension};

use super::{Array, ArrayRef, Element};
use crate::names::DType;

/// The whole numbers that a dtype has without a gap; bools are no numbers.
fn whole(dtype: DType) -> Option<RangeInclusive<i128>> {
    let digits = |digits: u32| -(1 << digits)..=1 << digits;
    Some(match dtype {
        DType::I32 => i32::MIN.into()..=i32::MAX.into(),
        DType::F32 => digits(f32::MANTISSA_DIGITS),
        DType::F64 => digits(f64::MANTISSA_DIGITS),
        DType::BF16 => digits(bf16::MANTISSA_DIGITS),
        DType::Bool => return None,
    })
}

/// Why integers cannot be of a dtype.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unheld {
    /// The dtype is not one of numbers.
    NoNumbers,
    /// The first element that is beyond the whole numbers of the dtype.
    Element { index: Vec<usize>, value: i128 },
}

/// A number that an integer type or a dtype does not have.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("element {index:?} is {value}, which {of} does not have")]
pub struct IntegerError {
    /// Where it is; empty of a scalar.
    pub index: Vec<usize>,
    /// The number.
    pub value: String,
    /// The name of the type or dtype.
    pub of: String,
}

mod sealed {
    /// What the integers of the standard library share.
    pub trait Whole: Copy {
        const NAME: &'static str;
        fn wide(self) -> i128;
        fn narrow(x: i128) -> Option<Self>;
    }
}
use sealed::Whole;

/// An integer type that arrays are made of: i8 to i64, u8 to u64, usize.
pub trait Integer: Whole + 'static {}
impl<T: Whole + 'static> Integer for T {}

impl Array {
    /// Integers of any type as numbers of a dtype, for data sets: labels of i64 as i32, images of u8 as f32.
    ///
    /// ```
    /// use mesh_core::array::Array;
    /// use mesh_core::names::DType;
    /// let labels = Array::from_integers(&ndarray::arr1(&[3_i64, 7]), DType::I32)?;
    /// assert_eq!(labels, ndarray::arr1(&[3, 7]).into());
    /// let beyond = Array::from_integers(&ndarray::arr1(&[0, 1_i64 << 40]), DType::I32);
    /// assert!(beyond.is_err_and(|error| error.index == [1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A number that the dtype does not have, or has with a gap between it and 0 (2^24 + 1 of f32); bools have none.
    pub fn from_integers<T: Integer, D: Dimension>(
        integers: &ndarray::Array<T, D>,
        dtype: DType,
    ) -> Result<Self, IntegerError> {
        let view = integers.view().into_dyn();
        let unheld =
            |index: Vec<usize>, value: String| IntegerError { index, value, of: dtype.to_string() };
        converted(&view, dtype).map_err(|error| match error {
            Unheld::Element { index, value } => unheld(index, value.to_string()),
            Unheld::NoNumbers => unheld(Vec::new(), format!("a number of {}", T::NAME)),
        })
    }

    /// The elements as integers of another type, as bytes of an image for example; `true` is 1.
    ///
    /// ```
    /// use mesh_core::array::Array;
    /// let image = Array::from(ndarray::arr1(&[0.0_f32, 255.0]));
    /// assert_eq!(image.to_integers::<u8>()?, ndarray::arr1(&[0, 255]).into_dyn());
    /// let error = Array::from(ndarray::arr1(&[0.5_f32])).to_integers::<u8>().map_err(|e| e.to_string());
    /// assert_eq!(error, Err("element [0] is 0.5, which u8 does not have".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is no whole number or that the type does not have: round and clip before.
    pub fn to_integers<T: Integer>(&self) -> Result<ArrayD<T>, IntegerError> {
        let numbers = self.to_f64();
        let whole = |x: f64| (x.fract() == 0.0).then_some(x as i128).and_then(T::narrow);
        let mut integers = Vec::with_capacity(numbers.len());
        for (index, &x) in numbers.indexed_iter() {
            integers.push(whole(x).ok_or_else(|| IntegerError {
                index: index.slice().to_vec(),
                value: x.to_string(),
                of: T::NAME.to_owned(),
            })?);
        }
        let shape = numbers.raw_dim();
        // There are as many as the shape has.
        ArrayD::from_shape_vec(shape, integers).map_err(|error| IntegerError {
            index: Vec::new(),
            value: error.to_string(),
            of: T::NAME.to_owned(),
        })
    }
}

fn converted<T: Whole>(view: &ArrayViewD<'_, T>, dtype: DType) -> Result<Array, Unheld> {
    let whole = whole(dtype).ok_or(Unheld::NoNumbers)?;
    if !view.iter().all(|x| whole.contains(&x.wide())) {
        let mut all = view.indexed_iter().map(|(index, x)| (index, x.wide()));
        if let Some((index, value)) = all.find(|(_, x)| !whole.contains(x)) {
            return Err(Unheld::Element { index: index.slice().to_vec(), value });
        }
    }
    fn mapped<T: Whole, E>(view: &ArrayViewD<'_, T>, to: impl Fn(i128) -> E) -> ArrayD<E> {
        view.mapv(|x| to(x.wide()))
    }
    Ok(match dtype {
        DType::I32 => mapped(view, |x| x as i32).into(),
        DType::F32 => mapped(view, |x| x as f32).into(),
        DType::F64 => mapped(view, |x| x as f64).into(),
        DType::BF16 => mapped(view, |x| bf16::from_f32(x as f32)).into(),
        DType::Bool => return Err(Unheld::NoNumbers),
    })
}

macro_rules! integers {
    ($($variant:ident $integer:ident)*) => {
        /// A borrowed array of integers of a type that no dtype is. A session converts it to the dtype of
        /// what it is fed to, before a back-end sees it.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Integers<'a> {
            $(
                #[doc = concat!("Elements of ", stringify!($integer), ".")]
                $variant(ArrayViewD<'a, $integer>),
            )*
        }

        impl Integers<'_> {
            /// The sizes of the dims.
            pub fn shape(&self) -> &[usize] {
                match self {
                    $(Self::$variant(view) => view.shape(),)*
                }
            }

            /// The name of the elements' type.
            pub fn element(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($integer),)*
                }
            }

            /// The same integers for a shorter time.
            pub(super) fn view(&self) -> Integers<'_> {
                match self {
                    $(Self::$variant(view) => Integers::$variant(view.view()),)*
                }
            }

            /// The same numbers in another dtype, if it has each of them and every whole number between
            /// it and 0.
            pub(crate) fn converted(&self, dtype: DType) -> Result<Array, Unheld> {
                match self {
                    $(Self::$variant(view) => converted(view, dtype),)*
                }
            }
        }

        $(
            impl Element for $integer {
                fn array_ref(view: ArrayViewD<'_, Self>) -> ArrayRef<'_> {
                    ArrayRef::Integers(Integers::$variant(view))
                }
            }
        )*
    };
}
integers! { I8 i8 I16 i16 I64 i64 U8 u8 U16 u16 U32 u32 U64 u64 Usize usize }

macro_rules! whole {
    ($($integer:ident)*) => {
        $(impl Whole for $integer {
            const NAME: &'static str = stringify!($integer);

            fn wide(self) -> i128 {
                self as i128
            }

            fn narrow(x: i128) -> Option<Self> {
                x.try_into().ok()
            }
        })*
    };
}
whole! { i8 i16 i32 i64 u8 u16 u32 u64 usize }

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, arr0, arr1, arr2};

    use super::*;

    fn integers<'a, T: Element>(array: &'a ArrayD<T>) -> Integers<'a> {
        match ArrayRef::from(array) {
            ArrayRef::Integers(integers) => integers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_are_any_number() {
        let all = ArrayD::from_shape_fn(vec![16, 16], |at| (16 * at[0] + at[1]) as u8);
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
            let array = integers(&all).converted(dtype).unwrap();
            assert_eq!((array.dtype(), array.to_f64()), (dtype, all.mapv(f64::from)));
        }
        assert_eq!(integers(&all).converted(DType::Bool), Err(Unheld::NoNumbers));
    }

    /// What leaves is what came in, and what does not fit is named.
    #[test]
    fn fetched_numbers_become_integers() {
        let all = arr1(&[0_u8, 1, 127, 255]).into_dyn();
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
            let array = Array::from_integers(&all, dtype).unwrap();
            assert_eq!(array.to_integers::<u8>().unwrap(), all, "{dtype}");
            assert_eq!(array.to_integers::<i64>().unwrap(), all.mapv(i64::from), "{dtype}");
        }
        let bits = Array::from(arr1(&[true, false]));
        assert_eq!(bits.to_integers::<u8>().unwrap(), arr1(&[1, 0]).into_dyn());
        for beyond in [-1.0, 256.0, 0.5, f64::NAN, f64::INFINITY] {
            let error = Array::from(arr2(&[[0.0, 1.0], [beyond, 3.0]])).to_integers::<u8>();
            let message = format!("element [1, 0] is {beyond}, which u8 does not have");
            assert_eq!(error.unwrap_err().to_string(), message);
        }
        let error = Array::from_integers(&all, DType::Bool).unwrap_err().to_string();
        assert_eq!(error, "element [] is a number of u8, which bool does not have");
    }

    /// The dtype that a conversion gives back from its result is the judge: what is held survives, and
    /// the next whole number beyond the bound does not.
    #[test]
    fn what_a_dtype_has_not_is_named() {
        let bounds: [(DType, i64, i64); 4] = [
            (DType::I32, i32::MIN.into(), i32::MAX.into()),
            (DType::F32, -(1 << 24), 1 << 24),
            (DType::F64, -(1 << 53), 1 << 53),
            (DType::BF16, -(1 << 8), 1 << 8),
        ];
        for (dtype, least, most) in bounds {
            let held = arr2(&[[least, 0], [-1, most]]).into_dyn();
            let back = integers(&held).converted(dtype).unwrap().to_f64();
            assert_eq!(back.mapv(|x| x as i64), held, "{dtype}");
            for beyond in [least - 1, most + 1] {
                let array = arr2(&[[0, most], [beyond, beyond]]).into_dyn();
                let unheld = Unheld::Element { index: vec![1, 0], value: beyond.into() };
                assert_eq!(integers(&array).converted(dtype), Err(unheld), "{dtype}");
            }
        }
        let largest = arr0(u64::MAX).into_dyn();
        let unheld = Unheld::Element { index: Vec::new(), value: u64::MAX.into() };
        assert_eq!(integers(&largest).converted(DType::F64), Err(unheld));
    }
}
