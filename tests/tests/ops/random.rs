//! Random numbers in sessions: what they depend on, their distribution, their cost.

use mesh_core::program::{Form, Generator, Offset, Step};
use mesh_ops::prelude::*;
use mesh_ops::random::*;
use mesh_optimize::{Optimizer, Sgd};
use tests::changed;

const MESHES: &[(&str, &str)] =
    &[("", ""), ("d:2", "x:d"), ("d:2", "y:d"), ("d:2;m:2", "x:d;y:m"), ("d:2;m:3", "x:m+d")];

fn session(graph: &Graph, (mesh, layout): (&str, &str), seed: u64) -> Session {
    let module = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, seed).unwrap();
    session.set_replica_check(true).unwrap();
    session
}

fn numbers(array: &Array) -> Vec<f64> {
    array.to_f64().iter().copied().collect()
}

/// A function without feeds that returns one tensor, called once.
fn drawn(build: impl for<'g> Fn(&'g Graph) -> Tensor<'g>, seed: u64) -> Vec<f64> {
    let g = mesh_ops::graph();
    let f = g.function("f", [], [build(&g)], []);
    g.check().unwrap();
    let [result] = session(&g, ("", ""), seed).call(&f, []).unwrap();
    numbers(&result)
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

/// A training step whose result and loss depend on random numbers, and a function that shows these.
fn noisy(g: &Graph) -> (Function<0, 2>, Function<0, 1>) {
    let (x, y) = (dim("x", 12), dim("y", 4));
    let w = g.variable("w", [x, y], F32, Initializer::ONES);
    let noise = random_normal(g, [y, x], 0.0, 1.0, F32);
    let loss = (w.value().dropout(0.5) * noise).sum_all();
    let train = g.function("train", [], [noise, loss], Sgd::new(0.25).minimize(loss));
    (train, g.function("look", [], [noise], []))
}

#[test]
fn every_layout_trains_with_the_same_numbers() {
    let g = mesh_ops::graph();
    let (train, look) = noisy(&g);
    let mut first: Option<Vec<Vec<f64>>> = None;
    for mesh in MESHES {
        let mut session = session(&g, *mesh, 3);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let [looked] = session.call(&look, []).unwrap();
            let [again] = session.call(&look, []).unwrap();
            assert_eq!(looked, again, "a call that does not train changes nothing");
            let [noise, _] = session.call(&train, []).unwrap();
            assert_eq!(looked, noise, "functions share an operation's numbers");
            seen.push(numbers(&noise));
        }
        seen.push(numbers(&session.read("w").unwrap()));
        assert_ne!(seen[0], seen[1], "the step counts");
        assert_ne!(seen[1], seen[2]);
        assert_eq!(first.get_or_insert_with(|| seen.clone()), &seen, "{mesh:?}");
    }
}

/// How many calls are compared.
const CALLS: usize = 12;

/// A sampler and a dropout that draw by a counter, by a seed that is fed, by a constant, and by both
/// of the first two. The logits have a favourite, so a sampler that repeats itself shows.
fn samplers(g: &Graph) -> [Function<1, 2>; 4] {
    let (x, vocab) = (dim("x", 12), dim("vocab", 8));
    let logits = g.constant(ndarray::Array1::<f32>::range(0.0, 0.8, 0.1).into_dyn(), [vocab]);
    let each = logits.broadcast(&Shape::new([x, vocab]).unwrap());
    let seed = g.input("seed", [], I32);
    let calls = g.state("calls", [], I32, Initializer::ZEROS);
    let draw = || [sample_with_temperature(each, vocab, 1.0), g.fill(1.0, [x], F32).dropout(0.5)];
    let one = g.scalar(1.0, I32);
    let used = seed * g.scalar(0.0, I32);
    let by = |salts: &[Tensor<'_>]| {
        let _salts: Vec<_> = Vec::from_iter(salts.iter().map(|salt| g.salted(*salt)));
        draw()
    };
    let counted = by(&[calls.value()]);
    let fed = by(&[seed]);
    let fixed = by(&[g.scalar(3.0, I32)]);
    let both = by(&[calls.value(), seed]);
    [
        g.function("counted", [seed], [counted[0] + used, counted[1]], [calls.assign_add(one)]),
        g.function("fed", [seed], fed, []),
        g.function("fixed", [seed], [fixed[0] + used, fixed[1]], []),
        g.function("both", [seed], both, [calls.assign_add(one)]),
    ]
}

