//! Sessions on the devices of XLA: CPUs, GPUs and TPUs.

use indexmap::IndexMap;

use super::{Error, Result, Session};
pub use crate::exec::{Ahead, Plugin, PluginError};
use crate::exec::{Backend, XlaBackend, collectives, compile_ahead};
use crate::lower::{Module, ModuleError};
use crate::names::Mesh;
use crate::program::stablehlo::{Spelled, spell};
use crate::program::{Precision, Program, StableHloOptions, VariableType};

/// How a module runs on the devices of a plugin.
///
/// ```no_run
/// # use mesh_core::{lower::Module, session::{Error, Plugin, Session, Xla}};
/// # use mesh_core::program::Precision;
/// # fn doc(module: &Module) -> Result<(), Box<dyn std::error::Error>> {
/// let xla = Xla::new(&Plugin::open("xla_cuda_plugin.so")?).precision(Precision::High);
/// let mut session = Session::xla_with(module, 0, &xla)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Xla {
    /// What compiles and runs it.
    pub plugin: Plugin,
    /// How programs are spelled.
    pub options: StableHloOptions,
    /// XLA's own flags: names, and values as [`flag`](Self::flag) takes them.
    pub flags: Vec<(String, String)>,
}

impl Xla {
    /// The devices of a plugin.
    pub fn new(plugin: &Plugin) -> Self {
        let (options, flags) = (StableHloOptions::default(), Vec::new());
        Self { plugin: plugin.clone(), options, flags }
    }

    /// Says how exactly f32 matrices are multiplied.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets one of XLA's own flags for the module's programs: `xla_backend_optimization_level` to `0`, to
    /// compile fast what runs once. Truth values are `True` and `False`.
    pub fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes the back-end of a module, for [`Session::on`].
    ///
    /// # Errors
    /// As [`Session::xla`].
    pub fn start(&self, module: &Module, seed: u64) -> Result<Box<dyn Backend>> {
        let refused = |problem| Error::Module { problem };
        let (mesh, variables) = (module.mesh(), variables(module));
        let programs = module.functions().iter().chain([module.init()]);
        let programs = programs.map(|program| self.spell(program, mesh, &variables));
        let programs = programs.collect::<Result<_>>()?;
        let backend = XlaBackend::new(&self.plugin, mesh, variables, programs, &self.flags, seed);
        Ok(Box::new(backend.map_err(refused)?))
    }

    /// Compiles a module's functions for devices that need not be here, and says what the compiler says of each:
    /// the memory that it takes of a device, and the work. The plugin of TPUs knows topologies by names such as
    /// `v5e:4x4`; those of CPUs and GPUs know none that is not here.
    ///
    /// ```no_run
    /// # use mesh_core::{lower::Module, session::{Plugin, Xla}};
    /// # fn doc(module: &Module) -> Result<(), Box<dyn std::error::Error>> {
    /// let xla = Xla::new(&Plugin::open("libtpu.so")?);
    /// for function in xla.compile_for(module, "v5e:4x4")? {
    ///     println!("{function}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A topology that the plugin does not know, or of fewer devices than the mesh has processors; and a function
    /// that has no spelling, or that the compiler refuses: if it needs more memory than a device has, for example.
    pub fn compile_for(&self, module: &Module, topology: &str) -> Result<Vec<Ahead>> {
        let (mesh, variables) = (module.mesh(), variables(module));
        let spelled = module
            .functions()
            .iter()
            .map(|program| Ok((&*program.name, self.spell(program, mesh, &variables)?.1)));
        let spelled = spelled.collect::<Result<Vec<_>>>()?;
        compile_ahead(&self.plugin, topology, mesh.processors(), &spelled, &self.flags)
            .map_err(|problem| Error::Module { problem })
    }

    /// Compiles a function for the plugin's devices and counts the collectives of the optimised program, by XLA's
    /// names; those of a loop's body once. XLA makes one of several that may go together.
    ///
    /// ```no_run
    /// # use mesh_core::{lower::Module, session::{Plugin, Xla}};
    /// # fn doc(module: &Module) -> Result<(), Box<dyn std::error::Error>> {
    /// let xla = Xla::new(&Plugin::open("pjrt_c_api_cpu_plugin.so")?);
    /// println!("{:?}", xla.collectives(module, "train")?.get("all-reduce"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A name that no function has, and as [`Session::xla`].
    pub fn collectives(&self, module: &Module, function: &str) -> Result<IndexMap<String, usize>> {
        let known = module.functions().iter().map(|program| program.name.as_str());
        let unknown = || Error::unknown("function", function, known);
        let program = module.function(function).ok_or_else(unknown)?;
        let (_, spelled) = self.spell(program, module.mesh(), &variables(module))?;
        collectives(&self.plugin, module.mesh().processors(), function, &spelled, &self.flags)
            .map_err(|problem| Error::Module { problem })
    }

    fn spell(
        &self,
        program: &Program,
        mesh: &Mesh,
        variables: &[VariableType],
    ) -> Result<(Program, Spelled)> {
        let spelled = spell(program, mesh, variables, &self.options);
        let spelled = spelled.map_err(|problem| {
            let unspelled = ModuleError::Unspelled { function: program.name.clone(), problem };
            Error::Module { problem: unspelled.to_string() }
        })?;
        Ok((program.clone(), spelled))
    }
}

/// The variables as programs see them.
fn variables(module: &Module) -> Vec<VariableType> {
    module.variables().iter().map(|variable| variable.local(module.mesh())).collect()
}

impl Session {
    /// Makes a session on the devices of a plugin, one for each processor of the mesh, and initialises its
    /// variables there. Every function is compiled first, which takes seconds for a large one.
    ///
    /// Integers, what is moved and random numbers have the bits of [`threads`](Self::threads); floats agree up to
    /// the rounding and the order of sums. A call returns when what it fetches is there; one that fetches nothing
    /// returns at once, and a failure of it is an error of a later call.
    ///
    /// ```no_run
    /// # use mesh_core::{array::ArrayRef, lower::Module, graph::Function, session::{Plugin, Session}};
    /// # fn doc(module: &Module, train: &Function<1, 1>, batch: ArrayRef<'_>) -> Result<(), Box<dyn std::error::Error>> {
    /// let plugin = Plugin::open("pjrt_c_api_cpu_plugin.so")?;
    /// let mut session = Session::xla(module, 0, &plugin)?;
    /// let [loss] = session.call(train, [batch])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there are fewer devices than processors, a user's kernel has no spelling in StableHLO, XLA does not
    /// compile a function, or the variables have no room on the devices.
    pub fn xla(module: &Module, seed: u64, plugin: &Plugin) -> Result<Self> {
        Self::xla_with(module, seed, &Xla::new(plugin))
    }

    /// [`xla`](Self::xla) with options.
    ///
    /// # Errors
    ///
    /// As [`xla`](Self::xla).
    pub fn xla_with(module: &Module, seed: u64, xla: &Xla) -> Result<Self> {
        Self::on(module, xla.start(module, seed)?)
    }
}
