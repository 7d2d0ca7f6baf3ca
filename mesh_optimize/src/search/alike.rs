//! What differs only in which axis or which processor is which, and so costs the same.

use mesh_core::names::{Axis, AxisList, Mesh};
use mesh_core::passes::Machine;

/// All that prices know of a mesh: sizes of axes, and for each set of axes the level that joins it.
#[derive(Debug)]
pub(super) struct Network {
    sizes: Vec<usize>,
    /// By set of axes, bit by bit: which of the machine's levels.
    levels: Vec<Option<usize>>,
}

/// What a rule splits, and over which axes.
pub(super) type Split = (String, AxisList);

/// Whether an axis is followed by another one in all lists that have either.
fn is_followed(splits: &[Split], one: Axis, other: Axis) -> bool {
    splits.iter().all(|(_, list)| match list.iter().position(|axis| *axis == one) {
        Some(at) => list.get(at + 1) == Some(&other),
        None => !list.contains(&other),
    })
}

/// For each axis which one it is of another mesh, or of the same.
pub(super) type Renaming = Vec<usize>;

impl Network {
    pub(super) fn of(mesh: &Mesh, machine: &Machine) -> Self {
        let axes: Vec<Axis> = mesh.axes().collect();
        let level = |set: usize| {
            let of = axes.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            let of: AxisList = of.map(|(_, axis)| *axis).collect();
            let found = machine.level(mesh, &of);
            machine.levels.iter().position(|level| Some(level) == found)
        };
        let sizes = axes.iter().map(|axis| mesh.size(*axis)).collect();
        let levels = (0..1 << axes.len()).map(level).collect();
        Self { sizes, levels }
    }

    /// Equal for layouts that cost the same, on any mesh of as many processors: which rules share axes, how many
    /// parts these make, and which levels join them.
    ///
    /// Axes that follow each other wherever they stand count as one, if operations go by their split rules. In another
    /// order, and on a mesh that has one axis in their place, other processors have the same parts, within the same groups.
    pub(super) fn likeness(&self, splits: &[Split], by_rule: bool) -> String {
        let follows = |one: Axis, other: Axis| by_rule && is_followed(splits, one, other);
        // Sets of axes that count as one.
        let mut units: Vec<usize> = Vec::new();
        let mut rules = Vec::new();
        for (what, list) in splits {
            let mut own: Vec<usize> = Vec::new();
            for (i, &axis) in list.iter().enumerate() {
                match own.last_mut() {
                    Some(unit) if follows(list[i - 1], axis) => *unit |= 1 << axis.index(),
                    _ => own.push(1 << axis.index()),
                }
            }
            let number = |unit: usize| {
                units.iter().position(|known| *known == unit).unwrap_or_else(|| {
                    units.push(unit);
                    units.len() - 1
                })
            };
            let numbers: Vec<usize> = own.into_iter().map(number).collect();
            rules.push((what, numbers));
        }
        let within = |set: usize| (0..self.sizes.len()).filter(move |axis| set >> axis & 1 == 1);
        let size = |unit: &usize| within(*unit).map(|axis| self.sizes[axis]).product::<usize>();
        let sizes: Vec<_> = units.iter().map(size).collect();
        let level = |chosen: usize| {
            let of = units.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
            self.levels[of.fold(0, |set, (_, unit)| set | unit)]
        };
        let levels: Vec<_> = (0..1 << units.len()).map(level).collect();
        format!("{rules:?} {sizes:?} {levels:?}")
    }

    /// Whether axes that follow each other in all rules for dims stand in the mesh's order, as they do in one of the layouts
    /// that cost the same. Rules for `*` do not count: they add their axes to what a dim is split over already.
    pub(super) fn is_in_order(splits: &[Split]) -> bool {
        splits.iter().all(|(_, list)| {
            list.windows(2).all(|pair| pair[0] < pair[1] || !is_followed(splits, pair[0], pair[1]))
        })
    }

    /// Every way in which this is another one with other names of axes.
    pub(super) fn onto(&self, other: &Self) -> Vec<Renaming> {
        let mut found = Vec::new();
        if self.sizes.len() == other.sizes.len() {
            self.extend(other, &mut Vec::new(), &mut found);
        }
        found
    }

    fn extend(&self, other: &Self, begun: &mut Renaming, found: &mut Vec<Renaming>) {
        let axis = begun.len();
        if axis == self.sizes.len() {
            let image = |set: usize| {
                let of = begun.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
                of.fold(0, |image, (_, onto)| image | 1 << onto)
            };
            let alike = |set: usize| self.levels[set] == other.levels[image(set)];
            if (0..self.levels.len()).all(alike) {
                found.push(begun.clone());
            }
            return;
        }
        for onto in 0..self.sizes.len() {
            if self.sizes[axis] == other.sizes[onto] && !begun.contains(&onto) {
                begun.push(onto);
                self.extend(other, begun, found);
                begun.pop();
            }
        }
    }
}

