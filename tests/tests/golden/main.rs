//! Ops, layers and metrics against JAX, optax, PyTorch and scikit-learn: values and gradients of random instances, kept as files.
//!
//! `tests/golden/make.py`, `make_torch.py` and `make_sklearn.py` draw the instances and write the files beside them. Here every instance
//! is built with `mesh_ops` and run in f64 and f32, on one processor and under some of the legal
//! layouts of four. A builder has at least three instances of different sizes, odd ones among them, and no
//! instance is without a builder.
//!
//! Where conventions differ, instances avoid the difference, and say so in `tests/golden/`. The
//! gradients differ
//!
//! * of `abs` at 0: Mesh 0, JAX 1;
//! * of `clip` at a bound: Mesh 1, JAX 1/2;
//! * of `max_pool` in a window with several greatest elements: Mesh shares them evenly, JAX chooses
//!   one. (Of `max`, `min`, `maximum` and `minimum` both share evenly, and instances have ties.)
//!
//! The values at edges, in `tests/golden/edges/`, differ where definitions there leave a kind out, each with its reason:
//! resizing, averages of windows and group norms are products with weights here, so that an infinity or NaN reaches what
//! has the weight 0.

mod elementwise;
mod functions;
mod images;
mod indices;
mod instance;
mod layers;
mod losses;
mod metrics;
mod recurrent;
mod reductions;
mod shapes;
mod state_space;
mod statistics;
mod structure;
mod windows;

use instance::{Builder, check_family};

macro_rules! families {
    ($($family:ident = $builders:path;)*) => {
        $(#[test]
        fn $family() {
            check_family(stringify!($family), $builders);
        })*

        #[test]
        fn every_file_is_read() {
            let mut known = vec![$(concat!(stringify!($family), ".json")),*];
            known.sort_unstable();
            assert_eq!(instance::files(""), known);
            assert_eq!(instance::files("edges"), known);
        }
    };
}

families! {
    elementwise = elementwise::BUILDERS;
    functions = functions::BUILDERS;
    reductions = reductions::BUILDERS;
    statistics = statistics::BUILDERS;
    indices = indices::BUILDERS;
    structure = structure::BUILDERS;
    shapes = shapes::BUILDERS;
    windows = windows::BUILDERS;
    layers = layers::BUILDERS;
    images = images::JAX;
    optax_losses = losses::OPTAX;
    sklearn_metrics = metrics::BUILDERS;
    torch_losses = losses::TORCH;
    torch_images = images::TORCH;
    torch_recurrent = recurrent::BUILDERS;
    torch_state_space = state_space::BUILDERS;
    torch_layers = layers::TORCH;
    torch_functions = functions::TORCH;
}
