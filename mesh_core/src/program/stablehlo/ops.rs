//! Operations on tensors, typed.

use super::writer::{Element, Tensor, Writer, kind, kinds, listed};
use crate::program::Extents;
use std::iter::zip;

/// How numbers are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::program) enum Is {
    Equal,
    Other,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Is {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "EQ",
            Self::Other => "NE",
            Self::Less => "LT",
            Self::AtMost => "LE",
            Self::Greater => "GT",
            Self::AtLeast => "GE",
        }
    }
}

/// Elementwise operations.
impl Writer<'_> {
    /// An operation of the language of one tensor, which keeps the type.
    pub(in crate::program) fn unary(&mut self, name: &str, x: &Tensor) -> Tensor {
        self.line(format!("{name} {x} : {}", x.kind()), x.element, &x.extents)
    }

    /// A composite of CHLO, the language of functions that StableHLO leaves to compilers.
    pub(in crate::program) fn composite(&mut self, name: &str, x: &Tensor) -> Tensor {
        let kind = x.kind();
        self.line(format!("chlo.{name} {x} : {kind} -> {kind}"), x.element, &x.extents)
    }

    /// An operation of two tensors of one type, which keeps the type.
    pub(in crate::program) fn binary(&mut self, name: &str, a: &Tensor, b: &Tensor) -> Tensor {
        self.line(format!("stablehlo.{name} {a}, {b} : {}", a.kind()), a.element, &a.extents)
    }

    /// As [`binary`](Self::binary), with the same number everywhere.
    pub(in crate::program) fn with(&mut self, name: &str, a: &Tensor, b: f64) -> Tensor {
        let b = self.fill(a.element, &a.extents, b);
        self.binary(name, a, &b)
    }

    /// As [`binary`](Self::binary), with the same unsigned number everywhere.
    pub(in crate::program) fn with_word(&mut self, name: &str, a: &Tensor, b: u64) -> Tensor {
        let b = self.word(a.element, &a.extents, b);
        self.binary(name, a, &b)
    }

    pub(in crate::program) fn compare(&mut self, a: &Tensor, is: Is, b: &Tensor) -> Tensor {
        let (is, kind) = (is.name(), a.kind());
        let text = format!("stablehlo.compare {is}, {a}, {b} : ({kind}, {kind}) -> {}", truth(a));
        self.line(text, Element::Bool, &a.extents)
    }

    pub(in crate::program) fn compare_with(&mut self, a: &Tensor, is: Is, b: f64) -> Tensor {
        let b = self.fill(a.element, &a.extents, b);
        self.compare(a, is, &b)
    }

    pub(in crate::program) fn select(
        &mut self,
        which: &Tensor,
        yes: &Tensor,
        no: &Tensor,
    ) -> Tensor {
        let text =
            format!("stablehlo.select {which}, {yes}, {no} : {}, {}", which.kind(), yes.kind());
        self.line(text, yes.element, &yes.extents)
    }

    /// The conversion of the language: exact where the type holds the number, else to the nearest.
    pub(in crate::program) fn converted(&mut self, x: &Tensor, element: Element) -> Tensor {
        if x.element == element {
            return x.clone();
        }
        let to = kind(element, &x.extents);
        let text = format!("stablehlo.convert {x} : ({}) -> {to}", x.kind());
        self.line(text, element, &x.extents)
    }

    /// The bits as another type of the same size.
    pub(in crate::program) fn bits(&mut self, x: &Tensor, element: Element) -> Tensor {
        let to = kind(element, &x.extents);
        let text = format!("stablehlo.bitcast_convert {x} : ({}) -> {to}", x.kind());
        self.line(text, element, &x.extents)
    }
}

fn truth(a: &Tensor) -> String {
    kind(Element::Bool, &a.extents)
}

