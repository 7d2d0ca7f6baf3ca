//! Plugins: libraries that know how to compile for devices, and to use them.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{env, fmt};

use super::super::sync::{Arc, Mutex, Weak, lock};
use super::ffi::{Api, Client, Failed, MAJOR, OLDEST, Unusable};
use crate::files;

/// The plugins of this process: each is begun once.
static LOADED: Mutex<Vec<Arc<Loaded>>> = Mutex::new(Vec::new());

/// A plugin that has begun.
struct Loaded {
    /// Where it lies.
    place: PathBuf,
    api: Api,
    /// The devices, as long as somebody uses them. All share them: the first to come often takes most of their
    /// memory.
    client: Mutex<Weak<Client>>,
}

/// A PJRT plugin: a library that compiles programs for one kind of device, and runs them there. CPUs, NVIDIA's and
/// AMD's GPUs and Google's TPUs have one each; `docs/accelerators.md` tells where they come from.
///
/// A plugin that is opened stays so until the process ends. All sessions that are made with it share
/// its devices.
///
/// ```
/// use mesh_core::session::{Plugin, PluginError};
/// let missing = Plugin::open("no/such/plugin.so");
/// assert!(matches!(missing, Err(PluginError::Unreadable { .. })));
/// ```
#[derive(Clone)]
pub struct Plugin {
    path: PathBuf,
    loaded: Arc<Loaded>,
    devices: Option<usize>,
}

/// Why a file cannot be used as a plugin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// It is not there, or may not be read.
    #[error("the plugin {} cannot be read: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// It is not a library.
    #[error(
        "{} is no shared library, as a plugin is: docs/accelerators.md tells how to take one out of a wheel",
        path.display()
    )]
    NoLibrary {
        /// The file.
        path: PathBuf,
    },
    /// It is a library for machines of another kind.
    #[error(
        "{} is a library for {found}, but this program runs on {}", path.display(), env::consts::ARCH
    )]
    Architecture {
        /// The file.
        path: PathBuf,
        /// Which machines.
        found: String,
    },
    /// The system does not load it: a library that it needs is missing, for example.
    #[error("the plugin {} cannot be loaded: {problem}", path.display())]
    Unloadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// It is a library, but no plugin.
    #[error("{} is a library, but no PJRT plugin: it has no GetPjrtApi", path.display())]
    NoPlugin {
        /// The file.
        path: PathBuf,
    },
    /// It is of another version of the interface.
    #[error(
        "the plugin {} is of version {}.{} of PJRT's C interface, but {MAJOR}.{OLDEST} or a later one of \
         {MAJOR}.x is needed: take another version of the plugin",
        path.display(), version.0, version.1
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Major and minor version.
        version: (i32, i32),
    },
    /// It lacks functions that its version has.
    #[error(
        "the plugin {} is damaged: its table of functions has {size} bytes, fewer than its version says",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// The table's size.
        size: usize,
    },
    /// It cannot begin to work here.
    #[error("the plugin {} does not start: {problem}", path.display())]
    Start {
        /// The file.
        path: PathBuf,
        /// What it says.
        problem: String,
    },
}

impl Plugin {
    /// Opens a plugin.
    ///
    /// # Errors
    /// A file that is not there, that is no plugin or one for another machine, and a plugin of a version that is
    /// too old.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PluginError> {
        let path = path.as_ref();
        Ok(Self { path: path.to_owned(), loaded: loaded(path)?, devices: None })
    }

    /// Uses so many devices, and no more. The plugin of CPUs simulates them; by default it simulates as many as a
    /// mesh needs, and other plugins have as many as there are.
    pub fn devices(mut self, devices: usize) -> Self {
        self.devices = Some(devices);
        self
    }

    /// Major and minor version of the interface that the plugin is of.
    pub fn version(&self) -> (i32, i32) {
        self.api().version()
    }

    pub(super) fn api(&self) -> Api {
        self.loaded.api
    }

    /// The devices, of which there are to be so many at least.
    pub(super) fn client(&self, processors: usize) -> Result<Arc<Client>, String> {
        let said = |error: &dyn fmt::Display| format!("plugin {}: {error}", self.path.display());
        let too_few = |client: &Client| {
            let (there, platform) = (client.ids().len(), client.platform());
            let there = self.devices.map_or(there, |devices| devices.min(there));
            (there < processors).then(|| {
                let (are, s) = if there == 1 { ("is", "") } else { ("are", "s") };
                let asked = if self.devices.is_some() { ", as is asked for" } else { "" };
                said(&format!(
                    "the mesh has {processors} processors, but there {are} {there} device{s} of platform \
                     {platform}{asked}"
                ))
            })
        };
        let mut held = lock(&self.loaded.client);
        let wanted = self.devices.unwrap_or(processors);
        let suits = |client: &Arc<Client>| !is_simulated(client) || client.ids().len() >= wanted;
        let running = held.upgrade().filter(suits);
        let client = match running {
            Some(client) => client,
            None => started(self.api(), wanted).map_err(|failed| said(&failed))?,
        };
        *held = Arc::downgrade(&client);
        match too_few(&client) {
            Some(problem) => Err(problem),
            None => Ok(client),
        }
    }
}

