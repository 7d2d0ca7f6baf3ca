use super::oracle::{declared, each, extents, get, index};
use super::{Tensor, run, step, value, whole};
use crate::names::DType;
use crate::program::Value;
use crate::program::forms::Contract;
use proptest::prelude::*;

fn contract(factors: &[Tensor; 2], dims: [&[u8]; 2], out: &Value) -> Result<Tensor, String> {
    let step = step(Contract, dims, 1);
    Ok(run(factors, std::slice::from_ref(out), &step)?.remove(0))
}

fn expected([lhs, rhs]: &[Tensor; 2], dims: [&[u8]; 2], out: &Value) -> Tensor {
    let of = declared(out.extents.len());
    let mut data = vec![0.0; out.len()];
    let all = extents(&[(&lhs.value, dims[0]), (&rhs.value, dims[1]), (out, &of)]);
    each(&all, &mut |at| {
        data[index(out, &of, at)] += get(lhs, dims[0], at) * get(rhs, dims[1], at);
    });
    Tensor::new(out.clone(), data)
}

/// Random labels: each in the left factor, the right one or both; some kept, some summed.
pub(super) fn case() -> impl Strategy<Value = ([Tensor; 2], [Vec<u8>; 2], Value)> {
    let size = prop_oneof![4 => 1_usize..5, 1 => 15_usize..35];
    let label = (size, 1_u8..4, any::<bool>());
    let dtypes =
        prop_oneof![Just(DType::F32), Just(DType::F64), Just(DType::BF16), Just(DType::I32)];
    (prop::collection::vec(label, 0..6), dtypes, any::<u64>())
        .prop_filter("small", |(labels, ..)| {
            labels.iter().map(|l| l.0).product::<usize>() <= 30_000
        })
        .prop_flat_map(|(mut labels, dtype, seed)| {
            // Kept labels first.
            labels.sort_by_key(|label| !label.2);
            let rank = labels.iter().filter(|label| label.2).count();
            let of = |side: u8| -> Vec<u8> {
                let has = |(_, label): &(usize, &(usize, u8, bool))| label.1 & side != 0;
                labels.iter().enumerate().filter(has).map(|(i, _)| i as u8).collect()
            };
            let out: Vec<usize> = labels[..rank].iter().map(|l| l.0).collect();
            let (lhs, rhs) = (Just(of(1)).prop_shuffle(), Just(of(2)).prop_shuffle());
            (Just((labels, dtype, seed)), lhs, rhs, value(dtype, out))
        })
        .prop_flat_map(|((labels, dtype, seed), lhs, rhs, out)| {
            let sizes = |dims: &[u8]| dims.iter().map(|&d| labels[d as usize].0).collect();
            let factors = (value(dtype, sizes(&lhs)), value(dtype, sizes(&rhs)));
            (factors, Just((lhs, rhs, out, seed)))
        })
        .prop_map(|((a, b), (lhs, rhs, out, seed))| {
            ([whole(&a, seed), whole(&b, !seed)], [lhs, rhs], out)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn products_match_brute_force((factors, [lhs, rhs], out) in case()) {
        let got = contract(&factors, [&lhs, &rhs], &out).unwrap();
        prop_assert_eq!(got, expected(&factors, [&lhs, &rhs], &out));
    }
}

/// Shapes that go to different code: large, tiny, vectors, outer products, transposes.
#[test]
fn shapes_of_all_kinds() {
    for dtype in [DType::F32, DType::F64] {
        for [m, n, k] in [
            [64, 48, 100],
            [1, 48, 100],
            [64, 1, 100],
            [1, 1, 1000],
            [33, 17, 1],
            [3, 5, 2],
            [200, 10, 64],
            [1, 1, 1],
        ] {
            for orders in 0..8_u32 {
                let flip = |bit: u32, mut value: Value| {
                    if orders >> bit & 1 == 1 {
                        value.order.reverse();
                    }
                    value
                };
                let a = whole(&flip(0, Value::new(dtype, [m, k])), 3);
                let b = whole(&flip(1, Value::new(dtype, [k, n])), 4);
                let out = flip(2, Value::new(dtype, [m, n]));
                let dims: [&[u8]; 2] = [&[0, 2], &[2, 1]];
                let got = contract(&[a.clone(), b.clone()], dims, &out).unwrap();
                assert_eq!(got, expected(&[a, b], dims, &out), "{m} {n} {k} {orders}");
            }
        }
    }
}

/// Several blocks of uneven sizes, every way of doing them, every memory order.
#[test]
fn large_products_are_done_in_blocks() {
    for [m, n, k] in [
        [1100, 70, 300],
        [70, 1100, 300],
        [1100, 10, 70],
        [70, 1100, 64],
        [20, 33, 530],
        [530, 600, 520],
        // Rows that share places of caches, and some of part of a panel.
        [512, 70, 300],
        [77, 1100, 41],
        // Blocks of rows of a packed left factor, a left factor read where it lies, several blocks of depth.
        [1100, 200, 300],
        [300, 64, 260],
        [40, 300, 1700],
    ] {
        let sides = [Value::new(DType::F32, [m, k]), Value::new(DType::F32, [k, n])];
        let [a, b] = [whole(&sides[0], 5), whole(&sides[1], 6)];
        let out = Value::new(DType::F32, [m, n]);
        let mut data = vec![0.0; m * n];
        for (row, a) in data.chunks_mut(n).zip(a.data.chunks(k)) {
            for (&a, b) in a.iter().zip(b.data.chunks(n)) {
                row.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
            }
        }
        for dtype in [DType::F32, DType::F64] {
            for orders in 0..8_u32 {
                let typed = |bit: u32, tensor: &Tensor| {
                    let mut value = Value::new(dtype, tensor.value.extents.clone());
                    if orders >> bit & 1 == 1 {
                        value.order.reverse();
                    }
                    Tensor::new(value, tensor.data.iter().copied())
                };
                let want = typed(2, &Tensor::new(out.clone(), data.iter().copied()));
                let factors = [typed(0, &a), typed(1, &b)];
                let got = contract(&factors, [&[0, 2], &[2, 1]], &want.value).unwrap();
                assert_eq!(got, want, "{dtype} {m} {n} {k} {orders}");
            }
        }
    }
}

/// A product whose dims lie apart in memory: heads before the length they are computed along.
#[test]
fn permuted_operands_are_packed() {
    let (x, w) = (Value::new(DType::F32, [2, 40, 36]), Value::new(DType::F32, [36, 3, 8]));
    let [x, w] = [whole(&x, 1), whole(&w, 2)];
    let q = Value::new(DType::F32, [2, 3, 40, 8]);
    let dims: [&[u8]; 2] = [&[0, 2, 4], &[4, 1, 3]];
    let heads = contract(&[x.clone(), w.clone()], dims, &q).unwrap();
    assert_eq!(heads, expected(&[x.clone(), w.clone()], dims, &q));
    // And its gradients, which sum over two dims that lie apart.
    let dims: [&[u8]; 2] = [&[0, 3, 1, 4], &[2, 3, 4]];
    let got = contract(&[heads.clone(), w.clone()], dims, &x.value).unwrap();
    assert_eq!(got, expected(&[heads.clone(), w.clone()], dims, &x.value));
    let dims: [&[u8]; 2] = [&[3, 4, 0], &[3, 1, 4, 2]];
    let got = contract(&[x.clone(), heads.clone()], dims, &w.value).unwrap();
    assert_eq!(got, expected(&[x, heads], dims, &w.value));
}

#[test]
fn dims_out_of_nowhere_are_refused() {
    let a = whole(&Value::new(DType::F32, [2]), 0);
    let out = Value::new(DType::F32, [2, 3]);
    let error = contract(&[a.clone(), a], [&[0], &[0]], &out).unwrap_err();
    assert_eq!(error, "a product's result has a dim that no factor has");
}
