//! The runs and layouts that the README shows.

/// A run: flags that say what is trained, and flags for mesh and layout, separated by spaces.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Example {
    pub(crate) model: String,
    pub(crate) layout: String,
}

/// One processor.
pub(crate) const ALONE: &str = "--mesh= --layout=";

pub(crate) fn text() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap()
}

/// The flags for mesh and layout.
const PLACED: [&str; 3] = ["--mesh", "--layout", "--strategy"];
/// The flags for the model.
const TRAINED: [&str; 3] = ["--model", "--scan", "--recompute"];

/// The runs of a program that succeed, without the flags for input and output.
pub(crate) fn runs(program: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let text = text();
    for line in text.lines() {
        let (line, comment) = line.split_once(" #").unwrap_or((line, ""));
        let Some(flags) = line.strip_prefix(program).filter(|rest| rest.starts_with(" --")) else {
            continue;
        };
        if comment.contains("refused") {
            continue;
        }
        let (mut model, mut layout) = (Vec::new(), Vec::new());
        for flag in flags.split(" --").skip(1) {
            let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
            let (name, value) = (format!("--{name}"), value.trim().trim_matches('"'));
            let given = if value.is_empty() { name.clone() } else { format!("{name}={value}") };
            if PLACED.contains(&name.as_str()) {
                layout.push(given);
            } else if TRAINED.contains(&name.as_str()) {
                model.push(given);
            }
        }
        let example = Example { model: model.join(" "), layout: layout.join(" ") };
        if !found.contains(&example) {
            found.push(example);
        }
    }
    found
}

/// The layouts of the README's table on a mesh of two processors along each axis, for a model that
/// has two hidden layers in place of the table's one.
pub(crate) fn layouts() -> Vec<Example> {
    let text = text();
    let rows = text.lines().skip_while(|line| *line != "| wish | layout |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let example = |row: &str| {
        let layout = row.split('`').nth(1).unwrap().replace("hidden:", "hidden1:");
        let mut axes: Vec<String> = Vec::new();
        for rule in layout.split(';') {
            let (_, along) = rule.split_once(':').unwrap();
            for axis in along.split('@').next().unwrap().split('+') {
                let axis = format!("{axis}:2");
                if !axes.contains(&axis) {
                    axes.push(axis);
                }
            }
        }
        let layout = format!("--mesh={} --layout={layout}", axes.join(";"));
        Example { model: "--model=mlp".to_owned(), layout }
    };
    rows.map(example).collect()
}
