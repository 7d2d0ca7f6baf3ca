//! Loops that hand on what they are given: slices, captured and carried values, in any order.

use super::*;
use crate::array::Array;
use crate::exec::{Machine, ThreadMachine};
use crate::names::{DType, ReduceKind};
use crate::program::{Extents, Offset, Rounds, Slot};
use ndarray::{Array1, Array2};
use proptest::prelude::*;
use smallvec::smallvec;

const ROUNDS: usize = 3;

/// A loop over values of `len` elements. Numbers choose among what there is.
#[derive(Clone, Debug)]
struct Recipe {
    /// 16 elements fill a cache line, so slices and stacks may lie where the loop has them; 6 do not.
    len: usize,
    reverse: bool,
    carried: usize,
    sliced: usize,
    captured: usize,
    /// A form and its inputs.
    acts: Vec<(u8, usize, usize)>,
    /// What is carried on, one for each that is carried, and what is stacked.
    next: Vec<usize>,
    stacks: Vec<usize>,
}

fn mesh() -> Mesh {
    "a:2".parse().unwrap()
}

fn position(b: &mut Builder<'_>, any: ValueId) {
    let slot = Slot { name: "i".to_owned(), value: any, shape: vec![], split: vec![] };
    b.feed(DType::I32, Extents::new(), slot);
}

/// Three rounds of `a, b = b, a`.
fn swapped(b: &mut Builder<'_>, len: usize, one: ValueId, two: ValueId) -> ValueId {
    let body = built(&mesh(), |b| {
        let (one, two) = (b.fed("one", &[len]), b.fed("two", &[len]));
        position(b, one);
        b.fetched("one", two);
        b.fetched("two", one);
    });
    let carried = vec![one, two];
    b.rounds(Rounds { body, carried, ..rounds(ROUNDS, false) })[0]
}

fn rounds(count: usize, reverse: bool) -> Rounds {
    Rounds {
        body: Program::default(),
        count,
        reverse,
        condition: None,
        carried: vec![],
        sliced: vec![],
        captured: vec![],
        outs: smallvec![],
    }
}

impl Recipe {
    fn feeds(&self) -> usize {
        self.carried + self.sliced + self.captured
    }

    fn body(&self) -> Program {
        let (mesh, len) = (mesh(), self.len);
        built(&mesh, |b| {
            let mut values: Vec<_> =
                (0..self.feeds()).map(|i| b.fed(&format!("feed{i}"), &[len])).collect();
            position(b, values[0]);
            for &(form, one, two) in &self.acts {
                let (one, two) = (values[one % values.len()], values[two % values.len()]);
                values.push(match form {
                    0 => b.of(x(0) + x(1), &[one, two]),
                    1 => {
                        let square = b.reshape(one, smallvec![2, len / 2]);
                        b.reshape(square, smallvec![len])
                    }
                    2 => b.barrier(&[one, two])[0],
                    3 => b.all_reduce(ReduceKind::Sum, &[axis(&mesh, "a")], one),
                    4 => {
                        let (begin, extents) = (vec![Offset::default()], smallvec![len]);
                        let iota = Generator::Iota(0);
                        let all = b.generate(iota, DType::F32, begin, smallvec![len], extents);
                        b.of(x(0) + x(1), &[all, one])
                    }
                    _ => swapped(b, len, one, two),
                });
            }
            for (i, at) in self.next.iter().chain(&self.stacks).enumerate() {
                b.fetched(&format!("fetch{i}"), values[at % values.len()]);
            }
        })
    }

