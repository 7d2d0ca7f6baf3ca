//! Which dims Adafactor's second moment is averaged over.

use mesh_core::names::Dimension;

/// Which variables keep means of their second moment over two dims, instead of the moment itself.
/// Stacked dims do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factoring {
    /// None.
    Never,
    /// Those of at least two dims, over the two largest, the first of equals first (Mesh
    /// TensorFlow).
    TwoLargest {
        /// Least size of the second largest.
        least: usize,
    },
    /// Those of at least two dims, over the last two (tensor2tensor since 2019).
    LastTwo,
    /// Those of exactly two dims (tensor2tensor of 2018).
    Matrices,
}

impl Factoring {
    /// The dims that the row and the column means are over, if there are any.
    pub(super) fn dims(self, dims: &[Dimension]) -> Option<[Dimension; 2]> {
        let mut sorted = dims.to_vec();
        sorted.sort_by_key(|dim| std::cmp::Reverse(dim.size));
        match (self, dims, &sorted[..]) {
            (Self::TwoLargest { least }, _, &[first, second, ..]) if second.size >= least => {
                Some([first, second])
            }
            (Self::LastTwo, &[.., row, column], _) | (Self::Matrices, &[row, column], _) => {
                Some([column, row])
            }
            _ => None,
        }
    }
}
