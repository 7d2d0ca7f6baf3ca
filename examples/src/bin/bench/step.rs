//! `step`: whole training steps, as the peers measure them.

use super::lines::{Lines, median, peak_rss_mib, process_age};
use super::setup::Flags;
use std::error::Error;
use std::time::Instant;

/// The number of the step whose loss is compared with the peers'. The steps before it are not
/// timed.
const PARITY: usize = 10;

/// The fewest steps that are timed.
const LEAST: usize = 8;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let lines = Lines::new(flags.workload.to_string(), flags.name.as_str());
    let mut setup = flags.setup()?;
    if let Some(steps) = flags.steps {
        return (0..steps).try_for_each(|number| setup.step(number).map(|_| ()));
    }
    let started = Instant::now();
    let first = setup.step(0)?;
    let first_step_s = started.elapsed().as_secs_f64();
    let age = process_age();
    lines.line("graph_s", setup.graph_s)?;
    lines.line("lowering_s", setup.lowering_s)?;
    lines.line("session_s", setup.session_s)?;
    lines.line("first_step_s", first_step_s)?;
    lines.known("process_start_to_first_step_s", age)?;
    lines.line("loss_at_step_1", first)?;
    let mut loss = first;
    for number in 1..PARITY {
        loss = setup.step(number)?;
    }

    // Half of the time the steps are timed one by one, half of it all together.
    let (mut times, started) = (Vec::new(), Instant::now());
    while started.elapsed().as_secs_f64() < flags.seconds / 2.0 || times.len() < LEAST {
        let begin = Instant::now();
        setup.step(times.len())?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let median = median(times);
    let steps = LEAST.max((flags.seconds / 2.0 / median) as usize);
    let started = Instant::now();
    for number in 0..steps {
        setup.step(number)?;
    }
    let rate = steps as f64 / started.elapsed().as_secs_f64();

    let sizes = flags.sizes.lm()?;
    let (count, unit) = flags.workload.per_step(&sizes);
    lines.line("step_ms_median", median * 1e3)?;
    lines.line("step_ms_min", least * 1e3)?;
    lines.line("steps_per_s", rate)?;
    lines.line(&format!("{unit}_per_s"), rate * count as f64)?;
    lines.known("gflops", flags.workload.flops(&sizes).map(|flops| flops * rate / 1e9))?;
    lines.known("peak_rss_mib", peak_rss_mib())?;
    lines.line(&format!("loss_at_step_{PARITY}"), loss)?;
    Ok(())
}
