//! A rank is fed, and reads, only what its processors need.

use super::{CASES, assert_same, bits, mesh, models};
use mesh_core::session::Feed;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{self, Dataset, Record, Remainder, Source};
use mesh_optimize::training::{Every, Metrics, Trainer};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array1, Array2, Slice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn run() {
    let mesh = mesh();
    parts(&mesh);
    integers(&mesh);
    refusals(&mesh);
    let layouts: [(&str, &[&str]); 5] = [
        ("batch:a", &["a"]),
        ("batch:a+b", &["a", "b"]),
        ("batch:b+a; slots/*:a", &["a", "b"]),
        ("batch:b; hidden:a", &["b"]),
        ("pixels:a; hidden:b", &[]),
    ];
    for (layout, axes) in layouts {
        let sizes = axes.iter().map(|axis| mesh.size(mesh.axis(axis).unwrap()));
        reads(&mesh, layout, BATCH / sizes.product::<usize>());
    }
    println!("ranks are fed what they need");
}

/// How a rank feeds what it needs.
#[derive(Clone, Copy)]
enum Form {
    /// Only the part that it needs.
    Part,
    /// Of these dims only that part, as a view of the whole array.
    Dims(fn(usize) -> bool),
    /// The whole array, in which everything that it does not need is spoiled.
    Spoiled,
}

const FORMS: [Form; 4] =
    [Form::Part, Form::Dims(|dim| dim == 0), Form::Dims(|dim| dim > 0), Form::Spoiled];

/// Each rank converts what it is fed of bytes and wide integers: the bits of feeding the dtype itself.
fn integers(mesh: &Mesh) {
    let g = mesh_ops::graph();
    let (batch, pixels) = (dim("batch", 8), dim("pixels", 4));
    let image = g.input("image", [batch, pixels], F32);
    let label = g.input("label", [batch], I32);
    let f = g.function("f", [image, label], [image / 255, label * 2], []);
    let bytes = Array2::from_shape_fn((8, 4), |(i, j)| (31 * i + 7 * j) as u8);
    let labels = Array1::from_shape_fn(8, |i| i as i64 - 4);
    let module = g.lower(mesh, &"batch:a;pixels:b".parse().unwrap()).unwrap();
    let mut ranks = Session::mpi(&module, 5).unwrap();
    let fed = ranks.call(&f, [(&bytes).into(), (&labels).into()]).unwrap();
    let (floats, narrow) = (bytes.mapv(f32::from), labels.mapv(|x| x as i32));
    let same = ranks.call(&f, [(&floats).into(), (&narrow).into()]).unwrap();
    assert_eq!(fed, same);
    assert_eq!(fed[1].to_integers::<i64>().unwrap(), (labels * 2).into_dyn());
}

/// On ranks and on threads, feeding parts gives the bits of feeding whole arrays.
fn parts(mesh: &Mesh) {
    for (name, build, layouts) in CASES {
        let graph = mesh_ops::graph();
        build(&graph);
        for layout in *layouts {
            let Ok(module) = graph.lower(mesh, &layout.parse().unwrap()) else { continue };
            let name = format!("{name} {layout}");
            let whole = models::feeds(&module, "train");
            let mut threads = Session::threads(&module, 5).unwrap();
            let mut ranks = Session::mpi(&module, 5).unwrap();
            ranks.set_replica_check(true).unwrap();
            for feed in threads.feeds("train").unwrap() {
                let all: Vec<_> = feed.shape.iter().map(|&size| 0..size).collect();
                assert_eq!(feed.addressable, all, "{name}");
            }
            for form in FORMS {
                let call = |session: &mut Session, feeds: &[(String, Array)]| {
                    let fetched = session.call_named("train", &models::borrowed(feeds)).unwrap();
                    fetched.into_iter().map(|(_, array)| array).collect::<Vec<_>>()
                };
                let expected = call(&mut threads, &whole);
                let needed: Vec<(String, Array)> = whole
                    .iter()
                    .map(|(name, array)| {
                        let feed = ranks.feeds("train").unwrap().find(|feed| feed.name == name);
                        (name.clone(), formed(array, &feed.unwrap(), form))
                    })
                    .collect();
                assert_same(&name, &call(&mut ranks, &needed), &expected);
            }
            assert_eq!(bits(&ranks), bits(&threads), "variables of {name}");
        }
    }
}

fn formed(array: &Array, feed: &Feed<'_>, form: Form) -> Array {
    let (shape, part) = (feed.shape, feed.addressable);
    match array {
        Array::F32(array) => Array::F32(form_of(array, shape, part, form, f32::NAN)),
        Array::I32(array) => Array::I32(form_of(array, shape, part, form, 1 << 30)),
        other => panic!("{other:?}"),
    }
}

fn form_of<T: Copy>(
    array: &ndarray::ArrayD<T>,
    shape: &[usize],
    part: &[Range<usize>],
    form: Form,
    nothing: T,
) -> ndarray::ArrayD<T> {
    let cut = |cuts: &dyn Fn(usize) -> bool| {
        let mut cut = array.clone();
        cut.slice_each_axis_inplace(|axis| {
            let dim = axis.axis.index();
            let range = if cuts(dim) { part[dim].clone() } else { 0..shape[dim] };
            Slice::from(range)
        });
        cut
    };
    match form {
        Form::Part => cut(&|_| true).as_standard_layout().into_owned(),
        Form::Dims(cuts) => cut(&cuts),
        Form::Spoiled => {
            let mut spoiled = array.clone();
            for (index, element) in spoiled.indexed_iter_mut() {
                let needed = (0..part.len()).all(|dim| part[dim].contains(&index[dim]));
                if !needed {
                    *element = nothing;
                }
            }
            spoiled
        }
    }
}

