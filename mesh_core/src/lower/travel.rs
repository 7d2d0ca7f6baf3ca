//! Moving a value from one placement to another, by the route the table says.

use super::emit::Emitter;
use super::local::{Local, extents};
use super::relayout::{Move, Route};
use crate::graph::Report;
use crate::names::{Axis, DType, Placement, Shape};
use crate::program::{Dims, Expr, Extents, Generator, Offset, Operand, Owners, ValueId};

impl Emitter<'_> {
    /// A resolved sum is rounded from its reduction dtype once, a sum that is owed widened to it.
    pub(super) fn cast(&mut self, value: &Local, dtype: DType) -> Result<Local, Report> {
        let dims = (0..value.shape().rank() as u8).collect();
        let operand = Operand { value: value.id, dims };
        let expr = Expr::input(0).cast(dtype);
        let id = self.builder.map(vec![operand], extents(value.shape()), &expr, dtype);
        let id = id.map_err(|message| Report::of("lowering", message))?;
        Ok(Local::new(id, value.shape().clone()))
    }

    /// Leaves the builder with the owners of what has arrived.
    pub(super) fn travel(
        &mut self,
        from: Local,
        placement: &Placement,
        route: &Route,
    ) -> Result<Local, Report> {
        let mut now = from;
        let mut owners = Owners::from_slice(placement.owned());
        self.builder.owners(&owners);
        for step in &route.moves {
            let shape = now.shape().clone();
            let at = |dim| shape.position(dim).unwrap_or(0);
            let id = match step {
                Move::Slice { dim, axes } => {
                    let position = at(*dim);
                    let mut sizes = extents(&shape);
                    sizes[position] /= self.setting.mesh.group_size(axes);
                    let offset = Offset::sliced(axes, sizes[position]);
                    let mut begin = vec![Offset::default(); sizes.len()];
                    begin[position] = offset;
                    self.builder.cut(now.id, begin, sizes)
                }
                Move::ReduceScatter { kind, dim, axes } => {
                    self.builder.reduce_scatter(*kind, axes, at(*dim), now.id)
                }
                Move::AllToAll { from, to, axes } => {
                    self.builder.all_to_all(axes, at(*to), at(*from), now.id)
                }
                Move::AllReduce { kind, axes } => self.builder.all_reduce(*kind, axes, now.id),
                Move::AllGather { dim, axes } => self.builder.all_gather(axes, at(*dim), now.id),
                Move::Owe { axes } => self.owe(&now, axes)?,
                Move::ReduceTo { kind, axis, coordinate } => {
                    let id = self.builder.reduce_to(*kind, &[*axis], *coordinate, now.id);
                    owners.push((*axis, *coordinate));
                    id
                }
                Move::Own { axis, coordinate } => {
                    owners.push((*axis, *coordinate));
                    now.id
                }
                Move::Broadcast { axis, coordinate } => {
                    owners.retain(|(owned, _)| owned != axis);
                    self.builder.owners(&owners);
                    self.builder.broadcast(&[*axis], *coordinate, now.id)
                }
            };
            self.builder.owners(&owners);
            let sizes = self.builder.value(id).extents.clone();
            let dims = shape.iter().zip(sizes).map(|(d, size)| d.resized(size));
            now = Local::new(id, Shape::new(dims).unwrap_or_default());
        }
        Ok(now)
    }

    /// The value on the first of a group, zeros on the others.
    fn owe(&mut self, value: &Local, axes: &[Axis]) -> Result<ValueId, Report> {
        let members = self.setting.mesh.group_size(axes);
        let begin = vec![Offset::sliced(axes, 1)];
        let (one, all) = (Extents::from_slice(&[1]), Extents::from_slice(&[members]));
        let rank = self.builder.generate(Generator::Iota(0), DType::I32, begin, all, one);
        let rank = self.builder.reshape(rank, Extents::new());
        let dtype = self.builder.value(value.id).dtype;
        let dims = (0..value.shape().rank() as u8).collect();
        let inputs =
            vec![Operand { value: rank, dims: Dims::new() }, Operand { value: value.id, dims }];
        let expr = Expr::input(0).equal(0.0).select(Expr::input(1), 0.0);
        let made = self.builder.map(inputs, extents(value.shape()), &expr, dtype);
        made.map_err(|message| Report::of("lowering", message))
    }
}
