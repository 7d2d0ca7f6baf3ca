use super::*;
use crate::array::Array;
use crate::exec::Machine;
use crate::names::{DType, ReduceKind};
use crate::program::Rounds;
use crate::program::sketch::labelled;
use ndarray::Array2;
use smallvec::smallvec;

const ROWS: usize = 96;
const COLUMNS: usize = 1024;

/// Softmax of rows, and the sum over rows of its logarithm times something.
fn softmax() -> Program {
    let mesh = Mesh::single();
    built(&mesh, |b| {
        let scores = b.fed("scores", &[ROWS, COLUMNS]);
        let extents = || smallvec![ROWS, COLUMNS];
        let rows = |value| labelled(value, &[0]);
        let max = b.reduce(ReduceKind::Max, b.whole(scores), smallvec![ROWS]);
        let inputs = vec![b.whole(scores), rows(max)];
        let exp = b.map(inputs, extents(), &(x(0) - x(1)).exp(), DType::F32).unwrap();
        let sum = b.reduce(ReduceKind::Sum, b.whole(exp), smallvec![ROWS]);
        let inputs = vec![b.whole(exp), rows(sum)];
        let softmax = b.map(inputs, extents(), &(x(0) / x(1)), DType::F32).unwrap();
        let log = b.of(x(0).log() * x(0), &[softmax]);
        let total = b.reduce(ReduceKind::Sum, labelled(log, &[1, 0]), smallvec![COLUMNS]);
        b.fetched("softmax", softmax);
        b.fetched("total", total);
    })
}

fn loops(program: &Program) -> Vec<&Rounds> {
    let steps = program.steps.iter();
    let rounds = steps.filter_map(|node| match &node.step {
        Step::Loop(rounds) => Some(&**rounds),
        _ => None,
    });
    rounds.collect()
}

fn run(compiled: Compiled) -> Vec<Vec<f64>> {
    let scores = Array2::from_shape_fn((ROWS, COLUMNS), |(i, j)| ((i * 7 + j) as f32).sin() * 4.0);
    let mut machine = Machine::new(&Mesh::single(), &[], vec![compiled], 0, &[]).unwrap();
    let slots = &machine.functions()[0].program.fetches;
    let mut outs: Vec<_> = slots.iter().map(|slot| Array::zeros(DType::F32, &slot.shape)).collect();
    machine.call(0, &[scores.view().into()], &mut outs, &mut []).unwrap();
    outs.iter().map(|out| out.to_f64().into_iter().collect()).collect()
}

#[test]
fn a_softmax_is_done_tile_by_tile() {
    let mesh = Mesh::single();
    let tiled = compile_with(passes(), softmax(), &mesh, &[]).unwrap();
    let whole = compile_with(&[], softmax(), &mesh, &[]).unwrap();
    let found = loops(&tiled.program);
    let [rounds] = &found[..] else { panic!("{}", print(&tiled.program, &mesh)) };
    assert_eq!(rounds.count, 4);
    assert_eq!(rounds.body.value(rounds.body.feeds[0].value).extents[..], [24, COLUMNS]);
    // Slices and stacks are where they are whole: no place in the arena, no copy.
    let body = &tiled.plan.bodies[0];
    assert_eq!(body.places[rounds.body.feeds[0].value.index()], Place::Fed(0));
    assert!(body.places.contains(&Place::Stacked(0)));
    let (tiled, whole) = (run(tiled), run(whole));
    assert_eq!(tiled[0], whole[0]);
    for (tiled, whole) in tiled[1].iter().zip(&whole[1]) {
        assert!((tiled - whole).abs() <= 1e-5 * whole.abs());
    }
}

#[test]
fn products_along_rows_are_not_cut() {
    let mesh = Mesh::single();
    let program = built(&mesh, |b| {
        let (x0, w) = (b.fed("x", &[512, 512]), b.fed("w", &[512, 512]));
        let product = b.contract(labelled(x0, &[0, 2]), labelled(w, &[2, 1]), smallvec![512, 512]);
        let result = b.of(x(0).tanh(), &[product]);
        b.fetched("result", result);
    });
    let compiled = compile_with(passes(), program, &mesh, &[]).unwrap();
    assert!(loops(&compiled.program).is_empty());
}
