use super::oracle::{declared, each, extents, get, index};
use super::{Tensor, run, step, value, whole};
use crate::exec::cpu::convolve::choice::{WANTED, Way};
use crate::names::DType;
use crate::program::forms::Convolve;
use crate::program::{Value, Window};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    factors: [Tensor; 2],
    dims: [Vec<u8>; 2],
    windows: Vec<Window>,
    out: Value,
}

/// The result in the way that is chosen, or in another.
fn convolve(case: &Case, way: Option<Way>) -> Tensor {
    let windows = case.windows.iter().copied().collect();
    let step = step(Convolve { windows }, &case.dims, 1);
    WANTED.set(way);
    let mut results = run(&case.factors, std::slice::from_ref(&case.out), &step).unwrap();
    WANTED.set(None);
    results.remove(0)
}

fn expected(case: &Case) -> Tensor {
    let ([lhs, rhs], [left, right]) = (&case.factors, &case.dims);
    let of = declared(case.out.extents.len());
    let mut data = vec![0.0; case.out.len()];
    let all = extents(&[(&lhs.value, left), (&rhs.value, right), (&case.out, &of)]);
    each(&all, &mut |at| {
        let tied = case.windows.iter().all(|w| {
            let [i, k, o] = [w.input, w.kernel, w.output].map(|l| at[l as usize]);
            i + w.pad == w.stride * o + w.dilation * k
        });
        if tied {
            data[index(&case.out, &of, at)] += get(lhs, left, at) * get(rhs, right, at);
        }
    });
    Tensor::new(case.out.clone(), data)
}

/// What a label belongs to: bits image 1, kernel 2, output 4.
type Label = (usize, u8);

/// Sizes of (input, kernel, output), stride, dilation and padding of a window.
fn window() -> impl Strategy<Value = ([usize; 3], [usize; 3])> {
    (1_usize..4, 1_usize..6, 1_usize..3, 1_usize..3, 0_usize..3, 0_usize..3).prop_map(
        |(kernel, output, stride, dilation, pad, more)| {
            let reach = stride * (output - 1) + dilation * (kernel - 1) + 1;
            let input = (reach + more).saturating_sub(2 * pad).max(1);
            ([input, kernel, output], [stride, dilation, pad])
        },
    )
}

/// Builds a case from labels by part; `result` is the part that is computed: 0 image, 1 kernel,
/// 2 output.
fn build(
    windows: Vec<([usize; 3], [usize; 3])>,
    others: Vec<Label>,
    result: usize,
    dtype: DType,
    seed: u64,
) -> impl Strategy<Value = Case> {
    let mut labels: Vec<Label> = Vec::new();
    let mut tied = Vec::new();
    for (sizes, [stride, dilation, pad]) in windows {
        let at = labels.len();
        labels.extend([(sizes[0], 1), (sizes[1], 2), (sizes[2], 4)]);
        tied.push(([at, at + 1, at + 2], [stride, dilation, pad]));
    }
    labels.extend(others);
    // Labels of the result come first.
    let in_result = |l: &usize| labels[*l].1 >> result & 1 == 1;
    let mut names: Vec<usize> = (0..labels.len()).filter(in_result).collect();
    names.extend((0..labels.len()).filter(|l| !in_result(l)));
    let name = |l: usize| names.iter().position(|&n| n == l).unwrap() as u8;
    let windows: Vec<_> = tied
        .iter()
        .map(|(of, [stride, dilation, pad])| Window {
            input: name(of[0]),
            kernel: name(of[1]),
            output: name(of[2]),
            stride: *stride,
            dilation: *dilation,
            pad: *pad,
        })
        .collect();
    let part = |p: usize| -> Vec<u8> {
        (0..labels.len()).filter(|&l| labels[l].1 >> p & 1 == 1).map(name).collect()
    };
    let mut sides: Vec<Vec<u8>> = (0..3).filter(|&p| p != result).map(part).collect();
    if seed % 2 == 1 {
        sides.reverse();
    }
    let sizes: Vec<usize> = names.iter().map(|&n| labels[n].0).collect();
    let rank = labels.iter().filter(|l| l.1 >> result & 1 == 1).count();
    let shuffled = (Just(sides.remove(0)).prop_shuffle(), Just(sides.remove(0)).prop_shuffle());
    (shuffled, value(dtype, sizes[..rank].to_vec())).prop_flat_map(move |((left, right), out)| {
        let of = |dims: &[u8]| dims.iter().map(|&d| sizes[d as usize]).collect();
        let factors = (value(dtype, of(&left)), value(dtype, of(&right)));
        let windows = windows.clone();
        factors.prop_map(move |(a, b)| Case {
            factors: [whole(&a, seed), whole(&b, !seed)],
            dims: [left.clone(), right.clone()],
            windows: windows.clone(),
            out: out.clone(),
        })
    })
}

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![3 => Just(DType::F32), 2 => Just(DType::F64), 1 => Just(DType::BF16), 1 => Just(DType::I32)]
}

