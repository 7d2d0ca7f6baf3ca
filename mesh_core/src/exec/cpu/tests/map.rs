use super::oracle::{declared, each, get, index};
use super::{DTYPES, Tensor, block, run, run_with, value, whole};
use crate::names::{DType, Mesh};
use crate::program::forms::Map;
use crate::program::{
    Block, Body, Expr, Instr, Operand, Prim, Reg, Scalar, Step, Value, erf_inv, normal_cdf,
};
use proptest::prelude::*;

/// Whether an out of `Map` may lie where this input lies: then tile by tile the input is read
/// before the out is written.
fn can_alias(block: &Block, step: &Step, input_index: usize) -> bool {
    let Some(input) = step.inputs.get(input_index) else { return false };
    let value = block.value(input.value);
    let mut same_value = step.inputs.iter().filter(|other| other.value == input.value);
    let fits = |out: &Value| {
        out.dtype.size() == value.dtype.size()
            && out.extents == value.extents
            && out.strides() == value.strides()
    };
    same_value.all(Operand::is_whole) && step.outs.iter().all(|&out| fits(block.value(out)))
}

/// Whole numbers of i32 by a function of their bits, the sign's first.
fn bit_by_bit(a: f64, b: f64, function: impl Fn([bool; 2]) -> bool) -> f64 {
    let bit = |x: f64, k: i32| (x / f64::from(k).exp2()).floor().rem_euclid(2.0) == 1.0;
    let worth = |k: i32| if k == 31 { -f64::from(k).exp2() } else { f64::from(k).exp2() };
    (0..32).filter(|&k| function([bit(a, k), bit(b, k)])).map(worth).sum()
}

/// One element by the definitions in `Prim`'s documentation; i32 in i64, floats in f64.
fn evaluate(prim: Prim, [a, b, c]: [f64; 3], dtype: DType, of: DType) -> f64 {
    let whole = |x: f64| if of == DType::I32 { f64::from(x as i64 as i32) } else { x };
    let nan = a.is_nan() || b.is_nan();
    let truth = |x: bool| f64::from(u8::from(x));
    let result = match prim {
        Prim::Neg => whole(-a),
        Prim::Abs => whole(a.abs()),
        Prim::Sign if a == 0.0 || a.is_nan() => a,
        Prim::Sign => a.signum(),
        Prim::Floor => a.floor(),
        Prim::Ceil => a.ceil(),
        Prim::Round => a.round_ties_even(),
        Prim::Sqrt => a.sqrt(),
        Prim::Rsqrt => 1.0 / a.sqrt(),
        Prim::Exp => a.exp(),
        Prim::Exp2 => a.exp2(),
        Prim::Log => a.ln(),
        Prim::Log2 => a.log2(),
        Prim::Log10 => a.log10(),
        Prim::Log1p => a.ln_1p(),
        Prim::Tanh => a.tanh(),
        Prim::Logistic => 1.0 / (1.0 + (-a).exp()),
        Prim::Sin => a.sin(),
        Prim::Cos => a.cos(),
        Prim::Tan => a.tan(),
        Prim::Asin => a.asin(),
        Prim::Acos => a.acos(),
        Prim::ErfInv => erf_inv(a),
        Prim::NormalCdf => normal_cdf(a),
        Prim::Erf => libm::erf(a),
        Prim::Erfc => libm::erfc(a),
        Prim::Not if of == DType::I32 => -1.0 - a,
        Prim::Not => 1.0 - a,
        Prim::Add => whole(a + b),
        Prim::Sub => whole(a - b),
        Prim::Mul => whole(a * b),
        Prim::Div | Prim::Mod if of == DType::I32 && b == 0.0 => 0.0,
        Prim::Div if of == DType::I32 => whole((a / b).trunc()),
        Prim::Div => a / b,
        Prim::Mod if of == DType::I32 => a - b * (a / b).floor(),
        Prim::Mod => {
            return Scalar::new(of, a - b * (Scalar::new(of, a / b).value()).floor()).value();
        }
        Prim::Pow => a.powf(b),
        Prim::Max | Prim::Min if nan => f64::NAN,
        // Of zeros the second; std leaves their order open.
        Prim::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        Prim::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        Prim::Atan2 => a.atan2(b),
        Prim::Copysign if b < 0.0 || b == 0.0 && 1.0 / b < 0.0 => -a.abs(),
        Prim::Copysign => a.abs(),
        Prim::And | Prim::Or | Prim::Xor => bit_by_bit(a, b, |[a, b]| match prim {
            Prim::And => a && b,
            Prim::Or => a || b,
            _ => a != b,
        }),
        Prim::Shl if !(0.0..32.0).contains(&b) => 0.0,
        Prim::Shl => whole(a * b.exp2()),
        Prim::Shr => (a / b.rem_euclid(4_294_967_296.0).min(31.0).exp2()).floor(),
        Prim::Eq => truth(a == b),
        Prim::Ne => truth(a != b),
        Prim::Lt => truth(a < b),
        Prim::Le => truth(a <= b),
        Prim::Gt => truth(a > b),
        Prim::Ge => truth(a >= b),
        Prim::Select => {
            if a != 0.0 {
                b
            } else {
                c
            }
        }
        Prim::Cast => a,
    };
    // Registers of bf16 are computed in f32; only casts from other dtypes round them.
    let rounds = prim == Prim::Cast && of != dtype;
    let held = if dtype == DType::BF16 && !rounds { DType::F32 } else { dtype };
    Scalar::new(held, result).value()
}

