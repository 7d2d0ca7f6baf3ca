//! Where each processor's slice of a variable begins.

use indexmap::{IndexMap, IndexSet};

use super::{Error, Result};
use crate::lower::VariableSpec;
use crate::names::Mesh;
use crate::program::Value;

/// A variable, and the beginning of each processor's slice of it; `None` for a processor that does
/// not hold the variable.
pub(super) struct VariableSlices {
    pub(super) spec: VariableSpec,
    /// The type of a slice.
    pub(super) local: Value,
    begins: Vec<Option<Vec<usize>>>,
}

impl VariableSlices {
    pub(super) fn new(spec: &VariableSpec, mesh: &Mesh) -> Result<Self> {
        let begin = |processor| {
            let slice = spec.placement.slice(mesh, &spec.shape, processor).ok_or_else(|| {
                let problem = format!("a dim of variable `{}` does not divide", spec.name);
                Error::Module { problem }
            })?;
            let mut owned = spec.placement.owned().iter();
            let held = owned.all(|&(axis, owner)| mesh.coordinate(processor, axis) == owner);
            Ok(held.then_some(slice.begin))
        };
        let begins = (0..mesh.processors()).map(begin).collect::<Result<_>>()?;
        let local = spec.local(mesh);
        let local = Value::new(local.dtype, local.extents);
        Ok(Self { spec: spec.clone(), local, begins })
    }

    /// The processors that hold the variable, each with the beginning of its slice.
    pub(super) fn holders(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let begins = self.begins.iter().enumerate();
        begins.filter_map(|(processor, begin)| Some((processor, begin.as_ref()?)))
    }

    /// Returns, for each distinct slice, one processor that holds it, and where the slice begins; `turn`
    /// chooses among those that hold the same slice.
    pub(super) fn chosen_holders(&self, turn: usize) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let mut slices = IndexMap::<_, Vec<_>>::new();
        self.holders().for_each(|(holder, begin)| slices.entry(begin).or_default().push(holder));
        slices.into_iter().map(move |(begin, holders)| (holders[turn % holders.len()], begin))
    }

    /// For each distinct slice, the first processor that holds it.
    pub(super) fn first_holders(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let mut seen = IndexSet::new();
        self.holders().filter(move |(_, begin)| seen.insert(*begin))
    }
}
