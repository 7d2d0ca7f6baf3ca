//! Compares two layouts: finds the first operation whose results differ.

mod difference;

use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

pub use self::difference::{Agreement, Difference, Subject, Tolerance};
use self::difference::{Distance, distance};
use super::{Error, Session, Threads};
use crate::array::{Array, ArrayRef};
use crate::graph::{Data, Graph, Operation, Report, Structural, TensorId};
use crate::lower::{Module, Options, PassId, Target};
use crate::names::{Layout, Mesh};
use crate::program::Program;

/// One of the two ways in which a function is run.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// The processors.
    pub mesh: &'a Mesh,
    /// The layout of the function on them.
    pub layout: &'a Layout,
    /// Options for lowering; probes are added to them.
    pub options: Options,
    /// The target that the module is compiled for.
    pub target: Target,
    /// The pass that is left out, for messages.
    pub without: Option<PassId>,
}

impl<'a> Side<'a> {
    /// A side with the default options and target.
    pub fn new(mesh: &'a Mesh, layout: &'a Layout) -> Self {
        let (options, target) = (Options::default(), Target::host());
        Self { mesh, layout, options, target, without: None }
    }

    /// This side without a pass. To search for a pass that changes results, compare a layout with
    /// itself and leave the pass out on one side.
    pub fn without(self, pass: PassId) -> Self {
        let (options, target) = (self.options.without(pass), self.target.without(pass));
        Self { options, target, without: Some(pass), ..self }
    }

    fn name(&self) -> String {
        let pass = self.without.map(|pass| format!(" without {pass}")).unwrap_or_default();
        format!("layout \"{}\" on mesh \"{}\"{pass}", self.layout, self.mesh)
    }
}

/// How two sides are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparing<'a> {
    /// The seed of initial values and random numbers on both sides.
    pub seed: u64,
    /// The session from which variables are copied. Otherwise they have their initial values.
    pub variables: Option<&'a Session>,
    /// Which differences are allowed.
    pub tolerance: Tolerance,
}

/// Why two sides could not be compared.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A side cannot be lowered.
    #[error("{side}: {report}")]
    Lower {
        /// The side.
        side: String,
        /// The errors.
        report: Report,
    },
    /// A side's session cannot be made, or its call failed.
    #[error("{side}: {error}")]
    Run {
        /// The side.
        side: String,
        /// The error.
        error: Box<Error>,
    },
}

