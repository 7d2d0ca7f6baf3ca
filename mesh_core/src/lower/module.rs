//! What lowering makes: a variable table and a compiled program per function.

use super::{Explain, Summary, Warnings};
use crate::graph::{Function, GraphId};
use crate::names::{DType, Layout, LayoutWarning, Mesh, Placement, Shape, nearest, suggestion};
use crate::passes::{self, AllReduce, Executable, Fault, PORTABLE, PassId, Target};
use crate::program::stablehlo::spell;
use crate::program::{
    Block, Owners, Problem, Program, StableHloOptions, Step, VariableType, owns, verify,
};
use serde::{Deserialize, Serialize};

/// Choices that a layout leaves open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How sums over processors are made.
    pub all_reduce: AllReduce,
    /// The passes that lowered programs go through, in order; by default [`PORTABLE`].
    pub passes: Vec<PassId>,
    /// Tensors whose global values are shown to the session's watcher after each call of a function
    /// that computes them, as if a [`probe`](crate::graph::Tensor::probe) stood behind each: names of
    /// operations, of their outputs (`top_k.1`), or patterns in which `*` stands for anything. What
    /// is shown is kept, so it is not fused away; where everything lies does not depend on it.
    pub probe: Vec<String>,
    /// Who is told of warnings.
    pub warnings: Warnings,
}

impl Options {
    /// The options without a pass: to look for what makes a difference.
    pub fn without(mut self, pass: PassId) -> Self {
        self.passes.retain(|own| *own != pass);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            all_reduce: AllReduce::default(),
            passes: PORTABLE.to_vec(),
            probe: Vec::new(),
            warnings: Warnings::default(),
        }
    }
}

/// A variable of a module and where it lies at rest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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

    /// Whether it can lie on the mesh.
    fn check(&self, mesh: &Mesh) -> Result<(), ModuleError> {
        let Self { name, shape, placement, .. } = self;
        let refused = |problem: String| {
            let (variable, mesh) = (name.clone(), mesh.clone());
            Err(ModuleError::Placement { variable, mesh, problem })
        };
        if placement.pending().is_some() {
            return refused("a sum is owed".to_owned());
        }
        let split = placement.splits().flat_map(|(_, axes)| axes.iter().copied());
        let mut axes: Vec<_> =
            split.chain(placement.owned().iter().map(|(axis, _)| *axis)).collect();
        if axes.iter().any(|axis| axis.index() >= mesh.axes().count()) {
            return refused("it lies along an axis that there is not".to_owned());
        }
        let listed = axes.len();
        axes.sort_unstable();
        axes.dedup();
        if axes.len() < listed {
            return refused("it lies along an axis in two ways".to_owned());
        }
        if placement.splits().any(|(dim, _)| !shape.contains(dim)) {
            return refused(format!("a dim is split that {shape} lacks"));
        }
        if placement.owned().iter().any(|&(axis, owner)| owner >= mesh.size(axis)) {
            return refused("it is owned by a coordinate that there is not".to_owned());
        }
        match placement.local_shape(mesh, shape) {
            Some(_) => Ok(()),
            None => refused(format!("a dim of {shape} does not divide")),
        }
    }
}

/// A graph made ready for one mesh and layout: variables, and what each processor does in each function.
/// Borrows nothing of the graph, and holds no choice that depends on a machine:
/// [`compile`](Self::compile) makes those.
///
/// [`Graph::lower`](crate::graph::Graph::lower) makes one. [`Session::threads`](crate::session::Session::threads)
/// runs it, [`explain`](Self::explain) says what each processor does, and [`save`](Self::save) writes it to
/// a file.
///
/// Whoever runs it relies on its programs being legal, so that it can be read, but not changed:
///
/// ```compile_fail,E0616
/// # fn swap(mut module: mesh_core::lower::Module) {
/// module.functions[0].block.steps.swap(0, 1);
/// # }
/// ```
///
/// [`Module::new`] makes another of programs that have been changed, if they are legal.
#[derive(Clone, PartialEq, Debug)]
pub struct Module {
    /// The graph it was made of, whose functions' handles call it.
    pub(super) graph: GraphId,
    pub(super) mesh: Mesh,
    pub(super) variables: Vec<VariableSpec>,
    pub(super) functions: Vec<Program>,
    pub(super) init: Program,
    pub(super) warnings: Vec<LayoutWarning>,
    /// What it was lowered under.
    pub(super) layout: Layout,
}

