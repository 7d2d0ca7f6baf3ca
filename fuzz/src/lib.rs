//! What is done with bytes from outside: anything may stand in them, and nothing may panic, hang or
//! allocate what is not there. Errors must be readable.
//!
//! Each target has seeds in `corpus/`, a program in `fuzz_targets/`, and a line in [`TARGETS`], from
//! which `examples/tests/corpus.rs` runs the seeds without a fuzzer.

use examples::data::Split;
use examples::text::Text;
use mesh_core::names::{DType, ProcessMap, Shape};
use mesh_core::session::checkpoint::{Checkpoint, CheckpointError};
use mesh_ops::prelude::*;
use mesh_optimize::cluster::Cluster;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::{
    Better, EventFile, Every, Metrics, MetricsFile, ReportFile, TraceFile, Trainer, TrainingState,
};
use mesh_optimize::{Optimizer, OptimizerConfig, Sgd, Strategy, get_optimizer};
use ndarray::{Array1, Array2};
use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::fs;
use std::str::FromStr;

/// A function of bytes from outside.
pub type Target = fn(&[u8]);

/// Every target by the name of its folder in `corpus/`.
pub const TARGETS: [(&str, Target); 9] = [
    ("idx", idx),
    ("tokens", tokens),
    ("text", text),
    ("layout", layout),
    ("mesh", mesh),
    ("cluster", cluster),
    ("config", config),
    ("checkpoint", checkpoint),
    ("resumed", resumed),
];

/// Two bytes that say how long the file of labels is, that file, the file of images.
pub fn idx(bytes: &[u8]) {
    let Some((size, files)) = bytes.split_first_chunk::<2>() else { return };
    let size = usize::from(u16::from_le_bytes(*size)).min(files.len());
    let (labels, images) = files.split_at(size);
    let split = Split::of_idx(Box::new(images.to_vec()), Box::new(labels.to_vec()));
    if let Some(split) = readable(split) {
        let all: Vec<_> = (0..split.len() as u64).collect();
        let whole = readable(split.read(&all));
        assert!(whole.is_some(), "what was opened can be read");
        let (pixels, labels) = whole.unwrap_or_default();
        assert_eq!((pixels.len(), labels.len()), (784 * all.len(), all.len()));
        assert!(labels.iter().all(|label| (0..10).contains(label)));
        assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        // Backwards, each row is a reading of its own.
        let some: Vec<_> = all.iter().rev().take(8).copied().collect();
        let rows = readable(split.read(&some));
        let same = |(i, row): (usize, &u64)| {
            let (at, row) = (784 * i, *row as usize);
            rows.as_ref().is_some_and(|(images, digits)| {
                images[at..at + 784] == pixels[784 * row..784 * (row + 1)]
                    && digits[i] == labels[row]
            })
        };
        assert!(some.iter().enumerate().all(same));
        assert!(readable(split.read(&[all.len() as u64])).is_none());
    }
}

/// A byte for the size of the vocabulary, a token file.
pub fn tokens(bytes: &[u8]) {
    let Some((vocab, file)) = bytes.split_first() else { return };
    let vocab = 1 << (vocab % 17);
    let text = Text::of_token_file("a file".to_owned(), Box::new(file.to_vec()), vocab);
    if let Some(text) = readable(text) {
        windows(&text, vocab as i32);
    }
}

/// The bytes of a text.
pub fn text(bytes: &[u8]) {
    let text = Text::of_bytes("a file".to_owned(), Box::new(bytes.to_vec()));
    if let Some(text) = readable(text) {
        assert_eq!(text.train.len() + text.held_out.len(), bytes.len() as u64);
        windows(&text, 256);
    }
}

/// Two batches of each data set of a text that is long enough.
fn windows(text: &Text, vocab: i32) {
    const BATCH: usize = 2;
    const LENGTH: usize = 5;
    if readable(text.check(BATCH, LENGTH)).is_none() {
        return;
    }
    let batches = text.batches(BATCH, LENGTH, 1);
    let held_out = text.held_out_batches(BATCH, LENGTH, 3);
    let both: [Option<Dataset>; 2] = [readable(batches), readable(held_out)];
    for batch in both.iter().flat_map(|batches| batches.iter().flatten()).take(2) {
        let Some(batch) = readable(batch) else { continue };
        for name in ["bytes", "following"] {
            let array = readable(batch.get(name));
            assert_eq!(array.map(|array| array.shape()), Some(&[BATCH, LENGTH][..]));
            let mut tokens = array.iter().flat_map(|array| array.to_f64());
            assert!(tokens.all(|token| (0.0..f64::from(vocab)).contains(&token)));
        }
    }
}

