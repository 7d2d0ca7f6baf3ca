//! Copies of the slices that a session holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indexmap::IndexSet;

use super::runs::Runs;
use crate::exec::Processes;
use crate::lower::VariableSpec;
use crate::session::{Result, Session, VariableSlices};

/// An owned copy of a session's variables and seed. A slice that several processors hold is copied
/// once. Where several processes run one module, all of them take the snapshot and each has a part
/// of it; a slice that several of them hold is in one part.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) seed: u64,
    /// The processes that have the other parts.
    pub(super) processes: Processes,
    /// The number of snapshots that the session took before.
    number: u64,
    /// How many times this snapshot, or a copy of it, was saved.
    saves: Arc<AtomicU64>,
    pub(super) tensors: Vec<Tensor>,
}

/// The copied slices of a variable.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) spec: VariableSpec,
    pub(super) slices: Vec<Slice>,
}

/// A slice of a variable, row-major.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    /// The global index of the first element.
    begin: Vec<usize>,
    extents: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

impl Tensor {
    fn new(spec: &VariableSpec) -> Self {
        Self { spec: spec.clone(), slices: Vec::new() }
    }

    /// Zeros for the slices of the processors for which `here` holds.
    fn zeros(held: &VariableSlices, here: impl Fn(usize) -> bool) -> Self {
        let (mut tensor, slice) = (Self::new(&held.spec), &held.local);
        let begins: IndexSet<_> =
            held.holders().filter(|(p, _)| here(*p)).map(|(_, begin)| begin).collect();
        let slices = begins.into_iter().map(|begin| {
            let (begin, extents) = (begin.clone(), slice.extents.to_vec());
            Slice { begin, extents, bytes: vec![0; slice.bytes()] }
        });
        tensor.slices.extend(slices);
        tensor
    }

    /// The number of bytes in the slices.
    pub(super) fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.bytes.len()).sum()
    }

    /// The places of the slices in the tensor.
    pub(super) fn runs(&self) -> Vec<Runs> {
        let (shape, element) = (self.spec.shape.sizes(), self.spec.dtype.size());
        let runs = |slice: &Slice| Runs::new(&shape, &slice.begin, &slice.extents, element);
        self.slices.iter().map(runs).collect()
    }
}

impl Snapshot {
    /// The number of bytes that this snapshot holds.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().map(Tensor::bytes).sum()
    }

    /// A name for the next attempt to save this snapshot. It is the same on all ranks and is never
    /// used again.
    pub(super) fn attempt(&self) -> String {
        let save = self.saves.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{save}", self.processes.id, self.number)
    }
}

