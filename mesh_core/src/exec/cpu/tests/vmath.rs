//! Bounds in ulps, and equal bits at every place of a slice in every instruction set.

use super::super::isa::{Isa, Task, every_version};
use super::super::map::instr;
use super::super::map::tile::{ARGS, Kind, Tile};
use super::super::vmath;
use crate::program::{Prim, erf_inv, normal_cdf};

/// Distance of `got` from `exact` in units of the last place of the exact result's f32.
fn ulps(got: f32, exact: f64) -> f64 {
    if got.is_nan() || exact.is_nan() {
        return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let nearest = exact as f32;
    if got == nearest {
        // Rounded or overflowed alike.
        return if nearest.is_infinite() { 0.0 } else { 0.5 };
    }
    let unit = if nearest.is_infinite() {
        f64::from(f32::MAX) - f64::from(f32::MAX.next_down())
    } else {
        let size = nearest.abs();
        f64::from(size.next_up()) - f64::from(size)
    };
    (f64::from(got) - exact).abs() / unit
}

/// What a primitive makes of a tile, as it is compiled for this machine.
fn tile_of(prim: Prim, args: [&[f32]; 2]) -> Vec<f32> {
    let (run, _) = instr::apply(prim, Kind::F32, [false; ARGS]).unwrap();
    let mut out = vec![0.0_f32; args[0].len()];
    let pointers = [args[0], args[1], args[1], args[1]].map(|arg| arg.as_ptr().cast());
    let tile = Tile::row(out.len(), out.as_mut_ptr().cast(), pointers);
    // SAFETY: all of the tile's length.
    unsafe { run(tile) };
    out
}

/// The worst operand of a function among every 211th f32.
fn worst(prim: Prim, exact: impl Fn(f64) -> f64, of: impl Fn(f32) -> bool) -> (f64, f32) {
    const TILE: usize = 1024;
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1.0];
    let regular = (0..u32::MAX / 211).map(|i| f32::from_bits(i * 211));
    let mut all = regular.chain(special).filter(|x| of(*x)).peekable();
    let mut worst = (0.0, 0.0);
    while all.peek().is_some() {
        let xs: Vec<f32> = all.by_ref().take(TILE).collect();
        for (&x, got) in xs.iter().zip(tile_of(prim, [&xs, &xs])) {
            let off = ulps(got, exact(f64::from(x)));
            if off > worst.0 {
                worst = (off, x);
            }
        }
    }
    worst
}

#[test]
fn errors_are_within_the_stated_bounds() {
    let all = |_: f32| true;
    let near = |x: f32| !vmath::is_far(x);
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let cases: [(Prim, (f64, f32), f64); 17] = [
        (Prim::Exp, worst(Prim::Exp, f64::exp, all), 1.1),
        (Prim::Exp2, worst(Prim::Exp2, f64::exp2, all), 1.0),
        (Prim::Log, worst(Prim::Log, f64::ln, all), 1.0),
        (Prim::Log2, worst(Prim::Log2, f64::log2, all), 1.0),
        (Prim::Log10, worst(Prim::Log10, f64::log10, all), 1.0),
        (Prim::Log1p, worst(Prim::Log1p, f64::ln_1p, all), 1.5),
        (Prim::Tanh, worst(Prim::Tanh, f64::tanh, all), 2.5),
        (Prim::Logistic, worst(Prim::Logistic, logistic, |x| x >= -87.0), 2.5),
        (Prim::Erf, worst(Prim::Erf, libm::erf, all), 5.5),
        (Prim::Erfc, worst(Prim::Erfc, libm::erfc, all), 5.0),
        (Prim::Sin, worst(Prim::Sin, f64::sin, near), 1.6),
        (Prim::Cos, worst(Prim::Cos, f64::cos, near), 1.6),
        (Prim::Tan, worst(Prim::Tan, f64::tan, near), 2.5),
        (Prim::Asin, worst(Prim::Asin, f64::asin, all), 1.5),
        (Prim::Acos, worst(Prim::Acos, f64::acos, all), 1.5),
        (Prim::ErfInv, worst(Prim::ErfInv, erf_inv, all), 4.0),
        (Prim::NormalCdf, worst(Prim::NormalCdf, normal_cdf, all), 5.0),
    ];
    for (prim, (off, at), bound) in cases {
        let name = prim.name();
        println!("{name}: {off:.3} ulp at {at:e}");
        assert!(off <= bound, "{name} is {off} ulp off at {at:e}");
    }
}

