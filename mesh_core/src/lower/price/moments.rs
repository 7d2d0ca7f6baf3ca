//! What is held at once whatever the layout, from which bounds of memory are made.

use super::held::Held;
use super::meetings::{goes_by_rule, has_steps};
use super::{Data, Estimator, IndexMap, Listed};
use crate::graph::{Operation, Report, Structural, TensorId};
use crate::lower::setting::Setting;
use crate::lower::sweep::{Task, place};
use crate::lower::table::{Table, VersionId};
use crate::names::{DimName, RuleSet};
use crate::program::VariableId;
use std::collections::BTreeSet;

/// Tensors that layouts split alike, and that are held together.
#[derive(Clone, PartialEq, Debug)]
pub struct Holding {
    /// All their dims, in order. A processor holds at least the part that an axis for each of them leaves.
    pub dims: Vec<DimName>,
    /// Whose rules place them; of tensors that share memory the last set.
    pub set: RuleSet,
    /// Bytes of all of them, with nothing split.
    pub bytes: usize,
}

/// All that is held as one operation begins, whatever the layout, with the variables.
pub type Moment = Vec<Holding>;

/// What layouts split alike.
type Kind = (Vec<DimName>, RuleSet);

/// The same while it is put together.
type Gathered = (BTreeSet<DimName>, RuleSet);

/// Bytes held of each kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Now {
    bytes: Vec<usize>,
    total: usize,
}

impl Estimator<'_> {
    /// Of all moments, for each kind of tensors the one that holds most of it, and the one that holds most in all.
    ///
    /// A tensor is there from the operation that makes it to the last that takes it, in one version or
    /// another. Tensors that share memory count once, with the dims of all of them.
    pub(super) fn find_moments(&self, data: &Data) -> Result<Vec<Moment>, Report> {
        self.unsplit(data, |setting| {
            let Some(own) = self.known.functions.first() else { return Vec::new() };
            let Listed { operations, fetches, shown, .. } = own;
            let task = Task { operations, given: &[], fetches, shown };
            let table = place(setting, &task, &mut Vec::new());
            let mut held = self.held(setting, &table, false);
            // In another layout the last that takes it may take a copy, which is made for the first.
            self.keep_for_hidden(&table, &mut held, |held, home| held.first[home]);
            let mut kinds = IndexMap::new();
            let splits = splits_of(setting, &table, &held, &mut kinds);
            let mut variables = Now::default();
            for (id, variable) in (0..).zip(&data.variables) {
                let ty = &variable.ty;
                let kind = (ty.shape.names().collect(), variable.key(VariableId(id)).set);
                let kind = number(&mut kinds, kind);
                variables.add(kind, ty.shape.size().saturating_mul(ty.dtype.size()));
            }
            let most = most(&table, &held, &splits, variables, kinds.len());
            let moment = |now: &Now| {
                let kinds = kinds.keys().zip(&now.bytes).filter(|(_, bytes)| **bytes > 0);
                let holding = |((dims, set), bytes): (&Kind, &usize)| Holding {
                    dims: dims.clone(),
                    set: *set,
                    bytes: *bytes,
                };
                kinds.map(holding).collect()
            };
            most.iter().map(moment).collect()
        })
    }
}

