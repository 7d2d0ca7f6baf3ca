use super::number::{Large, Matrix, Number};
use super::small::Small;
use crate::exec::cpu::isa::every_version;
use proptest::prelude::*;
use std::fmt::Debug;

/// Shape, which of the matrices lie by columns, gaps between rows or columns, and whether the product is added.
type Case = ([usize; 3], [bool; 3], usize, bool);

fn case(most: usize) -> impl Strategy<Value = Case> {
    (prop::array::uniform3(1..most), any::<[bool; 3]>(), 0_usize..4, any::<bool>())
}

/// Small whole numbers, so that sums are exact in any order.
fn numbers<T: Number + From<i8>>(len: usize, seed: usize) -> Vec<T> {
    (0..len).map(|i| T::from((((i * 7 + seed) * 2_654_435_761) >> 7) as i8 % 8)).collect()
}

/// Elements between rows and between columns, and the length of all.
fn laid(rows: usize, columns: usize, by_columns: bool, gap: usize) -> ([usize; 2], usize) {
    match by_columns {
        false => ([columns + gap, 1], rows * (columns + gap)),
        true => ([1, rows + gap], columns * (rows + gap)),
    }
}

fn at(steps: [usize; 2], i: usize, j: usize) -> usize {
    i * steps[0] + j * steps[1]
}

/// Compares a product with sums one after the other; what lies between rows stays as it was.
fn check<T: Number + From<i8> + PartialEq + Debug>(
    ([m, n, k], turned, gap, accumulate): Case,
    product: impl Fn([usize; 3], Matrix<*const T>, Matrix<*const T>, Matrix<*mut T>, bool),
) {
    let (of_a, a_len) = laid(m, k, turned[0], gap);
    let (of_b, b_len) = laid(k, n, turned[1], gap);
    let (of_c, c_len) = laid(m, n, turned[2], gap);
    let (a, b): (Vec<T>, Vec<T>) = (numbers(a_len, 1), numbers(b_len, 2));
    let mut got: Vec<T> = numbers(c_len, 3);
    let mut want = got.clone();
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let c = &mut want[at(of_c, i, j)];
        let start = if accumulate { *c } else { T::ZERO };
        let term = |l: usize| a[at(of_a, i, l)].times(b[at(of_b, l, j)]);
        *c = (0..k).fold(start, |sum, l| sum.plus(term(l)));
    }
    let steps = |steps: [usize; 2]| steps.map(|step| step as isize);
    product(
        [m, n, k],
        Matrix::new(a.as_ptr(), steps(of_a)),
        Matrix::new(b.as_ptr(), steps(of_b)),
        Matrix::new(got.as_mut_ptr(), steps(of_c)),
        accumulate,
    );
    assert_eq!(got, want);
}

fn check_small<T: Number + From<i8> + PartialEq + Debug>(case: Case) {
    for (_, small) in every_version::<Small<T>>() {
        // SAFETY: `check` makes matrices that are valid and do not overlap.
        check::<T>(case, |shape, a, b, c, adds| unsafe { small((shape, a, b, c, adds)) });
    }
}

/// By each kernel that this machine runs.
fn check_large<T: Number + From<i8> + PartialEq + Debug>(case: Case, kernels: &[Large<T>]) {
    for &large in kernels {
        // SAFETY: `check` makes matrices that are valid and do not overlap; the machine runs its kernels.
        check::<T>(case, |shape, a, b, c, adds| unsafe { large(shape, a, b, c, adds) });
    }
}

#[cfg(target_arch = "x86_64")]
fn kernels<T: super::x86::Float>() -> Vec<Large<T>> {
    use super::x86::product;
    use crate::exec::cpu::isa::{Isa, isa};
    match isa() {
        Isa::Avx512 => vec![product::<T, false>, product::<T, true>],
        Isa::Avx2 => vec![product::<T, false>],
        Isa::Portable => Vec::new(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn kernels<T: Number + From<u8>>() -> Vec<Large<T>> {
    super::elsewhere::large().into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn small_products_match_brute_force(case in case(24)) {
        check_small::<f32>(case);
        check_small::<f64>(case);
        check_small::<i32>(case);
    }

    #[test]
    fn large_products_match_brute_force(case in case(70)) {
        check_large::<f32>(case, &kernels());
        check_large::<f64>(case, &kernels());
    }
}
