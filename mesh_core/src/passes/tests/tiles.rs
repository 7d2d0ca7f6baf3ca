use super::*;
use crate::array::Array;
use crate::exec::{Machine, ThreadMachine};
use crate::names::{DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{Extents, Offset, Piece, Rounds, Scalar};
use ndarray::{Array2, Array3};
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
    let mut machine = ThreadMachine::new(&Mesh::single(), &[], vec![compiled], 0, &[]).unwrap();
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

const EXTENTS: [usize; 3] = [8, 12, 16];

/// Every form that may be in a tile; if `deep`, only those that can be cut along two dims at once.
fn all_forms(deep: bool) -> Program {
    let mesh = Mesh::single();
    let whole: Extents = EXTENTS.into_iter().collect();
    built(&mesh, |b| {
        let (x0, table) = (b.fed("x", &EXTENTS), b.fed("table", &[16, 5]));
        let piece = Piece {
            input: labelled(x0, &[0, 1, 2]),
            begin: [0, 0, 3].into_iter().map(Offset::fixed).collect(),
            at: smallvec![0, 0, 1],
            extents: smallvec![8, 12, 13],
        };
        let moved = b.assemble(vec![piece], Scalar::new(DType::F32, 7.0), whole.clone());
        let mixed = b.of(x(0) * x(1) + x(0), &[moved, x0]);
        let scanned = b.scan(ReduceKind::Sum, 2, true, true, mixed);
        let inputs = [labelled(scanned, &[0, 1, 2]), labelled(x0, &[0, 1, 2])];
        let sorted = b.sort(&inputs, 2, true, &whole);
        let rows = (x(0) * 100.0).cast(DType::I32).modulo(16.0);
        let inputs = vec![labelled(scanned, &[0, 1, 2])];
        let rows = b.map(inputs, whole.clone(), &rows, DType::I32).unwrap();
        let first = b.reduce(ReduceKind::Min, labelled(rows, &[0, 1, 2]), smallvec![8, 12]);
        let (table, first) = (labelled(table, &[3, 2]), labelled(first, &[0, 1]));
        let looked = b.gather(table, first, 3, Offset::default(), smallvec![8, 12, 5]);
        b.fetched("sorted", sorted[1]);
        b.fetched("looked", looked);
        if !deep {
            let (lhs, rhs) = (labelled(sorted[0], &[0, 1, 3]), labelled(sorted[1], &[0, 2, 3]));
            let square = b.contract(lhs, rhs, smallvec![8, 12, 12]);
            let flat = b.reshape(square, smallvec![8, 144]);
            let most = b.reduce(ReduceKind::Max, labelled(flat, &[0, 1]), smallvec![8]);
            // Of whole numbers, so sums over tiles are exact.
            let total = b.reduce(ReduceKind::Sum, labelled(looked, &[2, 0, 1]), smallvec![12, 5]);
            b.fetched("most", most);
            b.fetched("total", total);
        }
    })
}

fn run_forms(compiled: Compiled) -> Vec<Array> {
    let x = Array3::from_shape_fn(EXTENTS, |(i, j, k)| ((i * 31 + j * 7 + k) as f32).sin());
    let table = Array2::from_shape_fn((16, 5), |(i, j)| (i * 5 + j) as f32);
    let mut machine = ThreadMachine::new(&Mesh::single(), &[], vec![compiled], 0, &[]).unwrap();
    let slots = &machine.functions()[0].program.fetches;
    let mut outs: Vec<_> = slots.iter().map(|slot| Array::zeros(DType::F32, &slot.shape)).collect();
    machine.call(0, &[x.view().into(), table.view().into()], &mut outs, &mut []).unwrap();
    outs
}

#[test]
fn whatever_is_tiled_stays_what_it_is() {
    let mesh = Mesh::single();
    let shared = ["move", "map", "scan", "sort", "reduce", "gather"];
    let flat = [&shared[..], &["contract", "reshape"]].concat();
    type Run = fn(&mut Program, &Mesh);
    // Tiles of several positions of the first dim, of one, and of some of the second.
    let table: [(bool, Run, usize); 3] = [
        (false, |p, _| tile::run_within(p, tile::Limits { worth: 1, tile: 40_000 }), 2),
        (false, |p, _| tile::run_within(p, tile::Limits { worth: 1, tile: 8_000 }), 8),
        (true, |p, _| tile::run_within(p, tile::Limits { worth: 1, tile: 2_000 }), 24),
    ];
    for (deep, run, least) in table {
        let pass = Pass { name: "tiles", reason: "a test", run };
        let compiled = compile_with(&[pass], all_forms(deep), &mesh, &[]).unwrap();
        let found = loops(&compiled.program);
        let [rounds] = &found[..] else { panic!("{}", print(&compiled.program, &mesh)) };
        assert!(rounds.count >= least, "{} rounds", rounds.count);
        let forms: Vec<_> = rounds.body.steps.iter().map(|node| node.step.form()).collect();
        for form in if deep { &shared[..] } else { &flat } {
            assert!(forms.contains(form), "{form} is not in {forms:?}");
        }
        let whole = compile_with(&[], all_forms(deep), &mesh, &[]).unwrap();
        assert_eq!(run_forms(compiled), run_forms(whole), "{least} rounds or more");
    }
}
