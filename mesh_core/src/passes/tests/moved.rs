//! Moves of moves.

use super::*;
use crate::names::DType;
use crate::passes::moves;
use crate::program::sketch::{labelled, origin};
use crate::program::{Extents, Offset, Piece, Scalar, ValueId};
use smallvec::smallvec;

/// The program's moves before the pass and after, which does not change its results, if `make` makes what is
/// fetched of a value of 6 x 8.
fn folded(make: impl Fn(&mut Builder<'_>, ValueId) -> ValueId) -> (usize, usize, String) {
    let mesh = square();
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[6, 8]);
        let made = make(b, image);
        b.fetched("made", made);
    });
    verify(&program, &mesh, &[]).unwrap();
    let mut changed = program.clone();
    moves::run(&mut changed.block);
    verify(&changed, &mesh, &[]).unwrap();
    let image = ndarray::Array2::from_shape_fn((6, 8), |(i, j)| (i * 10 + j + 1) as f32);
    let [want, found] = [&program, &changed].map(|program| {
        let compiled = compiled(program.clone(), &mesh, &[], &[]);
        doubles(run(&mesh, compiled, &[image.view().into()]))
    });
    assert_eq!(want, found);
    let count = |program: &Program| {
        program.block.steps.iter().filter(|step| matches!(step.form, Form::Move(_))).count()
    };
    (count(&program), count(&changed), print(&changed, &mesh))
}

/// A value of these extents with another at `at`, and a number around it.
fn framed(
    b: &mut Builder<'_>,
    of: ValueId,
    extents: [usize; 2],
    [at, whole]: [[usize; 2]; 2],
    fill: f64,
) -> ValueId {
    let (at, extents) = (Extents::from_slice(&at), Extents::from_slice(&extents));
    let piece = Piece { begin: vec![Offset::default(); 2], at, extents };
    let fill = Scalar::new(DType::F32, fill);
    b.assemble([(labelled(of, &[0, 1]), piece)], fill, Extents::from_slice(&whole))
}

fn cut(b: &mut Builder<'_>, of: ValueId, begin: [usize; 2], extents: [usize; 2]) -> ValueId {
    b.cut(of, begin.map(Offset::fixed).to_vec(), Extents::from_slice(&extents))
}

/// Two values behind one another along the first dim.
fn joined(b: &mut Builder<'_>, one: ValueId, two: ValueId) -> ValueId {
    let piece = |value, at| {
        let begin = vec![Offset::default(); 2];
        let piece = Piece { begin, at: smallvec![at, 0], extents: smallvec![6, 8] };
        (labelled(value, &[0, 1]), piece)
    };
    let fill = Scalar::new(DType::F32, 0.0);
    b.assemble([piece(one, 0), piece(two, 6)], fill, smallvec![12, 8])
}

#[test]
fn windows_and_margins_are_one_move() {
    let (before, after, window) = folded(|b, image| {
        let rows = cut(b, image, [1, 0], [4, 8]);
        cut(b, rows, [2, 3], [2, 4])
    });
    assert_eq!((before, after), (2, 1));
    assert!(window.contains("%1: f32[2, 4] = move %0[a, b] from [3, 3]\n"), "{window}");
    let (before, after, margin) = folded(|b, image| {
        let rows = framed(b, image, [6, 8], [[1, 0], [8, 8]], 0.5);
        framed(b, rows, [8, 8], [[0, 2], [8, 11]], 0.5)
    });
    assert_eq!((before, after), (2, 1));
    assert!(margin.contains("%1: f32[8, 11] = move %0[a, b] to [1, 2]"), "{margin}");
}

#[test]
fn a_window_of_one_part_needs_no_other() {
    let of = |first: usize| {
        let (before, after, text) = folded(|b, image| {
            let other = b.fill(Scalar::new(DType::F32, 3.0), smallvec![6, 8]);
            let both = joined(b, image, other);
            cut(b, both, [first, 2], [5, 4])
        });
        assert_eq!(before, 2);
        (after, text.contains("fill"))
    };
    assert_eq!([0, 7, 4].map(of), [(1, false), (1, true), (1, true)]);
}

