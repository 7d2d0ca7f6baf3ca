//! Loops through passes, plan and checker.

use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::Offset;
use crate::program::sketch::{labelled, looped};
use ndarray::{Array1, Array2};
use smallvec::smallvec;

/// The one loop of a program.
fn only(program: &Program) -> (&Step, &Loop) {
    program.block.loops().next().expect("no loop")
}

#[test]
fn nothing_is_stacked_for_nobody() {
    let mesh = square();
    let mut program = looped(&mesh);
    program.fetches.truncate(1);
    program.block.results.truncate(1);
    let compiled = compiled(program, &mesh, &[], &all());
    let (step, form) = only(&compiled.program);
    assert_eq!((step.outs.len(), form.stacks().len(), form.body.results.len()), (1, 0, 1));
}

#[test]
fn what_no_iteration_reads_is_not_given() {
    let mesh = square();
    let mut program = looped(&mesh);
    let Form::Loop(form) = &mut program.block.steps[1].form else { panic!("no loop") };
    // The next iteration carries what this one was given: weights and captured are idle.
    form.body.results[0] = form.body.params[0];
    let compiled = compiled(program, &mesh, &[], &all());
    let (step, form) = only(&compiled.program);
    assert_eq!((step.inputs.len(), form.carried, form.sliced), (1, 1, 0));
    assert_eq!((form.body.params.len(), form.body.steps.len()), (2, 0));
}

#[test]
fn a_body_has_room_of_its_own() {
    let mesh = square();
    let program = looped(&mesh);
    let plan = plan(&program, &[]);
    check(&program, &plan, &[]).unwrap();
    assert_eq!(plan.arena_bytes, plan.own_bytes() + plan.bodies[0].arena_bytes);
    // The barrier's out is its input.
    assert_eq!(plan.places[0], plan.places[3]);
    let spoilt = |spoil: fn(&mut Plan)| {
        let mut plan = plan.clone();
        spoil(&mut plan);
        check(&program, &plan, &[]).map_or_else(|problems| lines(&problems), |()| String::new())
    };
    let found = spoilt(|plan| plan.bodies.clear());
    assert!(found.contains("0 plans for 1 bodies"), "{found}");
    let found = spoilt(|plan| plan.bodies[0].arena_bytes += 1 << 20);
    assert!(found.contains("ends beyond the arena"), "{found}");
    let found = spoilt(|plan| plan.bodies[0].places[4] = plan.bodies[0].places[0]);
    assert!(found.contains("in a loop: at the end"), "{found}");
    let found = spoilt(|plan| plan.places[3] = plan.places[1]);
    assert!(found.contains("is not at byte 64"), "{found}");
}

/// Three iterations of `h = h + tanh(c + 0 1 2 …) w[i] + (0 1 2 …)`, where `c` is one number.
fn with_invariants(mesh: &Mesh, len: usize, behind_barrier: bool) -> Program {
    let mut b = Builder::new("body", mesh);
    let [h, w, c] = [len, len, 1].map(|n| b.param(DType::F32, [n]));
    b.param(DType::I32, []);
    let c = if behind_barrier { b.barrier(&[c])[0] } else { c };
    let begin = vec![Offset::default()];
    let range = b.generate(Generator::Iota(0), DType::F32, begin, smallvec![len], smallvec![len]);
    let c = b.reduce(ReduceKind::Sum, labelled(c, &[0]), smallvec![]);
    let inputs = vec![b.whole(range), labelled(c, &[])];
    let tanh = b.map(inputs, smallvec![len], &(x(0) + x(1)).tanh(), DType::F32).unwrap();
    let next = b.of(x(0) + x(1) * x(2) + x(3), &[h, w, tanh, range]);
    b.result(next);
    let body = Box::new(b.finish().block);
    built(mesh, |b| {
        let (h, w, c) = (b.fed("h", &[len]), b.fed("w", &[3, len]), b.fed("c", &[1]));
        let form =
            Loop { body, count: 3, reverse: false, conditional: false, carried: 1, sliced: 1 };
        let outs = b.repeat(form, &[h, w, c]);
        b.fetched("last", outs[0]);
    })
}

/// Forms of a compiled program's steps, and of its loop's body.
fn forms(compiled: &Compiled) -> [Vec<&'static str>; 2] {
    let forms = |block: &Block| block.steps.iter().map(|step| step.form.name()).collect();
    [forms(&compiled.program.block), forms(&only(&compiled.program).1.body)]
}

fn last(compiled: Compiled, len: usize) -> Vec<f64> {
    let h = Array1::from_shape_fn(len, |i| i as f32);
    let w = Array2::from_shape_fn((3, len), |(i, j)| (i + j) as f32);
    let c = Array1::from_elem(1, 0.5f32);
    let feeds = [h.view().into(), w.view().into(), c.view().into()];
    doubles(run(&Mesh::single(), compiled, &feeds)).remove(0)
}

