//! Numbers beside tensors: each must be representable in the tensor's dtype, or is refused.

use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;

/// An expression with a tensor and a number.
type Use = (&'static str, for<'g> fn(Tensor<'g>, f64) -> Tensor<'g>);

const USES: &[Use] = &[
    ("scalar", |x, v| x.graph().scalar(v, x.dtype())),
    ("fill", |x, v| x.graph().fill(v, [dim("q", 2)], x.dtype())),
    ("fill_like", |x, v| x.fill_like(v)),
    ("x + v", |x, v| x + v),
    ("v + x", |x, v| v + x),
    ("x - v", |x, v| x - v),
    ("v - x", |x, v| v - x),
    ("x * v", |x, v| x * v),
    ("v * x", |x, v| v * x),
    ("x / v", |x, v| x / v),
    ("v / x", |x, v| v / x),
    ("less", |x, v| x.less(x.scalar_like(v))),
    ("equal", |x, v| x.equal(x.scalar_like(v))),
    ("select", |x, v| x.equal(x).select(x, x.scalar_like(v))),
    ("maximum", |x, v| x.maximum(x.scalar_like(v))),
    ("floordiv", |x, v| x.floordiv(x.scalar_like(v))),
];

const NUMBERS: &[f64] = &[
    0.0,
    -0.0,
    2.0,
    -7.0,
    0.5,
    -0.25,
    1e-30,
    3e9,
    -3e9,
    2_147_483_647.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    -2_147_483_649.0,
    3e38,
    3.5e38,
    1e300,
    -1e300,
    1e-60,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Whether `dtype` can hold `v`: floats may be rounded, but not to infinity or zero.
fn is_held(dtype: DType, v: f64) -> bool {
    match dtype {
        I32 => (-2_147_483_648.0..=2_147_483_647.0).contains(&v) && v.floor() == v,
        F64 => true,
        _ => v.is_nan() || v.is_infinite() || v == 0.0 || (1e-40..3.4e38).contains(&v.abs()),
    }
}

#[test]
fn numbers_are_held_or_refused() {
    for dtype in [F32, F64, BF16, I32] {
        for (&v, (name, apply)) in NUMBERS.iter().flat_map(|v| USES.iter().map(move |u| (v, u))) {
            let g = mesh_ops::graph();
            apply(g.input("x", [dim("p", 2)], dtype), v);
            let issues = g.check().err().map(|report| report.issues).unwrap_or_default();
            assert_eq!(
                issues.is_empty(),
                is_held(dtype, v),
                "{name}, {v:?} in {dtype}: {issues:?}"
            );
            if let [issue, ..] = &issues[..] {
                assert_eq!(issues.len(), 1, "{issues:?}");
                let stated = format!("{dtype} cannot hold {v:?}");
                assert!(issue.message.contains(&stated), "{name}: {issue}");
                assert_eq!(
                    issue.at.as_ref().map(|at| at.location.file()),
                    Some(file!()),
                    "{issue}"
                );
            }
        }
    }
}

#[test]
fn whole_numbers_compute_in_i32() {
    let g = mesh_ops::graph();
    let x = g.constant(ndarray::arr1(&[-3, 4]).into_dyn(), [dim("p", 2)]);
    let f = g.function("f", [], [x * 2.0, 1.0 - x, x / 2.0, x + 2_147_483_643.0], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let results = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    let results = results.map(|y| y.as_i32().unwrap().iter().copied().collect::<Vec<_>>());
    assert_eq!(results, [[-6, 8], [4, -3], [-1, 2], [2_147_483_640, 2_147_483_647]].map(Vec::from));
}

/// Every function that takes a number beside a tensor does what it does with a tensor of that number, for
/// literals of any type, in any order, and for references.
#[test]
fn numbers_stand_for_tensors() {
    type Pair<'g> = (&'static str, Tensor<'g>, Tensor<'g>);
    fn pairs<'g>(x: Tensor<'g>) -> Vec<Pair<'g>> {
        let two = x.scalar_like(2.0);
        let (by, n, byte) = (&x, 2_usize, 2_u8);
        vec![
            ("x + 2", x + 2, x + two),
            ("2 + x", 2 + x, two + x),
            ("x - 2_i64", x - 2_i64, x - two),
            ("2 - &x", 2 - by, two - x),
            ("&x * 2_u8", by * byte, x * two),
            ("2.0 * x", 2.0 * x, two * x),
            ("x / usize", x / n, x / two),
            ("2.0 / &x", 2.0 / by, two / x),
            ("x + 2_f32", x + 2_f32, x + two),
            ("-&x", -by, -x),
            ("&x + &x", by + by, x + x),
            ("x * &x", x * by, x * x),
            ("equal", x.equal(2), x.equal(two)),
            ("not_equal", x.not_equal(2.0), x.not_equal(two)),
            ("less", x.less(n), x.less(two)),
            ("less_equal", x.less_equal(2), x.less_equal(two)),
            ("greater", x.greater(2_f32), x.greater(two)),
            ("greater_equal", x.greater_equal(two), x.greater_equal(two)),
            ("maximum", x.maximum(2), x.maximum(two)),
            ("minimum", x.minimum(2.0), x.minimum(two)),
            ("floordiv", x.floordiv(2), x.floordiv(two)),
            ("modulo", x.modulo(2), x.modulo(two)),
            ("select, no", x.greater(0).select(x, 2), x.greater(0).select(x, two)),
            ("select, yes", x.greater(0).select(2, x), x.greater(0).select(two, x)),
        ]
    }
    for dtype in [F32, F64, BF16, I32] {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("p", 6)], dtype);
        let mut pairs = pairs(x);
        if dtype.is_float() {
            pairs.push(("pow(2)", x.pow(2), x.pow(x.scalar_like(2.0))));
            pairs.push(("pow(2.0)", x.pow(2.0), x.square()));
        }
        let fetches: Vec<_> =
            pairs.iter().flat_map(|(_, number, tensor)| [*number, *tensor]).collect();
        g.declare_function("f", &[x], &fetches, vec![]);
        let module = g.lower(&"a:2".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
        let fed = ndarray::arr1(&[-3_i16, -1, 1, 2, 3, 7]);
        let mut session = Session::threads(&module, 0).unwrap();
        let results = session.call_named("f", &[("x", (&fed).into())]).unwrap();
        for ((name, ..), found) in pairs.iter().zip(results.chunks(2)) {
            assert_eq!(found[0].1, found[1].1, "{name} in {dtype}");
        }
    }
}

