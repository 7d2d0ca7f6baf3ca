//! Prices of layouts: what a step would cost on a machine, read from the table of placements.
//!
//! Nothing is emitted as a whole: an operation's steps are made by themselves, once for each way its tensors
//! lie, a move's once for each pair of placements, and a loop's body is added up once for each way it is placed.
//! Of what passes do to a program later, `near` knows what fusion and tiles keep out of memory.

mod bill;
mod held;
mod meetings;
mod moments;
mod near;
mod shared;
mod work;

pub use meetings::Meeting;
pub use moments::{Holding, Moment};

use super::issues::{bind, report};
use super::lowering::Lowering;
use super::memo::{Alike, Fast, Key, Memo};
use super::placed::Placed;
use super::relayout::Route;
use super::setting::Setting;
use super::sweep::{Fetch, Task, place};
use super::table::Table;
use crate::graph::{Data, Graph, OperationId, Report, TensorId};
use crate::names::{Axis, AxisList, Layout, Mesh, Shape};
use crate::passes::{Level, Machine};
use crate::program::Cost;
use bill::Bill;
use indexmap::{IndexMap, IndexSet};
use meetings::Uses;
use near::Near;
use shared::Shared;
use std::cell::RefCell;
use std::rc::Rc;
use work::Work;

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
    /// Seconds of steps that are bound by memory traffic, of beginning steps, and of copying slices of feeds.
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

    /// Adds so many times another price, but for memory.
    fn add(&mut self, other: &Self, times: u64) {
        let count = times as f64;
        self.compute_seconds += other.compute_seconds * count;
        self.memory_seconds += other.memory_seconds * count;
        self.fixed_seconds += other.fixed_seconds * count;
        self.cost += other.cost.times(times);
        for found in &other.exchanged {
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
/// assert_eq!(estimator.price_below(&"".parse()?, Some(0.0))?, None);
/// assert_eq!(estimator.price_below(&"".parse()?, Some(1.0))?, Some(whole));
/// # Ok(())
/// # }
/// ```
pub struct Estimator<'g> {
    graph: &'g Graph,
    mesh: Mesh,
    machine: Machine,
    known: Rc<Known>,
    memo: Rc<Memo>,
    works: RefCell<Fast<Key, Rc<Work>>>,
    shared: Rc<Shared>,
    moves: RefCell<Fast<Key, Rc<Work>>>,
    /// Bytes of a slice, by type and placement.
    sizes: RefCell<Fast<Key, usize>>,
    /// Bodies of loops by the address of their tables.
    bodies: RefCell<Fast<usize, Body>>,
    levels: RefCell<IndexMap<AxisList, Option<Level>>>,
}

/// A loop's body with its price; the table is kept so that no other one takes its place in memory.
type Body = (Rc<Table>, Rc<Price>);

/// What is known of a function whatever the mesh and the layout.
struct Known {
    /// The priced function, and all others, which must be legal.
    functions: Vec<Listed>,
    alike: Rc<Alike>,
    uses: Uses,
    near: Near,
    meetings: Vec<Meeting>,
    moments: Vec<Moment>,
    by_rule: bool,
}

/// A function's operations and what is wanted of it.
struct Listed {
    name: String,
    operations: Vec<OperationId>,
    fetches: Vec<(TensorId, Fetch)>,
    shown: Vec<TensorId>,
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
        let data = self.data();
        let functions = listed(&data, function)?;
        let alike = Rc::new(Alike::new(&data));
        let uses = Uses::new(&data, &functions);
        let (near, meetings, moments) = (Near::default(), Vec::new(), Vec::new());
        let known = Known { functions, alike, uses, near, meetings, moments, by_rule: false };
        // The others are found with what stays near.
        let of = |known| Estimator::of(self, mesh, machine, Rc::new(known));
        let first = of(known);
        let near = first.near(&data);
        let second = of(Known { near, ..first.known()? });
        let (meetings, moments) = (second.meet(&data)?, second.find_moments(&data)?);
        let by_rule = second.all_by_rule(&data)?;
        Ok(of(Known { meetings, moments, by_rule, ..second.known()? }))
    }
}

/// The functions of a graph, the named one first.
fn listed(data: &Data, function: &str) -> Result<Vec<Listed>, Report> {
    let list = |name: &String| {
        let node = &data.functions[name];
        let operations = data.reachable(node);
        let shown = data.probed(&operations).collect();
        let fetches = node.fetches.iter().map(|&tensor| (tensor, Fetch::Settled)).collect();
        Listed { name: name.clone(), operations, fetches, shown }
    };
    let mut all: Vec<_> = data.functions.keys().map(list).collect();
    let Some(own) = all.iter().position(|listed| listed.name == function) else {
        let known: Vec<_> = data.functions.keys().map(String::as_str).collect();
        let message = format!("there is no function `{function}`: there are {}", known.join(", "));
        return Err(Report::of("price", message));
    };
    all.swap(0, own);
    Ok(all)
}

