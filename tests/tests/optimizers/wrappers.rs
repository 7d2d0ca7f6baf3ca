//! Optimizers around optimizers, and Prodigy, against optax's numbers: three variables of different shapes
//! at once, on one processor and under layouts; resumed; evaluated. See `tests/golden/optimizers/`.

use super::harness::LAYOUTS;
use mesh_core::session::checkpoint::{Checkpoints, Restore};
use mesh_ops::prelude::*;
use mesh_optimize::schedule::{WarmupStableDecay, linear_decay, linear_warmup, product};
use mesh_optimize::{
    Accumulate, Adam, AdamW, ByName, Ema, Lookahead, Momentum, Optimizer, Prodigy, Sam, Schedule,
    ScheduleFree, Sgd, SkipNotFinite, Units, adaptive_clip,
};
use ndarray::{ArrayD, IxDyn};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Sums in another order than optax's, through thirty steps.
const F64: f64 = 1e-11;
/// The same in f32, whose rounding is 6e-8.
const F32: f64 = 1e-6;
/// Weights begin between 1/4 and 2: one that comes close to 0 has the rounding of a larger one.
const SIZE: f64 = 1.0;
/// Layouts change the order of sums only.
const LAYOUT: f64 = 1e-10;

/// The number of examples that a gradient is a sum over; a quarter of a gradient is exact.
const BATCH: usize = 4;
/// The variables, in the order in which they are declared.
const NAMES: [&str; 3] = ["b", "w", "k"];

type Weights = BTreeMap<String, Vec<f64>>;

struct Case {
    name: &'static str,
    optimizer: fn() -> Box<dyn Optimizer>,
    /// Whether gradients are clipped adaptively before.
    clipped: bool,
}

const fn case(name: &'static str, optimizer: fn() -> Box<dyn Optimizer>) -> Case {
    Case { name, optimizer, clipped: false }
}

/// `linear_schedule(0, 0.02, 6)`.
fn warm() -> Schedule {
    product([0.02.into(), linear_warmup(6)])
}

const CASES: &[Case] = &[
    case("ema", || Box::new(Ema::new(Adam::new(0.02), 0.9))),
    case("ema_from_the_start", || {
        Box::new(Ema { debias: false, ..Ema::new(Adam::new(0.02), 0.9) })
    }),
    case("lookahead", || Box::new(Lookahead::new(Adam::new(0.02), 4, 0.5))),
    case("lookahead_reset", || {
        Box::new(Lookahead { reset: true, ..Lookahead::new(Momentum::new(0.02, 0.9), 4, 0.8) })
    }),
    case("schedule_free_sgd", || Box::new(ScheduleFree::new(Sgd::new(0.05), 0.05))),
    case("schedule_free_adamw", || {
        let adamw = AdamW { beta1: 0.0.into(), ..AdamW::new(warm()).weight_decay(0.1) };
        Box::new(ScheduleFree::new(adamw, warm()))
    }),
    case("schedule_free_options", || {
        let free = ScheduleFree::new(Sgd::new(0.05), linear_decay(0.05, 0.01, 20));
        Box::new(ScheduleFree { beta: 0.8, power: 1.0, ..free })
    }),
    case("prodigy", || Box::new(Prodigy::new(1.0))),
    case("prodigy_options", || {
        Box::new(Prodigy {
            beta1: 0.8.into(),
            beta2: 0.98.into(),
            beta3: Some(0.9.into()),
            epsilon: 1e-6.into(),
            d0: 1e-3,
            growth: 0.7.into(),
            weight_decay: 0.01.into(),
            safeguard_warmup: true,
            ..Prodigy::new(linear_decay(1.0, 0.2, 25))
        })
    }),
    case("skip", || Box::new(SkipNotFinite::new(Adam::new(linear_decay(0.05, 0.0, 40)), 5))),
    case("accumulate", || Box::new(Accumulate::new(Adam::new(linear_decay(0.05, 0.0, 9)), 4))),
    case("accumulate_sum", || {
        Box::new(Accumulate { mean: false, ..Accumulate::new(Momentum::new(0.02, 0.9), 3) })
    }),
    Case { clipped: true, ..case("adaptive_clip", || Box::new(Sgd::new(0.1))) },
];

