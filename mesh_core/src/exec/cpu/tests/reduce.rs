use super::oracle::{declared, each, extents, get, index};
use super::{DTYPES, Tensor, run, step, value, whole};
use crate::names::{DType, ReduceKind};
use crate::program::forms::Reduce;
use crate::program::{Body, Expr, Value};
use proptest::prelude::*;

const KINDS: [ReduceKind; 6] = [
    ReduceKind::Sum,
    ReduceKind::Prod,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::All,
    ReduceKind::Any,
];

fn fold(kind: ReduceKind, a: f64, b: f64) -> f64 {
    match kind {
        ReduceKind::Sum => a + b,
        ReduceKind::Prod => a * b,
        ReduceKind::Max if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceKind::Min if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceKind::Max => a.max(b),
        ReduceKind::Min => a.min(b),
        ReduceKind::All => a * b,
        ReduceKind::Any => a.max(b),
        ReduceKind::Select => unreachable!("folded over groups only"),
    }
}

fn reduce(kind: ReduceKind, input: &Tensor, dims: &[u8], out: &Value) -> Tensor {
    let step = step(Reduce::new(kind), [dims], 1);
    run(std::slice::from_ref(input), std::slice::from_ref(out), &step).unwrap().remove(0)
}

fn expected(kind: ReduceKind, input: &Tensor, dims: &[u8], out: &Value) -> Tensor {
    let of = declared(out.extents.len());
    let mut data = vec![None; out.len()];
    each(&extents(&[(&input.value, dims), (out, &of)]), &mut |at| {
        let (x, held) = (get(input, dims, at), &mut data[index(out, &of, at)]);
        *held = Some(held.map_or(x, |held| fold(kind, held, x)));
    });
    Tensor::new(out.clone(), data.into_iter().map(Option::unwrap))
}

