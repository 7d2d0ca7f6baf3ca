//! The emit sweep: follows the table and builds one program per function.

use super::local::{Local, LocalCx, extents, slot};
use super::module::{Module, Options, VariableSpec};
use super::place::PlaceCx;
use super::relayout::{Move, Route};
use super::table::{Entry, Fetch, Setting, Table, Task, VersionId, place};
use crate::graph::{FunctionNode, Graph, Issue, Operation, Report, Signature, TensorId};
use crate::names::{Axis, DType, Home, Layout, Mesh, Placement, RuleSet, Rules, Shape};
use crate::passes;
use crate::program::{
    Builder, Compiled, Dims, Expr, Extents, Generator, Offset, Operand, Origin, Owners, Program,
    ValueId, VariableId,
};
use crate::split::{LayoutIssue, report};
use std::cell::RefCell;

impl Graph {
    /// Lowers every function of the graph for a mesh and a layout.
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
        let mut lowering = Lowering { setting: &setting, issues: Vec::new() };
        lowering.check_variables();
        let tables: Vec<_> =
            data.functions.iter().map(|(name, node)| lowering.table(name, node)).collect();
        if !lowering.issues.is_empty() {
            return Err(Report { issues: report(&lowering.issues) });
        }
        let variables: Vec<_> =
            (0..data.variables.len()).map(|i| lowering.variable(VariableId(i as u32))).collect();
        let types: Vec<_> = variables.iter().map(|v| v.local(mesh)).collect();
        let compile = |program: Program| {
            let name = program.name.clone();
            passes::compile(program, mesh, &types, options.all_reduce, options.without)
                .map_err(|fault| Report::of(&name, fault.to_string()))
        };
        let mut functions: Vec<Compiled> = Vec::new();
        for (name, node, table) in &tables {
            functions.push(compile(emit(&setting, name, node, table)?)?);
        }
        let init = compile(lowering.init(&variables))?;
        let warnings = Rules::warnings(layout, mesh, &names);
        Ok(Module { mesh: mesh.clone(), variables, functions, init, warnings })
    }
}

struct Lowering<'a> {
    setting: &'a Setting<'a>,
    issues: Vec<LayoutIssue>,
}