/// Layouts, dims, shapes and dtypes as text.
pub fn layout(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    round_trip::<Layout>(text);
    round_trip::<Dimension>(text);
    round_trip::<Shape>(text);
    round_trip::<DType>(text);
}

/// Meshes and strategies as text.
pub fn mesh(bytes: &[u8]) {
    /// More processors take long to go through.
    const MOST: usize = 1 << 12;
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(mesh) = round_trip::<Mesh>(text).filter(|mesh| mesh.processors() <= MOST) {
        let axes: Vec<_> = mesh.axes().collect();
        let (mut seen, maps) = (vec![false; mesh.processors()], [1, 2, mesh.processors()]);
        for processor in 0..mesh.processors() {
            let at = mesh.coordinates(processor);
            assert!(at.iter().zip(&axes).all(|(&at, &axis)| at < mesh.size(axis)));
            assert_eq!(mesh.processor(&at), processor);
            assert!(!std::mem::replace(&mut seen[mesh.physical(processor)], true));
        }
        for map in maps.into_iter().filter_map(|ranks| readable(ProcessMap::new(&mesh, ranks))) {
            assert!((0..mesh.processors()).all(|p| map.of(map.place(p).0)[map.place(p).1] == p));
            assert!(!map.to_string().is_empty());
        }
    }
    if let Some(strategy) = round_trip::<Strategy>(text) {
        readable(strategy.distribution("batch"));
    }
}

/// The value of `TF_CONFIG`.
pub fn cluster(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(cluster) = readable(text.parse::<Cluster>()) {
        let hosts = cluster.hosts();
        assert!(cluster.rank().is_none_or(|rank| rank < hosts.len()));
        let strategy = cluster.strategy(2);
        assert_eq!(strategy.to_string().parse::<Strategy>().ok(), Some(strategy.clone()));
        readable(strategy.distribution("batch"));
    }
}

/// The configuration of an optimizer as JSON and as TOML; what is taken trains.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for config in [OptimizerConfig::from_json(text), OptimizerConfig::from_toml(text)] {
        let Some(config) = readable(config) else { continue };
        let graph = mesh_ops::graph();
        let input = graph.input("x", [dim("batch", 2), dim("width", 3)], F32);
        let loss = input.dense(dim("out", 2), "out").square().mean();
        let (rate, updates, _) = get_optimizer(&graph, loss, &config, None);
        let train = graph.function("train", [input], [loss, rate], updates);
        // What is legal alone need not be so in f32: that is told when the graph is lowered.
        let Some(module) = readable(graph.lower(&Mesh::single(), &Layout::default())) else {
            continue;
        };
        let Some(mut session) = readable(Session::threads(&module, 1)) else { continue };
        let x = Array::from(Array2::<f32>::ones((2, 3)));
        for _ in 0..2 {
            let fetched = readable(session.call(&train, [x.view()]));
            let rate = fetched.and_then(|[_, rate]| rate.item());
            assert!(rate.is_some_and(|rate| rate >= 0.0), "a rate of {rate:?}: {text}");
        }
    }
}

thread_local! {
    /// A model that trains, and a session of it.
    static MODEL: Option<(Module, RefCell<Session>)> = model();
}

fn model() -> Option<(Module, RefCell<Session>)> {
    let graph = mesh_ops::graph();
    let input = graph.input("x", [dim("width", 2)], F32);
    let loss = input.dense(dim("out", 1), "out").square().mean().probe("loss");
    graph.function("train", [input], [loss], Sgd::new(0.001).minimize(loss));
    let module = readable(graph.lower(&Mesh::single(), &Layout::default()))?;
    let session = readable(Session::threads(&module, 0))?;
    Some((module, RefCell::new(session)))
}

/// Two bytes that say how long the state of a run is, that state, the file of its metrics. The run goes on
/// from them, watched by all that keeps a state.
pub fn resumed(bytes: &[u8]) {
    let Some((state, metrics, written)) = gone_on(bytes) else { return };
    // What was saved stays, what came after it is forgotten, and whole lines follow.
    let length = state.watchers.get("metrics").and_then(|length| length.parse().ok());
    let kept = if metrics.is_empty() { 0 } else { length.unwrap_or(0) };
    assert_eq!(written.get(..kept), metrics.get(..kept));
    for line in written[kept..].split_inclusive(|&byte| byte == b'\n') {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        assert!(line["step"].as_u64() > Some(state.position.step), "{line}");
    }
}