impl Session {
    /// Copies all variables. Training has to wait only for this part of a checkpoint.
    ///
    /// Where several processes run the module, each copies slices of its own processors; of slices
    /// that several hold, each copies some. No messages are sent.
    ///
    /// After a call has failed, variables may be half written: do not save them.
    ///
    /// # Errors
    ///
    /// If the back-end does not give its slices.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        self.snapshot_into(&mut snapshot)?;
        Ok(snapshot)
    }

    /// [`snapshot`](Self::snapshot) into the memory of an earlier snapshot.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn snapshot_into(&self, snapshot: &mut Snapshot) -> Result<()> {
        let processes = self.backend.processes();
        self.copy_into(snapshot, processes, |processor| self.is_here(processor))
    }

    /// Copies the slices for which the processors that are `here` were chosen.
    fn copy_into(
        &self,
        snapshot: &mut Snapshot,
        processes: Processes,
        here: impl Fn(usize) -> bool,
    ) -> Result<()> {
        (snapshot.seed, snapshot.processes) = (self.backend.seed(), processes);
        snapshot.number = self.snapshots.replace(self.snapshots.get() + 1);
        snapshot.tensors.truncate(self.variables.len());
        for (index, held) in self.variables.values().enumerate() {
            if index == snapshot.tensors.len() {
                snapshot.tensors.push(Tensor::new(&held.spec));
            }
            let tensor = &mut snapshot.tensors[index];
            tensor.spec.clone_from(&held.spec);
            let mut count = 0;
            for (processor, begin) in held.chosen_holders(index).filter(|(p, _)| here(*p)) {
                if count == tensor.slices.len() {
                    tensor.slices.push(Slice::default());
                }
                let slice = &mut tensor.slices[count];
                slice.begin.clone_from(begin);
                slice.extents.clear();
                slice.extents.extend_from_slice(&held.local.extents);
                slice.bytes.clear();
                slice.bytes.extend_from_slice(&self.backend.addressable_slice(processor, index)?);
                count += 1;
            }
            tensor.slices.truncate(count);
        }
        Ok(())
    }

    /// Zeros for the slices of a variable that this process holds.
    pub(super) fn zeros(&self, index: usize) -> Tensor {
        Tensor::zeros(&self.variables[index], |processor| self.is_here(processor))
    }

    /// Sets a variable to slices like those it has, on all of this process's processors that hold
    /// it.
    pub(super) fn set_slices(&mut self, index: usize, tensor: &Tensor) -> Result<()> {
        for (processor, begin) in self.variables[index].holders() {
            if !self.is_here(processor) {
                continue;
            }
            let slice = tensor.slices.iter().find(|slice| slice.begin == *begin);
            let bytes = slice.map_or(&[][..], |slice| &slice.bytes);
            self.backend.set_slice(processor, index, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lower::Module;
    use crate::names::{Axis, DType, DimName, Dimension, Mesh, Placement, Shape};
    use crate::program::Program;

    /// A session without functions.
    pub(crate) fn session(mesh: &Mesh, variables: Vec<VariableSpec>, seed: u64) -> Session {
        let module = Module::new(mesh.clone(), variables, Vec::new(), Program::default()).unwrap();
        Session::threads(&module, seed).unwrap()
    }

    pub(crate) fn variable(name: &str, dtype: DType, shape: &[Dimension]) -> VariableSpec {
        let (name, shape) = (name.to_owned(), Shape::new(shape.iter().copied()).unwrap());
        VariableSpec { name, dtype, shape, placement: Placement::replicated(), trainable: true }
    }

    /// A variable on a mesh of three axes, and the bytes of its whole value, which count up. Axis
    /// `i` splits dim `split[i]`, if there is one of that number. The last axis owns the variable
    /// if `owned` asks for it and the axis splits no dim.
    pub(crate) fn sliced(
        sizes: &[usize],
        split: &[usize],
        owned: bool,
        dtype: DType,
    ) -> (Tensor, Vec<u8>) {
        let mesh: Mesh = "a:2;b:3;c:2".parse().unwrap();
        let names: [DimName; 4] = ["d", "e", "f", "g"].map(DimName::new);
        let mut axes: [Vec<Axis>; 4] = Default::default();
        let mut factor = [1; 4];
        let mut placement = Placement::replicated();
        for (axis, &dim) in mesh.axes().zip(split) {
            if dim < sizes.len() {
                axes[dim].push(axis);
                factor[dim] *= mesh.size(axis);
            } else if owned && axis.index() == 2 {
                placement = placement.with_owner(axis, 1);
            }
        }
        let dims = sizes.iter().zip(factor).zip(names);
        let dims: Vec<_> = dims.map(|((&s, f), n)| Dimension::new(n.as_str(), s * f)).collect();
        for (dim, axes) in dims.iter().zip(&axes) {
            placement = placement.split(dim.name, axes);
        }
        let spec = VariableSpec { placement, ..variable("v", dtype, &dims) };
        let mut session = session(&mesh, vec![spec.clone()], 0);
        let bytes = spec.shape.size() * dtype.size();
        let whole: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
        // The expected bytes are computed from the global index of every element, not from runs.
        let mut tensor = session.zeros(0);
        for slice in &mut tensor.slices {
            for element in 0..slice.extents.iter().product() {
                let (mut rest, mut global, mut stride) = (element, 0, 1);
                for (d, size) in spec.shape.sizes().into_iter().enumerate().rev() {
                    global += (slice.begin[d] + rest % slice.extents[d]) * stride;
                    rest /= slice.extents[d];
                    stride *= size;
                }
                let size = dtype.size();
                let from = &whole[global * size..][..size];
                slice.bytes[element * size..][..size].copy_from_slice(from);
            }
        }
        session.set_slices(0, &tensor).unwrap();
        (session.snapshot().unwrap().tensors.remove(0), whole)
    }

    /// The parts that several ranks take of one session's snapshot.
    pub(crate) fn parts(session: &Session, all: Processes) -> Vec<Snapshot> {
        let number = session.snapshots.get();
        let part = |rank| {
            let mut snapshot = Snapshot::default();
            session.snapshots.set(number);
            session
                .copy_into(&mut snapshot, Processes { rank, ..all }, |p| p % all.ranks == rank)
                .unwrap();
            snapshot
        };
        (0..all.ranks).map(part).collect()
    }

    #[test]
    fn ranks_have_each_slice_once_among_them() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        let [a, b] = ["a", "b"].map(|name| mesh.axis(name).unwrap());
        let (x, y) = (Dimension::new("x", 4), Dimension::new("y", 2));
        let of = |placement| VariableSpec { placement, ..variable("v", DType::F32, &[x, y]) };
        let replicated = Placement::replicated();
        // Each of four ranks copies as many bytes.
        let table = [
            (replicated.clone(), [32, 0, 0, 0]),
            (replicated.clone().split(x.name, &[a]), [16, 0, 16, 0]),
            (replicated.clone().split(x.name, &[b, a]), [8, 8, 8, 8]),
            (replicated.clone().with_owner(b, 1), [0, 32, 0, 0]),
            (replicated.split(y.name, &[a]).with_owner(b, 1), [0, 16, 0, 16]),
        ];
        for (placement, bytes) in table {
            let session = session(&mesh, vec![of(placement)], 3);
            let parts = parts(&session, Processes { ranks: 4, ..Processes::default() });
            assert_eq!(parts.iter().map(Snapshot::bytes).collect::<Vec<_>>(), bytes);
            let names: Vec<_> = parts.iter().map(Snapshot::attempt).collect();
            assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
            assert_ne!(parts[0].attempt(), names[0]);
            assert_ne!(session.snapshot().unwrap().attempt(), names[0]);
        }
    }

    #[test]
    fn what_all_ranks_hold_they_keep_by_turns() {
        let mesh: Mesh = "a:4".parse().unwrap();
        let whole = |name| variable(name, DType::F32, &[Dimension::new("x", 8)]);
        let session = session(&mesh, ["s", "t", "u", "v"].map(whole).into(), 3);
        let parts = parts(&session, Processes { ranks: 4, ..Processes::default() });
        assert_eq!(parts.iter().map(Snapshot::bytes).collect::<Vec<_>>(), [32; 4]);
    }

    #[test]
    fn slices_are_copied_once_each() {
        let mesh: Mesh = "a:2;b:2".parse().unwrap();
        let [a, b] = ["a", "b"].map(|name| mesh.axis(name).unwrap());
        let (x, y) = (Dimension::new("x", 4), Dimension::new("y", 2));
        let of = |placement| VariableSpec { placement, ..variable("v", DType::F32, &[x, y]) };
        let replicated = Placement::replicated();
        let table = [
            (replicated.clone(), 1),
            (replicated.clone().split(x.name, &[a]), 2),
            (replicated.clone().split(x.name, &[b, a]), 4),
            (replicated.clone().with_owner(b, 1), 1),
            (replicated.split(y.name, &[a]).with_owner(b, 0), 2),
        ];
        for (placement, slices) in table {
            let session = session(&mesh, vec![of(placement)], 3);
            let snapshot = session.snapshot().unwrap();
            assert_eq!(snapshot.tensors[0].slices.len(), slices);
            assert_eq!((snapshot.bytes(), snapshot.seed), (4 * 8, 3));
        }
    }

    #[test]
    fn snapshots_are_taken_into_the_memory_of_others() {
        fn moves_between_threads<T: Send + 'static>(_: &T) {}
        let mesh: Mesh = "a:2".parse().unwrap();
        let x = Dimension::new("x", 4);
        let split = Placement::replicated().split(x.name, &[mesh.axis("a").unwrap()]);
        let two = [variable("v", DType::F32, &[x]), variable("w", DType::F64, &[x])];
        let one = VariableSpec { placement: split, ..variable("w", DType::F32, &[x]) };
        let (mut two, one) = (session(&mesh, two.to_vec(), 1), session(&mesh, vec![one], 2));
        let mut snapshot = two.snapshot().unwrap();
        moves_between_threads(&snapshot);
        let at =
            |s: &Snapshot| s.tensors.iter().map(|t| t.slices[0].bytes.as_ptr()).collect::<Vec<_>>();
        let before = at(&snapshot);
        two.write("v", &ndarray::arr1(&[1.0_f32, 2.0, 3.0, 4.0])).unwrap();
        two.snapshot_into(&mut snapshot).unwrap();
        assert_eq!(at(&snapshot), before);
        assert_eq!(snapshot.tensors[0].slices[0].bytes[12..], 4.0_f32.to_le_bytes());
        // The snapshot is of another session.
        one.snapshot_into(&mut snapshot).unwrap();
        assert_eq!((snapshot.tensors.len(), snapshot.bytes(), snapshot.seed), (1, 16, 2));
        assert_eq!(snapshot.tensors[0].slices.len(), 2);
        assert_eq!(snapshot.tensors[0].spec.name, "w");
    }
}
