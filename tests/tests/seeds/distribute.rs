//! The features of tf.distribute's strategies.

use super::guides::settles;
use mesh_core::lower::Options;
use mesh_ops::prelude::*;
use mesh_optimize::cluster::Cluster;
use mesh_optimize::dataset::{Dataset, PerReplica, Remainder};
use mesh_optimize::{
    AdamWeightDecay, ConfigError, CrossDeviceOps, Delayed, Optimizer, OptimizerConfig, Reduction,
    Sgd, Strategy, compute_gradients,
};
use ndarray::{Array1, Array2, ArrayD, Axis};

fn lowered(graph: &Graph, mesh: &str, layout: &str) -> Module {
    graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
}

fn apart(a: &ArrayD<f64>, b: &ArrayD<f64>) -> f64 {
    assert_eq!(a.shape(), b.shape());
    let difference = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(1.0);
    a.iter().zip(b).map(difference).fold(0.0, f64::max)
}

/// Whole numbers without a pattern, from -4 to 4.
fn noise(seed: usize, rows: usize, cols: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, cols), |(i, j)| {
        let mixed = (97 * i + 31 * j + 13 * seed + 1).wrapping_mul(2_654_435_761) >> 9;
        (mixed % 9) as f32 - 4.0
    })
}

const BATCH: usize = 24;

/// Examples whose class is the index of the largest of the first three features.
fn examples(count: usize) -> Dataset {
    let images = noise(3, count, 8);
    let labels: Array1<i32> = images
        .outer_iter()
        .map(|x| (0..3).rev().max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap() as i32)
        .collect();
    Dataset::from_arrays([("image", images.into()), ("label", labels.into())]).unwrap()
}

/// A classifier: functions from images and labels to the loss, and to the number of right answers.
fn classifier(g: &Graph, optimizer: &dyn Optimizer) -> (Function<2, 1>, Function<2, 1>) {
    let (batch, x, classes) = (dim("batch", BATCH), dim("x", 8), dim("classes", 3));
    let image = g.input("image", [batch, x], F32);
    let label = g.input("label", [batch], I32);
    let logits = image.dense(dim("hidden", 16), "hidden").tanh().dense(classes, "logits");
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let train = g.function("train", [image, label], [loss], optimizer.minimize(loss));
    let right = logits.argmax(classes).equal(label).cast(F32).sum_all();
    (train, g.function("evaluate", [image, label], [right], []))
}

/// The losses of some steps on a session.
fn losses(session: &mut Session, train: &Function<2, 1>, steps: usize) -> Vec<f64> {
    let examples = examples(100).cache().shuffle(100, 5).unwrap().repeat_forever();
    let batches = examples.batch(BATCH, Remainder::Drop).unwrap().prefetch(2);
    let step = |batch: mesh_optimize::dataset::Result<_>| {
        let batch: mesh_optimize::dataset::Record = batch.unwrap();
        let [loss] = session.call(train, batch.feeds(["image", "label"]).unwrap()).unwrap();
        loss.item().unwrap()
    };
    batches.iter().take(steps).map(step).collect()
}

