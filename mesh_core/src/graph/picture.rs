//! Graphs for petgraph: its algorithms, and pictures.

use super::data::{Graph, Structural};
use petgraph::dot::Dot;
use petgraph::graph::{DiGraph, NodeIndex};

impl Graph {
    /// The operations, by name, and the types of the tensors between them, for petgraph's algorithms.
    /// Node `i` is the operation that was made as number `i`, and an edge leads from the operation that
    /// makes a tensor to each that reads it.
    pub fn digraph(&self) -> DiGraph<String, String> {
        let data = self.data();
        let mut graph = DiGraph::with_capacity(data.operations.len(), data.tensors.len());
        for operation in &data.operations {
            graph.add_node(operation.name.clone());
        }
        for (reader, operation) in data.operations.iter().enumerate() {
            for tensor in operation.inputs.iter().map(|input| &data.tensors[input.index()]) {
                if let Some((maker, _)) = tensor.producer {
                    let [maker, reader] = [maker.index(), reader].map(NodeIndex::new);
                    graph.add_edge(maker, reader, tensor.ty.to_string());
                }
            }
        }
        graph
    }

    /// What a function needs, the bodies of its loops included, as a picture in Graphviz' DOT language. `None` if there is no such function.
    pub fn dot_of(&self, function: &str) -> Option<String> {
        let data = self.data();
        let mut needed = vec![false; data.operations.len()];
        let mut found = data.reachable(data.functions.get(function)?);
        while let Some(id) = found.pop() {
            needed[id.index()] = true;
            if let Some(Structural::Loop(run)) = data.operations[id.index()].structural() {
                let results = &data.region(run.region).results;
                found.extend(data.computing(run.region, results));
            }
        }
        let all = self.digraph();
        let kept = all.filter_map(
            |node, name| needed[node.index()].then_some(name),
            |_, tensor| Some(tensor),
        );
        Some(Dot::new(&kept).to_string())
    }

    /// The graph as a picture in Graphviz' DOT language.
    pub fn dot(&self) -> String {
        Dot::new(&self.digraph()).to_string()
    }
}
