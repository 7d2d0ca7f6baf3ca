//! Which kernels a back-end has chosen for steps that it has several ways for.

use super::slice;
use crate::program::{Block, Form, Step};
use std::fmt;

/// A step of a compiled function, and how it is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The operation, or those that were merged.
    pub name: String,
    /// The user's line, and what the operation was made for.
    pub at: String,
    /// What one processor has of its inputs.
    pub inputs: Vec<String>,
    /// What one processor makes.
    pub outs: Vec<String>,
    /// How often it runs in a call.
    pub times: u64,
    /// The way, as the back-end calls it.
    pub way: &'static str,
}

/// The steps of which a back-end says how it runs them, those of loops' bodies among them.
pub(super) fn chosen(
    block: &Block,
    times: u64,
    way: &dyn Fn(&Block, &Step) -> Option<&'static str>,
) -> Vec<Chosen> {
    let mut found = Vec::new();
    for step in &block.steps {
        if let Form::Loop(form) = &step.form {
            found.extend(chosen(&form.body, times * form.expected() as u64, way));
        }
        let Some(way) = way(block, step) else { continue };
        found.push(Chosen {
            name: step.origin.name.clone(),
            at: step.origin.place(),
            inputs: step.reads().map(|id| slice(block, id)).collect(),
            outs: step.outs.iter().map(|&id| slice(block, id)).collect(),
            times,
            way,
        });
    }
    found
}

/// As the listing has it: two lines.
impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, at, inputs, outs, times, way } = self;
        let many = if *times > 1 { format!(" x {times}") } else { String::new() };
        writeln!(f, "    {name}{many}: {way}; {at}")?;
        writeln!(f, "        {} from {}", outs.join(" "), inputs.join(" "))
    }
}
