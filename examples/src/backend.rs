//! The flags that say what runs a model.

use crate::ranks::{Launched, RankFlags, launched};
use crate::running::word;
use mesh_core::lower::{Module, Target};
use mesh_core::program::Precision;
use mesh_core::session::Session;
use std::error::Error;
use std::path::PathBuf;

/// Names the plugin of `--backend xla`, unless a flag does.
pub const PLUGIN: &str = "MESH_PJRT_PLUGIN";

/// What runs a model.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct BackendFlags {
    /// What runs the model. By default the ranks that a launcher has started, else threads.
    #[arg(long, value_enum)]
    backend: Option<Kind>,

    /// The PJRT plugin of the devices that --backend xla uses, a library (docs/accelerators.md); by default what
    /// MESH_PJRT_PLUGIN names.
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,

    /// Use at most so many of these devices. CPUs are as many devices as the mesh has processors, or so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    devices: Option<u16>,

    /// How exactly --backend xla multiplies matrices of f32: as f32 has it, by default, or as fast units of GPUs and TPUs
    /// do.
    #[arg(long, value_enum)]
    precision: Option<Exactness>,

    /// What ranks do, if a launcher starts several.
    #[command(flatten)]
    ranks: RankFlags,
}

/// The back-ends.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A thread of this process for each processor of the mesh.
    Threads,
    /// The ranks that `mpirun` or `srun` has started.
    Mpi,
    /// The devices of a PJRT plugin: GPUs, TPUs, CPUs.
    Xla,
    /// Every step as it is specified, element by element: slow, for finding mistakes.
    Reference,
}

/// How exactly a device multiplies matrices of f32.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Exactness {
    /// As f32 has it.
    Highest,
    /// Factors are rounded to about 16 bits.
    High,
    /// Whatever is fastest: TF32 or bf16.
    Default,
}

impl From<Exactness> for Precision {
    fn from(exactness: Exactness) -> Self {
        match exactness {
            Exactness::Highest => Self::Highest,
            Exactness::High => Self::High,
            Exactness::Default => Self::Default,
        }
    }
}

impl BackendFlags {
    /// The same for a second session of this process.
    pub fn beside(&self) -> Self {
        Self { ranks: RankFlags::default(), ..self.clone() }
    }

    /// Whether threads of this process run the model.
    pub fn is_threads(&self) -> bool {
        self.chosen(launched()) == Kind::Threads
    }

    fn chosen(&self, launched: Option<Launched>) -> Kind {
        self.backend.unwrap_or(if launched.is_some() { Kind::Mpi } else { Kind::Threads })
    }