/// One of the branches of a select says what the dtype of a number is.
#[test]
fn two_numbers_have_no_dtype() {
    let g = mesh_ops::graph();
    g.input("x", [dim("p", 2)], Bool).select(1, 0);
    let text = g.check().unwrap_err().to_string();
    assert!(text.starts_with("select: of two numbers the dtype is not known"), "{text}");
    assert!(text.contains(file!()), "{text}");
}

/// Attributes of ops and initial values are held by the dtype, or refused.
#[test]
fn attributes_and_initial_values_are_held_or_refused() {
    type Case = (&'static str, &'static str, for<'g> fn(&'g Graph, Tensor<'g>));
    let cases: [Case; 10] = [
        ("leaky_relu", "f32 cannot hold 1e300", |_, x| {
            leaky_relu(x, 1e300);
        }),
        ("powf", "f32 cannot hold 1e300", |_, x| {
            powf(x, 1e300);
        }),
        ("fill", "i32 cannot hold 0.9", |g, _| {
            let at = g.input("at", [dim("p", 2)], I32);
            mesh_ops::one_hot_with(at, dim("q", 3), 0.9, 0.0, I32);
        }),
        ("fill", "bool cannot hold 2.0", |g, _| {
            g.fill(2.0, [dim("q", 2)], Bool);
        }),
        ("random_uniform", "f32 cannot hold 1e300", |g, _| {
            mesh_ops::random::random_uniform(g, [dim("q", 2)], 0.0, 1e300, F32);
        }),
        ("random_normal", "bf16 cannot hold 1e300", |g, _| {
            mesh_ops::random::random_normal(g, [dim("q", 2)], 1e300, 1.0, BF16);
        }),
        ("n", "i32 cannot hold 0.5", |g, _| {
            g.state("n", [], I32, Initializer::Constant(0.5));
        }),
        ("b", "bool cannot hold 0.5", |g, _| {
            g.state("b", [], Bool, Initializer::Constant(0.5));
        }),
        ("w", "f32 cannot hold 1e300", |g, _| {
            g.variable("w", [], F32, Initializer::TruncatedNormal { mean: 0.0, stddev: 1e300 });
        }),
        ("u", "f32 cannot hold 1e300", |g, _| {
            g.variable("u", [], F32, Initializer::Uniform { low: 0.0, high: 1e300 });
        }),
    ];
    for (op, stated, apply) in cases {
        let g = mesh_ops::graph();
        apply(&g, g.input("x", [dim("p", 2)], F32));
        let report = g.check().expect_err(op);
        let text = report.to_string();
        assert!(
            report.issues.len() == 1 && text.starts_with(op) && text.contains(stated),
            "{text}"
        );
        assert_eq!(
            report.issues[0].at.as_ref().map(|at| at.location.file()),
            Some(file!()),
            "{text}"
        );
    }
    // A bound may lie outside of the dtype's range; it then has no effect.
    let g = mesh_ops::graph();
    g.input("x", [dim("p", 2)], F32).clip(-1e300, 1e300);
    g.input("n", [dim("p", 2)], I32).clip(-0.5, 3e9);
    g.check().unwrap();
}

/// The error of a tensor is reported once: numbers beside a poisoned tensor add none.
#[test]
fn numbers_beside_a_poisoned_tensor_are_silent() {
    let g = mesh_ops::graph();
    let bad = g.input("x", [dim("p", 2)], F64).sum([dim("q", 2)]);
    assert!(bad.is_poisoned());
    for (_, apply) in &USES[2..] {
        apply(bad, 1e300);
    }
    assert_eq!(g.check().unwrap_err().issues.len(), 1);
}

/// The change of a variable that is set to what another one changes to is none of the other's.
#[test]
fn changes_are_of_the_variable_itself() {
    let g = mesh_ops::graph();
    let one = g.variable("one", [], F32, Initializer::ONES);
    let three = g.variable("three", [], F32, Initializer::Constant(3.0));
    let halved = one.assign_sub(one.value() * 0.5);
    let taken = three.assign(halved.value());
    let f = g.function("f", [], [halved.change(), taken.change()], [halved, taken]);
    let module = g.lower(&Mesh::default(), &Layout::default()).unwrap();
    let changes: [Array; 2] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    assert_eq!(changes.map(|change| change.item().unwrap()), [-0.5, -2.5]);
}