pub(super) fn expected(
    body: &Body,
    inputs: &[Tensor],
    dims: &[Vec<u8>],
    outs: &[Value],
) -> Vec<Tensor> {
    let of = declared(outs[0].extents.len());
    let mut data = vec![vec![0.0; outs[0].len()]; outs.len()];
    each(&outs[0].extents, &mut |at| {
        let mut regs: Vec<f64> = Vec::new();
        for (instr, dtype) in &body.code {
            regs.push(match instr {
                Instr::Input(i) => get(&inputs[*i as usize], &dims[*i as usize], at),
                Instr::Const(scalar) => scalar.value(),
                Instr::Apply(prim, args) => {
                    let typed = body.code[args[prim.arity() - 1].0 as usize].1;
                    evaluate(*prim, args.map(|a| regs[a.0 as usize]), *dtype, typed)
                }
            });
        }
        for ((data, out), reg) in data.iter_mut().zip(outs).zip(&body.results) {
            data[index(out, &of, at)] = regs[reg.0 as usize];
        }
    });
    outs.iter().zip(data).map(|(out, data)| Tensor::new(out.clone(), data)).collect()
}

/// Rounded as stated, so brute force gives the same bits.
const EXACT: [Prim; 28] = [
    Prim::Neg,
    Prim::Abs,
    Prim::Sign,
    Prim::Floor,
    Prim::Ceil,
    Prim::Round,
    Prim::Not,
    Prim::Add,
    Prim::Sub,
    Prim::Mul,
    Prim::Div,
    Prim::Max,
    Prim::Min,
    Prim::And,
    Prim::Or,
    Prim::Xor,
    Prim::Shl,
    Prim::Shr,
    Prim::Eq,
    Prim::Ne,
    Prim::Lt,
    Prim::Le,
    Prim::Gt,
    Prim::Ge,
    Prim::Select,
    Prim::Cast,
    Prim::Sqrt,
    Prim::Copysign,
];

