//! The back-end that runs a module on a plugin's devices, one for each processor.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::super::addressable::{Addressable, fits};
use super::super::backend::{Backend, Capabilities, Failure};
use super::super::border::Border;
use super::super::sync::Arc;
use super::compile_options::{compile_options, meant};
use super::ffi::{Buffer, Client, Element, Executable, Failed};
use super::plugin::Plugin;
use crate::array::{Array, ArrayRef};
use crate::names::{Mesh, ProcessMap};
use crate::program::stablehlo::{Argument, Outcome, Spelled};
use crate::program::{Extents, Program, VariableType, owns};

/// A function that is ready on the devices.
#[derive(Debug)]
struct Function {
    program: Program,
    addressable: Addressable,
    arguments: Vec<Argument>,
    results: Vec<Outcome>,
    /// The numbers of the results' dims.
    ranks: Vec<usize>,
    /// None of a function that does nothing, as the initialisation where there are no variables.
    executable: Option<Executable>,
}

impl Function {
    /// Compiles a program as it is spelled.
    fn new(
        program: Program,
        spelled: Spelled,
        map: &ProcessMap,
        variables: &[VariableType],
        client: &Arc<Client>,
        options: &[u8],
    ) -> Result<Self, String> {
        let Spelled { text, arguments, results } = spelled;
        let works = !program.steps().is_empty() || !results.is_empty();
        let compile = || Executable::compile(client, &text, options);
        let executable = works.then(compile).transpose().map_err(|failed| {
            format!("XLA does not compile `{}` for {}: {failed}", program.name, client.platform())
        })?;
        let ranks = results.iter().map(|result| match result {
            Outcome::Variable(variable) => variables[*variable].extents.len(),
            Outcome::Left(fetch) => program.value(program.block.results[*fetch]).extents.len(),
        });
        let ranks = ranks.collect();
        let addressable = Addressable::new(&program, map.mesh(), map.of(0));
        Ok(Self { program, addressable, arguments, results, ranks, executable })
    }
}

/// The processors of a mesh, each a device of a plugin.
#[derive(Debug)]
pub(crate) struct XlaBackend {
    map: ProcessMap,
    client: Arc<Client>,
    variables: Vec<VariableType>,
    /// The functions, then the initialisation.
    functions: Vec<Function>,
    /// By processor and variable. A processor that does not hold a variable has something of the kind, since all
    /// run one program.
    slices: Vec<Vec<Buffer>>,
    seed: u64,
    /// The seed, by processor.
    seeds: Vec<Buffer>,
    /// The function of the last call and what it left, by processor and fetch or probe.
    left: Option<(usize, Vec<Vec<Buffer>>)>,
    /// Whether nobody has waited for the last call, which may yet fail.
    under_way: bool,
    failed: Option<Failure>,
}

impl XlaBackend {
    /// Compiles programs as they are spelled, the initialisation behind the functions, for the devices of a
    /// plugin, with XLA's flags. Variables are zeros.
    pub(crate) fn new(
        plugin: &Plugin,
        mesh: &Mesh,
        variables: Vec<VariableType>,
        programs: Vec<(Program, Spelled)>,
        flags: &[(String, String)],
        seed: u64,
    ) -> Result<Self, String> {
        let client = plugin.client(mesh.processors())?;
        let map = ProcessMap::new(mesh, 1).map_err(|error| error.to_string())?;
        let ids: Vec<_> = (0..mesh.processors()).map(|p| client.ids()[mesh.physical(p)]).collect();
        // The caller's come last and win.
        let flags = [&meant(client.platform()), flags].concat();
        let options = compile_options(mesh.processors(), &ids, &flags);
        let compile = |(program, spelled): (Program, Spelled)| {
            Function::new(program, spelled, &map, &variables, &client, &options)
        };
        let functions = programs.into_iter().map(compile).collect::<Result<_, String>>()?;
        let zeros = |processor: usize| {
            let zero = |variable: &VariableType| {
                let size = variable.extents.iter().product::<usize>() * variable.dtype.size();
                let (element, device) = (variable.dtype.into(), mesh.physical(processor));
                Buffer::upload(&client, device, element, &variable.extents, &vec![0; size])
            };
            variables.iter().map(zero).collect::<Result<_, _>>()
        };
        let slices = (0..mesh.processors()).map(zeros).collect::<Result<_, Failed>>();
        let slices = slices.map_err(|failed| {
            format!("the variables have no room on the devices of {}: {failed}", client.platform())
        })?;
        let seeds = seeds(&client, mesh, seed).map_err(|failed| failed.to_string())?;
        let (left, under_way, failed) = (None, false, None);
        Ok(Self { map, client, variables, functions, slices, seed, seeds, left, under_way, failed })
    }