impl Now {
    fn add(&mut self, kind: usize, bytes: usize) {
        if self.bytes.len() <= kind {
            self.bytes.resize(kind + 1, 0);
        }
        self.bytes[kind] = self.bytes[kind].saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    fn take(&mut self, kind: usize, bytes: usize) {
        self.bytes[kind] = self.bytes[kind].saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
    }
}

fn number(kinds: &mut IndexMap<Kind, ()>, (dims, set): Gathered) -> usize {
    kinds.insert_full((dims.into_iter().collect(), set), ()).0
}

/// What is known of how a tensor is split in its versions.
#[derive(Clone, Default)]
struct Split {
    /// The number of its kind where one operation after the other takes it by its split rule, and so as rules want it.
    ruled: usize,
    /// The first and the last that does.
    between: Option<(usize, usize)>,
    /// The number of its kind elsewhere: what finds its own way may leave its outputs split as its inputs are, and
    /// take copies of its inputs that are split as its outputs.
    made: usize,
}

impl Split {
    fn at(&self, entry: usize) -> usize {
        let is_ruled = self.between.is_some_and(|(from, to)| (from..=to).contains(&entry));
        if is_ruled { self.ruled } else { self.made }
    }
}

/// For each version whose memory is its own, how it is split.
fn splits_of(
    setting: &Setting<'_>,
    table: &Table,
    held: &Held,
    kinds: &mut IndexMap<Kind, ()>,
) -> Vec<Split> {
    let data = setting.data;
    let mut made = vec![(BTreeSet::new(), RuleSet::Compute); table.versions.len()];
    let mut add = |home: usize, tensor: TensorId| {
        let node = &data.tensors[tensor.index()];
        let (dims, set) = &mut made[home];
        dims.extend(node.ty.shape.names());
        *set = node.key.map_or(*set, |key| key.set.max(*set));
    };
    for (version, &home) in table.versions.iter().zip(&held.home) {
        add(home, version.tensor);
    }
    for entry in table.entries.iter().filter(|entry| entry.alias) {
        let outputs = &data.operations[entry.operation.index()].outputs;
        outputs.iter().zip(&entry.outputs).for_each(|(t, v)| add(held.home[v.index()], *t));
    }
    let split = |kind: &Gathered| Split { ruled: number(kinds, kind.clone()), ..Split::default() };
    let mut splits: Vec<Split> = made.iter().map(split).collect();
    for (at, entry) in table.entries.iter().enumerate().filter(|(_, entry)| !entry.alias) {
        let operation = &data.operations[entry.operation.index()];
        if goes_by_rule(setting, operation) {
            for version in &entry.inputs {
                let between = &mut splits[held.home[version.index()]].between;
                *between = Some((between.map_or(at, |(from, _)| from), at));
            }
            continue;
        }
        let all = |versions: &[VersionId]| {
            let kinds = versions.iter().map(|v| made[held.home[v.index()]].clone());
            kinds.reduce(|(one, a), (other, b)| (&one | &other, a.max(b)))
        };
        let (taken, given) = (all(&entry.inputs), all(&entry.outputs));
        let within = inside(setting, operation);
        for (versions, others) in [(&entry.outputs[..], taken), (&entry.inputs[..], given)] {
            let Some((names, set)) = others else { continue };
            for version in versions {
                let (dims, own) = &mut made[held.home[version.index()]];
                dims.extend(names.union(&within));
                *own = set.max(*own);
            }
        }
    }
    for (split, made) in splits.iter_mut().zip(made) {
        split.made = number(kinds, made);
    }
    splits
}

/// If it is a loop: the dims of what finds its own way in the body, which may leave split along any of them what the
/// loop carries and stacks.
fn inside(setting: &Setting<'_>, operation: &Operation) -> BTreeSet<DimName> {
    let data = setting.data;
    let Some(Structural::Loop(run)) = operation.structural() else { return BTreeSet::new() };
    let body = data.region(run.region).operations.iter().map(|id| &data.operations[id.index()]);
    let own = body.flat_map(|operation| {
        let finds_its_way = has_steps(operation) && !goes_by_rule(setting, operation);
        let tensors =
            operation.inputs.iter().chain(&operation.outputs).filter(move |_| finds_its_way);
        let names = tensors.flat_map(|t| data.tensors[t.index()].ty.shape.names());
        inside(setting, operation).into_iter().chain(names)
    });
    own.collect()
}

/// The moments that hold most of each kind, and most in all, beside the variables; each once.
fn most(table: &Table, held: &Held, splits: &[Split], variables: Now, kinds: usize) -> Vec<Now> {
    let mut now = variables;
    now.bytes.resize(kinds, 0);
    let mut most = vec![now.clone(); kinds + 1];
    let fetched = table.entries.len();
    // Before an entry: whose split is known from here on, or until here; after it: who ends.
    let (mut turns, mut ends) = (vec![Vec::new(); fetched + 1], vec![Vec::new(); fetched + 1]);
    for (home, split) in splits.iter().enumerate() {
        ends[held.last[home]].push(home);
        if let Some((from, to)) = split.between.filter(|_| split.ruled != split.made) {
            turns[from].push(home);
            turns[(to + 1).min(fetched)].push(home);
        }
    }
    // The kind that each which is alive counts as.
    let mut alive: Vec<Option<usize>> = vec![None; splits.len()];
    let begin = |now: &mut Now, at: usize, home: usize, alive: &mut [Option<usize>]| {
        if alive[home].is_none() {
            let kind = splits[home].at(at);
            alive[home] = Some(kind);
            now.add(kind, held.bytes[home]);
        }
    };
    let end = |now: &mut Now, home: usize, alive: &mut [Option<usize>]| {
        let kind = alive[home].take();
        kind.iter().for_each(|kind| now.take(*kind, held.bytes[home]));
        kind.is_some()
    };
    let home = |version: &VersionId| held.home[version.index()];
    let turn = |now: &mut Now, at: usize, alive: &mut [Option<usize>]| {
        for &home in &turns[at] {
            if end(now, home, alive) {
                begin(now, at, home, alive);
            }
        }
    };
    for (at, entry) in table.entries.iter().enumerate() {
        turn(&mut now, at, &mut alive);
        entry.inputs.iter().for_each(|v| begin(&mut now, at, home(v), &mut alive));
        see(&mut most, &now);
        entry.outputs.iter().for_each(|v| begin(&mut now, at, home(v), &mut alive));
        ends[at].iter().for_each(|&home| _ = end(&mut now, home, &mut alive));
    }
    turn(&mut now, fetched, &mut alive);
    table.fetches.iter().for_each(|v| begin(&mut now, fetched, home(v), &mut alive));
    see(&mut most, &now);
    most.sort();
    most.dedup();
    most
}

/// Keeps a moment where it holds more of a kind than any before, or, for the last of these, in all.
fn see(most: &mut [Now], now: &Now) {
    let kinds = now.bytes.len();
    for (kind, best) in most.iter_mut().enumerate() {
        let of = |moment: &Now| match kind < kinds {
            true => (moment.bytes[kind], moment.total),
            false => (moment.total, 0),
        };
        if of(now) > of(best) {
            best.clone_from(now);
        }
    }
}
