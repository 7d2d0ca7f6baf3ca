//! How fast convolutions are, in all three directions.
//!
//! `cargo bench -p mesh_core --bench convolve -- [part of a shape's name]`. GFLOP/s count every
//! position of the kernel at every output, in the zeros beyond the ends too, so more than the
//! machine's peak can be reached. `product` is one matrix product with as many products of the same
//! numbers of positions and channels, without the copies that would make it a convolution. Rows
//! alternate; the best of several runs counts, since others use the machine too.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that prints a table")]

use mesh_core::lower::{Module, Target};
use mesh_core::names::{DType, Mesh};
use mesh_core::program::{Builder, Extents, Operand, Program, Scalar, Slot, ValueId, Window};
use mesh_core::session::{Session, Threads};
use smallvec::smallvec;
use std::time::{Duration, Instant};

const RUNS: usize = 7;

/// A convolution of square images.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    /// Rows and columns of the image.
    image: [usize; 2],
    channels: usize,
    features: usize,
    kernel: usize,
    stride: usize,
    /// Whether the image is padded so that the output is as large as the image by the stride.
    same: bool,
}

impl Shape {
    fn name(&self) -> String {
        let Self { batch, image: [h, w], channels, features, kernel, stride, same } = self;
        let padding = if *same { "same" } else { "valid" };
        format!("{batch}x{h}x{w}x{channels} {kernel}x{kernel}/{stride} {features} {padding}")
    }

    fn output(&self) -> [usize; 2] {
        let size = |n: usize| match self.same {
            true => n.div_ceil(self.stride),
            false => (n - self.kernel) / self.stride + 1,
        };
        self.image.map(size)
    }

    fn pad(&self, dim: usize) -> usize {
        let reach = (self.output()[dim] - 1) * self.stride + self.kernel;
        if self.same { reach.saturating_sub(self.image[dim]) / 2 } else { 0 }
    }

    /// Positions, products of each, features.
    fn product(&self) -> [usize; 3] {
        let [h, w] = self.output();
        [self.batch * h * w, self.kernel * self.kernel * self.channels, self.features]
    }
}

fn shapes() -> Vec<Shape> {
    let shape = |batch, side, channels, features, kernel, stride, same| Shape {
        batch,
        image: [side, side],
        channels,
        features,
        kernel,
        stride,
        same,
    };
    let mut shapes = Vec::new();
    for batch in [100, 50] {
        shapes.push(shape(batch, 28, 1, 16, 9, 1, true));
        shapes.push(shape(batch, 28, 16, 16, 9, 1, true));
    }
    // Blocks with their margins: of a 2 by 2 split, and of 4 by 4 blocks on one processor.
    shapes.push(shape(100, 22, 1, 16, 9, 1, false));
    shapes.push(shape(100, 22, 16, 16, 9, 1, false));
    shapes.push(shape(800, 15, 16, 16, 9, 1, false));
    shapes.push(shape(32, 28, 16, 32, 3, 1, true));
    shapes.push(shape(32, 28, 16, 32, 3, 2, true));
    shapes.push(shape(32, 14, 64, 64, 3, 1, true));
    shapes.push(shape(32, 14, 32, 64, 5, 1, true));
    shapes.push(shape(32, 14, 64, 64, 1, 1, true));
    shapes.push(shape(16, 56, 3, 32, 3, 2, true));
    shapes.push(shape(1, 56, 32, 32, 3, 1, true));
    shapes.push(shape(1, 14, 256, 256, 3, 1, true));
    // Of ResNet-18 on small images, of ResNet-50 on large ones.
    for (side, channels) in [(32, 64), (16, 128), (8, 256), (4, 512)] {
        shapes.push(shape(64, side, channels, channels, 3, 1, true));
    }
    for (side, channels) in [(32, 64), (16, 128), (8, 256)] {
        shapes.push(shape(64, side, channels, 2 * channels, 3, 2, true));
        shapes.push(shape(64, side, channels, 2 * channels, 1, 2, true));
    }
    shapes.push(shape(64, 32, 3, 64, 3, 1, true));
    shapes.push(shape(8, 224, 3, 64, 7, 2, true));
    shapes.push(shape(8, 56, 64, 64, 3, 1, true));
    shapes.push(shape(8, 28, 128, 128, 3, 1, true));
    shapes.push(shape(8, 14, 256, 256, 3, 1, true));
    shapes.push(shape(8, 7, 512, 512, 3, 1, true));
    shapes.push(shape(8, 64, 32, 32, 3, 1, true));
    shapes
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("ms (GFLOP/s)");
    for shape in shapes() {
        let name = shape.name();
        if arguments.iter().all(|part| name.contains(part.as_str())) {
            row(&shape);
        }
    }
}