#[test]
fn what_is_the_same_in_all_iterations_is_computed_once() {
    let mesh = Mesh::single();
    let compile = |len, barrier, passes: &[PassId]| {
        compiled(with_invariants(&mesh, len, barrier), &mesh, &[], passes)
    };
    let (all, without) = (&all()[..], &without(PassId::LoopInvariants)[..]);
    assert_eq!(
        forms(&compile(4, false, without)),
        [vec!["loop"], vec!["generate", "reduce", "map"]]
    );
    let hoisted = compile(4, false, all);
    assert_eq!(
        forms(&hoisted),
        [vec!["reduce", "generate", "map", "loop"], vec!["generate", "map"]]
    );
    // Too large to be kept for the little it is made of; behind a barrier.
    let large = compile((1 << 18) + 1, false, all);
    assert_eq!(forms(&large), [vec!["reduce", "loop"], vec!["generate", "map"]]);
    assert_eq!(forms(&compile(4, true, all))[1], ["barrier", "generate", "reduce", "map"]);
    let expected = last(compile(4, false, without), 4);
    assert_eq!(last(hoisted, 4), expected);
    let first = (0..3).map(|w| f64::from(w) * f64::from(0.5f32.tanh())).sum::<f64>();
    assert!((expected[0] - first).abs() < 1e-6, "{expected:?}");
}

/// Four iterations, each of which adds a product of a slice and of what it stacks to what it carries, or to half of it.
fn with_sum(mesh: &Mesh, [rows, len]: [usize; 2], reverse: bool, halves: bool) -> Program {
    let mut b = Builder::new("body", mesh);
    let [h, sum, w] = [[rows, len], [len, len], [rows, len]].map(|n| b.param(DType::F32, n));
    b.param(DType::I32, []);
    let next = b.of((x(0) + x(1)).tanh(), &[h, w]);
    let product = b.contract(labelled(w, &[2, 0]), labelled(next, &[2, 1]), smallvec![len, len]);
    let added = if halves {
        let half = b.of(x(0) * 0.5, &[sum]);
        b.of(x(0) + x(1), &[product, half])
    } else {
        b.of(x(0) + x(1), &[sum, product])
    };
    [next, added, next].into_iter().for_each(|value| b.result(value));
    let body = Box::new(b.finish().block);
    built(mesh, |b| {
        let (h, sum) = (b.fed("h", &[rows, len]), b.fed("sum", &[len, len]));
        let w = b.fed("w", &[4, rows, len]);
        let form = Loop { body, count: 4, reverse, conditional: false, carried: 2, sliced: 1 };
        let outs = b.repeat(form, &[h, sum, w]);
        ["last", "sum", "all"].iter().zip(outs).for_each(|(name, out)| b.fetched(name, out));
    })
}

#[test]
fn products_that_iterations_add_up_are_one_behind_the_loop() {
    /// Sums of 4 products of at most 3 terms each, of numbers below 2, are rounded so many times.
    const ROUNDED: f64 = 12.0 * 24.0 * 6e-8;
    let mesh = Mesh::single();
    for (shape, reverse, halves, leaves) in [
        ([3, 8], false, false, true),
        ([3, 8], true, false, true),
        ([9, 8], false, false, false),
        ([3, 8], false, true, false),
    ] {
        let compile = |passes: &[PassId]| {
            let compiled = compiled(with_sum(&mesh, shape, reverse, halves), &mesh, &[], passes);
            let carried = only(&compiled.program).1.carried;
            let [rows, len] = shape;
            let number = |i: usize| ((i * 7 % 11) as f32 - 5.0) / 4.0;
            let h = Array2::from_shape_fn(shape, |(i, j)| number(i + 3 * j));
            let sum = Array2::from_shape_fn((len, len), |(i, j)| number(5 * i + j));
            let w = ndarray::Array3::from_shape_fn((4, rows, len), |(i, j, k)| {
                number(3 * i + 5 * j + k)
            });
            let feeds = [h.view().into(), sum.view().into(), w.view().into()];
            (carried, doubles(run(&mesh, compiled, &feeds)).concat())
        };
        let (carried, got) = compile(&all());
        let (_, want) = compile(&without(PassId::SummedProducts));
        assert_eq!(carried, if leaves { 1 } else { 2 }, "{shape:?}");
        let same = |(got, want): (&f64, &f64)| (got - want).abs() <= ROUNDED;
        assert!(got.iter().zip(&want).all(same), "{shape:?}: {got:?}, but {want:?}");
    }
}

#[test]
fn what_is_carried_on_is_made_where_it_was_carried() {
    let program = with_sum(&Mesh::single(), [3, 8], false, false);
    let plan = plan(&program, &[]);
    check(&program, &plan, &[]).unwrap();
    let results = &only(&program).1.body.results;
    let places = |plan: &Plan| [0, 1].map(|i| plan.bodies[0].places[results[i].index()]);
    assert_eq!(places(&plan), [Place::Param(0), Place::Param(1)]);
    // The sum is still read when the next state is made.
    let mut spoilt = plan.clone();
    spoilt.bodies[0].places[results[0].index()] = Place::Param(1);
    let found = lines(&check(&program, &spoilt, &[]).unwrap_err());
    assert!(found.contains("in a loop"), "{found}");
}
