//! What a contraction is planned as: operands made ready, and loops around one matrix product.

use crate::exec::cpu::reduce::Reducer;
use crate::exec::cpu::strided::{Labels, Loop, Nest};

pub(super) const LHS: usize = 0;
pub(super) const RHS: usize = 1;
pub(super) const OUT: usize = 2;

/// What is done to an operand besides the product.
pub(super) enum Prepare {
    Nothing,
    /// Copied to or from packed scratch.
    Pack(Nest),
    /// Summed over the labels that no other operand has.
    Sum(Box<dyn Reducer>),
}

/// An operand in scratch.
pub(super) struct Side {
    pub(super) prepare: Prepare,
    pub(super) bytes: usize,
}

/// The labels of each group.
pub(super) struct Groups {
    pub(super) batch: Vec<usize>,
    pub(super) rows: Vec<usize>,
    pub(super) columns: Vec<usize>,
    pub(super) depth: Vec<usize>,
}

/// Loops around and within one matrix product.
pub(super) struct Loops {
    pub(super) batch: Nest,
    pub(super) rows: (Nest, Loop),
    pub(super) columns: (Nest, Loop),
    pub(super) depth: (Nest, Loop),
}

impl Loops {
    pub(super) fn new(labels: &Labels, groups: &Groups) -> Self {
        let nest = |of: &[usize], operands: &[usize], by: usize| {
            let mut nest = labels.nest(of, operands);
            nest.sort_by(by);
            nest.collapse()
        };
        Self {
            batch: nest(&groups.batch, &[LHS, RHS, OUT], 2),
            rows: largest(nest(&groups.rows, &[LHS, OUT], 1)),
            columns: largest(nest(&groups.columns, &[RHS, OUT], 1)),
            depth: largest(nest(&groups.depth, &[LHS, RHS], 0)),
        }
    }

    /// Rows, columns, depth of one matrix product.
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.rows.1.extent, self.columns.1.extent, self.depth.1.extent]
    }
}

/// Splits off the longest loop.
fn largest(mut nest: Nest) -> (Nest, Loop) {
    let longest = nest.loops.iter().enumerate().max_by_key(|(_, l)| l.extent).map(|(i, _)| i);
    match longest {
        Some(i) => {
            let inner = nest.loops.remove(i);
            (nest, inner)
        }
        None => nest.split_inner(),
    }
}
