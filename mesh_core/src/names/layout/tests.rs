//! Layouts of many rules: the work is proportional to their number, the length of messages is not.

use std::time::{Duration, Instant};

use super::*;
use crate::names::Mesh;

/// A number of rules that no small model has.
const MANY: usize = 8_000;

/// A bound on the bytes of a message; each problem takes a few lines of a few hundred characters.
const MESSAGES: usize = 8_000;

/// `d0:x;d1:x;…`
fn rules(count: usize, axis: impl Fn(usize) -> String) -> String {
    let rules: Vec<_> = (0..count).map(|i| format!("d{i}:{}", axis(i))).collect();
    rules.join(";")
}

fn texts(messages: &[impl ToString]) -> (Vec<String>, usize) {
    let texts: Vec<_> = messages.iter().map(ToString::to_string).collect();
    let length = texts.iter().map(String::len).sum();
    (texts, length)
}

#[test]
fn of_many_unknown_dims_the_first_are_shown_and_the_others_counted() {
    let mesh: Mesh = "x:2".parse().unwrap();
    let layout: Layout = rules(MANY, |_| "x".to_owned()).parse().unwrap();
    let known: Vec<_> = (0..MANY / 2).map(|i| DimName::new(&format!("d{i}"))).collect();
    let (warnings, length) = texts(&Rules::warnings(&layout, &mesh, &known));
    assert_eq!(warnings.len(), SHOWN + 1);
    assert!(warnings[0].contains("no tensor has a dim `d4000`"), "{}", warnings[0]);
    assert!(warnings[0].contains(";d3999:x;d4000:x;d4001:x;"), "{}", warnings[0]);
    let last = "and 3992 more rules of the layout are for dims that no tensor has";
    assert_eq!(warnings[SHOWN], last);
    assert!(length < MESSAGES, "{length}");
}

#[test]
fn of_many_unknown_axes_the_first_are_shown_and_the_others_counted() {
    let mesh: Mesh = "x:2".parse().unwrap();
    let one_rule: Vec<_> = (0..MANY).map(|i| format!("y{i}")).collect();
    for text in [rules(MANY, |i| format!("y{i}")), format!("d:{}", one_rule.join("+"))] {
        let layout: Layout = text.parse().unwrap();
        let (errors, length) = texts(&Rules::bind(&layout, &mesh).unwrap_err());
        assert_eq!(errors.len(), SHOWN + 1);
        let last = "and 7992 more axes and owners of the layout do not fit the mesh";
        assert_eq!(errors[SHOWN], last);
        assert!(length < MESSAGES, "{length}");
    }
}

#[test]
fn a_mistake_in_a_long_string_is_a_short_message() {
    let long = rules(MANY, |_| "x".to_owned());
    for wrong in [format!("{long};d7:x"), format!("{long};d:"), format!("{long};{long}")] {
        let error = wrong.parse::<Layout>().unwrap_err().to_string();
        assert!(error.len() < MESSAGES, "{}", error.len());
    }
    let axes: Vec<_> = (0..MANY).map(|i| format!("a{i}:1")).collect();
    let error = axes.join(";").parse::<Mesh>().unwrap_err().to_string();
    assert!(error.len() < MESSAGES, "{}", error.len());
}

/// Ten times the rules take about ten times as long, not a hundred times. Measured are parsing,
/// binding, look-ups and warnings.
#[test]
fn work_grows_with_the_number_of_rules() {
    let mesh: Mesh = "x:2".parse().unwrap();
    let work = |count: usize| {
        let text = rules(count, |_| "x".to_owned());
        let names: Vec<_> = (0..count).map(|i| DimName::new(&format!("d{i}"))).collect();
        let (known, unknown) = names.split_at(count / 2);
        let took = |_| {
            let started = Instant::now();
            let layout: Layout = text.parse().unwrap();
            let rules = Rules::bind(&layout, &mesh).unwrap();
            let split =
                |dim: &DimName| rules.axes_of(RuleSet::Params, &Home::default(), *dim).len();
            assert_eq!(names.iter().map(split).sum::<usize>(), count);
            assert_eq!(Rules::warnings(&layout, &mesh, known).len(), SHOWN + 1);
            assert_eq!(Rules::warnings(&layout, &mesh, unknown).len(), SHOWN + 1);
            started.elapsed()
        };
        // The fastest of five, as other programs use the machine, too.
        (0..5).map(took).min().unwrap_or(Duration::MAX)
    };
    let [few, many] = [2_000, 20_000].map(work);
    assert!(many < 40 * few, "{few:?} for 2,000 rules, {many:?} for 20,000");
}
