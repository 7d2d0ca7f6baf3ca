//! Forms that go by index.

use super::oracle::{declared, each, extents, get, index};
use super::{DTYPES, Tensor, run, run_with, step, value, whole};
use crate::names::{DType, Mesh, ReduceKind};
use crate::program::forms::{Gather, Put, Scatter};
use crate::program::{Offset, Value};
use proptest::prelude::*;

/// Of which any order gives the same bits here.
const KINDS: [ReduceKind; 3] = [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min];

/// Sizes of labels, those an index or a row has, the labels' order, and the extent of the dim.
#[derive(Clone, Debug)]
struct Sketch {
    /// Per label: size, whether the indices have it, whether the rows have it.
    labels: Vec<(usize, bool, bool)>,
    extent: usize,
    begin: usize,
    seed: u64,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let size = prop_oneof![4 => 1_usize..5, 1 => 15_usize..40];
    let label = (size, 0_u8..3).prop_map(|(size, kind)| (size, kind != 0, kind != 1));
    (prop::collection::vec(label, 0..5), 1_usize..7, 0_usize..4, any::<u64>())
        .prop_filter("small", |(labels, ..)| labels.iter().map(|l| l.0).product::<usize>() < 9000)
        .prop_map(|(labels, extent, begin, seed)| Sketch { labels, extent, begin, seed })
}

impl Sketch {
    fn of(&self, has: impl Fn(&(usize, bool, bool)) -> bool) -> Vec<u8> {
        (0..self.labels.len() as u8).filter(|&l| has(&self.labels[l as usize])).collect()
    }

    /// Indices inside, before and behind the extent.
    fn indices(&self, value: Value) -> Tensor {
        let mut state = self.seed;
        let next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            ((state >> 33) % (self.extent as u64 + 3)) as f64 + self.begin as f64 - 1.0
        };
        let data: Vec<_> = std::iter::repeat_with(next).take(value.len()).collect();
        Tensor::new(value, data)
    }

    fn position(&self, index: f64) -> Option<usize> {
        let position = index as i64 - self.begin as i64;
        usize::try_from(position).ok().filter(|&position| position < self.extent)
    }
}

/// Values in random memory order with labels in random order.
fn labelled(
    dtype: DType,
    labels: Vec<u8>,
    sizes: Vec<usize>,
) -> impl Strategy<Value = (Vec<u8>, Value)> {
    Just(labels).prop_shuffle().prop_flat_map(move |labels| {
        let extents = labels.iter().map(|&l| sizes[l as usize]).collect();
        (Just(labels), value(dtype, extents))
    })
}

type Case = (Sketch, (Vec<u8>, Value), (Vec<u8>, Value), Value);

fn gathers() -> impl Strategy<Value = Case> {
    (sketch(), 0..DTYPES.len()).prop_flat_map(|(sketch, dtype)| {
        let rank = sketch.labels.len() as u8;
        let mut sizes: Vec<_> = sketch.labels.iter().map(|l| l.0).collect();
        let out = value(DTYPES[dtype], sizes.clone());
        sizes.push(sketch.extent);
        let rows = sketch.of(|l| l.2).into_iter().chain([rank]).collect();
        let rows = labelled(DTYPES[dtype], rows, sizes.clone());
        let indices = labelled(DType::I32, sketch.of(|l| l.1), sizes);
        (Just(sketch), rows, indices, out)
    })
}

/// The indexed dim is result dim 0; labels that only updates have come last and are folded.
fn scatters() -> impl Strategy<Value = Case> {
    (sketch(), 0_usize..3, 0_usize..5).prop_flat_map(|(mut sketch, dtype, summed)| {
        let dtype = [DType::F32, DType::F64, DType::I32][dtype];
        sketch.labels.iter_mut().for_each(|label| label.2 = true);
        let summed = summed.min(sketch.labels.len());
        let rank = 1 + sketch.labels.len() - summed;
        let sizes: Vec<_> =
            [sketch.extent].into_iter().chain(sketch.labels.iter().map(|l| l.0)).collect();
        let shifted = |labels: Vec<u8>| labels.into_iter().map(|l| l + 1).collect();
        let updates = labelled(dtype, shifted(sketch.of(|_| true)), sizes.clone());
        let indices = labelled(DType::I32, shifted(sketch.of(|l| l.1)), sizes.clone());
        let out = value(dtype, sizes[..rank].to_vec());
        (Just(sketch), updates, indices, out)
    })
}

