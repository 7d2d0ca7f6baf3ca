//! The strategies of tf.distribute, as meshes and layouts.
//!
//! A [`Strategy`] is a short name for a mesh and a layout, no more: it wraps nothing, and the model,
//! the optimizer and the session know nothing of it.
//!
//! | strategy | mesh | layout |
//! |---|---|---|
//! | `one_device` | | |
//! | `mirrored:4` | `all:4` | `batch:all` |
//! | `multi_worker:2x4` | `host:2;local:4` | `batch:host+local` |
//! | `tpu:2x2` | `x:2;y:2` | `batch:x+y` |
//! | `central_storage:4` | `all:4` | `batch:all;params/*:all@0;slots/*:all@0` |
//! | `parameter_server:4` | `all:4` | `batch:all;params/*:all@each;slots/*:all@each` |
//!
//! ```
//! use mesh_optimize::Strategy;
//!
//! let strategy: Strategy = "multi_worker:2x4".parse()?;
//! let distribution = strategy.distribution("batch")?;
//! assert_eq!(distribution.mesh.to_string(), "host:2;local:4");
//! assert_eq!(distribution.layout.to_string(), "batch:host+local");
//! assert_eq!(strategy.num_replicas_in_sync(), 8);
//! assert_eq!(strategy.global_batch(64), 512);
//! # Ok::<(), mesh_optimize::StrategyError>(())
//! ```

mod error;
mod parse;

pub use error::StrategyError;

/// How sums over processors are made, by the name it has in tf.distribute.
pub use mesh_core::lower::AllReduce as CrossDeviceOps;

use mesh_core::lower::{Module, Options};
use mesh_core::names::{Layout, Mesh};
use mesh_core::session::{Session, Threads};

/// Processors by number, or one for each core that is named.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Processors {
    /// So many, on whatever cores.
    Count(usize),
    /// One pinned to each of these cores.
    Cores(Vec<usize>),
}

impl Processors {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::Cores(cores) => cores.len(),
        }
    }
}

impl From<usize> for Processors {
    fn from(count: usize) -> Self {
        Self::Count(count)
    }
}

impl From<Vec<usize>> for Processors {
    fn from(cores: Vec<usize>) -> Self {
        Self::Cores(cores)
    }
}

/// How training is distributed, by the names of tf.distribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// One processor.
    OneDevice,
    /// Every processor of this machine has all variables and a part of the batch.
    Mirrored(Processors),
    /// The same on several hosts.
    MultiWorkerMirrored {
        /// Number of hosts.
        hosts: usize,
        /// Processors of each.
        local: usize,
    },
    /// The same on a grid of processors, as many along each direction. They are threads; no TPU is
    /// contacted.
    Tpu(Vec<usize>),
    /// The first processor has all variables; every one computes with a part of the batch.
    CentralStorage(usize),
    /// The processors have the variables in turn; every one computes with a part of the batch.
    ParameterServer {
        /// Number of processors.
        processors: usize,
        /// How many steps old the gradients may be that change the variables.
        staleness: usize,
    },
}

/// What a [`Strategy`] stands for.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// The processors.
    pub mesh: Mesh,
    /// How the model is laid out on them.
    pub layout: Layout,
    /// The core each processor is to be kept on, if any were named.
    pub cores: Option<Vec<usize>>,
    /// How sums over all processors are made. The strategy's choice; another may be set.
    pub cross_device_ops: CrossDeviceOps,
    /// How many steps old the gradients may be that change the variables: the depth of a
    /// [`Delayed`](crate::Delayed) optimizer. With 0 none is needed.
    pub staleness: usize,
}

impl Distribution {
    /// What `Graph::lower_with` is told besides mesh and layout.
    pub fn options(&self) -> Options {
        Options { all_reduce: self.cross_device_ops, ..Options::default() }
    }

    /// How a module runs on threads: kept on the cores that were named, if any were.
    pub fn threads(&self) -> Threads {
        Threads::default().cores(self.cores.clone().unwrap_or_default())
    }

    /// A session of a module, its processors kept on the cores that were named, if any were.
    pub fn session(&self, module: &Module, seed: u64) -> mesh_core::session::Result<Session> {
        Session::threads_with(module, seed, &self.threads())
    }
}

