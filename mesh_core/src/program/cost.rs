//! What a step costs one processor, as arithmetic on extents.

use super::{Program, Step, Value, ValueId};
use crate::names::Mesh;
use indexmap::IndexMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Work and traffic of one processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cost {
    /// Floating-point operations; a multiply-add is two.
    pub flops: u64,
    /// Bytes of local memory read and written.
    pub bytes: u64,
    /// Bytes received from other processors, by the best known algorithm.
    pub sent: u64,
}

impl Cost {
    /// That of `count` repetitions.
    pub fn times(self, count: u64) -> Self {
        Self { flops: self.flops * count, bytes: self.bytes * count, sent: self.sent * count }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops + other.flops,
            bytes: self.bytes + other.bytes,
            sent: self.sent + other.sent,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

/// The cost of one step of a verified program.
///
/// Reads, writes and reshapes in declared order cost nothing: a plan makes them names for memory
/// that is already filled. Taps of a convolution that meet padding are counted.
pub fn cost(program: &Program, step: &Step, mesh: &Mesh) -> Cost {
    let value = |id: ValueId| program.value(id);
    let bytes_of = |ids: &[ValueId]| ids.iter().map(|&id| value(id).bytes() as u64).sum::<u64>();
    let bytes = bytes_of(&step.inputs()) + bytes_of(step.outs());
    let group = step.axes().map_or(1, |axes| mesh.group_size(axes)) as u64;
    // What a processor receives of `size` bytes of which every member holds an equal share.
    let others = |size: u64| (size * (group - 1)).div_ceil(group);
    match step {
        Step::Map { body, outs, .. } => {
            let len = outs.first().map_or(0, |&out| value(out).len());
            Cost { flops: (body.flops() * len) as u64, bytes, sent: 0 }
        }
        Step::Reduce { input, .. } => {
            Cost { flops: value(input.value).len() as u64, bytes, sent: 0 }
        }
        Step::Contract { .. } | Step::Convolve { .. } => {
            Cost { flops: products(program, step).saturating_mul(2), bytes, sent: 0 }
        }
        Step::Move { pieces, out, .. } => {
            let of_piece = |extents: &[usize], dims: &[u8]| -> usize {
                dims.iter().map(|&label| extents[usize::from(label)]).product()
            };
            let elements: usize = pieces.iter().map(|p| of_piece(&p.extents, &p.input.dims)).sum();
            let out = value(*out);
            let read = elements * out.dtype.size();
            Cost { flops: 0, bytes: (read + out.bytes()) as u64, sent: 0 }
        }
        Step::Generate { .. } => Cost { flops: 0, bytes, sent: 0 },
        Step::Gather { indices, out, .. } => {
            // Rows that nobody asks for are not read.
            let bytes = value(indices.value).bytes() + 2 * value(*out).bytes();
            Cost { flops: 0, bytes: bytes as u64, sent: 0 }
        }
        Step::Scatter { updates, .. } => {
            Cost { flops: value(updates.value).len() as u64, bytes, sent: 0 }
        }
        Step::Scan { input, .. } => Cost { flops: value(*input).len() as u64, bytes, sent: 0 },
        Step::Sort { inputs, dim, .. } => {
            let keys = inputs.first().map(|keys| (value(keys.value), keys));
            let flops = keys.map_or(0, |(value, keys)| {
                let at = keys.dims.iter().position(|label| label == dim).unwrap_or(0);
                let line = value.extents.get(at).copied().unwrap_or(1);
                // Comparisons of a binary sort.
                value.len() as u64 * u64::from(line.next_power_of_two().trailing_zeros())
            });
            Cost { flops, bytes, sent: 0 }
        }
        Step::Call { kernel, inputs, outs } => {
            let types = |ids: &[ValueId]| ids.iter().map(|&id| value(id)).collect::<Vec<_>>();
            Cost { flops: kernel.flops(&types(inputs), &types(outs)), bytes, sent: 0 }
        }
        Step::Reshape { input, out } => copy(&[value(*input), value(*out)], bytes),
        Step::Read { out, .. } => copy(&[value(*out)], 2 * bytes),
        Step::Write { input, .. } => copy(&[value(*input)], 2 * bytes),
        Step::Barrier { .. } | Step::Await { .. } => Cost::default(),
        Step::Loop(rounds) => {
            let round: Cost = (rounds.body.steps.iter())
                .map(|node| self::cost(&rounds.body, &node.step, mesh))
                .sum();
            // Slices and stacks are looked at where they lie; what is carried is copied in.
            let moved = 2 * bytes_of(&rounds.carried);
            round.times(rounds.expected() as u64) + Cost { bytes: moved, ..Cost::default() }
        }
        Step::AllReduce { inputs, .. } => {
            let elements = inputs.iter().map(|&input| value(input).len() as u64).sum();
            let sent = 2 * others(bytes_of(inputs));
            Cost { flops: others(elements), bytes, sent }
        }
        Step::ReduceScatter { input, .. } => {
            let input = value(*input);
            let sent = others(input.bytes() as u64);
            Cost { flops: others(input.len() as u64), bytes, sent }
        }
        Step::AllGather { input, .. } => {
            Cost { flops: 0, bytes, sent: (group - 1) * value(*input).bytes() as u64 }
        }
        Step::ReduceTo { input, .. } => {
            // What the root receives, and adds up.
            let (input, from) = (value(*input), group - 1);
            Cost { flops: from * input.len() as u64, bytes, sent: from * input.bytes() as u64 }
        }
        Step::Broadcast { input, .. } => {
            let sent = if group > 1 { value(*input).bytes() as u64 } else { 0 };
            Cost { flops: 0, bytes, sent }
        }
        Step::AllToAll { input, .. } => {
            Cost { flops: 0, bytes, sent: others(value(*input).bytes() as u64) }
        }
        Step::Permute { shift, wrap, input, .. } => {
            let shift = shift.unsigned_abs();
            let stays = if *wrap { shift % group == 0 } else { shift == 0 || shift >= group };
            let sent = if stays { 0 } else { value(*input).bytes() as u64 };
            Cost { flops: 0, bytes, sent }
        }
    }
}

fn copy(values: &[&Value], bytes: u64) -> Cost {
    let free = values.iter().all(|value| value.in_order());
    Cost { bytes: if free { 0 } else { bytes }, ..Cost::default() }
}

/// Number of products of a contraction or convolution: its iteration space, without the labels that
/// windows derive from others.
fn products(program: &Program, step: &Step) -> u64 {
    let (lhs, rhs, windows, out) = match step {
        Step::Contract { lhs, rhs, out } => (lhs, rhs, &[][..], out),
        Step::Convolve { lhs, rhs, windows, out } => (lhs, rhs, windows.as_slice(), out),
        _ => return 0,
    };
    let mut extents: IndexMap<u8, usize> =
        (0..).zip(program.value(*out).extents.iter().copied()).collect();
    for operand in [lhs, rhs] {
        let value = program.value(operand.value);
        extents.extend(operand.dims.iter().copied().zip(value.extents.iter().copied()));
    }
    let derived = |label: &u8| windows.iter().any(|window| window.input == *label);
    let counted = extents.iter().filter(|(label, _)| !derived(label));
    counted.fold(1, |product: u64, (_, &extent)| product.saturating_mul(extent as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Axis, ReduceKind};
    use crate::program::Builder;
    use crate::program::sketch::{Sketch, axis, built, every_form, looped, square};

    #[test]
    fn costs_of_every_form() {
        let mesh = square();
        let program = built(&mesh, every_form);
        let line = |step: &Step| {
            let Cost { flops, bytes, sent } = cost(&program, step, &mesh);
            format!("{} {flops} {bytes} {sent}", step.form())
        };
        let lines: Vec<_> = program.steps.iter().map(|node| line(&node.step)).collect();
        // Form, flops, bytes, sent.
        let expected = [
            "read 0 0 0",
            // Images × outputs × taps × channels in × channels out.
            &format!("convolve {} {} 0", 2 * 4 * 4 * 3 * 2 * 6, 4 * (64 + 36 + 96)),
            "reshape 0 0 0",
            &format!("contract {} {} 0", 2 * 16 * 16 * 6, 4 * (96 + 96 + 256)),
            &format!("reduce 256 {} 0", 4 * (256 + 16)),
            // A comparison; selection is free.
            &format!("map 256 {} 0", 4 * (256 + 16 + 256)),
            &format!("move 0 {} 0", 4 * (32 + 32)),
            &format!("generate 0 {} 0", 4 * 32),
            &format!("map 32 {} 0", 4 * (32 + 32 + 32)),
            // Half of it twice; half of the additions.
            &format!("all_reduce 16 {} {}", 4 * (32 + 32), 4 * 32),
            &format!("reduce_scatter 24 {} {}", 4 * (32 + 8), 4 * 24),
            &format!("all_to_all 0 {} {}", 4 * (8 + 8), 4 * 4),
            &format!("all_gather 0 {} {}", 4 * (8 + 16), 4 * 8),
            &format!("permute 0 {} {}", 4 * (16 + 16), 4 * 16),
            "write 0 0 0",
            "generate 0 8 0",
            // Two rows of four and their indices.
            &format!("gather 0 {} 0", 4 * (2 + 2 * 8)),
            &format!("scatter 8 {} 0", 4 * (8 + 2 + 8)),
            &format!("scan 8 {} 0", 4 * (8 + 8)),
            // Four lines of two, with a position each.
            &format!("sort 8 {} 0", 4 * (8 + 2 + 4 + 4)),
            // One addition per element, by its own account.
            &format!("call 8 {} 0", 4 * (8 + 4)),
            &format!("all_reduce 4 {} {}", 4 * (8 + 8), 4 * 8),
            &format!("scan 8 {} 0", 4 * (8 + 8)),
            "await 0 0 0",
        ];
        assert_eq!(lines, expected);
        let total: Cost = program.steps.iter().map(|node| cost(&program, &node.step, &mesh)).sum();
        assert_eq!(total.sent, 4 * (32 + 24 + 4 + 8 + 16 + 8));
    }

    #[test]
    fn a_loop_costs_its_rounds() {
        let mesh = square();
        let program = looped(&mesh);
        let costs: Vec<_> =
            program.steps.iter().map(|node| cost(&program, &node.step, &mesh)).collect();
        // Of one round: 4 products and sums, 4 arrays of 4 f32; what is carried is copied in.
        let bytes = 3 * 4 * 16 + 2 * 16;
        let expected = [Cost::default(), Cost { flops: 3 * 8, bytes, sent: 0 }];
        assert_eq!(costs, expected);
    }

    #[test]
    fn one_owner_receives_what_the_others_have() {
        let mesh = "rows:4".parse().unwrap();
        let sent = |one: fn(&mut Builder<'_>, Axis, ValueId) -> ValueId| {
            let program = built(&mesh, |b| {
                let partial = b.fed("partial", &[4]);
                one(b, axis(&mesh, "rows"), partial);
            });
            cost(&program, &program.steps[0].step, &mesh).sent
        };
        assert_eq!(sent(|b, rows, x| b.reduce_to(ReduceKind::Sum, &[rows], 2, x)), 3 * 16);
        assert_eq!(sent(|b, rows, x| b.broadcast(&[rows], 2, x)), 16);
    }

    #[test]
    fn values_that_stay_are_not_sent() {
        let mesh = square();
        let sent = |shift, wrap| {
            let program = built(&mesh, |b| {
                let image = b.fed("image", &[4]);
                b.permute(&[axis(&mesh, "rows"), axis(&mesh, "cols")], shift, wrap, image);
            });
            cost(&program, &program.steps[0].step, &mesh).sent
        };
        let table = [(1, false, 16), (0, false, 0), (-4, false, 0), (-4, true, 0), (5, true, 16)];
        for (shift, wrap, bytes) in table {
            assert_eq!(sent(shift, wrap), bytes, "{shift} {wrap}");
        }
    }
}