/// Operations that move elements.
impl Writer<'_> {
    /// Dim `i` of the result is dim `order[i]`.
    pub(in crate::program) fn transposed(&mut self, x: &Tensor, order: &[usize]) -> Tensor {
        if order.iter().copied().eq(0..order.len()) {
            return x.clone();
        }
        let extents: Extents = order.iter().map(|&dim| x.extents[dim]).collect();
        let (from, to) = (x.kind(), kind(x.element, &extents));
        let text = format!("stablehlo.transpose {x}, dims = {order:?} : ({from}) -> {to}");
        self.line(text, x.element, &extents)
    }

    /// Dim `i` becomes dim `dims[i]`, which rise; others are new.
    pub(in crate::program) fn broadcast(
        &mut self,
        x: &Tensor,
        dims: &[usize],
        extents: &[usize],
    ) -> Tensor {
        if x.extents[..] == *extents {
            return x.clone();
        }
        let (from, to) = (x.kind(), kind(x.element, extents));
        let text = format!("stablehlo.broadcast_in_dim {x}, dims = {dims:?} : ({from}) -> {to}");
        self.line(text, x.element, extents)
    }

    pub(in crate::program) fn reshaped(&mut self, x: &Tensor, extents: &[usize]) -> Tensor {
        if x.extents[..] == *extents {
            return x.clone();
        }
        let (from, to) = (x.kind(), kind(x.element, extents));
        self.line(format!("stablehlo.reshape {x} : ({from}) -> {to}"), x.element, extents)
    }

    pub(in crate::program) fn sliced(
        &mut self,
        x: &Tensor,
        begin: &[usize],
        extents: &[usize],
    ) -> Tensor {
        self.sliced_by(x, begin, extents, &vec![1; extents.len()])
    }

    /// A slice of every so many elements along each dim.
    pub(super) fn sliced_by(
        &mut self,
        x: &Tensor,
        begin: &[usize],
        extents: &[usize],
        strides: &[usize],
    ) -> Tensor {
        if x.extents[..] == *extents {
            return x.clone();
        }
        let range = |((begin, extent), stride): ((&usize, &usize), &usize)| {
            let end = begin + (extent - 1) * stride + 1;
            let by = if *stride == 1 { String::new() } else { format!(":{stride}") };
            format!("{begin}:{end}{by}")
        };
        let ranges = listed(zip(zip(begin, extents), strides).map(range));
        let (from, to) = (x.kind(), kind(x.element, extents));
        let text = format!("stablehlo.slice {x} [{ranges}] : ({from}) -> {to}");
        self.line(text, x.element, extents)
    }

    /// A slice that begins at scalars of i32.
    pub(in crate::program) fn sliced_at(
        &mut self,
        x: &Tensor,
        begin: &[Tensor],
        extents: &[usize],
    ) -> Tensor {
        if x.extents[..] == *extents {
            return x.clone();
        }
        let (at, from, to) = (listed(begin), x.kind(), kind(x.element, extents));
        let kinds = kinds(begin);
        let text = format!(
            "stablehlo.dynamic_slice {x}, {at}, sizes = {extents:?} : ({from}, {kinds}) -> {to}"
        );
        self.line(text, x.element, extents)
    }

    /// A tensor with a part replaced that begins at scalars of i32.
    pub(in crate::program) fn replaced(
        &mut self,
        x: &Tensor,
        part: &Tensor,
        begin: &[Tensor],
    ) -> Tensor {
        if x.extents == part.extents {
            return part.clone();
        }
        let mut operands = vec![x.clone(), part.clone()];
        operands.extend_from_slice(begin);
        let (inputs, kinds, whole) = (listed(&operands), kinds(&operands), x.kind());
        let text = format!("stablehlo.dynamic_update_slice {inputs} : ({kinds}) -> {whole}");
        self.line(text, x.element, &x.extents)
    }

    pub(in crate::program) fn joined(&mut self, parts: &[Tensor], dim: usize) -> Tensor {
        if let [only] = parts {
            return only.clone();
        }
        let first = &parts[0];
        let mut extents = first.extents.clone();
        extents[dim] = parts.iter().map(|part| part.extents[dim]).sum();
        let (inputs, from, to) = (listed(parts), kinds(parts), kind(first.element, &extents));
        let text = format!("stablehlo.concatenate {inputs}, dim = {dim} : ({from}) -> {to}");
        self.line(text, first.element, &extents)
    }

    /// Adds (below 0: drops) so many elements of a number before and behind, and so many between
    /// neighbours, along each dim.
    pub(in crate::program) fn padded(
        &mut self,
        x: &Tensor,
        number: f64,
        padding: &[Padding],
    ) -> Tensor {
        if padding.iter().all(|padding| *padding == Padding::default()) {
            return x.clone();
        }
        let number = self.fill(x.element, &[], number);
        let extents: Extents =
            zip(&x.extents, padding).map(|(&extent, padding)| padding.extent(extent)).collect();
        let list = |of: fn(&Padding) -> i64| listed(padding.iter().map(of));
        let (low, high, between) = (list(|p| p.low), list(|p| p.high), list(|p| p.between));
        let (from, scalar, to) = (x.kind(), number.kind(), kind(x.element, &extents));
        let text = format!(
            "stablehlo.pad {x}, {number}, low = [{low}], high = [{high}], interior = [{between}] : \
             ({from}, {scalar}) -> {to}"
        );
        self.line(text, x.element, &extents)
    }

    /// The position along a dim.
    pub(in crate::program) fn positions(
        &mut self,
        element: Element,
        extents: &[usize],
        dim: usize,
    ) -> Tensor {
        let text = format!("stablehlo.iota dim = {dim} : {}", kind(element, extents));
        self.line(text, element, extents)
    }

    /// Backwards along some dims.
    pub(in crate::program) fn backwards(&mut self, x: &Tensor, dims: &[usize]) -> Tensor {
        let text = format!("stablehlo.reverse {x}, dims = {dims:?} : {}", x.kind());
        self.line(text, x.element, &x.extents)
    }
}