fn golden() -> Value {
    let path = format!("{}/golden/optimizers/wrappers.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn weights(value: &Value) -> Weights {
    value.as_object().unwrap().iter().map(|(name, x)| (name.clone(), numbers(x))).collect()
}

fn dims(golden: &Value, name: &str) -> Vec<Dimension> {
    let shape = &golden["shapes"][name];
    let declared = ["stack", "rows", "cols"].into_iter();
    declared
        .filter_map(|dim_name| Some(dim(dim_name, shape.get(dim_name)?.as_u64()? as usize)))
        .collect()
}

/// The gradients of a step, counted from 1, of which some are not finite.
fn gradients(golden: &Value, step: usize, bad: bool) -> [Vec<f64>; 3] {
    let grads = &golden["grads"][step - 1];
    NAMES.map(|name| {
        let mut grad = numbers(&grads[name]);
        let kind = golden["bad"].get(step.to_string()).filter(|_| bad && name == "w");
        if let Some(kind) = kind {
            grad[golden["bad_element"].as_u64().unwrap() as usize] = match kind.as_str().unwrap() {
                "nan" => f64::NAN,
                "inf" => f64::INFINITY,
                _ => f64::NEG_INFINITY,
            };
        }
        grad
    })
}

/// A graph with a function that trains by gradients that are fed, and one that returns twice the weights that
/// evaluations use.
struct Training {
    graph: Graph,
    step: Function<3, 0>,
    evaluate: Function<0, 3>,
    dtype: DType,
    shapes: [Vec<usize>; 3],
}

impl Training {
    fn new(golden: &Value, optimizer: &dyn Optimizer, clipped: bool, dtype: DType) -> Self {
        let graph = mesh_ops::graph();
        let shapes = NAMES.map(|name| dims(golden, name));
        let (step, evaluate) = {
            let batch = dim("batch", BATCH);
            let variables: Vec<_> = NAMES
                .iter()
                .zip(&shapes)
                .map(|(name, dims)| graph.variable(name, dims.clone(), dtype, Initializer::ZEROS))
                .collect();
            let examples = |i: usize| {
                let dims = std::iter::once(batch).chain(shapes[i].clone());
                graph.input(&format!("grad_{}", NAMES[i]), dims, dtype)
            };
            let inputs = [examples(0), examples(1), examples(2)];
            let mut grads: Vec<_> =
                inputs.iter().zip(&variables).map(|(x, v)| (Some(x.sum([batch])), *v)).collect();
            if clipped {
                grads = adaptive_clip(&grads, 0.05, 1e-3, &Units::ByRank);
            }
            let step = graph.function("step", inputs, [], optimizer.apply_grads(&grads));
            let twice: Vec<_> = variables.iter().map(|v| v.value() * 2.0).collect();
            let seen = optimizer.for_evaluation(&twice);
            let evaluate = graph.function("evaluate", [], [seen[0], seen[1], seen[2]], []);
            (step, evaluate)
        };
        let shapes = shapes.map(|dims| dims.iter().map(|d| d.size).collect());
        Self { graph, step, evaluate, dtype, shapes }
    }

    fn session(&self, (mesh, layout): (&str, &str)) -> Session {
        let module = self.graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
        let module = module.unwrap_or_else(|report| panic!("{layout}: {report}"));
        let mut session = Session::threads(&module, 3).unwrap();
        session.set_replica_check(true).unwrap();
        session
    }

    fn start(&self, session: &mut Session, golden: &Value) {
        for (name, shape) in NAMES.iter().zip(&self.shapes) {
            let start = numbers(&golden["start"][name]);
            let start = ArrayD::from_shape_vec(IxDyn(shape), start).unwrap();
            match self.dtype {
                DType::F64 => session.write(name, &start).unwrap(),
                _ => session.write(name, &start.mapv(|x| x as f32)).unwrap(),
            }
        }
    }

    fn step(&self, session: &mut Session, grads: &[Vec<f64>; 3]) {
        let parts = |i: usize| {
            let part: Vec<_> = grads[i].iter().map(|x| x / BATCH as f64).collect();
            let shape: Vec<_> = std::iter::once(BATCH).chain(self.shapes[i].clone()).collect();
            ArrayD::from_shape_vec(IxDyn(&shape), part.repeat(BATCH)).unwrap()
        };
        let wide = [parts(0), parts(1), parts(2)];
        let [] = if self.dtype == DType::F64 {
            session.call(&self.step, wide.each_ref().map(|x| x.view().into())).unwrap()
        } else {
            let narrow = wide.map(|x| x.mapv(|x| x as f32));
            session.call(&self.step, narrow.each_ref().map(|x| x.view().into())).unwrap()
        };
    }

    /// The variables, and what evaluations use in their place.
    fn weights(&self, session: &mut Session) -> [Weights; 2] {
        let list = |x: ArrayD<f64>| x.into_iter().collect::<Vec<_>>();
        let own = NAMES.map(|name| (name.to_owned(), list(session.read(name).unwrap().to_f64())));
        let seen = session.call(&self.evaluate, []).unwrap();
        let seen =
            NAMES.iter().zip(seen).map(|(name, x)| ((*name).to_owned(), list(x.to_f64() / 2.0)));
        [own.into_iter().collect(), seen.collect()]
    }
}

#[track_caller]
fn close(got: &Weights, want: &Weights, tolerance: f64, what: &str) {
    assert!(got.keys().eq(want.keys()), "{what}");
    for (name, want) in want {
        assert_eq!(got[name].len(), want.len(), "{what}");
        for (got, want) in got[name].iter().zip(want) {
            let off = (got - want).abs();
            assert!(off <= tolerance * want.abs().max(SIZE), "{what}, {name}: {got} not {want}");
        }
    }
}

fn all_variables(session: &Session) -> BTreeMap<String, Vec<f64>> {
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    let read = |name: &String| session.read(name).unwrap().to_f64().into_iter().collect();
    names.iter().map(|name| (name.clone(), read(name))).collect()
}

#[test]
fn trajectories_are_optaxs() {
    let golden = golden();
    let kept: Vec<_> = numbers(&golden["kept"]).iter().map(|step| *step as usize).collect();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), CASES.len());
    for case in CASES {
        let want = cases.iter().find(|want| want["name"] == case.name).unwrap();
        let bad = want["bad"].as_bool().unwrap();
        for (dtype, tolerance) in [(DType::F64, F64), (DType::F32, F32)] {
            let training = Training::new(&golden, &*(case.optimizer)(), case.clipped, dtype);
            let mut session = training.session(("", ""));
            training.start(&mut session, &golden);
            let [own, seen] = training.weights(&mut session);
            assert_eq!(own, seen, "{}: before the first step", case.name);
            for step in 1..=*kept.last().unwrap() {
                training.step(&mut session, &gradients(&golden, step, bad));
                let Some(index) = kept.iter().position(|kept| *kept == step) else { continue };
                let what = format!("{} in {dtype}, step {step}", case.name);
                let [own, seen] = training.weights(&mut session);
                close(&own, &weights(&want["values"][index]), tolerance, &what);
                let evaluated = want["evaluated"].get(index).map_or(own, weights);
                close(&seen, &evaluated, tolerance, &format!("{what}, evaluated"));
            }
        }
    }
}

