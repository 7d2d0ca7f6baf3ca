//! Folds: of elements, of windows, of what comes to one place.

use super::literal::dtype;
use super::ops::Padding;
use super::writer::{Element, Tensor, Writer, kind, listed};
use crate::names::ReduceKind;
use crate::program::Extents;
use std::convert::Infallible;
use std::iter::zip;
use std::mem::take;

/// A fold of elements of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::program) struct Fold {
    pub(in crate::program) kind: ReduceKind,
    pub(in crate::program) element: Element,
}

impl Fold {
    /// The operation of two numbers.
    fn name(self) -> &'static str {
        match self.kind {
            // A selection is folded as bits, of which all but one are 0.
            ReduceKind::Sum | ReduceKind::Select => "add",
            ReduceKind::Prod => "multiply",
            ReduceKind::Max => "maximum",
            ReduceKind::Min => "minimum",
            ReduceKind::All => "and",
            ReduceKind::Any => "or",
        }
    }

    /// What a fold of nothing is.
    pub(in crate::program) fn start(self) -> f64 {
        self.kind.start(dtype(self.element))
    }

    /// Writes the region that folds two numbers.
    pub(super) fn region(self, to: &mut Writer<'_>) {
        let scalar: (Element, &[usize]) = (self.element, &[]);
        let folded = to.region(&[scalar, scalar], |to, of| {
            Ok::<_, Infallible>(vec![to.binary(self.name(), &of[0], &of[1])])
        });
        folded.unwrap_or_else(|never| match never {});
    }
}

impl Writer<'_> {
    /// Writes the region that has the second of two numbers.
    pub(super) fn second(&mut self, element: Element) {
        let scalar: (Element, &[usize]) = (element, &[]);
        let last = self.region(&[scalar, scalar], |_, of| Ok::<_, Infallible>(vec![of[1].clone()]));
        last.unwrap_or_else(|never| match never {});
    }
}

/// Windows along a dim of a tensor: where each begins, how it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::program) struct Along {
    pub(in crate::program) size: usize,
    pub(in crate::program) stride: usize,
    /// What is added to the dim.
    pub(in crate::program) padding: Padding,
}

impl Along {
    /// A dim that windows leave as it is.
    pub(in crate::program) const EACH: Self =
        Self { size: 1, stride: 1, padding: Padding { low: 0, high: 0, between: 0 } };

    fn count(&self, extent: usize) -> usize {
        let padded = self.padding.extent(extent);
        padded.saturating_sub(self.size) / self.stride + 1
    }
}

impl Writer<'_> {
    /// A fold over dims, which go.
    pub(in crate::program) fn folded(
        &mut self,
        kind: ReduceKind,
        x: &Tensor,
        dims: &[usize],
    ) -> Tensor {
        if dims.is_empty() {
            return x.clone();
        }
        let fold = Fold { kind, element: x.element };
        let start = self.fill(x.element, &[], fold.start());
        let kept = x.extents.iter().enumerate().filter(|(dim, _)| !dims.contains(dim));
        let extents: Extents = kept.map(|(_, &extent)| extent).collect();
        let (from, scalar, to) = (x.kind(), start.kind(), super::writer::kind(x.element, &extents));
        let text = format!(
            "stablehlo.reduce({x} init: {start}) applies stablehlo.{} across dimensions = {dims:?} : \
             ({from}, {scalar}) -> {to}",
            fold.name()
        );
        self.line(text, x.element, &extents)
    }

    /// Folds of an element of one tensor and an element of another.
    pub(in crate::program) fn folded_pair(
        &mut self,
        kind: ReduceKind,
        a: &Tensor,
        b: &Tensor,
    ) -> Tensor {
        self.binary(Fold { kind, element: a.element }.name(), a, b)
    }

    /// A fold over windows.
    pub(in crate::program) fn windowed(
        &mut self,
        fold: ReduceKind,
        x: &Tensor,
        windows: &[Along],
    ) -> Tensor {
        let fold = Fold { kind: fold, element: x.element };
        let (mut x, mut windows) = (x.clone(), windows.to_vec());
        if windows.iter().any(|w| w.padding.low < 0 || w.padding.high < 0) {
            // What is dropped is dropped before: not every compiler takes padding below 0.
            let padding: Vec<_> = windows.iter_mut().map(|w| take(&mut w.padding)).collect();
            x = self.padded(&x, fold.start(), &padding);
        }
        let extents: Extents =
            zip(&x.extents, &windows).map(|(&extent, window)| window.count(extent)).collect();
        let start = self.fill(x.element, &[], fold.start());
        let (sizes, strides) =
            (listed(windows.iter().map(|w| w.size)), listed(windows.iter().map(|w| w.stride)));
        let padding = || windows.iter().map(|w| w.padding);
        let between = listed(padding().map(|p| p.between + 1));
        let around = listed(padding().map(|p| format!("[{}, {}]", p.low, p.high)));
        let (rank, from, to) = (extents.len(), x.kind(), kind(x.element, &extents));
        let end = format!(
            "{{window_dimensions = array<i64: {sizes}>, window_strides = array<i64: {strides}>, \
             base_dilations = array<i64: {between}>, padding = dense<[{around}]> : tensor<{rank}x2xi64>}} \
             : ({from}, {}) -> {to}",
            start.kind()
        );
        let begin = format!("\"stablehlo.reduce_window\"({x}, {start})");
        let outs = [(x.element, &extents[..])];
        let (mut outs, ()) = self.enclosing(&outs, begin, |to| fold.region(to), end);
        outs.remove(0)
    }
}