    fn function(&self, function: usize) -> Result<&Function, Failure> {
        let unknown = || Failure::Refused(format!("there is no function {function}"));
        self.functions.get(function).ok_or_else(unknown)
    }

    /// Every processor's slices of what a function is fed, by feed and processor.
    fn fed(&self, function: &Function, feeds: &[ArrayRef<'_>]) -> Result<Vec<Vec<Buffer>>, Failed> {
        let mesh = self.map.mesh();
        let send = |((slot, id), feed): ((_, _), &ArrayRef<'_>)| {
            let value = function.program.value(id);
            let own = |processor| {
                let begin = Border::begin(slot, value, mesh, processor);
                let outside = || Failed::new("INVALID_ARGUMENT", "a slice outside of what is fed");
                let slice = feed.part(&begin, &value.extents).ok_or_else(outside)?;
                Buffer::upload_array(&self.client, mesh.physical(processor), &slice)
            };
            (0..mesh.processors()).map(own).collect()
        };
        function.program.fed().zip(feeds).map(send).collect()
    }

    /// Starts a function. What it leaves is in the buffers of the last call, what it writes in the variables'.
    fn start(&mut self, index: usize, feeds: &[ArrayRef<'_>]) -> Result<(), Failure> {
        let function = self.function(index)?;
        let name = &function.program.name;
        let refused = |failed: Failed| {
            Failure::Refused(format!("what `{name}` is fed has no room on the devices: {failed}"))
        };
        let Some(executable) = &function.executable else { return Ok(()) };
        let fed = self.fed(function, feeds).map_err(refused)?;
        let given = |processor: usize| {
            let argument = |argument: &Argument| match argument {
                Argument::Seed => &self.seeds[processor],
                Argument::Variable(variable) => &self.slices[processor][*variable],
                Argument::Feed(feed) => &fed[*feed][processor],
            };
            function.arguments.iter().map(argument).collect()
        };
        let given: Vec<_> = (0..self.map.mesh().processors()).map(given).collect();
        let made = executable.execute(&given, &function.ranks).map_err(|failed| {
            let reason = format!("`{name}` on {}: {failed}", self.client.platform());
            // Nothing is lost as long as no variable's memory was given away, nor by an earlier call.
            match self.under_way || self.slices.iter().flatten().any(Buffer::is_deleted) {
                true => Failure::Stopped(reason),
                false => Failure::Refused(reason),
            }
        })?;
        let mut left = Vec::with_capacity(made.len());
        for (made, slices) in made.into_iter().zip(&mut self.slices) {
            let mut own = BTreeMap::new();
            for (buffer, result) in made.into_iter().zip(&self.functions[index].results) {
                match result {
                    Outcome::Variable(variable) => slices[*variable] = buffer,
                    Outcome::Left(fetch) => drop(own.insert(*fetch, buffer)),
                }
            }
            left.push(own.into_values().collect());
        }
        let writes = |result: &Outcome| matches!(result, Outcome::Variable(_));
        self.under_way |= self.functions[index].results.iter().any(writes);
        self.left = Some((index, left));
        Ok(())
    }

    /// Waits for what a function leaves, and puts it together; of several processors that hold one slice, the
    /// first delivers.
    fn deliver(&mut self, index: usize, outputs: &mut [&mut Array]) -> Result<(), Failure> {
        struct Part<'a> {
            fetch: usize,
            begin: Extents,
            extents: &'a [usize],
            buffer: &'a Buffer,
            bytes: Vec<u8>,
        }
        let program = &self.function(index)?.program;
        let left = self.left.as_ref().map_or(&[][..], |(_, left)| left);
        let mut parts = Vec::new();
        for (fetch, (slot, id)) in program.left().enumerate() {
            let (value, mut delivered) = (program.value(id), BTreeSet::new());
            for (processor, own) in left.iter().enumerate() {
                let begin = Border::begin(slot, value, self.map.mesh(), processor);
                if delivered.insert(begin.clone()) {
                    let (extents, bytes) = (&value.extents[..], vec![0; value.bytes()]);
                    parts.push(Part { fetch, begin, extents, buffer: &own[fetch], bytes });
                }
            }
        }
        let reads = parts.iter_mut().map(|part| (part.buffer, &mut part.bytes[..]));
        Buffer::download(&mut reads.collect::<Vec<_>>()).map_err(|failed| {
            let reason = format!("`{}` on {}: {failed}", program.name, self.client.platform());
            match self.under_way {
                true => Failure::Stopped(reason),
                false => Failure::Refused(reason),
            }
        })?;
        let fetched = !parts.is_empty();
        for Part { fetch, begin, extents, bytes, .. } in parts {
            outputs[fetch].set_part(&begin, extents, &bytes);
        }
        self.under_way &= !fetched;
        Ok(())
    }

    /// A processor's slice of a variable, and what it is called.
    fn known(
        &self,
        processor: usize,
        variable: usize,
    ) -> Result<(&Buffer, &VariableType), Failure> {
        let slice = self.slices.get(processor).and_then(|held| held.get(variable));
        let known = slice.zip(self.variables.get(variable));
        let held = known.filter(|(_, variable)| owns(self.map.mesh(), processor, &variable.owners));
        held.ok_or_else(|| {
            Failure::Refused(format!("processor {processor} holds no variable {variable}"))
        })
    }
}

/// The two words of a seed, the low one first, on every device.
fn seeds(client: &Arc<Client>, mesh: &Mesh, seed: u64) -> Result<Vec<Buffer>, Failed> {
    let bytes = seed.to_le_bytes();
    let upload =
        |processor| Buffer::upload(client, mesh.physical(processor), Element::U32, &[2], &bytes);
    (0..mesh.processors()).map(upload).collect()
}

/// Waits for a buffer and copies it.
fn bytes_of(buffer: &Buffer, size: usize) -> Result<Cow<'static, [u8]>, Failed> {
    let mut bytes = vec![0; size];
    Buffer::download(&mut [(buffer, &mut bytes)])?;
    Ok(bytes.into())
}

