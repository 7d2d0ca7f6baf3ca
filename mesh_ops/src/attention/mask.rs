//! Who may attend to whom, as a description: rules about positions and labels.
//!
//! A rule says of a query and a position of the memory whether they meet, and of a block of each, from
//! the least and greatest positions or labels in it, whether any of them may and whether all of them
//! do. So blocks that a rule leaves out are never computed, wherever positions lie: in order, dealt in
//! another order, or split over processors.

use super::parts::{Label, Part, Parts, Side, Terms};
use crate::elementwise::{greater, greater_equal, less, less_equal, logical_and, logical_or};
use crate::room::*;
use mesh_core::graph::Graph;
use mesh_core::program::Expr;

/// The end of the prefix that a query sees.
const PREFIX: Part = Part::Each(Label::Prefix, Side::Queries);

/// The order in which positions lie, of queries and of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Order {
    /// They are numbers that are computed or fed.
    #[default]
    Unknown,
    /// From 0 on.
    Rising,
    /// As [`zigzag`](crate::zigzag) deals them, in so many pieces.
    Zigzag(usize),
}

/// Who may attend to whom. Without a rule, everybody to everything.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::attention::Mask;
/// # let g = mesh_ops::graph();
/// let (length, memory) = (dim("length", 16), dim("memory_length", 16));
/// // Each position looks at itself and the three before it.
/// let window = Mask::along(&g, length, memory).causal().window(4);
/// assert_eq!(window.tensor().map(|t| t.shape().to_string()).as_deref(),
///     Some("[length:16, memory_length:16]"));
/// // Whoever looks at the first five as well.
/// let prefix = window.prefix(g.scalar(5.0, I32));
/// // Within sequences that are packed one after the other.
/// let segment = g.input("segment", [dim("batch", 2), length], I32);
/// let packed = prefix.segments(segment, segment.rename(length, "memory_length"));
/// assert!(packed.tensor().is_some() && Mask::default().tensor().is_none());
/// // Positions in another order.
/// let dealt = g.input("dealt", [length], I32);
/// let dealt = Mask::of_positions(dealt, dealt.rename(length, "memory_length")).causal();
/// assert!(dealt.tensor().is_some());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Mask<'g> {
    pub(super) rules: Rules,
    pub(super) positions: Option<[Tensor<'g>; 2]>,
    pub(super) order: Order,
    pub(super) prefix: Option<Tensor<'g>>,
    pub(super) segments: Option<[Tensor<'g>; 2]>,
    /// Whether each query is known to see its own position.
    pub(super) own: bool,
}

/// Which rules there are; what they are about is the operation's inputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Rules {
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) prefix: bool,
    pub(super) segments: bool,
}

impl<'g> Mask<'g> {
    /// Positions, i32, of queries and of the memory, in whatever order; no rule yet.
    pub fn of_positions(queries: Tensor<'g>, memory: Tensor<'g>) -> Self {
        Self { positions: Some([queries, memory]), ..Self::default() }
    }

    /// The positions of a dim of queries and of one of the memory, each from 0 on; no rule yet.
    #[track_caller]
    pub fn along(graph: &'g Graph, queries: Dimension, memory: Dimension) -> Self {
        let _caller = graph.for_caller();
        let range = |dim| crate::range(graph, dim, DType::I32);
        let own = queries.size <= memory.size;
        let positions = Self::of_positions(range(queries), range(memory));
        Self { own, order: Order::Rising, ..positions }
    }

