//! Integers of types that no dtype is: arrays of them may be fed.

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

trait Integer: Copy {
    fn wide(self) -> i128;
}

fn converted<T: Integer>(view: &ArrayViewD<'_, T>, dtype: DType) -> Result<Array, Unheld> {
    let whole = whole(dtype).ok_or(Unheld::NoNumbers)?;
    if !view.iter().all(|x| whole.contains(&x.wide())) {
        let mut all = view.indexed_iter().map(|(index, x)| (index, x.wide()));
        if let Some((index, value)) = all.find(|(_, x)| !whole.contains(x)) {
            return Err(Unheld::Element { index: index.slice().to_vec(), value });
        }
    }
    fn mapped<T: Integer, E>(view: &ArrayViewD<'_, T>, to: impl Fn(i128) -> E) -> ArrayD<E> {
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
            impl Integer for $integer {
                fn wide(self) -> i128 {
                    self as i128
                }
            }

            impl Element for $integer {
                fn array_ref(view: ArrayViewD<'_, Self>) -> ArrayRef<'_> {
                    ArrayRef::Integers(Integers::$variant(view))
                }
            }
        )*
    };
}
integers! { I8 i8 I16 i16 I64 i64 U8 u8 U16 u16 U32 u32 U64 u64 Usize usize }

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, arr0, arr2};

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
