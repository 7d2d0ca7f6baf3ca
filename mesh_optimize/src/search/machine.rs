//! Files of machines.

use mesh_core::files;
use mesh_core::passes::{Caches, Flops, Level, Machine};
use std::io;
use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 16;

/// Why a file is no machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// It is not TOML, or has not what a machine has.
    #[error("{}: {error}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
}

/// Reads a machine from a TOML file: the fields of [`Machine`] by name, rates in operations and bytes a second,
/// times in seconds. The folder `machines/` has some.
///
/// # Errors
/// A file that cannot be read, has not these fields, or has a rate that is not above 0.
///
/// ```no_run
/// let machine = mesh_optimize::search::read_machine("machines/h100x8.toml".as_ref())?;
/// assert_eq!(machine.levels[0].processors, 8);
/// # Ok::<(), mesh_optimize::search::MachineError>(())
/// ```
pub fn read_machine(path: &Path) -> Result<Machine, MachineError> {
    let refused = |error| MachineError::Text { path: path.to_owned(), error };
    let text = files::read_text(path, LONGEST)
        .map_err(|error| MachineError::File { path: path.to_owned(), error })?;
    let machine: Machine = toml::from_str(&text).map_err(|error| refused(error.to_string()))?;
    check(&machine).map_err(refused)?;
    Ok(machine)
}

/// A machine as the text of a file that [`read_machine`] reads; numbers have three digits.
///
/// ```
/// use mesh_core::passes::Machine;
/// let text = mesh_optimize::search::machine_text(&Machine::host());
/// assert!(text.contains("memory = 2e10\n") && text.contains("[[levels]]"), "{text}");
/// ```
pub fn machine_text(machine: &Machine) -> String {
    let Machine { name, flops, memory, capacity, begin, cores, levels, caches } = machine;
    let three = |number: f64| {
        let rounded: f64 = format!("{number:.2e}").parse().unwrap_or(number);
        format!("{rounded:e}")
    };
    // A name may have quotes and backslashes, which TOML writes as Rust does.
    let mut text = format!("name = {name:?}\nmemory = {}\ncapacity = {capacity}\n", three(*memory));
    text += &format!("begin = {}\n", three(*begin));
    text.extend(cores.map(|cores| format!("cores = {cores}\n")));
    let Flops { f64, f32, bf16 } = flops;
    text += "\n[flops]\n";
    for (name, rate) in [("f64", f64), ("f32", f32), ("bf16", bf16)] {
        text += &format!("{name} = {}\n", three(*rate));
    }
    for Level { name, processors, latency, bandwidth } in levels {
        // The last joins all, and TOML's whole numbers end at 2^63 - 1.
        let processors = (*processors).min(1 << 30);
        text += &format!("\n[[levels]]\nname = {name:?}\nprocessors = {processors}\n");
        text += &format!("latency = {}\nbandwidth = {}\n", three(*latency), three(*bandwidth));
    }
    let Caches { own_bytes, far_bytes, network, handover, meeting_bytes, vector_bytes } = caches;
    text += &format!("\n[caches]\nown_bytes = {own_bytes}\nfar_bytes = {far_bytes}\n");
    text += &format!("network = {network}\nhandover = {handover}\n");
    text + &format!("meeting_bytes = {meeting_bytes}\nvector_bytes = {vector_bytes}\n")
}

fn check(machine: &Machine) -> Result<(), String> {
    let mut rates = vec![
        ("flops.f64".to_owned(), machine.flops.f64),
        ("flops.f32".to_owned(), machine.flops.f32),
        ("flops.bf16".to_owned(), machine.flops.bf16),
        ("memory".to_owned(), machine.memory),
    ];
    let mut times = vec![("begin".to_owned(), machine.begin)];
    for level in &machine.levels {
        rates.push((format!("bandwidth of level {}", level.name), level.bandwidth));
        times.push((format!("latency of level {}", level.name), level.latency));
    }
    if machine.cores == Some(0) {
        return Err("cores is 0; legal are numbers from 1 on".to_owned());
    }
    if let Some((name, rate)) = rates.iter().find(|(_, rate)| !(rate.is_finite() && *rate > 0.0)) {
        return Err(format!("{name} is {rate}; legal are numbers above 0"));
    }
    if let Some((name, time)) = times.iter().find(|(_, time)| !(time.is_finite() && *time >= 0.0)) {
        return Err(format!("{name} is {time}; legal are 0 and numbers above"));
    }
    let joined: Vec<_> = machine.levels.iter().map(|level| level.processors).collect();
    if joined.is_empty() || !joined.is_sorted() || joined.contains(&0) {
        return Err("levels join more and more processors, and there is at least one".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_here_can_be_read() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../machines"));
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            read_machine(&entry.unwrap().path()).unwrap();
            read += 1;
        }
        assert!(read >= 3, "{read} machines");
    }

    #[test]
    fn a_machine_is_read_as_it_is_written() {
        let mut machine = Machine { cores: Some(2), begin: 1.23e-7, ..Machine::host() };
        machine.levels[0].processors = 1 << 30;
        machine.levels.insert(0, Level { processors: 2, ..machine.levels[0].clone() });
        machine.name = "a \"quoted\" name".to_owned();
        assert_eq!(toml::from_str::<Machine>(&machine_text(&machine)).unwrap(), machine);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let good = Machine::host();
        assert_eq!(check(&good), Ok(()));
        for (change, message) in [
            (&(|m: &mut Machine| m.memory = 0.0) as &dyn Fn(&mut Machine), "memory is 0"),
            (&|m| m.flops.bf16 = f64::NAN, "flops.bf16 is NaN"),
            (&|m| m.begin = -1.0, "begin is -1"),
            (&|m| m.levels[0].bandwidth = f64::INFINITY, "bandwidth of level cores"),
            (&|m| m.levels.clear(), "at least one"),
        ] {
            let mut machine = good.clone();
            change(&mut machine);
            assert!(check(&machine).unwrap_err().contains(message), "{message}");
        }
    }
}
