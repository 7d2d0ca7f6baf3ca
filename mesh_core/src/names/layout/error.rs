//! What can be wrong, or merely suspicious, with a layout.

use thiserror::Error;

use super::super::error::NameError;
use super::super::text::{Excerpt, suggestion};

/// Why a layout string was refused, or does not fit a mesh.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// A piece without `:axis`.
    #[error(
        "the rule `{rule}` names no mesh axis: write `dim:axis`, without spaces around `:`\n{at}"
    )]
    NoAxis {
        /// The piece.
        rule: String,
        /// Where it stands.
        at: Excerpt,
    },
    /// A dim or axis name that no dim or axis can have.
    #[error("{problem}\n{at}")]
    BadName {
        /// What is wrong with it.
        problem: NameError,
        /// Where it stands.
        at: Excerpt,
    },
    /// A prefix other than `params/` and `slots/`.
    #[error(
        "there is no rule set `{found}/`: write `params/`, `slots/`, or nothing for a plain rule\n\
         {at}"
    )]
    UnknownSet {
        /// The prefix.
        found: String,
        /// Where it stands.
        at: Excerpt,
    },
    /// `*` in a plain rule.
    #[error("`*` stands for a variable's largest dim: write `params/*` or `slots/*`\n{at}")]
    PlainStar {
        /// Where it stands.
        at: Excerpt,
    },
    /// An owner in a rule for a single dim.
    #[error(
        "an owner holds whole variables: `@{owner}` goes with the target `params/*` or `slots/*`\n\
         {at}"
    )]
    OwnerOfDim {
        /// What stands after `@`.
        owner: String,
        /// Where it stands.
        at: Excerpt,
    },
    /// An owner in a rule with several axes.
    #[error("an owner is a coordinate along one axis: `@{owner}` goes with exactly one axis\n{at}")]
    OwnerOverAxes {
        /// What stands after `@`.
        owner: String,
        /// Where the axes stand.
        at: Excerpt,
    },
    /// An owner that is neither a coordinate nor `each`.
    #[error("`{owner}` is not an owner: write a coordinate, as in `@0`, or `@each`\n{at}")]
    BadOwner {
        /// What stands after `@`.
        owner: String,
        /// Where it stands.
        at: Excerpt,
    },
    /// One axis twice in one rule.
    #[error("`{axis}` is listed twice: a dim is split over an axis once\n{at}")]
    RepeatedAxis {
        /// The axis.
        axis: String,
        /// Where it stands the second time.
        at: Excerpt,
    },
    /// Two rules with one target.
    #[error(
        "there are two rules for `{target}`: keep one; for several axes write `{target}:a+b`\n{at}"
    )]
    RepeatedRule {
        /// The rule set and target.
        target: String,
        /// Where the second rule stands.
        at: Excerpt,
    },
    /// An axis that the mesh lacks.
    #[error("the mesh has no axis `{axis}`: {}{}\n{at}", axes_of_mesh(.known), suggestion(.nearest))]
    UnknownAxis {
        /// The axis.
        axis: String,
        /// The mesh's axes.
        known: Vec<String>,
        /// The mesh's axis that may have been meant.
        nearest: Option<String>,
        /// Where it stands.
        at: Excerpt,
    },
    /// An owner beyond the end of its axis.
    #[error(
        "`{axis}` has size {size}: an owner along it is 0 to {}, or `each`, not {coordinate}\n{at}",
        .size - 1
    )]
    OwnerOutOfRange {
        /// The axis.
        axis: String,
        /// Its size.
        size: usize,
        /// The coordinate asked for.
        coordinate: usize,
        /// Where it stands.
        at: Excerpt,
    },
    /// More that does not fit the mesh, behind what is named.
    #[error("and {count} more axes and owners of the layout do not fit the mesh")]
    More {
        /// How many.
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

/// A rule or an axis that does nothing. A warning by default; `--strict` makes it an error.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutWarning {
    /// A rule for a dim that nothing has.
    #[error("no tensor has a dim `{dim}`: its rule does nothing{}\n{at}", suggestion(.nearest))]
    UnknownDim {
        /// The dim.
        dim: String,
        /// The dim that may have been meant.
        nearest: Option<String>,
        /// Where it stands.
        at: Excerpt,
    },
    /// More rules for dims that nothing has, behind those that are named.
    #[error("and {count} more rules of the layout are for dims that no tensor has")]
    MoreUnknownDims {
        /// How many.
        count: usize,
    },
    /// A mesh axis that no rule uses.
    #[error("no rule uses the mesh axis `{axis}`: its {size} processors repeat the same work")]
    UnusedAxis {
        /// The axis.
        axis: String,
        /// Its size.
        size: usize,
    },
}
