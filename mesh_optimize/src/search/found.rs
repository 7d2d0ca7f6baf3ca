//! What a search finds, as data, as text and as JSON.

use mesh_core::lower::Price;
use mesh_core::names::{Layout, Mesh};
use serde_json::{Value, json};
use std::fmt;

/// A layout on a mesh, with its price.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The mesh.
    pub mesh: Mesh,
    /// The layout.
    pub layout: Layout,
    /// What it costs.
    pub price: Price,
}

/// What a rule of the best layout is worth.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleWorth {
    /// The rule.
    pub rule: String,
    /// The price of the layout without it; `None` if it is not legal then.
    pub without: Option<Price>,
}

/// How many branches were left, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// Two dims that meet would be split over one axis.
    pub rules: u64,
    /// The same layout is searched under other names of equal axes, or on another shape of the mesh.
    pub alike: u64,
    /// The work alone takes longer than the best.
    pub work: u64,
    /// What rules of parameters and slots cannot change takes longer than the best.
    pub state: u64,
    /// What is held at once needs too much memory, at least or by the price of a layout.
    pub memory: u64,
    /// Layouts that placing refused.
    pub illegal: u64,
}

impl Pruned {
    /// All together.
    fn total(self) -> u64 {
        let Self { rules, alike, work, state, memory, illegal } = self;
        rules + alike + work + state + memory + illegal
    }
}

/// How the answer was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Certificate {
    /// Nodes of the search.
    pub visited: u64,
    /// Layouts that were placed and priced.
    pub priced: u64,
    /// What was left.
    pub pruned: Pruned,
    /// Whether time was up.
    pub late: bool,
    /// Whether no layout of the searched space is better.
    pub proven: bool,
}

/// The answer of a search. Its `Display` is a page.
///
/// ```
/// # use mesh_core::passes::Machine;
/// # use mesh_ops::prelude::*;
/// # use mesh_optimize::search::{FindLayout, Search};
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4096)], F32);
/// # g.function("f", [x], [x.exp().mean()], []);
/// let search = Search { every: true, ..Search::new("f", 4, Machine::host()) };
/// let found = g.search(&search)?;
/// assert_eq!(found.json()["certificate"]["proven"], true);
/// let fastest = found.front()[0];
/// assert!(fastest.price.bytes() as u64 <= search.capacity());
/// # Ok::<(), mesh_optimize::search::SearchError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The best.
    pub best: Choice,
    /// The best of the others that were priced, in order.
    pub runners_up: Vec<Choice>,
    /// What each rule of the best is worth.
    pub worth: Vec<RuleWorth>,
    /// How it was found.
    pub certificate: Certificate,
    /// Layouts that were not searched, in words.
    pub left_out: Vec<String>,
    /// How long it took.
    pub seconds_searched: f64,
    /// All that were priced, if all legal ones were.
    pub all: Vec<Choice>,
}

impl Found {
    /// Those of `all` of which none is both faster and smaller, the fastest first.
    pub fn front(&self) -> Vec<&Choice> {
        let mut all: Vec<_> = self.all.iter().collect();
        let key = |choice: &Choice| (choice.price.seconds(), choice.price.bytes());
        all.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        let mut least = usize::MAX;
        all.retain(|choice| {
            let smaller = choice.price.bytes() < least;
            least = least.min(choice.price.bytes());
            smaller
        });
        all
    }

    /// As JSON, for programs.
    pub fn json(&self) -> Value {
        let worth = |worth: &RuleWorth| {
            let without = worth.without.as_ref();
            json!({
                "rule": worth.rule,
                "step_seconds_without": without.map(Price::seconds),
                "memory_bytes_without": without.map(Price::bytes),
            })
        };
        let mut whole = self.best.json();
        let Certificate { visited, priced, pruned, proven, late } = self.certificate;
        let rest = json!({
            "rules": self.worth.iter().map(worth).collect::<Vec<_>>(),
            "runners_up": self.runners_up.iter().map(Choice::json).collect::<Vec<_>>(),
            "left_out": self.left_out,
            "seconds_searched": self.seconds_searched,
            "certificate": {
                "visited": visited,
                "priced": priced,
                "pruned": pruned.total(),
                "pruned_by": {
                    "rules": pruned.rules,
                    "alike": pruned.alike,
                    "work": pruned.work,
                    "state": pruned.state,
                    "memory": pruned.memory,
                    "illegal": pruned.illegal,
                },
                "late": late,
                "proven": proven,
            },
        });
        if let (Value::Object(whole), Value::Object(rest)) = (&mut whole, rest) {
            whole.extend(rest);
        }
        whole
    }
}