#[test]
fn row_34_strategies_are_meshes_and_layouts() {
    let table = [
        ("one_device", "", "", 1),
        ("mirrored:4", "all:4", "batch:all", 4),
        ("mirrored:[2,0,3]", "all:3", "batch:all", 3),
        ("multi_worker:2x4", "host:2;local:4", "batch:host+local", 8),
        ("tpu:2x2", "x:2;y:2", "batch:x+y", 4),
        ("central_storage:2", "all:2", "batch:all;params/*:all@0;slots/*:all@0", 2),
        ("parameter_server:3", "all:3", "batch:all;params/*:all@each;slots/*:all@each", 3),
    ];
    let g = mesh_ops::graph();
    let (train, _) = classifier(&g, &AdamWeightDecay::new(0.05));
    let one = losses(&mut Session::threads(&lowered(&g, "", ""), 1).unwrap(), &train, 8);
    assert!(one[7] < one[0] / 1.2, "it learns: {one:?}");
    for (text, mesh, layout, replicas) in table {
        let strategy: Strategy = text.parse().unwrap();
        let distribution = strategy.distribution("batch").unwrap();
        assert_eq!(distribution.mesh.to_string(), mesh);
        assert_eq!(distribution.layout.to_string(), layout);
        assert_eq!(distribution.mesh.processors(), replicas);
        assert_eq!(strategy.num_replicas_in_sync(), replicas);
        let options = distribution.options();
        let module = g.lower_with(&distribution.mesh, &distribution.layout, &options).unwrap();
        let mut session = Session::threads(&module, 1).unwrap();
        session.set_replica_check(true).unwrap();
        let losses = losses(&mut session, &train, 8);
        let near = losses.iter().zip(&one).all(|(a, b)| (a - b).abs() < 1e-5 * b);
        assert!(near, "{text}: {losses:?} {one:?}");
    }
    let listed: Strategy = "mirrored:[2,0,3]".parse().unwrap();
    assert_eq!(listed, Strategy::mirrored(vec![2, 0, 3]));
    assert_eq!(listed.distribution("batch").unwrap().cores, Some(vec![2, 0, 3]));
    // The processor is pinned to a core that every machine has.
    let first = Strategy::mirrored(vec![0]).distribution("batch").unwrap();
    let module = g.lower(&first.mesh, &first.layout).unwrap();
    assert_eq!(losses(&mut first.session(&module, 1).unwrap(), &train, 8), one);
    // Another name for the dim of the examples.
    let other = Strategy::mirrored(2).distribution("example").unwrap();
    assert_eq!(other.layout.to_string(), "example:all");
    assert!(Strategy::mirrored(2).distribution("exa mple").is_err());
}

