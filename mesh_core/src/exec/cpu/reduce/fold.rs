//! How elements are folded, by kind and element type.

use crate::exec::cpu::vmath;
use std::marker::PhantomData;

/// How elements are folded.
pub(in crate::exec) trait Fold: Send + 'static {
    /// As in memory.
    type Element: Copy + Send;
    /// While folding.
    type Held: Copy + Send;
    const START: Self::Held;
    fn load(element: Self::Element) -> Self::Held;
    fn fold(a: Self::Held, b: Self::Held) -> Self::Held;
    fn store(held: Self::Held) -> Self::Element;
    /// Whether there are elements that `quick` loses.
    const HAS_RARE: bool = false;
    /// Whether `quick` may lose this element.
    fn is_rare(_: Self::Held) -> bool {
        false
    }
    /// `fold` where no element is rare.
    fn quick(a: Self::Held, b: Self::Held) -> Self::Held {
        Self::fold(a, b)
    }
}

/// A fold of elements of which none is rare.
pub(super) struct Quick<F>(PhantomData<F>);

impl<F: Fold> Fold for Quick<F> {
    type Element = F::Element;
    type Held = F::Held;
    const START: F::Held = F::START;
    #[inline(always)]
    fn load(element: F::Element) -> F::Held {
        F::load(element)
    }
    #[inline(always)]
    fn fold(a: F::Held, b: F::Held) -> F::Held {
        F::quick(a, b)
    }
    #[inline(always)]
    fn store(held: F::Held) -> F::Element {
        F::store(held)
    }
}

macro_rules! folds {
    ($($name:ident { $($element:ty, $held:ty, $start:expr,
        $load:expr, $store:expr, |$a:ident, $b:ident| $fold:expr $(, $quick:expr)?;)* })*) => {$(
        pub(in crate::exec) struct $name<T>(PhantomData<T>);
        $(impl Fold for $name<$element> {
            type Element = $element;
            type Held = $held;
            const START: $held = $start;
            #[inline(always)]
            fn load(element: $element) -> $held { $load(element) }
            #[inline(always)]
            fn fold($a: $held, $b: $held) -> $held { $fold }
            #[inline(always)]
            fn store(held: $held) -> $element { $store(held) }
            $(
                const HAS_RARE: bool = true;
                #[inline(always)]
                fn is_rare(held: $held) -> bool { held.is_nan() }
                #[inline(always)]
                fn quick($a: $held, $b: $held) -> $held { $quick }
            )?
        })*
    )*};
}

#[inline(always)]
fn same<T>(x: T) -> T {
    x
}

// bf16 lies in memory as u16 and is held as f32; bool is u8. Where there is no NaN, the greater of two is one
// instruction, for which the second fold is written.
folds! {
    Sum {
        f32, f32, 0.0, same, same, |a, b| a + b;
        f64, f64, 0.0, same, same, |a, b| a + b;
        u16, f32, 0.0, vmath::widen, vmath::narrow, |a, b| a + b;
        i32, i32, 0, same, same, |a, b| a.wrapping_add(b);
    }
    Prod {
        f32, f32, 1.0, same, same, |a, b| a * b;
        f64, f64, 1.0, same, same, |a, b| a * b;
        u16, f32, 1.0, vmath::widen, vmath::narrow, |a, b| a * b;
        i32, i32, 1, same, same, |a, b| a.wrapping_mul(b);
    }
    Max {
        f32, f32, f32::NEG_INFINITY, same, same, |a, b| vmath::max_f32(a, b),
            if a > b { a } else { b };
        f64, f64, f64::NEG_INFINITY, same, same, |a, b| vmath::max_f64(a, b),
            if a > b { a } else { b };
        u16, f32, f32::NEG_INFINITY, vmath::widen, vmath::narrow, |a, b| vmath::max_f32(a, b),
            if a > b { a } else { b };
        i32, i32, i32::MIN, same, same, |a, b| a.max(b);
    }
    Min {
        f32, f32, f32::INFINITY, same, same, |a, b| vmath::min_f32(a, b),
            if a < b { a } else { b };
        f64, f64, f64::INFINITY, same, same, |a, b| vmath::min_f64(a, b),
            if a < b { a } else { b };
        u16, f32, f32::INFINITY, vmath::widen, vmath::narrow, |a, b| vmath::min_f32(a, b),
            if a < b { a } else { b };
        i32, i32, i32::MAX, same, same, |a, b| a.min(b);
    }
    All {
        u8, u8, 1, same, same, |a, b| a & b;
    }
    Any {
        u8, u8, 0, same, same, |a, b| a | b;
    }
    Select {
        f32, u32, 0, f32::to_bits, f32::from_bits, |a, b| a | b;
        f64, u64, 0, f64::to_bits, f64::from_bits, |a, b| a | b;
        u16, u16, 0, same, same, |a, b| a | b;
        i32, i32, 0, same, same, |a, b| a | b;
        u8, u8, 0, same, same, |a, b| a | b;
    }
}