/// A body of random instructions over inputs of the given dtypes; registers are drawn from those
/// that fit.
fn body(inputs: &[DType], draws: &[(usize, usize, usize, usize)], outs: usize) -> Body {
    let mut code: Vec<(Instr, DType)> =
        inputs.iter().enumerate().map(|(i, &d)| (Instr::Input(i as u8), d)).collect();
    for &(what, a, b, c) in draws {
        let pick = |code: &[(Instr, DType)], n: usize, dtype: Option<DType>| {
            let fits: Vec<_> =
                (0..code.len()).filter(|&r| dtype.is_none_or(|d| code[r].1 == d)).collect();
            (!fits.is_empty()).then(|| fits[n % fits.len()])
        };
        let Some(&prim) = EXACT.get(what % 31) else {
            let dtype = DTYPES[a % 5];
            code.push((Instr::Const(Scalar::new(dtype, b as f64 - 4.0)), dtype));
            continue;
        };
        let first = if prim == Prim::Select { Some(DType::Bool) } else { None };
        let Some(x) = pick(&code, a, first) else { continue };
        let of = if prim == Prim::Select { None } else { Some(code[x].1) };
        let Some(y) = pick(&code, b, of) else { continue };
        let Some(z) = pick(&code, c, Some(code[y].1)) else { continue };
        let args = match prim.arity() {
            1 => [x; 3],
            2 => [x, y, x],
            _ => [x, y, z],
        };
        let typed = code[args[prim.arity() - 1]].1;
        if prim != Prim::Cast && prim != Prim::Select && !prim.accepts(typed) {
            continue;
        }
        let dtype = match prim {
            Prim::Cast => DTYPES[b % 5],
            _ if prim.is_comparison() => DType::Bool,
            _ => typed,
        };
        code.push((Instr::Apply(prim, args.map(|r| Reg(r as u16))), dtype));
    }
    let results = (0..outs).map(|k| Reg((code.len() - 1 - k % code.len()) as u16)).collect();
    Body { code, results }
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) body: Body,
    pub(super) inputs: Vec<Tensor>,
    pub(super) dims: Vec<Vec<u8>>,
    pub(super) outs: Vec<Value>,
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = prop::collection::vec(
        prop_oneof![4 => 1_usize..6, 1 => 14_usize..18, 1 => 100_usize..130],
        0..=4,
    )
    .prop_filter("small", |sizes| sizes.iter().product::<usize>() <= 10_000);
    let input = (0_usize..5, any::<u64>());
    let draw = (any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>());
    let draw = draw.prop_map(|(what, a, b, c)| (what, a % 64, b % 9, c % 64));
    (sizes, prop::collection::vec(input, 1..4), prop::collection::vec(draw, 0..14), 1_usize..3)
        .prop_flat_map(|(sizes, inputs, draws, outs)| {
            let labels: Vec<_> = inputs
                .iter()
                .map(|(_, seed)| {
                    let all: Vec<u8> = (0..sizes.len() as u8).collect();
                    let has = |l: &u8| seed >> l & 3 != 0;
                    Just(all.into_iter().filter(has).collect::<Vec<_>>()).prop_shuffle()
                })
                .collect();
            (Just((sizes, inputs, draws, outs)), labels)
        })
        .prop_flat_map(|((sizes, inputs, draws, outs), dims)| {
            let dtypes: Vec<_> = inputs.iter().map(|i| DTYPES[i.0]).collect();
            let body = body(&dtypes, &draws, outs);
            let values: Vec<_> = dims
                .iter()
                .zip(&dtypes)
                .map(|(dims, &d)| value(d, dims.iter().map(|&l| sizes[l as usize]).collect()))
                .collect();
            let results: Vec<_> = body
                .results
                .iter()
                .map(|r| value(body.code[r.0 as usize].1, sizes.clone()))
                .collect();
            let seeds: Vec<_> = inputs.iter().map(|i| i.1).collect();
            (Just((body, dims, seeds)), values, results)
        })
        .prop_map(|((body, dims, seeds), values, outs)| {
            let inputs = values.iter().zip(seeds).map(|(v, seed)| whole(v, seed)).collect();
            Case { body, inputs, dims, outs }
        })
}

pub(super) fn step(case: &Case) -> Step {
    super::step(Map::new(case.body.clone()), &case.dims, case.outs.len())
}

