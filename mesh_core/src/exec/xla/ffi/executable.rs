//! Programs that are compiled.
#![allow(unsafe_code, reason = "calls a plugin's functions")]

use std::ptr;

use super::super::super::sync::{Arc, lock};
use super::buffer::Buffer;
use super::client::Client;
use super::header::{
    Compile, ExecutableDestroy, Execute, ExecuteOptions, Handle, LoadedDestroy, LoadedExecutable,
    Optimized, OutputCount, ProgramText,
};
use super::{Api, Failed};

/// The format of the programs.
const FORMAT: &str = "mlir";

/// A program that is ready on its devices.
#[derive(Debug)]
pub(in super::super) struct Executable {
    client: Arc<Client>,
    loaded: Handle,
    outputs: usize,
}

// SAFETY: the interface lets any thread run an executable.
unsafe impl Send for Executable {}
// SAFETY: the interface lets several threads run an executable.
unsafe impl Sync for Executable {}

impl Executable {
    /// Compiles a program, with a serialized `CompileOptionsProto`.
    pub(in super::super) fn compile(
        client: &Arc<Client>,
        program: &str,
        options: &[u8],
    ) -> Result<Self, Failed> {
        let program = text(program);
        let mut compiled = Compile {
            client: client.client,
            program: &raw const program,
            options: options.as_ptr(),
            options_size: options.len(),
            ..Compile::default()
        };
        // SAFETY: the client is alive; program and options outlive the call.
        unsafe { client.api.call(&mut compiled)? };
        let loaded = compiled.executable;
        let mut own = Self { client: Arc::clone(client), loaded, outputs: 0 };
        let mut part = LoadedExecutable { loaded, ..LoadedExecutable::default() };
        // SAFETY: the loaded executable is alive, and its part until it is destroyed here.
        unsafe {
            client.api.call(&mut part)?;
            let executable = part.executable;
            let mut counted = OutputCount { executable, ..OutputCount::default() };
            let result = client.api.call(&mut counted);
            destroy_executable(client.api, executable);
            result?;
            own.outputs = counted.count;
        }
        Ok(own)
    }

    /// Starts the program with the arguments of each device, and does not wait for it; whoever reads a result
    /// does. Results have these ranks. An argument whose memory a result takes is of no use any more.
    pub(in super::super) fn execute(
        &self,
        arguments: &[Vec<&Buffer>],
        ranks: &[usize],
    ) -> Result<Vec<Vec<Buffer>>, Failed> {
        let count = arguments.first().map_or(0, Vec::len);
        if ranks.len() != self.outputs || arguments.iter().any(|own| own.len() != count) {
            let message = format!("the program has {} results, not {}", self.outputs, ranks.len());
            return Err(Failed::new("INVALID_ARGUMENT", message));
        }
        let handles = |own: &Vec<&Buffer>| own.iter().map(|own| own.buffer).collect::<Vec<_>>();
        let lists: Vec<_> = arguments.iter().map(handles).collect();
        let given: Vec<_> = lists.iter().map(Vec::as_ptr).collect();
        let mut outputs = vec![vec![ptr::null_mut(); self.outputs]; arguments.len()];
        let left: Vec<_> = outputs.iter_mut().map(Vec::as_mut_ptr).collect();
        let options = ExecuteOptions {
            struct_size: size_of::<ExecuteOptions>(),
            ..ExecuteOptions::default()
        };
        let mut started = Execute {
            loaded: self.loaded,
            options: &raw const options,
            arguments: given.as_ptr(),
            device_count: given.len(),
            argument_count: count,
            outputs: left.as_ptr(),
            ..Execute::default()
        };
        let _one_by_one = lock(&self.client.starting);
        // SAFETY: all handles are alive, and each list has as many of them as is said; the plugin refuses
        // another number of devices, or of arguments, than the program has.
        unsafe { self.client.api.call(&mut started)? };
        let own = |(buffer, rank): (Handle, &usize)| Buffer {
            client: Arc::clone(&self.client),
            buffer,
            rank: *rank,
        };
        let own = |made: Vec<Handle>| made.into_iter().zip(ranks).map(own).collect();
        Ok(outputs.into_iter().map(own).collect())
    }

    /// The program as the compiler has optimised it: a serialized `HloModuleProtoWithConfig`.
    pub(in super::super) fn optimized(&self) -> Result<Vec<u8>, Failed> {
        let (api, loaded) = (self.client.api, self.loaded);
        let mut part = LoadedExecutable { loaded, ..LoadedExecutable::default() };
        // SAFETY: the loaded executable is alive, and its part until it is destroyed here. The program's text
        // is null when its size is asked for, and has room for as many bytes when it is written.
        unsafe {
            api.call(&mut part)?;
            let executable = part.executable;
            let mut bytes = Vec::new();
            let mut program = ProgramText { code: ptr::null_mut(), ..text("") };
            let asked = Optimized { executable, program: &raw mut program, ..Optimized::default() };
            let read = api.call(&mut { asked }).and_then(|()| {
                bytes.resize(program.code_size, 0);
                program.code = bytes.as_mut_ptr();
                api.call(&mut { asked })
            });
            destroy_executable(api, executable);
            read.map(|()| bytes)
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut ended = LoadedDestroy { loaded: self.loaded, ..LoadedDestroy::default() };
        // SAFETY: the executable is alive and nobody else's.
        let _ = unsafe { self.client.api.call(&mut ended) };
    }
}

/// A program as text.
pub(super) fn text(program: &str) -> ProgramText {
    ProgramText {
        struct_size: size_of::<ProgramText>(),
        extension_start: ptr::null_mut(),
        code: program.as_ptr().cast_mut(),
        code_size: program.len(),
        format: FORMAT.as_ptr(),
        format_size: FORMAT.len(),
    }
}

/// # Safety
///
/// The executable is alive, and nobody uses it any more.
pub(super) unsafe fn destroy_executable(api: Api, executable: Handle) {
    let mut ended = ExecutableDestroy { executable, ..ExecutableDestroy::default() };
    // SAFETY: it is alive and nobody else's.
    let _ = unsafe { api.call(&mut ended) };
}
