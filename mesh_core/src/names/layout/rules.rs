//! A layout bound to a mesh.

use std::cell::LazyCell;
use std::cmp::Reverse;

use super::super::dimension::DimName;
use super::super::mesh::{Axis, AxisList, Mesh};
use super::super::placement::Placement;
use super::super::shape::Shape;
use super::super::text::{Excerpt, nearest};
use super::{Layout, LayoutError, Owner, Part, Printed, RuleDim, RuleSet, SHOWN};

/// The rules of one rule set.
#[derive(Clone, Debug, Default)]
struct Table {
    /// Each dim occurs once: the parser refuses a second rule.
    dims: Vec<(DimName, AxisList)>,
    star: Option<Star>,
}

#[derive(Clone, Debug)]
struct Star {
    axes: AxisList,
    owner: Option<Owner>,
}

/// A layout that is bound to a mesh: its axes are looked up.
#[derive(Clone, Debug)]
pub struct Rules {
    compute: Table,
    params: Table,
    slots: Table,
}

/// The effect of a rule set's `*` rule on one variable.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Home {
    /// The dim that it splits, and the axes that split it.
    pub star: Option<(DimName, AxisList)>,
    /// The coordinate that owns the variable.
    pub owner: Option<(Axis, usize)>,
}

impl Rules {
    /// Looks up every axis of `layout` in `mesh`.
    ///
    /// # Errors
    ///
    /// If an axis or an owner does not fit the mesh. The first few problems are listed, the others
    /// counted.
    pub fn bind(layout: &Layout, mesh: &Mesh) -> Result<Self, Vec<LayoutError>> {
        let mut rules =
            Self { compute: Table::default(), params: Table::default(), slots: Table::default() };
        let printed = LazyCell::new(|| Printed::new(layout));
        let (mut errors, mut more) = (Vec::new(), 0);
        let mut refuse = |error: &dyn Fn() -> LayoutError| match errors.len() {
            SHOWN => more += 1,
            _ => errors.push(error()),
        };
        for (number, rule) in layout.rules().iter().enumerate() {
            let mut axes = AxisList::new();
            for (position, name) in rule.axes.iter().enumerate() {
                match mesh.axis(name) {
                    Some(axis) => axes.push(axis),
                    None => refuse(&|| {
                        let at = printed.excerpt(number, Part::Axis(position));
                        unknown_axis(mesh, name, at)
                    }),
                }
            }
            if let (Some(Owner::At(coordinate)), [axis]) = (rule.owner, axes.as_slice())
                && coordinate >= mesh.size(*axis)
            {
                refuse(&|| LayoutError::OwnerOutOfRange {
                    axis: mesh.name(*axis).to_owned(),
                    size: mesh.size(*axis),
                    coordinate,
                    at: printed.excerpt(number, Part::Owner),
                });
            }
            // An axis of size 1 splits nothing.
            axes.retain(|axis| mesh.size(*axis) > 1);
            let table = match rule.set {
                RuleSet::Compute => &mut rules.compute,
                RuleSet::Params => &mut rules.params,
                RuleSet::Slots => &mut rules.slots,
            };
            match rule.dim {
                RuleDim::Named(dim) => table.dims.push((dim, axes)),
                RuleDim::Largest if axes.is_empty() => {}
                RuleDim::Largest => table.star = Some(Star { axes, owner: rule.owner }),
            }
        }
        for table in [&mut rules.compute, &mut rules.params, &mut rules.slots] {
            table.dims.sort_unstable_by_key(|(dim, _)| dim.address());
        }
        if more > 0 {
            errors.push(LayoutError::More { count: more });
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    fn table(&self, set: RuleSet) -> &Table {
        match set {
            RuleSet::Compute => &self.compute,
            RuleSet::Params => &self.params,
            RuleSet::Slots => &self.slots,
        }
    }

    /// The axes of a rule set's rule for `dim`, if there is one.
    pub(crate) fn rule(&self, set: RuleSet, dim: DimName) -> Option<&[Axis]> {
        let dims = &self.table(set).dims;
        let at = dims.binary_search_by_key(&dim.address(), |(name, _)| name.address()).ok()?;
        Some(dims[at].1.as_slice())
    }

    /// The effect of `*` on one variable. It chooses the variable's largest dim (of equal dims the
    /// first) that the axes divide and that is not split by a rule of `set`, or by a compute rule
    /// where `set` has none. It chooses none if one of the axes already splits another of the dims,
    /// or if there are no dims. The variable's slots follow by the name of the dim.
    ///
    /// `ordinal` is the variable's number among the trainable ones; `@each` gives variable by
    /// variable to the next coordinate.
    pub fn home(&self, mesh: &Mesh, set: RuleSet, variable: &Shape, ordinal: usize) -> Home {
        let Some(Star { axes, owner }) = &self.table(set).star else {
            return Home::default();
        };
        let nowhere = Home::default();
        if variable.is_scalar() {
            return nowhere;
        }
        let split = |dim| self.axes_of(set, &nowhere, dim);
        if variable.names().any(|dim| split(dim).iter().any(|axis| axes.contains(axis))) {
            return nowhere;
        }
        if let (Some(owner), &[axis]) = (owner, axes.as_slice()) {
            let coordinate = match *owner {
                Owner::At(coordinate) => coordinate,
                Owner::Each => ordinal % mesh.size(axis),
            };
            return Home { star: None, owner: Some((axis, coordinate)) };
        }
        let parts = mesh.group_size(axes);
        let largest = variable
            .iter()
            .filter(|dim| dim.size.is_multiple_of(parts) && split(dim.name).is_empty())
            .min_by_key(|dim| Reverse(dim.size));
        Home { star: largest.map(|dim| (dim.name, axes.clone())), owner: None }
    }

    /// The placement of a tensor of `shape`: each dim is split over [`axes_of`](Self::axes_of), and
    /// `home` names the owner. The caller checks that it is legal (sizes divide, no axis occurs
    /// twice).
    pub fn placement(&self, set: RuleSet, home: &Home, shape: &Shape) -> Placement {
        let mut placement = Placement::replicated();
        for dim in shape.names() {
            let axes = self.axes_of(set, home, dim);
            if !axes.is_empty() {
                placement = placement.split(dim, axes);
            }
        }
        match home.owner {
            Some((axis, coordinate)) => placement.with_owner(axis, coordinate),
            None => placement,
        }
    }

    /// The placement of a tensor of `shape` in computations.
    pub fn compute(&self, shape: &Shape) -> Placement {
        self.placement(RuleSet::Compute, &Home::default(), shape)
    }

    /// The axes that split `dim`, major first: by the rule of `set`, else by the `*` of `home`,
    /// else by the compute rule. Empty if no rule splits it.
    pub fn axes_of<'r>(&'r self, set: RuleSet, home: &'r Home, dim: DimName) -> &'r [Axis] {
        let star = || match &home.star {
            Some((name, axes)) if *name == dim => Some(axes.as_slice()),
            _ => None,
        };
        let compute = || self.rule(RuleSet::Compute, dim);
        self.rule(set, dim).or_else(star).or_else(compute).unwrap_or_default()
    }
}

fn unknown_axis(mesh: &Mesh, axis: &str, at: Excerpt) -> LayoutError {
    let known: Vec<_> = mesh.axes().map(|axis| mesh.name(axis).to_owned()).collect();
    let nearest = nearest(axis, known.iter().map(String::as_str));
    LayoutError::UnknownAxis { axis: axis.to_owned(), known, nearest, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Mesh {
        "data:4;model:2".parse().unwrap()
    }

    fn rules(layout: &str) -> Rules {
        Rules::bind(&layout.parse().unwrap(), &mesh()).unwrap()
    }

    fn refusals(layout: &str, mesh: &str) -> Vec<String> {
        let mesh: Mesh = mesh.parse().unwrap();
        let errors = Rules::bind(&layout.parse().unwrap(), &mesh).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    fn describe(
        rules: &Rules,
        set: RuleSet,
        variable: &str,
        tensor: &str,
        number: usize,
    ) -> String {
        let home = rules.home(&mesh(), set, &variable.parse().unwrap(), number);
        let tensor = tensor.parse().unwrap();
        rules.placement(set, &home, &tensor).describe(&mesh(), &tensor)
    }

    #[test]
    fn binding_reports_everything_that_does_not_fit() {
        assert_eq!(
            refusals("batch:row;params/*:cols@2,h:cols+other", "rows:4;cols:2"),
            [
                "the mesh has no axis `row`: its axes are rows, cols (did you mean `rows`?)\n  \
                 batch:row;params/*:cols@2;h:cols+other\n        ^^^",
                "`cols` has size 2: an owner along it is 0 to 1, or `each`, not 2\n  \
                 batch:row;params/*:cols@2;h:cols+other\n                          ^",
                "the mesh has no axis `other`: its axes are rows, cols\n  \
                 batch:row;params/*:cols@2;h:cols+other\n                                   ^^^^^",
            ]
        );
        let alone = refusals("a:x", "");
        assert_eq!(
            alone,
            ["the mesh has no axis `x`: it is one processor without axes\n  a:x\n    ^"]
        );
    }

    #[test]
    fn what_a_star_means() {
        let table = [
            ("slots/*:data", "a:8 b:16", "[a:8, b:16@data]", "the largest"),
            ("slots/*:data", "a:8 b:8", "[a:8@data, b:8]", "the first of equals"),
            ("slots/*:data", "a:8 b:17", "[a:8@data, b:17]", "which divides"),
            ("slots/*:data", "a:6 b:17", "[a:6, b:17]", "none divides"),
            ("slots/*:data", "", "[]", "a scalar"),
            ("slots/*:data+model", "a:8 b:12", "[a:8@data+model, b:12]", "by the product"),
            ("b:model slots/*:data", "a:8 b:16", "[a:8@data, b:16@model]", "compute split b"),
            ("slots/b:model slots/*:data", "a:8 b:16", "[a:8@data, b:16@model]", "slots split b"),
            ("params/b:model slots/*:data", "a:8 b:16", "[a:8, b:16@data]", "params is not slots"),
            ("a:data slots/*:data", "a:8 b:16", "[a:8@data, b:16]", "data is in use"),
            ("a:data slots/*:data+model", "a:8 b:16", "[a:8@data, b:16]", "half in use"),
            ("a:data slots/a:model slots/*:data", "a:8 b:16", "[a:8@model, b:16@data]", "freed"),
            ("z:data slots/*:data", "a:8", "[a:8@data]", "in use elsewhere only"),
            ("params/*:data", "a:8", "[a:8]", "another set's star"),
        ];
        for (layout, shape, expected, why) in table {
            assert_eq!(
                describe(&rules(layout), RuleSet::Slots, shape, shape, 0),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn slots_inherit_the_star_by_name() {
        let rules = rules("batch:data; hidden:model; slots/*:data");
        let slot = |tensor| describe(&rules, RuleSet::Slots, "hidden:32 vocab:64", tensor, 0);
        assert_eq!(slot("hidden:32 vocab:64"), "[hidden:32@model, vocab:64@data]");
        assert_eq!(slot("vocab:64"), "[vocab:64@data]");
        assert_eq!(slot("hidden:32"), "[hidden:32@model]");
        assert_eq!(slot(""), "[]");
        let shape = "batch:8 hidden:32 vocab:64".parse().unwrap();
        assert_eq!(
            rules.compute(&shape).describe(&mesh(), &shape),
            "[batch:8@data, hidden:32@model, vocab:64]"
        );
    }

    #[test]
    fn owners_are_fixed_or_in_turn() {
        let fixed = rules("h:model; params/*:data@3");
        let params = RuleSet::Params;
        assert_eq!(describe(&fixed, params, "h:8", "h:8", 7), "[h:8@model] owned by data=3");
        let each = rules("params/*:data@each");
        assert_eq!(describe(&each, params, "h:8", "h:8", 0), "[h:8] owned by data=0");
        assert_eq!(describe(&each, params, "h:8", "", 6), "[] owned by data=2");
        assert_eq!(describe(&each, RuleSet::Slots, "h:8", "h:8", 6), "[h:8]");
        let busy = rules("h:data; params/*:data@0");
        assert_eq!(describe(&busy, params, "h:8", "h:8", 0), "[h:8@data]");
    }

    #[test]
    fn clashing_rules_stay_for_the_check_to_report() {
        let rules = rules("a:data b:data c:data+model");
        let shape = "a:8 b:8 c:7".parse().unwrap();
        let placement = rules.compute(&shape);
        let text = placement.describe(&mesh(), &shape);
        assert_eq!(text, "[a:8@data, b:8@data, c:7@data+model]");
        assert_eq!(placement.local_shape(&mesh(), &shape), None);
    }
}
