//! Loops through passes, plan and checker.

use super::*;
use crate::array::Array;
use crate::exec::{Machine, ThreadMachine};
use crate::names::{DType, ReduceKind};
use crate::program::sketch::{labelled, looped};
use crate::program::{Extents, Offset, Rounds, Slot};
use ndarray::{Array1, Array2};
use smallvec::smallvec;

#[test]
fn nothing_is_stacked_for_nobody() {
    let mesh = square();
    let mut program = looped(&mesh);
    program.fetches.truncate(1);
    let compiled = compile(program, &mesh, &[], AllReduce::Direct, None).unwrap();
    let Step::Loop(rounds) = &compiled.program.steps[1].step else { panic!("no loop") };
    assert_eq!((rounds.outs.len(), rounds.stacked(), rounds.body.fetches.len()), (1, 0, 1));
}

#[test]
fn what_no_round_reads_is_not_given() {
    let mesh = square();
    let mut program = looped(&mesh);
    let Step::Loop(rounds) = &mut program.steps[1].step else { panic!("no loop") };
    // The next round carries what this one was given: weights and captured are idle.
    rounds.body.fetches[0].value = rounds.body.feeds[0].value;
    let compiled = compile(program, &mesh, &[], AllReduce::Direct, None).unwrap();
    let Step::Loop(rounds) = &compiled.program.steps[1].step else { panic!("no loop") };
    assert!(rounds.sliced.is_empty() && rounds.captured.is_empty());
    assert_eq!((rounds.body.feeds.len(), rounds.body.steps.len()), (2, 0));
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
        check(&program, &plan, &[]).unwrap_err().join("\n")
    };
    let found = spoilt(|plan| plan.bodies.clear());
    assert!(found.contains("0 plans for 1 bodies"), "{found}");
    let found = spoilt(|plan| plan.bodies[0].arena_bytes += 1 << 20);
    assert!(found.contains("ends beyond the arena"), "{found}");
    let found = spoilt(|plan| plan.bodies[0].places[4] = plan.bodies[0].places[0]);
    assert!(found.contains("in a loop: fetch all"), "{found}");
    let found = spoilt(|plan| plan.places[3] = plan.places[1]);
    assert!(found.contains("is not at byte 64"), "{found}");
}

/// Three rounds of `h = h + tanh(c + 0 1 2 …) w[i] + (0 1 2 …)`, where `c` is one number.
fn with_invariants(mesh: &Mesh, len: usize, behind_barrier: bool) -> Program {
    let body = built(mesh, |b| {
        let (h, w, c) = (b.fed("h", &[len]), b.fed("w", &[len]), b.fed("c", &[1]));
        let scalar = Slot { name: "i".to_owned(), value: h, shape: vec![], split: vec![] };
        b.feed(DType::I32, Extents::new(), scalar);
        let c = if behind_barrier { b.barrier(&[c])[0] } else { c };
        let begin = vec![Offset::default()];
        let range =
            b.generate(Generator::Iota(0), DType::F32, begin, smallvec![len], smallvec![len]);
        let c = b.reduce(ReduceKind::Sum, labelled(c, &[0]), smallvec![]);
        let inputs = vec![b.whole(range), labelled(c, &[])];
        let tanh = b.map(inputs, smallvec![len], &(x(0) + x(1)).tanh(), DType::F32).unwrap();
        let next = b.of(x(0) + x(1) * x(2) + x(3), &[h, w, tanh, range]);
        b.fetched("h", next);
    });
    built(mesh, |b| {
        let (h, w, c) = (b.fed("h", &[len]), b.fed("w", &[3, len]), b.fed("c", &[1]));
        let outs = b.rounds(Rounds {
            body,
            count: 3,
            reverse: false,
            condition: None,
            carried: vec![h],
            sliced: vec![w],
            captured: vec![c],
            outs: smallvec![],
        });
        b.fetched("last", outs[0]);
    })
}

/// Forms of a compiled program's steps, and of its loop's body.
fn forms(compiled: &Compiled) -> [Vec<&'static str>; 2] {
    let forms = |program: &Program| program.steps.iter().map(|node| node.step.form()).collect();
    let body = compiled.program.steps.iter().find_map(|node| match &node.step {
        Step::Loop(rounds) => Some(forms(&rounds.body)),
        _ => None,
    });
    [forms(&compiled.program), body.unwrap_or_default()]
}

fn last(compiled: Compiled, len: usize) -> Vec<f64> {
    let h = Array1::from_shape_fn(len, |i| i as f32);
    let w = Array2::from_shape_fn((3, len), |(i, j)| (i + j) as f32);
    let c = Array1::from_elem(1, 0.5f32);
    let mut machine = ThreadMachine::new(&Mesh::single(), &[], vec![compiled], 0, &[]).unwrap();
    let mut outs = [Array::zeros(DType::F32, &[len])];
    let feeds = [h.view().into(), w.view().into(), c.view().into()];
    machine.call(0, &feeds, &mut outs, &mut []).unwrap();
    outs[0].to_f64().into_iter().collect()
}

#[test]
fn what_is_the_same_in_all_rounds_is_computed_once() {
    let mesh = Mesh::single();
    let compile = |len, barrier, without| {
        let program = with_invariants(&mesh, len, barrier);
        compile(program, &mesh, &[], AllReduce::Direct, without).unwrap()
    };
    let without = Some("loop invariants");
    assert_eq!(
        forms(&compile(4, false, without)),
        [vec!["loop"], vec!["generate", "reduce", "map"]]
    );
    let hoisted = compile(4, false, None);
    assert_eq!(
        forms(&hoisted),
        [vec!["reduce", "generate", "map", "loop"], vec!["generate", "map"]]
    );
    // Too large to be kept for the little it is made of; behind a barrier.
    let large = compile((1 << 18) + 1, false, None);
    assert_eq!(forms(&large), [vec!["reduce", "loop"], vec!["generate", "map"]]);
    assert_eq!(forms(&compile(4, true, None))[1], ["barrier", "generate", "reduce", "map"]);
    let expected = last(compile(4, false, without), 4);
    assert_eq!(last(hoisted, 4), expected);
    let first = (0..3).map(|w| f64::from(w) * f64::from(0.5f32.tanh())).sum::<f64>();
    assert!((expected[0] - first).abs() < 1e-6, "{expected:?}");
}
