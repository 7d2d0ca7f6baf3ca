//! What stays on the devices between calls: variables, seeds, what the last call left.

use mesh_core::session::checkpoint::{Checkpoints, Restore, State};
use mesh_core::session::{Error, Session};
use mesh_ops::prelude::*;
use mesh_ops::random::{random_integer, random_normal, random_uniform};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array2, arr1};
use std::path::Path;
use std::thread;
use tests::{fast, plugin};

const LAYOUTS: [(&str, &str); 5] = [
    ("", ""),
    ("d:2", "x:d"),
    ("d:2", "params/*:d"),
    ("d:2;m:2", "x:d+m"),
    ("d:2", "params/*:d@1"),
];

fn lowered(graph: &Graph) -> impl Iterator<Item = Module> + '_ {
    let lower = |(mesh, layout): (&str, &str)| {
        graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
    };
    LAYOUTS.into_iter().map(lower)
}

/// Reads see the call's start; a variable that is only read keeps its memory.
#[test]
fn updates_commit_together() {
    let Some(plugin) = plugin() else { return };
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let [a, b, c] = [("a", 1.0), ("b", 2.0), ("c", 3.0)]
        .map(|(name, value)| g.state(name, [x], F32, Initializer::Constant(value)));
    let sum = a.value() + b.value() + c.value();
    let swap = g.function("swap", [], [sum], [a.assign(b.value()), b.assign(a.value())]);
    let count = g.function("count", [], [], [a.assign_add(c.value())]);
    for module in lowered(&g) {
        let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
        session.set_replica_check(true).unwrap();
        let read = |session: &Session, name| session.read(name).unwrap().to_f64()[[3]];
        let [seen] = session.call(&swap, []).unwrap();
        assert_eq!(seen.as_f32().unwrap(), &arr1(&[6f32; 4]).into_dyn());
        assert_eq!(["a", "b", "c"].map(|name| read(&session, name)), [2.0, 1.0, 3.0]);
        for _ in 0..5 {
            let [] = session.call(&count, []).unwrap();
        }
        assert_eq!(["a", "b", "c"].map(|name| read(&session, name)), [17.0, 1.0, 3.0]);
        session.write("c", &arr1(&[1f32, 2.0, 3.0, 4.0])).unwrap();
        let [] = session.call(&count, []).unwrap();
        let a = session.read("a").unwrap();
        assert_eq!(a.as_f32().unwrap(), &arr1(&[18f32, 19.0, 20.0, 21.0]).into_dyn());
    }
}

/// Bytes and wide integers are what they are fed to before a device sees them, and come back as they were.
#[test]
fn bytes_and_wide_integers_pass_the_border() {
    let Some(plugin) = plugin() else { return };
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let (image, label) = (g.input("image", [x], F32), g.input("label", [x], I32));
    let f = g.function("f", [image, label], [image / 255 * 255, label - 1], []);
    let (bytes, labels) = (arr1(&[0_u8, 1, 254, 255]), arr1(&[1_i64, -5, 0, 1 << 20]));
    for module in lowered(&g) {
        let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
        let [image, less] = session.call(&f, [(&bytes).into(), (&labels).into()]).unwrap();
        let image = Array::from(image.to_f64().mapv(f64::round)).to_integers::<u8>().unwrap();
        assert_eq!(image, bytes.clone().into_dyn());
        assert_eq!(less.to_integers::<i64>().unwrap(), (&labels - 1).into_dyn());
        let beyond = arr1(&[0, 1_i64 << 40, 0, 0]);
        let error = session.call(&f, [(&bytes).into(), (&beyond).into()]).unwrap_err();
        assert!(error.to_string().contains("1099511627776"), "{error}");
    }
}

