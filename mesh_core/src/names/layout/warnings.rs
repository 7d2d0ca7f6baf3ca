//! Rules and axes that are legal but do nothing.

use super::super::dimension::DimName;
use super::super::mesh::Mesh;
use super::super::text::nearest;
use super::{Layout, LayoutWarning, Part, Rules, Target};

impl Rules {
    /// What in `layout` does nothing: rules for dims that are not `known` to the graph, and axes
    /// of `mesh` larger than 1 that no rule uses.
    pub fn warnings(layout: &Layout, mesh: &Mesh, known: &[DimName]) -> Vec<LayoutWarning> {
        let unknown_dim = |(number, target): (usize, &Target)| match target {
            Target::Dim(dim) if !known.contains(dim) => Some(LayoutWarning::UnknownDim {
                dim: dim.to_string(),
                nearest: nearest(dim.as_str(), known.iter().map(|name| name.as_str())),
                at: layout.excerpt(number, Part::Target),
            }),
            _ => None,
        };
        let targets = layout.rules().iter().map(|rule| &rule.target).enumerate();
        let used = |name| layout.rules().iter().any(|rule| rule.axes.iter().any(|a| a == name));
        let unused = mesh.axes().map(|axis| (mesh.name(axis), mesh.size(axis)));
        let unused = unused.filter(|&(name, size)| size > 1 && !used(name));
        targets
            .filter_map(unknown_dim)
            .chain(
                unused
                    .map(|(name, size)| LayoutWarning::UnusedAxis { axis: name.to_owned(), size }),
            )
            .collect()
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
        // The toy command of Mesh TensorFlow's README, whose second rule does nothing.
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
