//! Several functions that train the same variables with one optimizer.

use super::harness::LAYOUTS;
use mesh_core::session::checkpoint::{Checkpoints, Restore};
use mesh_ops::prelude::*;
use mesh_optimize::{
    Adafactor, AdamWeightDecay, ByName, Delayed, Momentum, Optimizer, Sgd, clip_by_global_norm,
    compute_gradients, microbatches,
};
use ndarray::{Array2, ArrayD};
use std::collections::BTreeMap;
use std::path::Path;

const ROWS: usize = 4;
const COLS: usize = 8;
/// The batch sizes of the two functions.
const BATCHES: [usize; 2] = [4, 8];
/// Which of them is called in each turn.
const TURNS: [usize; 6] = [0, 1, 1, 0, 1, 0];
/// The bound of the global norm where gradients are clipped; the gradients here are larger.
const NORM: f64 = 0.5;

/// Gradients of f32 summed in another order than in f64, through six steps of optimizers that divide
/// by roots of second moments.
const TOLERANCE: f64 = 1e-4;

/// What is done to the gradients.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Whole,
    /// Those of the larger batch are made in two parts.
    Microbatches,
    Clipped,
}

fn weight(g: &Graph) -> Variable<'_> {
    let start = Initializer::TruncatedNormal { mean: 0.0, stddev: 0.5 };
    g.variable("w", [dim("rows", ROWS), dim("cols", COLS)], F32, start)
}

/// A regression with a training function for each batch size.
fn several(g: &Graph, optimizer: &dyn Optimizer, way: Way) -> [Function<2, 1>; 2] {
    let w = weight(g);
    BATCHES.map(|size| {
        let batch = dim("batch", size);
        let x = g.input(&format!("x{size}"), [batch, dim("rows", ROWS)], F32);
        let y = g.input(&format!("y{size}"), [batch, dim("cols", COLS)], F32);
        let (loss, mut grads) = if way == Way::Microbatches && size == BATCHES[1] {
            microbatches(g, batch, 2, &[x, y], |part| {
                (part[0].einsum(&[w.value()], part[1].shape()) - part[1]).square().mean()
            })
        } else {
            let loss = (x.einsum(&[w.value()], y.shape()) - y).square().mean();
            (loss, compute_gradients(loss, &[]))
        };
        if way == Way::Clipped {
            grads = clip_by_global_norm(&grads, NORM).0;
        }
        g.function(&format!("train{size}"), [x, y], [loss], optimizer.apply_grads(&grads))
    })
}

/// The batch of a turn.
fn batch(turn: usize) -> [Array2<f32>; 2] {
    let size = BATCHES[TURNS[turn]];
    let number = |i: usize, j: usize, width: usize| ((turn * 1000 + i * width + j) as f32).sin();
    [
        Array2::from_shape_fn((size, ROWS), |(i, j)| number(i, j, ROWS) * 2.0),
        Array2::from_shape_fn((size, COLS), |(i, j)| number(i, j, COLS).cos() * 3.0),
    ]
}

/// The gradient of the mean square error, from its formula, in f64.
fn gradient(w: &ArrayD<f64>, turn: usize, way: Way) -> ArrayD<f64> {
    let [x, y] = batch(turn).map(|array| array.mapv(f64::from));
    let w = w.view().into_dimensionality::<ndarray::Ix2>().unwrap();
    let error = x.dot(&w) - &y;
    let grad = x.t().dot(&error) * (2.0 / error.len() as f64);
    let norm = grad.iter().map(|g| g * g).sum::<f64>().sqrt();
    assert!(norm > NORM, "clipping has an effect: {norm}");
    let factor = if way == Way::Clipped { NORM / norm } else { 1.0 };
    (grad * factor).into_dyn()
}

fn session(g: &Graph, (mesh, layout): (&str, &str)) -> Session {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
    let module = module.unwrap_or_else(|report| panic!("{layout}: {report}"));
    let mut session = Session::threads(&module, 5).unwrap();
    session.set_replica_check(true).unwrap();
    session
}

fn variables(session: &Session) -> BTreeMap<String, ArrayD<f64>> {
    let names = session.variables().map(str::to_owned).collect::<Vec<_>>();
    names.into_iter().map(|name| (name.clone(), session.read(&name).unwrap().to_f64())).collect()
}

/// One function that is fed the gradients: the variables after each turn.
fn expected(optimizer: &dyn Optimizer, way: Way) -> Vec<BTreeMap<String, ArrayD<f64>>> {
    let g = mesh_ops::graph();
    let w = weight(&g);
    let grad = g.input("grad", w.shape(), F32);
    let train = g.function("train", [grad], [], optimizer.apply_grads(&[(Some(grad), w)]));
    let mut session = session(&g, ("", ""));
    let turn = |turn| {
        let grad = gradient(&session.read("w").unwrap().to_f64(), turn, way);
        let [] = session.call(&train, [grad.mapv(|g| g as f32).view().into()]).unwrap();
        variables(&session)
    };
    (0..TURNS.len()).map(turn).collect()
}

fn take_turn(session: &mut Session, functions: &[Function<2, 1>; 2], turn: usize) {
    let [x, y] = batch(turn);
    let feeds = [x.view().into_dyn().into(), y.view().into_dyn().into()];
    let [loss] = session.call(&functions[TURNS[turn]], feeds).unwrap();
    assert!(loss.item().is_some_and(f64::is_finite));
}

