//! Graphs for petgraph: its algorithms, and pictures.

use super::data::Graph;
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

    /// The graph as a picture in Graphviz' DOT language.
    pub fn dot(&self) -> String {
        Dot::new(&self.digraph()).to_string()
    }
}
