//! The recorded times of steps are complete and in order.

use mesh_core::lower::Target;
use mesh_core::program::{Block, Form};
use mesh_core::session::{CallTimes, Recorded, StepTimes, Threads};
use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sgd};
use std::time::Instant;

const ITERATIONS: usize = 3;

/// A training step with a loop over layers, and its session on a mesh.
fn session(mesh: &str, layout: &str) -> (Function<1, 1>, Session) {
    let g = mesh_ops::graph();
    let (batch, width, layers) = (dim("batch", 8), dim("width", 16), dim("layers", ITERATIONS));
    let x = g.input("x", [batch, width], F32);
    let w = g.variable("w", [layers, width], F32, Initializer::ONES).value();
    let ([y], []) = g.scan(layers, [x], [w], |[h], [w]| ([(h * w).tanh()], []));
    let loss = y.dense(dim("out", 16), "out").square().mean();
    let train = g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    (train, Session::threads(&module, 0).unwrap())
}

fn call(session: &mut Session, train: &Function<1, 1>) {
    let x = ndarray::Array2::from_elem((8, 16), 0.5f32);
    session.call(train, [x.view().into()]).unwrap();
}

/// The steps ran in order, `runs` times each; those of a body ran within their loop.
fn check_steps(block: &Block, times: &[StepTimes], within: [u64; 2], runs: u64) {
    assert_eq!(times.len(), block.steps.len());
    let ran = |times: &&StepTimes| times.runs > 0;
    let mut last = within[0];
    for (step, times) in block.steps.iter().zip(times).filter(|(_, times)| ran(times)) {
        assert_eq!(times.runs, runs, "{}", step.form.name());
        assert!(times.span.begin >= last && times.span.end <= within[1]);
        assert!(times.nanoseconds <= times.span.nanoseconds());
        // In a body the first run of a step begins after the first run of the step before.
        last = if runs == 1 { times.span.end } else { times.span.begin };
        match &step.form {
            Form::Loop(form) => {
                let within = [times.span.begin, times.span.end];
                check_steps(&form.body, &times.body, within, ITERATIONS as u64);
                assert!(times.body.iter().any(|times| times.runs > 0));
                let inside: u64 = times.body.iter().map(|times| times.nanoseconds).sum();
                assert!(inside <= times.nanoseconds);
            }
            _ => assert!(times.body.is_empty()),
        }
    }
}

#[test]
fn every_step_is_timed_on_every_processor() {
    for (mesh, layout) in [("", ""), ("a:2", "batch:a"), ("a:2;b:2", "batch:a;width:b")] {
        let (train, mut session) = session(mesh, layout);
        call(&mut session, &train);
        assert!(session.recorded(0).is_none());
        session.record(true).unwrap();
        assert!(session.recorded(0).is_none(), "nothing has been called since");
        for _ in 0..3 {
            let before = Instant::now();
            call(&mut session, &train);
            let wall = before.elapsed().as_nanos() as u64;
            let processors = mesh.parse::<Mesh>().unwrap().processors();
            for processor in 0..processors {
                let Recorded { program, times } = session.recorded(processor).unwrap();
                let CallTimes { started, feeds, steps, fetches } = times;
                assert_eq!(program.name, "train");
                assert!(started >= before && feeds.begin <= feeds.end && fetches.end <= wall);
                check_steps(&program.block, &steps, [feeds.end, fetches.begin], 1);
                for (step, times) in program.steps().iter().zip(&steps) {
                    let works =
                        matches!(step.form, Form::Contract(_) | Form::Loop(_) | Form::AllReduce(_));
                    assert!(!works || times.runs == 1, "{} did not run", step.form.name());
                }
            }
            assert!(session.recorded(processors).is_none());
        }
        session.record(false).unwrap();
        assert!(session.recorded(0).is_none());
        call(&mut session, &train);
        assert!(session.recorded(0).is_none());
    }
}

#[test]
fn steps_of_another_owner_never_run() {
    let (train, mut session) = session("a:2", "batch:a;params/*:a@1;slots/*:a@1");
    session.record(true).unwrap();
    call(&mut session, &train);
    let mut owned = 0;
    for processor in 0..2 {
        let Recorded { program, times } = session.recorded(processor).unwrap();
        for (step, times) in program.steps().iter().zip(&times.steps) {
            if let [(_, owner)] = step.owners[..] {
                owned += usize::from(times.runs > 0);
                assert!(times.runs == 0 || owner == processor);
            }
        }
    }
    assert!(owned > 0, "somebody updates");
}

/// Bias and activation of a product larger than the caches are computed within the product; with
/// the numerics check on, after it. The result is the same.
#[test]
fn a_map_of_a_large_result_is_done_within_the_product() {
    let g = mesh_ops::graph();
    let (rows, width, out) = (dim("rows", 1000), dim("width", 40), dim("out", 4300));
    let x = g.input("x", [rows, width], F32);
    let f = g.function("f", [x], [x.dense(out, "dense").relu()], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"rows:a".parse().unwrap()).unwrap();
    let x = ndarray::Array2::from_shape_fn((1000, 40), |(i, j)| ((i * 7 + j * 3) as f32).sin());
    let call = |target: Target| {
        let threads = Threads::default().target(target);
        let mut session = Session::threads_with(&module, 0, &threads).unwrap();
        session.record(true).unwrap();
        let [result] = session.call(&f, [x.view().into()]).unwrap();
        let Recorded { program, times } = session.recorded(1).unwrap();
        let steps = program.steps().iter().zip(&times.steps);
        let runs = |form: &str| -> u64 {
            let of_form = steps.clone().filter(|(step, _)| step.form.name() == form);
            of_form.map(|(_, times)| times.runs).sum()
        };
        (result.to_f64(), runs("contract"), runs("map"))
    };
    let (within, contracts, maps) = call(Target::host());
    assert_eq!((contracts, maps), (1, 0));
    let (behind, contracts, maps) = call(Target::host().check_numerics());
    assert_eq!((contracts, maps), (1, 1));
    assert!(within == behind && within.iter().any(|&x| x > 0.0));
    assert!(within.iter().all(|&x| x >= 0.0));
}