/// An array that is neither whole nor the needed part is refused on every rank, and nothing runs.
fn refusals(mesh: &Mesh) {
    let graph = mesh_ops::graph();
    models::mlp(&graph);
    let module = graph.lower(mesh, &"batch:a".parse().unwrap()).unwrap();
    let mut session = Session::mpi(&module, 5).unwrap();
    let axis = mesh.axis("a").unwrap();
    let rows = 8 / mesh.size(axis);
    let begin = rows * mesh.coordinate(session.rank(), axis);
    if rows == 8 {
        return;
    }
    let (label, before) = (Array::zeros(I32, &[8]), bits(&session));
    for shape in [&[3, 12][..], &[rows, 6], &[rows], &[rows, 12, 1], &[16, 12]] {
        let image = Array::zeros(F32, shape);
        let feeds = [("image", image.view()), ("label", label.view())];
        let error = session.call_named("train", &feeds).unwrap_err().to_string();
        let end = begin + rows;
        let expected = format!(
            "feed `image` of `train` has shape [batch:8, pixels:12], of which this process needs [{rows}, 12], \
             [{begin}..{end}, 0..12]: each dim of the array given may have the one size or the \
             other, but its shape is {shape:?}"
        );
        assert_eq!(error, expected);
    }
    let image = Array::zeros(I32, &[rows, 12]);
    let feeds = [("image", image.view()), ("label", label.view())];
    let error = session.call_named("train", &feeds).unwrap_err().to_string();
    assert!(error.contains("is of dtype f32, but the array given is of i32"), "{error}");
    assert_eq!(bits(&session), before);
    let image = Array::zeros(F32, &[rows, 12]);
    let label = Array::zeros(I32, &[rows]);
    session.call_named("train", &[("image", image.view()), ("label", label.view())]).unwrap();
    assert_ne!(bits(&session), before);
}

const BATCH: usize = 8;
const PIXELS: usize = 12;
const CLASSES: usize = 4;
/// The number of examples: three training batches per epoch, and two evaluation batches, the last
/// of which is filled up.
const EXAMPLES: [u64; 2] = [3 * BATCH as u64 + 1, BATCH as u64 + 3];

/// Examples that are all different, and the number of those that were read.
#[derive(Clone)]
struct Counted {
    examples: u64,
    read: Arc<AtomicUsize>,
}

impl Counted {
    fn new(examples: u64) -> Self {
        Self { examples, read: Arc::default() }
    }

    fn read(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl Source for Counted {
    fn examples(&self) -> u64 {
        self.examples
    }

    fn read(&self, rows: &[u64]) -> dataset::Result<Record> {
        self.read.fetch_add(rows.len(), Ordering::Relaxed);
        let pixel = |(i, j)| ((rows[i] as usize * 37 + j * 11) % 64) as f32 / 32.0 - 1.0;
        let image = Array2::from_shape_fn((rows.len(), PIXELS), pixel);
        let label: Array1<i32> = rows.iter().map(|row| (row * 3 % 4) as i32).collect();
        Record::new([("image", image.into()), ("label", label.into())])
    }
}

fn classifier(g: &Graph) -> Function<3, 1> {
    let (batch, classes) = (dim("batch", BATCH), dim("classes", CLASSES));
    let image = g.input("image", [batch, dim("pixels", PIXELS)], F32);
    let label = g.input("label", [batch], I32);
    let weight = g.input("weight", [batch], F32);
    let logits = image.dense(dim("hidden", 8), "hidden").relu().dense(classes, "logits");
    let losses = logits.softmax_cross_entropy(label, classes);
    let update = AdamWeightDecay::new(1e-2).minimize(losses.mean());
    g.function("train", [image, label], [losses.mean()], update);
    g.function("evaluate", [image, label, weight], [(losses * weight).sum_all()], [])
}

/// A rank reads only its rows of training and evaluation batches, and computes the bits of threads.
fn reads(mesh: &Mesh, layout: &str, rows: usize) {
    let graph = mesh_ops::graph();
    let evaluate = classifier(&graph);
    let module = graph.lower(mesh, &layout.parse().unwrap()).unwrap();
    let mut trained = Vec::new();
    let ranks: fn(&Module) -> Session = |module| Session::mpi(module, 3).unwrap();
    let threads: fn(&Module) -> Session = |module| Session::threads(module, 3).unwrap();
    for (start, rows) in [(ranks, rows), (threads, BATCH)] {
        let mut session = start(&module);
        let [source, tested] = EXAMPLES.map(Counted::new);
        let data = Dataset::from_source(source.clone()).shuffle(100, 7).unwrap();
        let data = data.batch(BATCH, Remainder::Drop).unwrap().prefetch(2);
        let measured =
            Dataset::from_source(tested.clone()).batch_weighted(BATCH, "weight").unwrap();
        let outcome = Trainer::new(&mut session, "train", data)
            .quiet()
            .epochs(2)
            .evaluate(Every::Epochs(1), |session, _| {
                let mut sum = 0.0;
                for batch in &measured.addressable(session, evaluate.name())? {
                    let batch = batch?;
                    let feeds = batch.feeds(["image", "label", "weight"])?;
                    sum += session.call(&evaluate, feeds)?[0].item().unwrap_or(f64::NAN);
                }
                Ok(Metrics::from([("loss", sum)]))
            })
            .run()
            .unwrap();
        assert_eq!(source.read(), 2 * 3 * rows, "{layout}");
        assert_eq!(tested.read(), 2 * 2 * rows, "{layout}");
        trained.push((outcome.metrics, outcome.evaluation, bits(&session)));
    }
    assert_eq!(trained[0], trained[1], "{layout}");
    assert!(trained[0].1.as_ref().unwrap().get("loss").unwrap() > 0.0);
}
