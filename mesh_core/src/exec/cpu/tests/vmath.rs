//! Bounds in ulps, and equal bits at every place of a slice in every instruction set.

use super::super::isa::{Isa, Task, every_version};
use super::super::map::instr;
use super::super::map::tile::{Kind, Tile};
use super::super::vmath;
use crate::program::Prim;

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

/// The worst operand of a function among every 97th f32.
fn worst(
    apply: impl Fn(f32) -> f32,
    exact: impl Fn(f64) -> f64,
    of: impl Fn(f32) -> bool,
) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1.0];
    for x in (0..u32::MAX / 97).map(|i| f32::from_bits(i * 97)).chain(special) {
        if of(x) {
            let off = ulps(apply(x), exact(f64::from(x)));
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
    let cases: [(&str, (f64, f32), f64); 8] = [
        ("exp", worst(vmath::exp, f64::exp, all), 1.0),
        ("log", worst(vmath::log, f64::ln, all), 0.9),
        ("tanh", worst(vmath::tanh, f64::tanh, all), 1.4),
        ("logistic", worst(vmath::logistic, logistic, |x| x >= -87.0), 2.5),
        ("erf", worst(vmath::erf, libm::erf, all), 1.6),
        ("erfc", worst(vmath::erfc, libm::erfc, all), 0.6),
        ("sin", worst(vmath::sin, f64::sin, near), 0.51),
        ("cos", worst(vmath::cos, f64::cos, near), 0.51),
    ];
    for (name, (off, at), bound) in cases {
        println!("{name}: {off:.3} ulp at {at:e}");
        assert!(off <= bound, "{name} is {off} ulp off at {at:e}");
    }
}

#[test]
fn exact_places() {
    assert_eq!(vmath::exp(0.0), 1.0);
    assert_eq!(vmath::log(1.0), 0.0);
    assert_eq!(vmath::log(0.0), f32::NEG_INFINITY);
    assert!(vmath::log(-1.0).is_nan());
    assert_eq!(vmath::tanh(100.0), 1.0);
    assert_eq!(vmath::erf(f32::INFINITY), 1.0);
    assert_eq!(vmath::erfc(0.0), 1.0);
    assert_eq!([f32::INFINITY, 100.0].map(vmath::erfc), [0.0; 2]);
    assert_eq!([f32::NEG_INFINITY, -100.0].map(vmath::erfc), [2.0; 2]);
    assert!(vmath::erfc(f32::NAN).is_nan());
    assert_eq!(vmath::erf(-100.0), -1.0);
    assert_eq!(vmath::erf(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(vmath::sin(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(vmath::logistic(f32::NEG_INFINITY), 0.0);
    assert!(vmath::max_f32(f32::NAN, 1.0).is_nan() && vmath::min_f32(1.0, f32::NAN).is_nan());
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
        Prim::Log,
        Prim::Tanh,
        Prim::Logistic,
        Prim::Erf,
        Prim::Erfc,
        Prim::Sin,
        Prim::Cos,
        Prim::Rsqrt,
        Prim::Sqrt,
        Prim::Sign,
        Prim::Floor,
    ];
    let xs: Vec<f32> = (0..100).map(|i| (i as f32 - 31.0) * 1.37 * 1.2_f32.powi(i % 40)).collect();
    for prim in prims {
        let (run, _) = instr::apply(prim, Kind::F32, [false; 3]).unwrap();
        let apply = |xs: &[f32]| -> Vec<u32> {
            let mut out = vec![0.0_f32; xs.len()];
            let tile = Tile::row(xs.len(), out.as_mut_ptr().cast(), [xs.as_ptr().cast(); 3]);
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
    type Args = (*const f32, *mut [f32; 8], usize);
    type Result = ();

    #[inline(always)]
    unsafe fn run((from, to, n): Self::Args) {
        // SAFETY: the test's slices.
        let (from, to) =
            unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, n)) };
        for (to, &x) in to.iter_mut().zip(from) {
            *to = [
                vmath::exp(x),
                vmath::log(x),
                vmath::tanh(x),
                vmath::logistic(x),
                vmath::erf(x),
                vmath::erfc(x),
                vmath::sin(x),
                vmath::cos(x),
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
    let mut first: Option<(Isa, Vec<[u32; 8]>)> = None;
    for (isa, run) in every_version::<Everything>() {
        let mut out = vec![[0.0; 8]; xs.len()];
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