fn optimizers() -> Vec<Box<dyn Optimizer>> {
    vec![
        Box::new(Momentum::new(0.05, 0.9)),
        Box::new(AdamWeightDecay::standard(0.02)),
        Box::new(Adafactor { beta1: 0.5.into(), ..Adafactor::tensor2tensor() }),
        Box::new(ByName::new(Sgd::new(1.0)).with("^w$", Momentum::new(0.05, 0.5))),
    ]
}

/// Functions of two batch sizes, called in turns, are one training: steps, slots and all.
#[test]
fn functions_take_turns() {
    for (number, optimizer) in optimizers().iter().enumerate() {
        for way in [Way::Whole, Way::Microbatches, Way::Clipped] {
            let g = mesh_ops::graph();
            let functions = several(&g, &**optimizer, way);
            g.check().unwrap();
            // Each optimizer is tried in each way under some of the layouts, and under all in one way.
            let every = if way == Way::Whole { 1 } else { 5 };
            let want = expected(&**optimizer, way);
            for &layout in LAYOUTS.iter().skip(number % every).step_by(every) {
                let mut session = session(&g, layout);
                for (turn, want) in want.iter().enumerate() {
                    take_turn(&mut session, &functions, turn);
                    let found = variables(&session);
                    assert!(found.keys().eq(want.keys()), "{:?}", found.keys());
                    assert_eq!(found["step"], ndarray::arr0((turn + 1) as f64).into_dyn());
                    for (name, found) in found {
                        let want = &want[&name];
                        let most = want.iter().fold(0.1, |most: f64, x| most.max(x.abs()));
                        let off =
                            (&found - want).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                        let what = format!("{number} {way:?} {layout:?} turn {turn}: {name}");
                        assert!(off <= TOLERANCE * most, "{what}: {found} not {want}");
                    }
                }
            }
        }
    }
}

/// A checkpoint between two turns has the slots once, and the turns go on from it on another mesh.
#[test]
fn turns_go_on_from_a_checkpoint() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared-slots");
    // How late a gradient is each function draws for itself.
    let late: Box<dyn Optimizer> = Box::new(Delayed::new(AdamWeightDecay::new(0.02), 1));
    for (number, optimizer) in optimizers().into_iter().chain([late]).enumerate() {
        let g = mesh_ops::graph();
        let functions = several(&g, &*optimizer, Way::Whole);
        let kept = Checkpoints::new(folder.join(number.to_string()));
        let split = ("d:2", "batch:d;params/*:d;slots/*:d");
        let mut whole = session(&g, split);
        for turn in 0..TURNS.len() {
            take_turn(&mut whole, &functions, turn);
            if turn == 2 {
                kept.save(3, &whole.snapshot().unwrap(), &Default::default()).unwrap();
            }
        }
        let mut resumed = session(&g, split);
        let checkpoint = kept.latest().unwrap().checkpoint.unwrap();
        let restored = resumed.restore(&checkpoint, &Restore::all()).unwrap();
        assert_eq!(restored.loaded.len(), variables(&whole).len());
        (3..TURNS.len()).for_each(|turn| take_turn(&mut resumed, &functions, turn));
        assert_eq!(variables(&resumed), variables(&whole), "{number}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Two optimizers that ask for one slot as different things: one error for all of their slots.
#[test]
fn slots_that_do_not_fit_are_one_error() {
    let g = mesh_ops::graph();
    let vars = ["a", "b", "c"].map(|name| g.variable(name, [dim("x", 4)], F32, Initializer::ONES));
    let loss = vars.iter().map(|v| v.value().square().sum_all()).reduce(|a, b| a + b).unwrap();
    g.function("first", [], [loss], Delayed::new(Sgd::new(0.1), 1).minimize(loss));
    let (one, other) = (line!() - 1, line!() + 1);
    g.function("second", [], [loss], Delayed::new(Sgd::new(0.1), 3).minimize(loss));
    g.function("third", [], [loss], Delayed::new(Sgd::new(0.1), 1).minimize(loss));
    let report = g.check().unwrap_err();
    assert_eq!(report.issues.len(), 1, "{report}");
    let text = report.to_string();
    let lines = [one, other].map(|line| format!("shared.rs:{line}"));
    for part in ["a/delayed_gradients", "f32[staleness:2, x:4]", "f32[staleness:4, x:4]", "options"]
        .into_iter()
        .chain(lines.iter().map(String::as_str))
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    // Initial values count, too, and a variable that is no slot has its name for itself.
    let g = mesh_ops::graph();
    let v = g.variable("v", [dim("x", 4)], F32, Initializer::ONES);
    v.slot("m", v.shape(), F32, Initializer::ZEROS);
    v.slot("m", v.shape(), F32, Initializer::ONES);
    g.state("v/n", [], F32, Initializer::ZEROS);
    v.slot("n", [], F32, Initializer::ZEROS);
    let text = g.check().unwrap_err().to_string();
    assert!(text.contains("Constant(0.0)") && text.contains("Constant(1.0)"), "{text}");
    assert!(text.contains("v/n: a variable of this name exists already"), "{text}");
}
