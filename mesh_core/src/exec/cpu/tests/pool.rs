use super::{Tensor, run, step, whole};
use crate::names::DType;
use crate::program::forms::Pool;
use crate::program::{PoolKind, Reach, Value};
use proptest::prelude::*;
use std::slice::from_ref;

/// A window of two labels that are counted from 0 on: size, stride, pad; positions and windows.
#[derive(Clone, Copy, Debug)]
struct Sketch {
    window: [usize; 3],
    extents: [usize; 2],
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let sizes = (1_usize..5, 1_usize..4, 0_usize..4, 1_usize..9, 1_usize..7);
    sizes.prop_map(|(size, stride, pad, seen, windows)| Sketch {
        window: [size, stride, pad],
        extents: [seen, windows],
    })
}

fn kind() -> impl Strategy<Value = PoolKind> {
    prop::sample::select(vec![PoolKind::Max, PoolKind::Sum, PoolKind::Count, PoolKind::Ties])
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![DType::F32, DType::F64, DType::BF16, DType::I32])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In all memory orders, either side being the result; the judge compares with what is meant.
    #[test]
    fn folds_over_windows_are_what_they_mean(
        windows in prop::collection::vec(sketch(), 1..3),
        plain in prop::collection::vec(prop_oneof![1_usize..4, 15_usize..40, 64_usize..90], 0..2),
        kind in kind(),
        sees in any::<bool>(),
        turned in any::<bool>(),
        dtype in dtype(),
        seed in any::<u64>(),
        orders in prop::array::uniform4(any::<u64>()),
    ) {
        let tied = windows.len();
        // The result's side of each window, what no window ties, the other side.
        let own = |i: usize| i as u8;
        let other = |i: usize| (tied + plain.len() + i) as u8;
        let side = |is_own: bool| -> (Vec<u8>, Vec<usize>) {
            let of = |(i, w): (usize, &Sketch)| {
                let label = if is_own { own(i) } else { other(i) };
                (label, w.extents[usize::from(is_own == sees)])
            };
            let rest = plain.iter().enumerate().map(|(i, &n)| ((tied + i) as u8, n));
            windows.iter().enumerate().map(of).chain(rest).unzip()
        };
        let reaches = windows.iter().enumerate().map(|(i, w)| {
            let [size, stride, pad] = w.window;
            let (input, output) = if sees { (other(i), own(i)) } else { (own(i), other(i)) };
            Reach { input, output, size, stride, pad }
        });
        let form = Pool { kind, windows: reaches.collect() };
        let mut sides = vec![false; kind.inputs()];
        if kind.inputs() > 1 {
            sides[usize::from(turned)] = true;
        }
        let ordered = |extents: &[usize], k: usize| {
            let mut value = Value::new(dtype, extents.iter().copied());
            let turn = |&dim: &u8| orders[k].rotate_left(7 * u32::from(dim)) % 97;
            value.order.sort_by_key(turn);
            value
        };
        let (dims, inputs): (Vec<_>, Vec<_>) = sides.iter().enumerate().map(|(k, &is_own)| {
            let (dims, extents) = side(is_own);
            (dims, whole(&ordered(&extents, k), seed ^ k as u64))
        }).unzip();
        let out = ordered(&side(true).1, 3);
        run(&inputs, &[out], &step(form, &dims, 1)).unwrap();
    }
}

#[test]
fn a_nan_is_greatest_and_equals_nothing() {
    let windows = [Reach { input: 1, output: 0, size: 2, stride: 2, pad: 0 }];
    let x = Tensor::new(Value::new(DType::F32, [4]), [1.0, f64::NAN, 5.0, 5.0]);
    let out = Value::new(DType::F32, [2]);
    let form = |kind| Pool { kind, windows: windows.into_iter().collect() };
    let max = step(form(PoolKind::Max), [[1]], 1);
    let y = run(from_ref(&x), from_ref(&out), &max).unwrap().remove(0);
    assert!(y.data[0].is_nan() && y.data[1] == 5.0);
    let ties = step(form(PoolKind::Count), [[1], [0]], 1);
    assert_eq!(run(&[x, y], &[out], &ties).unwrap()[0].data, [0.0, 2.0]);
}

#[test]
fn what_no_window_ties_is_a_fold_of_nothing() {
    let windows = [Reach { input: 0, output: 1, size: 1, stride: 3, pad: 0 }];
    let y = Tensor::new(Value::new(DType::F64, [2]), [7.0, -0.0]);
    let form = Pool { kind: PoolKind::Sum, windows: windows.into_iter().collect() };
    let made = run(&[y], &[Value::new(DType::F64, [5])], &step(form, [[1]], 1)).unwrap();
    assert_eq!(made[0].data, [7.0, 0.0, 0.0, 0.0, 0.0]);
}
