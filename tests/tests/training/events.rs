//! Event files, read by TensorBoard itself where it is installed.

use super::common::{Model, Seen, scratch};
use mesh_ops::prelude::*;
use mesh_optimize::training::{
    BoxError, EventFile, Every, Metrics, Step, Trainer, TrainingState, Watcher,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::python::python;

/// The probed weights at every step.
#[derive(Clone, Default)]
struct Weights(std::sync::Arc<std::sync::Mutex<BTreeMap<u64, Vec<f64>>>>);

impl Watcher for Weights {
    fn name(&self) -> &str {
        "weights"
    }
    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let weights = step.tensors[0].1.to_f64().iter().copied().collect();
        self.0.lock().unwrap().insert(step.position.step, weights);
        Ok(())
    }
}

/// Trains up to a step. Returns the state that was saved after the fourth step.
fn run(
    model: &Model,
    folder: &Path,
    from: Option<(TrainingState, Session)>,
    steps: u64,
    watchers: (&Seen, &Weights),
) -> Option<(TrainingState, Session)> {
    let mut saved = None;
    let (state, mut session) = from.unwrap_or_else(|| (TrainingState::default(), model.session(0)));
    Trainer::new(&mut session, "train", model.data(1))
        .quiet()
        .resume(state)
        .steps(steps)
        .metric_names(["loss"])
        .evaluate(Every::Steps(2), |_, position| {
            Ok(Metrics::from([("score", position.step as f64 / 4.0)]))
        })
        .save(Every::Steps(4), |session, state| {
            let mut copy = model.session(0);
            copy.copy_variables(session)?;
            saved.get_or_insert((state.clone(), copy));
            Ok(String::new())
        })
        .watch(EventFile::create(folder).unwrap().histograms_every(3))
        .watch(watchers.0.clone())
        .watch(watchers.1.clone())
        .run()
        .unwrap();
    saved
}

/// A run of six steps that is resumed from the state after the fourth. Returns the folder, and
/// losses and weights of the steps that count.
fn resumed() -> (PathBuf, Vec<f64>, BTreeMap<u64, Vec<f64>>) {
    let (folder, model) = (scratch("events").join("deep/er"), Model::new("b:3", "batch:b"));
    let (first, second, weights) = (Seen::default(), Seen::default(), Weights::default());
    let saved = run(&model, &folder, None, 6, (&first, &weights));
    assert_eq!(saved.as_ref().unwrap().0.position.step, 4);
    run(&model, &folder, saved, 9, (&second, &weights));
    let losses = [&first.losses()[..4], &second.losses()].concat();
    let weights = weights.0.lock().unwrap().clone();
    (folder, losses, weights)
}

/// What TensorBoard reads in a folder. If it is not installed, prints that and returns `None`.
fn tensorboard(folder: &Path) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/read_events.py");
    let python = python("tensorboard.backend.event_processing.event_accumulator")?;
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn tensorboard_reads_events() {
    let (folder, losses, weights) = resumed();
    let files: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert_eq!(files.len(), 2);
    for found in [Some(decoded(&folder)), tensorboard(&folder)].into_iter().flatten() {
        let losses: Vec<_> =
            (1..).zip(&losses).map(|(step, loss)| json!([step, *loss as f32 as f64])).collect();
        assert_eq!(found["scalars"]["loss"], json!(losses));
        let scores = [2, 4, 6, 8, 9].map(|step| json!([step, step as f64 / 4.0]));
        assert_eq!(found["scalars"]["evaluation/score"], json!(scores));
        assert_eq!(found["scalars"]["bias"].as_array().unwrap().len(), 9);
        let histograms = found["histograms"]["weights"].as_array().unwrap();
        let steps: Vec<_> = histograms.iter().map(|h| h[0].as_u64().unwrap()).collect();
        assert_eq!(steps, [1, 4, 7]);
        for histogram in histograms {
            let weights = &weights[&histogram[0].as_u64().unwrap()];
            let ends = |f: fn(f64, f64) -> f64| weights.iter().copied().reduce(f).unwrap();
            assert_eq!(histogram[1], json!(ends(f64::min)));
            assert_eq!(histogram[2], json!(ends(f64::max)));
            assert_eq!(histogram[3], json!(4.0));
            assert_eq!(histogram[4], json!(weights.iter().sum::<f64>()));
            let counts = histogram[7].as_array().unwrap().iter().map(|c| c.as_f64().unwrap());
            assert_eq!(counts.sum::<f64>(), 4.0);
        }
    }
}

