//! Every error type of the public crates goes through `?` into what programs collect errors with, also
//! across threads.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use mesh_core::array::IntegerError;
use mesh_core::graph::{OpError, Report};
use mesh_core::lower::{ModuleError, ModuleFileError};
use mesh_core::names::{LayoutError, LayoutWarning, NameError};
use mesh_core::passes::Fault;
use mesh_core::session::checkpoint::{CheckpointError, Unfit};
use mesh_core::session::{CompareError, Error as SessionError, Failure};
use mesh_optimize::cluster::ClusterError;
use mesh_optimize::dataset::DatasetError;
use mesh_optimize::dataset::read::ReadError;
use mesh_optimize::search::{MachineError, SearchError};
use mesh_optimize::training::TrainingError;
use mesh_optimize::{
    ConfigError, GroupError, ReducedError, SizeError, StrategyError, UnknownReduction,
};

/// The name of an error type that may be sent to other threads and kept by them.
fn sendable<E: Error + Send + Sync + 'static>() -> &'static str {
    let name = std::any::type_name::<E>();
    name.rsplit("::").next().unwrap_or(name)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// The public types of a file that are errors, by derive or by hand.
fn errors(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let word = |c: char| !c.is_alphanumeric() && c != '_';
        line.split(word).find(|part| !part.is_empty()).map(str::to_owned)
    };
    let (mut found, mut derived) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        derived |= line.starts_with("#[derive(") && line.contains("Error");
        let declared = line.strip_prefix("pub enum ").or(line.strip_prefix("pub struct "));
        if let Some(declared) = declared {
            found.extend(name(declared).filter(|_| derived));
            derived = false;
        }
        let by_hand = line.strip_prefix("impl std::error::Error for ");
        found.extend(by_hand.or(line.strip_prefix("impl Error for ")).and_then(name));
    }
    found
}

#[test]
fn every_error_may_go_to_another_thread() {
    let mut known = vec![
        sendable::<IntegerError>(),
        sendable::<OpError>(),
        sendable::<Report>(),
        sendable::<ModuleError>(),
        sendable::<ModuleFileError>(),
        sendable::<LayoutError>(),
        sendable::<LayoutWarning>(),
        sendable::<NameError>(),
        sendable::<Fault>(),
        sendable::<CheckpointError>(),
        sendable::<Unfit>(),
        sendable::<CompareError>(),
        sendable::<SessionError>(),
        sendable::<Failure>(),
        sendable::<DatasetError>(),
        sendable::<ReadError>(),
        sendable::<SizeError>(),
        sendable::<TrainingError>(),
        sendable::<ConfigError>(),
        sendable::<GroupError>(),
        sendable::<ReducedError>(),
        sendable::<StrategyError>(),
        sendable::<UnknownReduction>(),
        sendable::<ClusterError>(),
        sendable::<MachineError>(),
        sendable::<SearchError>(),
    ];
    let mut files = Vec::new();
    for krate in ["mesh_core", "mesh_ops", "mesh_optimize"] {
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src"),
            &mut files,
        );
    }
    #[cfg(feature = "xla")]
    known.push(sendable::<mesh_core::session::PluginError>());
    #[cfg(not(feature = "xla"))]
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "xla"));
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let mut declared: Vec<_> = texts.flat_map(|text| errors(&text)).collect();
    declared.sort();
    declared.dedup();
    known.sort_unstable();
    assert_eq!(declared, known);
}