    fn program(&self) -> Program {
        built(&mesh(), |b| {
            let fed = |b: &mut Builder<'_>, i: usize| {
                let slices = self.carried..self.carried + self.sliced;
                let extents =
                    if slices.contains(&i) { &[ROUNDS, self.len][..] } else { &[self.len] };
                b.fed(&format!("feed{i}"), extents)
            };
            let mut carried: Vec<_> = (0..self.feeds()).map(|i| fed(b, i)).collect();
            let mut sliced = carried.split_off(self.carried);
            let captured = sliced.split_off(self.sliced);
            let body = self.body();
            let rounds = rounds(ROUNDS, self.reverse);
            let outs = b.rounds(Rounds { body, carried, sliced, captured, ..rounds });
            outs.iter().enumerate().for_each(|(i, &out)| b.fetched(&format!("out{i}"), out));
        })
    }

    /// Element `j` of feed `i`, of the slice at a position.
    fn element(&self, i: usize, position: usize, j: usize) -> f32 {
        let sliced = (self.carried..self.carried + self.sliced).contains(&i);
        ((i + 1) * 100 + j + if sliced { 30 * position } else { 0 }) as f32
    }

    /// What the loop gives, computed without a program.
    fn expected(&self) -> Vec<Vec<f32>> {
        let feed = |i: usize, position: usize| -> Vec<f32> {
            (0..self.len).map(|j| self.element(i, position, j)).collect()
        };
        let mut carried: Vec<_> = (0..self.carried).map(|i| feed(i, 0)).collect();
        let mut stacks = vec![vec![0.0; ROUNDS * self.len]; self.stacks.len()];
        for round in 0..ROUNDS {
            let position = if self.reverse { ROUNDS - 1 - round } else { round };
            let mut values = carried.clone();
            values.extend((self.carried..self.feeds()).map(|i| feed(i, position)));
            for &(form, one, two) in &self.acts {
                let (one, two) = (&values[one % values.len()], &values[two % values.len()]);
                values.push(match form {
                    0 => one.iter().zip(two).map(|(a, b)| a + b).collect(),
                    1 | 2 => one.clone(),
                    3 => one.iter().map(|a| a + a).collect(),
                    4 => one.iter().enumerate().map(|(i, a)| i as f32 + a).collect(),
                    _ => two.clone(),
                });
            }
            let of = |at: &usize| values[at % values.len()].clone();
            carried = self.next.iter().map(of).collect();
            for (stack, at) in stacks.iter_mut().zip(&self.stacks) {
                stack[position * self.len..][..self.len].copy_from_slice(&of(at));
            }
        }
        carried.into_iter().chain(stacks).collect()
    }

    fn run(&self, compiled: Compiled) -> Vec<Vec<f32>> {
        let mut machine = ThreadMachine::new(&mesh(), &[], vec![compiled], 0, &[]).unwrap();
        let slots = &machine.functions()[0].program.fetches;
        let mut outs: Vec<_> =
            slots.iter().map(|slot| Array::zeros(DType::F32, &slot.shape)).collect();
        let feeds: Vec<Array> = (0..self.feeds())
            .map(|i| match (self.carried..self.carried + self.sliced).contains(&i) {
                true => {
                    Array2::from_shape_fn((ROUNDS, self.len), |(k, j)| self.element(i, k, j)).into()
                }
                false => Array1::from_shape_fn(self.len, |j| self.element(i, 0, j)).into(),
            })
            .collect();
        let feeds: Vec<_> = feeds.iter().map(Array::view).collect();
        machine.call(0, &feeds, &mut outs, &mut []).unwrap();
        outs.iter().map(|out| out.to_f64().iter().map(|&x| x as f32).collect()).collect()
    }

    fn planned(&self) -> Compiled {
        compile_with(&[], self.program(), &mesh(), &[]).unwrap()
    }
}

prop_compose! {
    fn recipes()(
        (len, reverse) in (prop::sample::select(vec![16_usize, 6]), any::<bool>()),
        (carried, sliced, captured) in (1..4_usize, 0..3_usize, 0..3_usize),
        acts in prop::collection::vec((0..6_u8, 0..99_usize, 0..99_usize), 0..5),
        next in prop::collection::vec(0..99_usize, 3),
        stacks in prop::collection::vec(0..99_usize, 0..4),
    ) -> Recipe {
        let next = next[..carried].to_vec();
        Recipe { len, reverse, carried, sliced, captured, acts, next, stacks }
    }
}

/// What is the same in all rounds leaves all the loops around it, and no level keeps more of it than
/// it had, however often the pass runs.
#[test]
fn what_leaves_many_loops_is_not_multiplied() {
    const DEPTH: usize = 12;
    let mesh = mesh();
    let mut body = built(&mesh, |b| {
        let (h, c) = (b.fed("h", &[4]), b.fed("c", &[4]));
        position(b, h);
        let (begin, iota) = (vec![Offset::default()], Generator::Iota(0));
        let all = b.generate(iota, DType::F32, begin, smallvec![4], smallvec![4]);
        let same = b.of(x(0) * x(1), &[all, c]);
        let next = b.of(x(0) + x(1) * x(2), &[h, same, all]);
        b.fetched("h", next);
    });
    for depth in 0..DEPTH {
        body = built(&mesh, |b| {
            let (h, c) = (b.fed("h", &[4]), b.fed("c", &[4]));
            if depth + 1 < DEPTH {
                position(b, h);
            }
            let (carried, captured) = (vec![h], vec![c]);
            let outs = b.rounds(Rounds { body, carried, captured, ..rounds(2, false) });
            b.fetched("h", outs[0]);
        });
    }
    let hoist = passes().iter().find(|pass| pass.name == "loop invariants").unwrap();
    let count = |program: &mut Program| {
        let mut steps = 0;
        everywhere(program, &mut |program| steps += program.steps.len());
        steps
    };
    assert_eq!(count(&mut body), DEPTH + 3);
    everywhere(&mut body, &mut |program| (hoist.run)(program, &mesh));
    // Each level generates once more for what leaves it.
    assert_eq!(count(&mut body), DEPTH + 3 + DEPTH);
    assert!(matches!(body.steps[1].step, Step::Map { .. }), "{}", print(&body, &mesh));
}