/// Batch, channels, features and groups of usual convolutions, in random memory orders.
fn usual() -> impl Strategy<Value = Case> {
    let size = || prop_oneof![1_usize..4, 5_usize..20];
    let others = (
        prop::collection::vec((prop_oneof![1_usize..4, 25_usize..40], Just(0b101_u8)), 0..3),
        prop::collection::vec((size(), Just(0b011_u8)), 0..2),
        prop::collection::vec((size(), Just(0b110_u8)), 0..2),
        prop::collection::vec((prop_oneof![1_usize..3, 4_usize..40], Just(0b111_u8)), 0..2),
    );
    let windows = prop::collection::vec(window(), 1..3);
    (windows, others, 0_usize..3, dtype(), any::<u64>())
        .prop_map(|(windows, (mut all, c, f, g), result, dtype, seed)| {
            all.extend(c.into_iter().chain(f).chain(g));
            (windows, all, result, dtype, seed)
        })
        .prop_filter("small", |(windows, others, ..)| {
            let windows = windows.iter().map(|w| w.0.iter().product::<usize>());
            windows.chain(others.iter().map(|l| l.0)).product::<usize>() <= 200_000
        })
        .prop_flat_map(|(windows, others, result, dtype, seed)| {
            build(windows, others, result, dtype, seed)
        })
}

/// Groups of few channels, which are convolved as they lie if their columns are neighbours.
fn narrow() -> impl Strategy<Value = Case> {
    let size = || prop_oneof![2 => Just(4_usize), 2 => Just(8), 1 => Just(12), 1 => Just(3)];
    let others = (1_usize..4, 2_usize..6, size(), size());
    let windows = prop::collection::vec(window(), 1..3);
    (windows, others, 0_usize..3, dtype(), any::<u64>()).prop_flat_map(
        |(windows, (batch, groups, channels, features), result, dtype, seed)| {
            let labels = [(batch, 0b101), (groups, 0b111), (channels, 0b011), (features, 0b110)];
            build(windows, labels.to_vec(), result, dtype, seed)
        },
    )
}