/// Angles are within the stated bound, and IEEE 754's in special cases.
#[test]
fn angles_are_those_of_f64() {
    let sizes = (-100..100).step_by(3).map(|i| 2.6_f32.powi(i));
    let near = (0..64).map(|i| 1.0 + (i as f32 - 32.0) / 31.0);
    let special = [0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX];
    let all: Vec<f32> = sizes.chain(near).chain(special).flat_map(|x| [x, -x]).collect();
    for &y in &all {
        for (&x, got) in all.iter().zip(tile_of(Prim::Atan2, [&vec![y; all.len()], &all])) {
            let off = ulps(got, f64::from(y).atan2(f64::from(x)));
            assert!(off <= 1.6, "the angle of ({x:e}, {y:e}) is {got:e}, {off} ulp off");
            let same_sign = got.is_sign_negative() == y.is_sign_negative();
            assert!(got.is_nan() || same_sign, "the angle of ({x:e}, {y:e})");
        }
    }
}

/// The angles of every 211th f32 above some others.
#[test]
fn slopes_are_within_the_stated_bound() {
    for x in [1.0, -1.0, 0.37, -5.3e20] {
        let mut ys = (0..u32::MAX / 211).map(|i| f32::from_bits(i * 211)).peekable();
        while ys.peek().is_some() {
            let some: Vec<f32> = ys.by_ref().take(1024).collect();
            let xs = vec![x; some.len()];
            for (&y, got) in some.iter().zip(tile_of(Prim::Atan2, [&some, &xs])) {
                let off = ulps(got, f64::from(y).atan2(f64::from(x)));
                assert!(off <= 1.6, "the angle of ({x:e}, {y:e}) is {got:e}, {off} ulp off");
            }
        }
    }
}

/// Powers are as near as f32 allows, and IEEE 754's in special cases.
#[test]
fn powers_are_those_of_f64() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
        f32::MAX,
    ];
    let sizes = (-60..60).map(|i| 1.37_f32.powi(i));
    let regular: Vec<f32> = sizes.flat_map(|x| [x, -x, x.floor(), -x.ceil(), 1.0 + x]).collect();
    for &a in regular.iter().chain(&special) {
        let bs: Vec<f32> = regular.iter().chain(&special).copied().collect();
        let many = vec![a; bs.len()];
        for (&b, got) in bs.iter().zip(tile_of(Prim::Pow, [&many, &bs])) {
            let off = ulps(got, f64::from(a).powf(f64::from(b)));
            assert!(off <= 0.51, "{a:e} to the power of {b:e} is {got:e}, {off} ulp off");
            let sign = a.powf(b).is_sign_negative();
            assert!(got.is_nan() || got.is_sign_negative() == sign, "{a:e} to the power of {b:e}");
        }
    }
}

