//! Draws curves as SVG.

use super::text::{count, digits, escape};
use super::{Chart, Curve};
use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 230.0;
/// The margins around the curves: left, right, top, bottom.
const MARGINS: [f64; 4] = [52.0, 14.0, 12.0, 30.0];
/// A curve with more values than this shows no dots.
const PLACES: usize = 120;

/// Maps numbers to positions along one direction.
struct Scale {
    /// The numbers at both ends, or their logarithms if `logarithmic`.
    numbers: [f64; 2],
    places: [f64; 2],
    logarithmic: bool,
}

impl Scale {
    fn of(least: f64, most: f64, places: [f64; 2], logarithmic: bool) -> Self {
        let [least, most] = [least, most].map(|n| if logarithmic { n.log10() } else { n });
        // If both numbers are equal, they lie in the middle.
        let (least, most) = if most > least {
            (least, most)
        } else {
            let around = if least == 0.0 { 1.0 } else { least.abs() * 0.1 };
            (least - around, most + around)
        };
        Self { numbers: [least, most], places, logarithmic }
    }

    fn place(&self, number: f64) -> f64 {
        let number = if self.logarithmic { number.log10() } else { number };
        let ([least, most], [begin, end]) = (self.numbers, self.places);
        begin + (number - least) / (most - least) * (end - begin)
    }

    /// About `about` round numbers.
    fn ticks(&self, about: f64) -> Vec<f64> {
        let [least, most] = self.numbers;
        if self.logarithmic {
            return powers(least, most);
        }
        let rough = (most - least) / about;
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough);
        let step = factor.unwrap_or(10.0) * power;
        let first = (least / step - 1e-9).ceil();
        let last = (most / step + 1e-9).floor();
        let ticks = ((last - first) as usize).min(20);
        (0..=ticks).map(|tick| (first + tick as f64) * step).collect()
    }
}

/// The powers of ten between two logarithms. If these are few, also 2 and 5 times the powers.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let few = most - least < 2.0;
    let factors: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (((most - least) / 6.0).ceil() as usize).max(1);
    let range = least.floor() as i32..=most.ceil() as i32;
    let all = range
        .step_by(every)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
    all.filter(|tick| (least - 1e-9..=most + 1e-9).contains(&tick.log10())).collect()
}

pub(super) fn write(page: &mut String, chart: &Chart, number: usize) {
    let bins = || chart.lines.iter().flat_map(|(_, curve)| curve.bins());
    let ends = |of: &dyn Fn(&super::Bin) -> [f64; 2]| {
        bins().map(of).fold([f64::MAX, f64::MIN], |[a, b], [c, d]| [a.min(c), b.max(d)])
    };
    if bins().next().is_none() {
        return;
    }
    let steps = ends(&|bin| [bin.first as f64, bin.last as f64]);
    let values = ends(&|bin| [bin.least, bin.most]);
    // A logarithmic scale is used if the values span an order of magnitude or more.
    let logarithmic = values[0] > 0.0 && values[1] > 10.0 * values[0];
    let title = escape(&chart.title);
    *page += "<figure class=\"chart\">\n";
    let _ = write!(page, "<figcaption><b>{title}</b>");
    if chart.lines.len() > 1 {
        for (position, (name, _)) in chart.lines.iter().enumerate() {
            let _ = write!(page, "<span class=\"key k{}\">{}</span>", position % 4, escape(name));
        }
    }
    if logarithmic {
        let _ = write!(
            page,
            "<label class=\"log\"><input type=\"checkbox\" id=\"log{number}\"> log</label>"
        );
    }
    *page += "</figcaption>\n";
    for log in [false, true].into_iter().take(1 + usize::from(logarithmic)) {
        let class = if log { "on-log" } else { "on-linear" };
        let _ = writeln!(
            page,
            "<svg class=\"{class}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{title} over steps\">"
        );
        draw(page, chart, steps, values, log);
        *page += "</svg>\n";
    }
    *page += "</figure>\n";
}

fn draw(page: &mut String, chart: &Chart, steps: [f64; 2], values: [f64; 2], log: bool) {
    let [left, right, top, bottom] = MARGINS;
    let x = Scale::of(steps[0], steps[1], [left, WIDTH - right], false);
    let room = if log { 0.0 } else { (values[1] - values[0]) * 0.04 };
    let floor = if values[0] >= 0.0 { (values[0] - room).max(0.0) } else { values[0] - room };
    let y = Scale::of(floor, values[1] + room, [HEIGHT - bottom, top], log);
    for tick in y.ticks(5.0) {
        let at = y.place(tick);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            left - 8.0,
            at + 4.0,
            count(tick)
        );
    }
    for tick in x.ticks(6.0).into_iter().filter(|tick| tick.fract() == 0.0) {
        let at = x.place(tick);
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 10.0,
            count(tick)
        );
    }
    for (position, (name, curve)) in chart.lines.iter().enumerate() {
        draw_curve(page, curve, position, &x, &y);
        draw_places(page, curve, name, position, &x, &y);
    }
}

fn draw_curve(page: &mut String, curve: &Curve, position: usize, x: &Scale, y: &Scale) {
    let middle = |bin: &super::Bin| (bin.first as f64 + bin.last as f64) / 2.0;
    let line = |of: &dyn Fn(&super::Bin) -> f64| {
        let points = curve.bins().iter().map(|bin| (x.place(middle(bin)), y.place(of(bin))));
        points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>()
    };
    let class = position % 4;
    if position == 0 && curve.bins().iter().any(|bin| bin.count > 1) {
        let (mut around, mut back) = (line(&|bin| bin.most), line(&|bin| bin.least));
        back.reverse();
        around.append(&mut back);
        let _ =
            writeln!(page, "<polygon class=\"band k{class}\" points=\"{}\"/>", around.join(" "));
    }
    let points = line(&|bin| bin.mean).join(" ");
    let _ = writeln!(page, "<polyline class=\"line k{class}\" points=\"{points}\"/>");
}

/// Draws dots that show their value under the pointer, if there are few of them.
fn draw_places(
    page: &mut String,
    curve: &Curve,
    name: &str,
    position: usize,
    x: &Scale,
    y: &Scale,
) {
    let bins = curve.bins();
    let every = bins.len().div_ceil(PLACES).max(1);
    let class = if bins.len() <= 30 { "dot" } else { "dot faint" };
    let last = bins.len().saturating_sub(1);
    for (_, bin) in bins.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last) {
        let steps = match (bin.first, bin.last) {
            (first, last) if first == last => format!("step {first}"),
            (first, last) => format!("steps {first} to {last}"),
        };
        let mut value = digits(bin.mean, 5);
        if bin.count > 1 {
            let (least, most) = (digits(bin.least, 4), digits(bin.most, 4));
            let _ = write!(value, " on average, {least} to {most}");
        }
        let middle = (bin.first as f64 + bin.last as f64) / 2.0;
        let _ = writeln!(
            page,
            "<circle class=\"{class} k{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"><title>{steps}: {} \
             {value}</title></circle>",
            position % 4,
            x.place(middle),
            y.place(bin.mean),
            escape(name)
        );
    }
}