/// Calls a function once on each side, with equal variables and feeds. Returns the first operation,
/// in the graph's order, with a result that differs; or the first variable that differs after the
/// call; or `None`.
///
/// Every tensor outside of loops is probed, so fusion removes none of them: the unfused computation
/// is compared, with everything placed as it is without probes. Pending values are shown as if they
/// had been reduced. The whole tensors of both sides are in memory at once.
///
/// ```
/// # use mesh_core::{graph::Graph, array::ArrayRef, session::{compare, Comparing, Side}};
/// # fn doc(graph: &Graph, image: ArrayRef<'_>) -> Result<(), Box<dyn std::error::Error>> {
/// let (one, four) = ("".parse()?, "rows:2;cols:2".parse()?);
/// let (plain, layout) = ("".parse()?, "batch:rows;hidden:cols".parse()?);
/// let sides = [Side::new(&one, &plain), Side::new(&four, &layout)];
/// match compare(graph, "train", sides, &[("image", image)], &Comparing::default())? {
///     None => println!("equal"),
///     Some(difference) => println!("{difference}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a side cannot be lowered or run, or if replicas on one side differ although the first of them
/// equals the other side's.
pub fn compare(
    graph: &Graph,
    function: &str,
    sides: [Side<'_>; 2],
    feeds: &[(&str, ArrayRef<'_>)],
    comparing: &Comparing<'_>,
) -> Result<Option<Difference>, CompareError> {
    let [one, two] = sides;
    let runs = [
        Run::new(graph, function, one, feeds, comparing)?,
        Run::new(graph, function, two, feeds, comparing)?,
    ];
    let data = graph.data();
    let both = Both { data: &data, runs: &runs, tolerance: comparing.tolerance };
    let difference = both.operations(function).or_else(|| both.variables(function));
    let [Run { replicas: one, .. }, Run { replicas: two, .. }] = &runs;
    match (difference, one.as_ref().or(two.as_ref())) {
        (None, Some(error)) => Err(error.clone()),
        (difference, _) => Ok(difference),
    }
}

/// The results of a side.
struct Run {
    name: String,
    module: Module,
    /// Global values by tensor name.
    tensors: IndexMap<String, Array>,
    /// Variables after the call, by name.
    variables: IndexMap<String, Array>,
    /// The error of the replica check.
    replicas: Option<CompareError>,
}

impl Run {
    fn new(
        graph: &Graph,
        function: &str,
        mut side: Side<'_>,
        feeds: &[(&str, ArrayRef<'_>)],
        comparing: &Comparing<'_>,
    ) -> Result<Self, CompareError> {
        let name = side.name();
        side.options.probe.push("*".to_owned());
        let module = graph
            .lower_with(side.mesh, side.layout, &side.options)
            .map_err(|report| CompareError::Lower { side: name.clone(), report })?;
        let failed = |error| CompareError::Run { side: name.clone(), error: Box::new(error) };
        let threads = Threads::default().target(side.target);
        let mut session =
            Session::threads_with(&module, comparing.seed, &threads).map_err(failed)?;
        if let Some(from) = comparing.variables {
            session.copy_variables(from).map_err(failed)?;
        }
        session.set_replica_check(true).map_err(failed)?;
        let seen = Arc::new(Mutex::new(IndexMap::new()));
        let inside = Arc::clone(&seen);
        session.watch(move |label, array| {
            let mut seen = inside.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(label.to_owned(), array.clone());
        });
        let replicas = match session.call_named(function, feeds) {
            Ok(_) => None,
            Err(error @ Error::Replicas { .. }) => Some(failed(error)),
            Err(error) => return Err(failed(error)),
        };
        let names: Vec<_> = session.variables().map(str::to_owned).collect();
        let read = |name: &String| Ok((name.clone(), session.read(name)?));
        let variables = names.iter().map(read).collect::<Result<_, Error>>().map_err(failed)?;
        let tensors = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Self { name, module, tensors, variables, replicas })
    }

    /// The placement of an operation's results, as text.
    fn placement(&self, function: &str, operation: &str) -> String {
        let steps = self.module.function(function).into_iter().flat_map(Program::steps);
        let mut origins = steps.flat_map(|step| step.origin.operations());
        let origin = origins.find(|origin| origin.name == operation);
        origin.map_or_else(|| "as its input".to_owned(), |origin| origin.slice.clone())
    }
}

struct Both<'a> {
    data: &'a Data,
    runs: &'a [Run; 2],
    tolerance: Tolerance,
}

impl Both<'_> {
    /// The distance of a tensor's values on the two sides; `None` if a side did not compute it by
    /// itself.
    fn distance(&self, tensor: TensorId) -> Option<Distance> {
        let name = self.data.shown_name(tensor);
        let [one, two] = self.runs;
        distance(one.tensors.get(&name)?, two.tensors.get(&name)?, self.tolerance)
    }

    /// The first operation with a result that differs.
    fn operations(&self, function: &str) -> Option<Difference> {
        let node = self.data.functions.get(function)?;
        let operations = self.data.reachable(node).into_iter();
        let operations = operations.map(|id| &self.data.operations[id.index()]);
        // A probe shows another operation's result.
        let is_probe = |o: &&Operation| matches!(o.structural(), Some(Structural::Probe { .. }));
        let mut made = operations.filter(|operation| !is_probe(operation));
        made.find_map(|operation| {
            let far = |&tensor: &TensorId| {
                self.distance(tensor).filter(Distance::is_far).map(|distance| (tensor, distance))
            };
            let (tensor, distance) = operation.outputs.iter().find_map(far)?;
            let subject = Subject::Operation {
                op: operation.op.name().to_owned(),
                name: self.data.tensor_name(tensor),
                at: operation.at.to_string(),
            };
            let placements =
                self.runs.each_ref().map(|run| run.placement(function, &operation.name));
            Some(self.difference(subject, distance, placements, operation))
        })
    }

    /// The first variable that differs after the call.
    fn variables(&self, function: &str) -> Option<Difference> {
        let node = self.data.functions.get(function)?;
        let [one, two] = self.runs;
        one.variables.iter().enumerate().find_map(|(index, (name, array))| {
            let distance = distance(array, two.variables.get(name)?, self.tolerance)?;
            let distance = Some(distance).filter(Distance::is_far)?;
            let updates = node.updates.iter().map(|id| &self.data.operations[id.index()]);
            let update = updates.into_iter().find(|operation| {
                let op = operation.structural();
                matches!(op, Some(Structural::Update(update)) if update.variable.index() == index)
            })?;
            let subject = Subject::Variable { name: name.clone(), at: update.at.to_string() };
            let placements = self.runs.each_ref().map(|run| {
                let spec = &run.module.variables()[index];
                spec.placement.describe(run.module.mesh(), &spec.shape)
            });
            Some(self.difference(subject, distance, placements, update))
        })
    }

    fn difference(
        &self,
        subject: Subject,
        distance: Distance,
        placements: [String; 2],
        operation: &Operation,
    ) -> Difference {
        let agreement = |&tensor: &TensorId| {
            let Distance { largest, allowed, .. } = self.distance(tensor)?;
            Some(Agreement { name: self.data.tensor_name(tensor), largest, allowed })
        };
        let Distance { largest, allowed, index, values, far, elements } = distance;
        let sides = self.runs.each_ref().map(|run| run.name.clone());
        let inputs = operation.inputs.iter().filter_map(agreement).collect();
        Difference {
            subject,
            index,
            values,
            largest,
            allowed,
            far,
            elements,
            sides,
            placements,
            inputs,
        }
    }
}
