//! What `docs/ops.md` says of ops: read off their rooms, and off graphs and programs.

pub mod core_ops;
pub mod facts;
pub mod instances;
pub mod layers;
pub mod mesh_tensorflow;
pub mod sources;

use mesh_ops::prelude::*;

/// What an instance of an op takes and makes.
pub struct Made<'g> {
    pub inputs: Vec<Tensor<'g>>,
    pub outputs: Vec<Tensor<'g>>,
}

type Build = dyn for<'g> Fn(&'g Graph) -> Made<'g>;

/// One public function, or method of a layer, with a graph that holds it.
pub struct Entry {
    /// As in the documentation: `sum`, `MultiHead::decode`.
    pub name: String,
    /// The case of the conformance suite that covers it, where that is not its name.
    pub case: String,
    pub build: Box<Build>,
}

/// An entry whose conformance case has its name.
pub fn entry(name: &str, build: impl for<'g> Fn(&'g Graph) -> Made<'g> + 'static) -> Entry {
    case(name, name, build)
}

/// An entry and its conformance case.
pub fn case(
    name: &str,
    case: &str,
    build: impl for<'g> Fn(&'g Graph) -> Made<'g> + 'static,
) -> Entry {
    Entry { name: name.to_owned(), case: case.to_owned(), build: Box::new(build) }
}

pub fn made<'g>(
    inputs: impl IntoIterator<Item = Tensor<'g>>,
    outputs: impl IntoIterator<Item = Tensor<'g>>,
) -> Made<'g> {
    Made { inputs: inputs.into_iter().collect(), outputs: outputs.into_iter().collect() }
}

/// An input with dims as in `p:4;q:6`.
pub fn input<'g>(graph: &'g Graph, name: &str, dims: &str, dtype: DType) -> Tensor<'g> {
    graph.input(name, dims.parse::<Shape>().unwrap(), dtype)
}

/// An input of f32.
pub fn f32s<'g>(graph: &'g Graph, name: &str, dims: &str) -> Tensor<'g> {
    input(graph, name, dims, F32)
}