/// One of each kind of meshes that cost the same whatever the layout.
pub(super) fn different(meshes: Vec<Mesh>, machine: &Machine) -> Vec<Mesh> {
    let mut kept: Vec<(Mesh, Network)> = Vec::new();
    for mesh in meshes {
        let network = Network::of(&mesh, machine);
        if kept.iter().all(|(_, other)| network.onto(other).is_empty()) {
            kept.push((mesh, network));
        }
    }
    kept.into_iter().map(|(mesh, _)| mesh).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_core::passes::Level;

    /// Hosts of four processors each.
    fn hosts() -> Machine {
        let mut machine = Machine::host();
        let near = Level { processors: 4, ..machine.levels[0].clone() };
        machine.levels.insert(0, near);
        machine.levels[1].bandwidth /= 10.0;
        machine
    }

    #[test]
    fn axes_are_alike_if_sizes_and_levels_are() {
        let texts = ["a:2;b:2;c:4", "a:2;b:4;c:2", "a:4;b:2;c:2", "a:2;b:2;c:2;d:2"];
        let meshes = || texts.map(|text| text.parse::<Mesh>().unwrap()).to_vec();
        assert_eq!(different(meshes(), &Machine::host()).len(), 2, "a flat network");
        assert_eq!(different(meshes(), &hosts()).len(), 4);
        // Within a host, and between hosts, the order of axes is nothing.
        for (mesh, ways) in [("a:2;b:2", 2), ("a:2;b:2;c:4", 2), ("a:2;b:2;c:2;d:2", 4)] {
            let network = Network::of(&mesh.parse().unwrap(), &hosts());
            assert_eq!(network.onto(&network).len(), ways, "{mesh}");
        }
    }

    /// Rules of a layout on a mesh, on hosts of four processors each; each axis of `*` by itself.
    fn likeness(mesh: &str, layout: &str) -> String {
        likeness_if(true, mesh, layout)
    }

    fn likeness_if(by_rule: bool, mesh: &str, layout: &str) -> String {
        let mesh: Mesh = mesh.parse().unwrap();
        let mut splits = Vec::new();
        for rule in layout.split(';') {
            let (what, list) = rule.split_once(':').unwrap();
            let list: AxisList = list.split('+').map(|name| mesh.axis(name).unwrap()).collect();
            match what {
                "*" => splits.extend(list.iter().map(|&axis| (what.to_owned(), [axis][..].into()))),
                _ => splits.push((what.to_owned(), list)),
            }
        }
        Network::of(&mesh, &hosts()).likeness(&splits, by_rule)
    }

    #[test]
    fn axes_that_stay_together_stand_in_order() {
        let mesh: Mesh = "a:2;b:2;c:2".parse().unwrap();
        for (layout, is_in_order) in [
            ("x:a+b", true),
            ("x:b+a", false),
            ("x:c+b+a", false),
            ("x:b+a;y:b+a", false),
            ("x:b+a;y:a", true),
            ("x:b+a;y:a+b", true),
            ("x:c+b+a;y:c+b", false),
        ] {
            let splits = layout.split(';').map(|rule| {
                let (dim, list) = rule.split_once(':').unwrap();
                (dim.to_owned(), list.split('+').map(|name| mesh.axis(name).unwrap()).collect())
            });
            assert_eq!(Network::is_in_order(&splits.collect::<Vec<_>>()), is_in_order, "{layout}");
        }
    }

    #[test]
    fn layouts_are_alike_if_axes_that_stay_together_are() {
        let is_same = |one: (&str, &str), other: (&str, &str)| {
            likeness(one.0, one.1) == likeness(other.0, other.1)
        };
        // One axis, two in any order, and others that nobody names.
        assert!(is_same(("a:8", "x:a"), ("a:2;b:4", "x:b+a")));
        assert!(is_same(("a:8;b:2", "x:a;y:a"), ("a:4;b:2;c:2", "x:b+a;y:b+a")));
        assert!(is_same(("a:2;b:2;c:2", "x:b;y:c"), ("a:2;b:2;c:2", "x:c;y:b")), "other names");
        // Other sizes, levels, orders, and axes that part.
        assert!(!is_same(("a:2;b:4", "x:a"), ("a:2;b:4", "x:b")));
        assert!(!is_same(("a:2;b:2;c:2", "x:a"), ("a:2;b:2;c:2", "x:c")), "between hosts, within");
        assert!(!is_same(("a:2;b:4", "x:a+b;y:a+b"), ("a:2;b:4", "x:a+b;y:b+a")));
        assert!(!is_same(("a:8", "x:a;*:a"), ("a:2;b:4", "x:a+b;*:a+b")), "`*` may part them");
        assert!(!is_same(("a:2;b:4", "x:a+b;y:a"), ("a:2;b:4", "x:b+a;y:a")));
        // A reshape may find that four parts are whole rows, and two and then four are not.
        let ways = ["x:a+b", "x:b+a"].map(|layout| likeness_if(false, "a:2;b:4", layout));
        assert_ne!(ways[0], ways[1]);
    }
}
