//! What is searched on one mesh: for every dim an ordered list of axes, or none.
//!
//! Dims that are alike everywhere (the same size, the same roles beside the same other dims, the same work) are
//! split alike. What two dims cannot do together is known from where they meet, before anything is placed.

use super::alike::{Network, Renaming, Split};
use mesh_core::lower::{Estimator, Holding, Meeting, Moment};
use mesh_core::names::{Axis, AxisList, DimName, Mesh, RuleSet};
use std::collections::{BTreeMap, BTreeSet};

/// Dims that are split alike, and over which axes they can be.
pub(super) struct Group {
    pub(super) dims: Vec<DimName>,
    pub(super) options: Vec<AxisList>,
    /// Groups with which it cannot share an axis.
    clashes: Vec<bool>,
    /// Seconds of the work that it divides, with nothing split.
    seconds: f64,
}

/// What some groups divide together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    groups: Vec<usize>,
    /// Whose rules may divide it further, but for those of computations.
    set: RuleSet,
}

/// The axes that rules of parameters and slots have, beside those of computations.
#[derive(Clone, Copy)]
pub(super) enum StateAxes<'s> {
    /// Any.
    Open,
    /// These.
    Given { params: &'s [Axis], slots: &'s [Axis] },
}

impl StateAxes<'_> {
    pub(super) const NONE: Self = Self::Given { params: &[], slots: &[] };

    fn has(self, set: RuleSet, axis: Axis) -> bool {
        match (self, set) {
            (_, RuleSet::Compute) => false,
            (Self::Open, _) => true,
            (Self::Given { params, .. }, RuleSet::Params) => params.contains(&axis),
            (Self::Given { slots, .. }, RuleSet::Slots) => slots.contains(&axis),
        }
    }
}

pub(super) struct Space<'m> {
    mesh: &'m Mesh,
    network: Network,
    /// Whether all operations go by their split rules.
    by_rule: bool,
    pub(super) groups: Vec<Group>,
    /// Seconds of work.
    work: Vec<(Share, f64)>,
    /// All that divides memory, and for each moment the bytes of each of these.
    memory: (Vec<Share>, Vec<Vec<f64>>),
    /// Ways to call the axes by each other's names that change no price.
    alike: Vec<Renaming>,
}

/// Which axes each group has; `None` while that is open.
pub(super) type Chosen = Vec<Option<AxisList>>;

impl<'m> Space<'m> {
    pub(super) fn new(estimator: &'m Estimator<'_>) -> Self {
        let (mesh, meetings) = (estimator.mesh(), estimator.meetings());
        let tied = tied(meetings);
        let network = Network::of(mesh, estimator.machine());
        let mut alike = network.onto(&network);
        alike.retain(|renaming| renaming.iter().enumerate().any(|(axis, onto)| axis != *onto));
        let (groups, work, memory) = <_>::default();
        let by_rule = estimator.is_by_rule();
        let mut space = Self { mesh, network, by_rule, groups, work, memory, alike };
        for dims in tied {
            let of = |meeting: &&Meeting| has(meeting, &dims);
            let options = options(mesh, meetings, &dims);
            let seconds = meetings.iter().filter(of).map(|meeting| meeting.seconds).sum();
            space.groups.push(Group { dims, options, clashes: Vec::new(), seconds });
        }
        // What divides most work is decided first.
        space.groups.retain(|group| group.options.len() > 1);
        space.groups.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        for i in 0..space.groups.len() {
            let clashes = (0..space.groups.len()).map(|j| i != j && space.meet(meetings, i, j));
            space.groups[i].clashes = clashes.collect();
        }
        let mut work: BTreeMap<Share, f64> = BTreeMap::new();
        for meeting in meetings {
            let dims = meeting.dims.iter().map(|dim| dim.name);
            let set = if meeting.computes { RuleSet::Compute } else { RuleSet::Slots };
            *work.entry(space.share(dims, set)).or_default() += meeting.seconds;
        }
        space.work = work.into_iter().collect();
        space.memory = space.memory(estimator.moments());
        space
    }

    fn share(&self, dims: impl Iterator<Item = DimName> + Clone, set: RuleSet) -> Share {
        let divides =
            |group: &usize| dims.clone().any(|dim| self.groups[*group].dims.contains(&dim));
        Share { groups: (0..self.groups.len()).filter(divides).collect(), set }
    }