/// The layout as text for people.
pub(super) fn named(layout: &Layout) -> String {
    let text = layout.to_string();
    if text.is_empty() { "(nothing split)".to_owned() } else { text }
}

/// Three digits and a unit.
pub(super) fn seconds(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (of, unit) = units.into_iter().find(|(of, _)| seconds >= *of).unwrap_or((1e-9, "ns"));
    format!("{} {unit}", digits(seconds / of))
}

/// Three digits and a unit.
pub(super) fn bytes(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (of, unit) = units.into_iter().find(|(of, _)| bytes >= *of).unwrap_or((1.0, "B"));
    format!("{} {unit}", digits(bytes / of))
}

fn digits(number: f64) -> String {
    match number {
        _ if number < 9.995 => format!("{number:.2}"),
        _ if number < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

impl Choice {
    /// As JSON: `mesh`, `layout`, `step_seconds`, `memory_bytes`, and what the seconds are made of.
    pub fn json(&self) -> Value {
        let Self { mesh, layout, price } = self;
        let exchanged = |found: &mesh_core::lower::Exchanged| {
            json!({
                "form": found.form,
                "axes": found.axes,
                "count": found.count,
                "bytes": found.bytes,
                "seconds": found.seconds,
            })
        };
        json!({
            "mesh": mesh.to_string(),
            "layout": layout.to_string(),
            "step_seconds": price.seconds(),
            "memory_bytes": price.bytes(),
            "compute_seconds": price.compute_seconds,
            "memory_traffic_seconds": price.memory_seconds,
            "collectives": price.exchanged.iter().map(exchanged).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mesh, layout, price } = self;
        let (time, memory) = (seconds(price.seconds()), bytes(price.bytes() as f64));
        write!(f, "{time:>10}  {memory:>10}  --mesh \"{mesh}\" --layout \"{layout}\"")
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let price = &self.best.price;
        writeln!(f, "mesh    {}", self.best.mesh)?;
        writeln!(f, "layout  {}", named(&self.best.layout))?;
        let total = price.seconds();
        let share = |part: f64| format!("{:.0} %", 100.0 * part / total.max(f64::MIN_POSITIVE));
        writeln!(
            f,
            "step    {}: {} bound by arithmetic, {} by memory traffic, {} collectives",
            seconds(total),
            share(price.compute_seconds),
            share(price.memory_seconds),
            share(price.exchange_seconds()),
        )?;
        for found in &price.exchanged {
            writeln!(
                f,
                "        {:>5}  {} {} over {}: {} received in {}",
                share(found.seconds),
                found.count,
                found.form,
                found.axes,
                bytes(found.bytes as f64),
                seconds(found.seconds),
            )?;
        }
        writeln!(
            f,
            "memory  {}: {} of variables, {} of other values",
            bytes(price.bytes() as f64),
            bytes(price.variable_bytes as f64),
            bytes(price.value_bytes as f64),
        )?;
        self.rules(f)?;
        if !self.runners_up.is_empty() {
            writeln!(f, "\nthe next best that were priced")?;
            self.runners_up.iter().try_for_each(|choice| writeln!(f, "  {choice}"))?;
        }
        let Certificate { visited, priced, pruned, late, proven } = self.certificate;
        let Pruned { rules, alike, work, state, memory, illegal } = pruned;
        let verdict = match (proven, late) {
            (true, _) => "proven to be the best of what was searched",
            (false, true) => "the best so far: the time was up",
            (false, false) => "not proven: a layout was cheaper than a bound said",
        };
        writeln!(
            f,
            "\n{verdict}, in {}: {visited} nodes visited, {priced} layouts priced; left were {rules} by \
             split rules, {alike} as the same with other axes, {work} by their work, {state} by what rules of state cannot change, {memory} by \
             memory, {illegal} as illegal",
            seconds(self.seconds_searched)
        )?;
        writeln!(f, "not searched: {}", self.left_out.join("; "))
    }
}

impl Found {
    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.worth.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nwithout the rule")?;
        for RuleWorth { rule, without } in &self.worth {
            match without {
                Some(price) => {
                    let times = price.seconds() / self.best.price.seconds();
                    let (time, memory) = (seconds(price.seconds()), bytes(price.bytes() as f64));
                    writeln!(f, "  {rule:<24}  {time:>10} ({times:.2} times)  {memory:>10}")?;
                }
                None => writeln!(f, "  {rule:<24}  not legal")?,
            }
        }
        Ok(())
    }
}
