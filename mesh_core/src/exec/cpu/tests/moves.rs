use super::{Tensor, run, run_with, step, value, whole};
use crate::names::{DType, Mesh};
use crate::program::forms::{Map, Move, Reshape};
use crate::program::{Body, Extents, Instr, Offset, Piece, Reg, Scalar, Value};
use proptest::prelude::*;
use smallvec::smallvec;

/// Sizes of the result and, per piece: begin, at, extents, which dims are broadcast, order seed.
type Sketch = (Vec<usize>, Vec<(Vec<[usize; 4]>, u64)>);

fn sketch() -> impl Strategy<Value = Sketch> {
    let size = prop_oneof![6 => 1_usize..9, 1 => 20_usize..90];
    let sizes = prop::collection::vec(size, 0..4);
    let sizes = sizes.prop_filter("small", |sizes| sizes.iter().product::<usize>() < 20_000);
    sizes.prop_flat_map(|sizes| {
        let dims: Vec<_> = sizes
            .iter()
            .map(|&n| {
                (1..=n).prop_flat_map(move |extent| {
                    (0..=n - extent, Just(extent), 0_usize..3, 0_usize..4)
                        .prop_map(|(at, extent, begin, kind)| [at, extent, begin, kind])
                })
            })
            .collect();
        (Just(sizes), prop::collection::vec((dims, any::<u64>()), 0..4))
    })
}

/// The value with its dims in another order in memory.
fn shuffle(mut value: Value, seed: u64) -> Value {
    let n = value.order.len();
    if n > 1 {
        value.order.rotate_left((seed % n as u64) as usize);
        if seed & 64 != 0 {
            value.order.swap(0, n - 1);
        }
    }
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn moves_match_brute_force(
        (sizes, sketches) in sketch(),
        dtype in 0_usize..5,
        out_order in any::<u64>(),
    ) {
        let dtype = super::DTYPES[dtype];
        let out = shuffle(Value::new(dtype, sizes.iter().copied()), out_order);
        let fill = Scalar::new(dtype, 1.0);
        let mut want = vec![1.0; out.len()];
        let (mut inputs, mut pieces, mut all_labels) = (Vec::new(), Vec::new(), Vec::new());
        for (dims, seed) in &sketches {
            // Labels with kind 0 are broadcast.
            let mut labels: Vec<u8> =
                (0..dims.len() as u8).filter(|&d| dims[d as usize][3] != 0).collect();
            if seed & 1 == 1 { labels.reverse(); }
            let extents: Vec<_> =
                labels.iter().map(|&l| dims[l as usize][1] + dims[l as usize][2] + 1).collect();
            let input = whole(&shuffle(Value::new(dtype, extents), seed >> 3), *seed);
            let begin: Vec<_> = labels.iter().map(|&l| dims[l as usize][2]).collect();
            let extents: Vec<_> = dims.iter().map(|d| d[1]).collect();
            super::oracle::each(&extents, &mut |at| {
                let to = at.iter().zip(dims).zip(&sizes).fold(0, |to, ((i, d), n)| to * n + d[0] + i);
                let from = labels.iter().zip(&begin).zip(&input.value.extents).fold(
                    0,
                    |from, ((&l, b), n)| from * n + b + at[l as usize],
                );
                want[to] = input.data[from];
            });
            pieces.push(Piece {
                begin: begin.into_iter().map(Offset::fixed).collect(),
                at: dims.iter().map(|d| d[0]).collect(),
                extents: extents.into_iter().collect(),
            });
            inputs.push(input);
            all_labels.push(labels);
        }
        let step = step(Move { pieces, fill }, all_labels, 1);
        let got = run(&inputs, std::slice::from_ref(&out), &step).unwrap().remove(0);
        prop_assert_eq!(got.data, want);
    }

    #[test]
    fn views_match_brute_force(
        sizes in prop::collection::vec(prop_oneof![4 => 1_usize..9, 1 => 20_usize..70], 1..4),
        has in any::<u8>(),
        dtype in 0_usize..5,
        seed in any::<u64>(),
    ) {
        let dtype = super::DTYPES[dtype];
        let mut labels: Vec<u8> = (0..sizes.len() as u8).filter(|l| has >> l & 1 == 1).collect();
        if has >= 128 { labels.reverse(); }
        let extents: Vec<_> = labels.iter().map(|&l| sizes[usize::from(l)]).collect();
        let input = whole(&shuffle(Value::new(dtype, extents.iter().copied()), seed), seed >> 9);
        let out = shuffle(Value::new(dtype, sizes.iter().copied()), seed >> 20);
        let mut want = Vec::new();
        super::oracle::each(&sizes, &mut |at| {
            let along = labels.iter().zip(&extents);
            let from = along.fold(0, |from, (&l, n)| from * n + at[usize::from(l)]);
            want.push(input.data[from]);
        });
        let body = Body { code: vec![(Instr::Input(0), dtype)], results: vec![Reg(0)] };
        let step = step(Map::new(body), [labels], 1);
        let got = run(std::slice::from_ref(&input), &[out], &step).unwrap().remove(0);
        prop_assert_eq!(got.data, want);
    }

    #[test]
    fn reshapes_keep_declared_order(len in 1_usize..40, dtype in 0_usize..5) {
        let input = whole(&Value::new(super::DTYPES[dtype], [len, 6]), 1);
        let out = Value::new(input.value.dtype, [2, len, 3]);
        let step = step(Reshape, [[0, 1]], 1);
        let got = run(std::slice::from_ref(&input), &[out], &step).unwrap().remove(0);
        prop_assert_eq!(got.data, input.data);
    }
}