/// Whether there are as many devices as are asked for, when the client is made.
fn is_simulated(client: &Client) -> bool {
    client.platform() == "cpu"
}

/// A client with so many devices, if they can be had.
fn started(api: Api, devices: usize) -> Result<Arc<Client>, Failed> {
    let client = Client::new(api, &[])?;
    if !is_simulated(&client) || client.ids().len() >= devices {
        return Ok(client);
    }
    Client::new(api, &[("cpu_device_count", devices as i64)])
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, devices) = (self.version(), self.devices);
        f.debug_struct("Plugin")
            .field("path", &self.path)
            .field("version", &version)
            .field("devices", &devices)
            .finish_non_exhaustive()
    }
}

/// The functions of a plugin, which is begun if it was not.
fn loaded(path: &Path) -> Result<Arc<Loaded>, PluginError> {
    let own = || path.to_owned();
    let unreadable =
        |error: io::Error| PluginError::Unreadable { path: own(), problem: error.to_string() };
    check_kind(path, &first_bytes(path).map_err(unreadable)?)?;
    let place = path.canonicalize().map_err(unreadable)?;
    let mut loaded = lock(&LOADED);
    if let Some(known) = loaded.iter().find(|known| known.place == place) {
        return Ok(Arc::clone(known));
    }
    let api = Api::load(&place).map_err(|unusable| match unusable {
        Unusable::Unloadable(problem) => PluginError::Unloadable { path: own(), problem },
        Unusable::NoPlugin => PluginError::NoPlugin { path: own() },
        Unusable::Version(major, minor) => {
            PluginError::Version { path: own(), version: (major, minor) }
        }
        Unusable::Short(size) => PluginError::Short { path: own(), size },
    })?;
    let start = api.initialize();
    start.map_err(|failed| PluginError::Start { path: own(), problem: failed.to_string() })?;
    let begun = Arc::new(Loaded { place, api, client: Mutex::default() });
    loaded.push(Arc::clone(&begun));
    Ok(begun)
}

/// What tells of the kind of a file.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open(path)?.take(20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what is no library, or one of another machine: systems say of both that a file is not there, or
/// nothing better.
fn check_kind(path: &Path, first: &[u8]) -> Result<(), PluginError> {
    /// Numbers of machines in ELF's header, by Rust's names.
    const MACHINES: [(u16, &str); 7] = [
        (3, "x86"),
        (22, "s390x"),
        (40, "arm"),
        (62, "x86_64"),
        (183, "aarch64"),
        (243, "riscv64"),
        (258, "loongarch64"),
    ];
    /// How the libraries of other systems begin: Mach-O for one or several machines, and PE.
    const OTHERS: [&[u8]; 3] = [&[0xcf, 0xfa, 0xed, 0xfe], &[0xca, 0xfe, 0xba, 0xbe], b"MZ"];
    if OTHERS.iter().any(|magic| first.starts_with(magic)) {
        return Ok(());
    }
    let (b"\x7fELF", Some(&[low, high])) = (first.get(..4).unwrap_or_default(), first.get(18..20))
    else {
        return Err(PluginError::NoLibrary { path: path.to_owned() });
    };
    let little = first[5] == 1;
    let number =
        if little { u16::from_le_bytes([low, high]) } else { u16::from_be_bytes([low, high]) };
    let known = MACHINES.iter().find(|(machine, _)| *machine == number);
    let found = known.map_or_else(|| format!("machine {number}"), |(_, name)| (*name).to_owned());
    match found == env::consts::ARCH {
        true => Ok(()),
        false => Err(PluginError::Architecture { path: path.to_owned(), found }),
    }
}