/// Why there is no such module, or function of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// A program is illegal.
    #[error("`{program}` cannot be a function of the module:\n  {}", lines(problems))]
    Illegal {
        /// Its name.
        program: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
    /// A variable cannot lie on the mesh as its placement says.
    #[error("variable `{variable}` cannot lie on mesh {mesh}: {problem}")]
    Placement {
        /// Its name.
        variable: String,
        /// The mesh.
        mesh: Mesh,
        /// What is wrong.
        problem: String,
    },
    /// The module has no function of a name.
    #[error("the module has no function `{name}`{}: there are {}", suggestion(nearest), known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names of its functions.
        known: Vec<String>,
        /// The one that is most like it.
        nearest: Option<String>,
    },
    /// A function has other numbers of feeds and fetches than its handle.
    #[error(
        "function `{function}` has {} feeds and {} fetches, not {} and {}",
        expected.0, expected.1, found.0, found.1
    )]
    Arity {
        /// Its name.
        function: String,
        /// Its numbers of feeds and fetches.
        expected: (usize, usize),
        /// The handle's.
        found: (usize, usize),
    },
    /// A step of a function has no spelling in StableHLO.
    #[error("function `{function}` cannot be spelled in StableHLO: {problem}")]
    Unspelled {
        /// Its name.
        function: String,
        /// Which step, where it comes from, and why.
        problem: String,
    },
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

impl Module {
    /// The module made ready for a machine: its programs improved by the target's passes, with plans of
    /// the memory they take.
    ///
    /// # Errors
    /// A pass that makes a program illegal, or a wrong plan: a bug of this crate.
    pub fn compile(&self, target: &Target) -> Result<Executable, Fault> {
        let variables: Vec<_> = self.variables.iter().map(|v| v.local(&self.mesh)).collect();
        let compile =
            |program: &Program| passes::compile(program.clone(), &self.mesh, &variables, target);
        let functions = self.functions.iter().map(compile).collect::<Result<_, _>>()?;
        let (mesh, init) = (self.mesh.clone(), compile(&self.init)?);
        let check_numerics = target.check_numerics;
        Ok(Executable { mesh, variables, functions, init, check_numerics })
    }

