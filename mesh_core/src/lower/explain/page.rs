//! The page: totals, the dearest operations, what is repeated, what is uneven.

use super::advice::{Advice, Repeated};
use super::{Explain, FunctionRows, Row};
use crate::passes::Machine;
use crate::program::Cost;
use indexmap::IndexMap;
use std::fmt;

/// How many operations a function's list of the dearest has.
const DEAREST: usize = 10;

/// The widest column, in characters; longer cells stand out.
const WIDEST: usize = 60;

/// How many operations are named that repeat work over an axis.
const NAMED: usize = 3;

/// How many operations are named that are done again.
const MADE_AGAIN: usize = 6;

/// Operations that are alike but for numbers in their names, as those of equal layers are.
#[derive(Clone, PartialEq, Debug)]
pub struct Alike {
    /// Their name, without the numbers that differ.
    pub name: String,
    /// How many there are, each iteration of a loop counted.
    pub count: u64,
    /// The user's line.
    pub at: String,
    /// What they were made for, if other code made them at that line.
    pub note: String,
    /// What one processor holds of the outputs of each.
    pub local: Vec<String>,
    /// The work of all.
    pub cost: Cost,
}

impl FunctionRows {
    /// The operations, those that are alike together, the dearest first: by the longer of the times that
    /// their arithmetic and their memory traffic take.
    pub fn dearest(&self) -> Vec<Alike> {
        alike(self.rows.iter())
    }

    /// What is received over each axis, or list of axes: form, count, bytes.
    pub fn received(&self) -> IndexMap<&str, Vec<(&str, u64, u64)>> {
        let mut axes: IndexMap<&str, Vec<(&str, u64, u64)>> = IndexMap::new();
        let all =
            self.rows.iter().flat_map(|row| row.collectives.iter().map(move |c| (row.times, c)));
        for (times, (form, over, bytes)) in all {
            let forms = axes.entry(over).or_default();
            match forms.iter_mut().find(|(known, ..)| known == form) {
                Some((_, count, sum)) => (*count, *sum) = (*count + times, *sum + bytes),
                None => forms.push((form, times, *bytes)),
            }
        }
        axes
    }

    /// Seconds that arithmetic and memory traffic take on a machine, nothing else beside; collectives are
    /// not counted.
    pub fn seconds(&self, machine: &Machine) -> f64 {
        self.rows.iter().map(|row| nanoseconds(row.cost, machine) * 1e-9).sum()
    }
}

fn nanoseconds(cost: Cost, machine: &Machine) -> f64 {
    let [flops, bytes] = [(cost.flops, machine.flops.f32), (cost.bytes, machine.memory)]
        .map(|(count, rate)| count as f64 / (rate / 1e9));
    flops.max(bytes)
}

fn alike<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<Alike> {
    type Key<'r> = (String, &'r str, &'r str, &'r [String], &'r [String]);
    let mut found: IndexMap<Key<'_>, Vec<&Row>> = IndexMap::new();
    for row in rows {
        let key = (pattern(&row.name), &*row.at, &*row.note, &row.local[..], &row.steps[..]);
        found.entry(key).or_default().push(row);
    }
    let mut found: Vec<_> = found
        .into_iter()
        .map(|((name, at, note, ..), rows)| Alike {
            name: if rows.len() == 1 { rows[0].name.clone() } else { name },
            count: rows.iter().map(|row| row.times).sum(),
            at: at.to_owned(),
            note: note.to_owned(),
            local: rows[0].local.clone(),
            cost: rows.iter().fold(Cost::default(), |sum, row| sum + row.cost),
        })
        .collect();
    found.sort_by(|a, b| super::weight(b.cost).total_cmp(&super::weight(a.cost)));
    found
}

/// A name without the numbers at the ends of its words: `layer3/dense` is `layer*/dense`, and
/// `einsum_12` is `einsum`, as the first of its name is called.
pub(super) fn pattern(name: &str) -> String {
    let words = name.split('/').map(|word| {
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if stem.len() == word.len() { word.to_owned() } else { format!("{stem}*") }
    });
    words
        .map(|word| word.strip_suffix("_*").unwrap_or(&word).to_owned())
        .collect::<Vec<_>>()
        .join("/")
}

