//! Slices that are read where they lie.

use super::*;
use crate::names::ReduceKind;
use crate::program::{Offset, ValueId};
use smallvec::smallvec;

const ROWS: usize = 8;

/// The halves of a processor's own rows, one times a function of the other, summed over processors. `between` makes
/// steps between the slices and the product.
fn gated(columns: usize, between: impl Fn(&mut Builder<'_>, ValueId)) -> Program {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    built(&mesh, |b| {
        let image = b.fed("image", &[ROWS, 2 * columns]);
        let half = |b: &mut Builder<'_>, from: usize| {
            let begin = vec![Offset::sliced(&[rows], ROWS / 2), Offset::fixed(from)];
            b.cut(image, begin, smallvec![ROWS / 2, columns])
        };
        let (one, two) = (half(b, 0), half(b, columns));
        between(b, image);
        let product = b.of(x(0) * x(1).logistic(), &[one, two]);
        let sum = b.all_reduce(ReduceKind::Sum, &[rows], product);
        b.fetched("sum", sum);
    })
}

fn moves(compiled: &Compiled) -> usize {
    let steps = compiled.program.block.steps.iter();
    steps.filter(|step| matches!(step.form, Form::Move(_))).count()
}

/// What a program makes of an image, and how many slices it copies.
fn made(program: Program, columns: usize, passes: &[PassId]) -> (Vec<Vec<f64>>, usize) {
    let mesh = square();
    let compiled = compiled(program, &mesh, &[], passes);
    let copies = moves(&compiled);
    let image = |(i, j): (usize, usize)| ((i * 31 + j) as f32).sin() * 3.0;
    let image = ndarray::Array2::from_shape_fn((ROWS, 2 * columns), image);
    (doubles(run(&mesh, compiled, &[image.view().into()])), copies)
}

#[test]
fn halves_are_read_where_they_lie() {
    for columns in [1, 3, 16, 300, 5000] {
        let (read, copies) = made(gated(columns, |_, _| {}), columns, &all());
        assert_eq!(copies, 0);
        let (copied, copies) = made(gated(columns, |_, _| {}), columns, &without(PassId::Slices));
        assert_eq!(copies, 2);
        assert_eq!(read, copied);
    }
    let program = compiled(gated(3, |_, _| {}), &square(), &[], &all()).program;
    let text = print(&program, &square());
    assert!(text.contains("%0[a, b] from [rows*4, 0], %0[a, b] from [rows*4, 3]"), "{text}");
}

/// What a slice is of does not live for a map that comes long after.
#[test]
fn far_readers_have_a_copy() {
    let sorted = |steps: usize| {
        move |b: &mut Builder<'_>, of: ValueId| {
            let first = b.cut(of, vec![Offset::default(); 2], smallvec![ROWS, 2]);
            let last = (0..steps).fold(first, |of, _| b.scan(ReduceKind::Sum, 0, false, false, of));
            b.fetched("sums", last);
        }
    };
    for (steps, copies) in [(3, 1), (20, 3)] {
        assert_eq!(made(gated(3, sorted(steps)), 3, &all()).1, copies);
    }
}

/// The new value of a variable is made in the old one's place: nobody looks at a part of that from then on.
#[test]
fn what_is_replaced_is_copied_from() {
    let mesh = square();
    let state = [variable(&[ROWS, 6])];
    for (writes, early, copies) in [(false, false, 0), (true, false, 1), (true, true, 0)] {
        let program = built(&mesh, |b| {
            let old = b.old(0, &[ROWS, 6]);
            let half = b.cut(old, vec![Offset::default(); 2], smallvec![ROWS, 3]);
            let root = |b: &mut Builder<'_>| {
                let root = b.of(x(0).sqrt(), &[half]);
                b.fetched("root", root);
            };
            if early {
                root(b);
            }
            let new = b.of(x(0) * x(0), &[old]);
            if !early {
                root(b);
            }
            match writes {
                true => b.write(var(0), new),
                false => b.fetched("new", new),
            }
        });
        assert_eq!(moves(&compiled(program, &mesh, &state, &all())), copies);
    }
}

#[test]
fn a_part_lies_within_what_it_is_of() {
    let mut program = compiled(gated(3, |_, _| {}), &square(), &[], &all()).program;
    let map = program.block.steps.iter_mut().find_map(|step| match &mut step.form {
        Form::Map(map) => Some(map),
        _ => None,
    });
    map.unwrap().begin[1][1] = Offset::fixed(4);
    let problems = lines(&verify(&program, &square(), &[]).unwrap_err());
    assert!(problems.contains("%0: "), "{problems}");
}