/// An input whose dims have random labels, and an out of the first `rank` labels.
fn case() -> impl Strategy<Value = (ReduceKind, Tensor, Vec<u8>, Value)> {
    let sizes = prop::collection::vec(prop_oneof![3 => 1_usize..6, 1 => 60_usize..70], 0..=4)
        .prop_filter("small", |sizes| sizes.iter().product::<usize>() <= 20_000);
    (0..KINDS.len(), 0..DTYPES.len(), sizes, 0_usize..=4, any::<u64>())
        .prop_map(|(kind, dtype, sizes, rank, seed)| {
            let logical = kind >= 4;
            let dtype = if logical { DType::Bool } else { DTYPES[dtype % 4] };
            let rank = rank.min(sizes.len());
            (KINDS[kind], dtype, sizes, rank, seed)
        })
        .prop_flat_map(|(kind, dtype, sizes, rank, seed)| {
            let labels: Vec<u8> = (0..sizes.len() as u8).collect();
            (Just((kind, dtype, sizes, rank, seed)), Just(labels).prop_shuffle())
        })
        .prop_flat_map(|((kind, dtype, sizes, rank, seed), labels)| {
            let extents = labels.iter().map(|&l| sizes[l as usize]).collect();
            let out = value(dtype, sizes[..rank].to_vec());
            (value(dtype, extents), out, Just((kind, seed, labels)))
        })
        .prop_map(|(input, out, (kind, seed, labels))| {
            let mut input = whole(&input, seed);
            if kind == ReduceKind::Prod {
                // Powers of two near 1, so that products stay exact.
                let few = |(i, x): (usize, &f64)| if i % 64 == 0 { 2.0 } else { x.signum() };
                let data: Vec<_> = input.data.iter().enumerate().map(few).collect();
                input = Tensor::new(input.value, data);
                input.data.iter_mut().for_each(|x| *x = if *x == 0.0 { -1.0 } else { *x });
            }
            (kind, input, labels, out)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reductions_match_brute_force((kind, input, dims, out) in case()) {
        let got = reduce(kind, &input, &dims, &out);
        let want = expected(kind, &input, &dims, &out);
        if kind == ReduceKind::Prod && input.value.dtype == DType::I32 {
            let wrap = |x: &f64| if x.abs() < 2e9 { *x } else { 0.0 };
            let pairs = got.data.iter().zip(&want.data).filter(|(_, b)| b.abs() < 2e9);
            for (a, b) in pairs { prop_assert_eq!(wrap(a), wrap(b)); }
        } else {
            prop_assert_eq!(got, want);
        }
    }
}

impl Tensor {
    /// The same numbers in another dtype.
    fn of(self, dtype: DType) -> Self {
        Self::new(Value { dtype, ..self.value }, self.data)
    }
}

/// Expressions of a value, of another with fewer dims, and of one of bools.
fn expressions() -> [Expr; 4] {
    let [a, b, c] = [0, 1, 2].map(Expr::input);
    let square = (a.clone() - b.clone()) * (a.clone() - b.clone());
    [square, c.select(a.clone(), b.clone()), a.clone() * b.clone(), a.max(b) - 1.0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// `run` judges by the meaning; here the operands are what they may be: turned, repeated, of other dtypes.
    #[test]
    fn folds_of_expressions_mean_what_they_say(
        (kind, input, labels, out) in case(),
        which in 0_usize..4,
        dims in prop::collection::vec(any::<bool>(), 8),
    ) {
        let dtype = out.dtype.reduction();
        let dtype = if dtype == DType::Bool { DType::F64 } else { dtype };
        let kind = if kind == ReduceKind::Max { kind } else { ReduceKind::Sum };
        let (input, out) = (input.of(dtype), Value { dtype, ..out });
        let part = |from: usize| -> Vec<u8> {
            let kept = labels.iter().enumerate().filter(|(i, _)| dims[(from + i) % 8]);
            kept.map(|(_, &label)| label).rev().collect()
        };
        let sizes = extents(&[(&input.value, &labels)]);
        let of = |labels: &[u8]| labels.iter().map(|&l| sizes[l as usize]).collect::<Vec<_>>();
        let (one, two) = (part(0), part(4));
        let other = whole(&Value::new(dtype, of(&one)), 5);
        let chosen = whole(&Value::new(DType::Bool, of(&two)), 9);
        let expr = expressions()[which].clone();
        let body = Body::new(&[dtype, dtype, DType::Bool], &[(expr, dtype)]).unwrap();
        let step = step(Reduce { kind, body: Some(body) }, [&labels, &one, &two], 1);
        run(&[input, other, chosen], std::slice::from_ref(&out), &step).unwrap();
    }
}

#[test]
fn expressions_of_many_tiles_are_folded_to_few_and_to_many() {
    let (a, b) = (Expr::input(0), Expr::input(1));
    let difference = a.clone() - b.clone();
    let exprs = [
        a.clone() * b.clone(),
        difference.clone() * difference.clone(),
        difference.clone() * difference * 0.5,
        a.clone() * a.clone(),
        b.clone() * b.clone(),
        (a.clone() - b.clone()) * a.clone(),
        b.clone() * (a.clone() - b.clone()),
        a.clone() * b.clone() * a.clone(),
        b.clone() * a.clone() * 0.5,
        (a.clone() - b.clone()) * b.clone() * a.clone(),
        a.clone() * (0.5 * (a.clone() - b.clone())),
        (b.clone() - a.clone()) * b * a,
    ];
    let cases = [
        ([2, 70, 64], [0, 2, 1], 2),
        ([2, 70, 64], [0, 1, 2], 2),
        ([2, 70, 64], [2, 0, 1], 1),
        ([2, 9, 768], [0, 1, 2], 2),
        ([2, 9, 768], [0, 2, 1], 2),
        ([9, 2, 300], [1, 0, 2], 2),
        ([3, 1500, 4], [0, 1, 2], 1),
        ([3, 1500, 4], [1, 2, 0], 1),
        ([700, 5, 9], [1, 2, 0], 2),
        ([70, 50, 2], [2, 1, 0], 0),
        ([1, 2100, 3], [2, 1, 0], 2),
    ];
    for (expr, (extents, labels, rank)) in
        exprs.iter().flat_map(|expr| cases.iter().map(move |case| (expr, *case)))
    {
        let body = Body::new(&[DType::F32; 2], &[(expr.clone(), DType::F32)]).unwrap();
        let input = whole(&Value::new(DType::F32, extents), 3);
        let dim = labels.iter().position(|&label| label == 1).unwrap();
        let other = whole(&Value::new(DType::F32, [extents[dim]]), 4);
        let kept = (0..rank).map(|label| extents[labels.iter().position(|&l| l == label).unwrap()]);
        let out = Value::new(DType::F32, kept.collect::<Vec<_>>());
        let form = Reduce { kind: ReduceKind::Sum, body: Some(body) };
        let step = step(form, [&labels[..], &[1]], 1);
        run(&[input, other], &[out], &step).unwrap();
    }
}

#[test]
fn bf16_sums_are_held_in_f32() {
    let value = Value::new(DType::BF16, [1000]);
    let input = Tensor::new(value, vec![1.0; 1000]);
    let out = reduce(ReduceKind::Sum, &input, &[0], &Value::new(DType::BF16, []));
    assert_eq!(out.data, [1000.0]);
}

#[test]
fn nan_wins_every_maximum() {
    for (len, at) in [(1, 0), (5, 2), (64, 63), (200, 5), (200, 131), (5000, 4999), (5000, 17)] {
        for kind in [ReduceKind::Max, ReduceKind::Min] {
            for dtype in [DType::F32, DType::F64, DType::BF16] {
                let mut input = whole(&Value::new(dtype, [len, 3]), 1);
                input.data[at * 3 + 1] = f64::NAN;
                let out = reduce(kind, &input, &[1, 0], &Value::new(dtype, [3]));
                assert_eq!(out.data.map_nan(), [false, true, false]);
                let input = Tensor { value: Value::new(dtype, [3 * len]), data: input.data };
                let out = reduce(kind, &input, &[0], &Value::new(dtype, []));
                assert!(out.data[0].is_nan());
            }
        }
    }
}

trait MapNan {
    fn map_nan(&self) -> Vec<bool>;
}

impl MapNan for Vec<f64> {
    fn map_nan(&self) -> Vec<bool> {
        self.iter().map(|x| x.is_nan()).collect()
    }
}

#[test]
fn long_sums_stay_accurate() {
    /// A term is rounded with its lane, its block and the blocks: 64 + 6 + 256 times.
    const ROUNDINGS: f64 = 326.0 / 16_777_216.0;
    let value = Value::new(DType::F32, [1 << 20]);
    let input = Tensor::new(value, (0..1 << 20).map(|i| 0.1 + f64::from(i % 13)));
    let exact: f64 = input.data.iter().sum();
    let out = reduce(ReduceKind::Sum, &input, &[0], &Value::new(DType::F32, []));
    assert!((out.data[0] / exact - 1.0).abs() < ROUNDINGS, "{} {exact}", out.data[0]);
}

#[test]
fn wrong_dtypes_are_refused() {
    let step = step(Reduce::new(ReduceKind::Sum), [[0]], 1);
    let input = whole(&Value::new(DType::Bool, [3]), 0);
    let error = run(&[input], &[Value::new(DType::Bool, [])], &step).unwrap_err();
    assert_eq!(error, "there is no sum of bool");
}