fn body_of(program: &Program) -> &Rounds {
    let found = program.steps.iter().find_map(|node| match &node.step {
        Step::Loop(rounds) => Some(&**rounds),
        _ => None,
    });
    found.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_handed_on_arrives(recipe in recipes()) {
        let expected = recipe.expected();
        prop_assert_eq!(&recipe.run(recipe.planned()), &expected);
        let compiled = compile_with(passes(), recipe.program(), &mesh(), &[]).unwrap();
        prop_assert_eq!(&recipe.run(compiled), &expected);
    }

    /// A second run of a pass finds nothing more to do in loops, either.
    #[test]
    fn passes_come_to_an_end(recipe in recipes()) {
        let mesh = mesh();
        for pass in passes() {
            let mut once = recipe.program();
            (pass.run)(&mut once, &mesh);
            prop_assert_eq!(verify(&once, &mesh, &[]), Ok(()));
            let mut twice = once.clone();
            (pass.run)(&mut twice, &mesh);
            prop_assert_eq!(once, twice, "{}", pass.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A plan in which a value of the body, or all that lie together, lies elsewhere: either the checker
    /// refuses it, or it computes the same.
    #[test]
    fn what_the_checker_lets_pass_is_right(recipe in recipes()) {
        let (expected, right) = (recipe.expected(), recipe.planned());
        let body = &body_of(&right.program).body;
        let places = right.plan.bodies[0].places.clone();
        let fed = (0..body.feeds.len()).map(Place::Fed);
        let stacked = (0..body.fetches.len()).map(Place::Stacked);
        let mut all: Vec<_> = fed.chain(stacked).chain(places.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        for (value, &at) in places.iter().enumerate() {
            for &place in &all {
                for together in [false, true] {
                    let mut wrong = right.clone();
                    for (other, moved) in wrong.plan.bodies[0].places.iter_mut().enumerate() {
                        if other == value || together && *moved == at {
                            *moved = place;
                        }
                    }
                    if wrong != right && check(&wrong.program, &wrong.plan, &[]).is_ok() {
                        prop_assert_eq!(&recipe.run(wrong), &expected, "%{} {:?}", value, place);
                    }
                }
            }
        }
    }
}

/// Two swapped carried values, a slice that is stacked as it is, and something captured.
fn swap_and_stack() -> Recipe {
    let (carried, sliced, captured) = (2, 1, 1);
    let (acts, next, stacks) = (vec![(3, 3, 0)], vec![1, 0], vec![2, 2, 0]);
    Recipe { len: 16, reverse: false, carried, sliced, captured, acts, next, stacks }
}

#[test]
fn what_is_handed_on_is_copied_no_more_than_it_must_be() {
    let places = swap_and_stack().planned().plan.bodies.remove(0).places;
    let own = |i: usize| matches!(places[i], Place::Arena(_));
    assert!(own(0) && own(1), "swapped values need places of their own: {places:?}");
    assert_eq!(places[2..4], [Place::Fed(2), Place::Fed(3)]);
}

#[test]
fn the_checker_knows_what_a_round_copies() {
    let spoilt = |spoil: fn(&mut [Place])| {
        let Compiled { program, mut plan } = swap_and_stack().planned();
        spoil(&mut plan.bodies[0].places);
        check(&program, &plan, &[]).map_or_else(|problems| problems.join("\n"), |()| String::new())
    };
    assert_eq!(spoilt(|_| {}), "");
    // The first would be overwritten before it is carried on in the second's place.
    let found = spoilt(|places| (places[0], places[1]) = (Place::Fed(0), Place::Fed(1)));
    assert_eq!(found, "in a loop: fetch fetch1: %0 is not at feed 0 of its loop, which holds %1");
    let found = spoilt(|places| places[0] = Place::Fed(0));
    assert_eq!(found, "in a loop: fetch fetch1: %0 is not at feed 0 of its loop, which holds %1");
    assert_eq!(spoilt(|places| places[1] = Place::Fed(1)), "");
    // An all-reduce is prepared for one place.
    let found = spoilt(|places| places[5] = Place::Stacked(2));
    assert_eq!(found, "in a loop: step 0 all_reduce: %5 is in another place in every round");
    let found = spoilt(|places| places[5] = Place::Stacked(0));
    assert_eq!(found, "in a loop: %5 is in a loop's fetch 0, which is not there");
    let found = spoilt(|places| places[5] = Place::Fed(3));
    assert!(found.contains("%5 overwrites what the loop gave"), "{found}");
    let found = spoilt(|places| places[4] = Place::Fed(4));
    assert_eq!(found, "in a loop: %4 is in a loop's feed 4, which is not there");
    let found = spoilt(|places| places[2] = Place::Stacked(2));
    assert!(found.contains("feed 2 is where fetch 2 is stacked"), "{found}");
}
