//! Collectives between their beginning and their await.

use super::Memory;
use crate::program::{Form, Place, Step, ValueId};

/// A collective that has begun.
pub(super) struct Flight {
    /// Where it stands.
    step: usize,
    /// Its inputs and outs.
    values: Vec<ValueId>,
    /// Where it is awaited.
    until: usize,
}

impl Memory<'_> {
    /// What a step fills although a collective that has begun still reads or fills it.
    pub(super) fn disturbs(&mut self, index: usize, step: &Step) -> Vec<String> {
        self.flights.retain(|flight| flight.until > index);
        let mut problems = Vec::new();
        for flight in &self.flights {
            for &value in &flight.values {
                problems.extend(self.fills(step, value).map(|what| {
                    let begun = self.block.caption(flight.step);
                    format!("{what} is on {value:?}, which {begun} has not done with")
                }));
            }
        }
        let until = step.outs.first().and_then(|out| self.awaits[out.index()]);
        if let Some(until) = until.filter(|_| step.axes().is_some()) {
            let values = step.values().collect();
            self.flights.push(Flight { step: index, values, until });
        }
        problems
    }

    /// What a step fills of a value's bytes.
    fn fills(&self, step: &Step, value: ValueId) -> Option<String> {
        match step.form {
            Form::Write(form) => {
                let place = Place::Variable(form.variable);
                let fills = self.at(step.inputs[0].value) != place && self.at(value) == place;
                return fills.then(|| format!("{:?}", form.variable));
            }
            Form::Read(form) if self.at(step.outs[0]) == Place::Variable(form.variable) => {
                return None;
            }
            _ if self.renames(step) => return None,
            _ => {}
        }
        let out = step.outs.iter().find(|&&out| self.overlap(out, value));
        out.map(|out| format!("{out:?}"))
    }
}
