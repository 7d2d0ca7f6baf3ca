//! The content of `docs/ops.md`, read from the ops' rooms and from graphs and programs.

pub mod core_ops;
pub mod facts;
pub mod instances;
pub mod layers;
pub mod mesh_tensorflow;
pub mod metrics;
pub mod proofs;
pub mod sources;

use mesh_ops::prelude::*;
use std::cell::Cell;

/// The inputs and outputs of an instance of an op.
pub struct Made<'g> {
    pub inputs: Vec<Tensor<'g>>,
    pub outputs: Vec<Tensor<'g>>,
}

type Build = dyn for<'g> Fn(&'g Graph) -> Made<'g>;

/// A public function, or a method of a layer, with a graph that uses it.
pub struct Entry {
    /// The name in the documentation: `sum`, `MultiHead::decode`.
    pub name: String,
    /// The case or table of the conformance suite that covers it, or `file::test`.
    pub case: String,
    pub build: Box<Build>,
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

/// A wrong input, with which a function is called to see that it refuses it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flaw {
    /// Another dtype.
    Of(DType),
    /// Another name for the dim of this index.
    Misspelt(usize),
    /// One more index along the dim of this index.
    Longer(usize),
    /// The dim of this index is missing.
    Without(usize),
    /// An additional dim.
    Stray,
}

impl Flaw {
    fn of(self, dims: &mut Vec<Dimension>, dtype: &mut DType) {
        match self {
            Self::Of(other) => *dtype = other,
            Self::Misspelt(i) if i < dims.len() => {
                dims[i] = dims[i].renamed(&format!("{}x", dims[i].name));
            }
            Self::Longer(i) if i < dims.len() => dims[i].size += 1,
            Self::Without(i) if i < dims.len() => drop(dims.remove(i)),
            Self::Stray => dims.push(dim("stray", 3)),
            Self::Misspelt(_) | Self::Longer(_) | Self::Without(_) => {}
        }
    }
}

thread_local! {
    /// The index of the input that is wrong, counted down as inputs are made.
    static FLAW: Cell<Option<(usize, Flaw)>> = const { Cell::new(None) };
}

/// Runs `build` with a flaw in the input of this index.
pub fn with_flaw<T>(input: usize, flaw: Flaw, build: impl FnOnce() -> T) -> T {
    FLAW.set(Some((input, flaw)));
    let made = build();
    FLAW.set(None);
    made
}

/// An input with dims as in `p:4;q:6`.
pub fn input<'g>(graph: &'g Graph, name: &str, dims: &str, mut dtype: DType) -> Tensor<'g> {
    let mut dims: Vec<_> = dims.parse::<Shape>().unwrap().iter().collect();
    match FLAW.get() {
        Some((0, flaw)) => {
            flaw.of(&mut dims, &mut dtype);
            FLAW.set(None);
        }
        Some((n, flaw)) => FLAW.set(Some((n - 1, flaw))),
        None => {}
    }
    graph.input(name, dims, dtype)
}

/// An input of f32.
pub fn f32s<'g>(graph: &'g Graph, name: &str, dims: &str) -> Tensor<'g> {
    input(graph, name, dims, F32)
}