/// Parts of each row, and a later one that lies over them and begins a row further down.
#[test]
fn parts_of_many_rows_are_written_in_order() {
    // Parts of a few elements are no rows that are copied as such.
    let columns = [[(0, 33), (33, 3), (36, 70)], [(0, 33), (33, 20), (53, 53)]];
    let kinds = [(DType::F32, 900), (DType::F64, 7), (DType::BF16, 1)];
    for ((dtype, rows), columns) in kinds.into_iter().flat_map(|kind| columns.map(|c| (kind, c))) {
        let parts = columns.map(|(at, count)| (0, at, count));
        let out = Value::new(dtype, [rows + 1, 106]);
        for parts in [parts.to_vec(), [&parts[..], &[(1, 30, 40)]].concat()] {
            let mut want = vec![1.0; out.len()];
            let (mut inputs, mut pieces) = (Vec::new(), Vec::new());
            for (seed, (row, column, count)) in (1..).zip(parts) {
                let input = whole(&Value::new(dtype, [rows, count]), seed);
                for (i, x) in input.data.iter().enumerate() {
                    want[(row + i / count) * 106 + column + i % count] = *x;
                }
                pieces.push(Piece {
                    begin: vec![Offset::default(); 2],
                    at: smallvec![row, column],
                    extents: smallvec![rows, count],
                });
                inputs.push(input);
            }
            let labels = vec![vec![0, 1]; pieces.len()];
            let step = step(Move { pieces, fill: Scalar::new(dtype, 1.0) }, labels, 1);
            let got = run(&inputs, std::slice::from_ref(&out), &step).unwrap().remove(0);
            assert!(got.data == want, "{dtype} {rows}");
        }
    }
}

proptest! {
    #[test]
    fn transposes(
        input in (1_usize..70, 1_usize..200, 1_usize..4, 0_usize..5).prop_flat_map(|(a, b, c, d)| {
            value(super::DTYPES[d], vec![a, c, b])
        })
    ) {
        let input = whole(&input, 5);
        let [a, c, b] = [0, 1, 2].map(|i| input.value.extents[i]);
        let out = Value::new(input.value.dtype, [b, a, c]);
        let piece = Piece {
            begin: vec![Offset::default(); 3],
            at: Extents::from_elem(0, 3),
            extents: out.extents.clone(),
        };
        let fill = Scalar::new(input.value.dtype, 0.0);
        let step = step(Move { pieces: vec![piece], fill }, [[1, 2, 0]], 1);
        let got = run(std::slice::from_ref(&input), &[out], &step).unwrap().remove(0);
        let mut want = Vec::new();
        for k in 0..b {
            for i in 0..a {
                want.extend((0..c).map(|j| input.data[(i * c + j) * b + k]));
            }
        }
        prop_assert_eq!(got.data, want);
    }
}

#[test]
fn offsets_follow_the_processor() {
    let mesh = Mesh::new([("rows", 2), ("cols", 3)]).unwrap();
    let cols = mesh.axis("cols").unwrap();
    let input = Tensor::new(Value::new(DType::F32, [6]), (0..6).map(f64::from));
    let piece =
        Piece { begin: vec![Offset::sliced(&[cols], 2)], at: smallvec![0], extents: smallvec![2] };
    let fill = Scalar::new(DType::F32, 0.0);
    let step = step(Move { pieces: vec![piece], fill }, [[0]], 1);
    for processor in 0..6 {
        let out = [Value::new(DType::F32, [2])];
        let got = run_with(std::slice::from_ref(&input), &out, &step, &mesh, processor, &[]);
        let first = (processor % 3 * 2) as f64;
        assert_eq!(got.unwrap()[0].data, [first, first + 1.0]);
    }
}

#[test]
fn reading_beyond_an_input_is_refused() {
    let input = whole(&Value::new(DType::F32, [3]), 0);
    let piece = Piece { begin: vec![Offset::fixed(2)], at: smallvec![0], extents: smallvec![2] };
    let fill = Scalar::new(DType::F32, 0.0);
    let step = step(Move { pieces: vec![piece], fill }, [[0]], 1);
    let error = run(&[input], &[Value::new(DType::F32, [2])], &step).unwrap_err();
    assert_eq!(error, "a move reads beyond dim 0 of its input");
}