/// Tokens and kept elements of calls with the seeds 0, 1, 0, 1 and so on.
fn sampled(session: &mut Session, function: &Function<1, 2>, calls: usize) -> Vec<Vec<f64>> {
    let call = |call: usize| {
        let seed = ndarray::arr0((call % 2) as i32).into_dyn();
        let drawn = session.call(function, [seed.view().into()]).unwrap();
        drawn.iter().flat_map(numbers).collect()
    };
    (0..calls).map(call).collect()
}

fn different(draws: &[Vec<f64>]) -> usize {
    let mut draws: Vec<_> = draws.iter().map(|draw| format!("{draw:?}")).collect();
    draws.sort();
    draws.dedup();
    draws.len()
}

#[test]
fn what_does_not_train_draws_by_the_salt_it_was_given() {
    let g = mesh_ops::graph();
    let functions = samplers(&g);
    g.check().unwrap();
    let table = [("counted", CALLS), ("fed", 2), ("fixed", 1), ("both", CALLS)];
    let mut first: Option<Vec<Vec<Vec<f64>>>> = None;
    for &(mesh, layout) in MESHES {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let back_ends = [Session::threads(&module, 3), Session::reference(&module, 3)];
        for mut session in back_ends.map(Result::unwrap) {
            let draws = functions.each_ref().map(|f| sampled(&mut session, f, CALLS)).to_vec();
            for ((name, expected), draws) in table.iter().zip(&draws) {
                assert_eq!(different(draws), *expected, "{name} {mesh} {layout}");
                // The call's seed alone decides, whatever was called before.
                assert!(*name != "fed" || draws.iter().skip(2).eq(&draws[..CALLS - 2]));
            }
            assert_eq!(first.get_or_insert_with(|| draws.clone()), &draws, "{mesh} {layout}");
        }
    }
}

