//! Products with epilogues against a product and a map behind it, to the bit.

use super::oracle::declared;
use super::*;
use crate::program::forms::{Contract, Map};
use crate::program::{Body, Expr};

#[derive(Clone, Debug)]
struct Case {
    /// The factors, then what else the epilogue reads.
    inputs: Vec<Tensor>,
    dims: Vec<Vec<u8>>,
    body: Body,
    outs: Vec<Value>,
    /// An out that lies where an input does.
    shared: Option<(usize, usize)>,
}

impl Case {
    fn step(&self) -> Step {
        step(Contract { epilogue: Some(self.body.clone()) }, &self.dims, self.outs.len())
    }

    fn joined(&self) -> Vec<Tensor> {
        let (step, shared) = (self.step(), self.shared.as_slice());
        run_with(&self.inputs, &self.outs, &step, &Mesh::single(), 0, shared).unwrap()
    }

    /// A product that lies as the first out does, and a map of it.
    fn apart(&self) -> Vec<Tensor> {
        let (factors, others) = self.inputs.split_at(2);
        let product = Value { dtype: factors[0].value.dtype, ..self.outs[0].clone() };
        let rank = product.extents.len();
        let contract = step(Contract::default(), &self.dims[..2], 1);
        let mut inputs = run(factors, &[product], &contract).unwrap();
        inputs.extend_from_slice(others);
        let dims = [declared(rank)].into_iter().chain(self.dims[2..].iter().cloned());
        run(&inputs, &self.outs, &step(Map { body: self.body.clone() }, dims, self.outs.len()))
            .unwrap()
    }

    fn agrees(&self) -> bool {
        bits(&self.joined()) == bits(&self.apart())
    }

