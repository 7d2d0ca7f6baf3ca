//! Forms that go by order.

use super::oracle::{declared, each, get, index};
use super::{DTYPES, Tensor, run, step, value, whole};
use crate::names::{DType, ReduceKind};
use crate::program::Value;
use crate::program::forms::{Scan, Sort};
use proptest::prelude::*;
use std::cmp::Ordering;

const KINDS: [ReduceKind; 6] = [
    ReduceKind::Sum,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::Prod,
    ReduceKind::All,
    ReduceKind::Any,
];

fn start_and_fold(kind: ReduceKind, dtype: DType) -> (f64, fn(f64, f64) -> f64) {
    let (least, most) = match dtype {
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match kind {
        ReduceKind::Sum => (0.0, |a, b| a + b),
        ReduceKind::Prod => (1.0, |a, b| a * b),
        ReduceKind::Max => (least, f64::max),
        ReduceKind::Min => (most, f64::min),
        ReduceKind::All => (1.0, |a, b| a * b),
        ReduceKind::Any => (0.0, f64::max),
        ReduceKind::Select => unreachable!("folded over groups only"),
    }
}

/// Extents, one of which may be long.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![4 => 1_usize..6, 1 => 20_usize..70, 1 => 1000_usize..1100];
    prop::collection::vec(size, 1..5)
        .prop_filter("small", |sizes| sizes.iter().product::<usize>() <= 12_000)
}