/// The indexed dim is result dim 0. Values: row, indices, and what is written into.
fn puts() -> impl Strategy<Value = Case> {
    (sketch(), 0..DTYPES.len()).prop_flat_map(|(mut sketch, dtype)| {
        sketch.labels.iter_mut().for_each(|label| label.2 = true);
        let sizes: Vec<_> =
            [sketch.extent].into_iter().chain(sketch.labels.iter().map(|l| l.0)).collect();
        let shifted = |labels: Vec<u8>| labels.into_iter().map(|l| l + 1).collect();
        let row = labelled(DTYPES[dtype], shifted(sketch.of(|_| true)), sizes.clone());
        let indices = labelled(DType::I32, shifted(sketch.of(|l| l.1)), sizes.clone());
        (Just(sketch), row, indices, value(DTYPES[dtype], sizes))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn gathers_match_brute_force((sketch, (dims, rows), (at, indices), out) in gathers()) {
        let inputs = [whole(&rows, sketch.seed), sketch.indices(indices)];
        let (of, dim) = (declared(out.extents.len()), out.extents.len());
        let mut want = vec![0.0; out.len()];
        each(&out.extents, &mut |label| {
            let mut label = label.to_vec();
            if let Some(position) = sketch.position(get(&inputs[1], &at, &label)) {
                let to = index(&out, &of, &label);
                label.push(position);
                want[to] = get(&inputs[0], &dims, &label);
            }
        });
        let form = Gather { dim: dim as u8, begin: Offset::fixed(sketch.begin) };
        let step = step(form, [dims, at], 1);
        let got = run(&inputs, std::slice::from_ref(&out), &step).unwrap().remove(0);
        prop_assert_eq!(got, Tensor::new(out, want));
    }

    #[test]
    fn scatters_match_brute_force(
        (sketch, (dims, updates), (at, indices), out) in scatters(),
        kind in prop::sample::select(&KINDS[..]),
        has_onto in any::<bool>(),
    ) {
        let mut inputs = vec![whole(&updates, sketch.seed), sketch.indices(indices)];
        let of = declared(out.extents.len());
        let mut want = vec![kind.start(out.dtype); out.len()];
        let mut labels = vec![dims.clone(), at.clone()];
        if has_onto {
            // In another order in memory.
            let turned = Value { order: out.order.iter().rev().copied().collect(), ..out.clone() };
            inputs.push(whole(&turned, sketch.seed ^ 1));
            labels.push(of.clone());
            each(&out.extents, &mut |at| {
                want[index(&out, &of, at)] = get(&inputs[2], &of, at);
            });
        }
        let mut all = extents(&[(&updates, &dims), (&out, &of)]);
        all[0] = 1;
        each(&all, &mut |label| {
            let mut label = label.to_vec();
            if let Some(position) = sketch.position(get(&inputs[1], &at, &label)) {
                label[0] = position;
                let own = &mut want[index(&out, &of, &label)];
                let update = get(&inputs[0], &dims, &label);
                *own = match kind {
                    ReduceKind::Sum => *own + update,
                    ReduceKind::Max => own.max(update),
                    _ => own.min(update),
                };
            }
        });
        let form = Scatter { kind, dim: 0, begin: Offset::fixed(sketch.begin) };
        let step = step(form, labels, 1);
        let got = run(&inputs, std::slice::from_ref(&out), &step).unwrap().remove(0);
        prop_assert_eq!(got, Tensor::new(out, want));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn puts_match_brute_force((sketch, (dims, row), (at, indices), out) in puts()) {
        let into = whole(&out, sketch.seed ^ 1);
        let inputs = [into, whole(&row, sketch.seed), sketch.indices(indices)];
        let of = declared(out.extents.len());
        let mut want = inputs[0].data.clone();
        let mut all = out.extents.to_vec();
        all[0] = 1;
        each(&all, &mut |label| {
            let mut label = label.to_vec();
            if let Some(position) = sketch.position(get(&inputs[2], &at, &label)) {
                let update = get(&inputs[1], &dims, &label);
                label[0] = position;
                want[index(&out, &of, &label)] = update;
            }
        });
        let form = Put { dim: 0, begin: Offset::fixed(sketch.begin) };
        let step = step(form, [of, dims, at], 1);
        let want = Tensor::new(out.clone(), want);
        // Into memory of its own, and into that of what it was.
        let got = run(&inputs, std::slice::from_ref(&out), &step).unwrap().remove(0);
        prop_assert_eq!(&got, &want);
        let (outs, mesh) = (std::slice::from_ref(&out), Mesh::single());
        let got = run_with(&inputs, outs, &step, &mesh, 0, &[(0, 0)]).unwrap().remove(0);
        prop_assert_eq!(&got, &want);
    }
}

#[test]
fn updates_are_added_in_declared_order() {
    // 2^24 + 1 - 2^24 is 0 in f32 from the left, 1 if the great ones meet first.
    let big = 16_777_216.0;
    let updates = Tensor::new(Value::new(DType::F32, [3, 2]), [big, 1.0, 1.0, -big, -big, big]);
    let mut turned = updates.clone();
    turned.value.order = [1, 0].into_iter().collect();
    let indices = Tensor::new(Value::new(DType::I32, [3]), [1.0, 1.0, 1.0]);
    let form = Scatter { kind: ReduceKind::Sum, dim: 0, begin: Offset::default() };
    let step = step(form, [&[2, 1][..], &[2]], 1);
    for updates in [updates, turned] {
        let out = [Value::new(DType::F32, [2, 2])];
        let got = run(&[updates, indices.clone()], &out, &step).unwrap();
        assert_eq!(got[0].data, [0.0, 0.0, 0.0, 1.0]);
    }
}

#[test]
fn each_processor_finds_its_own_rows() {
    let mesh = Mesh::new([("rows", 2), ("cols", 3)]).unwrap();
    let cols = mesh.axis("cols").unwrap();
    let table = Tensor::new(Value::new(DType::F32, [2]), [5.0, 6.0]);
    let indices = Tensor::new(Value::new(DType::I32, [6]), [-1.0, 0.0, 1.0, 2.0, 3.0, 6.0]);
    let step = step(Gather { dim: 1, begin: Offset::sliced(&[cols], 2) }, [[1], [0]], 1);
    let out = [Value::new(DType::F32, [6])];
    let inputs = [table, indices];
    let on =
        |processor| run_with(&inputs, &out, &step, &mesh, processor, &[]).unwrap().remove(0).data;
    assert_eq!(on(0), [0.0, 5.0, 6.0, 0.0, 0.0, 0.0]);
    assert_eq!(on(4), [0.0, 0.0, 0.0, 5.0, 6.0, 0.0]);
    assert_eq!(on(5), [0.0; 6]);
}

#[test]
fn extreme_indices_are_outside() {
    let table = Tensor::new(Value::new(DType::I32, [3]), [1.0, 2.0, 3.0]);
    let (least, most) = (f64::from(i32::MIN), f64::from(i32::MAX));
    let indices = Tensor::new(Value::new(DType::I32, [3]), [least, most, 2.0]);
    let step = step(Gather { dim: 1, begin: Offset::default() }, [[1], [0]], 1);
    let got = run(&[table, indices], &[Value::new(DType::I32, [3])], &step).unwrap();
    assert_eq!(got[0].data, [0.0, 0.0, 3.0]);
}

#[test]
fn indices_of_another_dtype_are_refused() {
    let table = whole(&Value::new(DType::F32, [3]), 1);
    let step = step(Gather { dim: 1, begin: Offset::default() }, [[1], [0]], 1);
    let inputs = [table.clone(), table];
    let error = run(&inputs, &[Value::new(DType::F32, [3])], &step).unwrap_err();
    assert_eq!(error, "indices are i32");
}