    /// The positions of a dim of queries and of one of the memory as long, both in zigzag order of so many
    /// pieces (see [`zigzag`](crate::zigzag)); no rule yet.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::attention::Mask;
    /// # let g = mesh_ops::graph();
    /// let (length, memory) = (dim("length", 16), dim("memory_length", 16));
    /// assert!(Mask::in_zigzag(&g, length, memory, 8).causal().tensor().is_some());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn in_zigzag(
        graph: &'g Graph,
        queries: Dimension,
        memory: Dimension,
        pieces: usize,
    ) -> Self {
        let _caller = graph.for_caller();
        let dealt = |dim| crate::zigzag(crate::range(graph, dim, DType::I32), dim, pieces);
        let own = queries.size == memory.size;
        let positions = Self::of_positions(dealt(queries), dealt(memory));
        Self { own, order: Order::Zigzag(pieces), ..positions }
    }

    /// Nobody looks at later positions than its own.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.rules.causal = true;
        self
    }

    /// Nobody looks at positions as far away as `width`, or farther.
    #[must_use]
    pub fn window(mut self, width: usize) -> Self {
        self.rules.window = Some(width);
        self.own &= width > 0;
        self
    }

    /// Everybody looks at positions below `end` as well (i32; of dims of queries).
    #[must_use]
    pub fn prefix(mut self, end: Tensor<'g>) -> Self {
        self.rules.prefix = true;
        self.prefix = Some(end);
        self
    }

    /// Nobody looks at what has another label, i32.
    #[must_use]
    pub fn segments(mut self, queries: Tensor<'g>, memory: Tensor<'g>) -> Self {
        self.rules.segments = true;
        self.segments = Some([queries, memory]);
        self.own = false;
        self
    }

    /// Whether somebody may have nothing to look at, as far as is known.
    pub(crate) fn may_leave_nothing(&self) -> bool {
        !self.own && self.has_rules()
    }

    /// Whether a rule may leave something out.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules != Rules::default()
    }

    /// What its rules are about.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = Tensor<'g>> {
        self.inputs().into_iter().map(|(_, tensor)| tensor)
    }

    /// Its tensors with what they are, in the order in which an operation has them.
    pub(super) fn inputs(&self) -> Vec<(Part, Tensor<'g>)> {
        let pair = |label, pair: Option<[Tensor<'g>; 2]>| {
            let sides = [Side::Queries, Side::Memory].map(|side| Part::Each(label, side));
            sides.into_iter().zip(pair.into_iter().flatten()).collect::<Vec<_>>()
        };
        let needs = self.rules.needs_positions();
        let positions = self.positions.filter(|_| needs);
        let mut all = pair(Label::Position, positions);
        all.extend(self.prefix.filter(|_| needs).map(|end| (PREFIX, end)));
        all.extend(pair(Label::Segment, self.segments));
        all
    }

    /// True where somebody may attend, of the dims of all that the rules are about; none without a
    /// rule.
    #[track_caller]
    pub fn tensor(&self) -> Option<Tensor<'g>> {
        let mut all: Option<Tensor<'g>> = None;
        if let Some([q, k]) = self.positions.filter(|_| self.rules.needs_positions()) {
            let _caller = q.graph().for_caller();
            let mut and = |rule| all = Some(all.map_or(rule, |all| logical_and(all, rule)));
            if self.rules.causal {
                and(greater_equal(q, k));
            }
            if let Some(width) = self.rules.window {
                let width = q.scalar_like(width as f64);
                and(less(q - k, width));
                if !self.rules.causal {
                    and(greater(q - k, -width));
                }
            }
            if let Some(end) = self.prefix {
                let near = less(k, end);
                all = all.map(|all| logical_or(all, near));
            }
        }
        if let Some([q, k]) = self.segments {
            let _caller = q.graph().for_caller();
            let same = logical_and(less_equal(q, k), greater_equal(q, k));
            all = Some(all.map_or(same, |all| logical_and(all, same)));
        }
        all
    }
}

/// Of two blocks.
pub(super) struct Meeting {
    /// Whether some may meet.
    pub(super) any: Option<Expr>,
    /// Whether all meet.
    pub(super) all: Option<Expr>,
}

impl Rules {
    pub(super) fn needs_positions(self) -> bool {
        self.causal || self.window.is_some()
    }

    /// What an operation with these rules has besides queries, keys and values.
    pub(super) fn parts(self) -> Vec<Part> {
        let pair = |label| [Side::Queries, Side::Memory].map(|side| Part::Each(label, side));
        let mut all = Vec::new();
        if self.needs_positions() {
            all.extend(pair(Label::Position));
        }
        if self.prefix && self.needs_positions() {
            all.push(PREFIX);
        }
        if self.segments {
            all.extend(pair(Label::Segment));
        }
        all
    }

