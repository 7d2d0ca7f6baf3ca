use crate::exec::cpu::isa::every_version;
use crate::exec::cpu::transpose::{Plain, Transpose, Turn, transpose};

fn check<T: Copy + PartialEq + std::fmt::Debug>(turn: Transpose<T>, of: impl Fn(usize) -> T) {
    for [m, n] in [[1, 1], [16, 16], [5, 40], [33, 17], [48, 32], [100, 3]] {
        for (from_stride, to_stride) in [(n, m), (n + 3, m + 1)] {
            let from: Vec<T> = (0..m * from_stride).map(&of).collect();
            let mut to = vec![of(usize::MAX); n * to_stride];
            let (from_stride, to_stride) = (from_stride as isize, to_stride as isize);
            let (extents, at) = ([m, n], to.as_mut_ptr());
            // SAFETY: both sides have room for their rows.
            unsafe {
                turn(Turn { extents, from: from.as_ptr(), from_stride, to: at, to_stride });
            }
            for (at, &got) in to.iter().enumerate() {
                let (j, i) = (at / to_stride as usize, at % to_stride as usize);
                let inside = i < m;
                let want = if inside { i * from_stride as usize + j } else { usize::MAX };
                assert_eq!(got, of(want), "{m} {n} at {i} {j}");
            }
        }
    }
}

#[test]
fn every_element_finds_its_place() {
    check::<f32>(transpose(), |i| (i % 99_991) as f32);
    check::<f64>(transpose(), |i| i as f64);
    for (_, version) in every_version::<Plain<u32>>() {
        check(version, |i| i as u32);
    }
}
