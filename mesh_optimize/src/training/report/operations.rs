//! Time by operation, and bytes by collective.

use super::text::{bytes, digits, escape, grouped, milliseconds};
use indexmap::IndexMap;
use mesh_core::lower::FunctionRows;
use mesh_core::program::{Block, Form, Program};
use mesh_core::session::StepTimes;
use std::fmt::Write;

/// The time that the steps of one form took which one operation was lowered to, in one call on one
/// processor.
#[derive(Clone, PartialEq, Debug)]
pub struct OperationTime {
    /// The operation's unique name.
    pub name: String,
    /// The form of the steps.
    pub form: String,
    /// The user's line, and a note for operations that other code made.
    pub at: String,
    /// The time of all runs together, in milliseconds. For a loop, without the time of its body.
    pub milliseconds: f64,
    /// How many times the steps ran.
    pub runs: u64,
}

impl OperationTime {
    /// The recorded times of one call, the longest first.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// # let batch = data.iter().next().ok_or("no data")??;
    /// session.record(true);
    /// session.call_named("train", &[("x", batch.get("x")?.view())])?;
    /// let recorded = session.recorded(0).ok_or("nothing was recorded")?;
    /// let times = OperationTime::of(recorded.program, &recorded.times.steps);
    /// assert!(times[0].milliseconds >= times[1].milliseconds);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn of(program: &Program, times: &[StepTimes]) -> Vec<Self> {
        let mut found = IndexMap::new();
        collect(&program.block, times, &mut found);
        let mut found: Vec<_> = found.into_values().filter(|row| row.runs > 0).collect();
        found.sort_by(|a, b| b.milliseconds.total_cmp(&a.milliseconds));
        found
    }
}

type Found = IndexMap<(String, &'static str), OperationTime>;

fn collect(block: &Block, times: &[StepTimes], found: &mut Found) {
    for (step, times) in block.steps.iter().zip(times) {
        if let Form::Loop(form) = &step.form {
            collect(&form.body, &times.body, found);
        }
        let body: u64 = times.body.iter().map(|times| times.nanoseconds).sum();
        let (origin, form) = (&step.origin, step.form.name());
        let row = found.entry((origin.name.clone(), form)).or_insert_with(|| OperationTime {
            name: origin.name.clone(),
            form: form.to_owned(),
            at: origin.at.clone(),
            milliseconds: 0.0,
            runs: 0,
        });
        row.milliseconds += times.nanoseconds.saturating_sub(body) as f64 / 1e6;
        row.runs += times.runs;
    }
}

/// The collectives of one form over the same axes in one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// The form.
    pub form: String,
    /// The axes, as text.
    pub axes: String,
    /// The number of collectives.
    pub count: u64,
    /// The bytes that each processor receives.
    pub bytes: u64,
}

impl Traffic {
    /// The collectives of a function, most bytes first.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
    /// let explained = module.explain();
    /// let traffic = Traffic::of(&explained.functions[0]);
    /// assert_eq!((traffic[0].form.as_str(), traffic[0].axes.as_str()), ("all_reduce", "data"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn of(function: &FunctionRows) -> Vec<Self> {
        let mut found: IndexMap<(&str, &str), Self> = IndexMap::new();
        for (form, axes, bytes) in function.collectives() {
            let row = found.entry((form, axes)).or_insert_with(|| {
                let (form, axes) = (form.clone(), axes.clone());
                Self { form, axes, count: 0, bytes: 0 }
            });
            row.count += 1;
            row.bytes += bytes;
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        found
    }
}

/// How many forms have a part of their own in the bar; the others share one.
const FORMS: usize = 5;

/// Writes one bar of the time, by form.
pub(super) fn write_forms(page: &mut String, operations: &[OperationTime], total: f64) {
    let mut forms: IndexMap<&str, f64> = IndexMap::new();
    for operation in operations {
        *forms.entry(&operation.form).or_default() += operation.milliseconds;
    }
    let mut forms: Vec<_> = forms.into_iter().collect();
    forms.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rest: f64 = forms.iter().skip(FORMS).map(|(_, time)| time).sum();
    forms.truncate(FORMS);
    if rest > 0.0 {
        forms.push(("everything else", rest));
    }
    *page += "<div class=\"bar\">";
    for (position, (form, time)) in forms.iter().enumerate() {
        let share = 100.0 * time / total;
        let _ = write!(
            page,
            "<span class=\"p{position}\" style=\"width:{share:.2}%\" title=\"{}: {share:.1} %\">\
             </span>",
            escape(form)
        );
    }
    *page += "</div>\n<p class=\"legend\">";
    for (position, (form, time)) in forms.iter().enumerate() {
        let share = digits(100.0 * time / total, 3);
        let _ = write!(
            page,
            "<span class=\"key p{position}\">{} <i>{share} %</i></span>",
            escape(form)
        );
    }
    *page += "</p>\n";
}

/// Writes a table of operations. `most` is the time of the slowest of all, in milliseconds.
pub(super) fn write_table(
    page: &mut String,
    operations: &[OperationTime],
    [total, most]: [f64; 2],
) {
    *page += "<div class=\"wide\"><table class=\"ops\">\n<thead><tr><th>operation</th><th>form</th>\
              <th class=\"n\">time</th><th class=\"n\">share</th><th class=\"n\">runs</th>\
              <th>at</th></tr></thead>\n<tbody>\n";
    for OperationTime { name, form, at, milliseconds: time, runs } in operations {
        let (share, bar) = (100.0 * time / total, 100.0 * time / most);
        // The user's line, and the note on why other code made the operation.
        let (line, note) = at.split_once(" (").unwrap_or((at, ""));
        let note = note.strip_suffix(')').unwrap_or(note);
        let _ = writeln!(
            page,
            "<tr><td><code>{}</code></td><td>{form}</td><td class=\"n\">{}</td>\
             <td class=\"n\"><span class=\"share\" style=\"--share:{bar:.2}%\">{share:.1} %</span>\
             </td><td class=\"n\">{}</td><td title=\"{}\"><code>{}</code></td></tr>",
            escape(name),
            milliseconds(*time),
            grouped(*runs),
            escape(note),
            escape(line)
        );
    }
    *page += "</tbody>\n</table></div>\n";
}

pub(super) fn write_traffic(page: &mut String, traffic: &[Traffic]) {
    *page += "<table>\n<thead><tr><th>collective</th><th>over</th><th class=\"n\">count</th>\
              <th class=\"n\">bytes</th></tr></thead>\n<tbody>\n";
    let line = |page: &mut String, class: &str, names: [&str; 2], count: u64, size: u64| {
        let [form, axes] = names.map(escape);
        let (count, exact, size) = (grouped(count), grouped(size), bytes(size));
        let _ = writeln!(
            page,
            "<tr{class}><td>{form}</td><td>{axes}</td><td class=\"n\">{count}</td>\
             <td class=\"n\" title=\"{exact} bytes\">{size}</td></tr>"
        );
    };
    for Traffic { form, axes, count, bytes } in traffic {
        line(page, "", [form, axes], *count, *bytes);
    }
    let (count, size) = traffic.iter().fold((0, 0), |(c, b), row| (c + row.count, b + row.bytes));
    line(page, " class=\"sum\"", ["together", ""], count, size);
    *page += "</tbody>\n</table>\n";
}