/// A value of these extents between rows of its own, which are looked up along a dim.
fn bordered(
    b: &mut Builder<'_>,
    of: ValueId,
    extents: [usize; 2],
    dim: usize,
    [before, after]: [&[i32]; 2],
) -> ValueId {
    let rows = [before, after].concat();
    let count = rows.len();
    let table = Generator::Table(std::sync::Arc::new(ndarray::Array1::from_vec(rows).into()));
    let table = b.generate(table, DType::I32, origin(1), smallvec![count], smallvec![count]);
    let mut labels = [0, 1];
    labels[dim] = 2;
    let mut border = Extents::from_slice(&extents);
    border[dim] = count;
    let (of_labelled, at) = (labelled(of, &labels), labelled(table, &[dim as u8]));
    let border = b.gather(of_labelled, at, 2, Offset::default(), border);
    let piece = |value, from: usize, to: usize, size: usize| {
        let mut piece = Piece {
            begin: vec![Offset::default(); 2],
            at: smallvec![0, 0],
            extents: Extents::from_slice(&extents),
        };
        piece.begin[dim] = Offset::fixed(from);
        (piece.at[dim], piece.extents[dim]) = (to, size);
        (labelled(value, &[0, 1]), piece)
    };
    let end = before.len() + extents[dim];
    let pieces = [
        piece(of, 0, before.len(), extents[dim]),
        piece(border, 0, 0, before.len()),
        piece(border, before.len(), end, after.len()),
    ];
    let mut whole = extents;
    whole[dim] += count;
    b.assemble(pieces, Scalar::new(DType::F32, 0.0), Extents::from_slice(&whole))
}

#[test]
fn borders_of_own_rows_are_one_move() {
    // Of the rows that are looked up, two follow each other.
    let (before, after, text) = folded(|b, image| {
        let high = bordered(b, image, [6, 8], 0, [&[4, 5], &[0]]);
        bordered(b, high, [9, 8], 1, [&[0], &[7]])
    });
    assert_eq!((before, after), (2, 1));
    assert!(!text.contains("gather"), "{text}");
    // A row that is nowhere is of zeros, beside which nothing is filled through.
    let (before, after, text) = folded(|b, image| {
        let high = bordered(b, image, [6, 8], 0, [&[-1], &[5]]);
        bordered(b, high, [8, 8], 1, [&[3], &[6]])
    });
    assert_eq!((before, after), (2, 2));
    assert!(!text.contains("gather"), "{text}");
    // More pieces than are copied as fast as one.
    let (_, after, text) = folded(|b, image| {
        let high = bordered(b, image, [6, 8], 0, [&[5, 3, 1], &[4, 2, 0]]);
        bordered(b, high, [12, 8], 1, [&[7, 5, 3], &[6, 4, 2]])
    });
    assert!(after > 1 && !text.contains("gather"), "{text}");
}

#[test]
fn what_differs_stays_two_moves() {
    // Another number around it.
    let other = folded(|b, image| {
        let rows = framed(b, image, [6, 8], [[1, 0], [8, 8]], 0.5);
        framed(b, rows, [8, 8], [[0, 2], [8, 11]], 0.0)
    });
    // A margin beside a second piece, which may be under it.
    let beside = folded(|b, image| {
        let rows = framed(b, image, [5, 8], [[0, 0], [6, 8]], 0.0);
        joined(b, rows, image)
    });
    // Somebody else reads what lies between.
    let needed = folded(|b, image| {
        let rows = cut(b, image, [1, 0], [4, 8]);
        let part = cut(b, rows, [0, 0], [2, 8]);
        let rest = cut(b, rows, [2, 0], [2, 8]);
        b.of(x(0) + x(1), &[part, rest])
    });
    assert_eq!(
        [other, beside, needed].map(|(before, after, _)| (before, after)),
        [(2, 2), (2, 2), (3, 3)]
    );
}

#[test]
fn what_is_put_together_and_turned_is_one_move() {
    let (before, after, text) = folded(|b, image| {
        let other = b.of(x(0) * 2.0, &[image]);
        let both = joined(b, image, other);
        b.transpose(both, &[1, 0])
    });
    assert_eq!((before, after), (2, 1));
    let pieces = "move %0[b, a] to [0, 0] size [8, 6], %1[b, a] to [0, 6] size [8, 6] onto 0.0\n";
    assert!(text.contains(pieces), "{text}");
    // Around what is turned, the number of what is turned.
    let (before, after, text) = folded(|b, image| {
        let margin = framed(b, image, [6, 8], [[1, 2], [9, 11]], 0.5);
        b.transpose(margin, &[1, 0])
    });
    assert_eq!((before, after), (2, 1));
    assert!(text.contains("move %0[b, a] to [2, 1]") && text.contains("0.5"), "{text}");
}
