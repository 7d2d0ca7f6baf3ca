//! Relayout: from any placement of a tensor to any other, by the cheapest collectives.
//!
//! A dim split over axes `[a, b]` (a major) can give up only its last axes and gain some only at
//! the end. So each dim keeps the common prefix of what it has and what is wanted, loses the rest,
//! then gains the rest. Steps are chosen in the order that keeps what travels small: cut what is
//! replicated (free), reduce-scatter, exchange between dims, all-reduce, and gather last.

use crate::names::{Axis, AxisList, DimName, Mesh, Placement, ReduceKind, Shape};

/// One step of a relayout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Move {
    /// Each processor keeps its part; nothing travels.
    Slice {
        /// The dim that is cut.
        dim: DimName,
        /// Over which axes.
        axes: AxisList,
    },
    /// A pending value is folded; each processor gets its part.
    ReduceScatter {
        /// How to fold.
        kind: ReduceKind,
        /// The dim that is cut.
        dim: DimName,
        /// Over which axes.
        axes: AxisList,
    },
    /// A split passes from one dim to another.
    AllToAll {
        /// The dim made whole.
        from: DimName,
        /// The dim that is cut.
        to: DimName,
        /// Over which axes.
        axes: AxisList,
    },
    /// A pending value is folded; every processor gets it whole.
    AllReduce {
        /// How to fold.
        kind: ReduceKind,
        /// Over which axes.
        axes: AxisList,
    },
    /// A pending value is folded for one processor.
    ReduceTo {
        /// How to fold.
        kind: ReduceKind,
        /// Over which axis.
        axis: Axis,
        /// Who gets it.
        coordinate: usize,
    },
    /// One processor keeps a whole value; nothing travels.
    Own {
        /// Along which axis.
        axis: Axis,
        /// Who keeps it.
        coordinate: usize,
    },
    /// What one processor has goes to all.
    Broadcast {
        /// Along which axis.
        axis: Axis,
        /// Who has it.
        coordinate: usize,
    },
    /// A whole value becomes pending, a sum or a selection: the first of the group keeps it, the
    /// others have zeros.
    Owe {
        /// Over which axes.
        axes: AxisList,
    },
    /// Parts are joined.
    AllGather {
        /// The dim made whole.
        dim: DimName,
        /// Over which axes.
        axes: AxisList,
    },
}

/// The steps from one placement to another and the bytes each processor receives on the way.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Route {
    pub(crate) moves: Vec<Move>,
    pub(crate) bytes: usize,
}

/// Bytes that each processor receives when a tensor moves between two placements; `None` if there
/// is no way (a pending maximum cannot be made out of a whole value, nor a selection out of a sum).
pub fn cost(
    mesh: &Mesh,
    shape: &Shape,
    element: usize,
    from: &Placement,
    to: &Placement,
) -> Option<usize> {
    route(mesh, shape, element, from, to).map(|route| route.bytes)
}

/// The cheapest way from `from` to `to`.
pub(crate) fn route(
    mesh: &Mesh,
    shape: &Shape,
    element: usize,
    from: &Placement,
    to: &Placement,
) -> Option<Route> {
    if !leads(from.pending(), to.pending()) {
        return None;
    }
    let local = from.local_shape(mesh, shape)?;
    let mut walk = Walk {
        mesh,
        shape,
        now: from.clone(),
        to,
        route: Route::default(),
        bytes: local.size() * element,
    };
    while walk.now != *to {
        let moved = walk.slice()
            || walk.reduce_scatter()
            || walk.own()
            || walk.all_to_all()
            || walk.all_reduce()
            || walk.broadcast()
            || walk.all_gather()
            || walk.as_sum()
            || walk.owe();
        if !moved {
            return None;
        }
    }
    Some(walk.route)
}

/// Whether what owes `from` can be made to owe `to`. A selection is a sum of which all terms but one
/// are zero.
fn leads(from: Option<ReduceKind>, to: Option<ReduceKind>) -> bool {
    use ReduceKind::{Select, Sum};
    match (from, to) {
        (_, None) => true,
        (None, Some(to)) => matches!(to, Sum | Select),
        (Some(from), Some(to)) => from == to || (from, to) == (Select, Sum),
    }
}

struct Walk<'a> {
    mesh: &'a Mesh,
    shape: &'a Shape,
    now: Placement,
    to: &'a Placement,
    route: Route,
    /// What each processor holds now.
    bytes: usize,
}

