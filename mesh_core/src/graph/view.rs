//! Views of the graph for petgraph: reachability and pictures.

use super::{Data, FunctionNode, Graph, OperationId};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeRef, Reversed};
use std::fmt::Write;

impl Data {
    /// Operations as nodes (of equal number), producer to consumer as edges.
    pub(crate) fn digraph(&self) -> DiGraph<(), ()> {
        let mut graph = DiGraph::with_capacity(self.operations.len(), self.operations.len() * 2);
        for _ in &self.operations {
            graph.add_node(());
        }
        for (i, operation) in self.operations.iter().enumerate() {
            for input in &operation.inputs {
                if let Some((producer, _)) = self.tensors[input.index()].producer {
                    graph.add_edge(NodeIndex::new(producer.index()), NodeIndex::new(i), ());
                }
            }
        }
        graph
    }

    /// Which operations a walk from `starts` meets: their ancestors (against the edges) or
    /// descendants, themselves included.
    pub(crate) fn walk(
        &self,
        starts: impl IntoIterator<Item = OperationId>,
        direction: Direction,
    ) -> Vec<bool> {
        let graph = self.digraph();
        let mut met = vec![false; self.operations.len()];
        let stack: Vec<_> = starts.into_iter().map(|id| NodeIndex::new(id.index())).collect();
        let mut dfs = Dfs::empty(&graph);
        dfs.stack = stack;
        let next = |dfs: &mut Dfs<_, _>| match direction {
            Direction::Outgoing => dfs.next(&graph),
            Direction::Incoming => dfs.next(Reversed(&graph)),
        };
        while let Some(node) = next(&mut dfs) {
            met[node.index()] = true;
        }
        met
    }

    /// The operations a function needs and its inputs, in lowering order: an operation refers to earlier ones
    /// only, so the order of numbers is a topological order.
    pub(crate) fn reachable(&self, function: &FunctionNode) -> Vec<OperationId> {
        let tensors = function.fetches.iter().chain(&function.inputs);
        let fetched = tensors.filter_map(|t| self.tensors[t.index()].producer);
        let starts = fetched.map(|(op, _)| op).chain(function.updates.iter().copied());
        let needed = self.walk(starts, Direction::Incoming);
        (0..needed.len()).filter(|&i| needed[i]).map(|i| OperationId(i as u32)).collect()
    }
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
