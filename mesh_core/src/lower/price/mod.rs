//! Prices of layouts: what a step would cost on a machine, read from the table of placements.
//!
//! Nothing is emitted as a whole: an operation's steps are made by themselves, once for each way its tensors
//! lie, and a move's once for each pair of placements. What passes do to a program later is there in one
//! respect: a tensor that one elementwise operation makes and another alone takes stays in registers.

mod bill;
mod held;
mod meetings;
mod work;

pub use meetings::Meeting;

use super::emit::Lowering;
use super::issues::report;
use super::relayout::Route;
use super::table::Setting;
use crate::graph::{Data, Graph, Issue, OperationId, Report, TensorId, TensorType};
use crate::names::{Axis, AxisList, Layout, Mesh, Placement, Rules};
use crate::passes::{Level, Machine};
use crate::program::{Cost, VariableId};
use bill::Bill;
use indexmap::{IndexMap, IndexSet};
use meetings::Classes;
use std::cell::RefCell;
use std::rc::Rc;
use work::{Hidden, Work};

/// What an operation's work depends on: its class, what stays in registers, where its tensors lie.
type WorkKey = (u32, Hidden, Vec<Placement>);

/// What a move's work depends on: the type, from where, and to where.
type MoveKey = (u32, Placement, Placement);

/// Collectives of one form over the same axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Exchanged {
    /// The form, as programs print it.
    pub form: &'static str,
    /// The axes, as written in a layout.
    pub axes: String,
    /// How many there are in a step.
    pub count: u64,
    /// Bytes that a processor receives.
    pub bytes: u64,
    /// Seconds they take.
    pub seconds: f64,
}

/// What one call of a function costs a processor under a layout, on a machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Price {
    /// Seconds of steps that are bound by arithmetic.
    pub compute_seconds: f64,
    /// Seconds of steps that are bound by memory traffic, and of beginning steps.
    pub memory_seconds: f64,
    /// Collectives by form and axes, the longest first.
    pub exchanged: Vec<Exchanged>,
    /// Floating-point operations, bytes moved and bytes received, before any pass of a target.
    pub cost: Cost,
    /// Bytes of variables.
    pub variable_bytes: usize,
    /// The most bytes of other values at once.
    pub value_bytes: usize,
    /// Seconds that no rule of `params/` and `slots/` changes: computations, and what moves among them.
    pub fixed_seconds: f64,
}

impl Price {
    /// Seconds of collectives.
    pub fn exchange_seconds(&self) -> f64 {
        self.exchanged.iter().map(|exchanged| exchanged.seconds).sum()
    }

    /// Seconds of a call.
    pub fn seconds(&self) -> f64 {
        self.compute_seconds + self.memory_seconds + self.exchange_seconds()
    }

    /// Bytes that a processor needs.
    pub fn bytes(&self) -> usize {
        self.variable_bytes + self.value_bytes
    }

    fn add(&mut self, work: &Work, times: u64) {
        let count = times as f64;
        self.compute_seconds += work.compute * count;
        self.memory_seconds += work.memory * count;
        self.cost += work.cost.times(times);
        for found in &work.exchanges {
            let is_same = |own: &Exchanged| (own.form, &own.axes) == (found.form, &found.axes);
            let at = self.exchanged.iter().position(is_same).unwrap_or(self.exchanged.len());
            if at == self.exchanged.len() {
                let nothing = Exchanged { count: 0, bytes: 0, seconds: 0.0, ..found.clone() };
                self.exchanged.push(nothing);
            }
            let own = &mut self.exchanged[at];
            own.count += found.count * times;
            own.bytes += found.bytes * times;
            own.seconds += found.seconds * count;
        }
    }
}

/// Prices the layouts of a function of a graph on one mesh of a machine. It keeps what it has found
/// of single operations, so that the next layout costs little.
///
/// The price is a model, and what it leaves out makes layouts dearer or cheaper alike: what collectives
/// hide behind computation, what caches keep, and what a plan makes of the order of steps.
///
/// ```
/// # use mesh_core::{graph::Graph, names::{DType, dim}, passes::Machine};
/// # fn doc(g: &Graph) -> Result<(), Box<dyn std::error::Error>> {
/// let x = g.input("x", [dim("batch", 4096)], DType::F32);
/// g.function("double", [x], [x + x], []);
/// let estimator = g.estimator("double", &"data:2".parse()?, &Machine::host())?;
/// let (whole, half) = (estimator.price(&"".parse()?)?, estimator.price(&"batch:data".parse()?)?);
/// assert!(half.memory_seconds < whole.memory_seconds);
/// # Ok(())
/// # }
/// ```
pub struct Estimator<'g> {
    graph: &'g Graph,
    function: String,
    mesh: Mesh,
    machine: Machine,
    /// Operations that do the same with the same types.
    classes: Classes,
    works: RefCell<IndexMap<WorkKey, Rc<Work>>>,
    moves: RefCell<IndexMap<MoveKey, Rc<Work>>>,
    levels: RefCell<IndexMap<AxisList, Option<Level>>>,
}

