//! Collectives with everything looked up.

use super::comm::courier::{Begun, Peers};
use super::comm::{Collective, Comm, Exchange, Group, Part, Parts};
use super::executor::Action;
use super::prepare::{Preparing, describe, expect};
use crate::names::Axis;
use crate::program::{Step, Value};

impl Preparing<'_> {
    /// What a processor does at a collective: meet its group along `axes`, or begin to.
    pub(super) fn meeting(
        &self,
        index: usize,
        axes: &[Axis],
        begins: bool,
        peers: &mut Peers<impl Comm>,
    ) -> Result<Action, String> {
        let known = axes.iter().all(|axis| self.target.mesh.axes().any(|a| a == *axis));
        expect(known, "an axis is not of this mesh")?;
        let group = peers.comm.group(axes);
        let collective = self.collective(&self.program.steps[index].step, group)?;
        if !begins {
            return Ok(Action::Meet { group, collective });
        }
        let apart = peers.second()?.group(axes);
        let begun = Begun::new(apart, collective, describe(self.program, index));
        Ok(Action::Begin { group, begun })
    }

    /// What a collective does among the members of a group.
    fn collective(&self, step: &Step, group: Group) -> Result<Collective, String> {
        Ok(match step {
            Step::AllReduce { kind, order, inputs, outs, .. } => {
                expect(!inputs.is_empty() && inputs.len() == outs.len(), "inputs and outs differ")?;
                let mut parts = Parts::new();
                for (&input, &out) in inputs.iter().zip(outs) {
                    expect(self.value(input) == self.value(out), "types differ")?;
                    let same = self.value(input).dtype == self.value(inputs[0]).dtype;
                    expect(same, "dtypes differ")?;
                    let elements = self.value(input).len();
                    parts.push(Part { input: self.at(input), out: self.at(out), elements });
                }
                let fold = self.fold(*kind, inputs[0])?;
                Collective::AllReduce { fold, order: *order, parts }
            }
            Step::AllGather { dim, input, out, .. } => {
                let position = self.position(*dim, *input, *out)?;
                let value = self.value(*input);
                expect(value.bytes() * group.size == self.value(*out).bytes(), "sizes differ")?;
                let outer = outer(value, position);
                let chunk = value.bytes() / outer.max(1);
                let (input, out) = (self.at(*input), self.at(*out));
                Collective::AllGather { outer, chunk, input, out }
            }
            Step::ReduceScatter { kind, dim, input, out, .. } => {
                let position = self.position(*dim, *input, *out)?;
                let value = self.value(*out);
                expect(value.bytes() * group.size == self.value(*input).bytes(), "sizes differ")?;
                let outer = outer(value, position);
                let chunk = value.len() / outer.max(1);
                let fold = self.fold(*kind, *input)?;
                let (input, out) = (self.at(*input), self.at(*out));
                Collective::ReduceScatter { fold, outer, chunk, input, out }
            }
            Step::AllToAll { split, concat, input, out, .. } => {
                let split = self.position(*split, *input, *out)?;
                let concat = self.position(*concat, *input, *out)?;
                let value = self.value(*input);
                let extents: Vec<_> =
                    value.order.iter().map(|&dim| value.extents[dim as usize]).collect();
                expect(extents[split].is_multiple_of(group.size), "the split does not divide")?;
                expect(value.bytes() == self.value(*out).bytes(), "sizes differ")?;
                let element = value.dtype.size();
                let exchange = Exchange::new(&extents, split, concat, group.size, element).into();
                let (input, out) = (self.at(*input), self.at(*out));
                Collective::AllToAll { exchange, input, out }
            }
            Step::Permute { shift, wrap, input, out, .. } => {
                expect(self.value(*input) == self.value(*out), "types differ")?;
                let bytes = self.value(*input).bytes();
                let (input, out) = (self.at(*input), self.at(*out));
                Collective::Permute { shift: *shift, wrap: *wrap, bytes, input, out }
            }
            Step::ReduceTo { kind, root, input, out, .. } => {
                expect(self.value(*input) == self.value(*out), "types differ")?;
                expect(*root < group.size, "the root is no member")?;
                let (fold, elements) = (self.fold(*kind, *input)?, self.value(*input).len());
                let (root, input, out) = (*root, self.at(*input), self.at(*out));
                Collective::ReduceTo { fold, root, elements, input, out }
            }
            Step::Broadcast { root, input, out, .. } => {
                expect(self.value(*input) == self.value(*out), "types differ")?;
                expect(*root < group.size, "the root is no member")?;
                let (root, bytes) = (*root, self.value(*input).bytes());
                let (input, out) = (self.at(*input), self.at(*out));
                Collective::Broadcast { root, bytes, input, out }
            }
            _ => return Err("it is no collective".to_owned()),
        })
    }
}

/// How many times the dims from `position` inwards are laid out one after the other.
fn outer(value: &Value, position: usize) -> usize {
    value.order[..position].iter().map(|&dim| value.extents[dim as usize]).product()
}
