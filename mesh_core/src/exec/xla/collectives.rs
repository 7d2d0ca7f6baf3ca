//! Which collectives are left of a program when XLA has optimised it: the fields that are used of
//! `HloModuleProtoWithConfig` (`xla/xla.proto`) and of `HloModuleProto` (`xla/service/hlo.proto`).

use indexmap::IndexMap;
use prost::Message;

use super::compile_options::compile_options;
use super::ffi::Executable;
use super::plugin::Plugin;
use crate::program::stablehlo::Spelled;

#[derive(Clone, PartialEq, Message)]
struct Optimized {
    #[prost(message, optional, tag = "1")]
    module: Option<HloModule>,
}

#[derive(Clone, PartialEq, Message)]
struct HloModule {
    #[prost(message, repeated, tag = "3")]
    computations: Vec<Computation>,
}

#[derive(Clone, PartialEq, Message)]
struct Computation {
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<Instruction>,
}

#[derive(Clone, PartialEq, Message)]
struct Instruction {
    #[prost(string, tag = "2")]
    opcode: String,
}

/// XLA's collectives. One that is begun and awaited in two places ends in `-start` in the first.
const COLLECTIVES: [&str; 6] = [
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
];

/// Compiles a function, as it is spelled, for a plugin's devices, and counts its collectives by XLA's names.
pub(crate) fn collectives(
    plugin: &Plugin,
    processors: usize,
    function: &str,
    spelled: &Spelled,
    flags: &[(String, String)],
) -> Result<IndexMap<String, usize>, String> {
    let client = plugin.client(processors)?;
    let options = compile_options(processors, &[], flags);
    let optimized = Executable::compile(&client, &spelled.text, &options)
        .and_then(|executable| executable.optimized())
        .map_err(|failed| {
            format!("XLA does not compile `{function}` for {}: {failed}", client.platform())
        })?;
    let optimized = Optimized::decode(&*optimized).map_err(|error| {
        format!("the optimised program of `{function}` cannot be read: {error}")
    })?;
    let mut counts = IndexMap::new();
    let computations = optimized.module.into_iter().flat_map(|module| module.computations);
    for Instruction { opcode } in computations.flat_map(|own| own.instructions) {
        let name = opcode.strip_suffix("-start").unwrap_or(&opcode);
        if COLLECTIVES.contains(&name) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}
