//! Layouts: the user's rules, which say over which mesh axes each dim is split.
//!
//! `parse` reads the grammar, `rules` binds a layout to a mesh and gives each tensor its placement,
//! `warnings` finds rules without effect.

mod error;
mod parse;
mod rules;
#[cfg(test)]
mod tests;
mod warnings;

use std::fmt;

pub use error::{LayoutError, LayoutWarning};
pub use rules::{Home, Rules};

use super::dimension::DimName;
use super::text::{Excerpt, Piece};

/// The tensors that a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum RuleSet {
    /// Tensors in computations (plain rules).
    Compute,
    /// Variables at rest (`params/` rules).
    Params,
    /// Optimizer state (`slots/` rules).
    Slots,
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleSet::Compute => "",
            RuleSet::Params => "params/",
            RuleSet::Slots => "slots/",
        })
    }
}

/// The coordinate along an axis that holds a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// This coordinate, for every variable (`@0`).
    At(usize),
    /// The coordinates in turn, one for each variable (`@each`).
    Each,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::At(coordinate) => write!(f, "@{coordinate}"),
            Owner::Each => f.write_str("@each"),
        }
    }
}

/// The dim that a rule is for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RuleDim {
    /// The dim of this name.
    Named(DimName),
    /// `*`: the largest dim of each variable that the axes divide and that no other rule splits.
    Largest,
}

impl fmt::Display for RuleDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleDim::Named(name) => fmt::Display::fmt(name, f),
            RuleDim::Largest => f.write_str("*"),
        }
    }
}

/// One rule, written `[params/|slots/]dim:axis[+axis...][@owner]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The tensors it is for.
    pub set: RuleSet,
    /// The dim it is for.
    pub dim: RuleDim,
    /// The axes by name, major first; at least one.
    pub axes: Vec<String>,
    /// The owner of whole variables. If given, the rule splits nothing.
    pub owner: Option<Owner>,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", self.set, self.dim, self.axes.join("+"))?;
        self.owner.map_or(Ok(()), |owner| fmt::Display::fmt(&owner, f))
    }
}

/// Rules as the user wrote them, not bound to a mesh. The empty layout replicates every tensor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    rules: Vec<Rule>,
}

impl Layout {
    /// The rules in written order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// How many problems of a kind are listed; the rest are counted.
const SHOWN: usize = 8;

/// The layout as printed text, in which problems are shown.
struct Printed(String);

impl Printed {
    fn new(layout: &Layout) -> Self {
        Self(layout.to_string())
    }

    /// The text with a piece of one rule marked. `part` selects the piece from the rule's dim,
    /// axes and owner.
    fn excerpt(&self, rule: usize, part: Part) -> Excerpt {
        let whole = Piece::new(&self.0);
        let rule = whole.pairs().nth(rule).unwrap_or(whole);
        let (dim, rest) = rule.split_once(':').unwrap_or((rule, rule));
        let (axes, owner) = rest.split_once('@').unwrap_or((rest, rest));
        let piece = match part {
            Part::Dim => dim,
            Part::Axis(position) => axes.split('+').nth(position).unwrap_or(axes),
            Part::Owner => owner,
        };
        piece.excerpt()
    }
}

/// Selects a piece of a rule.
#[derive(Clone, Copy)]
enum Part {
    Dim,
    Axis(usize),
    Owner,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, rule) in self.rules.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            write!(f, "{separator}{rule}")?;
        }
        Ok(())
    }
}
