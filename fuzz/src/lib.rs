//! The fuzz targets. For any bytes, nothing may panic, hang or allocate much more memory than there
//! are bytes, and errors must be readable.
//!
//! Each target has seeds in `corpus/`, a program in `fuzz_targets/`, and a line in [`TARGETS`],
//! with which `examples/tests/corpus.rs` runs the seeds without a fuzzer.

use examples::data::Split;
use examples::text::Text;
use mesh_core::names::{DType, ProcessMap, Shape};
use mesh_core::session::checkpoint::{Checkpoint, CheckpointError};
use mesh_ops::prelude::*;
use mesh_optimize::cluster::Cluster;
use mesh_optimize::dataset::read::{self, ArrayFile, Csv, Input};
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
pub const TARGETS: [(&str, Target); 12] = [
    ("idx", idx),
    ("npy", npy),
    ("safetensors", safetensors),
    ("csv", csv),
    ("tokens", tokens),
    ("text", text),
    ("layout", layout),
    ("mesh", mesh),
    ("cluster", cluster),
    ("config", config),
    ("checkpoint", checkpoint),
    ("resumed", resumed),
];

/// Input: two bytes with the length of the file of labels, that file, the file of images.
pub fn idx(bytes: &[u8]) {
    let Some((size, files)) = bytes.split_first_chunk::<2>() else { return };
    let size = usize::from(u16::from_le_bytes(*size)).min(files.len());
    let (labels, images) = files.split_at(size);
    readable(read::idx(Input::of_bytes("images", images.to_vec()))).iter().for_each(array);
    readable(read::idx(Input::of_bytes("labels", labels.to_vec()))).iter().for_each(array);
    let images = Input::of_bytes("images", images.to_vec());
    let split = Split::of_idx(images, Input::of_bytes("labels", labels.to_vec()), 1);
    if let Some(split) = readable(split) {
        let all: Vec<_> = (0..split.len() as u64).collect();
        let whole = readable(split.read(&all));
        assert!(whole.is_some(), "what was opened can be read");
        let (pixels, labels) = whole.unwrap_or_default();
        assert_eq!((pixels.len(), labels.len()), (784 * all.len(), all.len()));
        assert!(labels.iter().all(|label| (0..10).contains(label)));
        assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        // The numbers go backwards, so each row needs a read of its own.
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

/// Input: a file of np.save.
pub fn npy(bytes: &[u8]) {
    readable(read::npy(Input::of_bytes("a file", bytes.to_vec()))).iter().for_each(array);
}

/// Input: a safetensors file.
pub fn safetensors(bytes: &[u8]) {
    let arrays = readable(read::safetensors(Input::of_bytes("a file", bytes.to_vec())));
    arrays.iter().flatten().for_each(|(_, file)| array(file));
}

/// Input: a byte with the delimiter, a table of numbers.
pub fn csv(bytes: &[u8]) {
    let Some((delimiter, file)) = bytes.split_first() else { return };
    let csv = Csv::default().delimiter(char::from(*delimiter));
    for csv in [csv, csv.headerless()] {
        let Some(table) = readable(csv.read(Input::of_bytes("a file", file.to_vec()))) else {
            continue;
        };
        let columns: Vec<_> = table.columns().iter().map(String::as_str).collect();
        let all = readable(table.f32(&columns));
        assert_eq!(all.map(|all| all.shape().to_vec()), Some(vec![table.rows(), columns.len()]));
        for column in columns {
            let whole = readable(table.i32(column));
            assert!(whole.is_none_or(|whole| whole.shape() == [table.rows()]));
        }
        assert!(readable(table.i32("no such column, unless by chance")).is_none());
    }
}

/// The examples of an array one by one are those of the whole.
fn array(file: &ArrayFile) {
    /// More would only take longer.
    const MOST: u64 = 64;
    let examples = file.examples();
    assert!(readable(file.contents()).is_some());
    assert!(readable(file.read(&[examples])).is_none());
    if let Some(whole) = readable(file.whole()) {
        assert_eq!((whole.shape(), whole.dtype()), (file.shape(), file.dtype()));
        for row in 0..examples.min(MOST) {
            let one = readable(file.read(&[row]));
            assert_eq!(one.as_ref(), readable(file.range(row..row + 1)).as_ref());
            assert!(one.is_some_and(|one| one.len() as u64 * examples == whole.len() as u64));
        }
    }
}

/// Input: a byte with the size of the vocabulary, a token file.
pub fn tokens(bytes: &[u8]) {
    let Some((vocab, file)) = bytes.split_first() else { return };
    let vocab = 1 << (vocab % 17);
    let text = Text::load_tokens(Input::of_bytes("a file", file.to_vec()), vocab);
    if let Some(text) = readable(text) {
        windows(&text, vocab as i32);
    }
}

/// Input: the bytes of a text.
pub fn text(bytes: &[u8]) {
    let text = Text::load(Input::of_bytes("a file", bytes.to_vec()));
    if let Some(text) = readable(text) {
        assert_eq!(text.train.len() + text.held_out.len(), bytes.len() as u64);
        windows(&text, 256);
    }
}

/// Two batches of each data set of a text, if it is long enough.
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

/// Input: layouts, dims, shapes and dtypes as text.
pub fn layout(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    round_trip::<Layout>(text);
    round_trip::<Dimension>(text);
    round_trip::<Shape>(text);
    round_trip::<DType>(text);
}

/// Input: meshes and strategies as text.
pub fn mesh(bytes: &[u8]) {
    /// Meshes with more processors take too long to enumerate.
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

/// Input: the value of `TF_CONFIG`.
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

/// Input: the configuration of an optimizer as JSON and as TOML. A valid one trains a model.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for config in [OptimizerConfig::from_json(text), OptimizerConfig::from_toml(text)] {
        let Some(config) = readable(config) else { continue };
        let graph = mesh_ops::graph();
        let input = graph.input("x", [dim("batch", 2), dim("width", 3)], F32);
        let loss = input.dense(dim("out", 2), "out").square().mean();
        let (rate, updates, _) = get_optimizer(&graph, loss, &config, None);
        let train = graph.function("train", [input], [loss, rate], updates);
        // A value that is legal by itself may be illegal in f32; lowering reports that.
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
    /// A model that can be trained, and a session of it.
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

/// Input: two bytes with the length of a run's state, that state, the run's metrics file. The run
/// resumes from them with all watchers that have a state.
pub fn resumed(bytes: &[u8]) {
    let Some((state, metrics, written)) = gone_on(bytes) else { return };
    // Lines up to the saved length stay, later ones are discarded, and whole lines follow.
    let length = state.watchers.get("metrics").and_then(|length| length.parse().ok());
    let kept = if metrics.is_empty() { 0 } else { length.unwrap_or(0) };
    assert_eq!(written.get(..kept), metrics.get(..kept));
    for line in written[kept..].split_inclusive(|&byte| byte == b'\n') {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        assert!(line["step"].as_u64() > Some(state.position.step), "{line}");
    }
}

/// The state and the metrics file in the input, and the metrics file of the run that resumed from
/// them; `None` if it was refused.
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
            .quiet()
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

/// Input: two bytes with the length of the manifest, the manifest without its last line, the
/// tensors.
pub fn checkpoint(bytes: &[u8]) {
    let Some(Some(checkpoint)) = opened(bytes).map(readable) else { return };
    let mut names = std::collections::BTreeSet::new();
    for tensor in checkpoint.tensors() {
        assert_eq!(tensor.dims.len(), tensor.shape.len());
        assert!(names.insert(tensor.name.to_owned()), "{} twice", tensor.name);
    }
    assert!(!checkpoint.signature().is_empty());
}

/// The checkpoint in the input; `None` if the bytes are too few. In the manifest the words
/// `@BYTES`, `@HEADER` and `@DATA` are replaced by the true length of the tensors and the true
/// checksums of header and data, so that the code after these checks is reached.
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

/// Reads a value from text; writing and reading it again must give the same.
fn round_trip<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    let value = readable(text.parse::<T>())?;
    let again = value.to_string().parse::<T>();
    assert_eq!(again.map_err(|error| error.to_string()).as_ref(), Ok(&value), "{text:?}");
    Some(value)
}

/// Returns the value; an error must have a message.
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
