//! `docs/ops.md`: every op and layer, from its room and from graphs.
//!
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes it.

use crate::catalogue::facts::{Facts, Rule, allowed, facts, splits};
use crate::catalogue::instances::{Shown, firsts, rooms};
use crate::catalogue::mesh_tensorflow::FAMILIES;
use crate::catalogue::proofs::Proofs;
use crate::catalogue::{Entry, core_ops, layers, metrics, sources};
use mesh_core::split::Role;
use mesh_ops::testing::Room;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem::take;

const INTRODUCTION: &str = "\
# Ops and layers

A test makes this page from the docs of the ops' rooms and from graphs (`tests/tests/pages/ops_table.rs`). It
fails when the page is out of date, when a public function has no row, or when no case of the
conformance suite calls the row's function. The suite compares each op with a naive evaluator under the
legal layouts of several meshes: all of them where a graph has up to 3 on a mesh, 3 of them where it has
more. `just conformance-full` runs them all. (`UPDATE_DOCS=1 cargo test -p tests --test pages` writes the
page.)

* **split**: what happens to each dim if mesh axes split it. *Parallel*: slice i of the inputs gives slice
  i of the result. *Reduced(kind)*: each processor's result is a part of a reduction, which is pending until
  a consumer needs it. *Exchange*: the op itself communicates along the dim. *Whole*: the dim cannot be
  split, for the reason given [below](#dims-that-must-be-whole).
* **linear**: the inputs that may be pending sums or selections; the op carries them on. An op that *moves*
  elements carries selections as selections, one that *adds* them carries them as sums. One that
  *multiplies* them by elements of other inputs carries sums only, and only if the other inputs are finite
  constants or its result is smaller; see [layouts.md](layouts.md#what-a-layout-may-change). `{a, b}` means that
  the op is linear in both inputs together, `{a} {b}` that it is linear in each of them alone.
* **sends**: the collectives of the op alone under layouts with one axis, where its result is needed
  whole. An all-reduce becomes a reduce-scatter if the consumer is split.
* **a dim split**: the cost if only that dim is halved, in the graph of the row: `q: all_reduce`. Dims that
  are not named cost nothing (*free*). A dim is *odd* if the row cuts a part of odd size from it, which two
  processors cannot share.
";

fn line(text: &mut String, cells: &[&str]) {
    let cells: Vec<_> = cells.iter().map(|cell| escaped(cell)).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// A cell cannot hold the bar that divides cells.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

fn head(text: &mut String, title: &str, note: &str, columns: &[&str]) {
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    let _ = write!(text, "\n## {title}\n\n{note}");
    line(text, columns);
    let _ = writeln!(text, "|{}", "---|".repeat(columns.len()));
}

/// `adds {a, b}` for jointly, `multiplies {a} {b}` for each.
fn sets(Rule { linearity, linear, inputs, .. }: &Rule, call: &str) -> String {
    let arguments = call.split(['(', ')']).nth(1).unwrap_or_default();
    let names: Vec<_> = arguments.split(", ").collect();
    let set = |set: &Vec<usize>| {
        let names: Vec<_> = set.iter().map(|&i| names[i]).collect();
        format!("{{{}}}", names.join(", "))
    };
    match (&linear[..], inputs) {
        ([], _) => "no".to_owned(),
        (_, 1) => linearity.to_string(),
        _ => format!("{linearity} {}", linear.iter().map(set).collect::<Vec<_>>().join(" ")),
    }
}

/// The function names in the first cell of a row: `maximum(a, b)`.
fn functions_in(cell: &str) -> Vec<String> {
    let starts = cell.split('`').skip(1).step_by(2);
    let name = |code: &str| code.split('(').next().unwrap_or_default().to_owned();
    let word = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    starts.filter(|code| code.contains('(')).map(name).filter(word).collect()
}

struct Page {
    text: String,
    rows: BTreeSet<String>,
    /// Why dims are whole, with the ops and dims.
    whole: BTreeMap<String, BTreeSet<String>>,
    proofs: Proofs,
    /// Of the rows' proofs.
    faults: Vec<String>,
}

impl Page {
    /// Notes a row and looks its proof up.
    fn note(&mut self, name: &str, proof: &str, facts: &Facts) {
        self.rows.insert(name.to_owned());
        for rule in &facts.rules {
            let op = rule.op.name();
            assert!(self.proofs.has_op(op), "{name}: no conformance case has {op}");
            for (_, role) in &rule.roles {
                if let Role::Whole(reason) = role {
                    self.whole.entry((*reason).to_owned()).or_default().insert(format!("`{op}`"));
                }
            }
        }
        self.faults.extend(self.proofs.fault(name, proof));
    }

    fn elementwise(&mut self, rooms: Vec<Shown>) {
        let general = sources::room(&sources::path_of("elementwise"));
        let cell = |key| sources::cell(&general, key).unwrap();
        let note = format!(
            "Shape: {}. Split: {}. Gradient: {}.",
            cell("shape"),
            cell("split"),
            cell("gradient")
        );
        head(&mut self.text, "Elementwise", &note, &["function", "gradient", "linear"]);
        for Shown { room, source, ops, .. } in rooms {
            let (room, entries) = (room.name(), firsts(ops));
            let table = sources::table(&source);
            let place = table[0].iter().position(|head| head == "gradient").unwrap();
            let mut found: BTreeMap<String, Facts> =
                entries.iter().map(|entry| (entry.name.clone(), facts(entry))).collect();
            for entry in &entries {
                self.note(&entry.name, &entry.case, &found[&entry.name]);
            }
            for row in &table[1..] {
                let here: Vec<_> = functions_in(&row[0])
                    .iter()
                    .map(|name| found.remove(name).unwrap_or_else(|| panic!("{room}: {name}")))
                    .collect();
                let linear = |facts: &Facts| {
                    let rule = &facts.rules[facts.rules.len() - 1];
                    let parallel = rule.roles.iter().all(|(_, role)| *role == Role::Parallel);
                    assert!(parallel && facts.collectives.is_empty(), "{room}");
                    if facts.rules.len() > 1 { "no".to_owned() } else { sets(rule, &row[0]) }
                };
                let linears: BTreeSet<_> = here.iter().map(linear).collect();
                assert_eq!(linears.len(), 1, "{room}: {} differ in linearity", row[0]);
                let none = row[place].starts_with("none");
                for facts in &here {
                    assert_eq!(facts.gradient_text() == "none", none, "{room}: {}", row[0]);
                }
                line(&mut self.text, &[&row[0], &row[place], linears.first().unwrap()]);
            }
            let left: Vec<_> = found.keys().collect();
            assert!(left.is_empty(), "{room}: its table lacks {left:?}");
        }
    }

    fn ops(&mut self, rooms: &[Shown]) {
        let columns = ["op", "shape", "split", "linear", "gradient", "sends"];
        head(&mut self.text, "Ops", "", &columns);
        for shown in rooms.iter().filter(|shown| shown.room.has_ops()) {
            let cell = |key| {
                sources::cell(&shown.source, key)
                    .unwrap_or_else(|| panic!("{:?}: its table has no {key}", shown.room))
            };
            let found: Vec<_> = shown.ops.iter().map(facts).collect();
            let mut names: Vec<String> = Vec::new();
            for (entry, facts) in shown.ops.iter().zip(&found) {
                self.note(&entry.name, &entry.case, facts);
                let name = format!("`{}`", entry.name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            check_linear(shown.room, &cell("linear"), &found);
            // What holds no other ops, where there is such a case.
            let own = |facts: &Facts| facts.rules.iter().all(|rule| shown.room.has(&*rule.op));
            let (alone, among): (Vec<_>, Vec<_>) = found.into_iter().partition(own);
            let found = if alone.is_empty() { among } else { alone };
            check_split(shown.room, &cell("split"), &found);
            check_gradient(shown.room, &cell("gradient"), &found);
            let sends: BTreeSet<_> =
                found.iter().flat_map(|facts| facts.collectives.iter().cloned()).collect();
            let sends: Vec<_> = sends.into_iter().collect();
            let sends = if sends.is_empty() { "nothing".to_owned() } else { sends.join(", ") };
            let [shape, split, linear, gradient] =
                ["shape", "split", "linear", "gradient"].map(cell);
            line(&mut self.text, &[&names.join(", "), &shape, &split, &linear, &gradient, &sends]);
        }
    }

    /// Rows of what is made of ops: what it is, dims, what a split leads to.
    fn composed(&mut self, title: &str, note: &str, entries: Vec<Entry>, document: &Documents<'_>) {
        let columns = ["function", "what it is", "dims", "a dim split", "gradient"];
        head(&mut self.text, title, note, &columns);
        for entry in entries {
            let (facts, splits) = (facts(&entry), splits(&entry));
            self.note(&entry.name, &entry.case, &facts);
            let what = document(&entry.name);
            // Of the graph's own ops no rule says why: the refusal does.
            for reason in splits.reasons.iter().filter(|_| entry.name.starts_with("Graph::")) {
                let ops = self.whole.entry(reason.clone()).or_default();
                ops.insert(format!("`{}`", entry.name));
            }
            line(
                &mut self.text,
                &[
                    &format!("`{}`", entry.name),
                    &what,
                    &facts.signature,
                    &splits.text(),
                    facts.gradient_text(),
                ],
            );
        }
    }

    fn reasons(&mut self) {
        let note = "Everything else can be split, alone or along several axes.";
        head(&mut self.text, "Dims that must be whole", note, &["op", "why"]);
        let stated = whole_reasons();
        let met: BTreeSet<_> = self.whole.keys().cloned().collect();
        assert_eq!(stated, met, "reasons in the sources, and those met by rows");
        for (reason, ops) in std::mem::take(&mut self.whole) {
            let ops: Vec<_> = ops.into_iter().collect();
            line(&mut self.text, &[&ops.join(", "), &reason]);
        }
    }

    fn other_names(&mut self) {
        let note = "What Mesh TensorFlow has, and where it is here, or why it is not.";
        head(&mut self.text, "Mesh TensorFlow's names", note, &["there", "here"]);
        let all: Vec<_> = ["mesh_core/src", "mesh_ops/src", "mesh_optimize/src"]
            .iter()
            .flat_map(|folder| sources::sources(folder).into_values())
            .collect();
        for names in FAMILIES {
            for (there, here) in *names {
                let same = if here.starts_with("the same names") { *there } else { "" };
                let codes =
                    [*here, same].into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
                for code in codes {
                    let name = code.rsplit("::").next().unwrap_or(code);
                    let word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
                    let states =
                        |keyword: &&str| all.iter().any(|text| names_item(text, keyword, name));
                    let exists = self.rows.contains(name) || ITEMS.iter().any(states);
                    assert!(!word || name == "Copy" || exists, "{name} does not exist");
                }
                line(&mut self.text, &[there, here]);
            }
        }
    }
}

type Documents<'a> = dyn Fn(&str) -> String + 'a;

const ITEMS: [&str; 4] = ["fn ", "struct ", "enum ", "trait "];

fn names_item(text: &str, keyword: &str, name: &str) -> bool {
    let item = format!("pub {keyword}{name}");
    text.match_indices(&item).any(|(at, _)| {
        !text[at + item.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// The words of a room's `split` cell are those of its rule, no more and no fewer.
fn check_split(room: &Room, cell: &str, found: &[Facts]) {
    let kinds: BTreeSet<_> = found.iter().flat_map(|facts| facts.kinds(room)).collect();
    for kind in &kinds {
        let general = kind.starts_with("reduced") && cell.contains("reduced(kind)");
        assert!(general || cell.contains(kind.as_str()), "{room:?}: split lacks {kind}");
    }
    let words =
        ["whole", "reduced(sum)", "reduced(any)", "exchange(permute)", "exchange(all-gather)"];
    for word in words {
        let said = cell.contains(word) && !cell.contains(&format!("{word}: "));
        assert!(!said || kinds.contains(word), "{room:?}: no instance has {word}");
    }
    // Reshapes place data themselves.
    if room.name() != "reshape" {
        let sent: BTreeSet<_> =
            found.iter().flat_map(|facts| facts.collectives.iter().cloned()).collect();
        let mut allowed = allowed(&kinds);
        // A split that passes from the length to another dim is moved on its way to attention.
        if room.name() == "attention" {
            allowed.insert("all_to_all".into());
        }
        assert!(sent.is_subset(&allowed), "{room:?}: sends {sent:?}");
    }
}

/// `moves x`: alone; `moves x and row`: the first two jointly; `multiplies x or y`: each of the first two;
/// `multiplies b`: the second; `multiplies each factor`: every input by itself; `adds all inputs jointly`; `none`.
fn check_linear(room: &Room, cell: &str, found: &[Facts]) {
    let rules: Vec<_> = found.iter().flat_map(|facts| facts.of(room)).collect();
    let some = rules.iter().any(|rule| !rule.linear.is_empty());
    assert_eq!(cell != "none", some, "{room:?}: linear");
    for rule in rules.iter().filter(|rule| !rule.linear.is_empty()) {
        let each: Vec<_> = (0..rule.inputs).map(|i| vec![i]).collect();
        let expected = match cell {
            cell if cell.contains(" jointly") => vec![(0..rule.inputs).collect()],
            cell if cell.contains(" each ") => each,
            cell if cell.contains(" and ") => vec![vec![0, 1]],
            cell if cell.contains(" or ") => vec![vec![0], vec![1]],
            cell if cell.ends_with(" b") => vec![vec![1]],
            _ => vec![vec![0]],
        };
        let how = cell.split(' ').next();
        assert_eq!(how, Some(rule.linearity.to_string().as_str()), "{room:?}: linear");
        assert_eq!(rule.linear, expected, "{room:?}: linear {cell}");
    }
}

fn check_gradient(room: &Room, cell: &str, found: &[Facts]) {
    let some = found.iter().any(|facts| facts.gradient.contains(&true));
    assert_eq!(cell != "none", some, "{room:?}: gradient");
}

/// The reasons in the sources: text of `Role::Whole("...")`, or of the constant in its place, and
/// what core itself refuses.
fn whole_reasons() -> BTreeSet<String> {
    let mut reasons = BTreeSet::new();
    for text in sources::sources("mesh_core/src/lower").values() {
        for (at, _) in text.match_indices(".refuse_whole(") {
            let call = text[at..].split(';').next().unwrap_or_default();
            reasons.extend(call.split('"').nth(1).map(str::to_owned));
        }
    }
    for text in sources::sources("mesh_ops/src").values() {
        for (at, pattern) in text.match_indices("Role::Whole(") {
            let rest = &text[at + pattern.len()..];
            let stated = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => {
                    let name = rest.split(')').next().unwrap_or_default();
                    let item = format!("const {name}: &str = ");
                    let value = text.split_once(&item).map(|(_, value)| value);
                    value.and_then(|value| value.split('"').nth(1))
                }
            };
            reasons.insert(stated.unwrap().to_owned());
        }
    }
    reasons
}

/// The first sentence of the doc of a function, or of the type if a method has none of its own.
fn described(all: &BTreeMap<String, String>, name: &str) -> String {
    let (type_name, function) = name.split_once("::").unwrap_or((name, name));
    let items = if type_name == function {
        let stated = ["pub fn ", "pub struct ", "pub enum "].map(|item| format!("{item}{name}"));
        // Or a line of a macro's table.
        stated.into_iter().chain([format!("{name} |x")]).collect()
    } else {
        vec![format!("pub fn {function}")]
    };
    let find = |item: &String| all.values().find_map(|text| sources::first_sentence(text, item));
    items.iter().find_map(find).unwrap_or_else(|| panic!("{name} has no doc"))
}

fn generated() -> Page {
    let mut page = Page {
        text: INTRODUCTION.to_owned(),
        rows: BTreeSet::new(),
        whole: BTreeMap::new(),
        proofs: Proofs::read(),
        faults: Vec::new(),
    };
    let (mut elementwise, others): (Vec<_>, Vec<_>) =
        rooms().into_iter().partition(|shown| shown.room.name().starts_with("elementwise"));
    let of_elements = elementwise.iter_mut().flat_map(|shown| take(&mut shown.compositions));
    let of_elements = of_elements.collect();
    page.elementwise(elementwise);
    page.ops(&others);
    let of_ops = sources::sources("mesh_ops/src");
    let document = |name: &str| described(&of_ops, name);
    let note = "Made of elementwise ops.";
    page.composed("Elementwise compositions", note, firsts(of_elements), &document);
    page.composed(
        "Compositions",
        "Made of ops; nothing else is needed for splits and gradients.",
        firsts(others.into_iter().flat_map(|shown| shown.compositions).collect()),
        &document,
    );
    page.composed("Layers", "Compositions too, in `mesh_ops::layers`.", layers::all(), &document);
    let note = "Compositions of sums over examples, in `mesh_ops::metrics`; of a batch, or of all batches.";
    page.composed("Metrics", note, metrics::all(), &document);
    let of_core: BTreeMap<_, _> = core_ops::all()
        .iter()
        .map(|(file, entry)| {
            let path = sources::workspace().join("mesh_core/src/graph").join(file);
            (entry.name.clone(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    let document = |name: &str| {
        let here = BTreeMap::from([(String::new(), of_core[name].clone())]);
        described(&here, name)
    };
    let entries = core_ops::all().into_iter().map(|(_, entry)| entry).collect();
    page.composed("The graph's own", "", entries, &document);
    page.reasons();
    page.other_names();
    page
}

#[test]
fn every_op_has_its_row() {
    let page = generated();
    assert!(page.faults.is_empty(), "{:#?}", page.faults);
    let path = sources::workspace().join("docs/ops.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page.text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page.text,
        "docs/ops.md is not what the rooms say; UPDATE_DOCS=1 cargo test -p tests --test pages"
    );
    for (function, file) in sources::public_functions() {
        assert!(page.rows.contains(&function), "{function} of {file} has no row");
    }
    for layer in sources::layer_types() {
        let method = format!("{layer}::");
        let has = page.rows.iter().any(|row| *row == layer || row.starts_with(&method));
        assert!(has, "{layer} has no row");
    }
}