/// Steps enough for each wrapper to do all that it does.
const STEPS: usize = 9;

#[test]
fn layouts_change_nothing() {
    let golden = golden();
    for (number, case) in CASES.iter().enumerate() {
        let optimizer = (case.optimizer)();
        let training = Training::new(&golden, &*optimizer, case.clipped, DType::F64);
        let run = |layout| {
            let mut session = training.session(layout);
            training.start(&mut session, &golden);
            for step in 1..=STEPS {
                training.step(&mut session, &gradients(&golden, step, case.name == "skip"));
            }
            (training.weights(&mut session), all_variables(&session))
        };
        let want = run(("", ""));
        // Each under a third of the layouts, and all layouts among three cases.
        for &layout in LAYOUTS.iter().skip(1 + number % 3).step_by(3) {
            let got = run(layout);
            let what = format!("{} under {layout:?}", case.name);
            got.0.iter().zip(&want.0).for_each(|(got, want)| close(got, want, LAYOUT, &what));
            close(&got.1, &want.1, LAYOUT, &what);
        }
        for variable in training.graph.trainable_variables() {
            for slot in variable.slots() {
                let name = slot.name();
                let short = name.rsplit('/').next().unwrap();
                assert!(optimizer.slot_names().contains(&short), "{}: {name}", case.name);
                assert_eq!(optimizer.slot(variable, short).map(|found| found.name()), Some(name));
            }
        }
    }
}

