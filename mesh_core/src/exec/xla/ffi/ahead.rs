//! Compiling for devices that are not here.
#![allow(unsafe_code, reason = "calls a plugin's functions")]

use super::client::list;
use super::executable::{destroy_executable, text};
use super::header::{
    CompileAhead, CompiledMemory, CostAnalysis, FLOAT, Handle, INTEGER, NamedValue, TopologyCreate,
    TopologyDestroy, TopologyDevices,
};
use super::{Api, Failed, words};

/// Devices and how they are joined, by a name of the plugin's.
pub(in super::super) struct Topology {
    api: Api,
    topology: Handle,
    devices: usize,
}

/// What a compiler says of a program, for each device: names and numbers.
pub(in super::super) type Costs = Vec<(String, f64)>;

impl Topology {
    /// The devices of a name, as `v5e:4x4`.
    pub(in super::super) fn new(api: Api, name: &str) -> Result<Self, Failed> {
        let mut made = TopologyCreate {
            name: name.as_ptr(),
            name_size: name.len(),
            ..TopologyCreate::default()
        };
        // SAFETY: the name outlives the call.
        unsafe { api.call(&mut made)? };
        let mut own = Self { api, topology: made.topology, devices: 0 };
        let topology = own.topology;
        let mut listed = TopologyDevices { topology, ..TopologyDevices::default() };
        // SAFETY: the topology is alive.
        unsafe { api.call(&mut listed)? };
        own.devices = listed.description_count;
        Ok(own)
    }

    /// How many devices there are.
    pub(in super::super) fn devices(&self) -> usize {
        self.devices
    }

    /// Compiles a program, with a serialized `CompileOptionsProto`: the most bytes that it takes on a device, and
    /// what else the compiler says of it.
    pub(in super::super) fn compile(
        &self,
        program: &str,
        options: &[u8],
    ) -> Result<(u64, Costs), Failed> {
        let program = text(program);
        let mut compiled = CompileAhead {
            topology: self.topology,
            program: &raw const program,
            options: options.as_ptr(),
            options_size: options.len(),
            ..CompileAhead::default()
        };
        // SAFETY: the topology is alive; program and options outlive the call.
        unsafe { self.api.call(&mut compiled)? };
        let executable = compiled.executable;
        let mut memory = CompiledMemory { executable, ..CompiledMemory::default() };
        let mut costs = CostAnalysis { executable, ..CostAnalysis::default() };
        // SAFETY: the executable is alive until it is destroyed here; its properties live as long and are copied.
        unsafe {
            let result = self.api.call(&mut memory).and_then(|()| self.api.call(&mut costs));
            let read = match result {
                Ok(()) => list(costs.properties, costs.property_count),
                Err(_) => Vec::new(),
            };
            let read = read.into_iter().filter_map(|property| number(&property)).collect();
            destroy_executable(self.api, executable);
            result?;
            Ok((memory.peak.max(0) as u64, read))
        }
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let topology = self.topology;
        let mut ended = TopologyDestroy { topology, ..TopologyDestroy::default() };
        // SAFETY: the topology is alive and nobody else's.
        let _ = unsafe { self.api.call(&mut ended) };
    }
}

/// Name and value of a property that is a number.
///
/// # Safety
///
/// Its name is alive.
unsafe fn number(property: &NamedValue) -> Option<(String, f64)> {
    let value = match property.kind {
        INTEGER => property.value.cast_signed() as f64,
        FLOAT => f32::from_bits(property.value as u32).into(),
        _ => return None,
    };
    // SAFETY: the name has as many bytes as it says.
    Some((unsafe { words(property.name, property.name_size) }, value))
}
