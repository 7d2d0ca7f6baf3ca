//! The emit sweep: follows the table and builds one program per function.

use super::local::{Local, LocalCx, slot};
use super::origins::{dims, origin};
use super::setting::Setting;
use super::shares::{PlacedCx, Shares};
use super::table::{Entry, Table, VersionId};
use crate::graph::{FunctionNode, Issue, Operation, Report, Signature, Structural, TensorId};
use crate::names::{AxisList, Placement};
use crate::program::{Builder, DimUse, Origin, Owners, Program, Slot, ValueId};
use smallvec::SmallVec;

/// A function, and where everything in it lies.
pub(super) struct Placed<'a> {
    pub(super) name: &'a str,
    pub(super) node: &'a FunctionNode,
    /// What is shown.
    pub(super) probed: Vec<TensorId>,
    pub(super) table: Table,
}

/// A function's program.
pub(super) fn emit(setting: &Setting<'_>, placed: &Placed<'_>) -> Result<Program, Report> {
    let Placed { name, node, probed, table } = placed;
    let mut emitter = Emitter::new(setting, name, table);
    emitter.entries()?;
    emitter.builder.origin(origin("fetch", name, Some(&node.at), String::new()));
    let tensors = node.fetches.iter().chain(probed);
    for (i, (&version, &tensor)) in table.fetches.iter().zip(tensors).enumerate() {
        let value = emitter.value(version)?;
        let shape = &setting.data.tensors[tensor.index()].ty.shape;
        let slot = |name| slot(name, shape, &table.versions[version.index()].placement);
        match i < node.fetches.len() {
            true => emitter.builder.fetch(slot(setting.data.fetch_name(tensor)), value.id),
            false => emitter.builder.probe(slot(setting.data.shown_name(tensor)), value.id),
        }
    }
    let fed: Vec<_> = node.inputs.iter().map(|&input| emitter.fed(input)).collect();
    let mut program = emitter.finish();
    let feeds = std::mem::take(&mut program.feeds);
    let params = std::mem::take(&mut program.block.params);
    let mut feeds: Vec<_> = params.into_iter().zip(feeds).collect();
    feeds.sort_by_key(|(param, _)| fed.iter().position(|&value| value == Some(*param)));
    (program.block.params, program.feeds) = feeds.into_iter().unzip();
    Ok(program)
}

