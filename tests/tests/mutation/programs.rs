//! Wrong steps in lowered programs: collectives, positions, distances, orders, loops. The results
//! differ from those of one processor.

use mesh_core::lower::Module;
use mesh_core::names::ReduceKind;
use mesh_core::program::forms::Generate;
use mesh_core::program::{Form, Generator, Offset, Pairs, Program, Step};
use mesh_ops::prelude::*;
use mesh_ops::{Cumulative, Order};
use tests::changed;

type Build = for<'g> fn(&'g Graph, Tensor<'g>) -> Tensor<'g>;
type Spoil = fn(&mut Step) -> bool;

/// A mistake: its name, the function, the layout, and a change of a step that returns whether it
/// applies.
type Mistake = (&'static str, Build, &'static str, Spoil);

fn p() -> Dimension {
    dim("p", 4)
}

fn q() -> Dimension {
    dim("q", 8)
}

fn rows<'g>(g: &'g Graph, size: usize) -> Tensor<'g> {
    let odd = mesh_ops::range(g, dim("row", size), I32) * 5.0 + 3.0;
    odd.modulo(g.scalar(8.0, I32))
}

fn weighted<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    let w = g.variable("w", [q()], F32, Initializer::Uniform { low: -8.0, high: 8.0 });
    // Whole numbers, so that sums are exact in any order.
    (x * w.value().floor()).sum([p(), q()])
}

/// Each iteration adds to a sum over all of `x` and uses the sum of the previous one.
fn looped<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    let ([h], []) = g.scan(dim("rounds", 3), [x.sum_all()], [], |[h], []| {
        ([h * 2.0 + (x - h).sum([p(), q()])], [])
    });
    h
}

/// Iterations add to a pending sum, which is reduced once after the last.
fn owing<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    g.sum_over(p(), &[x], |x| vec![(x[0] * x[0]).sum([q()])])[0]
}

fn begin_of(step: &mut Step) -> Option<&mut Offset> {
    match &mut step.form {
        Form::Gather(form) => Some(&mut form.begin),
        Form::Scatter(form) => Some(&mut form.begin),
        Form::Put(form) => Some(&mut form.begin),
        _ => None,
    }
}

fn at_zero(step: &mut Step) -> bool {
    begin_of(step).map(|begin| *begin = Offset::default()).is_some()
}

