//! Processors: coordinates, groups, and what their members do together.

use super::fold::Fold;
use super::ops::Is;
use super::writer::{Element, Tensor, Writer, kind};
use crate::names::{Axis, ReduceKind};
use crate::program::Offset;

impl Writer<'_> {
    /// The present processor's position in its group along axes, a scalar of i32.
    fn group_index(&mut self, axes: &[Axis]) -> Tensor {
        let mesh = self.mesh;
        let name = format!("group_index {}", mesh.list(axes));
        self.call(&name, &[], (Element::I32, &[]), |to, _| {
            let number = to.line("stablehlo.replica_id : tensor<ui32>", Element::U32, &[]);
            let mut index = None;
            for &axis in axes {
                let size = mesh.size(axis) as u64;
                // Processors are numbered with the last axis fastest.
                let behind: Vec<Axis> = mesh.axes().filter(|a| a.index() > axis.index()).collect();
                let before = to.with_word("divide", &number, mesh.group_size(&behind) as u64);
                let coordinate = to.with_word("remainder", &before, size);
                index = Some(match index {
                    None => coordinate,
                    Some(index) => {
                        let major = to.with_word("multiply", &index, size);
                        to.binary("add", &major, &coordinate)
                    }
                });
            }
            let index = index.unwrap_or_else(|| to.word(Element::U32, &[], 0));
            to.converted(&index, Element::I32)
        })
    }

    /// A position on the present processor, a scalar of i32.
    pub(in crate::program) fn offset(&mut self, offset: &Offset) -> Tensor {
        let base = self.fill(Element::I32, &[], offset.base as f64);
        if offset.axes.is_empty() {
            return base;
        }
        let index = self.group_index(&offset.axes);
        let along = self.with("multiply", &index, offset.scale as f64);
        self.binary("add", &along, &base)
    }

    /// The members of all groups along axes, by group index.
    fn replica_groups(&self, axes: &[Axis]) -> String {
        let groups = self.mesh.groups(axes);
        let (count, members) = (groups.len(), self.mesh.group_size(axes));
        format!("replica_groups = dense<{groups:?}> : tensor<{count}x{members}xi64>")
    }

    /// The fold over a group, whole on every member.
    pub(in crate::program) fn all_reduced(
        &mut self,
        kind: ReduceKind,
        axes: &[Axis],
        x: &Tensor,
    ) -> Tensor {
        self.as_folded(kind, x, |to, x| {
            let (groups, of) = (to.replica_groups(axes), x.kind());
            let end = format!("{{{groups}}} : ({of}) -> {of}");
            to.fold_over(kind, ("all_reduce", x), &x.extents, end)
        })
    }

    /// The fold over a group, of which each member gets its part along a dim.
    pub(in crate::program) fn reduce_scattered(
        &mut self,
        fold: ReduceKind,
        (axes, dim): (&[Axis], usize),
        x: &Tensor,
    ) -> Tensor {
        let mut extents = x.extents.clone();
        extents[dim] /= self.mesh.group_size(axes);
        self.as_folded(fold, x, |to, x| {
            let groups = to.replica_groups(axes);
            let (from, into) = (x.kind(), kind(x.element, &extents));
            let end = format!("{{scatter_dimension = {dim} : i64, {groups}}} : ({from}) -> {into}");
            to.fold_over(fold, ("reduce_scatter", x), &extents, end)
        })
    }

    fn fold_over(
        &mut self,
        kind: ReduceKind,
        (name, x): (&str, &Tensor),
        extents: &[usize],
        end: String,
    ) -> Tensor {
        let fold = Fold { kind, element: x.element };
        let (begin, outs) = (format!("\"stablehlo.{name}\"({x})"), [(x.element, extents)]);
        let (mut outs, ()) = self.enclosing(&outs, begin, |to| fold.region(to), end);
        outs.remove(0)
    }

    /// Does something to a tensor in the type in which a group folds it. A selection is a sum of bits: of
    /// each element, all members but one have zeros. The largest and the least float are those of words in the same
    /// order, of which NaN is the one that wins: among floats, XLA for CPUs forgets a NaN or not by who has it.
    fn as_folded(
        &mut self,
        kind: ReduceKind,
        x: &Tensor,
        fold: impl FnOnce(&mut Self, &Tensor) -> Tensor,
    ) -> Tensor {
        if x.element.is_float() && matches!(kind, ReduceKind::Max | ReduceKind::Min) {
            let ordered = self.as_ordered(kind == ReduceKind::Max, x);
            let folded = fold(self, &ordered);
            return self.floats_of_ordered(&folded, x.element);
        }
        if kind != ReduceKind::Select {
            return fold(self, x);
        }
        let word = self.as_words(x);
        let folded = fold(self, &word);
        match x.element {
            Element::F64 => self.bits(&folded, x.element),
            Element::BF16 => {
                let half = self.converted(&folded, Element::U16);
                self.bits(&half, x.element)
            }
            Element::F32 | Element::I32 => self.bits(&folded, x.element),
            Element::Bool => {
                let nothing = self.word(folded.element, &folded.extents, 0);
                self.compare(&folded, Is::Other, &nothing)
            }
            Element::U16 | Element::U32 | Element::U64 => folded,
        }
    }

    /// Unsigned words in the order of floats; NaN is the largest, or else the least. A float's bits are in that
    /// order if those below 0 are all turned over, and of the others the sign is.
    fn as_ordered(&mut self, nan_is_largest: bool, x: &Tensor) -> Tensor {
        let held = self.held(x);
        let word = self.as_words(&held);
        let (sign, all) = signs(word.element);
        let is_below = self.with_word("shift_right_logical", &word, sign.ilog2().into());
        let zero = self.word(word.element, &word.extents, 0);
        let below = self.binary("subtract", &zero, &is_below);
        let turned = self.with_word("or", &below, sign);
        let ordered = self.binary("xor", &word, &turned);
        let winner = self.word(word.element, &word.extents, if nan_is_largest { all } else { 0 });
        let is_nan = self.compare(&held, Is::Other, &held);
        self.select(&is_nan, &winner, &ordered)
    }

    /// The floats of words that [`as_ordered`](Self::as_ordered) makes.
    fn floats_of_ordered(&mut self, word: &Tensor, element: Element) -> Tensor {
        let (sign, _) = signs(word.element);
        let is_above = self.with_word("shift_right_logical", word, sign.ilog2().into());
        let below = self.with_word("subtract", &is_above, 1);
        let turned = self.with_word("or", &below, sign);
        let bits = self.binary("xor", word, &turned);
        let held = self.bits(&bits, element.reduction());
        self.converted(&held, element)
    }

    /// The bits of a tensor, in words that every device adds up.
    fn as_words(&mut self, x: &Tensor) -> Tensor {
        match x.element {
            Element::F64 => self.bits(x, Element::U64),
            Element::F32 | Element::I32 => self.bits(x, Element::U32),
            Element::BF16 => {
                let half = self.bits(x, Element::U16);
                self.converted(&half, Element::U32)
            }
            Element::Bool => self.converted(x, Element::U32),
            Element::U16 | Element::U32 | Element::U64 => x.clone(),
        }
    }

    /// The members' tensors one after the other along a dim.
    pub(in crate::program) fn all_gathered(
        &mut self,
        axes: &[Axis],
        dim: usize,
        x: &Tensor,
    ) -> Tensor {
        let mut extents = x.extents.clone();
        extents[dim] *= self.mesh.group_size(axes);
        let groups = self.replica_groups(axes);
        let (from, to) = (x.kind(), kind(x.element, &extents));
        let attributes = format!("{{all_gather_dim = {dim} : i64, {groups}}}");
        let text = format!("\"stablehlo.all_gather\"({x}) {attributes} : ({from}) -> {to}");
        self.line(text, x.element, &extents)
    }

    /// Cut along one dim, a part for each member; what arrives, joined along another.
    pub(in crate::program) fn exchanged(
        &mut self,
        axes: &[Axis],
        (split, concat): (usize, usize),
        x: &Tensor,
    ) -> Tensor {
        let (mut extents, members) = (x.extents.clone(), self.mesh.group_size(axes));
        extents[split] /= members;
        extents[concat] *= members;
        let groups = self.replica_groups(axes);
        let (from, to) = (x.kind(), kind(x.element, &extents));
        let attributes = format!(
            "{{split_dimension = {split} : i64, concat_dimension = {concat} : i64, \
             split_count = {members} : i64, {groups}}}"
        );
        let text = format!("\"stablehlo.all_to_all\"({x}) {attributes} : ({from}) -> {to}");
        self.line(text, x.element, &extents)
    }

    /// What the source of each member has, by group indices; zeros for a member that has none.
    pub(in crate::program) fn permuted(
        &mut self,
        axes: &[Axis],
        source: impl Fn(usize) -> Option<usize>,
        x: &Tensor,
    ) -> Tensor {
        let groups = self.mesh.groups(axes);
        let pairs: Vec<[usize; 2]> = groups
            .iter()
            .flat_map(|group| {
                let pair = |(to, &target): (usize, &usize)| Some([group[source(to)?], target]);
                group.iter().enumerate().filter_map(pair).collect::<Vec<_>>()
            })
            .collect();
        if pairs.is_empty() {
            return self.fill(x.element, &x.extents, 0.0);
        }
        let (count, of) = (pairs.len(), x.kind());
        let attributes =
            format!("{{source_target_pairs = dense<{pairs:?}> : tensor<{count}x2xi64>}}");
        let text = format!("\"stablehlo.collective_permute\"({x}) {attributes} : ({of}) -> {of}");
        self.line(text, x.element, &x.extents)
    }

    /// What one member of each group has, on all members: a selection of its tensor. (There is a
    /// collective of its own, which XLA does not have on CPUs.)
    pub(in crate::program) fn sent_from(
        &mut self,
        axes: &[Axis],
        root: usize,
        x: &Tensor,
    ) -> Tensor {
        let index = self.group_index(axes);
        let is_root = self.compare_with(&index, Is::Equal, root as f64);
        let is_root = self.broadcast(&is_root, &[], &x.extents);
        let nothing = self.fill(x.element, &x.extents, 0.0);
        let given = self.select(&is_root, x, &nothing);
        self.all_reduced(ReduceKind::Select, axes, &given)
    }
}

/// The bit of the sign in words of this type, and all bits.
fn signs(word: Element) -> (u64, u64) {
    match word {
        Element::U64 => (1 << 63, u64::MAX),
        _ => (1 << 31, u32::MAX.into()),
    }
}