/// Every dtype goes to the devices and comes back as it is, split or not, whatever the array's strides.
#[test]
fn arrays_of_every_dtype_keep_their_bits() {
    let Some(plugin) = plugin() else { return };
    for dtype in [F32, F64, BF16, I32, Bool] {
        let g = mesh_ops::graph();
        let (x, y) = (dim("x", 4), dim("y", 6));
        let fed = g.input("fed", [x, y], dtype);
        let kept = g.state("kept", [y, x], dtype, Initializer::ZEROS);
        let turned = fed.transpose([y, x]);
        let swap = g.function("swap", [fed], [kept.value()], [kept.assign(turned)]);
        for (mesh, layout) in [("", ""), ("a:2", "x:a"), ("a:2;b:2", "y:b;x:a")] {
            let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
            let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
            let numbers = Array2::from_shape_fn((6, 4), |(i, j)| (i * 7 + j) as f64 - 9.5);
            let array = match dtype {
                F32 => Array::from(numbers.mapv(|x| x as f32 / 3.0)),
                F64 => Array::from(numbers.mapv(|x| x / 3.0)),
                BF16 => Array::from(numbers.mapv(half::bf16::from_f64)),
                I32 => Array::from(numbers.mapv(|x| (x * 2.0) as i32)),
                Bool => Array::from(numbers.mapv(|x| x as i32 % 2 == 0)),
            };
            session.write("kept", &array).unwrap();
            let zeros = Array::zeros(dtype, &[4, 6]);
            let [found] = session.call(&swap, [zeros.view()]).unwrap();
            assert_eq!(found, array, "{dtype} on \"{mesh}\"");
            assert_eq!(session.read("kept").unwrap(), Array::zeros(dtype, &[6, 4]));
        }
    }
}

/// Calls that a thread makes of its session.
const CALLS: usize = 100;

