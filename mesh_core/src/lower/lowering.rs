//! A graph is lowered: everything is placed, then every function is emitted.

use super::emit::{Placed, emit};
use super::issues::{LayoutIssue, bind, report};
use super::local::extents;
use super::module::{Module, Options, VariableSpec};
use super::origins::origin;
use super::place::PlaceCx;
use super::probes;
use super::setting::Setting;
use super::sweep::{Fetch, Task, place};
use super::warnings::{self, Warnings};
use crate::graph::{FunctionNode, Graph, Report, Signature, TensorId};
use crate::names::{Home, Layout, Mesh, RuleSet, Rules};
use crate::passes;
use crate::program::{Builder, Offset, Program, VariableId};
use indexmap::IndexSet;
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

    /// Whether [`lower`](Self::lower) takes a layout. Only placements are found, no program is made.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{DType, dim}};
    /// # fn doc(g: &Graph) -> Result<(), Box<dyn std::error::Error>> {
    /// let x = g.input("x", [dim("batch", 6)], DType::F32);
    /// g.function("double", [x], [x + x], []);
    /// assert!(g.check_layout(&"data:2".parse()?, &"batch:data".parse()?).is_ok());
    /// assert!(g.check_layout(&"data:4".parse()?, &"batch:data".parse()?).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_layout(&self, mesh: &Mesh, layout: &Layout) -> Result<(), Report> {
        self.check()?;
        let (data, rules) = (self.data(), bind(layout, mesh)?);
        let setting = Setting::new(&data, mesh, &rules);
        Lowering::new(&setting).tables(&IndexSet::new()).map(drop)
    }

    fn lowered(&self, mesh: &Mesh, layout: &Layout, options: &Options) -> Result<Module, Report> {
        self.check()?;
        let rules = bind(layout, mesh)?;
        let names = self.dim_names();
        let data = self.data();
        let setting = Setting::new(&data, mesh, &rules);
        let probes = probes::find(&data, &options.probe)?;
        let mut lowering = Lowering::new(&setting);
        let tables = lowering.tables(&probes)?;
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

    /// Where everything lies in each function.
    fn tables(&mut self, probes: &IndexSet<TensorId>) -> Result<Vec<Placed<'a>>, Report> {
        self.check_variables();
        let functions = self.setting.data.functions.iter();
        let tables = functions.map(|(name, node)| self.table(name, node, probes)).collect();
        if self.issues.is_empty() {
            return Ok(tables);
        }
        Err(Report { issues: report(&self.issues) })
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