/// A run that goes on from a checkpoint, which has the wrapper's state, goes on bit for bit; on another mesh
/// up to rounding.
#[test]
fn checkpoints_have_the_state() {
    let golden = golden();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrappers");
    let split = ("d:2", "batch:d;params/*:d;slots/*:d");
    for case in CASES {
        let training = Training::new(&golden, &*(case.optimizer)(), case.clipped, DType::F64);
        let go = |session: &mut Session, steps: std::ops::RangeInclusive<usize>| {
            for step in steps {
                training.step(session, &gradients(&golden, step, case.name == "skip"));
            }
        };
        let kept = Checkpoints::new(folder.join(case.name));
        let mut whole = training.session(split);
        training.start(&mut whole, &golden);
        go(&mut whole, 1..=5);
        kept.save(5, &whole.snapshot().unwrap(), &BTreeMap::default()).unwrap();
        go(&mut whole, 6..=STEPS);
        let want = all_variables(&whole);
        for layout in [split, ("", "")] {
            let mut resumed = training.session(layout);
            let checkpoint = kept.latest().unwrap().checkpoint.unwrap();
            resumed.restore(&checkpoint, &Restore::all()).unwrap();
            go(&mut resumed, 6..=STEPS);
            if layout == split {
                assert_eq!(all_variables(&resumed), want, "{}", case.name);
            } else {
                close(&all_variables(&resumed), &want, LAYOUT, case.name);
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The model of the golden file, trained by SAM: each weight's gradient is taken elsewhere.
#[test]
fn sam_is_optaxs() {
    let golden = golden();
    let want = &golden["sam"][0];
    let kept: Vec<_> = numbers(&golden["kept"]).iter().map(|step| *step as usize).collect();
    let g = mesh_ops::graph();
    let (batch, x, h) = (dim("batch", 8), dim("rows", 4), dim("cols", 8));
    let variable = |name, dims: &[Dimension]| {
        g.variable(name, dims.iter().copied(), DType::F64, Initializer::ZEROS)
    };
    let [first, bias, second] =
        [variable("first", &[x, h]), variable("bias", &[h]), variable("second", &[h])];
    let (input, wanted) = (g.input("x", [batch, x], DType::F64), g.input("y", [batch], DType::F64));
    let hidden = (input.einsum(&[first.value()], [batch, h]) + bias.value()).tanh();
    let loss = (hidden.einsum(&[second.value()], [batch]) - wanted).square().mean();
    let sam = Sam::new(Momentum::new(0.05, 0.9), 0.1);
    let train = g.function("train", [input, wanted], [loss], sam.minimize(loss));
    let shaped =
        |dims: &[usize], key: &Value| ArrayD::from_shape_vec(IxDyn(dims), numbers(key)).unwrap();
    let (x, y) = (shaped(&[8, 4], &want["x"]), shaped(&[8], &want["y"]));
    for (mesh, layout) in LAYOUTS.iter().filter(|(_, layout)| !layout.contains("stack")) {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        for (name, dims) in [("first", &[4, 8][..]), ("bias", &[8]), ("second", &[8])] {
            session.write(name, &shaped(dims, &want["start"][name])).unwrap();
        }
        for (step, expected) in numbers(&want["losses"]).iter().enumerate() {
            let [loss] = session.call(&train, [x.view().into(), y.view().into()]).unwrap();
            let loss = loss.item().unwrap();
            let what = format!("{layout}, step {}: {loss} not {expected}", step + 1);
            assert!((loss - expected).abs() <= F64 * expected.max(1.0), "{what}");
            if let Some(index) = kept.iter().position(|kept| *kept == step + 1) {
                let read = |name: &str| session.read(name).unwrap().to_f64().into_iter().collect();
                let got = ["first", "bias", "second"].map(|name| (name.to_owned(), read(name)));
                close(&got.into(), &weights(&want["values"][index]), F64, &what);
            }
        }
    }
}

/// After as many skipped calls in a row as are allowed, a gradient that is not finite is applied.
#[test]
fn skipping_ends() {
    let golden = golden();
    let optimizer = SkipNotFinite::new(Sgd::new(0.05), 2);
    let training = Training::new(&golden, &optimizer, false, DType::F32);
    let mut session = training.session(("d:2", "batch:d;slots/*:d"));
    training.start(&mut session, &golden);
    for (step, counts) in [(3, [0.0, 0.0]), (4, [1.0, 1.0]), (5, [2.0, 2.0]), (6, [3.0, 3.0])] {
        training.step(&mut session, &gradients(&golden, step, true));
        let [own, _] = training.weights(&mut session);
        let finite = own.values().flatten().all(|x| x.is_finite());
        assert_eq!(finite, step < 6, "step {step}");
        let found = ["b/not_finite_in_a_row", "b/not_finite_in_all"]
            .map(|name| session.read(name).unwrap().item().unwrap());
        assert_eq!(found, counts, "step {step}");
    }
}

/// Wrappers around wrappers, and mixtures: each does its part.
#[test]
fn wrappers_nest() {
    let golden = golden();
    let nested = || -> Box<dyn Optimizer> {
        let mixture =
            ByName::new(Adam::new(0.02)).with("^k$", Momentum::new(0.05, 0.9)).frozen("^b$");
        Box::new(Ema::new(SkipNotFinite::new(Accumulate::new(mixture, 2), 3), 0.5))
    };
    let training = Training::new(&golden, &*nested(), false, DType::F64);
    let mut session = training.session(("d:2;m:2", "batch:d;cols:m;slots/*:d"));
    training.start(&mut session, &golden);
    let [start, _] = training.weights(&mut session);
    let mut before = start.clone();
    for step in 1..=8 {
        training.step(&mut session, &gradients(&golden, step, true));
        let [own, seen] = training.weights(&mut session);
        assert_eq!(own["b"], start["b"]);
        assert_eq!(seen["b"], start["b"], "what is not trained is not averaged");
        // Steps 4 to 6 are skipped, so the second pair is of steps 3 and 7.
        let applied = step == 2 || step == 7;
        assert_eq!(own["w"] != before["w"], applied, "step {step}");
        assert_eq!(own["k"] != before["k"], applied, "step {step}");
        assert!(own["w"] != seen["w"] || step == 1, "step {step}");
        before = own;
    }
}

#[test]
fn impossible_options_are_errors() {
    let sgd = || Sgd::new(0.1);
    let table: Vec<(Box<dyn Optimizer>, &str)> = vec![
        (Box::new(Ema::new(sgd(), 1.0)), "ema: decay is 1; legal is a number from 0 to below 1"),
        (
            Box::new(Lookahead::new(sgd(), 0, 0.5)),
            "lookahead: period is 0; legal is a whole number from 1",
        ),
        (Box::new(Lookahead::new(sgd(), 5, 1.5)), "lookahead: slow_step is 1.5; legal"),
        (
            Box::new(ScheduleFree { beta: 0.0, ..ScheduleFree::new(sgd(), 0.1) }),
            "schedule_free: beta is 0; legal is a number above 0, to 1",
        ),
        (Box::new(ScheduleFree::new(sgd(), -1.0)), "rate -1"),
        (Box::new(Accumulate::new(sgd(), 0)), "accumulate: calls is 0; legal"),
        (Box::new(Sam::new(sgd(), f64::NAN)), "sam: rho is NaN; legal is a number from 0 on"),
        (
            Box::new(Prodigy { d0: 0.0, ..Prodigy::new(1.0) }),
            "prodigy: d0 is 0; legal is a number above 0",
        ),
        (
            Box::new(ByName::new(sgd()).with("*/kernel", sgd())),
            "it is searched for in the name: `/kernel$` is found where a glob would be `*/kernel`",
        ),
    ];
    for (optimizer, message) in table {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("x", 4)], DType::F32);
        let loss = x.dense(dim("h", 3), "one").dense(dim("y", 2), "two").mean();
        g.function("f", [x], [], optimizer.minimize(loss));
        let report = g.check().unwrap_err().to_string();
        assert!(report.contains(message), "no {message:?} in {report}");
        assert!(report.contains("tests/tests/optimizers/wrappers.rs:"), "{report}");
    }
    let rate: Schedule = WarmupStableDecay::new(0.1, 10, 20, 11).into();
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 4)], DType::F32, Initializer::ONES);
    adaptive_clip(&[(Some(w.value()), w)], 0.0, 1e-3, &Units::ByRank);
    g.function("f", [], [], Sgd::new(rate).minimize(w.value().sum_all()));
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("adaptive_clip: clipping is 0; legal is a number above 0"), "{report}");
    assert!(
        report.contains("10 steps of warm-up and 11 of decay are more than all 20"),
        "{report}"
    );
}

