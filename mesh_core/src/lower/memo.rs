//! What placing finds once: placements by number, operations and loops that are placed alike, routes.
//!
//! A lowering has a memo of its own. An estimator keeps one for all layouts of a mesh, and says which
//! operations are alike; then equal layers are placed once, and the next layout places only what its rules
//! place differently.

use super::place::Placing;
use super::placed::{Placed, PlacedOperation};
use super::relayout::{Route, route};
use super::table::Table;
use crate::graph::{Data, OperationId, RegionId, Structural, TensorId};
use crate::names::{AxisList, DimName, Home, Mesh, Placement, RuleSet, Rules};
use indexmap::{IndexMap, IndexSet};
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

/// What `*` means for a variable, with its number.
pub(super) struct NumberedHome {
    pub(super) home: Home,
    pub(super) number: u32,
}

/// A loop that has been placed without a problem.
pub(super) type PlacedLoop = (Rc<PlacedOperation>, Rc<Table>);

/// Numbers that say all that a placement depends on.
pub(crate) type Key = SmallVec<[u32; 12]>;

pub(crate) type Fast<K, V> = IndexMap<K, V, BuildHasherDefault<Numbers>>;
type FastSet<T> = IndexSet<T, BuildHasherDefault<Numbers>>;

/// A hasher for keys of few numbers: one multiplication for each, and the high bits mixed in at the end.
#[derive(Default)]
pub(crate) struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<8>();
        whole.iter().for_each(|part| self.write_u64(u64::from_le_bytes(*part)));
        if !rest.is_empty() {
            let number = rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            self.write_u64(number);
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        // The multiplier is 2^64 divided by the golden ratio, as in Knuth's multiplicative hashing.
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// What operations and loops a memo of many layouts knows to be alike, whatever the layout and the mesh.
#[derive(Debug)]
pub(crate) struct Alike {
    /// By operation: ops, types and known numbers are equal where this is.
    of: Vec<u32>,
    /// By tensor: types are equal where this is.
    types: Vec<u32>,
    /// All dims.
    names: IndexSet<DimName>,
    /// By class: the dims of its tensors, by number.
    dims: Vec<Box<[u32]>>,
    /// What the bodies of loops depend on.
    loops: IndexMap<OperationId, Inside>,
}

/// Dims within a loop, and the variables whose rules it meets.
#[derive(Debug, Default)]
struct Inside {
    dims: IndexSet<DimName>,
    homes: IndexSet<(RuleSet, u32)>,
}

impl Alike {
    pub(crate) fn new(data: &Data) -> Self {
        let mut types = IndexMap::new();
        let mut of_type = |t: usize| -> u32 {
            let next = types.len() as u32;
            *types.entry(&data.tensors[t].ty).or_insert(next)
        };
        let types_of: Vec<_> = (0..data.tensors.len()).map(&mut of_type).collect();
        let (mut classes, mut dims, mut loops) = (IndexMap::new(), Vec::new(), IndexMap::new());
        let mut names = IndexSet::new();
        let mut of = Vec::with_capacity(data.operations.len());
        for (i, operation) in (0..).zip(&data.operations) {
            let tensors = || operation.inputs.iter().chain(&operation.outputs);
            let known: Vec<_> = operation.inputs.iter().map(|t| data.is_known(*t)).collect();
            let own: SmallVec<[u32; 6]> = tensors().map(|t| types_of[t.index()]).collect();
            let next = classes.len() as u32;
            let class = *classes.entry((&*operation.op, known, own)).or_insert(next);
            if class == next {
                let own = tensors().flat_map(|t| data.tensors[t.index()].ty.shape.names());
                let own: IndexSet<_> = own.map(|name| names.insert_full(name).0 as u32).collect();
                dims.push(own.into_iter().collect());
            }
            of.push(class);
            if let Some(Structural::Loop(run)) = operation.structural() {
                let mut inside = Inside::default();
                inside.add(data, tensors());
                inside.region(data, run.region);
                loops.insert(OperationId(i), inside);
            }
        }
        Self { of, types: types_of, names, dims, loops }
    }

    /// How many operations there are.
    pub(crate) fn operations(&self) -> usize {
        self.of.len()
    }

    /// How many classes there are.
    pub(crate) fn classes(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn of(&self, id: OperationId) -> u32 {
        self.of[id.index()]
    }

    pub(crate) fn type_of(&self, tensor: TensorId) -> u32 {
        self.types[tensor.index()]
    }
}

impl Inside {
    fn add<'t>(&mut self, data: &Data, tensors: impl Iterator<Item = &'t TensorId>) {
        for tensor in tensors {
            let node = &data.tensors[tensor.index()];
            self.dims.extend(node.ty.shape.names());
            let home = |key: crate::graph::Key| Some((key.set, key.variable?.0));
            self.homes.extend(node.key.and_then(home));
        }
    }

    fn region(&mut self, data: &Data, id: RegionId) {
        let region = data.region(id);
        for operation in region.operations.iter().map(|id| &data.operations[id.index()]) {
            self.add(data, operation.inputs.iter().chain(&operation.outputs));
            if let Some(Structural::Loop(run)) = operation.structural() {
                self.region(data, run.region);
            }
        }
        self.add(data, region.results.iter());
    }
}

/// What rules say of some dims, by number: by the rule set's own rule, and by the compute rule.
type Said = SmallVec<[u32; 16]>;

#[derive(Default)]
pub(crate) struct Memo {
    pub(crate) alike: Option<Rc<Alike>>,
    placements: RefCell<FastSet<Rc<Placement>>>,
    said: RefCell<FastSet<Said>>,
    lists: RefCell<FastSet<AxisList>>,
    homes: RefCell<FastSet<Home>>,
    operations: RefCell<Fast<Key, Rc<PlacedOperation>>>,
    routes: RefCell<Fast<Key, Option<Rc<Route>>>>,
    /// A loop within loops is met again whenever those around it are placed; without this, the work would
    /// grow with a power of their number.
    loops: RefCell<Fast<Key, PlacedLoop>>,
}

impl Memo {
    pub(crate) fn of(alike: Rc<Alike>) -> Self {
        Self { alike: Some(alike), ..Self::default() }
    }

    pub(crate) fn placed(&self, placement: Placement) -> Placed {
        let mut placements = self.placements.borrow_mut();
        let at = match placements.get_index_of(&placement) {
            Some(at) => at,
            None => placements.insert_full(Rc::new(placement)).0,
        };
        Placed::new(at as u32, Rc::clone(&placements[at]))
    }

    pub(super) fn placing(&self, placing: Placing) -> PlacedOperation {
        let numbered = |list: Vec<Placement>| list.into_iter().map(|p| self.placed(p)).collect();
        let Placing { inputs, outputs, alias } = placing;
        PlacedOperation { inputs: numbered(inputs), outputs: numbered(outputs), alias }
    }

    pub(super) fn operation(&self, key: &Key) -> Option<Rc<PlacedOperation>> {
        self.operations.borrow().get(key).cloned()
    }

    pub(super) fn keep(&self, key: Key, placed: &Rc<PlacedOperation>) {
        self.operations.borrow_mut().insert(key, Rc::clone(placed));
    }

    pub(super) fn of_loop(&self, key: &Key) -> Option<PlacedLoop> {
        self.loops.borrow().get(key).cloned()
    }

    pub(super) fn keep_loop(&self, key: Key, placed: PlacedLoop) {
        self.loops.borrow_mut().insert(key, placed);
    }

    /// The cheapest way from a placement of a tensor to another one.
    pub(super) fn route(
        &self,
        mesh: &Mesh,
        data: &Data,
        tensor: TensorId,
        [from, to]: [&Placed; 2],
    ) -> Option<Rc<Route>> {
        let ty = &data.tensors[tensor.index()].ty;
        let find = || {
            let element = from.held(ty.dtype).size();
            route(mesh, &ty.shape, element, from, to).map(Rc::new)
        };
        let Some(alike) = &self.alike else { return find() };
        let key = Key::from_slice(&[alike.type_of(tensor), from.number(), to.number()]);
        if let Some(known) = self.routes.borrow().get(&key) {
            return known.clone();
        }
        let found = find();
        self.routes.borrow_mut().insert(key, found.clone());
        found
    }

    /// What rules say of some dims under a rule set.
    fn said(&self, rules: &Rules, set: RuleSet, dims: &[DimName]) -> u32 {
        let numbers =
            |dim: &DimName| [set, RuleSet::Compute].map(|set| self.list(rules, set, *dim));
        let said: Said = dims.iter().flat_map(numbers).collect();
        self.said.borrow_mut().insert_full(said).0 as u32
    }

    /// What rules say of a dim under a rule set, by number.
    fn list(&self, rules: &Rules, set: RuleSet, dim: DimName) -> u32 {
        let mut lists = self.lists.borrow_mut();
        let axes = rules.rule(set, dim);
        axes.map_or(0, |axes| {
            let known = lists.get_index_of(axes);
            1 + known.unwrap_or_else(|| lists.insert_full(axes.into()).0) as u32
        })
    }

    /// The number of a home; 0 is that of variables that no rule splits.
    pub(super) fn home(&self, home: &Home) -> u32 {
        if *home == Home::default() {
            return 0;
        }
        let mut homes = self.homes.borrow_mut();
        let known = homes.get_index_of(home);
        1 + known.unwrap_or_else(|| homes.insert_full(home.clone()).0) as u32
    }
}

/// What the rules of one layout say, by number.
#[derive(Default)]
pub(crate) struct Ruled {
    /// By dim: what each rule set says of it.
    dims: OnceCell<Vec<[u32; SETS.len()]>>,
    /// By class and rule set, where it has been asked for.
    classes: RefCell<Vec<Option<u32>>>,
    loops: RefCell<IndexMap<OperationId, Key>>,
}

const SETS: [RuleSet; 3] = [RuleSet::Compute, RuleSet::Params, RuleSet::Slots];

impl Ruled {
    /// What rules say of an operation's dims under a rule set.
    pub(super) fn operation(
        &self,
        memo: &Memo,
        rules: &Rules,
        (class, set): (u32, RuleSet),
    ) -> Option<u32> {
        let alike = memo.alike.as_deref()?;
        let mut classes = self.classes.borrow_mut();
        classes.resize(alike.classes() * SETS.len(), None);
        let set_number = SETS.iter().position(|own| *own == set)?;
        let slot = &mut classes[class as usize * SETS.len() + set_number];
        let said = match *slot {
            Some(said) => said,
            None => {
                let of_dim = |dim: &DimName| SETS.map(|set| memo.list(rules, set, *dim));
                let dims = self.dims.get_or_init(|| alike.names.iter().map(of_dim).collect());
                let mut said = Said::new();
                for &dim in &alike.dims[class as usize] {
                    said.push(dims[dim as usize][set_number]);
                    said.push(dims[dim as usize][0]);
                }
                *slot.insert(memo.said.borrow_mut().insert_full(said).0 as u32)
            }
        };
        // The set counts: rules of one set for the dims can equal those of another.
        Some(said * SETS.len() as u32 + set_number as u32)
    }

    /// What rules say of all dims inside a loop, and of the homes of its variables.
    pub(super) fn of_loop(
        &self,
        memo: &Memo,
        rules: &Rules,
        homes: &[[NumberedHome; 2]],
        id: OperationId,
    ) -> Key {
        if let Some(known) = self.loops.borrow().get(&id) {
            return known.clone();
        }
        let mut key = Key::from_slice(&[id.0]);
        if let Some(inside) = memo.alike.as_deref().and_then(|alike| alike.loops.get(&id)) {
            let dims: Vec<_> = inside.dims.iter().copied().collect();
            key.extend(SETS.map(|set| memo.said(rules, set, &dims)));
            for (set, variable) in &inside.homes {
                let [params, slots] = &homes[*variable as usize];
                key.push(if *set == RuleSet::Slots { slots } else { params }.number);
            }
        }
        self.loops.borrow_mut().insert(id, key.clone());
        key
    }
}
