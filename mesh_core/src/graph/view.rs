//! Views of the graph for petgraph: reachability and pictures.

use super::{Data, FunctionNode, Graph, Operation, OperationId, TensorId, structural};
use indexmap::IndexSet;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeRef, IntoNeighbors, Reversed, Visitable};
use std::fmt::Write;

impl Data {
    /// Operations as nodes (of equal number), producer to consumer as edges.
    pub(crate) fn digraph(&self) -> DiGraph<(), ()> {
        self.digraph_of(|_, _| true)
    }

    /// With the edges only of inputs that `counts` accepts.
    fn digraph_of(&self, counts: impl Fn(&Operation, TensorId) -> bool) -> DiGraph<(), ()> {
        let mut graph = DiGraph::with_capacity(self.operations.len(), self.operations.len() * 2);
        for _ in &self.operations {
            graph.add_node(());
        }
        for (i, operation) in self.operations.iter().enumerate() {
            for input in operation.inputs.iter().filter(|input| counts(operation, **input)) {
                if let Some((producer, _)) = self.tensors[input.index()].producer {
                    graph.add_edge(NodeIndex::new(producer.index()), NodeIndex::new(i), ());
                }
            }
        }
        graph
    }

    /// Which operations `starts` need, themselves included.
    pub(crate) fn needed(&self, starts: impl IntoIterator<Item = OperationId>) -> Vec<bool> {
        walk(Reversed(&self.digraph()), self.operations.len(), starts)
    }

    /// Which operations a small change of `tensors` changes: it travels by floats, and ends at a
    /// `stop_gradient`.
    pub(super) fn changed_by(&self, tensors: &IndexSet<TensorId>) -> Vec<bool> {
        let travels = |operation: &Operation, input: TensorId| {
            let stops = operation.op.as_any().is::<structural::StopGradient>();
            !stops && self.tensors[input.index()].ty.dtype.is_float()
        };
        let reads = |operation: &Operation| {
            operation.inputs.iter().any(|t| tensors.contains(t) && travels(operation, *t))
        };
        let readers = self.operations.iter().enumerate().filter(|(_, operation)| reads(operation));
        let readers = readers.map(|(i, _)| OperationId(i as u32));
        walk(&self.digraph_of(travels), self.operations.len(), readers)
    }

    /// The operations a function needs and its inputs, in lowering order: an operation refers to earlier ones
    /// only, so the order of numbers is a topological order.
    pub(crate) fn reachable(&self, function: &FunctionNode) -> Vec<OperationId> {
        let tensors = function.fetches.iter().chain(&function.inputs);
        let fetched = tensors.filter_map(|t| self.tensors[t.index()].producer);
        let starts = fetched.map(|(op, _)| op).chain(function.updates.iter().copied());
        let needed = self.needed(starts);
        (0..needed.len()).filter(|&i| needed[i]).map(|i| OperationId(i as u32)).collect()
    }
}

/// Which of `count` nodes a walk along the edges from `starts` meets, themselves included.
fn walk<G>(graph: G, count: usize, starts: impl IntoIterator<Item = OperationId>) -> Vec<bool>
where
    G: IntoNeighbors<NodeId = NodeIndex> + Visitable<NodeId = NodeIndex>,
{
    let mut met = vec![false; count];
    let mut dfs = Dfs::empty(graph);
    dfs.stack = starts.into_iter().map(|id| NodeIndex::new(id.index())).collect();
    while let Some(node) = dfs.next(graph) {
        met[node.index()] = true;
    }
    met
}

impl Graph {
    /// The graph as a picture in Graphviz' DOT language.
    pub fn dot(&self) -> String {
        let data = self.data();
        let graph = data.digraph();
        let mut text =
            String::from("digraph mesh {\n  rankdir=TB; node [shape=box, fontsize=10];\n");
        for (i, operation) in data.operations.iter().enumerate() {
            let types: Vec<_> =
                operation.outputs.iter().map(|t| data.tensors[t.index()].ty.to_string()).collect();
            let label = format!("{}\\n{}", operation.name, types.join("\\n"));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  op{i} [label=\"{}\"];", label.replace('"', "\\\""));
        }
        for edge in graph.edge_references() {
            let _ = writeln!(text, "  op{} -> op{};", edge.source().index(), edge.target().index());
        }
        text.push_str("}\n");
        text
    }
}
