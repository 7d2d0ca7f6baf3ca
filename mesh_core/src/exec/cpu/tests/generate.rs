use super::{DTYPES, Tensor, run_with, step};
use crate::array::Array;
use crate::exec::sync::Arc;
use crate::names::{DType, Mesh};
use crate::program::forms::Generate;
use crate::program::{Generator, Offset, Scalar, Value};
use proptest::prelude::*;

/// The slice `begin..begin + extents` of something generated.
fn slice(generator: &Generator, begin: &[usize], global: &[usize], value: &Value) -> Tensor {
    salted(generator, &[], begin, global, value)
}

/// As [`slice`], with salts.
fn salted(
    generator: &Generator,
    salts: &[i32],
    begin: &[usize],
    global: &[usize],
    value: &Value,
) -> Tensor {
    shifted(generator, (salts, &[]), begin, global, value)
}

/// As [`salted`], from further on by shifts times strides.
fn shifted(
    generator: &Generator,
    (salts, shifts): (&[i32], &[(i32, u64)]),
    begin: &[usize],
    global: &[usize],
    value: &Value,
) -> Tensor {
    let scalar = |scalar: i32| Tensor::new(Value::new(DType::I32, []), [f64::from(scalar)]);
    let all = salts.iter().copied().chain(shifts.iter().map(|(shift, _)| *shift));
    let inputs: Vec<_> = all.map(scalar).collect();
    let form = Generate {
        generator: generator.clone(),
        begin: begin.iter().map(|&b| Offset::fixed(b)).collect(),
        global: global.iter().copied().collect(),
        strides: shifts.iter().map(|(_, stride)| *stride).collect(),
    };
    let step = step(form, inputs.iter().map(|_| []), 1);
    let outs = std::slice::from_ref(value);
    run_with(&inputs, outs, &step, &Mesh::single(), 0, &[]).unwrap().remove(0)
}

fn generators(dtype: DType, global: &[usize]) -> Vec<Generator> {
    let count: usize = global.iter().product();
    let numbers: Vec<f64> = (0..count).map(|i| (i % 97) as f64).collect();
    let table = ndarray::ArrayD::from_shape_vec(global, numbers).unwrap();
    let table: Array = match dtype {
        DType::F32 => table.mapv(|x| x as f32).into(),
        DType::F64 => table.into(),
        DType::BF16 => table.mapv(half::bf16::from_f64).into(),
        DType::I32 => table.mapv(|x| x as i32).into(),
        DType::Bool => table.mapv(|x| x > 40.0).into(),
    };
    let mut all = vec![Generator::Fill(Scalar::new(dtype, 3.0)), Generator::Table(Arc::new(table))];
    if dtype != DType::Bool {
        all.push(Generator::Uniform { key: 5, low: -3.0, high: 20.0 });
        all.push(Generator::Normal { key: 8, mean: 1.0, stddev: 2.0 });
        all.push(Generator::TruncatedNormal { key: 6, mean: 1.0, stddev: 2.0 });
        all.extend((0..global.len()).map(|dim| Generator::Iota(dim as u8)));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A slice in any memory order holds what the whole holds there.
    #[test]
    fn slices_agree_with_the_whole(
        dims in prop::collection::vec((0_usize..5, 1_usize..6, 0_usize..5), 0..4),
        dtype in 0_usize..5,
        turn in 0_usize..4,
    ) {
        let dtype = DTYPES[dtype];
        let global: Vec<_> = dims.iter().map(|d| d.0 + d.1 + d.2).collect();
        let begin: Vec<_> = dims.iter().map(|d| d.0).collect();
        let mut value = Value::new(dtype, dims.iter().map(|d| d.1));
        if !dims.is_empty() {
            value.order.rotate_left(turn % dims.len());
        }
        for generator in generators(dtype, &global) {
            let whole = Value::new(dtype, global.iter().copied());
            let all = slice(&generator, &vec![0; dims.len()], &global, &whole);
            let part = slice(&generator, &begin, &global, &value);
            let mut want = Vec::new();
            super::oracle::each(&value.extents, &mut |at| {
                let position = at.iter().zip(&begin).zip(&global);
                want.push(all.data[position.fold(0, |index, ((i, b), n)| index * n + i + b)]);
            });
            prop_assert_eq!(part.data, want, "{:?}", generator);
        }
    }
}

/// From a position on that scalars say stands what the whole has there; beyond 2^32, and before the first.
#[test]
fn shifted_draws_are_those_of_their_positions() {
    let generator = Generator::Uniform { key: 5, low: 0.0, high: 1.0 };
    let block = Value::new(DType::F32, [2, 3]);
    let part =
        |shifts: &[(i32, u64)]| shifted(&generator, (&[7], shifts), &[0, 0], &[4, 5], &block);
    let whole = salted(&generator, &[7], &[0, 0], &[4, 5], &Value::new(DType::F32, [4, 5]));
    let want: Vec<_> =
        [1, 2].iter().flat_map(|row| whole.data[row * 5 + 2..][..3].to_vec()).collect();
    assert_eq!(part(&[(1, 5), (2, 1)]).data, want);
    assert_eq!(part(&[(-3, 5), (22, 1)]).data, want);
    // So many rows of a large whole.
    let rows = (1 << 20) + 1;
    let far = Value::new(DType::F32, [1, 3]);
    let (global, begin) = ([rows, 1 << 20], [rows - 1, 2]);
    let there = salted(&generator, &[7], &begin, &global, &far);
    let shifts = [((rows - 1) as i32, 1 << 20), (2, 1)];
    let found = shifted(&generator, (&[7], &shifts), &[0, 0], &global, &far);
    assert_eq!(found.data, there.data);
}

#[test]
fn uniform_draws_are_uniform_and_agree_between_dtypes() {
    let n = 100_000;
    let generator = Generator::Uniform { key: 1, low: 0.0, high: 1.0 };
    let draws = |dtype| slice(&generator, &[0], &[n], &Value::new(dtype, [n])).data;
    let (single, double) = (draws(DType::F32), draws(DType::F64));
    let unit = f64::from(2.0_f32.powi(-24));
    assert!(single.iter().zip(&double).all(|(a, b)| a <= b && b - a < unit && *b < 1.0));
    let mean = double.iter().sum::<f64>() / n as f64;
    let square = double.iter().map(|x| x * x).sum::<f64>() / n as f64;
    // Three standard deviations.
    assert!((mean - 0.5).abs() < 3.0 * (1.0 / 12.0 / n as f64).sqrt());
    assert!((square - 1.0 / 3.0).abs() < 3.0 * (4.0 / 45.0 / n as f64).sqrt());
}

#[test]
fn narrow_ranges_never_reach_their_bound() {
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32] {
        for (low, high) in [(0.0, 1.0), (1000.0, 1001.0), (-1.0, 0.0)] {
            let generator = Generator::Uniform { key: 2, low, high };
            let value = Value::new(dtype, [20_000]);
            let data = slice(&generator, &[0], &[20_000], &value).data;
            assert!(data.iter().all(|&x| x >= low && x < high), "{dtype} {low} {high}");
        }
    }
}