    pub(crate) fn graph(&self) -> GraphId {
        self.graph
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
    pub fn functions(&self) -> &[Program] {
        &self.functions
    }

    /// Sets every variable to its initial value.
    pub fn init(&self) -> &Program {
        &self.init
    }

    /// What the layout says that has no effect on this graph.
    pub fn warnings(&self) -> &[LayoutWarning] {
        &self.warnings
    }

    /// The handle of a function, to call it in sessions of this module; a module of lowering has the handles
    /// that its graph has given.
    ///
    /// # Errors
    /// A name that no function has, or other numbers of feeds or fetches.
    pub fn handle<const I: usize, const F: usize>(
        &self,
        name: &str,
    ) -> Result<Function<I, F>, ModuleError> {
        let program = self.known(name)?;
        let expected = (program.feeds.len(), program.fetches.len());
        if expected != (I, F) {
            let function = name.to_owned();
            return Err(ModuleError::Arity { function, expected, found: (I, F) });
        }
        Ok(Function::of(self.graph, name))
    }

    /// The function of a name, which is an error if there is none.
    pub(super) fn known(&self, name: &str) -> Result<&Program, ModuleError> {
        self.function(name).ok_or_else(|| {
            let known = self.functions.iter().map(|program| program.name.as_str());
            let nearest = nearest(name, known.clone());
            let known = known.map(str::to_owned).collect();
            ModuleError::Unknown { name: name.to_owned(), known, nearest }
        })
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&Program> {
        self.functions.iter().find(|program| program.name == name)
    }

    /// What each function does, before anything is chosen that depends on a machine: work, traffic, the
    /// dearest operations, what is repeated needlessly. Runs nothing.
    pub fn explain(&self) -> Explain {
        Explain::new(self)
    }

    /// The variables: shapes, dtypes, where they lie, how much they take.
    pub fn summary(&self) -> Summary {
        Summary::new(self)
    }

    /// As [`explain`](Self::explain), with the memory that each function takes on a target.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn explain_for(&self, target: &Target) -> Result<Explain, Fault> {
        self.explain_with(target, &|_, _| None)
    }

    /// As [`explain_for`](Self::explain_for), with the ways in which a back-end runs steps.
    pub(crate) fn explain_with(
        &self,
        target: &Target,
        way: &dyn Fn(&Block, &Step) -> Option<&'static str>,
    ) -> Result<Explain, Fault> {
        let executable = self.compile(target)?;
        Ok(self.explain().memory(&executable, target).chosen(&executable, way))
    }

    /// Bytes of variables on the processor that holds most.
    pub fn variable_bytes(&self) -> usize {
        let owned = self.variables.iter().any(|v| !v.placement.owned().is_empty());
        let processors = if owned { self.mesh.processors() } else { 1 };
        (0..processors).map(|processor| self.variable_bytes_on(processor)).max().unwrap_or(0)
    }

    /// Bytes of variables on one processor.
    pub fn variable_bytes_on(&self, processor: usize) -> usize {
        self.bytes_on(processor, |_| true)
    }

    /// Bytes of some of the variables on one processor.
    pub(super) fn bytes_on(&self, processor: usize, of: impl Fn(&VariableSpec) -> bool) -> usize {
        let bytes = |v: &VariableSpec| {
            v.local(&self.mesh).extents.iter().product::<usize>() * v.dtype.size()
        };
        let held =
            self.variables.iter().filter(|v| owns(&self.mesh, processor, v.placement.owned()));
        held.filter(|variable| of(variable)).map(bytes).sum()
    }

    /// A function's program as text.
    pub fn print(&self, function: &str) -> Option<String> {
        self.function(function).map(|program| program.display(&self.mesh).to_string())
    }

    /// What each processor does in a function, in StableHLO, the language that XLA compiles for CPUs, GPUs and TPUs:
    /// one module text for all processors, which are its replicas. Its `@main` takes the seed as two
    /// words of 32 bits (if anything is random), the variables that the function reads or writes, and its
    /// feeds; it returns the variables that it writes, its fetches and its probes. All are one processor's slices.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{DType, dim}, program::StableHloOptions};
    /// # fn doc(g: &Graph) -> Result<(), Box<dyn std::error::Error>> {
    /// let x = g.input("x", [dim("batch", 4)], DType::F32);
    /// g.function("double", [x], [x + x], []);
    /// let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
    /// let text = module.stablehlo("double", &StableHloOptions::default())?;
    /// assert!(text.contains("mhlo.num_replicas = 2") && text.contains("tensor<2xf32>"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A name that no function has, or a user's kernel that has no spelling.
    pub fn stablehlo(
        &self,
        function: &str,
        options: &StableHloOptions,
    ) -> Result<String, ModuleError> {
        let program = self.known(function)?;
        let variables: Vec<_> = self.variables.iter().map(|v| v.local(&self.mesh)).collect();
        let spelled = spell(program, &self.mesh, &variables, options);
        let spelled = spelled.map_err(|problem| {
            let function = function.to_owned();
            ModuleError::Unspelled { function, problem }
        })?;
        Ok(spelled.text)
    }

    /// A module of programs that were written or changed by hand: functions, and `init`, which sets
    /// every variable to its initial value.
    ///
    /// # Errors
    /// A variable that cannot lie as its placement says, or a program that [`verify`] refuses.
    pub fn new(
        mesh: Mesh,
        variables: Vec<VariableSpec>,
        functions: Vec<Program>,
        init: Program,
    ) -> Result<Self, ModuleError> {
        variables.iter().try_for_each(|variable| variable.check(&mesh))?;
        let types: Vec<_> = variables.iter().map(|variable| variable.local(&mesh)).collect();
        for program in functions.iter().chain([&init]) {
            let name = || program.name.clone();
            verify(program, &mesh, &types)
                .map_err(|problems| ModuleError::Illegal { program: name(), problems })?;
        }
        let (graph, warnings, layout) = (GraphId::default(), Vec::new(), Layout::default());
        Ok(Self { graph, mesh, variables, functions, init, warnings, layout })
    }
}