/// What wrappers and schedules stand on: a step that is chosen, state that is shared by name.
#[test]
fn steps_and_shared_state_are_checked() {
    let g = mesh_ops::graph();
    let state = || g.shared_state("state", [], DType::F64, Initializer::ZEROS);
    let first = {
        let _scope = g.scope("a");
        state()
    };
    assert_eq!((first.id(), first.name().as_str()), (state().id(), "state"));
    let applied = g.shared_state("applied", [], DType::I32, Initializer::ZEROS);
    let step = {
        let _step = g.stepped(applied.value());
        g.step()
    };
    assert_eq!(step.id(), applied.value().id());
    assert_ne!(g.step().id(), step.id());
    g.check().unwrap();

    g.shared_state("state", [], DType::F32, Initializer::ZEROS);
    let w = g.variable("w", [dim("x", 4)], DType::F32, Initializer::ONES);
    g.shared_state("w", w.shape(), DType::F32, Initializer::ONES);
    let _step = g.stepped(w.value());
    let report = g.check().unwrap_err().to_string();
    for message in [
        "state: this state is f64[], from",
        "w: a variable of this name exists already",
        "stepped: a step is a scalar of i32, not f32[x:4]",
    ] {
        assert!(report.contains(message), "no {message:?} in {report}");
    }
}