#[test]
fn row_35_sums_means_and_gathers_are_exact_on_whole_numbers() {
    for (text, expected) in [
        ("direct", CrossDeviceOps::Direct),
        ("ring", CrossDeviceOps::Ring),
        ("hierarchical", CrossDeviceOps::Hierarchical),
        ("reduce_to_one", CrossDeviceOps::ReduceToOne),
    ] {
        assert_eq!((text.parse(), expected.to_string().as_str()), (Ok(expected), text));
    }
    let error = "nccl".parse::<CrossDeviceOps>().unwrap_err().to_string();
    assert!(error.contains("`nccl`") && error.contains("direct, ring, hierarchical"), "{error}");
    let default = |text: &str| {
        text.parse::<Strategy>().unwrap().distribution("batch").unwrap().cross_device_ops
    };
    assert_eq!(default("mirrored:2"), CrossDeviceOps::Direct);
    assert_eq!(default("multi_worker:2x2"), CrossDeviceOps::Hierarchical);
    assert_eq!(default("central_storage:2"), CrossDeviceOps::Direct);

    let g = mesh_ops::graph();
    let (batch, x) = (dim("batch", 8), dim("x", 4));
    let input = g.input("input", [batch, x], F32);
    let kept = g.state("kept", [x], F32, Initializer::Constant(3.0));
    let gathered = input.rename(batch, "all");
    let (sum, mean) = (input.sum([batch]), input.mean_over([batch]));
    let f = g.function("f", [input], [sum, mean, gathered, kept.value() * sum], []);
    let data = noise(1, 8, 4);
    let total = data.sum_axis(Axis(0));
    for (mesh, layout) in [
        ("", ""),
        ("d:2", "batch:d;params/*:d@1"),
        ("d:8", "batch:d"),
        ("host:2;local:2", "batch:host+local;params/*:local@each"),
        ("x:2;y:2;z:2", "batch:x+y+z"),
    ] {
        for all_reduce in [
            CrossDeviceOps::Direct,
            CrossDeviceOps::Ring,
            CrossDeviceOps::Hierarchical,
            CrossDeviceOps::ReduceToOne,
        ] {
            let (on, layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
            let module =
                g.lower_with(&on, &layout, &Options { all_reduce, ..Options::default() }).unwrap();
            let mut session = Session::threads(&module, 0).unwrap();
            session.set_replica_check(true).unwrap();
            let fetched = session.call(&f, [data.view().into()]).unwrap();
            // The last goes through a broadcast, as one processor owns `kept`.
            let expected = [
                total.clone().into_dyn(),
                (&total / 8.0).into_dyn(),
                data.clone().into_dyn(),
                (&total * 3.0).into_dyn(),
            ];
            assert_eq!(fetched, expected.map(Array::from), "{layout} {all_reduce}");
        }
    }
}

/// A generator and a discriminator of points in the plane, each with its own variables and
/// optimizer. Losses are sums over examples, divided by the global batch size.
fn adversaries(g: &Graph) -> (Function<2, 1>, Function<1, 1>) {
    let (batch, noise, plane) = (dim("batch", 8), dim("noise", 3), dim("plane", 2));
    let (hidden, score) = (dim("hidden", 4), dim("score", 1));
    let points = g.input("points", [batch, plane], F32);
    let z = g.input("z", [batch, noise], F32);
    let made = z.dense(plane, "generator");
    let first = g.trainable_variables();
    let judge = mesh_ops::layers::Dense::onto([hidden]).over([plane]);
    let parameters = mesh_ops::layers::Parameters::like(points);
    let weights = judge.weights(&parameters, "judge");
    let last = mesh_ops::layers::Dense::onto([score]).over([hidden]);
    let verdict = last.weights(&parameters, "verdict");
    let second: Vec<_> = g.trainable_variables().into_iter().skip(first.len()).collect();
    let judged = |x| {
        let x = judge.apply_with(x, &weights).tanh();
        last.apply_with(x, &verdict).sum([score])
    };
    let (real, fake) = (judged(points), judged(made));
    let share = 1.0 / 8.0;
    let of_judge = (fake.softplus() + (real * -1.0).softplus()).sum_all() * share;
    let of_maker = (fake * -1.0).softplus().sum_all() * share;
    let judge = Sgd::new(0.2).apply_grads(&compute_gradients(of_judge, &second));
    let maker = AdamWeightDecay::new(0.05).apply_grads(&compute_gradients(of_maker, &first));
    let train_judge = g.function("train_judge", [points, z], [of_judge], judge);
    (train_judge, g.function("train_maker", [z], [fake], maker))
}

#[test]
fn row_36_custom_loops_are_equal_on_every_layout() {
    let run = |mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let (judge, maker) = adversaries(&g);
        let mut session = Session::threads(&lowered(&g, mesh, layout), 4).unwrap();
        session.set_replica_check(true).unwrap();
        let mut fetched = Vec::new();
        for round in 0..4 {
            // Two steps of the discriminator for each step of the generator.
            for step in 0..2 {
                let (points, z) = (noise(round + step, 8, 2), noise(2 * round + step, 8, 3));
                let [loss] = session.call(&judge, [points.view().into(), z.view().into()]).unwrap();
                fetched.push(loss.to_f64());
            }
            let [scores] = session.call(&maker, [noise(round, 8, 3).view().into()]).unwrap();
            fetched.push(scores.to_f64());
        }
        assert_eq!(session.read("step").unwrap().item(), Some(12.0));
        let names: Vec<_> = session.variables().map(str::to_owned).collect();
        fetched.extend(names.iter().map(|name| session.read(name).unwrap().to_f64()));
        fetched
    };
    let one = run("", "");
    for (mesh, layout) in [
        ("d:2", "batch:d"),
        ("d:8", "batch:d"),
        ("host:2;local:2", "batch:host+local"),
        ("d:2;m:2", "batch:d;hidden:m"),
        ("d:2", "batch:d;slots/*:d"),
        ("d:2", "batch:d;params/*:d;slots/*:d"),
        ("d:4", "batch:d;params/*:d@each;slots/*:d@each"),
    ] {
        for (a, b) in run(mesh, layout).iter().zip(&one) {
            assert!(apart(a, b) < 1e-5, "{layout}: {a} {b}");
        }
    }

    // The part of the scores that each of four replicas has, and its sums and means.
    let scores = Array1::from_iter((0..8).map(|i| i as f32)).into();
    let parts = PerReplica::parts(&scores, 4).unwrap();
    let values: Vec<_> =
        parts.values().iter().map(|v| v.to_f64().into_raw_vec_and_offset().0).collect();
    assert_eq!(values, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]);
    let reduce =
        |reduction, axis| parts.reduce(reduction, axis).unwrap().into_raw_vec_and_offset().0;
    assert_eq!(reduce(Reduction::Sum, None), [12.0, 16.0]);
    assert_eq!(reduce(Reduction::Mean, None), [3.0, 4.0]);
    assert_eq!(reduce(Reduction::Sum, Some(0)), [28.0]);
    assert_eq!(reduce(Reduction::Mean, Some(0)), [3.5]);
    // The dim of the replicas may be anywhere in the array.
    let matrix = ndarray::arr2(&[[1i32, 2, 3], [4, 5, 6]]).into();
    let columns = PerReplica::along(&matrix, 1).unwrap();
    assert_eq!(columns.values()[2], ndarray::arr1(&[3i32, 6]).into());
    assert_eq!(
        columns.reduce(Reduction::Mean, Some(0)).unwrap().into_iter().collect::<Vec<_>>(),
        [3.5]
    );
}

