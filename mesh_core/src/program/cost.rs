//! What a step costs one processor, as arithmetic on extents.

use super::forms::StepCx;
use super::{Block, Step};
use crate::names::Mesh;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Work and traffic of one processor. Sums and multiples stop at the largest number.
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
        Self {
            flops: self.flops.saturating_mul(count),
            bytes: self.bytes.saturating_mul(count),
            sent: self.sent.saturating_mul(count),
        }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
            sent: self.sent.saturating_add(other.sent),
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

/// The cost of one step of a verified program, or of the body of a loop.
///
/// Reads, writes and reshapes in declared order cost nothing: a plan makes them names for memory that
/// is already filled.
pub fn cost(block: &Block, step: &Step, mesh: &Mesh) -> Cost {
    step.form.rules().cost(&StepCx { block, step, mesh, variables: &[] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Axis, ReduceKind};
    use crate::program::sketch::{Sketch, axis, built, every_form, looped, square};
    use crate::program::{Builder, ValueId};

    #[test]
    fn costs_of_every_form() {
        let mesh = square();
        let program = built(&mesh, every_form);
        let line = |step: &Step| {
            let Cost { flops, bytes, sent } = cost(&program.block, step, &mesh);
            format!("{} {flops} {bytes} {sent}", step.form.name())
        };
        let lines: Vec<_> = program.steps().iter().map(line).collect();
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
            "pool 96 576 0",
            "generate 0 16 0",
            // A row of four is read and written, and so many indices read.
            &format!("put 0 {} 0", 4 * (2 * 4 + 4)),
        ];
        assert_eq!(lines, expected);
        let total: Cost =
            program.steps().iter().map(|step| cost(&program.block, step, &mesh)).sum();
        assert_eq!(total.sent, 4 * (32 + 24 + 4 + 8 + 16 + 8));
    }

    #[test]
    fn a_loop_costs_its_iterations() {
        let mesh = square();
        let program = looped(&mesh);
        let costs: Vec<_> =
            program.steps().iter().map(|step| cost(&program.block, step, &mesh)).collect();
        // Of one iteration: 4 products and sums, 4 arrays of 4 f32; what is carried is copied in.
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
            cost(&program.block, &program.steps()[0], &mesh).sent
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
            cost(&program.block, &program.steps()[0], &mesh).sent
        };
        let table = [(1, false, 16), (0, false, 0), (-4, false, 0), (-4, true, 0), (5, true, 16)];
        for (shift, wrap, bytes) in table {
            assert_eq!(sent(shift, wrap), bytes, "{shift} {wrap}");
        }
    }
}
