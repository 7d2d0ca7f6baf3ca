//! Products, lookups and sorting: operations whose dims play parts.

use super::fold::Fold;
use super::writer::{Element, Tensor, Writer, kind, kinds, listed};
use crate::names::ReduceKind;
use crate::program::Extents;
use std::iter::zip;

/// The dims of a lookup along one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::program) struct Lookup {
    /// The dim of the tensor that is indexed.
    pub(in crate::program) dim: usize,
    /// Dims of the tensor, each with the dim of the indices that runs along with it.
    pub(in crate::program) along: Vec<(usize, usize)>,
    /// The dims of the result, or of the updates, that are the tensor's other dims.
    pub(in crate::program) slices: Vec<usize>,
}

impl Lookup {
    /// The attributes that lookups and scattered sums share, under the names of either.
    fn attributes(&self, [slices, dims, own, indices, map]: [&str; 5], rank: usize) -> String {
        let (one, other): (Vec<usize>, Vec<usize>) = self.along.iter().copied().unzip();
        let along = match one.is_empty() {
            true => String::new(),
            false => format!("{own} = {one:?}, {indices} = {other:?}, "),
        };
        let (of, dim) = (&self.slices, self.dim);
        let of = if of.is_empty() { String::new() } else { format!("{slices} = {of:?}, ") };
        format!("{of}{dims} = [{dim}], {along}{map} = [{dim}], index_vector_dim = {rank}")
    }
}

impl Writer<'_> {
    /// The sum of products over dims of both, side by side in either list, behind a dim for each pair that
    /// both keep; then come the other dims of either. Products of bf16 are held in f32.
    pub(in crate::program) fn multiplied(
        &mut self,
        [lhs, rhs]: [&Tensor; 2],
        kept: [&[usize]; 2],
        summed: [&[usize]; 2],
    ) -> Tensor {
        let free = |x: &Tensor, i: usize| -> Vec<usize> {
            let own = |dim: &usize| !kept[i].contains(dim) && !summed[i].contains(dim);
            (0..x.extents.len()).filter(own).map(|dim| x.extents[dim]).collect()
        };
        let extents: Extents = kept[0]
            .iter()
            .map(|&dim| lhs.extents[dim])
            .chain(free(lhs, 0))
            .chain(free(rhs, 1))
            .collect();
        let batch = match kept[0].is_empty() {
            true => String::new(),
            false => format!("batching_dims = {:?} x {:?}, ", kept[0], kept[1]),
        };
        let (element, precision) = (lhs.element.reduction(), self.options.precision.name());
        let (l, r, to) = (lhs.kind(), rhs.kind(), kind(element, &extents));
        let text = format!(
            "stablehlo.dot_general {lhs}, {rhs}, {batch}contracting_dims = {:?} x {:?}, \
             precision = [{precision}, {precision}] : ({l}, {r}) -> {to}",
            summed[0], summed[1]
        );
        self.line(text, element, &extents)
    }

    /// Slices of a tensor at indices, which are moved inside.
    pub(in crate::program) fn looked_up(
        &mut self,
        x: &Tensor,
        indices: &Tensor,
        lookup: &Lookup,
        extents: &[usize],
    ) -> Tensor {
        let along = |dim: usize| lookup.along.iter().any(|(own, _)| *own == dim);
        let single = |dim: usize| dim == lookup.dim || along(dim);
        let sizes = x.extents.iter().enumerate();
        let sizes = listed(sizes.map(|(dim, &extent)| if single(dim) { 1 } else { extent }));
        let names = [
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
        ];
        let attributes = lookup.attributes(names, indices.extents.len());
        let (of, at, to) = (x.kind(), indices.kind(), kind(x.element, extents));
        let text = format!(
            "\"stablehlo.gather\"({x}, {indices}) {{dimension_numbers = #stablehlo.gather<{attributes}>, \
             indices_are_sorted = false, slice_sizes = array<i64: {sizes}>}} : ({of}, {at}) -> {to}"
        );
        self.line(text, x.element, extents)
    }

    /// A tensor with slices folded in at indices, or in the place of what is there; what is outside is left
    /// out.
    pub(in crate::program) fn scattered(
        &mut self,
        onto: &Tensor,
        indices: &Tensor,
        updates: &Tensor,
        lookup: &Lookup,
        fold: Option<ReduceKind>,
    ) -> Tensor {
        let names = [
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
        ];
        let attributes = lookup.attributes(names, indices.extents.len());
        let end = format!(
            "{{scatter_dimension_numbers = #stablehlo.scatter<{attributes}>, \
             indices_are_sorted = false, unique_indices = false}} : ({}, {}, {}) -> {}",
            onto.kind(),
            indices.kind(),
            updates.kind(),
            onto.kind()
        );
        let begin = format!("\"stablehlo.scatter\"({onto}, {indices}, {updates})");
        let outs = [(onto.element, &onto.extents[..])];
        let region = |to: &mut Self| match fold {
            Some(kind) => Fold { kind, element: onto.element }.region(to),
            None => to.second(onto.element),
        };
        let (mut outs, ()) = self.enclosing(&outs, begin, region, end);
        outs.remove(0)
    }

    /// Tensors of equal extents with the lines along a dim in the order of the first; equal elements stay
    /// in order. `before` writes whether one of its elements comes before another.
    pub(in crate::program) fn sorted(
        &mut self,
        tensors: &[Tensor],
        dim: usize,
        before: impl FnOnce(&mut Self, &Tensor, &Tensor) -> Tensor,
    ) -> Vec<Tensor> {
        let scalar = |x: &Tensor| -> [(Element, &[usize]); 2] { [(x.element, &[]); 2] };
        let scalars: Vec<_> = tensors.iter().flat_map(scalar).collect();
        let outs: Vec<_> = tensors.iter().map(|x| (x.element, &x.extents[..])).collect();
        let of = kinds(tensors);
        let results = if tensors.len() == 1 { of.clone() } else { format!("({of})") };
        let end = format!("{{dimension = {dim} : i64, is_stable = true}} : ({of}) -> {results}");
        let begin = format!("\"stablehlo.sort\"({})", listed(tensors));
        let compare = |to: &mut Self| {
            let less = to.region(&scalars, |to, of| {
                Ok::<_, std::convert::Infallible>(vec![before(to, &of[0], &of[1])])
            });
            less.unwrap_or_else(|never| match never {});
        };
        self.enclosing(&outs, begin, compare, end).0
    }

    /// A tensor with labels, without some of them: they are folded, in the type in which that is held.
    pub(in crate::program) fn folded_out(
        &mut self,
        kind: ReduceKind,
        x: &Tensor,
        labels: &[u8],
        gone: &[u8],
    ) -> (Tensor, Vec<u8>) {
        let dims: Vec<usize> = zip(0.., labels)
            .filter(|(_, label)| gone.contains(label))
            .map(|(dim, _)| dim)
            .collect();
        if dims.is_empty() {
            return (x.clone(), labels.to_vec());
        }
        let held = self.held(x);
        (self.folded(kind, &held, &dims), super::labels::those(labels, gone, false))
    }
}