    /// The back-end asked for, if it is one that can run here and the other flags are of.
    fn kind(&self, launched: Option<Launched>, target: &Target) -> Result<Kind, String> {
        let kind = self.chosen(launched);
        let name = word(kind);
        match launched {
            Some(Launched { launcher, ranks, .. }) if kind != Kind::Mpi => {
                return Err(format!(
                    "{launcher} started {ranks} processes, but --backend {name} runs in one: start one \
                     process without {launcher}"
                ));
            }
            None if kind == Kind::Mpi => {
                return Err(
                    "--backend mpi: no launcher has started ranks (docs/clusters.md)".to_owned()
                );
            }
            _ => {}
        }
        if kind != Kind::Xla {
            let given = [
                ("plugin", self.plugin.is_some()),
                ("devices", self.devices.is_some()),
                ("precision", self.precision.is_some()),
            ];
            if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
                return Err(format!("--{flag} is for --backend xla, not for --backend {name}"));
            }
        }
        if target.check_numerics && matches!(kind, Kind::Xla | Kind::Reference) {
            return Err(format!("--check-numerics: --backend {name} does not look at numbers"));
        }
        Ok(kind)
    }

    /// A session of a module on the back-end asked for, compiled for a target where the back-end does so.
    pub fn session(
        &self,
        module: &Module,
        seed: u64,
        target: Target,
    ) -> Result<Session, Box<dyn Error>> {
        match self.kind(launched(), &target)? {
            Kind::Threads | Kind::Mpi => self.ranks.session(module, seed, target),
            Kind::Reference => Ok(Session::reference(module, seed)?),
            Kind::Xla => self.on_xla(module, seed),
        }
    }

    #[cfg(feature = "xla")]
    fn on_xla(&self, module: &Module, seed: u64) -> Result<Session, Box<dyn Error>> {
        Ok(Session::xla_with(module, seed, &self.opened()?)?)
    }

    /// The devices of the plugin that flags or the environment name.
    #[cfg(feature = "xla")]
    fn opened(&self) -> Result<mesh_core::session::Xla, Box<dyn Error>> {
        use mesh_core::session::{Plugin, Xla};
        let set = std::env::var_os(PLUGIN).filter(|path| !path.is_empty());
        let named = self.plugin.clone().or_else(|| set.map(Into::into));
        let path = named.ok_or_else(|| {
            format!("--backend xla: no plugin is named, neither by --plugin nor by {PLUGIN} (docs/accelerators.md)")
        })?;
        let plugin = Plugin::open(&path)?;
        let plugin = match self.devices {
            Some(devices) => plugin.devices(devices.into()),
            None => plugin,
        };
        Ok(Xla::new(&plugin).precision(self.precision.map_or_else(Precision::default, Into::into)))
    }

    /// What the plugin's compiler says of each function for devices that need not be here, as text.
    #[cfg(feature = "xla")]
    pub fn compiled_for(&self, module: &Module, topology: &str) -> Result<String, Box<dyn Error>> {
        let functions = self.opened()?.compile_for(module, topology)?;
        let lines = functions.iter().map(|function| format!("  {function}\n"));
        Ok(format!("compiled by XLA for {topology}\n{}", lines.collect::<String>()))
    }

    #[cfg(not(feature = "xla"))]
    fn on_xla(&self, _: &Module, _: u64) -> Result<Session, Box<dyn Error>> {
        Err(LACKING.into())
    }

    /// Refuses, since this program has no XLA.
    #[cfg(not(feature = "xla"))]
    pub fn compiled_for(&self, _: &Module, _: &str) -> Result<String, Box<dyn Error>> {
        Err(LACKING.into())
    }
}

/// What a program says that was built without the feature.
#[cfg(not(feature = "xla"))]
const LACKING: &str =
    "this was built without XLA: build it with `--features xla` (docs/accelerators.md)";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        backend: BackendFlags,
    }

    #[test]
    fn flags_of_another_back_end_are_refused() {
        let ranks = Some(Launched { launcher: "mpirun", rank: 0, ranks: 4 });
        let (host, checked) = (Target::host(), Target::host().check_numerics());
        for (line, launched, target, expected) in [
            ("", None, &host, Ok(Kind::Threads)),
            ("", ranks, &host, Ok(Kind::Mpi)),
            ("--backend threads", None, &checked, Ok(Kind::Threads)),
            ("--backend reference", None, &host, Ok(Kind::Reference)),
            ("--backend xla --plugin a.so --devices 2", None, &host, Ok(Kind::Xla)),
            ("--backend xla --precision default", None, &host, Ok(Kind::Xla)),
            ("--backend xla", ranks, &host, Err("--backend xla runs in one")),
            ("--backend mpi", None, &host, Err("no launcher")),
            ("--plugin a.so", None, &host, Err("--plugin is for --backend xla")),
            ("--backend reference --devices 2", None, &host, Err("--devices is for")),
            ("--precision highest", None, &host, Err("--precision is for --backend xla")),
            ("--backend xla", None, &checked, Err("does not look at numbers")),
        ] {
            let words = ["program"].into_iter().chain(line.split_whitespace());
            let flags = Flags::try_parse_from(words).unwrap().backend;
            match (flags.kind(launched, target), expected) {
                (Ok(kind), Ok(expected)) => assert_eq!(kind, expected, "{line}"),
                (Err(error), Err(words)) => assert!(error.contains(words), "{line}: {error}"),
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }
}