/// Type of input and result, the scanned dim.
fn scans() -> impl Strategy<Value = (usize, Value, Value, usize)> {
    (0..KINDS.len(), 0..4_usize, sizes(), any::<prop::sample::Index>()).prop_flat_map(
        |(kind, dtype, sizes, dim)| {
            let dtype = if kind < 4 { DTYPES[dtype] } else { DType::Bool };
            let dim = dim.index(sizes.len());
            (Just(kind), value(dtype, sizes.clone()), value(dtype, sizes), Just(dim))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn scans_match_brute_force(
        (kind, from, out, dim) in scans(),
        exclusive: bool,
        reverse: bool,
        seed: u64,
    ) {
        let mut input = whole(&from, seed);
        if KINDS[kind] == ReduceKind::Prod {
            input.data.iter_mut().for_each(|x| *x = if *x < 0.0 { -1.0 } else { 1.0 });
        }
        let (start, fold) = start_and_fold(KINDS[kind], from.dtype);
        let (of, count) = (declared(out.extents.len()), out.extents[dim]);
        let mut want = vec![0.0; out.len()];
        each(&out.extents, &mut |at| {
            let before = |i: &usize| match (reverse, exclusive) {
                (false, false) => *i <= at[dim],
                (false, true) => *i < at[dim],
                (true, false) => *i >= at[dim],
                (true, true) => *i > at[dim],
            };
            let element = |i: usize| {
                let mut at = at.to_vec();
                at[dim] = i;
                get(&input, &of, &at)
            };
            want[index(&out, &of, at)] = (0..count).filter(before).map(element).fold(start, fold);
        });
        let form = Scan { kind: KINDS[kind], dim: dim as u8, exclusive, reverse };
        let step = step(form, [of], 1);
        let got = run(std::slice::from_ref(&input), std::slice::from_ref(&out), &step).unwrap();
        prop_assert_eq!(&got[0], &Tensor::new(out, want));
    }
}

/// Keys, the sorted dim, how many are kept; payload that has the dim only, and memory orders.
fn sorts() -> impl Strategy<Value = (Value, usize, [Value; 3])> {
    (0..DTYPES.len(), sizes(), any::<[prop::sample::Index; 2]>(), 0..3).prop_flat_map(
        |(dtype, sizes, [dim, kept], few)| {
            let dim = dim.index(sizes.len());
            let mut kept_sizes = sizes.clone();
            kept_sizes[dim] = if few == 0 { 1 } else { 1 + kept.index(sizes[dim]) };
            let payload = Value::new(DType::I32, [sizes[dim]]);
            let outs = (
                Just(payload),
                value(DTYPES[dtype], kept_sizes.clone()),
                value(DType::I32, kept_sizes),
            );
            (value(DTYPES[dtype], sizes), Just(dim), outs.prop_map(|(a, b, c)| [a, b, c]))
        },
    )
}

/// Ascending; NaN last.
fn compare(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap(),
        (a, b) => a.cmp(&b),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sorts_match_brute_force(
        (from, dim, [payload, out, positions]) in sorts(),
        descending: bool,
        nans: bool,
        seed: u64,
    ) {
        let mut keys = whole(&from, seed);
        if nans && from.dtype.is_float() {
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
            for (i, x) in keys.data.iter_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
                *x = special[i / 3 % 4];
            }
        }
        let payload = Tensor::new(payload.clone(), (0..payload.len()).map(|i| 10.0 + i as f64));
        let of = declared(out.extents.len());
        let mut want = [vec![0.0; out.len()], vec![0.0; out.len()]];
        let mut lines = out.extents.clone();
        lines[dim] = 1;
        each(&lines, &mut |at| {
            let mut at = at.to_vec();
            let mut line: Vec<_> = (0..from.extents[dim])
                .map(|i| {
                    at[dim] = i;
                    (get(&keys, &of, &at), payload.data[i])
                })
                .collect();
            line.sort_by(|a, b| {
                let order = compare(a.0, b.0);
                if descending { order.reverse() } else { order }
            });
            for (i, (key, with)) in line.into_iter().take(out.extents[dim]).enumerate() {
                at[dim] = i;
                want[0][index(&out, &of, &at)] = key;
                want[1][index(&positions, &of, &at)] = with;
            }
        });
        let step = step(Sort { dim: dim as u8, descending }, [of, vec![dim as u8]], 2);
        let got = run(&[keys, payload], &[out, positions], &step).unwrap();
        prop_assert_eq!(&got[1].data, &want[1]);
        for (got, want) in got[0].data.iter().zip(&want[0]) {
            prop_assert!(got == want || got.is_nan() && want.is_nan(), "{} {}", got, want);
        }
    }
}

/// Lines of many blocks of keys, of which few are kept, most of them late or equal.
#[test]
fn few_of_a_long_line_are_those_of_all() {
    const LINE: usize = 1000;
    let rising: Vec<f64> = (0..LINE).map(|i| i as f64).collect();
    let equal: Vec<f64> = (0..LINE).map(|i| (i * 7 % 5) as f64).collect();
    for keys in [rising, equal] {
        for kept in [1, 2, 33, 64, 65] {
            for dtype in [DType::F32, DType::F64, DType::I32] {
                let sorted = |kept: usize| {
                    let from = Tensor::new(Value::new(dtype, [LINE]), keys.iter().copied());
                    let positions = (0..LINE).map(|i| i as f64);
                    let positions = Tensor::new(Value::new(DType::I32, [LINE]), positions);
                    let outs = [Value::new(dtype, [kept]), Value::new(DType::I32, [kept])];
                    let step = step(Sort { dim: 0, descending: true }, [[0], [0]], 2);
                    run(&[from, positions], &outs, &step).unwrap()
                };
                let (all, first) = (sorted(LINE), sorted(kept));
                for (all, first) in all.iter().zip(&first) {
                    assert_eq!(first.data, all.data[..kept], "{dtype}, {kept} are kept");
                }
            }
        }
    }
}

#[test]
fn every_bit_of_a_key_stays() {
    let keys = Tensor::new(Value::new(DType::F32, [4]), [0.0, -0.0, 1.0, -1.0]);
    let step = step(Sort { dim: 0, descending: false }, [[0]], 1);
    let got = run(&[keys], &[Value::new(DType::F32, [4])], &step).unwrap();
    let signs: Vec<_> = got[0].data.iter().map(|x| x.is_sign_negative()).collect();
    assert_eq!(got[0].data, [-1.0, 0.0, 0.0, 1.0]);
    assert_eq!(signs, [true, false, true, false]);
}

#[test]
fn integers_are_ordered_to_their_ends() {
    let (least, most) = (f64::from(i32::MIN), f64::from(i32::MAX));
    let keys = Tensor::new(Value::new(DType::I32, [4]), [1.0, most, least, -1.0]);
    let step = step(Sort { dim: 0, descending: true }, [[0]], 1);
    let got = run(&[keys], &[Value::new(DType::I32, [3])], &step).unwrap();
    assert_eq!(got[0].data, [most, 1.0, -1.0]);
}

#[test]
fn more_than_there_are_cannot_be_kept() {
    let keys = whole(&Value::new(DType::F32, [3]), 1);
    let step = step(Sort { dim: 0, descending: true }, [[0]], 1);
    let error = run(&[keys], &[Value::new(DType::F32, [4])], &step).unwrap_err();
    assert_eq!(error, "a sort cannot keep 4 of 3");
}
