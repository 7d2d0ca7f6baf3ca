//! A page about what was found: the text, and a plot of time against memory.

use mesh_core::lower::Price;
use mesh_optimize::search::{Choice, Found, Search};
use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 460.0;
/// Space for the scales.
const EDGE: f64 = 60.0;

/// The page, in HTML without scripts.
pub(crate) fn page(search: &Search, found: &Found) -> String {
    let text = escaped(&found.to_string());
    let front: Vec<_> = found.front();
    let fastest = front.iter().map(|choice| format!("{choice}\n")).collect::<String>();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>body {{ font: 15px system-ui, sans-serif; margin: 2em; }} pre {{ font-size: 13px; }} \
         text {{ font-size: 12px; }} .all {{ fill: #9bb; }} .front {{ fill: #c33; }} \
         .best {{ fill: none; stroke: #000; }} line {{ stroke: #ccc; }}</style>\n\
         <h1>{title}</h1>\n<pre>{text}</pre>\n<h2>Time and memory of {count} layouts</h2>\n{plot}\n\
         <p>Red: no layout is both faster and smaller.</p>\n<pre>{front}</pre>\n</html>\n",
        title = escaped(&format!("{} on {}", search.function, search.machine.name)),
        count = found.all.len(),
        plot = plot(search, found, &front),
        front = escaped(&fastest),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A scale of logarithms onto pixels.
struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    fn of(numbers: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let logs = numbers.filter(|number| *number > 0.0).map(f64::log10);
        let (from, to) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), log| {
            (from.min(log), to.max(log))
        });
        let (from, to) = if from > to { (0.0, 1.0) } else { (from - 0.05, to + 0.05) };
        Self { from, to, begin, end }
    }

    fn at(&self, number: f64) -> f64 {
        let part = (number.max(1e-12).log10() - self.from) / (self.to - self.from);
        self.begin + part * (self.end - self.begin)
    }

    /// 1, 2 and 5 of each power of ten.
    fn marks(&self) -> Vec<f64> {
        let tens = self.from.floor() as i32..=self.to.ceil() as i32;
        let marks = tens.flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(ten)));
        marks.filter(|mark| (self.from..=self.to).contains(&mark.log10())).collect()
    }
}

fn plot(search: &Search, found: &Found, front: &[&Choice]) -> String {
    let bytes = |price: &Price| price.bytes() as f64;
    let times = found.all.iter().map(|choice| choice.price.seconds());
    let x = Scale::of(times, EDGE, WIDTH - EDGE);
    let y = Scale::of(found.all.iter().map(|choice| bytes(&choice.price)), HEIGHT - EDGE, EDGE);
    let mut svg = format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\">");
    for mark in x.marks() {
        let at = x.at(mark);
        let _ = write!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{EDGE}\" y2=\"{:.1}\"/><text x=\"{at:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{mark} s</text>",
            HEIGHT - EDGE,
            HEIGHT - EDGE + 18.0
        );
    }
    for mark in y.marks() {
        let at = y.at(mark);
        let _ = write!(
            svg,
            "<line x1=\"{EDGE}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{} GB</text>",
            WIDTH - EDGE,
            EDGE - 4.0,
            at + 4.0,
            mark / 1e9
        );
    }
    let limit = y.at(search.capacity() as f64);
    if (EDGE..=HEIGHT - EDGE).contains(&limit) {
        let _ = write!(
            svg,
            "<line style=\"stroke:#c33\" x1=\"{EDGE}\" x2=\"{:.1}\" y1=\"{limit:.1}\" y2=\"{limit:.1}\"/>",
            WIDTH - EDGE
        );
    }
    let mut dot = |class: &str, radius: f64, choice: &Choice| {
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title></circle>",
            x.at(choice.price.seconds()),
            y.at(bytes(&choice.price)),
            escaped(&choice.to_string())
        );
    };
    found.all.iter().for_each(|choice| dot("all", 2.0, choice));
    front.iter().for_each(|choice| dot("front", 3.5, choice));
    dot("best", 6.0, &found.best);
    svg + "</svg>"
}