const MISTAKES: &[Mistake] = &[
    ("a collective over too few axes", weighted, "p:r;q:c", |step| match &mut step.form {
        Form::AllReduce(form) => {
            form.axes.truncate(1);
            true
        }
        _ => false,
    }),
    (
        "a collective over another axis",
        |_, x| x.sum([q()]),
        "q:r",
        |step| match &mut step.form {
            Form::AllReduce(form) => {
                form.axes = ["c"].map(|name| mesh().axis(name).unwrap()).into_iter().collect();
                true
            }
            _ => false,
        },
    ),
    (
        "a sum that is a maximum",
        |_, x| x.sum([q()]),
        "q:r",
        |step| match &mut step.form {
            Form::AllReduce(form) => {
                form.kind = ReduceKind::Max;
                true
            }
            _ => false,
        },
    ),
    ("slices of random numbers all from the first", weighted, "p:r;q:c", |step| {
        match &mut step.form {
            Form::Generate(Generate { generator: Generator::Uniform { .. }, begin, .. }) => {
                begin[0] = Offset::default();
                true
            }
            _ => false,
        }
    }),
    (
        "an exchange cut and joined the wrong way",
        |_, x| x.reshape([p().renamed("a"), q().renamed("b")]) + 0.0,
        "p:r;b:r",
        |step| match &mut step.form {
            Form::AllToAll(form) => {
                std::mem::swap(&mut form.split, &mut form.concat);
                true
            }
            _ => false,
        },
    ),
    (
        "a gather along another dim",
        |_, x| x.rename(q(), "whole") + 0.0,
        "q:r",
        |step| match &mut step.form {
            Form::AllGather(form) => {
                form.dim = 0;
                true
            }
            _ => false,
        },
    ),
    (
        "an exchange over twice the distance",
        |_, x| mesh_ops::shift(x, q(), 2, true),
        "q:r+c",
        |step| match &mut step.form {
            Form::Permute(form) => {
                form.pairs = Pairs::Shift { by: 4, wrap: true };
                true
            }
            _ => false,
        },
    ),
    (
        "an exchange whose ends meet",
        |_, x| mesh_ops::shift(x, q(), 1, false),
        "q:r",
        |step| match &mut step.form {
            Form::Permute(form) => {
                form.pairs = Pairs::Shift { by: 1, wrap: true };
                true
            }
            _ => false,
        },
    ),
    ("indices as if every slice were the first", |g, x| x.gather(rows(g, 6), q()), "q:r", at_zero),
    (
        "sums as if every slice were the first",
        |g, x| {
            let updates = x.sum([p()]).rename(q(), "row");
            mesh_ops::scatter_add(updates, rows(g, 8), q(), [q()])
        },
        "q:r",
        at_zero,
    ),
    (
        "the sum of the slices before, of the wrong slice",
        |_, x| x.cumsum(q()),
        "q:r",
        |step| match &mut step.form {
            Form::Move(form) => form.pieces.iter_mut().any(|piece| {
                let moving = piece.begin.iter_mut().find(|begin| !begin.axes.is_empty());
                moving.map(|begin| *begin = Offset::fixed(1)).is_some()
            }),
            _ => false,
        },
    ),
    (
        "sums that take their own position in",
        |_, x| x.cumsum_with(q(), Cumulative { exclusive: true, reverse: false }),
        "q:r",
        |step| match &mut step.form {
            Form::Scan(form) => {
                form.exclusive = !form.exclusive;
                true
            }
            _ => false,
        },
    ),
    (
        "positions as if every slice were the first",
        |_, x| x.argmax(q()).cast(F32),
        "q:r",
        |step| match &mut step.form {
            Form::Generate(Generate { generator: Generator::Iota(_), begin, .. }) => {
                begin.fill(Offset::default());
                true
            }
            _ => false,
        },
    ),
    (
        "an order upside down",
        |_, x| x.sort(q(), Order::Ascending),
        "q:r",
        |step| match &mut step.form {
            Form::Sort(form) => {
                form.descending = true;
                true
            }
            _ => false,
        },
    ),
    (
        "what an iteration leaves, not reduced before the next",
        looped,
        "q:r",
        |step| match &mut step.form {
            Form::Loop(form) => form.body.steps.iter_mut().any(|step| match &mut step.form {
                Form::AllReduce(form) => {
                    form.kind = ReduceKind::Min;
                    true
                }
                _ => false,
            }),
            _ => false,
        },
    ),
    ("what iterations owe, not reduced after the last", owing, "q:r", |step| {
        match &mut step.form {
            Form::AllReduce(form) => {
                form.kind = ReduceKind::Max;
                true
            }
            _ => false,
        }
    }),
    ("an iteration too few", looped, "q:r", |step| match &mut step.form {
        Form::Loop(form) => {
            form.count -= 1;
            true
        }
        _ => false,
    }),
    (
        "slices from the last on",
        |g, x| {
            let ([h], []) = g.scan(p(), [x.sum([p()]) * 0.0], [x], |[h], [x]| ([h * 2.0 + x], []));
            h
        },
        "q:r",
        |step| match &mut step.form {
            Form::Loop(form) => {
                form.reverse = true;
                true
            }
            _ => false,
        },
    ),
];

fn mesh() -> Mesh {
    "r:2;c:2".parse().unwrap()
}

/// The results of a module for numbered elements, on threads and by reference; `None` if it does not
/// run.
fn run(module: &Module) -> [Option<Array>; 2] {
    [Session::threads(module, 1), Session::reference(module, 1)]
        .map(|session| called(session.ok()?))
}

fn called(mut session: Session) -> Option<Array> {
    let x = ndarray::Array2::from_shape_fn((4, 8), |(i, j)| ((i * 13 + j * 7) % 11) as f32 - 4.0);
    session.set_replica_check(true).unwrap();
    let found = session.call_named("f", &[("x", x.view().into())]).ok()?;
    found.into_iter().next().map(|(_, array)| array)
}

/// Whether a mistake applies to any step.
fn spoil(program: &mut Program, mistake: Spoil) -> bool {
    let steps = program.block.steps.iter_mut();
    steps.filter_map(|step| mistake(step).then_some(())).count() > 0
}

#[test]
fn wrong_steps_are_caught_by_one_processor() {
    for (what, build, layout, mistake) in MISTAKES {
        let g = mesh_ops::graph();
        let x = g.input("x", [p(), q()], F32);
        g.function("f", [x], [build(&g, x)], []);
        let alone = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let right = g.lower(&mesh(), &layout.parse().unwrap()).unwrap();
        let want = run(&alone);
        assert!(want[0].is_some() && want[0] == want[1], "alone, without {what}");
        assert_eq!(run(&right), want, "without {what}");
        let mut made = false;
        let wrong = changed(&right, |functions, init| {
            for program in [&mut functions[0], init] {
                made |= spoil(program, *mistake);
            }
        });
        assert!(made, "nowhere to make it: {what}\n{}", right.print("f").unwrap());
        let found = wrong.map_or_else(|_| [None, None], |wrong| run(&wrong));
        for (by, (found, want)) in ["threads", "by reference"].iter().zip(found.iter().zip(&want)) {
            assert_ne!(found, want, "{what}, {by}");
        }
    }
}