const COLUMNS: [&str; 4] = ["forward", "image", "kernel", "product"];

fn row(shape: &Shape) {
    let flops = 2.0 * shape.product().iter().map(|&n| n as f64).product::<f64>();
    let count = (2e9 / flops).clamp(1.0, 1000.0) as usize;
    let mesh = Mesh::new([("all", 1)]).unwrap();
    let mut functions = Vec::new();
    for column in COLUMNS {
        functions.extend([0, count].map(|count| program(shape, column, count, &mesh)));
    }
    let names: Vec<_> = functions.iter().map(|f| f.name.clone()).collect();
    let module = Module::new(mesh, Vec::new(), functions, Program::default()).unwrap();
    // Programs run as they are.
    let target = Target { passes: Vec::new(), ..Target::host() };
    let threads = Threads::default().target(target);
    let mut session = Session::threads_with(&module, 0, &threads).unwrap();
    let mut best = vec![Duration::MAX; names.len()];
    for _ in 0..=RUNS {
        for (name, best) in names.iter().zip(&mut best) {
            let started = Instant::now();
            session.call_named(name, &[]).unwrap();
            *best = started.elapsed().min(*best);
        }
    }
    print!("{:<28}", shape.name());
    for (column, pair) in COLUMNS.iter().zip(best.chunks(2)) {
        let seconds = pair[1].saturating_sub(pair[0]).as_secs_f64() / count as f64;
        let (ms, gflops) = (seconds * 1e3, flops / seconds / 1e9);
        print!("  {column} {ms:7.3} ({gflops:4.0})");
    }
    println!();
}

/// Operands, and `count` times what the column says.
fn program(shape: &Shape, column: &str, count: usize, mesh: &Mesh) -> Program {
    let mut p = Builder::new(&format!("{column}{count}"), mesh);
    let number = |p: &mut Builder<'_>, extents: &[usize]| {
        p.fill(Scalar::new(DType::F32, 1.0), Extents::from_slice(extents))
    };
    let [h, w] = shape.image;
    let [y, x] = shape.output();
    let Shape { batch, channels, features, kernel, .. } = *shape;
    let image = [batch, h, w, channels];
    let filter = [kernel, kernel, channels, features];
    let output = [batch, y, x, features];
    let [m, k, n] = shape.product();
    // Labels of result and then of factors.
    let (sides, out, labels) = match column {
        "forward" => ([image, filter], output, [[0, 4, 5, 6], [7, 8, 6, 3], [0, 1, 2, 3]]),
        "image" => ([filter, output], image, [[4, 5, 3, 6], [0, 7, 8, 6], [0, 1, 2, 3]]),
        "kernel" => ([image, output], filter, [[4, 5, 6, 2], [4, 7, 8, 3], [0, 1, 2, 3]]),
        _ => {
            let [a, b] = [[m, k], [k, n]].map(|extents| number(&mut p, &extents));
            for _ in 0..count {
                p.contract(operand(a, &[0, 2]), operand(b, &[2, 1]), Extents::from_slice(&[m, n]));
            }
            return finish(p);
        }
    };
    let [a, b] = sides.map(|extents| number(&mut p, &extents));
    for _ in 0..count {
        let window = |dim: usize| {
            let [input, kernel, output] = match column {
                "forward" => [labels[0][1 + dim], labels[1][dim], labels[2][1 + dim]],
                "image" => [labels[2][1 + dim], labels[0][dim], labels[1][1 + dim]],
                _ => [labels[0][1 + dim], labels[2][dim], labels[1][1 + dim]],
            };
            let (stride, pad) = (shape.stride, shape.pad(dim));
            Window { input, kernel, output, stride, dilation: 1, pad }
        };
        let windows = smallvec![window(0), window(1)];
        let [a, b] = [operand(a, &labels[0]), operand(b, &labels[1])];
        p.convolve(a, b, windows, Extents::from_slice(&out));
    }
    finish(p)
}

fn operand(value: ValueId, dims: &[u8]) -> Operand {
    Operand { value, dims: dims.iter().copied().collect() }
}

fn finish(mut p: Builder<'_>) -> Program {
    let value = p.fill(Scalar::new(DType::F32, 1.0), Extents::new());
    p.fetch(Slot { name: "end".to_owned(), ..Slot::default() }, value);
    p.finish()
}