#[test]
fn exact_places() {
    assert_eq!(vmath::exp(0.0), 1.0);
    for log in [vmath::log, vmath::log2, vmath::log10] {
        assert_eq!([1.0, f32::INFINITY].map(log), [0.0, f32::INFINITY]);
        assert_eq!([0.0, -0.0].map(log), [f32::NEG_INFINITY; 2]);
        assert!([-1.0, f32::NEG_INFINITY, f32::NAN].iter().all(|&x| log(x).is_nan()));
    }
    assert!((-149..128).all(|n| vmath::log2(2.0_f64.powi(n) as f32) == n as f32));
    assert!((0..=10).all(|n| vmath::log10(10.0_f32.powi(n)) == n as f32));
    assert_eq!([9.011, 100.0, f32::INFINITY].map(vmath::tanh), [1.0; 3]);
    assert_eq!([-9.011, -100.0, f32::NEG_INFINITY].map(vmath::tanh), [-1.0; 3]);
    assert!(vmath::tanh(f32::NAN).is_nan());
    assert_eq!(vmath::tanh(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(vmath::tanh(-1e-45), -1e-45);
    assert_eq!(vmath::erf(f32::INFINITY), 1.0);
    assert_eq!(vmath::erfc(0.0), 1.0);
    assert_eq!([f32::INFINITY, 100.0].map(vmath::erfc), [0.0; 2]);
    assert_eq!([f32::NEG_INFINITY, -100.0].map(vmath::erfc), [2.0; 2]);
    assert!(vmath::erfc(f32::NAN).is_nan());
    assert_eq!([0.0, -0.0].map(vmath::normal_cdf), [0.5; 2]);
    assert_eq!([-20.0, -1e20, f32::NEG_INFINITY].map(vmath::normal_cdf), [0.0; 3]);
    assert_eq!([20.0, 1e20, f32::INFINITY].map(vmath::normal_cdf), [1.0; 3]);
    assert!(vmath::normal_cdf(f32::NAN).is_nan());
    assert_eq!(vmath::erf(-100.0), -1.0);
    assert_eq!(vmath::erf(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!([f32::NEG_INFINITY, -1e4].map(vmath::exp), [0.0; 2]);
    assert_eq!([f32::NEG_INFINITY, -1e4].map(vmath::exp2), [0.0; 2]);
    assert_eq!([89.0, f32::INFINITY].map(vmath::exp), [f32::INFINITY; 2]);
    let powers: Vec<f32> = (-149..128).map(|n| vmath::exp2(n as f32)).collect();
    assert!(powers.iter().zip(-149..).all(|(&power, n)| f64::from(power) == 2.0_f64.powi(n)));
    assert_eq!([128.0, f32::INFINITY].map(vmath::exp2), [f32::INFINITY; 2]);
    assert_eq!([1.0, -1.0].map(vmath::erf_inv), [f32::INFINITY, f32::NEG_INFINITY]);
    assert_eq!([-1.0, f32::INFINITY].map(vmath::log1p), [f32::NEG_INFINITY, f32::INFINITY]);
    assert!([-1.5, f32::NEG_INFINITY, f32::NAN].iter().all(|&x| vmath::log1p(x).is_nan()));
    for odd in [vmath::log1p, vmath::tan, vmath::asin, vmath::erf_inv] {
        assert_eq!([0.0, -0.0].map(|x| odd(x).to_bits()), [0.0, -0.0].map(f32::to_bits));
    }
    for bounded in [vmath::asin, vmath::acos, vmath::erf_inv] {
        assert!([1.5, -1.5, f32::INFINITY, f32::NAN].iter().all(|&x| bounded(x).is_nan()));
    }
    assert_eq!(vmath::acos(1.0), 0.0);
    assert_eq!([88.4, 100.0, f32::INFINITY].map(vmath::logistic), [1.0; 3]);
    assert_eq!([-88.5, -1e4].map(vmath::logistic), [0.0; 2]);
    assert_eq!(vmath::sin(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(vmath::logistic(f32::NEG_INFINITY), 0.0);
    assert!(vmath::max_f32(f32::NAN, 1.0).is_nan() && vmath::min_f32(1.0, f32::NAN).is_nan());
}

/// Zeros have signs, and NaN counts as positive whatever its sign.
#[test]
fn signs_are_taken_by_bits() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let sizes = [0.0, 1.5, inf, 1e-45].map(|size| [size, -size]);
    let signs = [(0.0, 1.0), (-0.0, -1.0), (1e-45, 1.0), (-inf, -1.0), (nan, 1.0), (-nan, 1.0)];
    for (&size, (b, sign)) in sizes.iter().flatten().flat_map(|a| signs.map(|sign| (a, sign))) {
        let expected = size.abs() * sign;
        assert_eq!(vmath::copysign_f32(size, b).to_bits(), expected.to_bits(), "{size} {b}");
        let wide = vmath::copysign_f64(f64::from(size), f64::from(b));
        assert_eq!(wide.to_bits(), f64::from(expected).to_bits(), "{size} {b}");
    }
}

/// Of normal numbers the short logarithms have the bits of the others.
#[test]
fn normal_numbers_have_one_logarithm() {
    let xs = (0..u32::MAX / 9973).map(|i| f32::from_bits(i * 9973));
    for x in xs.filter(|x| vmath::is_normal(*x)) {
        assert!(x > 0.0 && x.is_normal());
        assert_eq!(vmath::log_normal(x), vmath::log(x), "{x:e}");
        assert_eq!(vmath::log2_normal(x), vmath::log2(x), "{x:e}");
        assert_eq!(vmath::log10_normal(x), vmath::log10(x), "{x:e}");
    }
}

#[test]
fn bf16_rounds_like_half() {
    for x in (0..u32::MAX / 977).map(|i| f32::from_bits(i * 977)) {
        let (got, want) = (vmath::narrow(x), half::bf16::from_f32(x));
        assert!(got == want.to_bits() || x.is_nan() && vmath::widen(got).is_nan(), "{x:e}");
    }
}

/// Every unary function on tiles of every length gives the bits it gives alone.
#[test]
fn tails_give_the_bits_of_the_body() {
    let prims = [
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
        Prim::Sin,
        Prim::Cos,
        Prim::Tan,
        Prim::Asin,
        Prim::Acos,
        Prim::ErfInv,
        Prim::NormalCdf,
        Prim::Rsqrt,
        Prim::Sqrt,
        Prim::Sign,
        Prim::Floor,
        Prim::Ceil,
        Prim::Round,
        Prim::Atan2,
        Prim::Pow,
        Prim::Copysign,
    ];
    let xs: Vec<f32> = (0..100).map(|i| (i as f32 - 31.0) * 1.37 * 1.2_f32.powi(i % 40)).collect();
    for prim in prims {
        let (run, _) = instr::apply(prim, Kind::F32, [false; ARGS]).unwrap();
        let apply = |xs: &[f32]| -> Vec<u32> {
            let mut out = vec![0.0_f32; xs.len()];
            let tile = Tile::row(xs.len(), out.as_mut_ptr().cast(), [xs.as_ptr().cast(); ARGS]);
            // SAFETY: both of the tile's length.
            unsafe { run(tile) };
            out.into_iter().map(f32::to_bits).collect()
        };
        let alone: Vec<u32> = xs.iter().flat_map(|x| apply(&[*x])).collect();
        for from in 0..xs.len() {
            for to in from..=xs.len() {
                assert_eq!(apply(&xs[from..to]), alone[from..to], "{} {from}..{to}", prim.name());
            }
        }
    }
}

struct Everything;

impl Task for Everything {
    type Args = (*const f32, *mut [f32; 20], usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((from, to, n): Self::Args) {
        // SAFETY: the test's slices.
        let (from, to) =
            unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, n)) };
        for (to, &x) in to.iter_mut().zip(from) {
            *to = [
                vmath::exp(x),
                vmath::exp2(x),
                vmath::log(x),
                vmath::log1p(x),
                vmath::tanh(x),
                vmath::logistic(x),
                vmath::erf(x),
                vmath::erfc(x),
                vmath::sin(x),
                vmath::cos(x),
                vmath::tan(x),
                vmath::asin(x),
                vmath::acos(x),
                vmath::erf_inv(x),
                vmath::pow(x.abs(), -0.7),
                vmath::atan2(x, 1.3),
                vmath::log2(x),
                vmath::log10(x),
                vmath::normal_cdf(x),
                vmath::log_normal(x),
            ];
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let xs: Vec<f32> = (0..u32::MAX / 9973)
        .map(|i| f32::from_bits(i * 9973))
        .filter(|x| !x.is_nan() && !vmath::is_far(*x))
        .collect();
    let mut first: Option<(Isa, Vec<[u32; 20]>)> = None;
    for (isa, run) in every_version::<Everything>() {
        let mut out = vec![[0.0; 20]; xs.len()];
        // SAFETY: this machine has the instructions; slices of `n`.
        unsafe { run((xs.as_ptr(), out.as_mut_ptr(), xs.len())) };
        let bits: Vec<_> = out
            .iter()
            .map(|ys| ys.map(|y| if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() }))
            .collect();
        match &first {
            None => first = Some((isa, bits)),
            Some((other, want)) => assert!(*want == bits, "{isa:?} differs from {other:?}"),
        }
    }
}