/// What is fed is there when a program starts, and what is fetched is finished, whoever else uses the device.
#[test]
fn sessions_of_several_threads_share_a_device() {
    let Some(plugin) = plugin() else { return };
    let g = mesh_ops::graph();
    let (x, y) = (dim("x", 8), dim("y", 12));
    let fed = g.input("fed", [x, y], F32);
    let kept = g.state("kept", [x, y], F32, Initializer::ZEROS);
    let sums = fed.cumsum_with(x, mesh_ops::Cumulative { exclusive: false, reverse: true });
    let add = g.function("add", [fed], [sums], [kept.assign_add(fed)]);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let work = |thread: usize| {
        let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
        let mut total = Array2::zeros((8, 12));
        for call in 0..CALLS {
            let numbers = Array2::from_shape_fn((8, 12), |(i, j)| {
                ((i * 5 + j * 3 + call * 7 + thread) % 16) as f32
            });
            total += &numbers;
            let [sums] = session.call(&add, [(&numbers).into()]).unwrap();
            let mut expected = numbers;
            for i in (0..7).rev() {
                let below = expected.row(i + 1).to_owned();
                expected.row_mut(i).scaled_add(1.0, &below);
            }
            assert_eq!(
                sums.as_f32().unwrap(),
                &expected.into_dyn(),
                "call {call} of thread {thread}"
            );
        }
        assert_eq!(session.read("kept").unwrap().as_f32().unwrap(), &total.into_dyn());
    };
    let threads = thread::available_parallelism().map_or(2, |threads| threads.get().clamp(2, 16));
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A model with random numbers, slots and a loop.
fn model() -> (Graph, Function<1, 1>) {
    let g = mesh_ops::graph();
    let (batch, width) = (dim("batch", 8), dim("width", 4));
    let x = g.input("x", [batch, width], F32);
    let stack = g.variable(
        "stack",
        [dim("layers", 3), width],
        F32,
        Initializer::Uniform { low: -0.5, high: 0.5 },
    );
    let hidden = x.dense(dim("hidden", 8), "one").tanh().dropout(0.25);
    let hidden = hidden.dense(width, "two");
    let ([hidden], []) =
        g.scan(dim("layers", 3), [hidden], [stack.value()], |[h], [w]| ([(h * w).tanh() + h], []));
    let loss = (hidden - 1.0).square().mean();
    let train = g.function("train", [x], [loss], AdamWeightDecay::new(0.01).minimize(loss));
    (g, train)
}

/// Initial values and what is drawn in a call have the bits of threads, for every seed.
#[test]
fn random_numbers_have_the_bits_of_threads() {
    let Some(plugin) = plugin() else { return };
    let g = mesh_ops::graph();
    let (x, y) = (dim("x", 8), dim("y", 12));
    for (name, initializer) in [
        ("uniform", Initializer::Uniform { low: -0.5, high: 2.0 }),
        ("normal", Initializer::TruncatedNormal { mean: 0.5, stddev: 3.0 }),
    ] {
        g.state(name, [x, y], F32, initializer);
    }
    let salt = g.input("salt", [], I32);
    let fetches = {
        let _salt = g.salted(salt);
        [
            g.fill(1.0, [x, y], F32).dropout(0.25),
            random_uniform(&g, [x, y], -1.0, 3.0, F32),
            random_normal(&g, [x, y], 0.5, 2.0, F32),
            random_integer(&g, [x, y], -5, 1000),
        ]
    };
    let draw = g.function("draw", [salt], fetches, []);
    for (mesh, layout) in [("", ""), ("a:2", "y:a"), ("a:2;b:4", "x:b;y:a")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        for seed in [0, 7, u64::MAX - 1] {
            let mut threads = Session::threads(&module, seed).unwrap();
            let mut devices = Session::xla_with(&module, seed, &fast(&plugin)).unwrap();
            for name in ["uniform", "normal"] {
                let what = format!("{name} on \"{mesh}\" of seed {seed}");
                assert_eq!(devices.read(name).unwrap(), threads.read(name).unwrap(), "{what}");
            }
            for salt in [0, -3] {
                let salt = Array::from(salt);
                let drawn = devices.call(&draw, [salt.view()]).unwrap();
                assert_eq!(drawn, threads.call(&draw, [salt.view()]).unwrap(), "seed {seed}");
                for session in [&mut devices, &mut threads] {
                    session.set_seed(seed ^ 0x1234_5678_9abc);
                }
            }
        }
    }
}

/// How far losses after some steps may be apart, relative to their size.
const NEAR: f64 = 1e-5;

/// A run goes from back-end to back-end by checkpoints, and its losses are those of a run that stays on threads.
#[test]
fn checkpoints_move_between_threads_and_devices() {
    let Some(plugin) = plugin() else { return };
    let (graph, train) = model();
    let lower = |mesh: &str, layout: &str| {
        graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
    };
    let (threads, devices) =
        (lower("d:2", "batch:d"), lower("d:2;m:2", "batch:d;hidden:m;slots/*:d"));
    let fed = Array2::from_shape_fn((8, 4), |(i, j)| ((i * 5 + j * 3) % 7) as f32 / 4.0 - 0.5);
    let step = |session: &mut Session| {
        let [loss] = session.call(&train, [(&fed).into()]).unwrap();
        loss.item().unwrap()
    };
    let mut stays = Session::threads(&threads, 11).unwrap();
    let expected: Vec<_> = (0..6).map(|_| step(&mut stays)).collect();

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xla-moves");
    let _ = std::fs::remove_dir_all(&folder);
    let (mut losses, kept) = (Vec::new(), Checkpoints::new(&folder));
    for (part, on_devices) in [true, false, true].into_iter().enumerate() {
        // Another seed: the checkpoint's is the one that counts.
        let mut session = match on_devices {
            true => Session::xla_with(&devices, 11 + part as u64, &fast(&plugin)).unwrap(),
            false => Session::threads(&threads, 99).unwrap(),
        };
        if part > 0 {
            let checkpoint = kept.latest().unwrap().checkpoint.unwrap();
            session.restore(&checkpoint, &Restore::all()).unwrap();
        }
        losses.extend((0..2).map(|_| step(&mut session)));
        kept.save(part as u64, &session.snapshot().unwrap(), &State::new()).unwrap();
    }
    for (found, expected) in losses.iter().zip(&expected) {
        assert!((found - expected).abs() <= NEAR * expected.abs(), "{losses:?}, not {expected:?}");
    }
}

#[test]
fn what_devices_cannot_do_is_refused() {
    let Some(plugin) = plugin() else { return };
    let (graph, _) = model();
    let module = graph.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::xla_with(&module, 7, &fast(&plugin)).unwrap();
    let error = session.record(true).unwrap_err();
    assert!(matches!(&error, Error::Refused { reason } if reason.contains("back-end xla cannot")));
}