pub(super) fn equal(a: &[Tensor], b: &[Tensor]) -> bool {
    let same = |(x, y): (&f64, &f64)| x == y || x.is_nan() && y.is_nan();
    let pairs = a.iter().zip(b);
    a.len() == b.len() && pairs.into_iter().all(|(a, b)| a.data.iter().zip(&b.data).all(same))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn maps_match_brute_force(case in case()) {
        let got = run(&case.inputs, &case.outs, &step(&case)).unwrap();
        let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
        prop_assert!(equal(&got, &want), "{}\n{got:?}\n{want:?}", case.body);
    }

    /// Every out that may take an input's memory does.
    #[test]
    fn maps_work_in_place(mut case in case(), align in any::<bool>()) {
        if align {
            // Make sharing likely.
            for (k, input) in case.inputs.iter_mut().enumerate() {
                let fits = case.outs.iter().all(|out| out.dtype.size() == input.value.dtype.size());
                if fits && case.dims[k].len() == case.outs[0].extents.len() {
                    let dims = declared(case.dims[k].len());
                    let mut value = case.outs[0].clone();
                    value.dtype = input.value.dtype;
                    *input = whole(&value, 5 + k as u64);
                    case.dims[k] = dims;
                    case.outs.iter_mut().for_each(|out| out.order = value.order.clone());
                }
            }
        }
        let step = step(&case);
        let block = block(&case.inputs, &case.outs);
        let mut free: Vec<_> =
            (0..case.inputs.len()).filter(|&i| can_alias(&block, &step, i)).collect();
        let shared: Vec<_> =
            (0..case.outs.len()).filter_map(|out| Some((out, free.pop()?))).collect();
        let got = run_with(&case.inputs, &case.outs, &step, &Mesh::single(), 0, &shared).unwrap();
        let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
        prop_assert!(equal(&got, &want), "{}\n{got:?}\n{want:?}", case.body);
    }
}

#[test]
fn elementary_functions_of_all_floats() {
    let prims = [
        Prim::Rsqrt,
        Prim::Exp,
        Prim::Exp2,
        Prim::Log,
        Prim::Log2,
        Prim::Log10,
        Prim::Log1p,
        Prim::Tanh,
        Prim::Logistic,
        Prim::Erf,
        Prim::Erfc,
        Prim::NormalCdf,
        Prim::Sin,
        Prim::Cos,
        Prim::Tan,
    ];
    for prim in prims {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let value = Value::new(dtype, [1003]);
            let input = Tensor::new(value.clone(), (0..1003).map(|i| f64::from(i) * 0.03 + 0.01));
            let body =
                Body::new(&[dtype], &[(Expr::apply(prim, [Expr::input(0)]), dtype)]).unwrap();
            let case = Case { body, inputs: vec![input], dims: vec![vec![0]], outs: vec![value] };
            let got = run(&case.inputs, &case.outs, &step(&case)).unwrap();
            let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
            let bound = match dtype {
                DType::F64 => 1e-15,
                DType::F32 => 4e-7,
                _ => 8e-3,
            };
            for (a, b) in got[0].data.iter().zip(&want[0].data) {
                assert!((a - b).abs() <= bound * b.abs().max(1e-3), "{prim:?} {dtype}: {a} {b}");
            }
        }
    }
}

#[test]
fn extreme_integers() {
    let (least, most) = (f64::from(i32::MIN), f64::from(i32::MAX));
    let pairs = [(least, -1.0), (least, 0.0), (most, 1.0), (-7.0, 3.0), (7.0, -3.0), (-6.0, 3.0)];
    let value = Value::new(DType::I32, [pairs.len()]);
    let a = Tensor::new(value.clone(), pairs.iter().map(|p| p.0));
    let b = Tensor::new(value.clone(), pairs.iter().map(|p| p.1));
    let compute = |prim| {
        let expr = Expr::apply(prim, [Expr::input(0), Expr::input(1)]);
        let body = Body::new(&[DType::I32; 2], &[(expr, DType::I32)]).unwrap();
        let dims = vec![vec![0], vec![0]];
        let inputs = vec![a.clone(), b.clone()];
        let case = Case { body, inputs, dims, outs: vec![value.clone()] };
        run(&case.inputs, &case.outs, &step(&case)).unwrap().remove(0).data
    };
    assert_eq!(compute(Prim::Div), [least, 0.0, most, -2.0, -2.0, -2.0]);
    assert_eq!(compute(Prim::Mod), [0.0, 0.0, 0.0, 2.0, -2.0, 0.0]);
    assert_eq!(compute(Prim::Add)[..3], [most, least, least]);
}

