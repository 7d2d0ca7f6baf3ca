use super::*;
use crate::prelude::*;

type Unary = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
type Binary = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

const FLOAT: &[(&str, Unary)] = &[
    ("sqrt", sqrt),
    ("rsqrt", rsqrt),
    ("reciprocal", reciprocal),
    ("powf", |x| powf(x, 1.5)),
    ("exp", exp),
    ("log", log),
    ("expm1", expm1),
    ("log1p", log1p),
    ("erf", erf),
    ("gelu_exact", gelu_exact),
    ("sin", sin),
    ("cos", cos),
    ("tanh", tanh),
    ("sigmoid", sigmoid),
    ("softplus", softplus),
    ("swish", swish),
    ("gelu", gelu),
    ("relu", relu),
    ("leaky_relu", |x| leaky_relu(x, 0.2)),
    ("elu", elu),
    ("selu", selu),
    ("floor", floor),
    ("ceil", ceil),
    ("round", round),
    ("trunc", trunc),
    ("cbrt", cbrt),
    ("exp2", exp2),
    ("log2", log2),
    ("log10", log10),
    ("tan", tan),
    ("asin", asin),
    ("acos", acos),
    ("atan", atan),
    ("sinh", sinh),
    ("cosh", cosh),
    ("asinh", asinh),
    ("acosh", acosh),
    ("atanh", atanh),
    ("erfinv", erfinv),
    ("log_sigmoid", log_sigmoid),
    ("softsign", softsign),
];
const NUMBER: &[(&str, Unary)] =
    &[("square", square), ("abs", abs), ("sign", sign), ("clip", |x| clip(x, -1.0, 1.0))];
const BINARY: &[(&str, Binary)] = &[
    ("maximum", |a, b| maximum(a, b)),
    ("minimum", |a, b| minimum(a, b)),
    ("floordiv", |a, b| floordiv(a, b)),
    ("modulo", |a, b| modulo(a, b)),
];

/// The messages recorded while a tensor was built.
fn refusals<'g>(g: &'g Graph, build: impl FnOnce() -> Tensor<'g>) -> Vec<String> {
    assert!(build().is_poisoned());
    g.check().unwrap_err().issues.into_iter().map(|issue| issue.message).collect()
}

fn refusal(dtypes: &[DType], build: impl for<'g> FnOnce(&[Tensor<'g>]) -> Tensor<'g>) -> String {
    let g = crate::graph();
    let x: Vec<_> = dtypes.iter().map(|&dtype| g.fill(1.0, [dim("x", 2)], dtype)).collect();
    refusals(&g, || build(&x)).join("; ")
}

#[test]
fn what_is_no_float_or_number_is_refused() {
    for (name, f) in FLOAT {
        for dtype in [I32, Bool] {
            let want = format!("{name} needs floats, not {dtype}; cast it");
            assert_eq!(refusal(&[dtype], |x| f(x[0])), want);
        }
    }
    for (name, f) in NUMBER {
        assert_eq!(
            refusal(&[Bool], |x| f(x[0])),
            format!("{name} needs numbers, not bool; cast it")
        );
    }
    for (name, f) in BINARY {
        assert_eq!(
            refusal(&[Bool; 2], |x| f(x[0], x[1])),
            format!("{name} needs numbers, not bool; cast it")
        );
        let mixed = format!("{name} needs inputs of one dtype, not f32 and i32; cast one of them");
        assert_eq!(refusal(&[F32, I32], |x| f(x[0], x[1])), mixed);
    }
    assert_eq!(refusal(&[I32; 2], |x| pow(x[0], x[1])), "pow needs floats, not i32; cast it");
}

#[test]
fn what_is_no_bool_is_refused() {
    assert_eq!(
        refusal(&[F32], |x| logical_not(x[0])),
        "logical_not needs bool, not f32; compare or cast it"
    );
    assert_eq!(
        refusal(&[I32; 2], |x| logical_or(x[0], x[1])),
        "logical_or needs bool, not i32; compare or cast it"
    );
    assert_eq!(
        refusal(&[F32; 3], |x| select(x[0], x[1], x[2])),
        "select needs a bool condition, not f32; compare it"
    );
    assert_eq!(
        refusal(&[Bool, F32, F64], |x| select(x[0], x[1], x[2])),
        "select needs inputs of one dtype, not f32 and f64; cast one of them"
    );
}

#[test]
fn senseless_attributes_are_refused() {
    let refused = |f: Unary| refusal(&[F32], |x| f(x[0]));
    assert_eq!(refused(|x| clip(x, 2.0, 1.0)), "clip needs low <= high, not 2 and 1");
    assert_eq!(refused(|x| clip(x, f64::NAN, 1.0)), "clip needs low <= high, not NaN and 1");
    assert_eq!(refused(|x| powf(x, f64::NAN)), "powf needs a finite power, not NaN");
    let infinite = "leaky_relu needs a finite alpha, not inf";
    assert_eq!(refused(|x| leaky_relu(x, f64::INFINITY)), infinite);
}

#[test]
fn numbers_keep_their_dtype() {
    for dtype in [F64, F32, BF16, I32] {
        let g = crate::graph();
        let (a, b) = (g.fill(1.0, [dim("a", 2)], dtype), g.fill(1.0, [dim("b", 3)], dtype));
        for (_, f) in NUMBER {
            assert_eq!(f(a).tensor_type(), a.tensor_type());
        }
        for (_, f) in BINARY {
            assert_eq!(f(a, b).tensor_type().to_string(), format!("{dtype}[a:2, b:3]"));
        }
        assert_eq!(select(equal(a, b), a, b).dtype(), dtype);
        g.check().unwrap();
    }
}

/// Gradients of gradients have the inputs' types, under broadcasting too, and all bodies are legal.
/// That they are right, the conformance suite shows; here that there is one of every dtype.
#[test]
fn gradients_have_gradients() {
    for dtype in [F64, BF16] {
        let g = crate::graph();
        let (a, b) = (g.fill(1.0, [dim("a", 2)], dtype), g.fill(2.0, [dim("b", 3)], dtype));
        let mut values: Vec<_> = FLOAT.iter().chain(NUMBER).map(|(_, f)| f(a)).collect();
        values.extend(BINARY.iter().map(|(_, f)| f(a, b)));
        values.extend([pow(a, b), select(less(a, b), a, b)]);
        for (i, y) in values.into_iter().enumerate() {
            let first: Vec<_> = g.gradients(&[y], &[a, b], None).into_iter().flatten().collect();
            let second = g.gradients(&first, &[a, b], None).into_iter().flatten();
            for (j, t) in [y].into_iter().chain(second).enumerate() {
                g.function(&format!("f{i}_{j}"), [], [t], []);
            }
        }
        g.lower(&"all:1".parse().unwrap(), &"".parse().unwrap()).unwrap();
    }
}

#[test]
fn integer_and_bool_bodies_are_legal() {
    let g = crate::graph();
    let (a, b) = (g.fill(-7.0, [dim("a", 2)], I32), g.fill(2.0, [dim("b", 3)], I32));
    let (t, u) = (less(a, b), equal(a, b));
    let mut values: Vec<_> = NUMBER.iter().map(|(_, f)| f(a)).collect();
    values.extend(BINARY.iter().map(|(_, f)| f(a, b)));
    values.extend([logical_and(t, u), logical_or(t, u), logical_not(t), select(t, t, u)]);
    for (i, y) in values.into_iter().enumerate() {
        g.function(&format!("f{i}"), [], [y], []);
    }
    g.lower(&"all:1".parse().unwrap(), &"".parse().unwrap()).unwrap();
}
