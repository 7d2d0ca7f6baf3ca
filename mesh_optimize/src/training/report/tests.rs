use super::*;
use crate::{Optimizer, Sgd};
use mesh_core::lower::Alike;
use mesh_core::program::Cost;
use mesh_ops::prelude::*;

/// Checks that a page refers to nothing outside it.
fn check(page: &str) {
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for (open, close) in [("<svg", "</svg>"), ("<table", "</table>"), ("<section", "</section>")] {
        assert_eq!(page.matches(open).count(), page.matches(close).count(), "{open}");
    }
    // Elements must be closed in the reverse order of opening.
    let mut open = Vec::new();
    for tag in page.split('<').skip(2) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{page}");
        } else if !tag.ends_with('/') && !["meta", "input"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

fn curve(values: impl IntoIterator<Item = f64>) -> Curve {
    let mut curve = Curve::default();
    (1..).zip(values).for_each(|(step, value)| curve.add(step, value));
    curve
}

#[test]
fn curves_stay_small_and_keep_means_and_ends() {
    for length in [0u64, 1, 7, 512, 513, 5_000, 100_000] {
        let value = |step: u64| ((step * 7919) % 1000) as f64;
        let curve = curve((1..=length).map(value));
        let bins = curve.bins();
        assert!(bins.len() <= 512 && (length < 512 || bins.len() > 256), "{length}");
        let mut next = 1;
        for bin in bins {
            assert_eq!((bin.first, bin.count), (next, bin.last - bin.first + 1));
            let values: Vec<_> = (bin.first..=bin.last).map(value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            // The mean is a mean of means with 17 roundings.
            assert!((bin.mean - mean).abs() < 1e-10, "{} {mean}", bin.mean);
            let ends = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap();
            assert_eq!([bin.least, bin.most], [ends(f64::min), ends(f64::max)]);
            next = bin.last + 1;
        }
        assert_eq!(next, length + 1);
    }
    assert!(curve([f64::NAN, f64::INFINITY, f64::MAX, f64::MIN]).bins().is_empty());
}

#[test]
fn a_curve_goes_on_where_it_was_saved() {
    let value = |step: u64| (step as f64).sin();
    let whole = curve((1..=3000).map(value));
    let mut part = curve((1..=1777).map(value));
    part = serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap();
    (1778..=3000).for_each(|step| part.add(step, value(step)));
    assert_eq!(part, whole);
}

#[test]
fn pages_stand_alone_whatever_they_say() {
    let nasty = "<x>&\"'".to_owned();
    let chart = |curve: Curve| Chart { title: nasty.clone(), lines: vec![(nasty.clone(), curve)] };
    let curves = [
        curve([]),
        curve([2.0]),
        curve([0.0, 0.0]),
        curve((0..900).map(|i| 1000.0 * 0.98f64.powi(i))),
        curve([-1e300, 1e300, 1e300]),
        curve([1e-30, 1e30]),
        curve([5.0, 5.0 + 1e-12]),
    ];
    let operation = OperationTime {
        name: nasty.clone(),
        form: "contract".to_owned(),
        at: format!("{nasty} ({nasty})"),
        milliseconds: 1.5,
        runs: 12_345,
    };
    let traffic = Traffic { form: nasty.clone(), axes: nasty.clone(), count: 1, bytes: 1 << 41 };
    let alike = Alike {
        name: nasty.clone(),
        count: 2,
        at: nasty.clone(),
        note: nasty.clone(),
        local: vec![nasty.clone()],
        cost: Cost::default(),
    };
    let report = Report {
        images: Vec::new(),
        title: nasty.clone(),
        subtitle: nasty.clone(),
        facts: vec![(nasty.clone(), nasty.clone())],
        charts: curves.into_iter().map(chart).collect(),
        layout: Some(LayoutPicture::default()),
        operations: vec![operation; 40],
        traffic: vec![traffic],
        planned: Planned {
            repeated: vec![nasty.clone()],
            dearest: vec![alike],
            ..Planned::default()
        },
        memory: vec![(nasty.clone(), 0), (nasty.clone(), u64::MAX / 4)],
    };
    let page = report.html();
    check(&page);
    assert!(!page.contains("<x>") && page.contains("&lt;x&gt;&amp;&quot;&#39;"));
    assert_eq!(page.matches("class=\"line").count(), 8, "six curves, two of them twice");
    assert!(page.contains("25 more"));
    check(&Report::default().html());
}

/// The slice of a variable that each processor holds, as the picture shows it.
fn slices(mesh: &str, layout: &str, variable: &str) -> Vec<Option<[f64; 4]>> {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 8), dim("width", 4)], F32);
    let loss = x.dense(dim("hidden", 8), "h").relu().dense(dim("out", 4), "o").square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    let layout = layout.parse().unwrap();
    let module = g.lower(&mesh.parse().unwrap(), &layout).unwrap();
    let picture = LayoutPicture::of(&module, &layout);
    let report = Report { layout: Some(picture.clone()), ..Report::default() };
    check(&report.html());
    picture.variables.into_iter().find(|v| v.name == variable).unwrap().slices
}

#[test]
fn pictures_show_what_each_processor_holds() {
    let whole = Some([0.0, 0.0, 1.0, 1.0]);
    assert_eq!(slices("", "", "h/kernel"), [whole]);
    assert_eq!(slices("a:2", "batch:a", "h/kernel"), [whole, whole]);
    // `h/kernel` has the dims width and hidden, `o/kernel` hidden and out.
    let (left, right) = (Some([0.0, 0.0, 0.5, 1.0]), Some([0.5, 0.0, 0.5, 1.0]));
    assert_eq!(slices("a:2", "hidden:a", "h/kernel"), [left, right]);
    let (top, bottom) = (Some([0.0, 0.0, 1.0, 0.5]), Some([0.0, 0.5, 1.0, 0.5]));
    assert_eq!(slices("a:2", "hidden:a", "o/kernel"), [top, bottom]);
    assert_eq!(slices("a:2", "hidden:a", "h/bias"), [left, right]);
    let quarter = |x, y| Some([x, y, 0.5, 0.5]);
    assert_eq!(
        slices("a:2;b:2", "hidden:a;out:b", "o/kernel"),
        [quarter(0.0, 0.0), quarter(0.5, 0.0), quarter(0.0, 0.5), quarter(0.5, 0.5)]
    );
    assert_eq!(slices("a:2", "batch:a;params/*:a@1", "h/kernel"), [None, whole]);
    // There are more axes and processors than the picture draws.
    assert_eq!(slices("a:2;b:3;c:16", "batch:a", "h/kernel").len(), 96);
}

#[test]
fn numbers_are_short() {
    use super::text::{bytes, count, digits, grouped, milliseconds};
    for (found, expected) in [
        (digits(0.123456, 3), "0.123"),
        (digits(100.0, 3), "100"),
        (digits(2.0, 4), "2"),
        (digits(-0.00012345, 3), "-0.000123"),
        (digits(1e-9, 3), "1.00e-9"),
        (count(1234.0), "1234"),
        (count(12_340.0), "12.3k"),
        (count(2.5e9), "2.5G"),
        (count(0.0), "0"),
        (bytes(1023), "1023 B"),
        (bytes(1536), "1.5 KiB"),
        (bytes(5 << 30), "5 GiB"),
        (milliseconds(0.0123), "12.3 µs"),
        (milliseconds(12.0), "12 ms"),
        (milliseconds(1234.0), "1.23 s"),
        (grouped(1_234_567), "1\u{202f}234\u{202f}567"),
    ] {
        assert_eq!(found, expected);
    }
}
