//! Contractions of training steps on one processor, against the product of `ndarray` at the same shape
//! and transposition. Operands come from beyond the second-level cache. Names given as arguments
//! choose lines.

use mesh_ops::einsum::einsum;
use mesh_ops::prelude::*;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use std::error::Error;
use std::io::Write;
use std::time::Instant;

/// Enough of each operand that none is in the second-level cache when its turn comes again.
const BYTES: usize = 8 << 20;

/// A contraction, and the plain products it could be at best.
struct Case {
    name: &'static str,
    /// Labels of the factors and the result, in the order of memory.
    labels: [&'static str; 3],
    sizes: &'static [(char, usize)],
    /// Rows, columns, depth of one product.
    shape: [usize; 3],
    /// Whether factors lie transposed.
    turned: [bool; 2],
}

macro_rules! cases {
    ($($name:literal $a:literal $b:literal $c:literal [$($l:literal $n:literal)*]
        $shape:tt $left:ident $right:ident;)*) => {
        &[$(Case {
            name: $name,
            labels: [$a, $b, $c],
            sizes: &[$(($l, $n)),*],
            shape: $shape,
            turned: [cases!($left), cases!($right)],
        }),*]
    };
    (N) => { false };
    (T) => { true };
}

const CASES: &[Case] = cases! {
    "mlp forward 64" "mk" "kn" "mn" ['m' 64 'k' 784 'n' 512] [64, 512, 784] N N;
    "mlp forward 128" "mk" "kn" "mn" ['m' 128 'k' 784 'n' 256] [128, 256, 784] N N;
    "mlp forward 512" "mk" "kn" "mn" ['m' 512 'k' 784 'n' 512] [512, 512, 784] N N;
    "mlp forward 1024" "mk" "kn" "mn" ['m' 1024 'k' 784 'n' 256] [1024, 256, 784] N N;
    "mlp dx 64" "mk" "nk" "mn" ['m' 64 'k' 512 'n' 512] [64, 512, 512] N T;
    "mlp dx 128" "mk" "nk" "mn" ['m' 128 'k' 256 'n' 512] [128, 512, 256] N T;
    "mlp dx 512" "mk" "nk" "mn" ['m' 512 'k' 512 'n' 512] [512, 512, 512] N T;
    "mlp dx 1024" "mk" "nk" "mn" ['m' 1024 'k' 256 'n' 512] [1024, 512, 256] N T;
    "mlp dw0 64" "km" "kn" "mn" ['m' 784 'k' 64 'n' 512] [784, 512, 64] T N;
    "mlp dw0 128" "km" "kn" "mn" ['m' 784 'k' 128 'n' 256] [784, 256, 128] T N;
    "mlp dw0 512" "km" "kn" "mn" ['m' 784 'k' 512 'n' 512] [784, 512, 512] T N;
    "mlp dw0 1024" "km" "kn" "mn" ['m' 784 'k' 1024 'n' 256] [784, 256, 1024] T N;
    "mlp dw1 512" "km" "kn" "mn" ['m' 512 'k' 512 'n' 512] [512, 512, 512] T N;
    "classes forward 64" "mk" "kn" "mn" ['m' 64 'k' 512 'n' 10] [64, 10, 512] N N;
    "classes forward 512" "mk" "kn" "mn" ['m' 512 'k' 512 'n' 10] [512, 10, 512] N N;
    "classes dx 64" "mk" "nk" "mn" ['m' 64 'k' 10 'n' 512] [64, 512, 10] N T;
    "classes dx 512" "mk" "nk" "mn" ['m' 512 'k' 10 'n' 512] [512, 512, 10] N T;
    "classes dw 64" "km" "kn" "mn" ['m' 512 'k' 64 'n' 10] [512, 10, 64] T N;
    "classes dw 512" "km" "kn" "mn" ['m' 512 'k' 512 'n' 10] [512, 10, 512] T N;
    "lm qkv, heads inside" "blm" "mhd" "blhd" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [1024, 256, 256] N N;
    "lm qkv, heads outside" "blm" "mhd" "bhld" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [1024, 256, 256] N N;
    "lm wo, heads outside" "bhld" "hdm" "blm" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [1024, 256, 256] N N;
    "lm qkv dx, heads outside" "bhld" "mhd" "blm" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [1024, 256, 256] N T;
    "lm qkv dw, heads outside" "blm" "bhld" "mhd" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [256, 256, 1024] T N;
    "lm qkv dw, heads inside" "blm" "blhd" "mhd" ['b' 8 'l' 128 'm' 256 'h' 8 'd' 32] [256, 256, 1024] T N;
    "lm ff1" "mk" "kn" "mn" ['m' 1024 'k' 256 'n' 1024] [1024, 1024, 256] N N;
    "lm ff2" "mk" "kn" "mn" ['m' 1024 'k' 1024 'n' 256] [1024, 256, 1024] N N;
    "lm ff1 dx" "mk" "nk" "mn" ['m' 1024 'k' 1024 'n' 256] [1024, 256, 1024] N T;
    "lm ff2 dx" "mk" "nk" "mn" ['m' 1024 'k' 256 'n' 1024] [1024, 1024, 256] N T;
    "lm ff1 dw" "km" "kn" "mn" ['m' 256 'k' 1024 'n' 1024] [256, 1024, 1024] T N;
    "lm ff2 dw" "km" "kn" "mn" ['m' 1024 'k' 1024 'n' 256] [1024, 256, 1024] T N;
    "lm head" "mk" "kn" "mn" ['m' 1024 'k' 256 'n' 8192] [1024, 8192, 256] N N;
    "lm head dx" "mk" "nk" "mn" ['m' 1024 'k' 8192 'n' 256] [1024, 256, 8192] N T;
    "lm head dw" "km" "kn" "mn" ['m' 256 'k' 1024 'n' 8192] [256, 8192, 1024] T N;
    "square" "mk" "kn" "mn" ['m' 1024 'k' 1024 'n' 1024] [1024, 1024, 1024] N N;
    "square TN" "km" "kn" "mn" ['m' 1024 'k' 1024 'n' 1024] [1024, 1024, 1024] T N;
    "square NT" "mk" "nk" "mn" ['m' 1024 'k' 1024 'n' 1024] [1024, 1024, 1024] N T;
    "scores, heads outside" "bhld" "bhkd" "bhlk" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 128, 32] N T;
    "scores, heads inside" "blhd" "bkhd" "bhlk" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 128, 32] N T;
    "values, heads outside" "bhlk" "bhkd" "bhld" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 32, 128] N N;
    "values, heads inside" "bhlk" "bkhd" "blhd" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 32, 128] N N;
    "values dw, heads outside" "bhlk" "bhld" "bhkd" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 32, 128] T N;
    "values dw, heads inside" "bhlk" "blhd" "bkhd" ['b' 8 'h' 8 'l' 128 'k' 128 'd' 32] [128, 32, 128] T N;
};