/// Operations that order others.
impl Writer<'_> {
    /// The tensors, once all of them are there.
    pub(in crate::program) fn barrier(&mut self, tensors: &[Tensor]) -> Vec<Tensor> {
        let outs: Vec<_> = tensors.iter().map(|x| self.argument(x.element, &x.extents)).collect();
        let (names, inputs, kinds) = (listed(&outs), listed(tensors), kinds(tensors));
        self.write_located(format_args!(
            "{names} = stablehlo.optimization_barrier {inputs} : {kinds}"
        ));
        outs
    }

    /// What a state becomes: `next` again and again as long as `goes_on`, a truth value.
    pub(in crate::program) fn repeated(
        &mut self,
        first: &[Tensor],
        goes_on: impl FnOnce(&mut Self, &[Tensor]) -> Tensor,
        next: impl FnOnce(&mut Self, &[Tensor]) -> Result<Vec<Tensor>, String>,
    ) -> Result<Vec<Tensor>, String> {
        let state: Vec<_> = first.iter().map(|x| (x.element, &x.extents[..])).collect();
        let (inputs, kinds) = (listed(first), kinds(first));
        let results = if first.len() == 1 { kinds.clone() } else { format!("({kinds})") };
        let begin = format!("\"stablehlo.while\"({inputs})");
        let regions = |to: &mut Self| {
            to.region(&state, |to, state| Ok::<_, String>(vec![goes_on(to, state)]))?;
            to.between();
            to.region(&state, next)
        };
        let (outs, written) =
            self.enclosing(&state, begin, regions, format!(": ({kinds}) -> {results}"));
        written.map(|()| outs)
    }
}

/// What is added to a dim.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::program) struct Padding {
    pub(in crate::program) low: i64,
    pub(in crate::program) high: i64,
    pub(in crate::program) between: i64,
}

impl Padding {
    /// Before and behind.
    pub(in crate::program) fn around(low: i64, high: i64) -> Self {
        Self { low, high, between: 0 }
    }

    /// What a dim becomes.
    pub(super) fn extent(&self, extent: usize) -> usize {
        let inner = extent as i64 + (extent as i64 - 1) * self.between;
        usize::try_from(inner + self.low + self.high).unwrap_or_default()
    }
}