#[test]
fn row_37_data_sets_feed_global_batches() {
    let g = mesh_ops::graph();
    let (batch, x) = (dim("batch", 6), dim("x", 2));
    let input = g.input("0", [batch, x], F32);
    let seen = g.function("seen", [input], [input + 0.0, input.sum([x])], []);
    // From arrays, mapped, cached, shuffled, repeated, batched, prefetched.
    let scaled = Dataset::from_positional([noise(1, 10, 2).into()])
        .unwrap()
        .map(|record| {
            let halves = record.get("0")?.to_f64().mapv(|v| v as f32 / 2.0);
            Ok(record.with("0", halves))
        })
        .cache();
    let shuffled = scaled.shuffle(4, 11).unwrap().repeat(3);
    let batches = shuffled.batch(6, Remainder::Drop).unwrap().prefetch(2);
    let fed = |batches: &Dataset, mesh: &str, layout: &str| -> Vec<_> {
        let mut session = Session::threads(&lowered(&g, mesh, layout), 0).unwrap();
        let call = |batch: mesh_optimize::dataset::Result<mesh_optimize::dataset::Record>| {
            let batch = batch.unwrap();
            let [seen, sums] = session.call(&seen, batch.feeds(["0"]).unwrap()).unwrap();
            assert_eq!(&seen, batch.get("0").unwrap(), "each processor had its slice");
            sums
        };
        batches.iter().map(call).collect()
    };
    let one = fed(&batches, "", "");
    assert_eq!(one.len(), 5, "30 examples in sixes");
    for (mesh, layout) in [("d:2", "batch:d"), ("d:3", "batch:d"), ("h:3;l:2", "batch:h+l")] {
        assert_eq!(fed(&batches, mesh, layout), one, "{layout}");
    }
    // A data set for each of three replicas, with batches of two: the global batch is three times
    // as large.
    let own = |replica: usize| {
        Dataset::from_positional([(noise(0, 4, 2) + 100.0 * replica as f32).into()])?
            .batch(2, Remainder::Drop)
    };
    let joined = Dataset::from_replicas(3, own).unwrap();
    let sums = fed(&joined, "d:3", "batch:d");
    assert_eq!(sums.len(), 2);
    for (part, sums) in sums.iter().enumerate() {
        let replicas = PerReplica::parts(sums, 3).unwrap();
        for (replica, value) in replicas.values().iter().enumerate() {
            let own = noise(0, 4, 2) + 100.0 * replica as f32;
            let rows = own.slice(ndarray::s![2 * part..2 * part + 2, ..]).sum_axis(Axis(1));
            assert_eq!(*value, rows.into());
        }
    }
}

#[test]
fn row_38_evaluation_may_lie_otherwise() {
    let g = mesh_ops::graph();
    let (train, evaluate) = classifier(&g, &AdamWeightDecay::new(0.05));
    let module = lowered(&g, "d:4", "batch:d;slots/*:d");
    let mut session = Session::threads(&module, 1).unwrap();
    losses(&mut session, &train, 20);
    let batch = examples(BATCH).batch(BATCH, Remainder::Drop).unwrap().iter().next();
    let batch = batch.unwrap().unwrap();
    let feeds = || batch.feeds(["image", "label"]).unwrap();
    let [right] = session.call(&evaluate, feeds()).unwrap();
    assert!(right.item().unwrap() > 12.0, "{right:?}");
    for (mesh, layout) in
        [("", ""), ("m:4", "hidden:m"), ("d:2;m:2", "batch:d;hidden:m"), ("d:3", "batch:d")]
    {
        let mut other = Session::threads(&lowered(&g, mesh, layout), 9).unwrap();
        other.copy_variables(&session).unwrap();
        let [same] = other.call(&evaluate, feeds()).unwrap();
        assert_eq!(same, right, "{layout}");
    }
}

