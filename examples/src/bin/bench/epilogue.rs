//! `epilogue`: a product and the map after it in one function, compared with two functions.

use super::lines::{Lines, median};
use super::models::adamw;
use mesh_ops::elementwise::{greater, select};
use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;
use std::error::Error;
use std::str::FromStr;
use std::time::Instant;

/// Which products.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Rows, depth and columns of a processor's product.
    #[arg(long, value_delimiter = ',', default_values = [
        "2048x256x1024", "8192x16x1024", "8192x128x1024", "8192x512x1024", "4096x1024x1024",
        "16384x128x2048",
    ])]
    shapes: Vec<Extents>,

    /// Processors, each with a product of its own.
    #[arg(long, default_value_t = 2)]
    processors: usize,
}

/// Rows, depth, columns.
#[derive(Clone, Copy, Debug)]
struct Extents([usize; 3]);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let sizes = sizes.ok().and_then(|sizes| <[usize; 3]>::try_from(sizes).ok());
        let positive = sizes.filter(|sizes| sizes.iter().all(|&size| size > 0));
        positive.map(Self).ok_or_else(|| format!("`{text}` is not of the form 4096x256x1024"))
    }
}

/// What the map computes from the product.
#[derive(Clone, Copy)]
enum Epilogue {
    BiasRelu,
    Residual,
    /// The gradient of a ReLU whose result is known.
    Gradient,
    /// A step of gradient descent.
    Descent,
    Adam,
}

impl Epilogue {
    const ALL: [(&str, Self); 5] = [
        ("bias_relu", Self::BiasRelu),
        ("residual", Self::Residual),
        ("relu_gradient", Self::Gradient),
        ("descent", Self::Descent),
        ("adam", Self::Adam),
    ];

    /// The updates that the map makes of a product `x`.
    fn updates<'g>(
        self,
        x: Tensor<'g>,
        [bias, other, result, weights]: [Variable<'g>; 4],
    ) -> Vec<Update<'g>> {
        let zero = x.graph().scalar(0.0, F32);
        match self {
            Self::BiasRelu => vec![result.assign((x + bias.value()).relu())],
            Self::Residual => vec![result.assign(x + other.value())],
            Self::Gradient => {
                vec![result.assign(select(greater(other.value(), zero), x, zero))]
            }
            Self::Descent => vec![weights.assign_sub(x * 0.01)],
            Self::Adam => adamw().apply_grads(&[(Some(x), weights)]),
        }
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    for &Extents([rows, depth, columns]) in &flags.shapes {
        for (name, epilogue) in Epilogue::ALL {
            let shape = [rows * flags.processors, depth, columns];
            let [product, map, both] = measure(epilogue, shape, flags.processors)?;
            let work = format!("{name}_{rows}x{depth}x{columns}");
            let lines = Lines::new(work, format!("n{}", flags.processors));
            lines.line("us_product", product * 1e6)?;
            lines.line("us_map", map * 1e6)?;
            lines.line("us_both", both * 1e6)?;
            lines.line("of_apart", both / (product + map))?;
        }
    }
    Ok(())
}

/// The median seconds of the product, of the map, and of both in one function, measured in turns.
fn measure(
    epilogue: Epilogue,
    [rows, depth, columns]: [usize; 3],
    processors: usize,
) -> Result<[f64; 3], Box<dyn Error>> {
    const SECONDS: f64 = 1.0;
    let graph = mesh_ops::graph();
    let (m, k, n) = (dim("m", rows), dim("k", depth), dim("n", columns));
    let state = |name: &str, dims: &[Dimension]| {
        graph.state(name, dims.to_vec(), F32, Initializer::Constant(1e-3))
    };
    // The transpositions of a layer's product, or of a weight's gradient.
    let left = if matches!(epilogue, Epilogue::Descent | Epilogue::Adam) { [k, m] } else { [m, k] };
    let (a, b, product) = (state("a", &left), state("b", &[k, n]), state("product", &[m, n]));
    let (bias, other, result) =
        (state("bias", &[n]), state("other", &[m, n]), state("result", &[m, n]));
    let weights = |name| graph.variable(name, [m, n], F32, Initializer::ONES);
    let multiplied = || a.value().einsum(&[b.value()], [m, n]);
    let mapped = |x, of| epilogue.updates(x, [bias, other, result, weights(of)]);
    let functions = [
        graph.function("product", [], [], vec![product.assign(multiplied())]),
        graph.function("map", [], [], mapped(product.value(), "map_weights")),
        graph.function("both", [], [], mapped(multiplied(), "weights")),
    ];
    let module = graph.lower(&Mesh::new([("all", processors)])?, &"m:all".parse()?)?;
    let mut session = Session::threads(&module, 0)?;
    let mut times = [const { Vec::new() }; 3];
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < SECONDS || times[2].len() < 6 {
        for (function, times) in functions.iter().zip(&mut times) {
            let begin = Instant::now();
            session.call_into(function, [], &mut [])?;
            times.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok(times.map(median))
}
