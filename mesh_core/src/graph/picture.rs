//! Graphs as pictures.

use super::data::Graph;
use std::fmt::Write;

impl Graph {
    /// The graph as a picture in Graphviz' DOT language.
    pub fn dot(&self) -> String {
        let data = self.data();
        let mut text =
            String::from("digraph mesh {\n  rankdir=TB; node [shape=box, fontsize=10];\n");
        // Writing to a String cannot fail.
        for (i, operation) in data.operations.iter().enumerate() {
            let types: Vec<_> =
                operation.outputs.iter().map(|t| data.tensors[t.index()].ty.to_string()).collect();
            let label = format!("{}\\n{}", operation.name, types.join("\\n"));
            let _ = writeln!(text, "  op{i} [label=\"{}\"];", label.replace('"', "\\\""));
        }
        for (i, operation) in data.operations.iter().enumerate() {
            let producers = operation.inputs.iter().map(|t| data.tensors[t.index()].producer);
            for (producer, _) in producers.flatten() {
                let _ = writeln!(text, "  {producer:?} -> op{i};");
            }
        }
        text.push_str("}\n");
        text
    }
}
