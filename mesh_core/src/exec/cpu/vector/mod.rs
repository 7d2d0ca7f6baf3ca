//! Vector registers: what the inner loops of tiles and of register blocks are written with.

#[cfg(target_arch = "x86_64")]
mod x86;

/// One vector register, or something like it.
pub(in crate::exec::cpu) trait Vector: Copy {
    type Element: Copy;
    const LANES: usize;
    /// # Safety
    ///
    /// The machine has the instructions; `at` is valid for the lanes.
    unsafe fn load(at: *const Self::Element) -> Self;
    /// # Safety
    ///
    /// As `load`.
    unsafe fn store(self, at: *mut Self::Element);
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn zero() -> Self;
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn add(self, other: Self) -> Self;
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn spread(a: Self::Element) -> Self;
    /// An index of which the compiler does not know that it is counted up. Otherwise it counts up a pointer for each
    /// array that is indexed, for which there are too few registers.
    #[inline(always)]
    fn opaque(index: isize) -> isize {
        index
    }
    /// Brings the lines of two vectors near.
    fn fetch(_: *const Self::Element) {}
    /// `self + a * b`.
    ///
    /// # Safety
    ///
    /// The machine has the instructions.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
}

/// A vector of which a part can be loaded and stored, while memory beyond that part is not touched.
pub(in crate::exec::cpu) trait Masked: Vector {
    type Mask: Copy;
    /// The first `count` lanes, or all if there are fewer.
    fn first(count: usize) -> Self::Mask;
    /// Loads these lanes; the others are zero.
    ///
    /// # Safety
    ///
    /// The machine has the instructions; `at` is valid for the lanes of the mask.
    unsafe fn load_some(mask: Self::Mask, at: *const Self::Element) -> Self;
    /// Stores these lanes.
    ///
    /// # Safety
    ///
    /// As `load_some`.
    unsafe fn store_some(self, mask: Self::Mask, at: *mut Self::Element);
}

/// Writes or adds a row's vector.
#[inline(always)]
pub(in crate::exec::cpu) unsafe fn put<V: Vector>(
    mut sum: V,
    at: *mut V::Element,
    accumulate: bool,
) {
    // SAFETY: the machine has the vector's instructions, and `at` is valid for its lanes.
    unsafe {
        if accumulate {
            sum = sum.add(V::load(at));
        }
        sum.store(at);
    }
}

/// Four elements without any particular instructions.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Plain<T>([T; 4]);

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Vector for Plain<$t> {
            type Element = $t;
            const LANES: usize = 4;
            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: `at` is valid for four elements.
                Self(unsafe { at.cast::<[$t; 4]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: `at` is valid for four elements.
                unsafe { at.cast::<[$t; 4]>().write(self.0) };
            }
            #[inline(always)]
            unsafe fn zero() -> Self {
                Self([0.0; 4])
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn spread(a: $t) -> Self {
                Self([a; 4])
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
            }
        }
    )*};
}
plain! { f32 f64 }