    /// Whether a query and a position of the memory meet. `real`: how many positions of the memory
    /// there are, where its last block has more.
    pub(super) fn each(
        self,
        parts: &Parts,
        real: Option<usize>,
        terms: &mut Terms,
    ) -> Result<Option<Expr>, OpError> {
        let mut all: Option<Expr> = None;
        let and =
            |all: Option<Expr>, rule: Expr| Some(all.map_or(rule.clone(), |all| all.and(rule)));
        if self.needs_positions() {
            let [q, k] = terms.both(parts, Label::Position)?;
            if self.causal {
                all = and(all, q.clone().greater_equal(k.clone()));
            }
            if let Some(width) = self.window {
                let away = q - k.clone();
                all = and(all, away.clone().less(width as f64));
                if !self.causal {
                    all = and(all, away.greater(-(width as f64)));
                }
            }
            if self.prefix {
                let near = k.less(terms.of(parts.want(PREFIX)?));
                all = all.map(|all| all.or(near));
            }
        }
        if self.segments {
            let [q, k] = terms.both(parts, Label::Segment)?;
            all = and(all, q.equal(k));
        }
        if let Some(real) = real {
            let index = terms.of(parts.want(Part::Each(Label::Index, Side::Memory))?);
            all = and(all, index.less(real as f64));
        }
        Ok(all)
    }

    /// Whether blocks meet, from the least and greatest in each.
    pub(super) fn blocks(
        self,
        parts: &Parts,
        real: Option<usize>,
        terms: &mut Terms,
    ) -> Result<Meeting, OpError> {
        let and =
            |all: Option<Expr>, rule: Expr| Some(all.map_or(rule.clone(), |all| all.and(rule)));
        let (mut any, mut all) = (None, None);
        if self.needs_positions() {
            let [q, k] = Range::both(parts, Label::Position, terms)?;
            if self.causal {
                any = and(any, q.greatest.clone().greater_equal(k.least.clone()));
                all = and(all, q.least.clone().greater_equal(k.greatest.clone()));
            }
            if let Some(width) = self.window {
                let width = width as f64;
                any = and(any, (q.least.clone() - k.greatest.clone()).less(width));
                all = and(all, (q.greatest.clone() - k.least.clone()).less(width));
                if !self.causal {
                    any = and(any, (k.least.clone() - q.greatest.clone()).less(width));
                    all = and(all, (k.greatest.clone() - q.least.clone()).less(width));
                }
            }
            if self.prefix {
                let end = Range::of(parts, (Label::Prefix, Side::Queries), terms)?;
                any = any.map(|any: Expr| any.or(k.least.less(end.greatest)));
                all = all.map(|all: Expr| all.or(k.greatest.less(end.least)));
            }
        }
        if self.segments {
            let [q, k] = Range::both(parts, Label::Segment, terms)?;
            any = and(any, q.least.clone().less_equal(k.greatest.clone()));
            any = and(any, k.least.clone().less_equal(q.greatest.clone()));
            all = and(all, q.least.clone().equal(q.greatest.clone()));
            all = and(all, k.least.clone().equal(k.greatest));
            all = and(all, q.least.equal(k.least));
        }
        if let Some(real) = real {
            let last = terms.of(parts.want(Part::Greatest(Label::Index, Side::Memory))?);
            all = and(all, last.less(real as f64));
        }
        Ok(Meeting { any, all })
    }
}

/// What the numbers of a block lie between.
struct Range {
    least: Expr,
    greatest: Expr,
}

impl Range {
    fn of(parts: &Parts, (label, side): (Label, Side), terms: &mut Terms) -> Result<Self, OpError> {
        let least = terms.of(parts.want(Part::Least(label, side))?);
        let greatest = terms.of(parts.want(Part::Greatest(label, side))?);
        Ok(Self { least, greatest })
    }

    fn both(parts: &Parts, label: Label, terms: &mut Terms) -> Result<[Self; 2], OpError> {
        let queries = Self::of(parts, (label, Side::Queries), terms)?;
        Ok([queries, Self::of(parts, (label, Side::Memory), terms)?])
    }
}