impl Case {
    fn size(&self, label: char) -> usize {
        self.sizes.iter().find(|(l, _)| *l == label).map_or(1, |(_, size)| *size)
    }

    fn extents(&self, operand: usize) -> Vec<usize> {
        self.labels[operand].chars().map(|label| self.size(label)).collect()
    }

    fn len(&self, operand: usize) -> usize {
        self.extents(operand).iter().product()
    }

    /// Multiplications of all labels.
    fn work(&self) -> usize {
        self.sizes.iter().map(|(_, size)| size).product()
    }

    fn copies(&self) -> usize {
        BYTES.div_ceil(4 * (0..3).map(|k| self.len(k)).sum::<usize>()) + 1
    }

    /// A session and its function, which does as many contractions as there are copies.
    fn session(&self) -> Result<(Session, Function<0, 0>), Box<dyn Error>> {
        let g = mesh_ops::graph();
        let dims = |k: usize| -> Vec<Dimension> {
            self.labels[k].chars().map(|l| dim(&format!("{l}"), self.size(l))).collect()
        };
        let updates: Vec<_> = (0..self.copies())
            .map(|copy| {
                let [a, b, c] = [0, 1, 2].map(|k| {
                    let spread = Initializer::Uniform { low: -1.0, high: 1.0 };
                    g.variable(&format!("{copy}/{k}"), dims(k), F32, spread)
                });
                c.assign(einsum(a.value(), &[b.value()], dims(2)))
            })
            .collect();
        let step = g.function("contract", [], [], updates);
        let module = g.lower(&Mesh::single(), &Layout::default())?;
        Ok((Session::threads(&module, 0)?, step))
    }

    /// The same work by `ndarray`.
    fn plain(&self, factors: &[[Vec<f32>; 3]], out: &mut [Vec<f32>]) -> Result<(), Box<dyn Error>> {
        let [m, n, k] = self.shape;
        for ([a, b, _], c) in factors.iter().zip(out) {
            for i in 0..self.work() / (m * n * k) {
                let a = &a[i * m * k..][..m * k];
                let b = &b[i * k * n..][..k * n];
                let mut c = ArrayViewMut2::from_shape((m, n), &mut c[i * m * n..][..m * n])?;
                let a = ArrayView2::from_shape((m, k).set_f(self.turned[0]), a)?;
                let b = ArrayView2::from_shape((k, n).set_f(self.turned[1]), b)?;
                general_mat_mul(1.0, &a, &b, 0.0, &mut c);
            }
        }
        Ok(())
    }
}

fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 32_768.0 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Best seconds of both, turn by turn.
fn time(case: &Case) -> Result<[f64; 2], Box<dyn Error>> {
    let (mut session, step) = case.session()?;
    let operands = |copy: usize| [0, 1, 2].map(|k| numbers(case.len(k), copy as u32));
    let factors: Vec<_> = (0..case.copies()).map(operands).collect();
    let mut out: Vec<Vec<f32>> = vec![vec![0.0; case.len(2)]; case.copies()];
    let mut best = [f64::INFINITY; 2];
    let begin = Instant::now();
    let mut turns = 0;
    while turns < 5 || turns < 100 && begin.elapsed().as_secs_f64() < 0.25 {
        let start = Instant::now();
        session.call(&step, [])?;
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        case.plain(&factors, &mut out)?;
        best[1] = best[1].min(start.elapsed().as_secs_f64());
        turns += 1;
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let mut out = std::io::stdout();
    writeln!(out, "{:28}{:>16}{:>10}{:>10}{:>8}", "GFLOP/s", "shape", "ours", "ndarray", "ratio")?;
    for case in CASES {
        if !wanted.is_empty() && !wanted.iter().any(|part| case.name.contains(part)) {
            continue;
        }
        let [ours, plain] = time(case)?;
        let rate = |seconds: f64| 2e-9 * (case.work() * case.copies()) as f64 / seconds;
        let [m, n, k] = case.shape;
        let shape = format!("{m}x{n}x{k}");
        let ratio = plain / ours;
        writeln!(
            out,
            "{:28}{shape:>16}{:10.0}{:10.0}{ratio:8.2}",
            case.name,
            rate(ours),
            rate(plain)
        )?;
    }
    Ok(())
}
