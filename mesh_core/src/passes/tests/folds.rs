//! What is computed as it is folded.

use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{Expr, Offset, ValueId};
use smallvec::smallvec;

const ROWS: usize = 6;
const COLUMNS: usize = 50;

/// Steps of a compiled program, as printed.
fn lines(compiled: &Compiled) -> Vec<String> {
    let text = print(&compiled.program, &Mesh::single());
    let is_step =
        |line: &&str| [" reduce ", " map ", " scatter "].iter().any(|form| line.contains(form));
    text.lines().filter(is_step).map(str::to_owned).collect()
}

/// A program of one input, which makes what it fetches.
fn program(of: impl Fn(&mut Builder<'_>, ValueId) -> ValueId) -> Program {
    built(&Mesh::single(), |b| {
        let input = b.fed("input", &[ROWS, COLUMNS]);
        let made = of(b, input);
        b.fetched("made", made);
    })
}

/// How the steps of a program are printed, after it has given what it gives without the pass.
fn checked(program: Program) -> Vec<String> {
    /// Sums of 50 products are rounded so many times, of values below 10.
    const ROUNDED: f64 = 50.0 * 10.0 * 6e-8;
    let mesh = Mesh::single();
    let input = ndarray::Array2::from_shape_fn((ROWS, COLUMNS), |(i, j)| {
        ((i * 31 + j * 7) as f32).sin() * 3.0
    });
    let given = || [input.view().into()];
    let folded = compiled(program.clone(), &mesh, &[], &all());
    let plain = compiled(program, &mesh, &[], &without(PassId::Folds));
    let lines = lines(&folded);
    let [folded, plain] =
        [folded, plain].map(|compiled| doubles(run(&mesh, compiled, &given())).concat());
    let same = |(a, b): (&f64, &f64)| (a - b).abs() <= ROUNDED * b.abs().max(1.0);
    assert!(folded.iter().zip(&plain).all(same), "{folded:?}, but {plain:?} without the pass");
    lines
}

/// The differences from a row's first sum over the row, and the same, but for what is between.
fn centred(b: &mut Builder<'_>, input: ValueId) -> ValueId {
    let sum = b.reduce(ReduceKind::Sum, b.whole(input), smallvec![ROWS]);
    let inputs = vec![b.whole(input), labelled(sum, &[0])];
    b.map(inputs, smallvec![ROWS, COLUMNS], &(x(0) - x(1) * 0.02), DType::F32).unwrap()
}

#[test]
fn squares_are_summed_as_they_are_made() {
    let lines = checked(program(|b, input| {
        let square = b.of(x(0) * x(0), &[input]);
        b.reduce(ReduceKind::Sum, labelled(square, &[1, 0]), smallvec![COLUMNS])
    }));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("reduce sum of x0 * x0 of %0[k, a]"), "{lines:?}");
}

/// A norm writes neither the differences from the mean nor their squares.
#[test]
fn cheap_values_are_made_again() {
    let lines = checked(program(|b, input| {
        let centred = centred(b, input);
        let square = b.of(x(0) * x(0), &[centred]);
        let squares = b.reduce(ReduceKind::Sum, b.whole(square), smallvec![ROWS]);
        let inputs = vec![b.whole(centred), labelled(squares, &[0])];
        b.map(inputs, smallvec![ROWS, COLUMNS], &(x(0) * x(1).rsqrt()), DType::F32).unwrap()
    }));
    let (folds, maps): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.contains(" reduce "));
    assert_eq!((folds.len(), maps.len()), (2, 1), "{lines:?}");
}

/// An exponential that others read is written, and read by the fold.
#[test]
fn dear_values_that_others_read_are_written() {
    let lines = checked(program(|b, input| {
        let exp = b.of(x(0).exp(), &[input]);
        let sum = b.reduce(ReduceKind::Sum, b.whole(exp), smallvec![ROWS]);
        let inputs = vec![b.whole(exp), labelled(sum, &[0])];
        b.map(inputs, smallvec![ROWS, COLUMNS], &(x(0) / x(1)), DType::F32).unwrap()
    }));
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("reduce sum of %1["), "{lines:?}");
}

/// A fold meets every element that it folds, also of what is the same along a dim.
#[test]
fn repeated_values_are_folded_as_often() {
    let lines = checked(program(|b, input| {
        let sum = b.reduce(ReduceKind::Sum, b.whole(input), smallvec![ROWS]);
        let inputs = vec![labelled(sum, &[0])];
        let extents = smallvec![ROWS, COLUMNS];
        let repeated = b.map(inputs, extents, &(x(0) * 0.5), DType::F32).unwrap();
        b.reduce(ReduceKind::Sum, b.whole(repeated), smallvec![ROWS])
    }));
    assert_eq!(lines.len(), 3, "{lines:?}");
}

/// Of bf16 a fold would have to round what it computes: it reads what was written.
#[test]
fn bf16_is_written_before_it_is_folded() {
    let program = program(|b, input| {
        let half = b.map(
            vec![b.whole(input)],
            smallvec![ROWS, COLUMNS],
            &x(0).cast(DType::BF16),
            DType::BF16,
        );
        let sum = b.reduce(ReduceKind::Sum, b.whole(half.unwrap()), smallvec![ROWS]);
        b.map(vec![b.whole(sum)], smallvec![ROWS], &x(0).cast(DType::F32), DType::F32).unwrap()
    });
    let lines = checked(program);
    assert_eq!(lines.len(), 3, "{lines:?}");
}

/// What updates of rows make of a value of `words` rows and of what they fold to.
fn scattered(kind: ReduceKind, of: impl Fn(&mut Builder<'_>, [ValueId; 2]) -> ValueId) -> Program {
    program(|b, input| {
        let indices = b.map(vec![], smallvec![ROWS], &Expr::from(1.0).cast(DType::I32), DType::I32);
        let updates = labelled(input, &[2, 1]);
        let indices = labelled(indices.unwrap(), &[2]);
        let begin = Offset::default();
        let sums = b.scatter(kind, updates, indices, 0, begin, smallvec![ROWS, COLUMNS]);
        of(b, [input, sums])
    })
}

/// The scatters and maps of a compiled program.
fn folded_onto(program: Program) -> [usize; 2] {
    let lines = checked(program);
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    [" onto ", " map "].map(count)
}

#[test]
fn a_scatter_is_folded_onto_what_its_reader_folds_it_onto() {
    let all = [
        (ReduceKind::Sum, x(0) + x(1)),
        (ReduceKind::Sum, x(1) + x(0)),
        (ReduceKind::Prod, x(0) * x(1)),
        (ReduceKind::Max, x(0).max(x(1))),
        (ReduceKind::Min, x(1).min(x(0))),
    ];
    for (kind, expr) in all {
        let program = scattered(kind, |b, values| b.of(expr.clone(), &values));
        assert_eq!(folded_onto(program), [1, 1], "{kind} by {expr:?}");
    }
}

/// Nor is one whose result others read, or which folds otherwise.
#[test]
fn other_scatters_begin_with_nothing() {
    let program = scattered(ReduceKind::Sum, |b, values| b.of(x(0).max(x(1)), &values));
    assert_eq!(folded_onto(program), [0, 2]);
    let program = scattered(ReduceKind::Sum, |b, values| {
        b.fetched("sums", values[1]);
        b.of(x(0) + x(1), &values)
    });
    assert_eq!(folded_onto(program), [0, 2]);
}
