use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{Extents, Offset, Piece, Scalar};
use ndarray::{Array2, Array3, Array4};
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

fn run(compiled: Compiled) -> Vec<Vec<f64>> {
    let scores = Array2::from_shape_fn((ROWS, COLUMNS), |(i, j)| ((i * 7 + j) as f32).sin() * 4.0);
    doubles(super::run(&Mesh::single(), compiled, &[scores.view().into()]))
}

#[test]
fn a_softmax_is_done_tile_by_tile() {
    let mesh = Mesh::single();
    let tiled = compiled(softmax(), &mesh, &[], &all());
    let whole = compiled(softmax(), &mesh, &[], &[]);
    let found = loops(&tiled.program);
    let [tiles] = found[..] else { panic!("{}", print(&tiled.program, &mesh)) };
    assert_eq!(tiles.count, 3);
    assert_eq!(tiles.body.value(tiles.body.params[0]).extents[..], [32, COLUMNS]);
    // Slices and stacks are where they are whole: no place in the arena, no copy.
    let body = &tiled.plan.bodies[0];
    assert_eq!(body.places[tiles.body.params[0].index()], Place::Param(0));
    assert!(body.places.contains(&Place::Stacked(0)));
    let (tiled, whole) = (run(tiled), run(whole));
    assert_eq!(tiled[0], whole[0]);
    for (tiled, whole) in tiled[1].iter().zip(&whole[1]) {
        assert!((tiled - whole).abs() <= 1e-5 * whole.abs());
    }
}

/// A loop makes a variable's new value where the old one lies, unless that is read behind it.
#[test]
fn what_is_written_is_made_in_tiles_where_the_old_value_lies() {
    let mesh = Mesh::single();
    let state = [variable(&[ROWS, COLUMNS])];
    for (is_read, again) in [(false, false), (true, false), (true, true)] {
        let program = built(&mesh, |b| {
            let scores = b.fed("scores", &[ROWS, COLUMNS]);
            let old = is_read.then(|| b.old(0, &[ROWS, COLUMNS]));
            let max = b.reduce(ReduceKind::Max, b.whole(scores), smallvec![ROWS]);
            let inputs = vec![b.whole(old.unwrap_or(scores)), labelled(max, &[0]), b.whole(scores)];
            let extents = smallvec![ROWS, COLUMNS];
            let new = b.map(inputs, extents, &(x(0) - x(1) * x(2)), DType::F32).unwrap();
            let square = b.of(x(0) * x(0), &[new]);
            let sum = b.reduce(ReduceKind::Sum, b.whole(square), smallvec![ROWS]);
            b.fetched("sum", sum);
            if let Some(old) = old.filter(|_| again) {
                let columns = b.reduce(ReduceKind::Max, labelled(old, &[1, 0]), smallvec![COLUMNS]);
                b.fetched("columns", columns);
            }
            b.write(var(0), new);
        });
        let tiled = compiled(program, &mesh, &state, &all());
        let steps = tiled.program.block.loops().flat_map(|(step, _)| &step.outs);
        let mut places = steps.map(|out| tiled.plan.places[out.index()]);
        let in_tiles = places.any(|place| matches!(place, Place::Variable(_)));
        assert_eq!(in_tiles, !again, "{}", print(&tiled.program, &mesh));
    }
}

const IMAGES: [usize; 4] = [3, 32, 40, 16];

/// Images by how far they are from their means, with the mean square of that: images larger than a tile.
fn deviations() -> Program {
    let mesh = Mesh::single();
    let [images, height, width, channels] = IMAGES;
    built(&mesh, |b| {
        let x0 = b.fed("x", &IMAGES);
        let extents = || smallvec![images, height, width, channels];
        let of_image = |value| labelled(value, &[0, 2, 3, 1]);
        let of_channels = |value| labelled(value, &[0, 3]);
        let sum = b.reduce(ReduceKind::Sum, of_image(x0), smallvec![images, channels]);
        let inputs = vec![b.whole(x0), of_channels(sum)];
        let from_mean = x(0) - x(1) * (1.0 / (height * width) as f64);
        let from_mean = b.map(inputs, extents(), &from_mean, DType::F32).unwrap();
        let square = b.of(x(0) * x(0), &[from_mean]);
        let squares = b.reduce(ReduceKind::Sum, of_image(square), smallvec![images, channels]);
        let inputs = vec![b.whole(from_mean), of_channels(squares)];
        let scaled = b.map(inputs, extents(), &(x(0) * x(1).rsqrt()), DType::F32).unwrap();
        b.fetched("scaled", scaled);
    })
}

#[test]
fn a_fold_over_the_inner_of_the_dims_of_a_tile_is_a_fold_of_each_outer_one() {
    let mesh = Mesh::single();
    let run = |passes: &dyn Fn(&mut Program)| {
        let mut program = deviations();
        passes(&mut program);
        let compiled = compiled(program, &mesh, &[], &[]);
        let x = Array4::from_shape_fn(IMAGES, |(n, i, j, k)| {
            ((n * 31 + i * 7 + j * 5 + k) as f32).sin() + n as f32
        });
        let found: Vec<_> = loops(&compiled.program).iter().map(|found| found.count).collect();
        let text = print(&compiled.program, &mesh);
        (found, text, doubles(super::run(&mesh, compiled, &[x.view().into()])).remove(0))
    };
    let limits = tile::Limits { worth: 1, tile: 16 << 10, again: 16 << 10 };
    let (tiled, text, found) = run(&|program| {
        fuse::run(&mut program.block, &Machine::host());
        tile::run_within(&mut program.block, limits);
    });
    let (whole, _, expected) = run(&|_| {});
    // Two rows of an image and of its squares are 10 KiB, four more than a tile.
    assert_eq!((whole, tiled), (vec![], vec![3 * 16]), "{text}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{found} {expected}");
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
    let compiled = compiled(program, &mesh, &[], &all());
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
            begin: [0, 0, 3].into_iter().map(Offset::fixed).collect(),
            at: smallvec![0, 0, 1],
            extents: smallvec![8, 12, 13],
        };
        let moved = b.assemble(
            [(labelled(x0, &[0, 1, 2]), piece)],
            Scalar::new(DType::F32, 7.0),
            whole.clone(),
        );
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
    super::run(&Mesh::single(), compiled, &[x.view().into(), table.view().into()])
}

#[test]
fn whatever_is_tiled_stays_what_it_is() {
    let mesh = Mesh::single();
    let shared = ["move", "map", "scan", "sort", "reduce", "gather"];
    let flat = [&shared[..], &["contract", "reshape"]].concat();
    // Tiles of several positions of the first dim, of one, and of some of the second.
    let table = [(false, 40_000, 2), (false, 8_000, 8), (true, 2_000, 24)];
    for (deep, most, least) in table {
        let mut program = all_forms(deep);
        tile::run_within(&mut program.block, tile::Limits { worth: 1, tile: most, again: most });
        let compiled = compiled(program, &mesh, &[], &[]);
        let found = loops(&compiled.program);
        let [tiles] = found[..] else { panic!("{}", print(&compiled.program, &mesh)) };
        assert!(tiles.count >= least, "{} tiles", tiles.count);
        let forms: Vec<_> = tiles.body.steps.iter().map(|step| step.form.name()).collect();
        for form in if deep { &shared[..] } else { &flat } {
            assert!(forms.contains(form), "{form} is not in {forms:?}");
        }
        let whole = super::compiled(all_forms(deep), &mesh, &[], &[]);
        assert_eq!(run_forms(compiled), run_forms(whole), "{least} tiles or more");
    }
}