impl<'g> Estimator<'g> {
    fn of(graph: &'g Graph, mesh: &Mesh, machine: &Machine, known: Rc<Known>) -> Self {
        let memo = Rc::new(Memo::of(Rc::clone(&known.alike)));
        Self {
            graph,
            mesh: mesh.clone(),
            machine: machine.shared_by(mesh.processors()),
            known,
            memo,
            works: RefCell::default(),
            shared: Rc::default(),
            moves: RefCell::default(),
            sizes: RefCell::default(),
            bodies: RefCell::default(),
            levels: RefCell::default(),
        }
    }

    /// What is known, of which nobody else knows.
    fn known(self) -> Result<Known, Report> {
        let shared = || Report::of("price", "internal error: what is known is still shared");
        Rc::into_inner(self.known).ok_or_else(shared)
    }

    /// The same for another mesh; what does not depend on it is not found again.
    pub fn on(&self, mesh: &Mesh, machine: &Machine) -> Self {
        let mut other = Self::of(self.graph, mesh, machine, Rc::clone(&self.known));
        if other.machine == self.machine {
            other.shared = Rc::clone(&self.shared);
        }
        other
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The machine, with the rates that a processor has while all of the mesh compute.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Where dims meet, equal combinations together.
    pub fn meetings(&self) -> &[Meeting] {
        &self.known.meetings
    }

    /// Whether every operation goes by its split rule. Another, a reshape for example, finds its own way, and then it is
    /// not all one in which order axes of different sizes split a dim.
    pub fn is_by_rule(&self) -> bool {
        self.known.by_rule
    }

    /// What is held at once, at moments that hold much; under no layout a processor needs less than its part.
    pub fn moments(&self) -> &[Moment] {
        &self.known.moments
    }

    /// Shapes of the trainable variables, equal ones once.
    pub fn parameters(&self) -> Vec<Shape> {
        let data = self.graph.data();
        let trainable = data.variables.iter().filter(|variable| variable.trainable);
        let shapes: IndexSet<_> = trainable.map(|variable| variable.ty.shape.clone()).collect();
        shapes.into_iter().collect()
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
        self.price_below(layout, None)?.ok_or_else(bill::unlimited)
    }

    /// What a layout costs, or nothing if [`Price::fixed_seconds`] reach a limit before all is priced: it takes as long
    /// with whatever rules of parameters and slots.
    ///
    /// # Errors
    /// As [`Estimator::price`].
    pub fn price_below(
        &self,
        layout: &Layout,
        limit: Option<f64>,
    ) -> Result<Option<Price>, Report> {
        let data = self.graph.data();
        if data.operations.len() != self.known.alike.operations() {
            return Err(Report::of("price", "the graph has grown since the estimator was made"));
        }
        let rules = bind(layout, &self.mesh)?;
        let setting = Setting::with(&data, &self.mesh, &rules, Rc::clone(&self.memo));
        let mut lowering = Lowering::new(&setting);
        lowering.check_variables();
        let mut own = None;
        for Listed { operations, fetches, shown, .. } in &self.known.functions {
            if !lowering.issues.is_empty() {
                break;
            }
            let task = Task { operations, given: &[], fetches, shown };
            let table = place(&setting, &task, &mut lowering.issues);
            own.get_or_insert(table);
        }
        if !lowering.issues.is_empty() {
            return Err(Report { issues: report(&lowering.issues) });
        }
        let Some(table) = own else { return Ok(Some(Price::default())) };
        let Some(mut price) = Bill::new(self, &setting, &table).table(false, limit)? else {
            return Ok(None);
        };
        price.variable_bytes = self.variables(&setting);
        price.exchanged.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(Some(price))
    }

    /// What an operation costs, whose outputs and then inputs lie so.
    fn work(
        &self,
        setting: &Setting<'_>,
        id: OperationId,
        placed: &[&Placed],
    ) -> Result<Rc<Work>, Report> {
        let hidden = self.known.near.of(setting.data, id);
        let mut key = Key::from_slice(&[self.known.alike.of(id), hidden]);
        key.extend(placed.iter().map(|placed| placed.number()));
        if let Some(known) = self.works.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let (data, operation) = (setting.data, &setting.data.operations[id.index()]);
        let cut = shared::cut(data, &self.mesh, (key[0], hidden), operation, placed);
        let work = match self.shared.get(&cut) {
            Some(known) => known,
            None => {
                let work =
                    self.of_operation(setting, operation, placed, hidden).ok_or_else(|| {
                        let message = "internal error: its steps cannot be made by themselves";
                        Report::of(&operation.name, message)
                    })?;
                let work = Rc::new(work);
                self.shared.keep(cut, &work);
                work
            }
        };
        self.works.borrow_mut().insert(key, Rc::clone(&work));
        Ok(work)
    }

    /// What it costs to move a tensor by a route.
    fn route(
        &self,
        setting: &Setting<'_>,
        tensor: TensorId,
        [from, to]: [&Placed; 2],
        route: &Route,
    ) -> Result<Rc<Work>, Report> {
        let key = Key::from_slice(&[self.known.alike.type_of(tensor), from.number(), to.number()]);
        if let Some(known) = self.moves.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let ty = &setting.data.tensors[tensor.index()].ty;
        let work = self.of_move(setting, ty, [from, to], route).ok_or_else(|| {
            Report::of("price", "internal error: a move cannot be made by itself")
        })?;
        let work = Rc::new(work);
        self.moves.borrow_mut().insert(key, Rc::clone(&work));
        Ok(work)
    }
}
