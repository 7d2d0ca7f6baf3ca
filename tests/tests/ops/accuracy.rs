//! Compositions of primitives, in ulps, over floats of every size.

use mesh_ops::prelude::*;

/// The worst error of a function of f32 in units of the last place, and where.
fn worst(
    function: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g>,
    exact: impl Fn(f64) -> f64,
    of: impl Fn(f32) -> bool,
) -> (f64, f32) {
    let xs: Vec<_> = (0..u32::MAX / 9973).map(|i| f32::from_bits(i * 9973)).collect();
    let xs: Vec<_> = xs.into_iter().filter(|x| x.is_finite() && of(*x)).collect();
    let g = mesh_ops::graph();
    let x = g.constant(ndarray::arr1(&xs).into_dyn(), [dim("x", xs.len())]);
    let f = g.function("f", [], [function(x)], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let [y] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    let off = |(&x, &y): (&f32, &f32)| {
        let exact = exact(f64::from(x));
        let nearest = (exact as f32).abs();
        let unit = f64::from(nearest.next_up()) - f64::from(nearest);
        let off = if y == exact as f32 { 0.0 } else { (f64::from(y) - exact).abs() / unit };
        (off, x)
    };
    let all = xs.iter().zip(y.as_f32().unwrap()).map(off);
    all.fold(
        (0.0, 0.0),
        |worst, next| if next.0 > worst.0 || next.0.is_nan() { next } else { worst },
    )
}

#[test]
fn differences_near_zero_keep_their_digits() {
    // Up to overflow, and down to where f32 has all its digits.
    let normal = |x: f32| x.abs() >= f32::MIN_POSITIVE;
    let (off, at) = worst(|x| x.expm1(), f64::exp_m1, |x| normal(x) && x < 88.0);
    assert!(off <= 5.0, "expm1 is {off} ulp off at {at:e}");
    let (off, at) = worst(|x| x.log1p(), f64::ln_1p, |x| normal(x) && x > -1.0);
    assert!(off <= 5.0, "log1p is {off} ulp off at {at:e}");
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
