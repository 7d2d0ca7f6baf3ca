//! One body of code, compiled for several instruction sets; which one runs is decided once.

use crate::exec::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::exec) enum Isa {
    /// AVX-512 F, VL, BW and DQ, with FMA.
    Avx512,
    /// AVX2 with FMA.
    Avx2,
    /// Whatever the target has.
    Portable,
}

/// The best instruction set of this machine.
pub(in crate::exec) fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    match (fma, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Portable
}

/// Code that is compiled once per instruction set. Rust never contracts `a * b + c`, so all
/// versions give the same bits.
pub(in crate::exec) trait Task {
    /// What it works on.
    type Args;
    /// What it gives.
    type Result;

    /// The work; every implementation is `#[inline(always)]`.
    ///
    /// # Safety
    ///
    /// The implementation's.
    unsafe fn run(args: Self::Args) -> Self::Result;
}

/// A task compiled for some instruction set.
pub(in crate::exec) type Entry<T> = unsafe fn(<T as Task>::Args) -> <T as Task>::Result;

/// The version for this machine. With debug assertions AVX2's stands in for AVX-512's, which would take a
/// tenth of the time in which the crate is compiled.
pub(in crate::exec) fn compiled<T: Task>() -> Entry<T> {
    match isa() {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => avx512::<T>,
        #[cfg(target_arch = "x86_64")]
        isa if isa != Isa::Portable => avx2::<T>,
        _ => portable::<T>,
    }
}

/// # Safety
///
/// The task's, and the machine has the instructions.
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn avx512<T: Task>(args: T::Args) -> T::Result {
    // SAFETY: the arguments are as the task requires; its code only runs with more features
    // enabled.
    unsafe { T::run(args) }
}

/// # Safety
///
/// The task's, and the machine has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<T: Task>(args: T::Args) -> T::Result {
    // SAFETY: the arguments are as the task requires; its code only runs with more features
    // enabled.
    unsafe { T::run(args) }
}

/// # Safety
///
/// The task's.
unsafe fn portable<T: Task>(args: T::Args) -> T::Result {
    // SAFETY: the arguments are as the task requires.
    unsafe { T::run(args) }
}

#[cfg(test)]
pub(super) fn every_version<T: Task>() -> Vec<(Isa, Entry<T>)> {
    let mut versions: Vec<(Isa, Entry<T>)> = vec![(Isa::Portable, portable::<T>)];
    #[cfg(target_arch = "x86_64")]
    {
        if isa() != Isa::Portable {
            versions.push((Isa::Avx2, avx2::<T>));
        }
        #[cfg(not(debug_assertions))]
        if isa() == Isa::Avx512 {
            versions.push((Isa::Avx512, avx512::<T>));
        }
    }
    versions
}
