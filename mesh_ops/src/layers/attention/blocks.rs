//! Positions of a dim in blocks.

use crate::room::*;

/// A dim cut into blocks of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    pub(super) dim: Dimension,
    pub(super) size: usize,
}

impl Blocks {
    /// Blocks of the greatest size up to `most` that divides the dim.
    pub(super) fn of_at_most(dim: Dimension, most: usize) -> Self {
        let fits = |size: &usize| dim.size.is_multiple_of(*size);
        let size = (1..=most.min(dim.size)).rev().find(fits).unwrap_or(1);
        Self { dim, size }
    }

    /// The dim of blocks, `{dim}_blocks`.
    pub(super) fn blocks(self) -> Dimension {
        let name = format!("{}_blocks", self.dim.name);
        self.dim.renamed(&name).resized(self.dim.size / self.size.max(1))
    }

    /// The dim of positions in a block, `{dim}_in_block`.
    pub(super) fn in_block(self) -> Dimension {
        self.dim.renamed(&format!("{}_in_block", self.dim.name)).resized(self.size)
    }

    /// Why `x` cannot be cut, if it cannot.
    fn problem(self, x: Tensor<'_>) -> Option<String> {
        let even = self.size > 0 && self.dim.size.is_multiple_of(self.size);
        match even {
            true => lacking(x, self.dim),
            false => Some(format!("{} cannot be cut into blocks of {}", self.dim, self.size)),
        }
    }

    /// `x` with dims cut into blocks.
    #[track_caller]
    pub(super) fn cut<'g>(dims: &[Self], op: &str, x: Tensor<'g>) -> Tensor<'g> {
        if x.is_poisoned() {
            return x;
        }
        if let Some(problem) = dims.iter().find_map(|dim| dim.problem(x)) {
            x.graph().record(op, problem);
            return x.poisoned();
        }
        let mut cut = x;
        for dim in dims {
            cut = crate::replace_dims(cut, [dim.dim], [dim.blocks(), dim.in_block()]);
        }
        cut
    }

    /// The inverse of [`cut`](Self::cut).
    #[track_caller]
    pub(super) fn joined(self, x: Tensor<'_>) -> Tensor<'_> {
        crate::replace_dims(x, [self.blocks(), self.in_block()], [self.dim])
    }
}

/// Queries, keys and values cut; nothing once one of them cannot be, which is recorded.
#[track_caller]
pub(super) fn cut<'g>(
    [q, k, v]: [Tensor<'g>; 3],
    queries: impl Fn(Tensor<'g>) -> Tensor<'g>,
    memory: impl Fn(Tensor<'g>) -> Tensor<'g>,
) -> Option<[Tensor<'g>; 3]> {
    let _caller = q.graph().for_caller();
    let whole = |x: Tensor<'g>| (!x.is_poisoned()).then_some(x);
    Some([whole(queries(q))?, whole(memory(k))?, whole(memory(v))?])
}
