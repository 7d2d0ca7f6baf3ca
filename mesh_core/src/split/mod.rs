//! Split rules: what may happen to each dim of an op when it is split over mesh axes.
//!
//! The rule is data, stated by the op beside its shape rule. The lowering, the layout check,
//! `explain` and the conformance test all read the same value.

mod check;

pub use check::LayoutProblem;
pub(crate) use check::check_dims;

use crate::names::{DimName, ReduceKind};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// A collective that an op's own body may use along a dim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collective {
    /// Values passed along the group.
    Permute,
    /// Values of the whole group on each of its members.
    AllGather,
}

/// What may happen to one dim of one op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Slice i of the inputs makes slice i of the outputs.
    Parallel,
    /// In the inputs, not in all outputs: of an output that lacks it each processor's result is a
    /// part that others complete.
    Reduced(ReduceKind),
    /// Must not be split, because of this.
    Whole(&'static str),
    /// The op's own body handles the split, with these collectives only.
    Exchange(&'static [Collective]),
    /// As [`Reduced`](Self::Reduced), after the body has exchanged with these collectives what each
    /// processor's part needs of the others' slices.
    ExchangeReduced(ReduceKind, &'static [Collective]),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parallel => f.write_str("parallel"),
            Self::Reduced(kind) => write!(f, "reduced({kind})"),
            Self::Whole(_) => f.write_str("whole"),
            Self::Exchange(collectives) => write!(f, "exchange({collectives:?})"),
            Self::ExchangeReduced(kind, collectives) => {
                write!(f, "exchange({collectives:?}), then reduced({kind})")
            }
        }
    }
}

/// How an op is linear in a set of inputs: what it does to their elements. It decides which pending
/// values the op carries on; see [`PlaceCx::by_rule`](crate::lower::PlaceCx::by_rule).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Linearity {
    /// Every element of the outputs is an element of these inputs, bit for bit, or zero: a
    /// transpose, a slice, a concatenation.
    Moves,
    /// Every element of the outputs is a sum of elements of these inputs, each times a finite number
    /// that is known when the op is made: a sum, a difference, a dropout.
    Adds,
    /// Every element of the outputs is a sum of elements of these inputs, each times elements of
    /// other inputs, which may be infinite or NaN: a product, a quotient, an einsum.
    Multiplies,
}

impl fmt::Display for Linearity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moves => "moves",
            Self::Adds => "adds",
            Self::Multiplies => "multiplies",
        })
    }
}

type LinearSets = SmallVec<[SmallVec<[usize; 2]>; 2]>;

/// The roles of an op's dims, and in which inputs the op is linear.
///
/// ```
/// use mesh_core::{names::ReduceKind, split::{Linearity, Role, SplitRule}};
/// // einsum: what is not in the output is summed; linear in each factor
/// let rule = SplitRule::parallel()
///     .with(["k".into()], Role::Reduced(ReduceKind::Sum))
///     .linear(Linearity::Multiplies, &[&[0], &[1]]);
/// assert_eq!(rule.role("batch".into()), Role::Parallel);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct SplitRule {
    default: Role,
    except: Vec<(DimName, Role)>,
    linearity: Linearity,
    linear: LinearSets,
}

impl SplitRule {
    /// Every dim parallel, linear in nothing.
    pub fn parallel() -> Self {
        Self {
            default: Role::Parallel,
            except: Vec::new(),
            linearity: Linearity::Multiplies,
            linear: LinearSets::new(),
        }
    }

    /// Other roles for some dims.
    pub fn with(mut self, dims: impl IntoIterator<Item = DimName>, role: Role) -> Self {
        self.except.extend(dims.into_iter().map(|dim| (dim, role)));
        self
    }

    /// The input sets in each of which the op is jointly linear while the other inputs are whole,
    /// and how: add adds `[[0, 1]]`, mul multiplies `[[0], [1]]`, div multiplies `[[0]]`, a
    /// transpose moves `[[0]]`.
    pub fn linear(mut self, how: Linearity, sets: &[&[usize]]) -> Self {
        self.linearity = how;
        self.linear = sets.iter().map(|&set| set.into()).collect();
        self
    }

    /// A product of so many factors, linear in each.
    pub fn product(mut self, factors: usize) -> Self {
        self.linearity = Linearity::Multiplies;
        self.linear = (0..factors).map(|i| smallvec![i]).collect();
        self
    }

    /// The role of a dim.
    pub fn role(&self, dim: DimName) -> Role {
        self.except.iter().find(|(name, _)| *name == dim).map_or(self.default, |&(_, role)| role)
    }

    /// How the op is linear in its linearity sets.
    pub fn linearity(&self) -> Linearity {
        self.linearity
    }

    /// The linearity sets.
    pub fn linear_sets(&self) -> &[SmallVec<[usize; 2]>] {
        &self.linear
    }
}