impl<'a> Lowering<'a> {
    /// Variables first: their names say most to a reader of errors.
    fn check_variables(&mut self) {
        let setting = self.setting;
        for (i, variable) in setting.data.variables.iter().enumerate() {
            let outputs = std::slice::from_ref(&variable.ty);
            let key = variable.key(VariableId(i as u32));
            let home = match key.set {
                RuleSet::Slots => key.variable.map(|v| &setting.homes[v.index()][1]),
                _ => Some(&setting.homes[i][0]),
            };
            let nowhere = Home::default();
            for (set, home) in [(key.set, home.unwrap_or(&nowhere)), (RuleSet::Compute, &nowhere)] {
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
                    problems: RefCell::default(),
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

    fn table(
        &mut self,
        name: &'a str,
        node: &'a FunctionNode,
    ) -> (&'a str, &'a FunctionNode, Table) {
        let data = self.setting.data;
        let operations = data.reachable(node);
        let fetches = node.fetches.iter().copied().chain(data.probed(&operations));
        let fetches: Vec<_> = fetches.map(|tensor| (tensor, Fetch::Settled)).collect();
        let task = Task { operations: &operations, given: &[], fetches: &fetches };
        let table = place(self.setting, &task, &mut self.issues);
        (name, node, table)
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
            builder.origin(Origin {
                op: "variable".to_owned(),
                name: spec.name.clone(),
                at: node.at.to_string(),
                slice: spec.placement.describe(mesh, &spec.shape),
            });
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

fn emit(
    setting: &Setting<'_>,
    name: &str,
    node: &FunctionNode,
    table: &Table,
) -> Result<Program, Report> {
    let mut emitter = Emitter::new(setting, name, table);
    emitter.entries()?;
    emitter.builder.origin(Origin {
        op: "fetch".to_owned(),
        name: name.to_owned(),
        at: node.at.to_string(),
        slice: String::new(),
    });
    let operations: Vec<_> = table.entries.iter().map(|entry| entry.operation).collect();
    let probed: Vec<_> = setting.data.probed(&operations).collect();
    for (&version, &tensor) in table.fetches.iter().zip(node.fetches.iter().chain(&probed)) {
        let value = emitter.value(version)?;
        let name = setting.data.fetch_name(tensor);
        let shape = &setting.data.tensors[tensor.index()].ty.shape;
        let mut slot = slot(&name, shape, &table.versions[version.index()].placement);
        slot.value = value.id;
        emitter.builder.fetch(slot);
    }
    let fed: Vec<_> = node.inputs.iter().map(|&input| emitter.fed(input)).collect();
    let mut program = emitter.builder.finish();
    program.probes = probed.len();
    program.feeds.sort_by_key(|slot| fed.iter().position(|&value| value == Some(slot.value)));
    Ok(program)
}

pub(super) struct Emitter<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) table: &'a Table,
    pub(super) builder: Builder<'a>,
    pub(super) values: Vec<Option<Local>>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(setting: &'a Setting<'a>, name: &str, table: &'a Table) -> Self {
        let builder = Builder::new(name, setting.mesh);
        Self { setting, table, builder, values: vec![None; table.versions.len()] }
    }

    pub(super) fn entries(&mut self) -> Result<(), Report> {
        let table = self.table;
        let mut made = table.entries.iter().filter(|entry| !entry.alias);
        made.try_for_each(|entry| self.entry(entry))
    }

    fn entry(&mut self, entry: &'a Entry) -> Result<(), Report> {
        let operation = &self.setting.data.operations[entry.operation.index()];
        let versions = entry.outputs.iter().chain(&entry.inputs);
        let placements: Vec<_> = versions.map(|v| self.placement(*v).clone()).collect();
        self.origin(operation, &placements[..entry.outputs.len()]);
        let owners = Owners::from_slice(placements.first().map_or(&[], |p| p.owned()));
        let mut inputs = Vec::new();
        for &version in &entry.inputs {
            inputs.push(self.value(version)?);
        }
        self.builder.owners(&owners);
        if let Some(body) = &entry.body {
            return self.rounds(entry, body, &inputs);
        }
        let types = |list: &[TensorId]| -> Vec<_> {
            list.iter().map(|t| self.setting.data.tensors[t.index()].ty.clone()).collect()
        };
        let (input_types, output_types) = (types(&operation.inputs), types(&operation.outputs));
        let signature = Signature { inputs: &input_types, outputs: &output_types };
        let mut cx = LocalCx {
            builder: &mut self.builder,
            setting: self.setting,
            signature,
            inputs,
            placements,
            rule: operation.op.split(signature),
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
            self.values[version.index()] = Some(output);
        }
        Ok(())
    }

    /// The value that a function's input is fed into.
    fn fed(&self, input: TensorId) -> Option<ValueId> {
        let (producer, _) = self.setting.data.tensors[input.index()].producer?;
        let entry = self.table.entries.iter().find(|entry| entry.operation == producer)?;
        self.values[entry.outputs[0].index()].as_ref().map(|local| local.id)
    }

    pub(super) fn origin(&mut self, operation: &Operation, placements: &[Placement]) {
        let shape = |i: usize| &self.setting.data.tensors[operation.outputs[i].index()].ty.shape;
        let slices: Vec<_> = placements
            .iter()
            .enumerate()
            .map(|(i, placement)| placement.describe(self.setting.mesh, shape(i)))
            .collect();
        self.builder.origin(Origin {
            op: operation.op.name().to_owned(),
            name: operation.name.clone(),
            at: operation.at.to_string(),
            slice: slices.join(" "),
        });
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
        let owes = version.placement.pending().is_some();
        let dtype = if owes { dtype.reduction() } else { dtype };
        if held != dtype {
            moved = self.cast(&moved, dtype)?;
        }
        self.builder.owners(&[]);
        self.values[id.index()] = Some(moved.clone());
        Ok(moved)
    }

    /// A resolved sum is rounded from its reduction dtype once, a sum that is owed widened to it.
    fn cast(&mut self, value: &Local, dtype: crate::names::DType) -> Result<Local, Report> {
        let dims = (0..value.shape().rank() as u8).collect();
        let operand = crate::program::Operand { value: value.id, dims };
        let expr = Expr::input(0).cast(dtype);
        let id = self.builder.map(vec![operand], extents(value.shape()), &expr, dtype);
        let id = id.map_err(|message| Report::of("lowering", message))?;
        Ok(Local::new(id, value.shape().clone()))
    }

    /// Leaves the builder with the owners of what has arrived.
    fn travel(
        &mut self,
        from: Local,
        placement: &Placement,
        route: &Route,
    ) -> Result<Local, Report> {
        let mut now = from;
        let mut owners = Owners::from_slice(placement.owned());
        self.builder.owners(&owners);
        for step in &route.moves {
            let shape = now.shape().clone();
            let at = |dim| shape.position(dim).unwrap_or(0);
            let id = match step {
                Move::Slice { dim, axes } => {
                    let position = at(*dim);
                    let mut sizes = extents(&shape);
                    sizes[position] /= self.setting.mesh.group_size(axes);
                    let offset = Offset::sliced(axes, sizes[position]);
                    let mut begin: smallvec::SmallVec<[Offset; 4]> =
                        smallvec::smallvec![Offset::default(); sizes.len()];
                    begin[position] = offset;
                    self.builder.cut(now.id, begin, sizes)
                }
                Move::ReduceScatter { kind, dim, axes } => {
                    self.builder.reduce_scatter(*kind, axes, at(*dim), now.id)
                }
                Move::AllToAll { from, to, axes } => {
                    self.builder.all_to_all(axes, at(*to), at(*from), now.id)
                }
                Move::AllReduce { kind, axes } => self.builder.all_reduce(*kind, axes, now.id),
                Move::AllGather { dim, axes } => self.builder.all_gather(axes, at(*dim), now.id),
                Move::Owe { axes } => self.owe(&now, axes)?,
                Move::ReduceTo { kind, axis, coordinate } => {
                    let id = self.builder.reduce_to(*kind, &[*axis], *coordinate, now.id);
                    owners.push((*axis, *coordinate));
                    id
                }
                Move::Own { axis, coordinate } => {
                    owners.push((*axis, *coordinate));
                    now.id
                }
                Move::Broadcast { axis, coordinate } => {
                    owners.retain(|(owned, _)| owned != axis);
                    self.builder.owners(&owners);
                    self.builder.broadcast(&[*axis], *coordinate, now.id)
                }
            };
            self.builder.owners(&owners);
            let sizes = self.builder.value(id).extents.clone();
            let dims = shape.iter().zip(sizes).map(|(d, size)| d.resized(size));
            now = Local::new(id, Shape::new(dims).unwrap_or_default());
        }
        Ok(now)
    }

    /// The value on the first of a group, zeros on the others.
    fn owe(&mut self, value: &Local, axes: &[Axis]) -> Result<ValueId, Report> {
        let members = self.setting.mesh.group_size(axes);
        let begin = smallvec::smallvec![Offset::sliced(axes, 1)];
        let (one, all) = (Extents::from_slice(&[1]), Extents::from_slice(&[members]));
        let rank = self.builder.generate(Generator::Iota(0), DType::I32, begin, all, one);
        let rank = self.builder.reshape(rank, Extents::new());
        let dtype = self.builder.value(value.id).dtype;
        let dims = (0..value.shape().rank() as u8).collect();
        let inputs =
            vec![Operand { value: rank, dims: Dims::new() }, Operand { value: value.id, dims }];
        let expr = Expr::input(0).equal(0.0).select(Expr::input(1), 0.0);
        let made = self.builder.map(inputs, extents(value.shape()), &expr, dtype);
        made.map_err(|message| Report::of("lowering", message))
    }
}
