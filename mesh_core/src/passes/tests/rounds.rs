//! Loops through passes, plan and checker.

use super::*;
use crate::program::sketch::looped;

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
