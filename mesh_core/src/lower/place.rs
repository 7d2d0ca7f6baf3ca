//! Placement of one op: what it demands of its inputs, what it makes of its outputs.

use crate::graph::{Signature, TensorType};
use crate::names::{
    Axis, AxisList, DimName, Home, Mesh, Placement, ReduceKind, RuleSet, Rules, Shape,
};
use crate::split::{LayoutProblem, Linearity, Role, SplitRule, check_dims};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// Dims with the axes that they are split over.
type SplitDims = SmallVec<[(DimName, AxisList); 4]>;

/// Where an op's tensors lie.
#[derive(Clone, PartialEq, Debug)]
pub struct Placing {
    /// What each input must be moved to.
    pub inputs: Vec<Placement>,
    /// What the local body makes of each output.
    pub outputs: Vec<Placement>,
    /// Each output is the input of its number, wherever that lies.
    pub(crate) alias: bool,
}

impl Placing {
    /// Demands and results.
    pub fn new(inputs: Vec<Placement>, outputs: Vec<Placement>) -> Self {
        Self { inputs, outputs, alias: false }
    }

    /// This, done by an owner: what an op says nothing of along the owner's axis is the owner's alone.
    pub(crate) fn by_owner(mut self, owner: Option<(Axis, usize)>) -> Self {
        let Some((axis, coordinate)) = owner else { return self };
        let mut placements = self.inputs.iter().chain(&self.outputs);
        let is_used = |p: &Placement| p.dim_on(axis).is_some() || p.pending_axes().contains(&axis);
        if self.alias || placements.any(is_used) {
            return self;
        }
        for placement in self.inputs.iter_mut().chain(&mut self.outputs) {
            *placement = std::mem::take(placement).with_owner(axis, coordinate);
        }
        self
    }
}

/// What an op's placement rule sees.
pub struct PlaceCx<'a> {
    pub(crate) signature: Signature<'a>,
    pub(crate) mesh: &'a Mesh,
    pub(crate) rules: &'a Rules,
    pub(crate) set: RuleSet,
    pub(crate) home: &'a Home,
    /// Where the inputs lie as they were made.
    pub(crate) available: Vec<Placement>,
    /// Inputs whose pending sums are resolved for somebody else anyway.
    pub(crate) settled: Vec<bool>,
    /// Inputs that are a number known when the graph was made, finite and not 0.
    pub(crate) known: Vec<bool>,
    /// Problems, with the number of the tensor concerned (inputs, then outputs).
    pub(crate) problems: RefCell<Vec<(LayoutProblem, usize)>>,
    /// Whether the op was placed by its split rule, which all its tensors' dims must obey together.
    pub(crate) by_rule: Cell<bool>,
}