impl Backend for XlaBackend {
    fn name(&self) -> &str {
        "xla"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { replicas: true, ..Capabilities::default() }
    }

    fn map(&self) -> &ProcessMap {
        &self.map
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn set_seed(&mut self, seed: u64) {
        match seeds(&self.client, self.map.mesh(), seed) {
            Ok(seeds) => (self.seed, self.seeds) = (seed, seeds),
            Err(failed) => {
                let reason = format!("a seed has no room on the devices: {failed}");
                self.failed.get_or_insert(Failure::Stopped(reason));
            }
        }
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let Function { program, addressable, .. } = self.function(function)?;
        fits(program, addressable, feeds, fetches, probes).map_err(Failure::Refused)?;
        let mut outputs: Vec<_> = fetches.iter_mut().chain(probes).collect();
        let done = self.start(function, feeds).and_then(|()| self.deliver(function, &mut outputs));
        if let Err(failure @ Failure::Stopped(_)) = &done {
            self.failed = Some(failure.clone());
        }
        done
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        let (buffer, VariableType { name, dtype, extents, .. }) =
            self.known(processor, variable)?;
        let size = extents.iter().product::<usize>() * dtype.size();
        let bytes = bytes_of(buffer, size);
        bytes.map_err(|failed| Failure::Stopped(format!("variable `{name}`: {failed}")))
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let (_, VariableType { name, dtype, extents, .. }) = self.known(processor, variable)?;
        let device = self.map.mesh().physical(processor);
        let sent = Buffer::upload(&self.client, device, (*dtype).into(), extents, bytes);
        let sent =
            sent.map_err(|failed| Failure::Refused(format!("variable `{name}`: {failed}")))?;
        self.slices[processor][variable] = sent;
        Ok(())
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let program = &self.function(function)?.program;
        let last = self.left.as_ref().filter(|(last, _)| *last == function);
        let slice = last.and_then(|(_, left)| left.get(processor)?.get(fetch));
        let unknown = || Failure::Refused(format!("there is no fetch {fetch} of the last call"));
        let size = program.value(program.block.results[fetch]).bytes();
        bytes_of(slice.ok_or_else(unknown)?, size)
            .map_err(|failed| Failure::Stopped(format!("`{}`: {failed}", program.name)))
    }
}
