//! The strategies of tf.distribute as meshes and layouts.
//!
//! A [`Strategy`] is a short name for a mesh and a layout. It wraps nothing: model, optimizer and
//! session do not know of it.
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

/// How sums over processors are computed, under the name that tf.distribute has for it.
pub use mesh_core::lower::AllReduce as CrossDeviceOps;

use mesh_core::lower::{Module, Options};
use mesh_core::names::{Layout, Mesh};
use mesh_core::session::{Session, Threads};

/// A number of processors, or a list of cores with one processor on each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Processors {
    /// This many processors, on any cores.
    Count(usize),
    /// One processor pinned to each of these cores.
    Cores(Vec<usize>),
}

impl Processors {
    /// The number of processors.
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

/// How training is distributed. The names are those of tf.distribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// One processor.
    OneDevice,
    /// Every processor of this machine holds all variables and computes a part of the batch.
    Mirrored(Processors),
    /// As `Mirrored`, on several hosts.
    MultiWorkerMirrored {
        /// Number of hosts.
        hosts: usize,
        /// Processors per host.
        local: usize,
    },
    /// As `Mirrored`, on a grid of processors with as many along each direction. The processors are
    /// threads; no TPU is used.
    Tpu(Vec<usize>),
    /// The first processor holds all variables. Every processor computes a part of the batch.
    CentralStorage(usize),
    /// The processors hold the variables in turn. Every processor computes a part of the batch.
    ParameterServer {
        /// Number of processors.
        processors: usize,
        /// How many steps old a gradient may be when it changes the variables.
        staleness: usize,
    },
}

/// The mesh, the layout and the options of a [`Strategy`].
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// The processors.
    pub mesh: Mesh,
    /// The model's layout on the mesh.
    pub layout: Layout,
    /// The core of each processor, if cores were listed.
    pub cores: Option<Vec<usize>>,
    /// How sums over all processors are computed. The strategy chooses; the field may be set to
    /// another value.
    pub cross_device_ops: CrossDeviceOps,
    /// How many steps old a gradient may be when it changes the variables: the depth for a
    /// [`Delayed`](crate::Delayed) optimizer. With 0 no such optimizer is needed.
    pub staleness: usize,
}

impl Distribution {
    /// The options for `Graph::lower_with`.
    pub fn options(&self) -> Options {
        Options { all_reduce: self.cross_device_ops, ..Options::default() }
    }

    /// The options for a session on threads: one processor on each of the listed cores, if cores were
    /// listed.
    pub fn threads(&self) -> Threads {
        Threads::default().cores(self.cores.clone().unwrap_or_default())
    }

    /// A session of a module on threads, with the options of [`threads`](Self::threads).
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::Strategy;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4)], F32);
    /// # let mean = g.function("mean", [x], [x.mean()], []);
    /// let distribution = Strategy::mirrored(2).distribution("batch")?;
    /// let module =
    ///     g.lower_with(&distribution.mesh, &distribution.layout, &distribution.options())?;
    /// assert!(distribution.threads().cores.is_empty());
    /// let mut session = distribution.session(&module, 0)?;
    /// let [mean] = session.call(&mean, [(&ndarray::arr1(&[1f32, 2.0, 3.0, 4.0])).into()])?;
    /// assert_eq!(mean.item(), Some(2.5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Session::threads_with`].
    pub fn session(&self, module: &Module, seed: u64) -> mesh_core::session::Result<Session> {
        Session::threads_with(module, seed, &self.threads())
    }
}

/// The names of a topology's directions.
const DIRECTIONS: [&str; 4] = ["x", "y", "z", "core"];

impl Strategy {
    /// [`Strategy::Mirrored`] with a number of processors, or with one on each of a list of cores.
    ///
    /// ```
    /// use mesh_optimize::{Processors, Strategy};
    ///
    /// assert_eq!(Strategy::mirrored(2).to_string(), "mirrored:2");
    /// assert_eq!(Strategy::mirrored(vec![0, 2]).to_string(), "mirrored:[0,2]");
    /// assert_eq!(Processors::Cores(vec![0, 2]).count(), 2);
    /// ```
    pub fn mirrored(processors: impl Into<Processors>) -> Self {
        Self::Mirrored(processors.into())
    }

    /// [`Strategy::ParameterServer`] with a staleness of 0.
    ///
    /// ```
    /// use mesh_optimize::Strategy;
    ///
    /// let distribution = Strategy::parameter_server(2).distribution("batch")?;
    /// assert_eq!(distribution.layout.to_string(), "batch:all;params/*:all@each;slots/*:all@each");
    /// # Ok::<(), mesh_optimize::StrategyError>(())
    /// ```
    pub fn parameter_server(processors: usize) -> Self {
        Self::ParameterServer { processors, staleness: 0 }
    }

    /// The number of processors that compute a part of each batch.
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

    /// The size of a batch in which each replica has `per_replica` examples.
    pub fn global_batch(&self, per_replica: usize) -> usize {
        per_replica.saturating_mul(self.num_replicas_in_sync())
    }

    /// The number of examples that each replica has of a batch of size `global`.
    ///
    /// ```
    /// use mesh_optimize::Strategy;
    ///
    /// assert_eq!(Strategy::mirrored(4).per_replica_batch(64)?, 16);
    /// assert!(Strategy::mirrored(4).per_replica_batch(63).is_err());
    /// # Ok::<(), mesh_optimize::StrategyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `global` is 0 or is not divisible by the number of replicas.
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

    /// The mesh and the layout for a model in which the dim called `batch` holds the examples.
    ///
    /// # Errors
    ///
    /// If the strategy has no processors, lists a core twice or has too many directions, or if
    /// `batch` is no name for a dim.
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

    /// The names and sizes of the mesh's axes.
    fn axes(&self) -> Vec<(&'static str, usize)> {
        match self {
            Self::OneDevice => Vec::new(),
            Self::MultiWorkerMirrored { hosts, local } => vec![("host", *hosts), ("local", *local)],
            Self::Tpu(topology) => DIRECTIONS.into_iter().zip(topology.iter().copied()).collect(),
            _ => vec![("all", self.num_replicas_in_sync())],
        }
    }

    /// Refuses a strategy that no mesh can have.
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
