//! Layouts: the user's rules that say which mesh axes each dim is split over.
//!
//! `parse` reads the grammar, `rules` binds it to a mesh and answers for each tensor, `warnings`
//! looks for rules that are legal but do nothing.

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

/// What a rule lays out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum RuleSet {
    /// Tensors while they are computed with (plain rules).
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

/// Which coordinate along an axis holds a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// This one, for every variable (`@0`).
    At(usize),
    /// Each in turn, variable by variable (`@each`).
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

/// Which dim a rule is for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Every dim of this name.
    Dim(DimName),
    /// `*`: the largest dim of each variable that the axes divide and no rule has split.
    LargestDim,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Dim(name) => fmt::Display::fmt(name, f),
            Target::LargestDim => f.write_str("*"),
        }
    }
}

/// One rule, written `[params/|slots/]target:axis[+axis...][@owner]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What it lays out.
    pub set: RuleSet,
    /// Which dim it is for.
    pub target: Target,
    /// The axes by name, major first; at least one.
    pub axes: Vec<String>,
    /// Who holds the variable, instead of splitting it.
    pub owner: Option<Owner>,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", self.set, self.target, self.axes.join("+"))?;
        self.owner.map_or(Ok(()), |owner| fmt::Display::fmt(&owner, f))
    }
}

/// Rules as the user wrote them, not yet bound to a mesh. The empty layout replicates everything.
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

/// How many faults of a kind are shown; of the others there is the number.
const SHOWN: usize = 8;

/// The printed layout, to show faults in.
struct Printed(String);

impl Printed {
    fn new(layout: &Layout) -> Self {
        Self(layout.to_string())
    }

    /// The rule number `rule` with a piece marked; `part` cuts the piece out of its target, axes and
    /// owner.
    fn excerpt(&self, rule: usize, part: Part) -> Excerpt {
        let whole = Piece::new(&self.0);
        let rule = whole.pairs().nth(rule).unwrap_or(whole);
        let (target, rest) = rule.split_once(':').unwrap_or((rule, rule));
        let (axes, owner) = rest.split_once('@').unwrap_or((rest, rest));
        let piece = match part {
            Part::Target => target,
            Part::Axis(position) => axes.split('+').nth(position).unwrap_or(axes),
            Part::Owner => owner,
        };
        piece.excerpt()
    }
}

/// A piece of a rule that can be at fault.
#[derive(Clone, Copy)]
enum Part {
    Target,
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
