//! What is folded of a tap.

use crate::exec::cpu::reduce::{Fold, Sum};
use std::marker::PhantomData;

/// Operands of a fold: the result, what it is compared with, what its taps are compared with or fold,
/// and what they fold then. Those that a fold lacks have strides of 0.
pub(super) const OPERANDS: usize = 4;

/// Folds one tap.
pub(super) trait Body: Sized + Send + 'static {
    type Fold: Fold;
    /// Whether a result is compared with something.
    const OWN: bool;
    /// Whether a tap has two elements.
    const PAIRS: bool;
    /// Folds what is held, and of operands 1 to 3 an element each.
    fn tap(held: Held<Self>, seen: [Element<Self>; 3]) -> Held<Self>;
}
pub(super) type Element<B> = <<B as Body>::Fold as Fold>::Element;
pub(super) type Held<B> = <<B as Body>::Fold as Fold>::Held;

/// Folds what taps see.
pub(super) struct All<F>(PhantomData<F>);
/// Counts the taps that equal the result's own element.
pub(super) struct Counts<T>(PhantomData<T>);
/// Adds up what lies beside the taps that equal the result's own element.
pub(super) struct Ties<T>(PhantomData<T>);

impl<F: Fold> Body for All<F> {
    type Fold = F;
    const OWN: bool = false;
    const PAIRS: bool = false;
    #[inline(always)]
    fn tap(held: F::Held, [_, seen, _]: [F::Element; 3]) -> F::Held {
        F::fold(held, F::load(seen))
    }
}

macro_rules! ties {
    ($($element:ty, $one:expr;)*) => {$(
        impl Body for Counts<$element> {
            type Fold = Sum<$element>;
            const OWN: bool = true;
            const PAIRS: bool = false;
            #[inline(always)]
            fn tap(held: Held<Self>, [own, seen, _]: [$element; 3]) -> Held<Self> {
                let [own, seen] = [own, seen].map(Self::Fold::load);
                Self::Fold::fold(held, if own == seen { $one } else { Self::Fold::START })
            }
        }
        impl Body for Ties<$element> {
            type Fold = Sum<$element>;
            const OWN: bool = true;
            const PAIRS: bool = true;
            #[inline(always)]
            fn tap(held: Held<Self>, [own, seen, folded]: [$element; 3]) -> Held<Self> {
                let [own, seen, folded] = [own, seen, folded].map(Self::Fold::load);
                Self::Fold::fold(held, if own == seen { folded } else { Self::Fold::START })
            }
        }
    )*};
}
ties! {
    f32, 1.0;
    f64, 1.0;
    u16, 1.0;
    i32, 1;
}
