//! Every operation, one by one.

use super::{Explain, FunctionRows, Row};
use crate::program::Cost;
use indexmap::IndexMap;
use std::fmt;

/// What [`Explain::listing`] prints.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'e>(pub(super) &'e Explain);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.head(f)?;
        for function in &self.0.functions {
            write!(f, "\n{function}")?;
            let variables = grouped(self.0.variable_bytes as u64);
            match function.arena_bytes {
                Some(values) => writeln!(
                    f,
                    "  peak memory: {} bytes: {} of values, {variables} of variables",
                    grouped((values + self.0.variable_bytes) as u64),
                    grouped(values as u64),
                )?,
                None => writeln!(f, "  memory: {variables} bytes of variables")?,
            }
            if !function.chosen.is_empty() {
                writeln!(f, "  kernels that were chosen:")?;
            }
            function.chosen.iter().try_for_each(|chosen| write!(f, "{chosen}"))?;
        }
        Ok(())
    }
}

/// The operations under the source lines they come from, two lines each, and the totals.
impl fmt::Display for FunctionRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.rows.iter().map(|row| row.name.len() + 2).max().unwrap_or(0);
        let width = longest.clamp(20, 40);
        writeln!(
            f,
            "{:<1$}  {2:>14} {3:>14} {4:>12}  steps",
            self.name,
            width + 2,
            "flops",
            "bytes",
            "received"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, cost: Cost, steps: &str| {
            let numbers = [cost.flops, cost.bytes, cost.sent].map(grouped);
            let [flops, bytes, received] = numbers;
            let line = format!("  {name:<width$}  {flops:>14} {bytes:>14} {received:>12}  {steps}");
            writeln!(f, "{}", line.trim_end())
        };
        let mut place = "";
        for row in &self.rows {
            let Row { at, note, .. } = row;
            if at != place {
                writeln!(f, "  {at}")?;
                place = at;
            }
            line(f, &format!("  {}", row.name), row.cost, &runs(&row.steps))?;
            let of = if row.slice.is_empty() { "" } else { " of " };
            let joint = if note.is_empty() { "" } else { "; " };
            writeln!(f, "        {}{of}{}{joint}{note}", row.local.join(" "), row.slice)?;
        }
        line(f, "total", self.total(), "")?;
        let mut kinds: IndexMap<String, usize> = IndexMap::new();
        for (form, axes, _) in self.collectives() {
            *kinds.entry(format!("{form}({axes})")).or_default() += 1;
        }
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        writeln!(f, "  collectives: {kinds}")
    }
}

/// Step forms with equal neighbours counted: `permute(r) x2 move`.
fn runs(steps: &[String]) -> String {
    let runs = steps.chunk_by(PartialEq::eq).map(|run| match run {
        [only] => only.clone(),
        _ => format!("{} x{}", run[0], run.len()),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Digits in threes, and a dash for nothing.
pub(in crate::lower) fn grouped(number: u64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