impl Explain {
    /// The mesh, and whose the numbers are.
    pub(super) fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mesh = if self.mesh.is_empty() { "without axes" } else { &self.mesh };
        let are = if self.processors == 1 { "processor" } else { "processors" };
        writeln!(f, "mesh {mesh}: {} {are}; all numbers are for one of them", self.processors)?;
        match &self.order {
            Some(order) => {
                let places: Vec<_> = order.iter().map(ToString::to_string).collect();
                writeln!(f, "they are at the places {}", places.join(" "))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        let (parameters, state) =
            (self.parameter_bytes, self.variable_bytes.saturating_sub(self.parameter_bytes));
        writeln!(
            f,
            "{} parameters in all; here {} of them, {} of slots and other state",
            short(self.parameters as u64, ""),
            short(parameters as u64, "B"),
            short(state as u64, "B")
        )?;
        for function in &self.functions {
            self.function(f, function)?;
        }
        if !self.warnings.is_empty() {
            writeln!(f, "\nwithout effect:")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "  {warning}"))
    }
}

impl Explain {
    fn function(&self, f: &mut fmt::Formatter<'_>, function: &FunctionRows) -> fmt::Result {
        let total = function.total();
        writeln!(f, "\n{}", function.name)?;
        let time = self.target.as_ref().map(|(name, machine)| {
            let seconds = function.seconds(machine);
            format!(": at least {} on `{name}`", short((seconds * 1e9) as u64, "ns"))
        });
        writeln!(
            f,
            "  work      {}, {} read and written{}",
            short(total.flops, "FLOP"),
            short(total.bytes, "B"),
            time.unwrap_or_default()
        )?;
        self.traffic(f, function)?;
        self.peak(f, function)?;
        again(f, function)?;
        table(f, function, total)?;
        function.repeated.iter().try_for_each(|repeated| repeats(f, function, repeated))?;
        function.unbalanced.iter().try_for_each(|unbalanced| write!(f, "{unbalanced}"))
    }

    fn traffic(&self, f: &mut fmt::Formatter<'_>, function: &FunctionRows) -> fmt::Result {
        let received = function.received();
        if received.is_empty() {
            return writeln!(f, "  receives  nothing");
        }
        for (axes, forms) in received {
            let bytes = forms.iter().map(|(.., bytes)| bytes).sum();
            let forms: Vec<_> =
                forms.iter().map(|(form, count, _)| format!("{count} {form}")).collect();
            writeln!(f, "  receives  {} over {axes}: {}", short(bytes, "B"), forms.join(", "))?;
        }
        Ok(())
    }

    fn peak(&self, f: &mut fmt::Formatter<'_>, function: &FunctionRows) -> fmt::Result {
        let (Some(values), Some(kept)) = (function.arena_bytes, function.kept_bytes) else {
            return writeln!(f, "  peak      known for a target, as is the time: explain_for");
        };
        let parts = [
            (self.parameter_bytes, "parameters"),
            (self.variable_bytes.saturating_sub(self.parameter_bytes), "slots and other state"),
            (kept, "values kept for the gradient"),
            (values.saturating_sub(kept), "other values"),
        ];
        let all: usize = parts.iter().map(|(bytes, _)| bytes).sum();
        let parts = parts.iter().filter(|(bytes, _)| *bytes > 0);
        let parts: Vec<_> =
            parts.map(|(bytes, what)| format!("{} {what}", short(*bytes as u64, "B"))).collect();
        writeln!(f, "  peak      {}: {}", short(all as u64, "B"), parts.join(", "))
    }
}

/// What is done again rather than kept.
fn again(f: &mut fmt::Formatter<'_>, function: &FunctionRows) -> fmt::Result {
    if function.again.is_empty() {
        return Ok(());
    }
    let named: Vec<_> = function
        .again
        .iter()
        .take(MADE_AGAIN)
        .map(|(name, times)| format!("{name} x {times}"))
        .collect();
    let more = if function.again.len() > MADE_AGAIN { ", …" } else { "" };
    let named = named.join(", ");
    writeln!(f, "  again     {named}{more}: for the gradient, which costs less than keeping them")
}

