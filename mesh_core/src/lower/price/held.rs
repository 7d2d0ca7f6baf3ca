//! Memory by the table: which versions are alive after which operation.

use super::Estimator;
use crate::graph::{Data, Report, Structural, TensorId, TensorType};
use crate::lower::memo::Key;
use crate::lower::placed::Placed;
use crate::lower::setting::Setting;
use crate::lower::table::{Table, Version, VersionId};
use crate::program::VariableId;

/// What of a table is held when.
pub(super) struct Held {
    /// The version whose memory a version is.
    pub(super) home: Vec<usize>,
    pub(super) bytes: Vec<usize>,
    /// The entry that takes it first, where one does.
    pub(super) first: Vec<Option<usize>>,
    /// The entry that takes it last, or makes it; their number, if it is fetched.
    pub(super) last: Vec<usize>,
}

impl Estimator<'_> {
    /// Bytes of a processor's slices of all variables.
    pub(super) fn variables(&self, setting: &Setting<'_>) -> usize {
        let types = setting.data.variables.iter().map(|variable| &variable.ty);
        let bytes = |(i, ty): (u32, &TensorType)| {
            let placement = setting.at_rest(VariableId(i));
            let local = placement.local_shape(&self.mesh, &ty.shape);
            local.map_or(ty.shape.size(), |shape| shape.size()).saturating_mul(ty.dtype.size())
        };
        (0..).zip(types).map(bytes).fold(0, usize::saturating_add)
    }

    /// Bytes of a processor's slice of a tensor.
    pub(super) fn bytes(&self, data: &Data, tensor: TensorId, placed: &Placed) -> usize {
        let key = Key::from_slice(&[self.known.alike.type_of(tensor), placed.number()]);
        let find = || {
            let ty = &data.tensors[tensor.index()].ty;
            let local = placed.local_shape(&self.mesh, &ty.shape);
            let elements = local.map_or(ty.shape.size(), |shape| shape.size());
            elements.saturating_mul(placed.held(ty.dtype).size())
        };
        *self.sizes.borrow_mut().entry(key).or_insert_with(find)
    }

    /// The most bytes of values that a processor holds at once. What lives in registers and tiles, and what
    /// lies in variables, is not counted; an elementwise operation takes over what it is the last to read.
    pub(super) fn peak(
        &self,
        setting: &Setting<'_>,
        table: &Table,
        inside: bool,
    ) -> Result<usize, Report> {
        let mut held = self.held(setting, table, inside);
        self.keep_for_hidden(table, &mut held, |held, home| Some(held.last[home]));
        let (mut live, mut peak) = (0_usize, 0_usize);
        let mut alive = vec![false; held.bytes.len()];
        let ends = Ends::new(&held, table.entries.len());
        if !inside {
            table.given.iter().for_each(|v| begin(&held, &mut alive, &mut live, *v));
        }
        for (at, entry) in table.entries.iter().enumerate() {
            let operation = &setting.data.operations[entry.operation.index()];
            entry.inputs.iter().for_each(|v| begin(&held, &mut alive, &mut live, *v));
            peak = peak.max(live);
            let outputs = entry.outputs.iter().map(|v| held.bytes[held.home[v.index()]]);
            let made: usize = outputs.sum();
            let body = match &entry.body {
                Some(body) => self.body(setting, body)?.value_bytes,
                None => 0,
            };
            let freed: usize = ends.at(at).filter(|v| alive[*v]).map(|v| held.bytes[v]).sum();
            let near = &self.known.near;
            let takes_over = near.is_light(entry.operation) && !near.is_stacked(entry.operation);
            let taken = if takes_over { freed.min(made) } else { 0 };
            if !entry.alias && operation.structural().is_none_or(|op| !names_memory(op)) {
                peak = peak.max(live + made + body - taken);
            }
            entry.outputs.iter().for_each(|v| begin(&held, &mut alive, &mut live, *v));
            for version in ends.at(at) {
                if std::mem::take(&mut alive[version]) {
                    live -= held.bytes[version];
                }
            }
        }
        table.fetches.iter().for_each(|v| begin(&held, &mut alive, &mut live, *v));
        Ok(peak.max(live))
    }

    /// When each version is held, but for what is made of it where it is taken.
    pub(super) fn held(&self, setting: &Setting<'_>, table: &Table, inside: bool) -> Held {
        let count = table.versions.len();
        let mut home: Vec<_> = (0..count).collect();
        let size = |version: &Version| match self.known.near.hides(version.tensor) {
            true => 0,
            false => self.bytes(setting.data, version.tensor, &version.placement),
        };
        let mut bytes: Vec<_> = table.versions.iter().map(size).collect();
        for (i, version) in table.versions.iter().enumerate() {
            if let Some((source, route)) = &version.source
                && route.moves.is_empty()
            {
                home[i] = home[source.index()];
            }
        }
        if inside {
            table.given.iter().for_each(|v| bytes[v.index()] = 0);
        }
        for entry in &table.entries {
            let op = setting.data.operations[entry.operation.index()].structural();
            match op {
                Some(Structural::Read { .. }) => {
                    entry.outputs.iter().for_each(|v| bytes[v.index()] = 0);
                }
                Some(op) if names_memory(op) && !entry.alias => {
                    for (out, input) in entry.outputs.iter().zip(&entry.inputs) {
                        home[out.index()] = home[input.index()];
                    }
                }
                _ => {}
            }
        }
        let (mut first, mut last) = (vec![None; count], vec![0; count]);
        let mut made = vec![false; count];
        let mut used = |at: usize, version: VersionId| {
            let mut version = Some(version);
            // What a version is made of lives until it is made.
            while let Some(v) = version {
                last[home[v.index()]] = at;
                let done = std::mem::replace(&mut made[v.index()], true);
                let source = table.versions[v.index()].source.as_ref().map(|(from, _)| *from);
                version = source.filter(|_| !done);
            }
        };
        for (at, entry) in table.entries.iter().enumerate() {
            for version in &entry.inputs {
                first[home[version.index()]].get_or_insert(at);
            }
            entry.inputs.iter().chain(&entry.outputs).for_each(|version| used(at, *version));
        }
        table.fetches.iter().for_each(|version| used(table.entries.len(), *version));
        Held { home, bytes, first, last }
    }

    /// What never reaches memory is made where it is taken, until `until` of its home, of what lives that long.
    pub(super) fn keep_for_hidden(
        &self,
        table: &Table,
        held: &mut Held,
        until: impl Fn(&Held, usize) -> Option<usize>,
    ) {
        for entry in table.entries.iter().rev() {
            let hides = |v: &&VersionId| self.known.near.hides(table.versions[v.index()].tensor);
            let outputs = entry.outputs.iter().filter(hides);
            let taken = outputs.filter_map(|v| until(held, held.home[v.index()]));
            let Some(until) = taken.max() else { continue };
            for version in &entry.inputs {
                let end = &mut held.last[held.home[version.index()]];
                *end = until.max(*end);
            }
        }
    }
}

/// Which versions end at each entry, as lists: the first of each entry, and what follows each version.
struct Ends {
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Ends {
    fn new(held: &Held, entries: usize) -> Self {
        let mut ends = Self { first: vec![u32::MAX; entries + 1], next: vec![0; held.last.len()] };
        for (version, &last) in held.last.iter().enumerate().rev() {
            ends.next[version] = std::mem::replace(&mut ends.first[last], version as u32);
        }
        ends
    }

    fn at(&self, entry: usize) -> impl Iterator<Item = usize> {
        let some = |version: u32| (version != u32::MAX).then_some(version as usize);
        std::iter::successors(some(self.first[entry]), move |version| some(self.next[*version]))
    }
}

/// Whether an op's outputs are other names for its inputs' memory.
fn names_memory(op: &Structural) -> bool {
    matches!(op, Structural::Barrier | Structural::StopGradient)
}

fn begin(held: &Held, alive: &mut [bool], live: &mut usize, version: VersionId) {
    let home = held.home[version.index()];
    if !std::mem::replace(&mut alive[home], true) {
        *live += held.bytes[home];
    }
}