/// The state and the metrics that such bytes are, and the metrics of the run that went on from them; `None`
/// if that was refused.
pub fn gone_on(bytes: &[u8]) -> Option<(TrainingState, &[u8], Vec<u8>)> {
    let (size, rest) = bytes.split_first_chunk::<2>()?;
    let (state, metrics) = rest.split_at(usize::from(u16::from_le_bytes(*size)).min(rest.len()));
    let state = readable(serde_json::from_slice::<TrainingState>(state))?;
    let folder = std::env::temp_dir().join(format!("mesh-resumed-{}", std::process::id()));
    let written = MODEL.with(|model| {
        let model = model.as_ref();
        assert!(model.is_some(), "nothing of it is from outside");
        let (module, session) = model?;
        fs::create_dir_all(&folder).ok()?;
        fs::write(folder.join("metrics"), metrics).ok()?;
        let layout = Layout::default();
        let report = folder.join("report.html");
        let report = ReportFile::create(&report, "a run", module, &layout, "train").ok()?;
        let example = || Array::from(Array1::<f32>::ones(2));
        let data = Dataset::from_function(5, move |_, _| Record::new([("x", example())]));
        let outcome = Trainer::new(&mut session.borrow_mut(), "train", data)
            .steps(state.position.step.saturating_add(2))
            .evaluate(Every::Steps(1), |_, _| Ok(Metrics::from([("size", 1.0)])))
            .stop_early("size", Better::Lower, 3)
            .watch(MetricsFile::create(&folder.join("metrics")).ok()?)
            .watch(EventFile::create(&folder.join("events")).ok()?)
            .watch(TraceFile::create(&folder.join("trace"), None).ok()?)
            .watch(report)
            .resume(state.clone())
            .run();
        readable(outcome)?;
        fs::read(folder.join("metrics")).ok()
    });
    let _ = fs::remove_dir_all(&folder);
    Some((state, metrics, written?))
}

/// Two bytes that say how long the manifest is, the manifest without its last line, the tensors.
pub fn checkpoint(bytes: &[u8]) {
    let Some(Some(checkpoint)) = opened(bytes).map(readable) else { return };
    let mut names = std::collections::BTreeSet::new();
    for tensor in checkpoint.tensors() {
        assert_eq!(tensor.dims.len(), tensor.shape.len());
        assert!(names.insert(tensor.name.to_owned()), "{} twice", tensor.name);
    }
    assert!(!checkpoint.signature().is_empty());
}

/// The checkpoint that such bytes are; `None` if they are too few to be asked. In the manifest the
/// words `@BYTES`, `@HEADER` and `@DATA` stand for what is true of the tensors: their length, and the
/// checksums of the header and of what follows. So what is behind the checksums is reached as well.
pub fn opened(bytes: &[u8]) -> Option<Result<Checkpoint, CheckpointError>> {
    const LENGTH: usize = 8;
    let (size, files) = bytes.split_first_chunk::<2>()?;
    let size = usize::from(u16::from_le_bytes(*size)).min(files.len());
    let (manifest, tensors) = files.split_at(size);
    let length = tensors.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let head = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(LENGTH);
    let (header, data) = tensors.split_at(head.min(tensors.len()));
    let sum = |bytes: &[u8]| format!("{:08x}", crc32c::crc32c(bytes));
    let body = String::from_utf8_lossy(manifest)
        .replace("@BYTES", &tensors.len().to_string())
        .replace("@HEADER", &sum(header))
        .replace("@DATA", &sum(data));
    let manifest = format!("{body}  \"crc32c\": \"{}\"\n}}\n", sum(body.as_bytes()));
    let folder = std::env::temp_dir().join(format!("mesh-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).ok()?;
    fs::write(folder.join("manifest.json"), manifest).ok()?;
    fs::write(folder.join("variables.safetensors"), tensors).ok()?;
    let opened = Checkpoint::open(&folder);
    fs::remove_dir_all(&folder).ok()?;
    Some(opened)
}

/// What a text says, which is the same when it is written and read again.
fn round_trip<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    let value = readable(text.parse::<T>())?;
    let again = value.to_string().parse::<T>();
    assert_eq!(again.map_err(|error| error.to_string()).as_ref(), Ok(&value), "{text:?}");
    Some(value)
}

/// The value; an error must say something.
fn readable<T, E: Display>(result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let said = error.to_string();
            assert!(!said.trim().is_empty(), "an error that says nothing");
            None
        }
    }
}