impl PlaceCx<'_> {
    /// Global types.
    pub fn signature(&self) -> Signature<'_> {
        self.signature
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        self.mesh
    }

    /// Where the layout wants a tensor of this shape in this op.
    pub fn wanted(&self, shape: &Shape) -> Placement {
        self.rules.placement(self.set, self.home, shape)
    }

    /// Where input `i` lies as it was made, pending sums included.
    pub fn available(&self, i: usize) -> &Placement {
        &self.available[i]
    }

    /// The output is the input, wherever it lies.
    pub fn alias(&self) -> Placing {
        self.aliases(1)
    }

    /// Output `i` is input `i`, wherever that lies; inputs beyond the outputs stay where they are.
    pub(crate) fn aliases(&self, outputs: usize) -> Placing {
        let inputs = self.available.clone();
        let outputs = inputs[..outputs].to_vec();
        Placing { inputs, outputs, alias: true }
    }

    /// Where the inputs lie; sums that are settled for others anyway count as settled.
    pub(crate) fn all_available(&self) -> Vec<Placement> {
        let place = |(i, placement): (usize, &Placement)| {
            let settle = self.settled[i] && placement.pending().is_some();
            if settle { self.wanted(&self.signature.inputs[i].shape) } else { placement.clone() }
        };
        self.available.iter().enumerate().map(place).collect()
    }

    fn tensors(&self) -> impl Iterator<Item = &TensorType> {
        self.signature.inputs.iter().chain(self.signature.outputs)
    }

    /// Records what is illegal about laying out output `i` as the layout says.
    pub fn check_output(&self, i: usize) {
        let shape = &self.signature.outputs[i].shape;
        let mut dims = self.split_dims();
        dims.retain(|(dim, _)| shape.contains(*dim));
        let found = check_dims(self.mesh, &[shape], &dims);
        let number = self.signature.inputs.len() + i;
        self.problems.borrow_mut().extend(found.into_iter().map(|(problem, _)| (problem, number)));
    }

    fn check_among(&self, dims: &[(DimName, AxisList)]) {
        let shapes: SmallVec<[_; 4]> = self.tensors().map(|t| &t.shape).collect();
        self.problems.borrow_mut().extend(check_dims(self.mesh, &shapes, dims));
    }

    /// The split dims of the union of all tensors.
    fn split_dims(&self) -> SplitDims {
        let mut dims = SplitDims::new();
        for name in self.tensors().flat_map(|t| t.shape.names()) {
            let axes = self.rules.axes_of(self.set, self.home, name);
            if !axes.is_empty() && dims.iter().all(|(known, _)| *known != name) {
                dims.push((name, AxisList::from_slice(axes)));
            }
        }
        dims
    }

    /// The placement that a split rule implies.
    ///
    /// Inputs are demanded as the layout says. Split `Reduced` dims leave the outputs that lack them
    /// pending. What an input owes is carried if the op is linear there, no dim in this op is split
    /// over its axes, the outputs are no larger than the inputs that carry it, and not all of those
    /// are resolved for others anyway. Where several owe over different axes, each is made to owe
    /// over all of them.
    ///
    /// A selection is carried by ops that move elements; by ops that add them it is carried as a
    /// sum, of which all terms but one are zero. A sum is carried by both, and by ops that multiply
    /// it if the other factors are finite constants or the outputs are smaller than the inputs. The
    /// other factors meet partial sums there, so a product may overflow, or be NaN beside an infinite
    /// factor, where the whole sum's would not.
    pub fn by_rule(&self, rule: &SplitRule) -> Placing {
        let dims = self.split_dims();
        self.check_among(&dims);
        self.ruled(rule, &dims, &|shape| self.wanted(shape))
    }

    /// As [`by_rule`](Self::by_rule), but that the split of `from` passes to `to`, beside that which `to` has: in
    /// this op `from` is whole. Inputs and outputs that have both dims are exchanged by all-to-alls on their way
    /// here, and from here. A size of `to` that does not divide so is a problem.
    pub fn by_rule_passing(&self, rule: &SplitRule, from: DimName, to: DimName) -> Placing {
        let [passed, own] = [from, to].map(|dim| self.rules.axes_of(self.set, self.home, dim));
        if passed.is_empty() {
            return self.by_rule(rule);
        }
        let mut dims = self.split_dims();
        self.check_among(&dims);
        let more = passed.iter().filter(|axis| !own.contains(axis));
        let axes: AxisList = own.iter().chain(more).copied().collect();
        self.check_passing([from, to], &axes);
        dims.retain(|(dim, _)| ![from, to].contains(dim));
        dims.push((to, axes.clone()));
        self.ruled(rule, &dims, &|shape| {
            let wanted = self.wanted(shape).split(from, &[]);
            if shape.contains(to) { wanted.split(to, &axes) } else { wanted }
        })
    }

    /// Whether a dim that a split passes to divides over all the axes that it has then.
    fn check_passing(&self, [from, to]: [DimName; 2], axes: &AxisList) {
        let parts = self.mesh.group_size(axes);
        let sizes = self.tensors().map(|t| t.shape.get(to)).enumerate();
        let mut odd = sizes.filter_map(|(i, dim)| Some((i, dim?.size)));
        let Some((holder, size)) = odd.find(|(_, size)| size % parts != 0) else { return };
        let axes = self.mesh.list(axes);
        let problem = LayoutProblem::Passing { from, to, size, axes, parts };
        self.problems.borrow_mut().push((problem, holder));
    }

    /// Where things lie by a rule whose dims are split so; `wanted` says where each tensor lies but for sums.
    fn ruled(
        &self,
        rule: &SplitRule,
        dims: &[(DimName, AxisList)],
        wanted: &dyn Fn(&Shape) -> Placement,
    ) -> Placing {
        self.by_rule.set(true);
        let mut reduced: Option<(ReduceKind, AxisList)> = None;
        let mut of_dims: SmallVec<[(DimName, &AxisList); 4]> = SmallVec::new();
        for (dim, axes) in dims {
            match rule.role(*dim) {
                Role::Parallel | Role::Exchange(_) => {}
                Role::Reduced(kind) | Role::ExchangeReduced(kind, _) => {
                    reduced.get_or_insert((kind, AxisList::new())).1.extend_from_slice(axes);
                    of_dims.push((*dim, axes));
                }
                Role::Whole(reason) => self.refuse_whole(*dim, axes, reason),
            }
        }
        let mut inputs: Vec<_> = self.signature.inputs.iter().map(|t| wanted(&t.shape)).collect();
        let mut pending = reduced;
        let carries = |kind| matches!(kind, ReduceKind::Sum | ReduceKind::Select);
        if pending.as_ref().is_none_or(|(kind, _)| carries(*kind))
            && let Some(carried) = self.carried(rule, dims, wanted)
        {
            for &i in carried.set {
                inputs[i] = inputs[i].clone().with_pending(carried.kind, &carried.axes);
            }
            let (kind, axes) = pending.get_or_insert((carried.kind, AxisList::new()));
            if *kind != carried.kind {
                *kind = ReduceKind::Sum;
            }
            axes.extend_from_slice(&carried.axes);
        }
        let output = |t: &TensorType| {
            let wanted = wanted(&t.shape);
            let Some((kind, axes)) = &pending else { return wanted };
            // An output that has a reduced dim owes nothing over its axes.
            let has = |axis: &Axis| {
                let mut of = of_dims.iter().filter(|(_, axes)| axes.contains(axis));
                of.any(|(dim, _)| t.shape.contains(*dim))
            };
            let owed: AxisList = axes.iter().copied().filter(|axis| !has(axis)).collect();
            wanted.with_pending(*kind, &owed)
        };
        let outputs = self.signature.outputs.iter().map(output).collect();
        Placing::new(inputs, outputs)
    }

    pub(crate) fn refuse_whole(&self, dim: DimName, axes: &AxisList, reason: &'static str) {
        let holder = self.tensors().position(|t| t.shape.contains(dim)).unwrap_or(0);
        let axes = self.mesh.list(axes);
        self.problems.borrow_mut().push((LayoutProblem::Whole { dim, axes, reason }, holder));
    }

    /// The linearity set whose pending value is worth carrying.
    fn carried<'r>(
        &self,
        rule: &'r SplitRule,
        dims: &[(DimName, AxisList)],
        wanted: &dyn Fn(&Shape) -> Placement,
    ) -> Option<Carried<'r>> {
        let bytes = |ty: &TensorType| {
            let local = wanted(&ty.shape).local_shape(self.mesh, &ty.shape);
            local.map_or(ty.shape.size(), |shape| shape.size()).saturating_mul(ty.dtype.size())
        };
        let made = self.signature.outputs.iter().map(bytes).fold(0, usize::saturating_add);
        let held = |set: &[usize]| {
            let inputs = set.iter().map(|&i| bytes(&self.signature.inputs[i]));
            inputs.fold(0, usize::saturating_add)
        };
        let pays = |carried: &Carried<'_>| {
            let held = held(carried.set);
            let settled = carried.set.iter().all(|&i| self.settled[i]);
            !settled && (made < held || made == held && self.scales(rule.linearity(), carried.set))
        };
        let carried = rule.linear_sets().iter().filter_map(|set| {
            let (kind, axes) = self.owed(rule.linearity(), set, dims)?;
            Some(Carried { set, kind, axes })
        });
        // Of equals the first.
        carried
            .filter(pays)
            .reduce(|best, next| if held(next.set) > held(best.set) { next } else { best })
    }

    /// Whether the set's elements are multiplied with nothing but numbers that are known to be finite.
    fn scales(&self, linearity: Linearity, set: &[usize]) -> bool {
        let mut others = (0..self.signature.inputs.len()).filter(|i| !set.contains(i));
        linearity != Linearity::Multiplies || others.all(|i| self.known[i])
    }

    /// What a set's inputs are to owe, and over which axes: those over which all of them owe; or, if
    /// several owe what nobody else settles, those over which any of these does, so that one
    /// settling does for all. No dim here uses them.
    fn owed(
        &self,
        linearity: Linearity,
        set: &[usize],
        dims: &[(DimName, AxisList)],
    ) -> Option<(ReduceKind, AxisList)> {
        let owner = self.home.owner.map(|(axis, _)| axis);
        let free = |axis| owner != Some(axis) && dims.iter().all(|(_, axes)| !axes.contains(&axis));
        let carries = |kind| match kind {
            ReduceKind::Sum => true,
            ReduceKind::Select => linearity != Linearity::Multiplies,
            _ => false,
        };
        let of = |i: usize| match self.available[i].pending() {
            Some(kind) if carries(kind) => self.available[i].pending_axes(),
            _ => &[],
        };
        let open = |&&i: &&usize| !self.settled[i] && of(i).iter().any(|&axis| free(axis));
        let several = set.iter().filter(open).count() > 1;
        let mut axes = AxisList::new();
        for &axis in set.iter().flat_map(|&i| of(i)) {
            let all = set.iter().all(|&i| of(i).contains(&axis));
            if free(axis) && (all || several) && !axes.contains(&axis) {
                axes.push(axis);
            }
        }
        let sums = set.iter().any(|&i| self.available[i].pending() == Some(ReduceKind::Sum));
        let selects = linearity == Linearity::Moves && !sums;
        let kind = if selects { ReduceKind::Select } else { ReduceKind::Sum };
        (!axes.is_empty()).then_some((kind, axes))
    }
}

/// What an op carries on.
struct Carried<'r> {
    /// The inputs that owe it.
    set: &'r [usize],
    kind: ReduceKind,
    axes: AxisList,
}