/// A field's value in a message: a varint, eight bytes, bytes or four bytes.
enum Field<'b> {
    Integer(u64),
    Double(f64),
    Bytes(&'b [u8]),
    Float(f32),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut take = |count: usize| {
            let (taken, rest) = bytes.split_at(count);
            bytes = rest;
            taken
        };
        let field = match key & 7 {
            1 => Field::Double(f64::from_le_bytes(take(8).try_into().unwrap())),
            5 => Field::Float(f32::from_le_bytes(take(4).try_into().unwrap())),
            0 => Field::Integer(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken)
            }
            kind => panic!("wire type {kind}"),
        };
        found.push((key >> 3, field));
    }
    found
}

/// What TensorBoard should read, by the definitions of `event.proto` and `summary.proto` alone.
fn decoded(folder: &Path) -> Value {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut scalars: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut histograms: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let (mut rest, mut first) = (&bytes[..], true);
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let event = fields(&rest[12..12 + length]);
            rest = &rest[12 + length + 4..];
            let mut step = 0;
            for (number, field) in event {
                match (number, field) {
                    (1, Field::Double(time)) => assert!(time > 1.7e9),
                    (2, Field::Integer(found)) => step = found,
                    (3, Field::Bytes(version)) => {
                        assert!(first && version == b"brain.Event:2");
                    }
                    (5, Field::Bytes(summary)) => {
                        add_summary(summary, step, &mut scalars, &mut histograms);
                    }
                    (7, Field::Bytes(log)) => {
                        assert!(matches!(fields(log)[..], [(1, Field::Integer(1))]));
                        let lists = scalars.values_mut().chain(histograms.values_mut());
                        lists.for_each(|list| list.retain(|e| e[0].as_u64().unwrap() < step));
                    }
                    (number, _) => panic!("field {number}"),
                }
            }
            first = false;
        }
    }
    json!({ "scalars": scalars, "histograms": histograms })
}

fn add_summary(
    summary: &[u8],
    step: u64,
    scalars: &mut BTreeMap<String, Vec<Value>>,
    histograms: &mut BTreeMap<String, Vec<Value>>,
) {
    for (number, value) in fields(summary) {
        let Field::Bytes(value) = value else { panic!("a value is a message") };
        assert_eq!(number, 1);
        let mut tag = String::new();
        for (number, field) in fields(value) {
            match (number, field) {
                (1, Field::Bytes(bytes)) => tag = String::from_utf8(bytes.to_vec()).unwrap(),
                (2, Field::Float(value)) => {
                    let value = json!([step, f64::from(value)]);
                    scalars.entry(tag.clone()).or_default().push(value);
                }
                (5, Field::Bytes(histogram)) => {
                    let row = [json!(step)].into_iter().chain(histogram_fields(histogram));
                    histograms.entry(tag.clone()).or_default().push(row.collect());
                }
                (number, _) => panic!("field {number} of a value"),
            }
        }
    }
}

fn histogram_fields(histogram: &[u8]) -> Vec<Value> {
    let field = |(_, field): &(u64, Field<'_>)| match field {
        Field::Double(value) => json!(value),
        Field::Bytes(packed) => {
            let doubles = packed.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
            json!(doubles.collect::<Vec<_>>())
        }
        _ => panic!("a field of a histogram"),
    };
    let fields = fields(histogram);
    assert!(fields.iter().map(|(number, _)| *number).eq(1..=7));
    fields.iter().map(field).collect()
}
