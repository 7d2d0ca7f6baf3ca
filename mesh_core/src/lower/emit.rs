//! The emit sweep: follows the table and builds one program per function.

use super::issues::{LayoutIssue, report};
use super::local::{Local, LocalCx, extents, slot};
use super::module::{Module, Options, VariableSpec};
use super::origins::{dims, origin};
use super::place::PlaceCx;
use super::probes;
use super::setting::Setting;
use super::shares::{PlacedCx, Shares};
use super::table::{Entry, Fetch, Table, Task, VersionId, place};
use super::warnings::{self, Warnings};
use crate::graph::{
    FunctionNode, Graph, Issue, Operation, Report, Signature, Structural, TensorId,
};
use crate::names::{AxisList, Home, Layout, Mesh, Placement, RuleSet, Rules};
use crate::passes;
use crate::program::{Builder, DimUse, Offset, Origin, Owners, Program, Slot, ValueId, VariableId};
use indexmap::IndexSet;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

impl Graph {
    /// Lowers every function of the graph for a mesh and a layout. Rules and axes that do nothing are
    /// reported on standard error, or to the program's logger; see [`Options::warnings`].
    ///
    /// # Errors
    /// Everything that is wrong, at once: errors recorded while the graph was built, a layout that
    /// does not fit the mesh, and every op that cannot run on the slices the layout gives it, each
    /// with the user's source line and what would be legal.
    pub fn lower(&self, mesh: &Mesh, layout: &Layout) -> Result<Module, Report> {
        self.lower_with(mesh, layout, &Options::default())
    }

    /// As [`lower`](Self::lower), with choices that change speed, and the order of sums, only.
    ///
    /// # Errors
    /// As there.
    pub fn lower_with(
        &self,
        mesh: &Mesh,
        layout: &Layout,
        options: &Options,
    ) -> Result<Module, Report> {
        let module = self.lowered(mesh, layout, options)?;
        if options.warnings == Warnings::Report {
            warnings::report(self, &module);
        }
        Ok(module)
    }

    fn lowered(&self, mesh: &Mesh, layout: &Layout, options: &Options) -> Result<Module, Report> {
        self.check()?;
        let rules = Rules::bind(layout, mesh).map_err(|errors| Report {
            issues: errors
                .iter()
                .map(|e| Issue { subject: "layout".to_owned(), message: e.to_string(), at: None })
                .collect(),
        })?;
        let names = self.dim_names();
        let data = self.data();
        let setting = Setting::new(&data, mesh, &rules);
        let mut lowering = Lowering::new(&setting);
        lowering.check_variables();
        let probes = probes::find(&data, &options.probe)?;
        let tables: Vec<_> =
            data.functions.iter().map(|(name, node)| lowering.table(name, node, &probes)).collect();
        if !lowering.issues.is_empty() {
            return Err(Report { issues: report(&lowering.issues) });
        }
        let variables: Vec<_> =
            (0..data.variables.len()).map(|i| lowering.variable(VariableId(i as u32))).collect();
        let types: Vec<_> = variables.iter().map(|v| v.local(mesh)).collect();
        let improve = |mut program: Program| {
            let passes = &options.passes;
            passes::improve(&mut program, mesh, &types, options.all_reduce, passes)
                .map_err(|fault| Report::of(&program.name, fault.to_string()))?;
            Ok(program)
        };
        let programs = tables.iter().map(|placed| emit(&setting, placed));
        let programs = programs.chain([Ok(lowering.init(&variables))]);
        let mut functions = all(programs.map(|program| improve(program?)))?;
        // The last is the initialisation.
        let init = functions.pop().unwrap_or_default();
        let warnings = Rules::warnings(layout, mesh, &names);
        let graph = self.identity();
        let (mesh, layout) = (mesh.clone(), layout.clone());
        Ok(Module { graph, mesh, variables, functions, init, warnings, layout })
    }
}

/// Every result, or the issues of all that failed.
fn all<T>(results: impl Iterator<Item = Result<T, Report>>) -> Result<Vec<T>, Report> {
    let (mut made, mut issues) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(result) => made.push(result),
            Err(report) => issues.extend(report.issues),
        }
    }
    if issues.is_empty() { Ok(made) } else { Err(Report { issues }) }
}

