//! Finds rules and axes that are legal but have no effect.

use indexmap::IndexSet;

use super::super::dimension::DimName;
use super::super::mesh::Mesh;
use super::super::text::nearest;
use super::{Layout, LayoutWarning, Part, Printed, RuleDim, Rules, SHOWN};

impl Rules {
    /// The parts of `layout` without effect: rules for dims that are not `known` to the graph, and
    /// axes of `mesh` larger than 1 that no rule uses.
    pub fn warnings(layout: &Layout, mesh: &Mesh, known: &[DimName]) -> Vec<LayoutWarning> {
        let names: IndexSet<_> = known.iter().collect();
        let dims = layout.rules().iter().map(|rule| &rule.dim).enumerate();
        let unknown = dims.filter_map(|(number, dim)| match dim {
            RuleDim::Named(dim) if !names.contains(dim) => Some((number, *dim)),
            _ => None,
        });
        let unknown: Vec<_> = unknown.collect();
        let printed = Printed::new(layout);
        let shown = unknown.iter().take(SHOWN);
        let mut warnings: Vec<_> = shown
            .map(|&(number, dim)| LayoutWarning::UnknownDim {
                dim: dim.to_string(),
                nearest: nearest(dim.as_str(), known.iter().map(|name| name.as_str())),
                at: printed.excerpt(number, Part::Dim),
            })
            .collect();
        if unknown.len() > SHOWN {
            warnings.push(LayoutWarning::MoreUnknownDims { count: unknown.len() - SHOWN });
        }
        let used: IndexSet<_> = layout.rules().iter().flat_map(|rule| &rule.axes).collect();
        let axes = mesh.axes().map(|axis| (mesh.name(axis).to_owned(), mesh.size(axis)));
        let unused = axes.filter(|(name, size)| *size > 1 && !used.contains(name));
        warnings.extend(unused.map(|(axis, size)| LayoutWarning::UnusedAxis { axis, size }));
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(layout: &str, mesh: &str, known: &[&str]) -> Vec<String> {
        let known: Vec<_> = known.iter().map(|&name| name.into()).collect();
        let (layout, mesh) = (layout.parse().unwrap(), mesh.parse().unwrap());
        let warnings = Rules::warnings(&layout, &mesh, &known);
        warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_and_axes_that_do_nothing() {
        // The command of Mesh TensorFlow's README for its toy model. Its second rule has no effect.
        assert_eq!(
            warnings("batch:x;hidden:y", "x:2;y:2", &["batch", "hidden_odd", "hidden_even"]),
            [
                "no tensor has a dim `hidden`: its rule does nothing (did you mean `hidden_odd`?)\n  \
              batch:x;hidden:y\n          ^^^^^^"
            ]
        );
        assert_eq!(
            warnings("batch:x params/zebra:x", "x:2;y:4;z:1", &["batch"]),
            [
                "no tensor has a dim `zebra`: its rule does nothing\n  \
                 batch:x;params/zebra:x\n          ^^^^^^^^^^^^",
                "no rule uses the mesh axis `y`: its 4 processors repeat the same work",
            ]
        );
        assert!(warnings("batch:x; slots/*:y", "x:2;y:4", &["batch"]).is_empty());
    }
}
