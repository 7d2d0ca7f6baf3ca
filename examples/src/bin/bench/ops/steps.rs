//! The steps of an op's program with their times.

use examples::report::print as line;
use mesh_core::lower::{Module, Target};
use mesh_core::program::Block;
use mesh_core::session::StepTimes;
use std::error::Error;

/// Prints a line for each step of the function `step` that takes a microsecond.
pub(super) fn print(module: &Module, times: &[StepTimes]) -> Result<(), Box<dyn Error>> {
    let executable = module.compile(&Target::host())?;
    let step = executable.functions.iter().find(|compiled| compiled.program.name == "step");
    let compiled = step.ok_or("there is no function step")?;
    block(&compiled.program.block, times, "  ")
}

fn block(of: &Block, times: &[StepTimes], margin: &str) -> Result<(), Box<dyn Error>> {
    for (step, times) in of.steps.iter().zip(times) {
        let us = times.nanoseconds as f64 / 1e3;
        if us < 1.0 {
            continue;
        }
        let inputs: Vec<_> =
            step.inputs.iter().map(|i| of.values[i.value.index()].to_string()).collect();
        let outs: Vec<_> = step.outs.iter().map(|id| of.values[id.index()].to_string()).collect();
        let (name, op) = (step.form.name(), &step.origin.name);
        line(&format!(
            "{margin}{us:9.1} us {name} {op}: {} -> {}",
            inputs.join(", "),
            outs.join(", ")
        ))?;
        if let mesh_core::program::Form::Loop(form) = &step.form {
            block(&form.body, &times.body, &format!("{margin}  "))?;
        }
    }
    Ok(())
}
