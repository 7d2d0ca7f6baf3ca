//! Rules of parameters and slots that are searched.
//!
//! `*` over each set of axes, and, where that is asked for, each dim of a parameter over each list of axes;
//! for slots alone, or for parameters and slots alike.

use super::alike::Split;
use super::space::{StateAxes, lists};
use mesh_core::names::{AxisList, DimName, Mesh, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// Rules of parameters and slots.
#[derive(Debug)]
pub(super) struct StateRules {
    pub(super) text: Vec<String>,
    /// What is split over which axes. Each axis of `*` by itself: it may split another dim than the next one.
    pub(super) splits: Vec<Split>,
    both: bool,
    axes: AxisList,
}

impl StateRules {
    /// The axes by whose rules have them.
    pub(super) fn sets(&self) -> StateAxes<'_> {
        let slots = &self.axes[..];
        StateAxes::Given { params: if self.both { slots } else { &[] }, slots }
    }
}

pub(super) struct State<'m> {
    mesh: &'m Mesh,
    /// What `*` can be split over.
    stars: Vec<AxisList>,
    dims: Vec<(DimName, Vec<AxisList>)>,
    /// The dims of each parameter, as positions among these dims.
    together: BTreeSet<Vec<usize>>,
}

impl<'m> State<'m> {
    /// Of parameters of these shapes; `single`: with rules for single dims.
    pub(super) fn new(mesh: &'m Mesh, parameters: &[Shape], single: bool) -> Self {
        let axes: Vec<_> = mesh.axes().filter(|&axis| mesh.size(axis) > 1).collect();
        let of = |set: usize| {
            let of = axes.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            of.map(|(_, axis)| *axis).collect()
        };
        let stars = (0..1_usize << axes.len()).map(of).collect();
        let mut sizes: BTreeMap<DimName, BTreeSet<usize>> = BTreeMap::new();
        for dim in parameters.iter().flat_map(Shape::iter).filter(|_| single) {
            sizes.entry(dim.name).or_default().insert(dim.size);
        }
        let dims = sizes.into_iter().map(|(dim, sizes)| (dim, lists(mesh, &sizes)));
        let dims: Vec<_> = dims.filter(|(_, lists)| lists.len() > 1).collect();
        let positions = |shape: &Shape| {
            let within = dims.iter().enumerate().filter(|(_, (dim, _))| shape.contains(*dim));
            within.map(|(i, _)| i).collect()
        };
        let together = parameters.iter().map(positions).collect();
        Self { mesh, stars, dims, together }
    }

    /// All sets of rules but the empty one; `None` where two dims of a parameter would share an axis.
    pub(super) fn all(&self) -> impl Iterator<Item = Option<StateRules>> {
        let radices = self.dims.iter().map(|(_, lists)| lists.len() as u64);
        let count = radices.fold(2 * self.stars.len() as u64, u64::saturating_mul);
        // The first two are empty.
        (2..count).map(|number| self.numbered(number))
    }

    /// The rules of a number, whose digits say for whom, and the axes of `*` and of each dim.
    fn numbered(&self, mut number: u64) -> Option<StateRules> {
        let mut digit = |radix: usize| {
            let digit = number % radix as u64;
            number /= radix as u64;
            digit as usize
        };
        let both = digit(2) == 1;
        let star = &self.stars[digit(self.stars.len())];
        let chosen: Vec<_> =
            self.dims.iter().map(|(_, lists)| &lists[digit(lists.len())]).collect();
        let clash =
            |one: usize, other: usize| chosen[one].iter().any(|a| chosen[other].contains(a));
        let clashes = |dims: &Vec<usize>| {
            dims.iter().enumerate().any(|(i, &one)| dims[..i].iter().any(|&two| clash(one, two)))
        };
        if self.together.iter().any(clashes) {
            return None;
        }
        let (mut text, mut splits) = (Vec::new(), Vec::new());
        let sets = if both { "params/ and slots/" } else { "slots/" };
        let mut add = |dim: &dyn std::fmt::Display, axes: &AxisList| {
            let list = self.mesh.list(axes);
            if !list.is_empty() {
                text.extend(both.then(|| format!("params/{dim}:{list}")));
                text.push(format!("slots/{dim}:{list}"));
            }
        };
        add(&"*", star);
        splits.extend(star.iter().map(|axis| (format!("{sets}*"), AxisList::from_slice(&[*axis]))));
        for ((dim, _), axes) in self.dims.iter().zip(&chosen).filter(|(_, axes)| !axes.is_empty()) {
            add(dim, axes);
            splits.push((format!("{sets}{dim}"), AxisList::clone(axes)));
        }
        let axes = chosen.into_iter().chain([star]).flatten().copied().collect();
        Some(StateRules { text, splits, both, axes })
    }

    /// What of such rules is not searched, in words.
    pub(super) fn left_out(single: bool) -> Vec<String> {
        let mut left = vec!["owners (`@0`, `@each`)".to_owned()];
        left.push(match single {
            true => "`*` over axes in another order".to_owned(),
            false => {
                "`params/` and `slots/` rules for single dims (`--single-dims` searches them), and \
                      `*` over axes in another order"
                    .to_owned()
            }
        });
        left.push(
            "rules of parameters that differ from those of slots, or stand without them".to_owned(),
        );
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_numbered() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        let shapes = ["x:2 y:4", "y:4 z:3"].map(|text| text.parse::<Shape>().unwrap());
        let stars: Vec<_> = State::new(&mesh, &shapes, false).all().flatten().collect();
        let stars: Vec<_> = stars.into_iter().map(|rules: StateRules| rules.text).collect();
        assert_eq!(stars.len(), 6);
        assert_eq!(stars[0], ["slots/*:a"]);
        assert_eq!(stars[5], ["params/*:a+b", "slots/*:a+b"]);
        let state = State::new(&mesh, &shapes, true);
        // x over nothing, a, b; y over nothing, a, b, a+b, b+a; z cannot be split.
        let all: Vec<_> = state.all().collect();
        assert_eq!(all.len(), 2 * 4 * 3 * 5 - 2);
        let clash = |rules: &Vec<String>| {
            let has = |rule: &str| rules.iter().any(|own| own.starts_with(rule));
            has("slots/x:a") && has("slots/y:a")
        };
        assert!(!all.iter().flatten().any(|rules| clash(&rules.text)));
        let both = ["params/x:a", "slots/x:a", "params/y:b", "slots/y:b"];
        assert!(all.iter().flatten().any(|rules| rules.text == both), "{all:?}");
    }
}