#[test]
fn normal_draws_are_cut_at_two_deviations() {
    let n = 100_000;
    let generator = Generator::TruncatedNormal { key: 3, mean: 0.0, stddev: 1.0 };
    let data = slice(&generator, &[0], &[n], &Value::new(DType::F64, [n])).data;
    assert!(data.iter().all(|x| x.abs() <= 2.0));
    assert!(data.iter().any(|x| *x > 1.95) && data.iter().any(|x| *x < -1.95));
    let mean = data.iter().sum::<f64>() / n as f64;
    let variance = data.iter().map(|x| x * x).sum::<f64>() / n as f64;
    assert!(mean.abs() < 3.0 * (0.774 / n as f64).sqrt());
    // 1 - 4 phi(2) / (1 - 2 Phi(-2))
    assert!((variance - 0.773_741_3).abs() < 0.01);
}

#[test]
fn normal_draws_have_their_moments() {
    let n = 100_000;
    let generator = Generator::Normal { key: 4, mean: 1.0, stddev: 2.0 };
    let data = slice(&generator, &[0], &[n], &Value::new(DType::F64, [n])).data;
    let moment =
        |power: i32| data.iter().map(|x| ((x - 1.0) / 2.0).powi(power)).sum::<f64>() / n as f64;
    // Four standard deviations; the variance of x^k is E x^2k - (E x^k)^2.
    let off = |variance: f64| 4.0 * (variance / n as f64).sqrt();
    assert!(moment(1).abs() < off(1.0));
    assert!((moment(2) - 1.0).abs() < off(2.0));
    assert!(moment(3).abs() < off(15.0));
    assert!((moment(4) - 3.0).abs() < off(96.0));
    assert!(data.iter().any(|x| *x > 7.0) && data.iter().any(|x| *x < -5.0));
}

#[test]
fn whole_draws_meet_every_number_alike() {
    let n = 70_000;
    let generator = Generator::Uniform { key: 9, low: -3.0, high: 4.0 };
    let data = slice(&generator, &[0], &[n], &Value::new(DType::I32, [n])).data;
    for number in -3..4 {
        let count = data.iter().filter(|&&x| x == f64::from(number)).count() as f64;
        // Five standard deviations.
        assert!((count - 10_000.0).abs() < 5.0 * (10_000.0_f64 * 6.0 / 7.0).sqrt(), "{number}");
    }
}

#[test]
fn salts_give_other_draws() {
    let value = Value::new(DType::F32, [8]);
    let generator = Generator::Uniform { key: 1, low: 0.0, high: 1.0 };
    let draw = |salts: &[i32]| salted(&generator, salts, &[0], &[8], &value).data;
    let all = [&[][..], &[0], &[1], &[0, 1], &[1, 0]].map(draw);
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other != one));
    }
    assert_eq!(draw(&[3]), draw(&[3]));
}

#[test]
fn keys_and_seeds_give_other_draws() {
    let value = Value::new(DType::F32, [8]);
    let draw = |key| {
        let generator = Generator::Uniform { key, low: 0.0, high: 1.0 };
        slice(&generator, &[0], &[8], &value).data
    };
    assert_ne!(draw(1), draw(2));
    assert_eq!(draw(1), draw(1));
}