impl Graph {
    /// What prices layouts of a function on one mesh.
    ///
    /// # Errors
    /// Errors recorded while the graph was built, or a name that no function has.
    pub fn estimator(
        &self,
        function: &str,
        mesh: &Mesh,
        machine: &Machine,
    ) -> Result<Estimator<'_>, Report> {
        self.check()?;
        let classes = Classes::new(&self.data(), function)?;
        let (function, mesh, machine) = (function.to_owned(), mesh.clone(), machine.clone());
        let mut estimator = Estimator {
            graph: self,
            function,
            mesh,
            machine,
            classes,
            works: RefCell::default(),
            moves: RefCell::default(),
            levels: RefCell::default(),
        };
        estimator.prepare()?;
        Ok(estimator)
    }
}

impl Estimator<'_> {
    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    fn level(&self, axes: &[Axis]) -> Option<Level> {
        let find = || self.machine.level(&self.mesh, axes).cloned();
        let mut levels = self.levels.borrow_mut();
        levels.entry(AxisList::from_slice(axes)).or_insert_with(find).clone()
    }

    /// What a layout costs.
    ///
    /// # Errors
    /// Everything that is illegal about the layout, for this function or another one of the graph.
    pub fn price(&self, layout: &Layout) -> Result<Price, Report> {
        let data = self.graph.data();
        if data.operations.len() != self.classes.operations() {
            return Err(Report::of("price", "the graph has grown since the estimator was made"));
        }
        let rules = Rules::bind(layout, &self.mesh).map_err(|errors| Report {
            issues: errors
                .iter()
                .map(|e| Issue { subject: "layout".to_owned(), message: e.to_string(), at: None })
                .collect(),
        })?;
        let setting = Setting::new(&data, &self.mesh, &rules);
        let mut lowering = Lowering::new(&setting);
        lowering.check_variables();
        let (nothing, mut own) = (IndexSet::new(), None);
        for (name, node) in &data.functions {
            if !lowering.issues.is_empty() {
                break;
            }
            let table = lowering.table(name, node, &nothing).table;
            if *name == self.function {
                own = Some(table);
            }
        }
        if !lowering.issues.is_empty() {
            return Err(Report { issues: report(&lowering.issues) });
        }
        let mut price = Price::default();
        if let Some(table) = own {
            Bill::new(self, &setting, &table, 1, &mut price).table()?;
            price.value_bytes = self.peak(&setting, &table, false);
        }
        price.variable_bytes = self.variables(&setting);
        price.exchanged.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(price)
    }

    fn variables(&self, setting: &Setting<'_>) -> usize {
        let types = setting.data.variables.iter().map(|variable| &variable.ty);
        let bytes = |(i, ty): (u32, &TensorType)| {
            let placement = setting.at_rest(VariableId(i));
            let local = placement.local_shape(&self.mesh, &ty.shape);
            local.map_or(ty.shape.size(), |shape| shape.size()).saturating_mul(ty.dtype.size())
        };
        (0..).zip(types).map(bytes).fold(0, usize::saturating_add)
    }

    fn work(
        &self,
        setting: &Setting<'_>,
        id: OperationId,
        placements: Vec<Placement>,
    ) -> Result<Rc<Work>, Report> {
        let hidden = self.classes.hidden_of(setting.data, id);
        let key = (self.classes.of(id), hidden, placements);
        if let Some(known) = self.works.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let operation = &setting.data.operations[id.index()];
        let work = self.of_operation(setting, operation, &key.2, hidden).ok_or_else(|| {
            Report::of(&operation.name, "internal error: its steps cannot be made by themselves")
        })?;
        let work = Rc::new(work);
        self.works.borrow_mut().insert(key, Rc::clone(&work));
        Ok(work)
    }

    fn route(
        &self,
        setting: &Setting<'_>,
        tensor: TensorId,
        from: &Placement,
        to: &Placement,
        route: &Route,
    ) -> Result<Rc<Work>, Report> {
        let key = (self.classes.type_of(tensor), from.clone(), to.clone());
        if let Some(known) = self.moves.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let ty = &setting.data.tensors[tensor.index()].ty;
        let work = self.of_move(setting, ty, from, to, route).ok_or_else(|| {
            Report::of("price", "internal error: a move cannot be made by itself")
        })?;
        let work = Rc::new(work);
        self.moves.borrow_mut().insert(key, Rc::clone(&work));
        Ok(work)
    }
}
