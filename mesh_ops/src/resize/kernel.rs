//! Which old positions a new one is made of.

use super::{Method, Resize};

/// Keys' kernel (Cubic Convolution Interpolation for Digital Image Processing, 1981, equation 8), with the
/// coefficient `a` that is -1/2 there.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    match x {
        _ if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

fn linear(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// The old positions that are seen by the new position `to`, and their weights.
pub(super) fn seen(resize: &Resize, old: usize, new: usize, to: usize) -> Vec<(usize, f64)> {
    let (from, step) = match (resize.corners, new) {
        (true, 1) => (0.0, 0.0),
        (true, _) => {
            let step = (old - 1) as f64 / (new - 1) as f64;
            (to as f64 * step, step)
        }
        (false, _) => {
            let step = old as f64 / new as f64;
            ((to as f64 + 0.5) * step - 0.5, step)
        }
    };
    let width = if resize.antialias { step.max(1.0) } else { 1.0 };
    let (kernel, reach): (fn(f64) -> f64, f64) = match resize.method {
        Method::CubicRepeated => (|x| cubic(x, -0.75), 2.0),
        Method::Cubic => (|x| cubic(x, -0.5), 2.0),
        _ => (linear, 1.0),
    };
    let (first, last) = ((from - reach * width).ceil(), (from + reach * width).floor());
    let around = (first as i64..=last as i64).map(|at| (at, kernel((at as f64 - from) / width)));
    let mut seen: Vec<(usize, f64)> = match resize.method {
        Method::CubicRepeated => {
            around.map(|(at, weight)| (at.clamp(0, old as i64 - 1) as usize, weight)).collect()
        }
        _ => around.filter_map(|(at, weight)| Some((usize::try_from(at).ok()?, weight))).collect(),
    };
    seen.retain(|(at, weight)| *at < old && *weight != 0.0);
    let total: f64 = seen.iter().map(|(_, weight)| weight).sum();
    seen.iter_mut().for_each(|(_, weight)| *weight /= total);
    seen
}