#[test]
fn row_39_batches_are_global_and_so_is_their_rate() {
    let config = |strategy: &Strategy| -> Result<_, ConfigError> {
        let batch = strategy.global_batch(64);
        let text = format!(
            r#"{{"opt_name": "sgd", "train_batch_size": {batch},
                 "lr_by_batch": {{"64": 0.1, "128": 0.15}}}}"#
        );
        let g = mesh_ops::graph();
        let rate = OptimizerConfig::from_json(&text)?.learning_rate().at(&g, F64);
        let look = g.function("look", [], [rate], []);
        let [rate] = Session::threads(&lowered(&g, "", ""), 0).unwrap().call(&look, []).unwrap();
        Ok(rate.item())
    };
    for (text, batch, rate) in [("one_device", 64, 0.1), ("mirrored:2", 128, 0.15)] {
        let strategy: Strategy = text.parse().unwrap();
        assert_eq!(strategy.global_batch(64), batch);
        assert_eq!(strategy.per_replica_batch(batch), Ok(64));
        assert_eq!(config(&strategy).unwrap(), Some(rate));
    }
    let four = Strategy::mirrored(4);
    let error = config(&four).unwrap_err().to_string();
    assert!(error.contains("256") && error.contains("64 and 128"), "{error}");
    let error = four.per_replica_batch(66).unwrap_err().to_string();
    assert!(error.contains("66") && error.contains("64 or 68"), "{error}");
    let error = four.per_replica_batch(3).unwrap_err().to_string();
    assert!(error.ends_with("4 would be"), "{error}");
    settles(
        "from-tf-distribute.md",
        &["Strategies", "scope", "compile", "fit", "RunConfig", "Batch sizes and learning rates"],
    );
}

#[test]
fn row_40_parameter_servers_are_owners_and_staleness() {
    let strategy: Strategy = "parameter_server:2;staleness:3".parse().unwrap();
    let distribution = strategy.distribution("batch").unwrap();
    assert_eq!(
        (distribution.layout.to_string().as_str(), distribution.staleness),
        ("batch:all;params/*:all@each;slots/*:all@each", 3)
    );
    // With staleness 0 it is the optimizer itself.
    let trained = |optimizer: &dyn Optimizer, mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let (train, _) = classifier(&g, optimizer);
        let mut session = Session::threads(&lowered(&g, mesh, layout), 1).unwrap();
        losses(&mut session, &train, 8)
    };
    let adam = || AdamWeightDecay::new(0.05);
    let prompt = trained(&adam(), "", "");
    assert_eq!(trained(&Delayed::new(adam(), 0), "", ""), prompt);
    // With staleness it is another run, but the same one on every layout and every time.
    let late = trained(&Delayed::new(adam(), 3), "", "");
    assert_ne!(late, prompt);
    assert_eq!(late, trained(&Delayed::new(adam(), 3), "", ""));
    let owned = distribution.layout.to_string();
    for (mesh, layout) in [
        ("all:2", "batch:all"),
        ("all:2", owned.as_str()),
        ("all:4", &owned),
        ("all:4", "batch:all;slots/*:all"),
        ("m:4", "hidden:m"),
    ] {
        let same = trained(&Delayed::new(adam(), 3), mesh, layout);
        let near = same.iter().zip(&late).all(|(a, b)| (a - b).abs() < 1e-5 * b);
        assert!(near, "{layout}: {same:?} {late:?}");
    }
    // The hosts that compute, from TF_CONFIG.
    let cluster: Cluster = r#"{
        "cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["p:2222"]},
        "task": {"type": "worker", "index": 0}, "environment": "cloud"
    }"#
    .parse()
    .unwrap();
    assert_eq!((cluster.hosts().len(), cluster.rank(), cluster.is_chief()), (3, Some(1), false));
    assert_eq!(cluster.strategy(2).to_string(), "multi_worker:3x2");
    let error = "{".parse::<Cluster>().unwrap_err().to_string();
    assert!(error.contains("TF_CONFIG is no JSON"), "{error}");
    settles("from-tf-distribute.md", &["Parameter servers and asynchrony", "TF_CONFIG"]);
}
