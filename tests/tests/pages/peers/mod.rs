//! `docs/from-pytorch.md` and `docs/from-jax.md`: what stands here for the names of PyTorch and of JAX.
//!
//! The expressions of the rows are built into a graph, which is checked: what a page says compiles and fits.
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes the pages.

mod absent;
mod elementwise;
mod layers;
mod losses;
mod reductions;
mod shapes;
mod training;

use crate::catalogue::sources;
use mesh_ops::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What stands for names of others.
struct Row {
    /// Names in PyTorch, with a space between them; empty if it has none.
    torch: &'static str,
    /// Names in JAX and the libraries that people use with it.
    jax: &'static str,
    /// An expression over the tensors and dims of [`Words`].
    here: &'static str,
    note: &'static str,
}

/// Rows whose expressions are evaluated where they stand.
macro_rules! rows {
    ($($torch:literal, $jax:literal => $here:expr $(, $note:literal)?;)*) => {
        vec![$({
            let _ = $here;
            crate::peers::Row {
                torch: $torch,
                jax: $jax,
                here: stringify!($here),
                note: concat!("" $(, $note)?),
            }
        }),*]
    };
}
use rows;

/// What the expressions are about.
struct Words<'g> {
    g: &'g Graph,
    rows: Dimension,
    columns: Dimension,
    /// `[rows, columns]`, float32.
    x: Tensor<'g>,
    /// As `x`.
    y: Tensor<'g>,
    /// `[rows, columns]`, bool.
    mask: Tensor<'g>,
    /// `[rows]`, int32.
    ids: Tensor<'g>,
    /// `[batch, height, width, channels]`, float32.
    image: Tensor<'g>,
    channels: Dimension,
    /// `[batch, length, model]`, float32.
    sequence: Tensor<'g>,
    length: Dimension,
    model: Dimension,
}

impl<'g> Words<'g> {
    fn new(g: &'g Graph) -> Self {
        let (rows, columns, batch) = (dim("rows", 4), dim("columns", 6), dim("batch", 2));
        let (channels, length, model) = (dim("channels", 8), dim("length", 6), dim("model", 8));
        let image = [batch, dim("height", 8), dim("width", 8), channels];
        Self {
            g,
            rows,
            columns,
            x: g.input("x", [rows, columns], F32),
            y: g.input("y", [rows, columns], F32),
            mask: g.input("mask", [rows, columns], Bool),
            ids: g.input("ids", [rows], I32),
            image: g.input("image", image, F32),
            channels,
            sequence: g.input("sequence", [batch, length, model], F32),
            length,
            model,
        }
    }
}

/// The page's sections.
fn sections(words: &Words<'_>) -> Vec<(&'static str, Vec<Row>)> {
    vec![
        ("Arithmetic and elementary functions", elementwise::functions(words)),
        ("Comparisons, logic, bits", elementwise::predicates(words)),
        ("Activations", elementwise::activations(words)),
        ("Reductions, scans, sorting", reductions::all(words)),
        ("Products", shapes::products(words)),
        ("Making tensors", shapes::made(words)),
        ("Shapes", shapes::shapes(words)),
        ("Indices", shapes::indices(words)),
        ("Layers", layers::layers(words)),
        ("Convolutions and images", layers::images(words)),
        ("Losses", losses::losses(words)),
        ("Metrics", losses::metrics(words)),
        ("Gradients, loops, devices", training::transformations(words)),
        ("Optimizers and schedules", training::optimizers()),
    ]
}

struct Peer {
    page: &'static str,
    heading: &'static str,
    who: &'static str,
    name: fn(&Row) -> &'static str,
    absent: fn(&absent::Absent) -> &'static str,
}

const PEERS: [Peer; 2] = [
    Peer {
        page: "docs/from-pytorch.md",
        heading: "Coming from PyTorch",
        who: "`F` is `torch.nn.functional`, `nn` is `torch.nn`; names without a module are `torch`'s.",
        name: |row| row.torch,
        absent: |absent| absent.torch,
    },
    Peer {
        page: "docs/from-jax.md",
        heading: "Coming from JAX",
        who: "`jnp` is `jax.numpy`, `lax` is `jax.lax`, `nn` is `jax.nn`; layers are Flax's (`linen`), optimizers and \
              losses optax's.",
        name: |row| row.jax,
        absent: |absent| absent.jax,
    },
];

fn introduction(peer: &Peer) -> String {
    format!(
        "# {}\n
What stands here for the names that you know. {}\n
Tensors have named dims, so there is no position to keep in mind: what takes `dim=1` or `axis=1` there takes the
dim itself here, operands broadcast by name, and no `view`, `permute` or `unsqueeze` is needed to make them fit.
A function here is a function of the graph; most are methods of tensors as well. In the tables `x` and `y` are
`[rows:4, columns:6]`, `mask` is of bool, `ids` is `[rows:4]` of int32, `image` is `[batch, height, width, channels]` and
`sequence` is `[batch, length, model]`. A test builds every expression into a graph and checks it
(`tests/tests/pages/peers/`), and makes this page.\n",
        peer.heading, peer.who
    )
}

fn page(peer: &Peer, sections: &[(&'static str, Vec<Row>)]) -> String {
    let mut text = introduction(peer);
    let code = |names: &str| {
        let names: Vec<_> = names.split(' ').map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    for (heading, rows) in sections {
        let known = rows.iter().filter(|row| !(peer.name)(row).is_empty());
        let _ = write!(text, "\n## {heading}\n\n| there | here | |\n|---|---|---|\n");
        for row in known {
            let here = row.here.split_whitespace().collect::<Vec<_>>().join(" ");
            let here = here.replace('|', "\\|");
            let _ = writeln!(text, "| {} | `{here}` | {} |", code((peer.name)(row)), row.note);
        }
    }
    text.push_str("\n## What is not here\n\n| there | why not, or what instead |\n|---|---|\n");
    let absent = absent::ABSENT.iter().filter(|absent| !(peer.absent)(absent).is_empty());
    for absent in absent {
        let _ = writeln!(text, "| {} | {} |", code((peer.absent)(absent)), absent.why);
    }
    text
}

#[test]
fn the_pages_are_what_the_rows_say_and_every_expression_fits() {
    let g = mesh_ops::graph();
    let words = Words::new(&g);
    let sections = sections(&words);
    g.check().unwrap();
    for peer in &PEERS {
        let (page, path) = (page(peer, &sections), sources::workspace().join(peer.page));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let how = "UPDATE_DOCS=1 cargo test -p tests --test pages";
        assert!(committed == page, "{} is not what the rows say; {how}", peer.page);
    }
}

#[test]
fn no_name_stands_twice() {
    let g = mesh_ops::graph();
    let sections = sections(&Words::new(&g));
    for peer in &PEERS {
        let mut seen = BTreeSet::new();
        let rows = sections.iter().flat_map(|(_, rows)| rows).map(peer.name);
        let names = rows.chain(absent::ABSENT.iter().map(peer.absent));
        for name in names.flat_map(|names| names.split(' ')).filter(|name| !name.is_empty()) {
            assert!(seen.insert(name), "{name} stands twice in {}", peer.page);
        }
    }
}
