//! The errors and warnings of layouts.

use thiserror::Error;

use super::super::error::NameError;
use super::super::text::{Excerpt, suggestion};

/// Why a layout string was refused, or does not fit a mesh.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// A rule has no `:axis`.
    #[error(
        "the rule `{rule}` names no mesh axis: write `dim:axis`, without spaces around `:`\n{at}"
    )]
    NoAxis {
        /// The rule.
        rule: String,
        /// The place of the rule.
        at: Excerpt,
    },
    /// A name that no dim or axis can have.
    #[error("{problem}\n{at}")]
    BadName {
        /// The problem with the name.
        problem: NameError,
        /// The place of the name.
        at: Excerpt,
    },
    /// A rule set other than `params/` and `slots/`.
    #[error(
        "there is no rule set `{found}/`: write `params/`, `slots/`, or nothing for a plain rule\n\
         {at}"
    )]
    UnknownSet {
        /// The prefix.
        found: String,
        /// The place of the prefix.
        at: Excerpt,
    },
    /// A plain rule is for `*`.
    #[error("`*` stands for a variable's largest dim: write `params/*` or `slots/*`\n{at}")]
    PlainStar {
        /// The place of `*`.
        at: Excerpt,
    },
    /// A rule for a single dim has an owner.
    #[error(
        "an owner holds whole variables: `@{owner}` goes with `params/*` or `slots/*`\n\
         {at}"
    )]
    OwnerOfDim {
        /// The text after `@`.
        owner: String,
        /// The place of the owner.
        at: Excerpt,
    },
    /// A rule with several axes has an owner.
    #[error("an owner is a coordinate along one axis: `@{owner}` goes with exactly one axis\n{at}")]
    OwnerOverAxes {
        /// The text after `@`.
        owner: String,
        /// The place of the axes.
        at: Excerpt,
    },
    /// An owner is neither a coordinate nor `each`.
    #[error("`{owner}` is not an owner: write a coordinate, as in `@0`, or `@each`\n{at}")]
    BadOwner {
        /// The text after `@`.
        owner: String,
        /// The place of the owner.
        at: Excerpt,
    },
    /// A rule names an axis twice.
    #[error("`{axis}` is listed twice: a dim is split over an axis once\n{at}")]
    RepeatedAxis {
        /// The axis.
        axis: String,
        /// The place of its second occurrence.
        at: Excerpt,
    },
    /// Two rules are for the same dim.
    #[error("there are two rules for `{dim}`: keep one; for several axes write `{dim}:a+b`\n{at}")]
    RepeatedRule {
        /// The rule set and dim.
        dim: String,
        /// The place of the second rule.
        at: Excerpt,
    },
    /// A rule names an axis that the mesh lacks.
    #[error("the mesh has no axis `{axis}`: {}{}\n{at}", axes_of_mesh(.known), suggestion(.nearest))]
    UnknownAxis {
        /// The axis.
        axis: String,
        /// The mesh's axes.
        known: Vec<String>,
        /// The mesh's axis that is most like it.
        nearest: Option<String>,
        /// The place of the axis.
        at: Excerpt,
    },
    /// An owner is not below the size of its axis.
    #[error(
        "`{axis}` has size {size}: an owner along it is 0 to {}, or `each`, not {coordinate}\n{at}",
        .size - 1
    )]
    OwnerOutOfRange {
        /// The axis.
        axis: String,
        /// The axis's size.
        size: usize,
        /// The owner's coordinate.
        coordinate: usize,
        /// The place of the owner.
        at: Excerpt,
    },
    /// The number of problems of a kind that are not listed, after those that are.
    #[error("and {count} more axes and owners of the layout do not fit the mesh")]
    More {
        /// The number.
        count: usize,
    },
}

fn axes_of_mesh(known: &[String]) -> String {
    match known {
        [] => "it is one processor without axes".to_owned(),
        [one] => format!("its only axis is {one}"),
        several => format!("its axes are {}", several.join(", ")),
    }
}

/// A rule or an axis without effect. It is a warning by default; `--strict` makes it an error.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutWarning {
    /// A rule for a dim that no tensor of the graph has.
    #[error("no tensor has a dim `{dim}`: its rule does nothing{}\n{at}", suggestion(.nearest))]
    UnknownDim {
        /// The dim.
        dim: String,
        /// The graph's dim that is most like it.
        nearest: Option<String>,
        /// The place of the dim.
        at: Excerpt,
    },
    /// The number of rules for unknown dims that are not listed, after those that are.
    #[error("and {count} more rules of the layout are for dims that no tensor has")]
    MoreUnknownDims {
        /// The number.
        count: usize,
    },
    /// A mesh axis that no rule uses.
    #[error("no rule uses the mesh axis `{axis}`: its {size} processors repeat the same work")]
    UnusedAxis {
        /// The axis.
        axis: String,
        /// The axis's size.
        size: usize,
    },
}
