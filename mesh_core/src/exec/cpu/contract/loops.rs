//! What a contraction is planned as: operands made ready, and loops around one matrix product.

use crate::exec::cpu::reduce::Reducer;
use crate::exec::cpu::strided::{Labels, Loop, Nest};
use std::cmp::Reverse;

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

// What a product takes beside its multiplications, in the time of one. Fitted to products of 32 to
// 1024 a side of `faer` on AVX-512; only whether a packing pays, and which loops a product is of, depends on it.

/// Per element of the left factor.
const LEFT: f64 = 12.0;
/// Per element of the right factor, which is packed.
const RIGHT: f64 = 16.0;
/// Per element of the result.
const RESULT: f64 = 12.0;
/// That much more where no stride is 1.
const SCATTERED: f64 = 8.0;
/// Per product.
const CALL: f64 = 2000.0;

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
    /// Of each group the product has one loop: the longest, or of rows and columns one that makes all of them
    /// cheaper.
    pub(super) fn new(labels: &Labels, groups: &Groups) -> Self {
        let nest = |of: &[usize], operands: &[usize], by: usize| {
            let mut nest = labels.nest(of, operands);
            nest.sort_by(by);
            nest.collapse()
        };
        let (rows, columns) =
            (nest(&groups.rows, &[LHS, OUT], 1), nest(&groups.columns, &[RHS, OUT], 1));
        let longest = Self {
            batch: nest(&groups.batch, &[LHS, RHS, OUT], 2),
            depth: split(&nest(&groups.depth, &[LHS, RHS], 0), 0),
            rows: split(&rows, 0),
            columns: split(&columns, 0),
        };
        let choices = |nest: &Nest| nest.loops.len().max(1);
        let all = (0..choices(&rows)).flat_map(|i| (0..choices(&columns)).map(move |j| (i, j)));
        all.skip(1).fold(longest, |best, (i, j)| {
            let (batch, depth) = (best.batch.clone(), best.depth.clone());
            let other = Self { batch, rows: split(&rows, i), columns: split(&columns, j), depth };
            if other.cost() < best.cost() { other } else { best }
        })
    }

    /// Rows, columns, depth of one matrix product.
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.rows.1.extent, self.columns.1.extent, self.depth.1.extent]
    }

    /// Time of all products, in multiplications.
    pub(super) fn cost(&self) -> f64 {
        let [m, n, k] = self.shape().map(|n| n as f64);
        let nests = [&self.batch, &self.rows.0, &self.columns.0, &self.depth.0];
        let products: f64 = nests.iter().map(|nest| nest.len() as f64).product();
        let strided = |l: &Loop, other: &Loop, k: usize, j: usize| {
            if l.strides[k] == 1 || other.strides[j] == 1 { 1.0 } else { SCATTERED }
        };
        let ((_, row), (_, column), (_, depth)) = (&self.rows, &self.columns, &self.depth);
        let touched = LEFT * m * k * strided(row, depth, 0, 0)
            + RIGHT * k * n * strided(depth, column, 1, 0)
            + RESULT * m * n * strided(row, column, 1, 1);
        products * (m * n * k + touched + CALL)
    }
}

/// Splits off the longest loop, or one of the next ones; a nest without loops has one of one turn.
fn split(nest: &Nest, choice: usize) -> (Nest, Loop) {
    let mut by_length: Vec<usize> = (0..nest.loops.len()).collect();
    by_length.sort_by_key(|&i| Reverse((nest.loops[i].extent, i)));
    let mut nest = nest.clone();
    match by_length.get(choice) {
        Some(&i) => {
            let inner = nest.loops.remove(i);
            (nest, inner)
        }
        None => nest.split_inner(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `out[i, p, n, c] = sum over k of lhs[p, i, k, c] rhs[p, k, n]`: memory runs along `c`, though `i` is longer.
    #[test]
    fn a_product_runs_along_memory() {
        let (p, i, n, c, k) = (0, 1, 2, 3, 4);
        let mut labels = Labels {
            extents: vec![32, 256, 2, 64, 3],
            strides: vec![vec![0; 5]; 3],
            has: vec![vec![true; 5]; 3],
        };
        let operands = [(LHS, vec![p, i, k, c]), (RHS, vec![p, k, n]), (OUT, vec![i, p, n, c])];
        for (operand, order) in operands {
            let mut step = 1;
            for &label in order.iter().rev() {
                labels.strides[operand][label] = step;
                step *= labels.extents[label] as isize;
            }
        }
        let (rows, columns) = (vec![i, c], vec![n]);
        let groups = Groups { batch: vec![p], rows, columns, depth: vec![k] };
        assert_eq!(Loops::new(&labels, &groups).shape(), [64, 2, 3]);
    }
}