/// What the directions of a topology are called.
const DIRECTIONS: [&str; 4] = ["x", "y", "z", "core"];

impl Strategy {
    /// [`Strategy::Mirrored`] on so many processors, or on the cores listed.
    pub fn mirrored(processors: impl Into<Processors>) -> Self {
        Self::Mirrored(processors.into())
    }

    /// [`Strategy::ParameterServer`] without staleness.
    pub fn parameter_server(processors: usize) -> Self {
        Self::ParameterServer { processors, staleness: 0 }
    }

    /// How many processors compute a part of each batch.
    pub fn num_replicas_in_sync(&self) -> usize {
        match self {
            Self::OneDevice => 1,
            Self::Mirrored(processors) => processors.count(),
            Self::MultiWorkerMirrored { hosts, local } => hosts.saturating_mul(*local),
            Self::Tpu(topology) => topology.iter().fold(1, |n, size| n.saturating_mul(*size)),
            Self::CentralStorage(processors) | Self::ParameterServer { processors, .. } => {
                *processors
            }
        }
    }

    /// The size of a batch of which each replica computes `per_replica` examples.
    pub fn global_batch(&self, per_replica: usize) -> usize {
        per_replica.saturating_mul(self.num_replicas_in_sync())
    }

    /// How many examples of a batch each replica computes.
    pub fn per_replica_batch(&self, global: usize) -> Result<usize, StrategyError> {
        let replicas = self.num_replicas_in_sync();
        if replicas > 0 && global > 0 && global.is_multiple_of(replicas) {
            return Ok(global / replicas);
        }
        let replicas = replicas.max(1);
        let (below, above) = (global / replicas * replicas, (global / replicas + 1) * replicas);
        let nearest = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
        Err(StrategyError::Batch { batch: global, replicas, nearest })
    }

    /// The mesh, and the layout of a model whose examples stand along the dim called `batch`.
    pub fn distribution(&self, batch: &str) -> Result<Distribution, StrategyError> {
        self.check()?;
        let axes = self.axes();
        let mesh = Mesh::new(axes.iter().copied())?;
        let names: Vec<_> = axes.iter().map(|(name, _)| *name).collect();
        let over = names.join("+");
        let owned =
            |owner: &str| format!("{batch}:{over};params/*:{over}@{owner};slots/*:{over}@{owner}");
        let layout = match self {
            Self::OneDevice => String::new(),
            Self::CentralStorage(_) => owned("0"),
            Self::ParameterServer { .. } => owned("each"),
            _ => format!("{batch}:{over}"),
        };
        let cores = match self {
            Self::Mirrored(Processors::Cores(cores)) => Some(cores.clone()),
            _ => None,
        };
        let staleness = match self {
            Self::ParameterServer { staleness, .. } => *staleness,
            _ => 0,
        };
        let cross_device_ops = match self {
            Self::MultiWorkerMirrored { .. } => CrossDeviceOps::Hierarchical,
            _ => CrossDeviceOps::Direct,
        };
        Ok(Distribution { mesh, layout: layout.parse()?, cores, cross_device_ops, staleness })
    }

    /// Names and sizes of the mesh's axes.
    fn axes(&self) -> Vec<(&'static str, usize)> {
        match self {
            Self::OneDevice => Vec::new(),
            Self::MultiWorkerMirrored { hosts, local } => vec![("host", *hosts), ("local", *local)],
            Self::Tpu(topology) => DIRECTIONS.into_iter().zip(topology.iter().copied()).collect(),
            _ => vec![("all", self.num_replicas_in_sync())],
        }
    }

    /// Refuses what no mesh can be.
    fn check(&self) -> Result<(), StrategyError> {
        if let Self::Tpu(topology) = self
            && !(1..=DIRECTIONS.len()).contains(&topology.len())
        {
            return Err(StrategyError::Topology { found: topology.len() });
        }
        if self.num_replicas_in_sync() == 0 {
            return Err(StrategyError::Empty(self.to_string()));
        }
        if let Self::Mirrored(Processors::Cores(cores)) = self {
            let twice = cores.iter().enumerate().find(|(i, core)| cores[..*i].contains(core));
            if let Some((_, &core)) = twice {
                return Err(StrategyError::Repeated { core, listed: cores.clone() });
            }
        }
        Ok(())
    }
}
