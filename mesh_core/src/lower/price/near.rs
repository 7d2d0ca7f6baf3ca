//! What never reaches memory: what fusion keeps in registers, and tiles in caches.
//!
//! Both passes work on programs; this is what they do, said of the graph, so that it holds for all layouts.
//! *Fusion*: a tensor that one elementwise operation makes and another alone takes. *Tiles*: a tensor of which
//! the operation that makes it and all that take it, which stand near each other, can go piece by piece along one
//! of its dims: softmax, norms, losses, and attention between its products.

use super::meetings::{has_steps, values};
use super::work::{Hidden, Work};
use super::{Data, Estimator};
use crate::graph::{Operation, OperationId, Signature, Structural, TensorId, TensorType};
use crate::lower::placed::Placed;
use crate::names::{DimName, Placement};
use crate::split::Role;
use smallvec::SmallVec;

/// Operations between which the tiles of one group reach; the pass counts 64 steps.
const REACH: usize = 64;

/// Dims along which an operation can go piece by piece.
type Cuts = SmallVec<[DimName; 4]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Near {
    /// By tensor.
    hidden: Vec<bool>,
    /// By operation: whether it is done tile by tile.
    stacked: Vec<bool>,
    /// By operation: whether all its steps are elementwise.
    light: Vec<bool>,
}

impl Near {
    /// Which of an operation's inputs and then outputs never reach memory.
    pub(super) fn of(&self, data: &Data, id: OperationId) -> Hidden {
        let operation = &data.operations[id.index()];
        let tensors = operation.inputs.iter().chain(&operation.outputs).enumerate();
        let hidden = tensors.filter(|(_, tensor)| self.hides(**tensor));
        hidden.take_while(|(i, _)| *i < Hidden::BITS as usize).fold(0, |bits, (i, _)| bits | 1 << i)
    }

    pub(super) fn hides(&self, tensor: TensorId) -> bool {
        self.hidden.get(tensor.index()).copied().unwrap_or_default()
    }

    /// Whether what an operation makes is stacked tile by tile, which takes over the memory of nothing.
    pub(super) fn is_stacked(&self, id: OperationId) -> bool {
        self.stacked.get(id.index()).copied().unwrap_or_default()
    }

    pub(super) fn is_light(&self, id: OperationId) -> bool {
        self.light.get(id.index()).copied().unwrap_or_default()
    }
}

/// What an operation's steps are.
#[derive(Clone, Copy, Default)]
struct Kind {
    /// All are elementwise.
    light: bool,
    /// All can go piece by piece.
    piecewise: bool,
    /// One is a product.
    product: bool,
}

/// Who makes and takes a tensor.
#[derive(Clone, Default)]
struct Takers {
    count: usize,
    /// Whether all of them, and who makes it, are elementwise.
    light: bool,
    /// Along which all of them can go.
    cuts: Cuts,
    /// The place of who makes it, and of the last that takes it.
    span: (usize, usize),
}