    /// All that divides memory, and for each moment the bytes of each.
    fn memory(&self, moments: &[Moment]) -> (Vec<Share>, Vec<Vec<f64>>) {
        let share = |holding: &Holding| self.share(holding.dims.iter().copied(), holding.set);
        let shares: BTreeSet<_> = moments.iter().flatten().map(share).collect();
        let shares: Vec<_> = shares.into_iter().collect();
        let bytes = |moment: &Moment| {
            let mut bytes = vec![0.0; shares.len()];
            for holding in moment {
                let at = shares.binary_search(&share(holding));
                at.into_iter().for_each(|at| bytes[at] += holding.bytes as f64);
            }
            bytes
        };
        let bytes = moments.iter().map(bytes).collect();
        (shares, bytes)
    }

    fn meet(&self, meetings: &[Meeting], one: usize, other: usize) -> bool {
        let (one, other) = (&self.groups[one].dims, &self.groups[other].dims);
        meetings.iter().any(|meeting| has(meeting, one) && has(meeting, other))
    }

    /// Whether a group can have these axes beside what is chosen.
    pub(super) fn allows(&self, chosen: &Chosen, group: usize, axes: &[Axis]) -> bool {
        let clashes = &self.groups[group].clashes;
        chosen.iter().zip(clashes).all(|(other, clash)| match other {
            Some(theirs) => !clash || axes.iter().all(|axis| !theirs.contains(axis)),
            None => true,
        })
    }

    /// Seconds that no layout beats which has what is chosen: each processor does at least the part of the
    /// work that as many as can share it leave to one.
    pub(super) fn least(&self, chosen: &Chosen, state: StateAxes<'_>) -> f64 {
        let least = |(share, seconds): &(Share, f64)| seconds / self.parts(chosen, share, state);
        self.work.iter().map(least).sum()
    }

    /// Bytes of which no layout needs less that has what is chosen: at each moment, a processor has at least the
    /// part of each tensor that the axes leave which can split it.
    pub(super) fn least_bytes(&self, chosen: &Chosen, state: StateAxes<'_>) -> f64 {
        let (shares, moments) = &self.memory;
        let parts: Vec<_> = shares.iter().map(|share| self.parts(chosen, share, state)).collect();
        let held = |bytes: &Vec<f64>| bytes.iter().zip(&parts).map(|(b, parts)| b / parts).sum();
        moments.iter().map(held).fold(0.0, f64::max)
    }

    /// Into how many parts it can be divided at most.
    fn parts(&self, chosen: &Chosen, share: &Share, state: StateAxes<'_>) -> f64 {
        let mut parts = 1;
        for axis in self.mesh.axes() {
            let taken = |&&group: &&usize| match &chosen[group] {
                Some(axes) => axes.contains(&axis),
                None => {
                    let mut options = self.groups[group].options.iter();
                    options.any(|axes| axes.contains(&axis)) && self.allows(chosen, group, &[axis])
                }
            };
            if state.has(share.set, axis) || share.groups.iter().any(|group| taken(&group)) {
                parts *= self.mesh.size(axis);
            }
        }
        parts as f64
    }

    /// What is split over which axes; dims that are split alike once.
    pub(super) fn splits(&self, chosen: &Chosen) -> Vec<Split> {
        let split = self.groups.iter().zip(chosen).filter_map(|(group, axes)| {
            let axes = axes.clone().filter(|axes| !axes.is_empty())?;
            Some((group.dims.first()?.to_string(), axes))
        });
        let mut split: Vec<_> = split.collect();
        split.sort_by(|one, other| one.0.cmp(&other.0));
        split
    }

    /// Equal for layouts that cost the same.
    pub(super) fn likeness(&self, splits: &[Split]) -> String {
        self.network.likeness(splits, self.by_rule)
    }

    /// Whether no layout with axes in another order comes before this one and costs the same. In order, a list of axes
    /// comes before others among the options, so the first of all that cost the same is neither repeated nor out of order.
    pub(super) fn is_in_order(&self, splits: &[Split]) -> bool {
        !self.by_rule || Network::is_in_order(splits)
    }

    /// Compute rules as text.
    pub(super) fn rules(&self, chosen: &Chosen) -> Vec<String> {
        let mut rules = Vec::new();
        for (group, axes) in self.groups.iter().zip(chosen) {
            let axes = axes.as_ref().map(|axes| self.mesh.list(axes)).unwrap_or_default();
            if !axes.is_empty() {
                rules.extend(group.dims.iter().map(|dim| format!("{dim}:{axes}")));
            }
        }
        rules.sort();
        rules
    }