    /// Whether the product is never whole in memory.
    fn is_by_pieces(&self) -> bool {
        let block = block(&self.inputs, &self.outs);
        let kernel = prepare(&block, &self.step(), &Mesh::single(), 0, &Seed::new(7));
        kernel.unwrap().unwrap().scratch_bytes() < self.outs[0].bytes()
    }
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    tensors.iter().map(|tensor| tensor.data.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Floats whose sums depend on the order in which they are taken.
fn rough(value: &Value, seed: u64) -> Tensor {
    let tensor = whole(value, seed);
    if !value.dtype.is_float() {
        return tensor;
    }
    let parts = (0..1013).cycle().map(|part| f64::from(part) / 1013.0);
    Tensor::new(value.clone(), tensor.data.into_iter().zip(parts).map(|(x, part)| x + part))
}

/// What is made of the product `x`, and what it reads.
#[derive(Clone, Copy, Debug)]
enum Epilogue {
    /// `max(x + bias, 0)`, the bias along this dim.
    Bias(u8),
    /// `x + other`.
    Residual,
    /// `x + other`, which is turned.
    Turned,
    /// `m * x`, and `m = 9 other + x` where `other` lies.
    Update,
}

/// Of `lhs rhs`, where `turned` are left factor and result.
fn case([m, n, k]: [usize; 3], dtype: DType, epilogue: Epilogue, turned: [bool; 2]) -> Case {
    let value = |extents: [usize; 2], turned: bool| {
        let mut value = Value::new(dtype, extents);
        if turned {
            value.order.reverse();
        }
        value
    };
    let result = value([m, n], turned[1]);
    let (x, other) = (Expr::input(0), Expr::input(1));
    let (other_value, dims, results) = match epilogue {
        Epilogue::Bias(dim) => {
            let bias = Value::new(dtype, [[m, n][usize::from(dim)]]);
            (bias, vec![dim], vec![(x + other).max(0.0)])
        }
        Epilogue::Residual => (result.clone(), vec![0, 1], vec![x + other]),
        Epilogue::Turned => (value([n, m], turned[0]), vec![1, 0], vec![x + other]),
        Epilogue::Update => {
            let moment = other * 9.0 + x.clone();
            (result.clone(), vec![0, 1], vec![moment.clone() * x, moment])
        }
    };
    let results: Vec<_> = results.into_iter().map(|result| (result, dtype)).collect();
    let values = [value([m, k], turned[0]), value([k, n], false), other_value];
    Case {
        inputs: values.iter().zip(3..).map(|(value, seed)| rough(value, seed)).collect(),
        dims: vec![vec![0, 2], vec![2, 1], dims],
        body: Body::new(&[dtype; 2], &results).unwrap(),
        outs: vec![result; results.len()],
        shared: matches!(epilogue, Epilogue::Update).then_some((1, 2)),
    }
}

#[test]
fn a_map_within_a_product_gives_the_bits_of_one_behind_it() {
    use Epilogue::{Bias, Residual, Update};
    for (shape, dtype, epilogue, turned) in [
        ([500, 4300, 40], DType::F32, Bias(1), [false, false]),
        ([500, 4300, 40], DType::F32, Residual, [false, true]),
        ([2100, 1030, 900], DType::F32, Bias(1), [true, false]),
        ([2100, 1030, 8], DType::F32, Residual, [false, false]),
        ([2100, 1030, 5], DType::F32, Update, [true, false]),
        ([2100, 1030, 300], DType::F32, Bias(0), [false, true]),
        ([2100, 1030, 300], DType::F32, Update, [true, false]),
        ([1030, 2100, 700], DType::F32, Update, [false, true]),
        ([140_000, 16, 32], DType::F32, Bias(0), [false, false]),
        ([140_000, 16, 9], DType::F32, Residual, [false, false]),
        ([90, 24_000, 20], DType::F32, Bias(1), [false, false]),
        ([90, 24_000, 20], DType::F32, Residual, [true, true]),
        ([140_000, 16, 32], DType::F32, Update, [false, false]),
        ([90, 12_000, 600], DType::F64, Bias(1), [false, false]),
        ([90, 12_000, 600], DType::F64, Residual, [true, false]),
    ] {
        let case = case(shape, dtype, epilogue, turned);
        let what = format!("{shape:?} {dtype} {epilogue:?} {turned:?}");
        assert!(case.is_by_pieces(), "{what}");
        let (joined, apart) = (case.joined(), case.apart());
        assert!(bits(&joined) == bits(&apart), "{what}");
        assert!(apart.iter().all(|tensor| tensor.data.iter().any(|&x| x != 0.0)), "{what}");
    }
}

/// One piece or a few, each way of doing a product; vectors, which are not done by pieces; dtypes that
/// are not.
#[test]
fn small_products_have_epilogues_too() {
    use Epilogue::{Bias, Residual, Turned, Update};
    let shapes = [
        [1, 1, 1],
        [1, 70, 33],
        [70, 1, 33],
        [5, 7, 3],
        [33, 17, 64],
        [96, 160, 64],
        [65, 16, 70],
        [100, 300, 200],
        [530, 260, 40],
        [530, 260, 400],
    ];
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for (shape, which) in shapes.into_iter().flat_map(|shape| (0..4).map(move |i| (shape, i))) {
            for epilogue in [Bias(0), Bias(1), Residual, Turned, Update] {
                let case = case(shape, dtype, epilogue, [which % 2 == 1, which / 2 == 1]);
                assert!(case.agrees(), "{shape:?} {dtype} {epilogue:?} {which}");
            }
        }
    }
}

/// Rows that are two dims, and a batch, with an input that has any of the dims.
#[test]
fn inputs_lie_across_rows_and_columns() {
    let [a, b, n, k] = [20, 30, 260, 70];
    let all: [&[u8]; 9] =
        [&[], &[0], &[1], &[2], &[0, 1], &[1, 2], &[2, 0], &[0, 1, 2], &[2, 1, 0]];
    for (dims, batch) in all.into_iter().flat_map(|dims| [(dims, false), (dims, true)]) {
        let value = |extents: &[usize]| Value::new(DType::F32, extents.iter().copied());
        let rhs = if batch { value(&[a, k, n]) } else { value(&[k, n]) };
        let extents: Vec<_> = dims.iter().map(|&dim| [a, b, n][usize::from(dim)]).collect();
        let values = [value(&[a, b, k]), rhs, value(&extents)];
        let body = Expr::input(0) * Expr::input(1) + Expr::input(0);
        let case = Case {
            inputs: values.iter().zip(1..).map(|(value, seed)| rough(value, seed)).collect(),
            dims: vec![
                vec![0, 1, 3],
                if batch { vec![0, 3, 2] } else { vec![3, 2] },
                dims.to_vec(),
            ],
            body: Body::new(&[DType::F32; 2], &[(body, DType::F32)]).unwrap(),
            outs: vec![value(&[a, b, n])],
            shared: None,
        };
        assert!(case.agrees(), "{dims:?} {batch}");
    }
}

#[test]
fn a_factor_may_be_read_again() {
    let value = Value::new(DType::F32, [300, 300]);
    let inputs = [rough(&value, 1), rough(&value, 2)];
    let sum = Expr::input(0) + Expr::input(1);
    let body = Body::new(&[DType::F32; 2], &[(sum, DType::F32)]).unwrap();
    let dims = [[0, 2], [2, 1]];
    let mut joined = step(Contract { epilogue: Some(body.clone()) }, dims, 1);
    joined.inputs.push(labelled(0, &[0, 1]));
    let got = run(&inputs, std::slice::from_ref(&value), &joined).unwrap();
    let inputs = [inputs.to_vec(), vec![inputs[0].clone()]].concat();
    let dims = [&dims[..], &[[0, 1]]].concat().into_iter().map(Vec::from).collect();
    let case = Case { inputs, dims, body, outs: vec![value], shared: None };
    assert_eq!(bits(&got), bits(&case.apart()));
}

#[test]
fn factors_of_two_dtypes_are_refused() {
    let mut case = case([3, 4, 5], DType::F32, Epilogue::Residual, [false; 2]);
    case.inputs[1].value.dtype = DType::F64;
    let error = run(&case.inputs, &case.outs, &case.step()).unwrap_err();
    assert_eq!(error, "factors and result of a product are of one dtype");
}

/// Any product at all with up to three inputs and two outs of any dtypes and memory orders.
fn any_case() -> impl Strategy<Value = Case> {
    let other = (0..DTYPES.len(), any::<u64>());
    let made = prop::collection::vec(0..DTYPES.len(), 1..3);
    (super::contract::case(), prop::collection::vec(other, 0..4), made)
        .prop_flat_map(|((factors, dims, out), others, made)| {
            let labels = others.iter().map(|(_, seed)| {
                let has = |label: &u8| seed >> label & 3 != 0;
                Just(declared(out.extents.len()).into_iter().filter(has).collect::<Vec<_>>())
                    .prop_shuffle()
            });
            let labels: Vec<_> = labels.collect();
            (Just((factors, dims, out, others, made)), labels)
        })
        .prop_flat_map(|((factors, dims, out, others, made), labels)| {
            let extents = |labels: &[u8]| -> Vec<_> {
                labels.iter().map(|&label| out.extents[usize::from(label)]).collect()
            };
            let of = |(labels, other): (&Vec<u8>, &(usize, u64))| {
                value(DTYPES[other.0], extents(labels))
            };
            let values: Vec<_> = labels.iter().zip(&others).map(of).collect();
            let outs: Vec<_> =
                made.iter().map(|&dtype| value(DTYPES[dtype], out.extents.to_vec())).collect();
            (Just((factors, dims, labels)), values, outs)
        })
        .prop_map(|((factors, dims, labels), values, outs)| {
            let dtype = factors[0].value.dtype;
            let dtypes: Vec<_> =
                [dtype].into_iter().chain(values.iter().map(|value| value.dtype)).collect();
            let sum = (1..dtypes.len()).fold(Expr::input(0), |sum, i| {
                sum * Expr::input(0) + Expr::input(i as u8).cast(dtype)
            });
            let result = |out: &Value| (sum.clone().cast(out.dtype), out.dtype);
            let results: Vec<_> = outs.iter().map(result).collect();
            let factors = factors.iter().map(|factor| rough(&factor.value, 1));
            let others = values.iter().zip(2..).map(|(value, seed)| rough(value, seed));
            let inputs = factors.chain(others).collect();
            let dims = dims.into_iter().chain(labels).collect();
            let body = Body::new(&dtypes, &results).unwrap();
            Case { inputs, dims, body, outs, shared: None }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_product_may_have_an_epilogue(case in any_case()) {
        prop_assert!(case.agrees(), "{}\n{:?}\n{:?}", case.body, case.joined(), case.apart());
    }
}
