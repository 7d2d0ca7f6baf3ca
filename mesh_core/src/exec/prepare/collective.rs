//! Prepares collectives.

use super::{Preparing, describe, expect};
use crate::exec::action::Action;
use crate::exec::comm::courier::{Begun, Peers};
use crate::exec::comm::{Collective, Comm, Exchange, Group, Part, Parts};
use crate::names::Axis;
use crate::program::{Form, Step, Value};

impl Preparing<'_> {
    /// What a processor does at a collective: meet its group along `axes`, or begin to.
    pub(super) fn meeting(
        &self,
        index: usize,
        axes: &[Axis],
        begins: bool,
        peers: &mut Peers<impl Comm>,
    ) -> Result<Action, String> {
        let known = axes.iter().all(|axis| self.site.mesh.axes().any(|a| a == *axis));
        expect(known, "an axis is not of this mesh")?;
        let group = peers.comm.group(axes);
        let collective = self.collective(&self.block.steps[index], group)?;
        if !begins {
            return Ok(Action::Meet { group, collective });
        }
        let apart = peers.second()?.group(axes);
        let begun = Begun::new(apart, collective, describe(self.name, self.block, index));
        Ok(Action::Begin { group, begun })
    }

    /// What a collective does among the members of a group.
    fn collective(&self, step: &Step, group: Group) -> Result<Collective, String> {
        let (Some(first), Some(&out)) = (step.inputs.first(), step.outs.first()) else {
            return Err("it has no input or no out".to_owned());
        };
        let (input, value, made) = (first.value, self.value(first.value), self.value(out));
        let (from, to) = (self.at(input).cast_const(), self.at(out));
        let same_types = || expect(value == made, "types differ");
        let root_fits = |root: usize| expect(root < group.size, "the root is no member");
        Ok(match &step.form {
            Form::AllReduce(form) => {
                expect(step.inputs.len() == step.outs.len(), "inputs and outs differ")?;
                let mut parts = Parts::new();
                for (input, &out) in step.reads().zip(&step.outs) {
                    expect(self.value(input) == self.value(out), "types differ")?;
                    expect(self.value(input).dtype == value.dtype, "dtypes differ")?;
                    let elements = self.value(input).len();
                    parts.push(Part { input: self.at(input), out: self.at(out), elements });
                }
                let fold = self.fold(form.kind, input)?;
                Collective::AllReduce { fold, order: form.order, parts }
            }
            Form::AllGather(form) => {
                let position = self.position(form.dim, input, out)?;
                expect(value.bytes() * group.size == made.bytes(), "sizes differ")?;
                let outer = outer(value, position);
                let chunk = value.bytes() / outer.max(1);
                Collective::AllGather { outer, chunk, input: from, out: to }
            }
            Form::ReduceScatter(form) => {
                let position = self.position(form.dim, input, out)?;
                expect(made.bytes() * group.size == value.bytes(), "sizes differ")?;
                let outer = outer(made, position);
                let (fold, chunk) = (self.fold(form.kind, input)?, made.len() / outer.max(1));
                Collective::ReduceScatter { fold, outer, chunk, input: from, out: to }
            }
            Form::AllToAll(form) => {
                let split = self.position(form.split, input, out)?;
                let concat = self.position(form.concat, input, out)?;
                let extents: Vec<_> =
                    value.order.iter().map(|&dim| value.extents[dim as usize]).collect();
                expect(extents[split].is_multiple_of(group.size), "the split does not divide")?;
                expect(value.bytes() == made.bytes(), "sizes differ")?;
                let element = value.dtype.size();
                let exchange = Exchange::new(&extents, split, concat, group.size, element).into();
                Collective::AllToAll { exchange, input: from, out: to }
            }
            Form::Permute(form) => {
                same_types()?;
                let source = form.pairs.source(group.rank, group.size);
                let target = form.pairs.target(group.rank, group.size);
                Collective::Permute { source, target, bytes: value.bytes(), input: from, out: to }
            }
            Form::ReduceTo(form) => {
                same_types()?;
                root_fits(form.root)?;
                let (fold, elements) = (self.fold(form.kind, input)?, value.len());
                Collective::ReduceTo { fold, root: form.root, elements, input: from, out: to }
            }
            Form::Broadcast(form) => {
                same_types()?;
                root_fits(form.root)?;
                let (root, bytes) = (form.root, value.bytes());
                Collective::Broadcast { root, bytes, input: from, out: to }
            }
            _ => return Err("it is no collective".to_owned()),
        })
    }
}

/// How many times the dims from `position` inwards are laid out one after the other.
fn outer(value: &Value, position: usize) -> usize {
    value.order[..position].iter().map(|&dim| value.extents[dim as usize]).product()
}
