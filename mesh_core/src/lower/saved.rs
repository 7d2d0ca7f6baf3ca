//! Modules in files, and parts of modules: what a program that only runs a model needs of it.

use super::{Module, ModuleError, VariableSpec};
use crate::files;
use crate::names::{LayoutError, Mesh};
use crate::passes::drop_dead_steps;
use crate::program::{Block, Form, Program, Step, VariableId};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The number of the file format; files of another are refused.
const FORMAT: u32 = 1;

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 32;

/// Why a module is not in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleFileError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The file holds no module, or not a legal one.
    #[error("{} holds no module that can be run: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file is of another format.
    #[error("{} is a module of format {found}; this version of Mesh reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A function runs a user's kernel, which is code.
    #[error(
        "function `{function}` runs kernel `{kernel}` for {at}: a kernel is code, and cannot be saved"
    )]
    Kernel {
        /// The function.
        function: String,
        /// The kernel's name.
        kernel: &'static str,
        /// The operation that it is for, and its line.
        at: String,
    },
}

#[derive(Serialize)]
struct Saved<'m> {
    mesh_module: u32,
    mesh: &'m Mesh,
    layout: String,
    variables: &'m [VariableSpec],
    functions: &'m [Program],
    init: &'m Program,
}

#[derive(Deserialize)]
struct Loaded {
    mesh: Mesh,
    layout: String,
    variables: Vec<VariableSpec>,
    functions: Vec<Program>,
    init: Program,
}

/// What stands in files of all formats.
#[derive(Deserialize)]
struct Head {
    mesh_module: u32,
}

impl Module {
    /// Writes the module into a file (JSON), from which [`load`](Self::load) makes it again without its
    /// graph. Values of variables are a checkpoint's. A file that exists is replaced, once the new one is
    /// whole.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or a function runs a [`UserKernel`](crate::program::UserKernel).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModuleFileError> {
        let path = path.as_ref();
        for program in self.functions.iter().chain([&self.init]) {
            if let Some((kernel, step)) = kernel(&program.block) {
                let (function, at) = (program.name.clone(), step.origin.to_string());
                return Err(ModuleFileError::Kernel { function, kernel, at });
            }
        }
        let Self { mesh, variables, functions, init, .. } = self;
        let layout = self.layout.to_string();
        let saved = Saved { mesh_module: FORMAT, mesh, layout, variables, functions, init };
        let io = |error| ModuleFileError::Io { path: path.to_owned(), error };
        let text = serde_json::to_vec(&saved).map_err(|error| io(error.into()))?;
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        fs::write(&part, text).and_then(|()| fs::rename(&part, path)).map_err(io)
    }

    /// Reads a module that [`save`](Self::save) has written. Its functions are called by name, or by
    /// [`handle`](Self::handle); `explain` and sessions work as for any other module.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds no legal module.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ModuleFileError> {
        let path = path.as_ref();
        let damaged = |problem| ModuleFileError::Damaged { path: path.to_owned(), problem };
        let io = |error| ModuleFileError::Io { path: path.to_owned(), error };
        let text = files::read(path, LONGEST).map_err(io)?;
        let head: Head = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        if head.mesh_module != FORMAT {
            return Err(ModuleFileError::Format { path: path.to_owned(), found: head.mesh_module });
        }
        let loaded = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        let Loaded { mesh, layout, variables, functions, init } = loaded;
        let layout = layout.parse().map_err(|e: LayoutError| damaged(e.to_string()))?;
        let module = Self::new(mesh, variables, functions, init);
        Ok(Self { layout, ..module.map_err(|e| damaged(e.to_string()))? })
    }

    /// The module with these functions only, and the variables that they use: what a server needs of a
    /// module that was trained.
    ///
    /// ```
    /// # use mesh_core::lower::Module;
    /// # fn doc(trained: &Module) -> Result<(), Box<dyn std::error::Error>> {
    /// trained.only(&["predict"])?.save("digits.mesh")?;
    /// let served = Module::load("digits.mesh")?;
    /// let predict = served.handle::<1, 1>("predict")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no function of a name.
    pub fn only(&self, functions: &[&str]) -> Result<Self, ModuleError> {
        functions.iter().try_for_each(|name| self.known(name).map(drop))?;
        let mut kept: Vec<Program> = self.functions.clone();
        kept.retain(|program| functions.contains(&program.name.as_str()));
        let mut used = vec![false; self.variables.len()];
        let steps = kept.iter().flat_map(Program::steps);
        steps.filter_map(variable).for_each(|id| used[id.index()] = true);
        let mut numbers = Vec::new();
        let mut count = 0;
        for used in &used {
            numbers.push(VariableId(count));
            count += u32::from(*used);
        }
        let mut init = self.init.clone();
        init.block.steps.retain(|step| variable(step).is_none_or(|id| used[id.index()]));
        for program in kept.iter_mut().chain([&mut init]) {
            for step in &mut program.block.steps {
                match &mut step.form {
                    Form::Read(form) => form.variable = numbers[form.variable.index()],
                    Form::Write(form) => form.variable = numbers[form.variable.index()],
                    _ => {}
                }
            }
        }
        init.block.everywhere(&mut drop_dead_steps);
        let variables = self.variables.iter().zip(&used).filter(|(_, used)| **used);
        let variables = variables.map(|(variable, _)| variable.clone()).collect();
        let module = Self::new(self.mesh.clone(), variables, kept, init)?;
        Ok(Self { graph: self.graph, layout: self.layout.clone(), ..module })
    }
}

/// The variable that a step reads or writes.
fn variable(step: &Step) -> Option<VariableId> {
    match step.form {
        Form::Read(form) => Some(form.variable),
        Form::Write(form) => Some(form.variable),
        _ => None,
    }
}

/// A step of the block, or of a loop in it, that runs a user's kernel.
fn kernel(block: &Block) -> Option<(&'static str, &Step)> {
    block.steps.iter().find_map(|step| match &step.form {
        Form::Call(form) => Some((form.kernel.name(), step)),
        Form::Loop(form) => kernel(&form.body),
        _ => None,
    })
}
