//! What one processor is to do, as the module has it.

use super::text::{bytes, count, escape};
use mesh_core::lower::{Advice, Alike, FunctionRows, Row};
use mesh_core::program::Cost;
use std::fmt::Write;

/// How many kinds of operations are listed.
const LISTED: usize = 10;

/// The work of one processor in a function, without any time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Planned {
    /// The dearest operations, those that are alike together.
    pub dearest: Vec<Alike>,
    /// The work of all operations.
    pub total: Cost,
    /// Work that processors repeat, a sentence for each axis.
    pub repeated: Vec<String>,
}

impl Planned {
    /// That of a function.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::training::Planned;
    /// # let g = mesh_ops::graph();
    /// let x = g.input("x", [dim("batch", 64), dim("width", 32)], F32);
    /// g.function("f", [x], [x.dense(dim("out", 16), "out").tanh().sum_all()], []);
    /// let module = g.lower(&"rows:2;cols:2".parse()?, &"batch:rows".parse()?)?;
    /// let planned = Planned::of(&module.explain().functions[0]);
    /// assert!(planned.repeated[0].contains("2 times over cols"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(function: &FunctionRows) -> Self {
        let mut dearest = function.dearest();
        dearest.truncate(LISTED);
        let repeated = function.repeated.iter().map(|found| {
            let name = |&row: &usize| function.rows.get(row).map(|row: &Row| row.name.clone());
            let names: Vec<_> = found.rows.iter().filter_map(name).take(3).collect();
            let advice = match &found.advice {
                Advice::Rule { rule, share } => {
                    format!("the rule {rule} divides {:.0} % of the work", share * 100.0)
                }
                Advice::None(reason) => format!("no rule divides it: {reason}"),
            };
            let (share, times, axis) = (found.share * 100.0, found.times, &found.axis);
            format!(
                "{share:.0} % of the work is done {times} times over {axis} ({}): {advice}",
                names.join(", ")
            )
        });
        Self { dearest, total: function.total(), repeated: repeated.collect() }
    }

    pub(super) fn write(&self, page: &mut String) {
        if self.dearest.is_empty() {
            return;
        }
        *page += "<section>\n<h2>Work of a processor</h2>\n<div class=\"wide\"><table class=\"ops\">\n\
                  <thead><tr><th>operations</th><th class=\"n\">FLOP</th>\
                  <th class=\"n\">memory</th><th class=\"n\">received</th><th>makes</th><th>at</th></tr>\
                  </thead>\n<tbody>\n";
        for Alike { name, count: many, at, note, local, cost } in &self.dearest {
            let many = if *many > 1 { format!(" &times; {many}") } else { String::new() };
            let (name, note) = (escape(name), escape(note));
            let (makes, at) = (escape(&local.join(" ")), escape(at));
            line(page, "", &format!("<code>{name}</code>{many}"), *cost, &makes, [&note, &at]);
        }
        line(page, " class=\"sum\"", "all operations", self.total, "", ["", ""]);
        *page += "</tbody>\n</table></div>\n";
        for sentence in &self.repeated {
            let _ = writeln!(page, "<p class=\"note\">{}.</p>", escape(sentence));
        }
        *page += "</section>\n";
    }
}

fn line(
    page: &mut String,
    class: &str,
    name: &str,
    cost: Cost,
    makes: &str,
    [note, at]: [&str; 2],
) {
    let (flops, memory, received) = (count(cost.flops as f64), bytes(cost.bytes), bytes(cost.sent));
    let _ = writeln!(
        page,
        "<tr{class}><td>{name}</td><td class=\"n\">{flops}</td><td class=\"n\">{memory}</td>\
         <td class=\"n\">{received}</td><td>{makes}</td><td title=\"{note}\"><code>{at}</code></td></tr>"
    );
}