pub(super) struct Lowering<'a> {
    setting: &'a Setting<'a>,
    pub(super) issues: Vec<LayoutIssue>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(setting: &'a Setting<'a>) -> Self {
        Self { setting, issues: Vec::new() }
    }

    /// Variables first: their names say most to a reader of errors.
    pub(super) fn check_variables(&mut self) {
        let setting = self.setting;
        for (i, variable) in setting.data.variables.iter().enumerate() {
            let outputs = std::slice::from_ref(&variable.ty);
            let key = variable.key(VariableId(i as u32));
            let nowhere = Home::default();
            for (set, home) in [(key.set, setting.home(key)), (RuleSet::Compute, &nowhere)] {
                if set == RuleSet::Compute && key.set == RuleSet::Slots {
                    continue;
                }
                let cx = PlaceCx {
                    signature: Signature { inputs: &[], outputs },
                    mesh: setting.mesh,
                    rules: setting.rules,
                    set,
                    home,
                    available: Vec::new(),
                    settled: Vec::new(),
                    known: Vec::new(),
                    problems: RefCell::default(),
                    by_rule: Cell::default(),
                };
                cx.check_output(0);
                for (problem, _) in cx.problems.take() {
                    self.issues.push(LayoutIssue {
                        problem,
                        operation: variable.name.clone(),
                        tensor: format!("variable {}: {}", variable.name, variable.ty),
                        at: variable.at.clone(),
                    });
                }
            }
        }
    }

    pub(super) fn table(
        &mut self,
        name: &'a str,
        node: &'a FunctionNode,
        probes: &IndexSet<TensorId>,
    ) -> Placed<'a> {
        let data = self.setting.data;
        let operations = data.reachable(node);
        let mut probed: IndexSet<_> = data.probed(&operations).collect();
        let made = operations.iter().flat_map(|id| &data.operations[id.index()].outputs);
        probed.extend(made.filter(|tensor| probes.contains(*tensor)));
        let probed: Vec<_> = probed.into_iter().collect();
        let fetches: Vec<_> = node.fetches.iter().map(|&tensor| (tensor, Fetch::Settled)).collect();
        let task = Task { operations: &operations, given: &[], fetches: &fetches, shown: &probed };
        let table = place(self.setting, &task, &mut self.issues);
        Placed { name, node, probed, table }
    }

    fn variable(&self, id: VariableId) -> VariableSpec {
        let variable = &self.setting.data.variables[id.index()];
        VariableSpec {
            name: variable.name.clone(),
            dtype: variable.ty.dtype,
            shape: variable.ty.shape.clone(),
            placement: self.setting.at_rest(id),
            trainable: variable.trainable,
        }
    }

    fn init(&self, variables: &[VariableSpec]) -> Program {
        let mesh = self.setting.mesh;
        let mut builder = Builder::new("init", mesh);
        for (i, (spec, node)) in variables.iter().zip(&self.setting.data.variables).enumerate() {
            let local = spec.placement.local_shape(mesh, &spec.shape);
            let local = local.unwrap_or_else(|| spec.shape.clone());
            builder.owners(spec.placement.owned());
            let slice = spec.placement.describe(mesh, &spec.shape);
            builder.origin(origin("variable", &spec.name, Some(&node.at), slice));
            let begin =
                local.iter().map(|d| Offset::sliced(spec.placement.axes(d.name), d.size)).collect();
            let generator = node.initializer.generator(&spec.name, spec.dtype);
            let (global, extents) = (extents(&spec.shape), extents(&local));
            let value = builder.generate(generator, spec.dtype, begin, global, extents);
            builder.write(VariableId(i as u32), value);
        }
        builder.finish()
    }
}

/// A function, and where everything in it lies.
pub(super) struct Placed<'a> {
    name: &'a str,
    node: &'a FunctionNode,
    /// What is shown.
    probed: Vec<TensorId>,
    pub(super) table: Table,
}

fn emit(setting: &Setting<'_>, placed: &Placed<'_>) -> Result<Program, Report> {
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
