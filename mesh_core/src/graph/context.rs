//! A graph itself, what is recorded of it, and on whose line.

use super::data::{Algebra, Context, Data, Graph};
use super::error::{Issue, Report};
use super::ids::GraphId;
use super::nodes::Region;
use super::provenance::Provenance;
use crate::names::{DimName, Dimension, Shape};
use std::cell::{Ref, RefCell};
use std::fmt;
use std::panic::Location;

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data.borrow();
        write!(f, "Graph({} operations, {} variables)", data.operations.len(), data.variables.len())
    }
}

impl Graph {
    /// An empty graph whose operators mean what `algebra` says. Most users call
    /// `mesh_ops::graph()`.
    pub fn new(algebra: &'static dyn Algebra) -> Self {
        let data = Data { regions: vec![Region::default()], ..Data::default() };
        Self { id: GraphId::new(), data: RefCell::new(data), algebra }
    }

    pub(crate) fn identity(&self) -> GraphId {
        self.id
    }

    pub(crate) fn algebra(&self) -> &'static dyn Algebra {
        self.algebra
    }

    pub(crate) fn data(&self) -> Ref<'_, Data> {
        self.data.borrow()
    }

    /// All errors recorded so far, or nothing.
    ///
    /// # Errors
    ///
    /// All errors that were recorded.
    pub fn check(&self) -> Result<(), Report> {
        let issues = self.data().issues.clone();
        if issues.is_empty() { Ok(()) } else { Err(Report { issues }) }
    }

    /// Records an error on the caller's line.
    #[track_caller]
    pub fn record(&self, subject: &str, message: impl Into<String>) {
        let at = self.provenance(Location::caller());
        self.push_issue(subject, message.into(), at);
    }

    /// Records an error, of the layer that the user called if there is one. An error that one line
    /// makes again and again, as for each variable, is recorded once.
    pub(super) fn push_issue(&self, subject: &str, message: String, at: Provenance) {
        let data = &mut *self.data.borrow_mut();
        let (subject, message) = match data.layer().filter(|layer| *layer != subject) {
            Some(layer) if message.starts_with(subject) => (layer, message),
            Some(layer) => (layer, format!("{subject}: {message}")),
            None => (subject, message),
        };
        let issue = Issue { subject: subject.to_owned(), message, at: Some(at) };
        if !data.issues.iter().any(|known| known.repeats(&issue)) {
            data.issues.push(issue);
        }
    }

    pub(super) fn provenance(&self, location: &'static Location<'static>) -> Provenance {
        let asked = self.data().context.last().and_then(|context| context.at.clone());
        asked.unwrap_or_else(|| Provenance::of(location))
    }

    /// Records on the caller's line something that is legal but hardly meant.
    #[track_caller]
    pub fn warn(&self, subject: &str, message: impl Into<String>) {
        let at = Some(self.provenance(Location::caller()));
        let issue = Issue { subject: subject.to_owned(), message: message.into(), at };
        self.data.borrow_mut().warnings.push(issue);
    }

    /// Whether nobody has been told of a warning yet; from here on somebody has.
    pub(crate) fn is_news(&self, warning: &str) -> bool {
        self.data.borrow_mut().reported.insert(warning.to_owned())
    }

    /// What has been warned of so far.
    pub fn warnings(&self) -> Vec<Issue> {
        self.data().warnings.clone()
    }

    /// Runs `build` on behalf of the caller's line: operations it makes carry that line and
    /// `note`, and form a phase of their own (what they gather out of variables is not kept
    /// for others).
    #[track_caller]
    pub fn on_behalf<T>(&self, note: &str, build: impl FnOnce() -> T) -> T {
        let location = self.provenance(Location::caller()).location;
        let phase = self.new_phase();
        self.within(Provenance { location, note: Some(note.into()), asker: None }, phase, build)
    }

    /// While the returned value lives, what is made carries the caller's line, also what closures
    /// make: `#[track_caller]` does not reach into them.
    #[track_caller]
    pub fn for_caller(&self) -> ForCaller<'_> {
        self.for_line(Location::caller())
    }

    /// As [`for_caller`](Self::for_caller), for who called another function: what that function's
    /// closures make when they are called from elsewhere.
    pub fn for_line(&self, line: &'static Location<'static>) -> ForCaller<'_> {
        let at = Some(self.provenance(line));
        let data = &mut *self.data.borrow_mut();
        let (phase, layer) = (data.phase(), data.layer());
        data.context.push(Context { at, phase, layer });
        ForCaller { graph: self }
    }

    /// While the returned value lives, errors of the ops that are made begin with the name of a layer. Of
    /// layers within layers, the name is that of the outermost, which the user called.
    ///
    /// ```
    /// # use mesh_core::graph::Tensor;
    /// # fn doc<'g>(relu: impl Fn(Tensor<'g>) -> Tensor<'g>, x: Tensor<'g>) -> Tensor<'g> {
    /// let _layer = x.graph().for_layer("gated");
    /// relu(x) * x // an error of `mul` is told as `gated: mul: …`
    /// # }
    /// ```
    pub fn for_layer(&self, layer: &'static str) -> ForCaller<'_> {
        let data = &mut *self.data.borrow_mut();
        let at = data.context.last().and_then(|context| context.at.clone());
        let (phase, layer) = (data.phase(), data.layer().or(Some(layer)));
        data.context.push(Context { at, phase, layer });
        ForCaller { graph: self }
    }

    pub(super) fn within<T>(&self, at: Provenance, phase: u32, build: impl FnOnce() -> T) -> T {
        let layer = self.data().layer();
        let context = Context { at: Some(at), phase, layer };
        self.data.borrow_mut().context.push(context);
        let result = build();
        self.data.borrow_mut().context.pop();
        result
    }

    pub(super) fn new_phase(&self) -> u32 {
        let mut data = self.data.borrow_mut();
        data.phases += 1;
        data.phases
    }

    /// A shape out of dims; a bad one is recorded on the caller's line.
    #[track_caller]
    pub(crate) fn shape(
        &self,
        subject: &str,
        dims: impl IntoIterator<Item = Dimension>,
    ) -> Option<Shape> {
        match Shape::new(dims) {
            Ok(shape) => Some(shape),
            Err(error) => {
                self.record(subject, error.to_string());
                None
            }
        }
    }

    /// Every dim name of the graph.
    pub(crate) fn dim_names(&self) -> Vec<DimName> {
        let data = self.data();
        let mut names: Vec<_> = data.tensors.iter().flat_map(|t| t.ty.shape.names()).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Data {
    /// The phase of what is made.
    pub(super) fn phase(&self) -> u32 {
        self.context.last().map_or(0, |context| context.phase)
    }

    /// The layer for which it is made.
    fn layer(&self) -> Option<&'static str> {
        self.context.last().and_then(|context| context.layer)
    }
}

/// Until it is dropped, what is made is on somebody's account; see [`Graph::for_caller`] and
/// [`Graph::for_layer`].
#[derive(Debug)]
#[must_use = "it counts until this value is dropped"]
pub struct ForCaller<'g> {
    graph: &'g Graph,
}

impl Drop for ForCaller<'_> {
    fn drop(&mut self) {
        self.graph.data.borrow_mut().context.pop();
    }
}