impl Walk<'_> {
    fn dims(&self) -> impl Iterator<Item = DimName> + use<> {
        self.shape.names().collect::<Vec<_>>().into_iter()
    }

    /// What a dim still has to gain, once it has lost what it must.
    fn gains(&self, dim: DimName) -> Option<AxisList> {
        let (now, to) = (self.now.axes(dim), self.to.axes(dim));
        (to.len() > now.len() && to.starts_with(now))
            .then(|| AxisList::from_slice(&to[now.len()..]))
    }

    /// The axes a dim must lose: what it has beyond the common prefix.
    fn loses(&self, dim: DimName) -> AxisList {
        let (now, to) = (self.now.axes(dim), self.to.axes(dim));
        let common = now.iter().zip(to).take_while(|(a, b)| a == b).count();
        AxisList::from_slice(&now[common..])
    }

    fn is_free(&self, axis: Axis) -> bool {
        self.now.dim_on(axis).is_none()
            && !self.now.pending_axes().contains(&axis)
            && self.now.owner(axis).is_none()
    }

    fn add(&mut self, dim: DimName, axes: &[Axis]) {
        let list: AxisList = self.now.axes(dim).iter().chain(axes).copied().collect();
        self.now = self.now.clone().split(dim, &list);
    }

    fn drop_last(&mut self, dim: DimName, count: usize) {
        let list = AxisList::from_slice(self.now.axes(dim));
        self.now = self.now.clone().split(dim, &list[..list.len() - count]);
    }

    fn drop_pending(&mut self, axes: &[Axis]) -> ReduceKind {
        let kind = self.now.pending().unwrap_or(ReduceKind::Sum);
        let rest: AxisList =
            self.now.pending_axes().iter().copied().filter(|axis| !axes.contains(axis)).collect();
        self.now = self.now.clone().with_pending(kind, &rest);
        kind
    }

    fn slice(&mut self) -> bool {
        for dim in self.dims() {
            let Some(gains) = self.gains(dim) else { continue };
            let axes: AxisList = gains.iter().copied().take_while(|&a| self.is_free(a)).collect();
            if !axes.is_empty() {
                self.add(dim, &axes);
                self.bytes /= self.mesh.group_size(&axes);
                self.route.moves.push(Move::Slice { dim, axes });
                return true;
            }
        }
        false
    }

    fn reduce_scatter(&mut self) -> bool {
        for dim in self.dims() {
            let Some(gains) = self.gains(dim) else { continue };
            let owed = |axis: &Axis| self.now.pending_axes().contains(axis);
            let axes: AxisList = gains.iter().copied().take_while(|a| owed(a)).collect();
            if !axes.is_empty() {
                let kind = self.drop_pending(&axes);
                self.add(dim, &axes);
                let whole = self.bytes;
                self.bytes /= self.mesh.group_size(&axes);
                self.route.bytes += whole - self.bytes;
                self.route.moves.push(Move::ReduceScatter { kind, dim, axes });
                return true;
            }
        }
        false
    }

    fn all_to_all(&mut self) -> bool {
        for from in self.dims() {
            let loses = self.loses(from);
            // As many axes at once as can be.
            for axes in (0..loses.len()).map(|first| AxisList::from_slice(&loses[first..])) {
                let gains = |to: &DimName| self.gains(*to).is_some_and(|g| g.starts_with(&axes));
                let Some(to) = self.dims().find(gains) else { continue };
                self.drop_last(from, axes.len());
                self.add(to, &axes);
                self.route.bytes += self.bytes - self.bytes / self.mesh.group_size(&axes);
                self.route.moves.push(Move::AllToAll { from, to, axes });
                return true;
            }
        }
        false
    }

    /// What is whole, or owed, along an axis becomes its owner's.
    fn own(&mut self) -> bool {
        for &(axis, coordinate) in self.to.owned() {
            if self.is_free(axis) {
                self.route.moves.push(Move::Own { axis, coordinate });
            } else if self.now.pending_axes().contains(&axis) {
                let kind = self.drop_pending(&[axis]);
                self.route.bytes += self.bytes * (self.mesh.size(axis) - 1);
                self.route.moves.push(Move::ReduceTo { kind, axis, coordinate });
            } else {
                continue;
            }
            self.now = self.now.clone().with_owner(axis, coordinate);
            return true;
        }
        false
    }

    fn broadcast(&mut self) -> bool {
        let leaves =
            |&&(axis, coordinate): &&(Axis, usize)| self.to.owner(axis) != Some(coordinate);
        let Some(&(axis, coordinate)) = self.now.owned().iter().find(leaves) else { return false };
        self.now = self.now.clone().without_owner(axis);
        self.route.bytes += self.bytes;
        self.route.moves.push(Move::Broadcast { axis, coordinate });
        true
    }

    /// Owed axes that no dim will take over later are settled whole.
    fn all_reduce(&mut self) -> bool {
        let later = |axis: Axis| self.to.dim_on(axis).is_some();
        let stays = |axis: Axis| self.to.pending_axes().contains(&axis);
        let owed = self.now.pending_axes().iter().copied();
        let axes: AxisList = owed.filter(|&axis| !later(axis) && !stays(axis)).collect();
        if axes.is_empty() {
            return false;
        }
        let kind = self.drop_pending(&axes);
        let members = self.mesh.group_size(&axes);
        self.route.bytes += 2 * (self.bytes - self.bytes / members);
        self.route.moves.push(Move::AllReduce { kind, axes });
        true
    }

    /// A selection is counted as a sum, once what is not to be owed is settled; nothing is done.
    fn as_sum(&mut self) -> bool {
        let kinds = (self.now.pending(), self.to.pending());
        let selected = kinds == (Some(ReduceKind::Select), Some(ReduceKind::Sum));
        if selected {
            let axes = AxisList::from_slice(self.now.pending_axes());
            self.now = self.now.clone().with_pending(ReduceKind::Sum, &axes);
        }
        selected
    }

    /// Axes over which a value is to be owed, and that are free by now.
    fn owe(&mut self) -> bool {
        let owed = self.now.pending_axes();
        let axes: AxisList =
            self.to.pending_axes().iter().copied().filter(|axis| !owed.contains(axis)).collect();
        if axes.is_empty() || axes.iter().any(|&axis| !self.is_free(axis)) {
            return false;
        }
        let all: AxisList = owed.iter().chain(&axes).copied().collect();
        let kind = self.to.pending().unwrap_or(ReduceKind::Sum);
        self.now = self.now.clone().with_pending(kind, &all);
        self.route.moves.push(Move::Owe { axes });
        true
    }

    fn all_gather(&mut self) -> bool {
        for dim in self.dims() {
            let axes = self.loses(dim);
            if !axes.is_empty() {
                self.drop_last(dim, axes.len());
                let members = self.mesh.group_size(&axes);
                self.route.bytes += self.bytes * (members - 1);
                self.bytes *= members;
                self.route.moves.push(Move::AllGather { dim, axes });
                return true;
            }
        }
        false
    }
}