#[test]
fn casts_saturate() {
    let cast = |from, to, data: &[f64]| {
        let value = Value::new(from, [data.len()]);
        let body = Body::new(&[from], &[(Expr::input(0).cast(to), to)]).unwrap();
        let inputs = vec![Tensor::new(value, data.iter().copied())];
        let outs = vec![Value::new(to, [data.len()])];
        let case = Case { body, inputs, dims: vec![vec![0]], outs };
        run(&case.inputs, &case.outs, &step(&case)).unwrap().remove(0).data
    };
    let odd = [f64::NAN, 1e30, -1e30, -1.9, 1.9];
    let want = [0.0, f64::from(i32::MAX), f64::from(i32::MIN), -1.0, 1.0];
    assert_eq!(cast(DType::F32, DType::I32, &odd), want);
    assert_eq!(cast(DType::F64, DType::I32, &odd), want);
    assert_eq!(cast(DType::F32, DType::Bool, &[f64::NAN, 0.0, -0.0, 2.0]), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(cast(DType::I32, DType::BF16, &[16_777_217.0, 257.0]), [16_777_216.0, 256.0]);
}

/// The same elements at every offset of tensors of every length give the same bits.
#[test]
fn position_does_not_matter() {
    let x = Expr::input(0);
    let expr = x.clone().tanh() * x.clone().exp() + x.clone().sin() / x.logistic();
    let body = Body::new(&[DType::F32], &[(expr, DType::F32)]).unwrap();
    let data: Vec<f64> = (0..1400).map(|i| (f64::from(i) * 0.7).sin() * 9.0).collect();
    let compute = |data: &[f64], extents: &[usize], dims: &[u8]| {
        let of: Vec<_> = dims.iter().map(|&l| extents[l as usize]).collect();
        let inputs = vec![Tensor::new(Value::new(DType::F32, of), data.iter().copied())];
        let outs = vec![Value::new(DType::F32, extents.iter().copied())];
        let case = Case { body: body.clone(), inputs, dims: vec![dims.to_vec()], outs };
        run(&case.inputs, &case.outs, &step(&case)).unwrap().remove(0).data
    };
    let all = compute(&data, &[1400], &[0]);
    for len in [1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 100, 1023, 1024, 1025] {
        for from in [0, 1, 5, 16, 130] {
            assert_eq!(compute(&data[from..from + len], &[len], &[0]), all[from..from + len]);
        }
    }
    // Transposed, and spread over rows.
    let flipped = compute(&data[..1000], &[40, 25], &[1, 0]);
    for (i, j) in (0..40).flat_map(|i| (0..25).map(move |j| (i, j))) {
        assert_eq!(flipped[i * 25 + j], all[j * 40 + i]);
    }
    let spread = compute(&data[..30], &[50, 30], &[1]);
    assert!(spread.chunks(30).all(|row| row == &all[..30]));
    let spread = compute(&data[..50], &[50, 30], &[0]);
    assert!(spread.chunks(30).zip(&all).all(|(row, x)| row.iter().all(|y| y == x)));
}

/// Rows that lie in another order than those of the result, each longer than half a tile.
#[test]
fn a_tile_of_one_turn_tells_nothing_of_the_next() {
    let body = Body {
        code: vec![
            (Instr::Input(0), DType::F32),
            (Instr::Apply(Prim::Neg, [Reg(0); 3]), DType::F32),
        ],
        results: vec![Reg(1)],
    };
    let [a, b, c] = [2, 5, 600];
    let data: Vec<f64> = (0..a * b * c).map(|i| i as f64).collect();
    let inputs = vec![Tensor::new(Value::new(DType::F32, [b, a, c]), data.iter().copied())];
    let outs = vec![Value::new(DType::F32, [a, b, c])];
    let case = Case { body, inputs, dims: vec![vec![1, 0, 2]], outs };
    let got = run(&case.inputs, &case.outs, &step(&case)).unwrap().remove(0).data;
    for (i, row) in got.chunks(c).enumerate() {
        let from = (i % b * a + i / b) * c;
        assert!(row.iter().zip(&data[from..]).all(|(got, x)| *got == -x), "row {i}");
    }
}
