//! What lowering makes: a variable table and a compiled program per function.

use super::{Explain, Warnings};
use crate::names::{DType, LayoutWarning, Mesh, Placement, Shape};
use crate::passes::{self, AllReduce};
use crate::program::{Compiled, Owners, VariableType, owns, verify};

/// Choices that a layout leaves open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// How sums over processors are made.
    pub all_reduce: AllReduce,
    /// A pass to leave out, by its name in [`pass_names`]: to look for what makes a difference.
    pub without: Option<&'static str>,
    /// Tensors whose global values are shown to the session's watcher after each call of a function
    /// that computes them, as if a [`probe`](crate::graph::Tensor::probe) stood behind each: names of
    /// operations, of their outputs (`top_k.1`), or patterns in which `*` stands for anything. What
    /// is shown is kept, so it is not fused away; where everything lies does not depend on it.
    pub probe: Vec<String>,
    /// Who is told of warnings.
    pub warnings: Warnings,
}

/// The passes that improve lowered programs, in the order in which they run.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    passes::passes().iter().map(|pass| pass.name)
}

/// A variable of a module and where it lies at rest.
#[derive(Clone, PartialEq, Debug)]
pub struct VariableSpec {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Global shape.
    pub shape: Shape,
    /// Where it lies.
    pub placement: Placement,
    /// Whether optimizers update it.
    pub trainable: bool,
}

impl VariableSpec {
    /// The variable as programs see it.
    pub fn local(&self, mesh: &Mesh) -> VariableType {
        let local = self.placement.local_shape(mesh, &self.shape);
        let extents = local.as_ref().unwrap_or(&self.shape).sizes().into_iter().collect();
        let owners = Owners::from_slice(self.placement.owned());
        VariableType { name: self.name.clone(), dtype: self.dtype, extents, owners }
    }
}

/// A graph made ready for one mesh and layout. Borrows nothing of the graph.
///
/// Whoever runs it relies on its programs and plans being legal, so that it can be read, but not
/// changed:
///
/// ```compile_fail,E0616
/// # fn swap(mut module: mesh_core::lower::Module) {
/// module.functions[0].plan.places.swap(0, 1);
/// # }
/// ```
///
/// [`Module::new`] makes another of programs that have been changed, if they are legal.
#[derive(Clone, PartialEq, Debug)]
pub struct Module {
    pub(super) mesh: Mesh,
    pub(super) variables: Vec<VariableSpec>,
    pub(super) functions: Vec<Compiled>,
    pub(super) init: Compiled,
    pub(super) warnings: Vec<LayoutWarning>,
}

/// Why a program cannot be a module's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{program}` cannot be a function of the module:\n  {}", problems.join("\n  "))]
pub struct ModuleError {
    /// Its name.
    pub program: String,
    /// What is wrong with it, or with its plan.
    pub problems: Vec<String>,
}

impl Module {
    /// A module of programs that were written or changed by hand: functions, and `init`, which sets
    /// every variable to its initial value.
    ///
    /// # Errors
    /// A program that [`verify`] refuses, or a plan that [`check`](passes::check) does.
    pub fn new(
        mesh: Mesh,
        variables: Vec<VariableSpec>,
        functions: Vec<Compiled>,
        init: Compiled,
    ) -> Result<Self, ModuleError> {
        let types: Vec<_> = variables.iter().map(|variable| variable.local(&mesh)).collect();
        for Compiled { program, plan } in functions.iter().chain([&init]) {
            verify(program, &mesh, &types)
                .and_then(|()| passes::check(program, plan, &types))
                .map_err(|problems| ModuleError { program: program.name.clone(), problems })?;
        }
        Ok(Self { mesh, variables, functions, init, warnings: Vec::new() })
    }

    /// The processors.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// State, shared by all functions.
    pub fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    /// One per function of the graph, in the order of declaration.
    pub fn functions(&self) -> &[Compiled] {
        &self.functions
    }

    /// Sets every variable to its initial value.
    pub fn init(&self) -> &Compiled {
        &self.init
    }

    /// What the layout says that has no effect on this graph.
    pub fn warnings(&self) -> &[LayoutWarning] {
        &self.warnings
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&Compiled> {
        self.functions.iter().find(|f| f.program.name == name)
    }

    /// What each function does: slices, work, collectives and memory, step by step. Runs nothing.
    pub fn explain(&self) -> Explain {
        Explain::new(self)
    }

    /// Bytes of variables on the processor that holds most.
    pub fn variable_bytes(&self) -> usize {
        let owned = self.variables.iter().any(|v| !v.placement.owned().is_empty());
        let processors = if owned { self.mesh.processors() } else { 1 };
        (0..processors).map(|processor| self.variable_bytes_on(processor)).max().unwrap_or(0)
    }

    /// Bytes of variables on one processor.
    pub fn variable_bytes_on(&self, processor: usize) -> usize {
        let bytes = |v: &VariableSpec| {
            v.local(&self.mesh).extents.iter().product::<usize>() * v.dtype.size()
        };
        let held =
            self.variables.iter().filter(|v| owns(&self.mesh, processor, v.placement.owned()));
        held.map(bytes).sum()
    }

    /// A function's program as text.
    pub fn print(&self, function: &str) -> Option<String> {
        self.function(function).map(|f| f.program.display(&self.mesh).to_string())
    }
}