impl Estimator<'_> {
    /// What never reaches memory in the priced function.
    pub(super) fn near(&self, data: &Data) -> Near {
        let mut near = Near {
            hidden: vec![false; data.tensors.len()],
            stacked: vec![false; data.operations.len()],
            light: vec![false; data.operations.len()],
        };
        let takers = self.takers(data, &mut near.light);
        let tiled = |taker: &Takers| {
            let within = taker.span.1 - taker.span.0 <= REACH;
            !taker.is_fused() && taker.count > 0 && !taker.cuts.is_empty() && within
        };
        for (hidden, taker) in near.hidden.iter_mut().zip(&takers) {
            *hidden = taker.is_fused() || tiled(taker);
        }
        for &(id, _) in &self.known.uses.used {
            let stacked = data.operations[id.index()].inputs.iter().any(|tensor| {
                let maker = data.tensors[tensor.index()].producer;
                let from_tiles = maker.is_some_and(|(maker, _)| near.is_stacked(maker));
                tiled(&takers[tensor.index()]) || near.hides(*tensor) && from_tiles
            });
            near.stacked[id.index()] = stacked;
        }
        near
    }

    /// Who makes and takes each tensor; and which operations are elementwise.
    fn takers(&self, data: &Data, lights: &mut [bool]) -> Vec<Takers> {
        let mut takers = vec![Takers::default(); data.tensors.len()];
        let mut kinds: Vec<Option<Kind>> = vec![None; self.known.alike.classes()];
        for (at, &(id, _)) in self.known.uses.used.iter().enumerate() {
            let operation = &data.operations[id.index()];
            let class = self.known.alike.of(id) as usize;
            let Kind { light, piecewise, product } =
                *kinds[class].get_or_insert_with(|| self.kind(data, operation));
            lights[id.index()] = light;
            let cuts = if piecewise { cuts(data, operation, product) } else { Cuts::new() };
            for tensor in &operation.inputs {
                let taker = &mut takers[tensor.index()];
                taker.count += 1;
                taker.light &= light;
                taker.cuts.retain(|dim| cuts.contains(dim));
                taker.span.1 = at;
            }
            for output in &operation.outputs {
                let cuts = cuts.iter().copied();
                let own = &data.tensors[output.index()].ty.shape;
                let cuts = cuts.filter(|dim| own.contains(*dim)).collect();
                takers[output.index()] = Takers { count: 0, light, cuts, span: (at, at) };
            }
        }
        // A body's results leave it, and what is fetched leaves the function.
        for &(id, _) in &self.known.uses.used {
            if let Some(Structural::Loop(run)) = data.operations[id.index()].structural() {
                let region = data.region(run.region);
                region.results.iter().chain(&run.saved).for_each(|t| takers[t.index()].keep());
            }
        }
        if let Some(function) = self.known.functions.first() {
            function.fetches.iter().for_each(|(tensor, _)| takers[tensor.index()].keep());
        }
        takers
    }

    /// What kind of steps an operation has.
    fn kind(&self, data: &Data, operation: &Operation) -> Kind {
        if !has_steps(operation) {
            return Kind::default();
        }
        let work = self.unsplit(data, |setting| {
            let whole = setting.memo.placed(Placement::replicated());
            let placed: Vec<&Placed> = vec![&whole; values(operation)];
            self.of_operation(setting, operation, &placed, 0)
        });
        let kind = |work: Work| Kind {
            light: work.is_light,
            piecewise: work.is_piecewise,
            product: work.has_product,
        };
        work.ok().flatten().map_or_else(Kind::default, kind)
    }
}

impl Takers {
    /// Whether one elementwise operation makes it and another alone takes it.
    fn is_fused(&self) -> bool {
        self.count == 1 && self.light
    }

    /// Somebody wants it whole.
    fn keep(&mut self) {
        self.count += 1;
        self.light = false;
        self.cuts.clear();
    }
}

/// Dims along which slice i of the inputs gives slice i of the outputs, or a part of a sum. A product goes
/// piece by piece along dims that all its tensors have: else each piece would read all of a factor.
fn cuts(data: &Data, operation: &Operation, product: bool) -> Cuts {
    let types = |list: &[TensorId]| -> SmallVec<[TensorType; 4]> {
        list.iter().map(|t| data.tensors[t.index()].ty.clone()).collect()
    };
    let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
    let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
    let mut found = Cuts::new();
    for dim in inputs.iter().chain(&outputs).flat_map(|ty| ty.shape.names()) {
        let all = |types: &[TensorType]| types.iter().all(|ty| ty.shape.contains(dim));
        let goes = match rule.role(dim) {
            Role::Parallel => all(&outputs) && (!product || all(&inputs)),
            Role::Reduced(_) => !product,
            _ => false,
        };
        if goes && !found.contains(&dim) {
            found.push(dim);
        }
    }
    found
}
