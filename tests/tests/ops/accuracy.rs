//! The accuracy of compositions of primitives, in ulps, for floats of every magnitude.

use mesh_ops::{prelude::*, testing};

/// The worst error of a function of f32 over some floats of every size, and where.
fn worst(
    function: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g>,
    exact: impl Fn(f64) -> f64,
    of: impl Fn(f32) -> bool,
) -> (f64, f32) {
    let xs = testing::floats().filter(|x| of(*x)).collect();
    let (off, at) = testing::worst(&[xs], |x| function(x[0]), |x| exact(x[0])).unwrap();
    (off, at.first().copied().unwrap_or_default())
}

#[test]
fn differences_near_zero_keep_their_digits() {
    // Up to overflow, and down to the smallest normal f32.
    let normal = |x: f32| x.abs() >= f32::MIN_POSITIVE;
    let (off, at) = worst(|x| x.expm1(), f64::exp_m1, |x| normal(x) && x < 88.0);
    assert!(off <= 5.0, "expm1 is {off} ulp off at {at:e}");
    let (off, at) = worst(|x| x.log1p(), f64::ln_1p, |x| normal(x) && x > -1.0);
    assert!(off <= 5.0, "log1p is {off} ulp off at {at:e}");
}

/// The share of the normal distribution is at most 5 ulp off; of the product, whose digits may be finer, that is
/// somewhat more. The exact tail ends where the share is no normal f32 any more.
#[test]
fn gelu_keeps_its_tail() {
    let exact = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    const TAIL: f32 = -12.9;
    const ULPS: f64 = 6.0;
    for end in [-1.0, -3.0, -5.0, -8.0, TAIL] {
        let (off, at) = worst(|x| x.gelu_exact(), exact, |x| x >= end && x < 20.0 && x != 0.0);
        assert!(off <= ULPS, "gelu_exact is {off} ulp off at {at:e}");
    }
    let least = f64::from(f32::from_bits(1));
    for x in (0..300).map(|i| TAIL - i as f32 / 100.0) {
        let y = f64::from(value_of(|x| x.gelu_exact(), x));
        let exact = exact(f64::from(x));
        assert!((y - exact).abs() <= 1e-4 * exact.abs() + 20.0 * least, "{x}: {y:e} {exact:e}");
    }
}

/// The gradient is `P + x p`; computing P as `1 + erf` would lose it.
#[test]
fn the_gradient_of_gelu_keeps_its_tail() {
    let exact = |x: f64| {
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) + x * density
    };
    fn slope(x: Tensor<'_>) -> Tensor<'_> {
        x.graph().gradients(&[x.gelu_exact()], &[x], None)[0].unwrap()
    }
    for x in (0..120).map(|i| -i as f32 / 10.0).filter(|x| (x + 0.75).abs() > 0.1) {
        let (y, exact) = (f64::from(value_of(slope, x)), exact(f64::from(x)));
        let bound = (8.0 + f64::from(x * x)) * f64::from(f32::EPSILON);
        assert!((y - exact).abs() <= bound * exact.abs(), "{x}: {y:e} {exact:e}");
    }
}

/// As in JAX: of -inf alone it is -inf, with an infinity it is infinite, and NaN stays.
#[test]
fn logsumexp_of_infinities() {
    let inf = f32::INFINITY;
    let rows = [[-inf, -inf], [-inf, 1.0], [inf, 1.0], [inf, -inf], [f32::NAN, 1.0]];
    let want = [-inf, 1.0, inf, inf, f32::NAN];
    for dtype in [F32, F64, BF16] {
        let g = mesh_ops::graph();
        let dims = [dim("p", 5), dim("q", 2)];
        let x = g.constant(ndarray::arr2(&rows).into_dyn(), dims);
        let y = x.cast(dtype).logsumexp(dims[1]).cast(F32);
        let of_one = x.slice(dim("p", 1), 1).cast(dtype);
        let slope = g.gradients(&[of_one.logsumexp(dims[1])], &[of_one], None)[0].unwrap();
        let f = g.function("f", [], [y, slope.cast(F32)], []);
        for layout in ["", "q:a"] {
            let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
            let [y, slope] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
            let y: Vec<f32> = y.as_f32().unwrap().iter().copied().collect();
            assert_eq!(y[..4], want[..4], "{dtype} {layout}");
            assert!(y[4].is_nan());
            assert_eq!(slope.as_f32().unwrap().as_slice().unwrap(), [0.0, 1.0]);
        }
    }
}

/// The value at one number.
fn value_of(function: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g>, x: f32) -> f32 {
    let g = mesh_ops::graph();
    let f = g.function(
        "f",
        [],
        [function(g.constant(ndarray::arr1(&[x]).into_dyn(), [dim("x", 1)]))],
        [],
    );
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let [y] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    y.as_f32().unwrap()[[0]]
}

#[test]
fn ends() {
    let g = mesh_ops::graph();
    let ends = ndarray::arr1(&[f32::NEG_INFINITY, -2.0, -1.0, -0.0, f32::INFINITY, f32::NAN]);
    let x = g.constant(ends.into_dyn(), [dim("x", 6)]);
    let f = g.function("f", [], [x.expm1(), x.log1p(), x.erf()], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let results = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    let [expm1, log1p, erf] =
        results.map(|y| y.as_f32().unwrap().iter().copied().collect::<Vec<_>>());
    assert_eq!((expm1[0], expm1[3], expm1[4]), (-1.0, 0.0, f32::INFINITY));
    assert!(expm1[5].is_nan() && log1p[0].is_nan() && log1p[1].is_nan() && log1p[5].is_nan());
    assert_eq!((log1p[2], log1p[3], log1p[4]), (f32::NEG_INFINITY, 0.0, f32::INFINITY));
    assert_eq!((erf[0], erf[3], erf[4]), (-1.0, 0.0, 1.0));
    assert!(erf[5].is_nan());
}