/// The dearest operations.
fn table(f: &mut fmt::Formatter<'_>, function: &FunctionRows, total: Cost) -> fmt::Result {
    let found = function.dearest();
    let all: f64 = found.iter().map(|alike| super::weight(alike.cost)).sum();
    let mut lines = Vec::new();
    for alike in found.iter().take(DEAREST).filter(|alike| super::weight(alike.cost) > 0.0) {
        let Alike { name, count, at, note, local, cost } = alike;
        let many = if *count > 1 { format!(" x {count}") } else { String::new() };
        let made = if note.is_empty() { String::new() } else { format!(" ({note})") };
        let share = format!("{:.0} %", 100.0 * super::weight(*cost) / all);
        lines.push([
            format!("{name}{many}"),
            share,
            some(cost.flops, "FLOP"),
            some(cost.bytes, "B"),
            if total.sent == 0 { String::new() } else { some(cost.sent, "B") },
            local.join(" "),
            format!("{at}{made}"),
        ]);
    }
    let received = if total.sent == 0 { "" } else { "received" };
    let head = ["dearest operations", "share", "work", "memory", received, "makes", "at"];
    let head = head.map(str::to_owned);
    let width = |column: usize| {
        let cells = lines.iter().chain([&head]).map(|line| line[column].chars().count());
        cells.max().unwrap_or(0).min(WIDEST)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    for [name, share, work, memory, received, makes, at] in [&head].into_iter().chain(&lines) {
        let [n, s, w, m, r, l, _] = widths;
        let received = if r == 0 { String::new() } else { format!("  {received:>r$}") };
        writeln!(
            f,
            "  {name:<n$}  {share:>s$}  {work:>w$}  {memory:>m$}{received}  {makes:<l$}  {at}"
        )?;
    }
    Ok(())
}

/// What is done alike by all along an axis.
fn repeats(f: &mut fmt::Formatter<'_>, function: &FunctionRows, found: &Repeated) -> fmt::Result {
    let Repeated { axis, times, rows, share, advice } = found;
    let named = alike(rows.iter().filter_map(|&row| function.rows.get(row)));
    let name = |alike: &Alike| match &*alike.note {
        "" => alike.name.clone(),
        note => format!("{} ({note})", alike.name),
    };
    let names: Vec<_> = named.iter().take(NAMED).map(name).collect();
    let more = if named.len() > NAMED { ", …" } else { "" };
    let names = format!("{}{more}", names.join(", "));
    writeln!(
        f,
        "  repeated  {:.0} % of the work {times} times over {axis}: {names}",
        share * 100.0
    )?;
    match advice {
        Advice::Rule { rule, share } => {
            writeln!(f, "            the rule `{rule}` divides {:.0} % of the work", share * 100.0)
        }
        Advice::None(reason) => writeln!(f, "            no rule divides it: {reason}"),
    }
}

/// As [`short`], and a dash for nothing.
fn some(number: u64, unit: &str) -> String {
    if number == 0 { "-".to_owned() } else { short(number, unit) }
}

/// Three digits and a unit: `1.23 GB`.
fn short(number: u64, unit: &str) -> String {
    let (mut number, mut prefix) = (number as f64, "");
    for next in ["k", "M", "G", "T", "P"] {
        if number < 999.5 {
            break;
        }
        (number, prefix) = (number / 1000.0, next);
    }
    if unit == "ns" {
        let units = [("", "ns"), ("k", "µs"), ("M", "ms"), ("G", "s"), ("T", "ks"), ("P", "Ms")];
        let unit = units.iter().find(|(of, _)| *of == prefix).map_or("ns", |(_, unit)| unit);
        return format!("{} {unit}", digits(number, prefix));
    }
    format!("{} {prefix}{unit}", digits(number, prefix)).trim_end().to_owned()
}

fn digits(number: f64, prefix: &str) -> String {
    match number {
        _ if prefix.is_empty() => format!("{number:.0}"),
        _ if number < 9.995 => format!("{number:.2}"),
        _ if number < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}