pub(super) struct Emitter<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) table: &'a Table,
    pub(super) builder: Builder<'a>,
    pub(super) values: Vec<Option<Local>>,
    /// Values that are slices of tensors.
    tensors: Vec<(ValueId, Slot)>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(setting: &'a Setting<'a>, name: &str, table: &'a Table) -> Self {
        let builder = Builder::new(name, setting.mesh);
        let values = vec![None; table.versions.len()];
        Self { setting, table, builder, values, tensors: Vec::new() }
    }

    pub(super) fn finish(self) -> Program {
        let mut program = self.builder.finish();
        program.block.tensors = self.tensors;
        program
    }

    /// A version has been made.
    pub(super) fn define(&mut self, id: VersionId, value: Local) {
        let tensor = self.table.versions[id.index()].tensor;
        let name = self.setting.data.tensor_name(tensor);
        let shape = &self.setting.data.tensors[tensor.index()].ty.shape;
        let slot = slot(name, shape, self.placement(id));
        self.tensors.push((value.id, slot));
        self.values[id.index()] = Some(value);
    }

    pub(super) fn entries(&mut self) -> Result<(), Report> {
        let table = self.table;
        let mut made = table.entries.iter().filter(|entry| !entry.alias);
        made.try_for_each(|entry| self.entry(entry))
    }

    fn entry(&mut self, entry: &'a Entry) -> Result<(), Report> {
        let operation = &self.setting.data.operations[entry.operation.index()];
        let versions = entry.outputs.iter().chain(&entry.inputs);
        let placements: Vec<_> = versions.map(|v| self.placement(*v)).collect();
        let types = |list: &[TensorId]| -> SmallVec<[_; 2]> {
            list.iter().map(|t| self.setting.data.tensors[t.index()].ty.clone()).collect()
        };
        let (input_types, output_types) = (types(&operation.inputs), types(&operation.outputs));
        let signature = Signature { inputs: &input_types, outputs: &output_types };
        let rule = operation.op.split(signature);
        let along = match operation.structural() {
            Some(Structural::Loop(run)) => Some(run.iterations.name),
            _ => None,
        };
        let dims = dims(signature, &placements, &rule, along);
        self.origin(operation, signature, &placements, dims);
        let owners = Owners::from_slice(placements.first().map_or(&[], |p| p.owned()));
        let mut inputs = Vec::new();
        for &version in &entry.inputs {
            inputs.push(self.value(version)?);
        }
        self.builder.owners(&owners);
        if let Some(body) = &entry.body {
            let done = self.run(entry, body, &inputs);
            self.builder.owners(&[]);
            return done;
        }
        let mut cx = LocalCx {
            builder: &mut self.builder,
            signature,
            inputs,
            placements,
            rule,
            outputs: vec![None; output_types.len()],
        };
        let done = operation.op.local(&mut cx).map_err(|error| error.to_string());
        let outputs = cx.outputs;
        self.builder.owners(&[]);
        let fault = |message: String| Report {
            issues: vec![Issue {
                subject: operation.name.clone(),
                message,
                at: Some(operation.at.clone()),
            }],
        };
        done.map_err(&fault)?;
        for (i, (&version, output)) in entry.outputs.iter().zip(outputs).enumerate() {
            let output = output.ok_or_else(|| fault(format!("its body makes no output {i}")))?;
            self.define(version, output);
        }
        Ok(())
    }

    /// The value that a function's input is fed into.
    fn fed(&self, input: TensorId) -> Option<ValueId> {
        let (producer, _) = self.setting.data.tensors[input.index()].producer?;
        let entry = self.table.entries.iter().find(|entry| entry.operation == producer)?;
        self.values[entry.outputs[0].index()].as_ref().map(|local| local.id)
    }

    /// Steps from here on are an operation's, whose outputs and then inputs lie so.
    fn origin(
        &mut self,
        operation: &Operation,
        signature: Signature<'_>,
        placements: &[&Placement],
        dims: Vec<DimUse>,
    ) {
        let slices = signature.outputs.iter().zip(placements);
        let slices: Vec<_> = slices
            .map(|(ty, placement)| placement.describe(self.setting.mesh, &ty.shape))
            .collect();
        let mut parts = AxisList::new();
        for &axis in placements.iter().flat_map(|placement| placement.pending_axes()) {
            if !parts.contains(&axis) {
                parts.push(axis);
            }
        }
        let (op, name, at) = (operation.op.name(), &operation.name, &operation.at);
        let origin = origin(op, name, Some(at), slices.join(" "));
        let cx = PlacedCx { signature, mesh: self.setting.mesh, placements };
        let uneven = operation.op.shares(&cx).and_then(Shares::uneven);
        self.builder.origin(Origin { dims, parts, uneven, ..origin });
    }

    pub(super) fn placement(&self, version: VersionId) -> &'a Placement {
        &self.table.versions[version.index()].placement
    }

    /// The value of a version, moved there if it is not there yet.
    pub(super) fn value(&mut self, id: VersionId) -> Result<Local, Report> {
        if let Some(value) = &self.values[id.index()] {
            return Ok(value.clone());
        }
        let version = &self.table.versions[id.index()];
        let Some((source, route)) = &version.source else {
            return Err(Report::of(
                "lowering",
                "internal error: a value is used before it is made",
            ));
        };
        let from = self.value(*source)?;
        let mut moved = self.travel(from, self.placement(*source), route)?;
        let dtype = self.setting.data.tensors[version.tensor.index()].ty.dtype;
        let held = self.builder.value(moved.id).dtype;
        let dtype = version.placement.held(dtype);
        if held != dtype {
            moved = self.cast(&moved, dtype)?;
        }
        self.builder.owners(&[]);
        self.define(id, moved.clone());
        Ok(moved)
    }
}