    /// Whether the groups up to one are split as others are under other names of the axes, which come before.
    pub(super) fn is_repeated(&self, chosen: &Chosen, last: usize) -> bool {
        let axes: Vec<Axis> = self.mesh.axes().collect();
        let rank = |group: usize, list: &AxisList| {
            self.groups[group].options.iter().position(|option| option == list)
        };
        let position = |axis: &Axis| axes.iter().position(|own| own == axis);
        self.alike.iter().any(|renaming| {
            for (group, own) in chosen.iter().enumerate().take(last + 1) {
                let Some(own) = own else { return false };
                let image = own.iter().filter_map(|axis| Some(axes[renaming[position(axis)?]]));
                let (own, image) = (rank(group, own), rank(group, &image.collect()));
                if own != image {
                    return image.is_some() && image < own;
                }
            }
            false
        })
    }

    /// Seconds of what rules of parameters and slots place, if all processors share it.
    pub(super) fn state_least(&self) -> f64 {
        let of_state = self.work.iter().filter(|(share, _)| share.set != RuleSet::Compute);
        of_state.map(|(_, seconds)| seconds).sum::<f64>() / self.mesh.processors() as f64
    }
}

fn has(meeting: &Meeting, dims: &[DimName]) -> bool {
    meeting.dims.iter().any(|dim| dims.contains(&dim.name))
}

/// Ordered lists of axes that divide every size of the dims; only none if they must be whole somewhere.
fn options(mesh: &Mesh, meetings: &[Meeting], dims: &[DimName]) -> Vec<AxisList> {
    let all = meetings.iter().flat_map(|meeting| &meeting.dims);
    let sizes: BTreeSet<_> =
        all.filter(|dim| dims.contains(&dim.name)).map(|dim| dim.size).collect();
    let whole = meetings.iter().flat_map(|meeting| &meeting.whole).any(|dim| dims.contains(dim));
    if whole { vec![AxisList::new()] } else { lists(mesh, &sizes) }
}

/// Ordered lists of axes that divide all of these sizes, the empty one first.
pub(super) fn lists(mesh: &Mesh, sizes: &BTreeSet<usize>) -> Vec<AxisList> {
    let mut lists = vec![AxisList::new()];
    let mut begun = 0;
    while begun < lists.len() {
        for axis in mesh.axes().filter(|&axis| mesh.size(axis) > 1) {
            let mut longer = lists[begun].clone();
            if longer.contains(&axis) {
                continue;
            }
            longer.push(axis);
            let parts = mesh.group_size(&longer);
            if sizes.iter().all(|size| size.is_multiple_of(parts)) {
                lists.push(longer);
            }
        }
        begun += 1;
    }
    lists
}

/// Dims by what they are beside others; those that are alike and never meet are split alike.
fn tied(meetings: &[Meeting]) -> Vec<Vec<DimName>> {
    let names: BTreeSet<DimName> =
        meetings.iter().flat_map(|meeting| &meeting.dims).map(|dim| dim.name).collect();
    let mut alike: BTreeMap<Vec<String>, Vec<DimName>> = BTreeMap::new();
    for name in names {
        let describe = |meeting: &Meeting| {
            let dims = meeting.dims.iter().map(|dim| match dim.name == name {
                true => format!("*:{}", dim.size),
                false => dim.to_string(),
            });
            let mut dims: Vec<_> = dims.collect();
            dims.sort();
            let whole = meeting.whole.contains(&name);
            format!("{dims:?} {whole} {} {:x}", meeting.computes, meeting.seconds.to_bits())
        };
        let of = |meeting: &&Meeting| has(meeting, &[name]);
        let mut found: Vec<_> = meetings.iter().filter(of).map(describe).collect();
        found.sort();
        alike.entry(found).or_default().push(name);
    }
    let meet = |one: DimName, other: DimName| {
        meetings.iter().any(|meeting| has(meeting, &[one]) && has(meeting, &[other]))
    };
    let mut groups = Vec::new();
    for dims in alike.into_values() {
        let apart = dims.iter().enumerate().all(|(i, a)| dims[..i].iter().all(|b| !meet(*a, *b)));
        match apart {
            true => groups.push(dims),
            false => groups.extend(dims.into_iter().map(|dim| vec![dim])),
        }
    }
    groups
}
