//! What programs would take of devices that are not here.

use std::fmt;

use super::compile_options::compile_options;
use super::ffi::Topology;
use super::plugin::Plugin;
use crate::program::stablehlo::Spelled;

/// What a compiler says of a function, for each device.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Ahead {
    /// The function's name.
    pub function: String,
    /// The most memory that it takes at a time, arguments and results included, in bytes.
    pub peak: u64,
    /// Floating-point operations of a call, if the compiler counts them.
    pub flops: Option<f64>,
    /// The compiler's estimate of the time that a call takes at best, in seconds, if it has one.
    pub seconds: Option<f64>,
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, peak, flops, seconds } = self;
        write!(f, "{function}: at most {:.1} MiB of a device", *peak as f64 / f64::from(1 << 20))?;
        if let Some(flops) = flops {
            write!(f, ", {:.3} GFLOP", flops / 1e9)?;
        }
        match seconds {
            Some(seconds) => write!(f, ", at best {:.3} ms", seconds * 1e3),
            None => Ok(()),
        }
    }
}

/// Compiles functions, as they are spelled, for a topology.
pub(crate) fn compile_ahead(
    plugin: &Plugin,
    topology: &str,
    processors: usize,
    spelled: &[(&str, Spelled)],
    flags: &[(String, String)],
) -> Result<Vec<Ahead>, String> {
    let devices = Topology::new(plugin.api(), topology);
    let devices = devices.map_err(|failed| format!("topology `{topology}`: {failed}"))?;
    if devices.devices() < processors {
        return Err(format!(
            "the mesh has {processors} processors, but topology `{topology}` has {} devices",
            devices.devices()
        ));
    }
    let options = compile_options(processors, &[], flags);
    let compile = |(function, spelled): &(&str, Spelled)| {
        let (peak, costs) = devices.compile(&spelled.text, &options).map_err(|failed| {
            format!("XLA does not compile `{function}` for {topology}: {failed}")
        })?;
        let cost =
            |name: &str| costs.iter().find(|(known, _)| known == name).map(|(_, cost)| *cost);
        // XLA adds -1 for each instruction whose time it does not know.
        let seconds = cost("optimal_seconds").filter(|seconds| *seconds >= 0.0);
        let flops = cost("flops");
        Ok(Ahead { function: (*function).to_owned(), peak, flops, seconds })
    };
    spelled.iter().map(compile).collect()
}