#[test]
fn a_counter_of_draws_is_saved_with_the_variables() {
    let g = mesh_ops::graph();
    let [counted, ..] = samplers(&g);
    let mut whole = session(&g, ("", ""), 3);
    let draws = sampled(&mut whole, &counted, CALLS);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("salted");
    let kept = mesh_core::session::checkpoint::Checkpoints::new(&folder);
    let mut begun = session(&g, ("d:2", "x:d"), 3);
    sampled(&mut begun, &counted, 4);
    let path = kept.save(4, &begun.snapshot().unwrap(), &Default::default()).unwrap();
    let checkpoint = mesh_core::session::checkpoint::Checkpoint::open(path).unwrap();
    let mut resumed = session(&g, ("d:2;m:2", "x:d;vocab:m"), 8);
    let all = mesh_core::session::checkpoint::Restore::all();
    resumed.restore(&checkpoint, &all).unwrap();
    assert_eq!(sampled(&mut resumed, &counted, CALLS - 4), draws[4..]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Salts hold in loops, where iterations differ still, in recomputations, and end with their value.
#[test]
fn salts_reach_where_operations_are_made() {
    let g = mesh_ops::graph();
    let (x, times) = (dim("x", 64), dim("times", 3));
    let seed = g.input("seed", [], I32);
    let ones = g.fill(1.0, [x], F32);
    let (looped, [again], dx) = {
        let _salt = g.salted(seed);
        let ([], [looped]) = g.scan(times, [], [], |[], []| ([], [ones.dropout(0.5)]));
        let again = g.recompute([ones], |[x]| [x.dropout(0.5)]);
        let dx = g.gradients(&[again[0].sum_all()], &[ones], None)[0].unwrap();
        (looped, again, dx)
    };
    assert_eq!(g.iteration_salts().len(), 1);
    assert_eq!(g.iteration_salts()[0].id(), g.step().id());
    let f = g.function("f", [seed], [looped, again, dx], []);
    let mut session = session(&g, ("d:2", "x:d"), 1);
    let mut call = |seed: i32| {
        let seed = ndarray::arr0(seed).into_dyn();
        session.call(&f, [seed.view().into()]).unwrap().map(|array| numbers(&array))
    };
    let [looped, again, dx] = call(1);
    let rows: Vec<_> = looped.chunks(64).map(<[f64]>::to_vec).collect();
    assert_eq!(different(&rows), 3);
    assert_eq!(again, dx);
    assert_eq!(call(1)[0], looped);
    assert_ne!(call(2)[0], looped);
}

#[test]
fn salts_are_checked() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    let other = mesh_ops::graph();
    for (salt, text) in [
        (x, "a salt is a scalar of i32, not f32[x:4]"),
        (g.scalar(1.0, F32), "a salt is a scalar of i32, not f32[]"),
    ] {
        let g = salt.graph();
        let _salt = g.salted(salt);
        assert!(x.dropout(0.5).is_poisoned());
        let report = g.check().unwrap_err().to_string();
        assert!(report.contains(text) && report.contains(file!()), "{report}");
    }
    let known = g.check().unwrap_err().issues.len();
    {
        // What is poisoned already is not reported again.
        let _salt = g.salted(x.poisoned());
        assert!(x.dropout(0.5).is_poisoned());
    }
    assert_eq!(g.check().unwrap_err().issues.len(), known);
    let stranger = other.scalar(1.0, I32);
    let report = {
        let _salt = other.salted(stranger);
        other.check()
    };
    report.unwrap();
}

#[test]
fn the_seed_decides() {
    let g = mesh_ops::graph();
    let (_, look) = noisy(&g);
    let draw = |seed| session(&g, ("", ""), seed).call(&look, []).unwrap();
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn the_gradient_drops_what_the_forward_pass_drops() {
    let g = mesh_ops::graph();
    let x = g.fill(1.0, [dim("x", 64)], F32);
    let y = x.dropout(0.75);
    let dx = g.gradients(&[y.sum_all()], &[x], None)[0].unwrap();
    let f = g.function("f", [], [y, dx], []);
    let [y, dx] = session(&g, ("d:2", "x:d"), 0).call(&f, []).unwrap();
    assert_eq!(y, dx);
    assert!(numbers(&y).iter().all(|&x| x == 0.0 || x == 4.0));
}

/// Within four standard errors of the mean of n variables of this deviation.
fn close(found: f64, wanted: f64, deviation: f64, n: usize) -> bool {
    (found - wanted).abs() < 4.0 * deviation / (n as f64).sqrt()
}

#[test]
fn numbers_are_spread_as_they_should() {
    let n = 40_000;
    let x = dim("x", n);
    let spread = |xs: &[f64]| (mean(xs), mean(&xs.iter().map(|x| x * x).collect::<Vec<_>>()));
    let (m, s) = spread(&drawn(|g| random_uniform(g, [x], -1.0, 1.0, F32), 0));
    assert!(close(m, 0.0, (1.0_f64 / 3.0).sqrt(), n) && close(s, 1.0 / 3.0, 0.3, n), "{m} {s}");
    let (m, s) = spread(&drawn(|g| random_normal(g, [x], 0.0, 1.0, F32), 0));
    assert!(close(m, 0.0, 1.0, n) && close(s, 1.0, 2.0_f64.sqrt(), n), "{m} {s}");
    let (m, s) = spread(&drawn(|g| random_truncated_normal(g, [x], 0.0, 1.0, F32), 0));
    assert!(close(m, 0.0, 0.88, n) && close(s, 0.773_741, 0.95, n), "{m} {s}");
    let (m, _) = spread(&drawn(|g| random_integer(g, [x], 0, 10), 0));
    assert!(close(m, 4.5, 8.25_f64.sqrt(), n), "{m}");
    let jittered = drawn(|g| multiplicative_jitter(g.fill(8.0, [x], F32), 0.25), 0);
    assert!(jittered.iter().all(|x| (6.0..10.0).contains(x)));
}

/// D32: noise in bf16 would keep 0.898 or 0.902 at a rate of 0.1, and a factor rounded to bf16
/// would be off by 0.2 %.
#[test]
fn dropout_keeps_what_its_rate_says() {
    let n = 250_000;
    let x = dim("x", n);
    for dtype in [F32, BF16] {
        for rate in [0.1, 0.5, 0.9] {
            let kept = drawn(|g| g.fill(1.0, [x], dtype).dropout(rate).cast(F32), 5);
            let share = kept.iter().filter(|x| **x != 0.0).count() as f64 / n as f64;
            assert!(close(share, 1.0 - rate, (rate * (1.0 - rate)).sqrt(), n), "{rate}: {share}");
            let factor = kept.iter().copied().fold(0.0, f64::max);
            let rounding = if dtype == F32 { 1e-6 } else { 2.0_f64.powi(-8) };
            assert!((factor * (1.0 - rate) - 1.0).abs() < rounding, "{rate}: {factor}");
        }
    }
}

#[test]
fn two_dropouts_are_independent() {
    let n = 40_000;
    let g = mesh_ops::graph();
    let ones = g.fill(1.0, [dim("x", n)], F32);
    let inner = {
        let _scope = g.scope("layer");
        ones.dropout(0.5)
    };
    let f = g.function("f", [], [ones.dropout(0.5), ones.dropout(0.5), inner], []);
    let all = session(&g, ("", ""), 0).call(&f, []).unwrap().map(|array| numbers(&array));
    for (i, j) in [(0, 1), (0, 2), (1, 2)] {
        let both = all[i].iter().zip(&all[j]).map(|(a, b)| (a - 1.0) * (b - 1.0));
        // Products of two independent signs.
        let correlation = mean(&both.collect::<Vec<_>>());
        assert!(close(correlation, 0.0, 1.0, n), "{i} and {j}: {correlation}");
    }
}

#[test]
fn neighbours_and_steps_are_independent() {
    let n = 40_000;
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", n)], F32, Initializer::ZEROS);
    let noise = random_uniform(&g, [dim("x", n)], -1.0, 1.0, F32);
    let f = g.function("f", [], [noise], [w.assign(noise)]);
    let mut session = session(&g, ("", ""), 0);
    let mut draw = || session.call(&f, []).unwrap().map(|array| numbers(&array)).concat();
    let (first, second) = (draw(), draw());
    let product =
        |a: &[f64], b: &[f64]| mean(&a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<_>>());
    assert!(close(product(&first, &second), 0.0, 1.0 / 3.0, n));
    assert!(close(product(&first, &first[1..]), 0.0, 1.0 / 3.0, n - 1));
}

#[test]
fn samples_follow_the_softmax() {
    let n = 40_000;
    let (x, vocab) = (dim("x", n), dim("vocab", 4));
    let logits = ndarray::arr1(&[0.0_f32, 1.0, 2.0, f32::NEG_INFINITY]);
    for temperature in [0.5, 1.0, 2.0] {
        let tokens = drawn(
            |g| {
                let logits = g.constant(logits.clone().into_dyn(), [vocab]);
                let each = logits.broadcast(&Shape::new([x, vocab]).unwrap());
                sample_with_temperature(each, vocab, temperature)
            },
            0,
        );
        let weight = |i: usize| (f64::from(logits[i]) / temperature).exp();
        let total: f64 = (0..4).map(weight).sum();
        for i in 0..4 {
            let share = tokens.iter().filter(|&&t| t == i as f64).count() as f64 / n as f64;
            let p = weight(i) / total;
            let deviation = (p * (1.0 - p)).sqrt();
            assert!(share == p || close(share, p, deviation, n), "{temperature}: {i} {share} {p}");
        }
    }
}

#[test]
fn randomness_costs_no_communication() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 12), dim("y", 4)], F32);
    g.function(
        "f",
        [x],
        [x.dropout_over(0.5, [dim("y", 4)]) + random_normal(&g, [dim("x", 12)], 0.0, 1.0, F32)],
        [],
    );
    let mesh: Mesh = "d:2;m:2".parse().unwrap();
    let module = g.lower(&mesh, &"x:d;y:m".parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    assert!(program.steps().iter().all(|step| step.axes().is_none()));
    let text = mesh_core::program::print(program, &mesh);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("generate")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("uniform(0, 1) key ") && lines[0].contains(" salt %"), "{text}");
    assert!(lines[0].contains("from [m*2] of [4]"), "{text}");
}

