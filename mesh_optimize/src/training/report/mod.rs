//! A report of a run: one HTML file without references to others.

mod chart;
mod curve;
mod file;
mod image;
mod operations;
mod picture;
mod planned;
mod text;

pub use curve::{Bin, Curve};
pub use file::ReportFile;
pub use image::Image;
pub use operations::{OperationTime, Traffic};
pub use picture::{AxisPicture, DimPicture, LayoutPicture, VariablePicture};
pub use planned::Planned;

use std::fmt::Write;
use text::{bytes, escape, grouped};

/// Curves that are drawn in one chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The chart's title.
    pub title: String,
    /// Named curves over steps. The first is drawn with the range of its values.
    pub lines: Vec<(String, Curve)>,
}

/// The content of a report, which [`html`](Self::html) turns into a page. It need not come from a
/// run.
///
/// ```
/// use mesh_optimize::training::{Chart, Curve, Report};
///
/// let mut loss = Curve::default();
/// (1..=100).for_each(|step| loss.add(step, 1.0 / step as f64));
/// let chart = Chart { title: "loss".to_owned(), lines: vec![("train".to_owned(), loss)] };
/// let page = Report { title: "a run".to_owned(), charts: vec![chart], ..Report::default() }.html();
/// assert!(page.contains("<svg") && !page.contains("http"));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The page's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The facts at the top: name and value.
    pub facts: Vec<(String, String)>,
    /// The charts, in the order in which the page shows them.
    pub charts: Vec<Chart>,
    /// Images, as of samples.
    pub images: Vec<Image>,
    /// The layout of the variables.
    pub layout: Option<LayoutPicture>,
    /// Where the time of one step went on one processor.
    pub operations: Vec<OperationTime>,
    /// What each processor receives from others in one step.
    pub traffic: Vec<Traffic>,
    /// The work of a processor in a step.
    pub planned: Planned,
    /// The bytes of a processor by their use: name and number.
    pub memory: Vec<(String, u64)>,
}

/// How many operations are shown; the others are folded away.
const SHOWN: usize = 15;

impl Report {
    /// The page as HTML.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let title = escape(&self.title);
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n",
            include_str!("style.css")
        );
        if !self.subtitle.is_empty() {
            let _ = writeln!(page, "<p class=\"sub\">{}</p>", escape(&self.subtitle));
        }
        page += "</header>\n";
        self.write_facts(&mut page);
        if !self.charts.is_empty() {
            page += "<section>\n<h2>Curves</h2>\n<div class=\"charts\">\n";
            for (number, chart) in self.charts.iter().enumerate() {
                chart::write(&mut page, chart, number);
            }
            page += "</div>\n</section>\n";
        }
        if !self.images.is_empty() {
            page += "<section>\n<h2>Images</h2>\n";
            self.images.iter().for_each(|image| image.write(&mut page));
            page += "</section>\n";
        }
        if let Some(layout) = &self.layout {
            layout.write(&mut page);
        }
        self.write_operations(&mut page);
        self.planned.write(&mut page);
        self.write_costs(&mut page);
        page += "</main>\n</body>\n</html>\n";
        page
    }

    fn write_facts(&self, page: &mut String) {
        if self.facts.is_empty() {
            return;
        }
        *page += "<dl class=\"facts\">\n";
        for (name, value) in &self.facts {
            let (name, value) = (escape(name), escape(value));
            let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        *page += "</dl>\n";
    }

    fn write_operations(&self, page: &mut String) {
        let total: f64 = self.operations.iter().map(|operation| operation.milliseconds).sum();
        if total <= 0.0 {
            return;
        }
        let most = self.operations.iter().map(|o| o.milliseconds).fold(0.0, f64::max);
        *page += "<section>\n<h2>Time by operation</h2>\n";
        let _ = writeln!(
            page,
            "<p class=\"note\">One step on processor 0: {} in steps of the program.</p>",
            text::milliseconds(total)
        );
        operations::write_forms(page, &self.operations, total);
        let (first, rest) = self.operations.split_at(self.operations.len().min(SHOWN));
        operations::write_table(page, first, [total, most]);
        if !rest.is_empty() {
            let _ = writeln!(page, "<details><summary>{} more</summary>", rest.len());
            operations::write_table(page, rest, [total, most]);
            *page += "</details>\n";
        }
        *page += "</section>\n";
    }

    fn write_costs(&self, page: &mut String) {
        if self.memory.is_empty() && self.traffic.is_empty() {
            return;
        }
        *page += "<section>\n<h2>Communication and memory</h2>\n<div class=\"pair\">\n<div>\n";
        *page += "<h3>Received in a step</h3>\n";
        if self.traffic.is_empty() {
            *page += "<p class=\"note\">Processors tell each other nothing.</p>\n";
        } else {
            operations::write_traffic(page, &self.traffic);
        }
        *page += "</div>\n<div>\n<h3>Memory of a processor</h3>\n<table>\n<tbody>\n";
        for (name, size) in &self.memory {
            let (name, exact) = (escape(name), grouped(*size));
            let size = bytes(*size);
            let _ = writeln!(
                page,
                "<tr><td>{name}</td><td class=\"n\" title=\"{exact} bytes\">{size}</td></tr>"
            );
        }
        let total = self.memory.iter().map(|(_, size)| size).sum();
        let (exact, total) = (grouped(total), bytes(total));
        let _ = writeln!(
            page,
            "<tr class=\"sum\"><td>together</td>\
             <td class=\"n\" title=\"{exact} bytes\">{total}</td></tr>"
        );
        *page += "</tbody>\n</table>\n</div>\n</div>\n</section>\n";
    }
}

#[cfg(test)]
mod tests;
