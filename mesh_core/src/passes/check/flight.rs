//! Collectives between their beginning and their await.

use super::Memory;
use crate::program::{Place, Step, ValueId};

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
                    let begun = self.program.caption(flight.step);
                    format!("{what} is on {value:?}, which {begun} has not done with")
                }));
            }
        }
        let until = step.outs().first().and_then(|out| self.awaits[out.index()]);
        if let Some(until) = until.filter(|_| step.axes().is_some()) {
            let values = step.inputs().into_iter().chain(step.outs().iter().copied()).collect();
            self.flights.push(Flight { step: index, values, until });
        }
        problems
    }

    /// What is not there that has been awaited. Inputs may be gone: a sum may be made in place.
    pub(super) fn awaited(&mut self, begun: &[ValueId]) -> Vec<String> {
        begun.iter().filter_map(|&value| self.expect(value).err()).collect()
    }

    /// What a step fills of a value's bytes.
    fn fills(&self, step: &Step, value: ValueId) -> Option<String> {
        let new_name = |input: ValueId, out: ValueId| self.at(input) == self.at(out);
        match step {
            Step::Write { variable, input } => {
                let place = Place::Variable(*variable);
                let fills = self.at(*input) != place && self.at(value) == place;
                return fills.then(|| format!("{variable:?}"));
            }
            Step::Read { variable, out } if self.at(*out) == Place::Variable(*variable) => {
                return None;
            }
            Step::Reshape { input, out } if new_name(*input, *out) => return None,
            Step::Barrier { inputs, outs }
                if inputs.iter().zip(outs).all(|(&input, &out)| new_name(input, out)) =>
            {
                return None;
            }
            _ => {}
        }
        let outs = step.outs();
        outs.iter().find(|&&out| self.overlap(out, value)).map(|out| format!("{out:?}"))
    }
}