/// Generators that ignore the position of their slice, or the step, are found.
#[test]
fn wrong_positions_and_missing_salts_show() {
    let g = mesh_ops::graph();
    noisy(&g);
    let right = g.lower(&"d:2".parse().unwrap(), &"x:d".parse().unwrap()).unwrap();
    let run = |module: &Module| {
        let mut session = Session::threads(module, 3).unwrap();
        let mut noise = || numbers(&session.call_named("train", &[]).unwrap()[0].1);
        [noise(), noise()]
    };
    let want = run(&right);
    let spoiled = |spoil: fn(&mut Step)| {
        let wrong = changed(&right, |functions, _| {
            functions[0].block.steps.iter_mut().for_each(spoil);
        });
        run(&wrong.unwrap())
    };
    let shifted = spoiled(|step| {
        if let Form::Generate(form) = &mut step.form
            && let Generator::Normal { .. } = form.generator
        {
            form.begin.fill(Offset::default());
        }
    });
    assert_ne!(shifted[0], want[0]);
    let unsalted = spoiled(|step| {
        if let Form::Generate(_) = step.form {
            step.inputs.clear();
        }
    });
    assert_eq!(unsalted[0], unsalted[1]);
    assert_ne!(want[0], want[1]);
}

#[test]
fn what_is_refused() {
    type Build = for<'g> fn(&'g Graph, Tensor<'g>) -> Tensor<'g>;
    fn x() -> Dimension {
        dim("x", 4)
    }
    let table: [(Build, &str); 16] = [
        (|g, _| random_uniform(g, [x()], 2.0, 1.0, F32), "low < high is needed, not 2 and 1"),
        (
            |g, _| random_uniform(g, [x()], 0.0, f64::NAN, F32),
            "low < high is needed, not 0 and NaN",
        ),
        (|g, _| random_uniform(g, [x()], 0.5, 1.0, I32), "there are no random i32 from 0.5 to 1"),
        (|g, _| random_uniform(g, [x()], 0.0, 1.0, Bool), "there are no random bool from 0 to 1"),
        (|g, _| random_uniform(g, [dim("x", 0)], 0.0, 1.0, F32), "random_uniform"),
        (|g, _| random_integer(g, [x()], 3, 3), "low < high is needed, not 3 and 3"),
        (|g, _| random_normal(g, [x()], 0.0, 1.0, I32), "normal numbers are floats, not i32"),
        (|g, _| random_normal(g, [x()], 0.0, -1.0, F32), "stddev >= 0 are needed, not 0 and -1"),
        (|_, t| dropout(t, 1.0), "a rate is at least 0 and below 1, not 1"),
        (|_, t| dropout(t, f64::NAN), "a rate is at least 0 and below 1, not NaN"),
        (|_, t| dropout(t.cast(Bool), 0.5), "dropout needs numbers, not bool"),
        (|_, t| dropout_over(t, 0.5, [dim("y", 2)]), "has no dim y:2"),
        (|_, t| multiplicative_jitter(t, -0.5), "epsilon is at least 0, not -0.5"),
        (|_, t| multiplicative_jitter(t.cast(I32), 0.5), "needs floats, not i32"),
        (|_, t| sample_with_temperature(t, x(), -1.0), "a temperature is at least 0, not -1"),
        (|_, t| sample_with_temperature(t, dim("y", 2), 1.0), "has no dim y:2"),
    ];
    for (build, text) in table {
        let g = mesh_ops::graph();
        let t = g.input("t", [x()], F32);
        assert!(build(&g, t).is_poisoned(), "{text}");
        let report = g.check().unwrap_err().to_string();
        assert!(report.contains(text), "{report}");
        assert!(report.contains(file!()), "{report}");
    }
}

#[test]
fn what_needs_no_noise() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    assert_eq!(x.dropout(0.0).id(), x.id());
    assert_eq!(x.multiplicative_jitter(0.0).id(), x.id());
    assert_eq!(drawn(|g| random_uniform(g, [dim("x", 2)], 3.0, 3.0, F32), 0), [3.0; 2]);
    assert_eq!(drawn(|g| random_normal(g, [dim("x", 2)], 3.0, 0.0, F32), 0), [3.0; 2]);
    let w = g.variable("w", [dim("x", 2)], F32, Initializer::Uniform { low: 2.0, high: 2.0 });
    let f = g.function("f", [], [w.value()], []);
    let [value] = session(&g, ("", ""), 0).call(&f, []).unwrap();
    assert_eq!(numbers(&value), [2.0; 2]);
}
