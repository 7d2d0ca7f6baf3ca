//! What a check found, as text for a committed table.

use std::fmt;

/// What a check found; prints as an entry of a committed table.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Name of the case.
    pub name: String,
    /// One line per op of the graph, see [`roles`](super::roles).
    pub roles: Vec<String>,
    /// Legal layouts and layouts tried: of the graph, of the forward function in a graph of its
    /// own, where inputs owe sums, and of all operations alone together; per mesh.
    pub counts: Vec<Count>,
    /// Ops of the gradient whose meaning nobody said: what one processor computes stands for it.
    pub unexplained: Vec<String>,
    /// Whether it was compared with what the case says that it computes as a whole.
    pub whole: bool,
    /// Derivatives of higher orders that were checked.
    pub derivatives: Vec<Derivatives>,
    /// Why there are none, if an op of the gradient has no gradient.
    pub underived: Option<String>,
}

/// Layouts of something on one mesh.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// Of what; empty for the graph as it is.
    pub of: String,
    /// The mesh.
    pub mesh: String,
    /// How many layouts are legal.
    pub legal: usize,
    /// How many were tried.
    pub tried: usize,
    /// Whether there were too many to try all.
    pub sampled: bool,
    /// How many legal ones are run only if all are asked for.
    pub left: usize,
}

/// Derivatives of one order, under layouts that are legal for the gradient and split something; of all
/// meshes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Derivatives {
    /// 2 for derivatives of the gradient.
    pub order: usize,
    /// Under how many layouts they were tried.
    pub tried: usize,
    /// Under how many of these they are legal.
    pub legal: usize,
    /// How many layouts are tried only if all are asked for.
    pub left: usize,
}

impl Count {
    /// Adds what was counted of something else on the same mesh.
    pub(super) fn add(&mut self, more: &Self) {
        self.legal += more.legal;
        self.tried += more.tried;
        self.sampled |= more.sampled;
        self.left += more.left;
    }
}

/// The line of a case that has a meaning of its own.
const WHOLE: &str = "as a whole: compared with a meaning of its own";

/// What stands behind the number of layouts that are not run.
const LEFT: &str = "left out";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if self.whole {
            write!(f, "\n    {WHOLE}")?;
        }
        for line in &self.roles {
            write!(f, "\n    {line}")?;
        }
        let mut before = None;
        for count in &self.counts {
            match before.replace(&count.of) {
                Some(of) if *of == count.of => f.write_str(",")?,
                _ if count.of.is_empty() => f.write_str("\n    legal:")?,
                _ => write!(f, "\n    legal, {}:", count.of)?,
            }
            let more = if count.sampled { "+" } else { "" };
            write!(f, " {} {}/{}{more}", count.mesh, count.legal, count.tried)?;
            if count.left > 0 {
                write!(f, " ({} {LEFT})", count.left)?;
            }
        }
        if !self.unexplained.is_empty() {
            let ops = self.unexplained.join(", ");
            write!(f, "\n    by one processor, since nobody said what they mean: {ops}")?;
        }
        for Derivatives { order, tried, legal, left } in &self.derivatives {
            write!(f, "\n    derivatives of order {order}: {legal}/{tried}")?;
            if *left > 0 {
                write!(f, " ({left} {LEFT})")?;
            }
        }
        if let Some(why) = &self.underived {
            write!(f, "\n    no derivatives of order 2: {why}")?;
        }
        Ok(())
    }
}