/// Any labels at all, but none that only the result has.
fn odd() -> impl Strategy<Value = Case> {
    let others = prop::collection::vec((1_usize..4, 1_u8..8), 0..4);
    let windows = prop::collection::vec(window(), 1..3);
    (windows, others, 0_usize..3, dtype(), any::<u64>())
        .prop_filter("from nowhere", |(_, others, result, ..)| {
            others.iter().all(|l| l.1 != 1 << result)
        })
        .prop_flat_map(|(windows, others, result, dtype, seed)| {
            build(windows, others, result, dtype, seed)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn usual_convolutions_match_brute_force(case in usual()) {
        let expected = expected(&case);
        for way in [None, Some(Way::Tiles), Some(Way::Gathered), Some(Way::Blocks)] {
            prop_assert_eq!(convolve(&case, way), expected.clone());
        }
    }

    #[test]
    fn groups_of_few_channels_match_brute_force(case in narrow()) {
        prop_assert_eq!(convolve(&case, None), expected(&case));
    }

    #[test]
    fn odd_convolutions_match_brute_force(case in odd()) {
        prop_assert_eq!(convolve(&case, None), expected(&case));
    }
}

/// Batch, side of image, channels, features, side of kernel, stride, padding.
type Sizes = [usize; 7];

/// Each of image, kernel and output from the other two, in declared orders `batch, rows, columns,
/// channels` and `rows, columns, channels, features`, summed term by term.
fn large(sizes: Sizes, result: usize) -> (Case, Tensor) {
    let [batch, side, channels, features, kernel, stride, pad] = sizes;
    let size = (side + 2 * pad - kernel) / stride + 1;
    let shapes = [
        [batch, side, side, channels],
        [kernel, kernel, channels, features],
        [batch, size, size, features],
    ];
    let values = shapes.map(|shape| Value::new(DType::F32, shape));
    let all: [Tensor; 3] = [0, 1, 2].map(|k| whole(&values[k], k as u64 + 5));
    let [a, b] = [[1, 2], [0, 2], [0, 1]][result];
    let (one, other) = (&all[a].data, &all[b].data);
    let mut data = vec![0.0; values[result].len()];
    let at = |k: usize, i: [usize; 4]| i.iter().zip(shapes[k]).fold(0, |at, (i, n)| at * n + i);
    let along = |o: usize| {
        let input = move |k: usize| (stride * o + k).checked_sub(pad).filter(|&i| i < side);
        (0..kernel).filter_map(move |k| input(k).map(|i| (k, i)))
    };
    for (n, y, x) in (0..batch * size * size).map(|p| (p / size / size, p / size % size, p % size))
    {
        for ((ky, iy), (kx, ix)) in along(y).flat_map(|v| along(x).map(move |h| (v, h))) {
            for c in 0..channels {
                let places = [at(0, [n, iy, ix, c]), at(1, [ky, kx, c, 0]), at(2, [n, y, x, 0])];
                for f in 0..features {
                    let [a, b, sum] = [a, b, result].map(|k| places[k] + f * usize::from(k > 0));
                    data[sum] += one[a] * other[b];
                }
            }
        }
    }
    // Labels of image, kernel and output, those of the result first.
    let labels = match result {
        0 => [[0, 1, 2, 3], [4, 5, 3, 6], [0, 7, 8, 6]],
        1 => [[4, 5, 6, 2], [0, 1, 2, 3], [4, 7, 8, 3]],
        _ => [[0, 4, 5, 6], [7, 8, 6, 3], [0, 1, 2, 3]],
    };
    let window = |dim: usize| Window {
        input: labels[0][1 + dim],
        kernel: labels[1][dim],
        output: labels[2][1 + dim],
        stride,
        dilation: 1,
        pad,
    };
    let case = Case {
        factors: [all[a].clone(), all[b].clone()],
        dims: [labels[a].to_vec(), labels[b].to_vec()],
        windows: vec![window(0), window(1)],
        out: values[result].clone(),
    };
    (case, Tensor::new(values[result].clone(), data))
}

/// Sizes at which there are several chunks of images, and every shape of block. Sums stay below
/// 2^24: they are exact in any order.
#[test]
fn large_convolutions_are_exact() {
    let all: [Sizes; 16] = [
        [100, 28, 1, 16, 9, 1, 4],
        [101, 28, 1, 16, 9, 1, 4],
        [7, 28, 16, 16, 9, 1, 4],
        [3, 22, 16, 16, 9, 1, 0],
        [40, 15, 16, 16, 9, 1, 0],
        [20, 16, 16, 16, 5, 1, 2],
        [9, 9, 16, 20, 7, 1, 3],
        [16, 14, 32, 64, 3, 1, 1],
        [20, 15, 16, 16, 4, 1, 2],
        [20, 28, 16, 32, 3, 2, 1],
        [70, 10, 16, 48, 1, 1, 0],
        [40, 4, 300, 70, 3, 1, 1],
        // Several lines of an image in a chunk, and part of a panel.
        [2, 37, 13, 37, 3, 1, 1],
        [3, 41, 15, 50, 3, 2, 1],
        [9, 3, 1100, 33, 2, 1, 1],
        [2, 23, 33, 32, 5, 3, 2],
    ];
    for (sizes, result) in all.into_iter().flat_map(|sizes| (0..3).map(move |k| (sizes, k))) {
        let (case, want) = large(sizes, result);
        for way in [Way::Tiles, Way::Gathered, Way::Blocks] {
            let found = convolve(&case, Some(way));
            let wrong = found.data.iter().zip(&want.data).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "result {result} of {sizes:?}, {way:?}");
        }
    }
}
