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
}

impl Count {
    /// Adds what was counted of something else on the same mesh.
    pub(super) fn add(&mut self, more: &Self) {
        self.legal += more.legal;
        self.tried += more.tried;
        self.sampled |= more.sampled;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
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
        }
        if !self.unexplained.is_empty() {
            let ops = self.unexplained.join(", ");
            write!(f, "\n    by one processor, since nobody said what they mean: {ops}")?;
        }
        Ok(())
    }
}
