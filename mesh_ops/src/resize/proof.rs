use super::{Method, Resize, resize};
use crate::testing::proof::*;
use mesh_core::graph::TensorType;

/// The new value at a place along a dim of `n` positions that become `m`: interpolated between samples as the
/// methods are defined, at a position in old pixels.
type Sample = fn(line: &[f64], n: f64, m: f64, to: f64) -> f64;

/// Along both spatial dims, one after the other.
fn resampled(x: &Dense, ty: &TensorType, of: [usize; 2], sample: Sample) -> Dense {
    let sizes = ["h", "w"].map(|dim| ty.shape.get(dim.into()).map_or(1, |dim| dim.size));
    Dense::each(ty, |at| {
        let row = |h: usize| {
            let at = at.with("h", h);
            let line: Vec<_> = (0..of[1]).map(|w| x.at(&at.with("w", w))).collect();
            sample(&line, of[1] as f64, sizes[1] as f64, at.along("w") as f64)
        };
        let rows: Vec<_> = (0..of[0]).map(row).collect();
        sample(&rows, of[0] as f64, sizes[0] as f64, at.along("h") as f64)
    })
}

fn pixel(line: &[f64], at: f64) -> f64 {
    line[at.clamp(0.0, line.len() as f64 - 1.0) as usize]
}

/// Between the neighbours; beyond the first and last middles these are repeated.
fn between(line: &[f64], at: f64) -> f64 {
    let part = at - at.floor();
    pixel(line, at.floor()) * (1.0 - part) + pixel(line, at.floor() + 1.0) * part
}

fn middle(n: f64, m: f64, to: f64) -> f64 {
    (to + 0.5) * n / m - 0.5
}

/// The cubic through values and slopes at two neighbours, slopes being `slope` times the difference of the
/// neighbours' neighbours: Keys' convolution as a Hermite spline.
fn hermite([before, left, right, after]: [f64; 4], t: f64, slope: f64) -> f64 {
    let (from, to) = (slope * (right - before), slope * (after - left));
    let (t2, t3) = (t * t, t * t * t);
    left * (2.0 * t3 - 3.0 * t2 + 1.0)
        + from * (t3 - 2.0 * t2 + t)
        + right * (3.0 * t2 - 2.0 * t3)
        + to * (t3 - t2)
}

fn around(line: &[f64], at: f64) -> [f64; 4] {
    [-1.0, 0.0, 1.0, 2.0].map(|i| pixel(line, at.floor() + i))
}

/// What is beyond the ends counts for nothing: divided by what a line of ones would give.
fn cubic(line: &[f64], n: f64, m: f64, to: f64) -> f64 {
    let at = middle(n, m, to);
    let inside = |i: f64| (0.0..n).contains(&(at.floor() + i));
    let masked = |value: fn(&[f64], f64) -> f64| {
        let four = [-1.0, 0.0, 1.0, 2.0];
        four.map(|i| if inside(i) { value(line, at.floor() + i) } else { 0.0 })
    };
    let t = at - at.floor();
    hermite(masked(pixel), t, 0.5) / hermite(masked(|_, _| 1.0), t, 0.5)
}

const METHODS: [(&str, Method, Sample); 5] = [
    ("resize: nearest", Method::Nearest, |line, n, m, to| {
        pixel(line, (middle(n, m, to) + 0.5).floor())
    }),
    ("resize: nearest below", Method::NearestBelow, |line, n, m, to| {
        pixel(line, (to * n / m).floor())
    }),
    ("resize: linear", Method::Linear, |line, n, m, to| between(line, middle(n, m, to))),
    ("resize: cubic", Method::Cubic, cubic),
    ("resize: cubic, ends repeated", Method::CubicRepeated, |line, n, m, to| {
        let at = middle(n, m, to);
        hermite(around(line, at), at - at.floor(), 0.75)
    }),
];

fn case(
    name: &str,
    [before, after]: [[usize; 2]; 2],
    change: fn(Resize) -> Resize,
    sample: Sample,
) -> Case {
    let sizes = change(Resize::to([("h", after[0]), ("w", after[1])]));
    Case::new(name, move |_, x| resize(x[0], &sizes))
        .computes(move |x, ty| resampled(x[0], ty, before, sample))
        .normal("x", &format!("h:{};w:{};c:2", before[0], before[1]), DType::F32)
        .meshes(&["a:2"])
}

pub(crate) static PROOF: Proof = Proof {
    meanings: &[],
    cases: || {
        let mut cases: Vec<_> = METHODS
            .into_iter()
            .map(|(name, method, sample)| {
                let sizes = Resize::to([("h", 8), ("w", 6)]).method(method);
                Case::new(name, move |_, x| resize(x[0], &sizes))
                    .computes(move |x, ty| resampled(x[0], ty, [4, 4], sample))
                    .normal("x", "h:4;w:4;c:2", DType::F32)
                    .meshes(&["a:2"])
            })
            .collect();
        cases.push(
            case("resize: linear, smaller", [[8, 6], [4, 4]], |r| r, METHODS[2].2)
                .meshes(&["a:2", "a:4", "a:2;b:2"]),
        );
        cases.push(case("resize: odd sizes", [[5, 3], [3, 7]], |r| r, METHODS[2].2));
        cases.push(case(
            "resize: corners",
            [[4, 4], [8, 6]],
            |r| r.corners(),
            |line, n, m, to| between(line, to * (n - 1.0) / (m - 1.0)),
        ));
        // Triangles as wide as a new pixel to each side.
        cases.push(case(
            "resize: antialias",
            [[8, 6], [4, 2]],
            |r| r.antialias(),
            |line, n, m, to| {
                let (at, step) = (middle(n, m, to), n / m);
                let weight = |i: usize| (1.0 - (i as f64 - at).abs() / step).max(0.0);
                let all: f64 = (0..line.len()).map(weight).sum();
                line.iter().enumerate().map(|(i, x)| x * weight(i)).sum::<f64>() / all
            },
        ));
        let whole = Resize::to([("h", 6)]).method(Method::Nearest);
        cases.push(
            Case::new("resize: whole numbers", move |_, x| resize(x[0], &whole))
                .computes(|x, ty| resampled(x[0], ty, [4, 2], METHODS[0].2))
                .integers("x", "h:4;w:2", DType::I32)
                .exact()
                .meshes(&["a:2"]),
        );
        cases
    },
};
