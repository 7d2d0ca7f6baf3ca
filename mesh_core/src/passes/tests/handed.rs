//! Loops that hand on what they are given: slices, captured and carried values, in any order.

use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::Offset;
use ndarray::{Array1, Array2};
use proptest::prelude::*;
use smallvec::smallvec;

const ITERATIONS: usize = 3;

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

/// A block of one processor's code, its position the last parameter.
fn body(params: usize, len: usize, build: impl FnOnce(&mut Builder<'_>, Vec<ValueId>)) -> Block {
    let mesh = mesh();
    let mut b = Builder::new("body", &mesh);
    let params = (0..params).map(|_| b.param(DType::F32, [len])).collect();
    b.param(DType::I32, []);
    build(&mut b, params);
    b.finish().block
}

fn looped(body: Block, count: usize, reverse: bool, carried: usize, sliced: usize) -> Loop {
    Loop { body: Box::new(body), count, reverse, conditional: false, carried, sliced }
}

/// Three iterations of `a, b = b, a`.
fn swapped(b: &mut Builder<'_>, len: usize, one: ValueId, two: ValueId) -> ValueId {
    let body = body(2, len, |b, params| params.into_iter().rev().for_each(|param| b.result(param)));
    b.repeat(looped(body, ITERATIONS, false, 2, 0), &[one, two])[0]
}

impl Recipe {
    fn feeds(&self) -> usize {
        self.carried + self.sliced + self.captured
    }

    fn body(&self) -> Block {
        let (mesh, len) = (mesh(), self.len);
        body(self.feeds(), len, |b, mut values| {
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
                    5 => {
                        let extents = || smallvec![len];
                        let whole = x(0).cast(DType::I32);
                        let whole = b.map(vec![b.whole(one)], extents(), &whole, DType::I32);
                        let operands = vec![b.whole(whole.unwrap()), b.whole(two)];
                        let sum = x(0).cast(DType::F32) + x(1);
                        b.map(operands, extents(), &sum, DType::F32).unwrap()
                    }
                    _ => swapped(b, len, one, two),
                });
            }
            for at in self.next.iter().chain(&self.stacks) {
                b.result(values[at % values.len()]);
            }
        })
    }

    fn program(&self) -> Program {
        built(&mesh(), |b| {
            let fed = |b: &mut Builder<'_>, i: usize| {
                let slices = self.carried..self.carried + self.sliced;
                let extents =
                    if slices.contains(&i) { &[ITERATIONS, self.len][..] } else { &[self.len] };
                b.fed(&format!("feed{i}"), extents)
            };
            let inputs: Vec<_> = (0..self.feeds()).map(|i| fed(b, i)).collect();
            let form = looped(self.body(), ITERATIONS, self.reverse, self.carried, self.sliced);
            let outs = b.repeat(form, &inputs);
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
        let mut stacks = vec![vec![0.0; ITERATIONS * self.len]; self.stacks.len()];
        for done in 0..ITERATIONS {
            let position = if self.reverse { ITERATIONS - 1 - done } else { done };
            let mut values = carried.clone();
            values.extend((self.carried..self.feeds()).map(|i| feed(i, position)));
            for &(form, one, two) in &self.acts {
                let (one, two) = (&values[one % values.len()], &values[two % values.len()]);
                values.push(match form {
                    0 | 5 => one.iter().zip(two).map(|(a, b)| a + b).collect(),
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
        let feeds: Vec<Array> = (0..self.feeds())
            .map(|i| match (self.carried..self.carried + self.sliced).contains(&i) {
                true => {
                    Array2::from_shape_fn((ITERATIONS, self.len), |(k, j)| self.element(i, k, j))
                        .into()
                }
                false => Array1::from_shape_fn(self.len, |j| self.element(i, 0, j)).into(),
            })
            .collect();
        let feeds: Vec<_> = feeds.iter().map(Array::view).collect();
        let outs = run(&mesh(), compiled, &feeds);
        outs.iter().map(|out| out.to_f64().iter().map(|&x| x as f32).collect()).collect()
    }

    fn planned(&self) -> Compiled {
        compiled(self.program(), &mesh(), &[], &[])
    }
}

prop_compose! {
    fn recipes()(
        (len, reverse) in (prop::sample::select(vec![16_usize, 6]), any::<bool>()),
        (carried, sliced, captured) in (1..4_usize, 0..3_usize, 0..3_usize),
        acts in prop::collection::vec((0..7_u8, 0..99_usize, 0..99_usize), 0..5),
        next in prop::collection::vec(0..99_usize, 3),
        stacks in prop::collection::vec(0..99_usize, 0..4),
    ) -> Recipe {
        let next = next[..carried].to_vec();
        Recipe { len, reverse, carried, sliced, captured, acts, next, stacks }
    }
}

/// What is the same in all iterations leaves all the loops around it, and no level keeps more of it than
/// it had, however often the pass runs.
#[test]
fn what_leaves_many_loops_is_not_multiplied() {
    const DEPTH: usize = 12;
    let mut inner = body(2, 4, |b, params| {
        let (h, c) = (params[0], params[1]);
        let (begin, iota) = (vec![Offset::default()], Generator::Iota(0));
        let all = b.generate(iota, DType::F32, begin, smallvec![4], smallvec![4]);
        let same = b.of(x(0) * x(1), &[all, c]);
        let next = b.of(x(0) + x(1) * x(2), &[h, same, all]);
        b.result(next);
    });
    for _ in 0..DEPTH {
        inner = body(2, 4, |b, params| {
            let outs = b.repeat(looped(inner, 2, false, 1, 0), &params);
            b.result(outs[0]);
        });
    }
    let count = |block: &mut Block| {
        let mut steps = 0;
        block.everywhere(&mut |block| steps += block.steps.len());
        steps
    };
    assert_eq!(count(&mut inner), DEPTH + 3);
    inner.everywhere(&mut hoist::run);
    // Each level generates once more for what leaves it. The outermost block is no program: what it is
    // given leaves to where its iterations are.
    assert_eq!(count(&mut inner), DEPTH + 3 + DEPTH);
    assert!(matches!(inner.steps[1].form, Form::Map(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_handed_on_arrives(recipe in recipes()) {
        let expected = recipe.expected();
        prop_assert_eq!(&recipe.run(recipe.planned()), &expected);
        let compiled = compiled(recipe.program(), &mesh(), &[], &all());
        prop_assert_eq!(&recipe.run(compiled), &expected);
    }

    /// A second run of a pass finds nothing more to do in loops, either.
    #[test]
    fn passes_come_to_an_end(recipe in recipes()) {
        let mesh = mesh();
        let machine = host();
        for pass in all() {
            let mut once = recipe.program();
            pass.run(&mut once.block, &cx(&mesh, &machine));
            prop_assert_eq!(verify(&once, &mesh, &[]), Ok(()));
            let mut twice = once.clone();
            pass.run(&mut twice.block, &cx(&mesh, &machine));
            prop_assert_eq!(once, twice, "{}", pass);
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
        let body = &loops(&right.program)[0].body;
        let places = right.plan.bodies[0].places.clone();
        let fed = (0..body.params.len()).map(Place::Param);
        let stacked = (0..body.results.len()).map(Place::Stacked);
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
    assert_eq!(places[2..4], [Place::Param(2), Place::Param(3)]);
}

#[test]
fn what_is_stacked_takes_the_place_of_a_slice_that_is_read_no_more() {
    let takes = |acts: Vec<(u8, usize, usize)>, next: usize, stacked: usize| {
        let (next, stacks) = (vec![next], vec![stacked]);
        let (carried, sliced, captured) = (1, 1, 0);
        let recipe =
            Recipe { len: 16, reverse: false, carried, sliced, captured, acts, next, stacks };
        assert_eq!(recipe.run(recipe.planned()), recipe.expected());
        let Compiled { program, plan } = recipe.planned();
        let (step, _) = program.block.loops().next().unwrap();
        plan.places[step.inputs[1].value.index()] == plan.places[step.outs[1].index()]
    };
    // %0 is carried, %1 a slice; each act makes one more.
    assert!(takes(vec![(0, 1, 0)], 0, 2));
    assert!(takes(vec![(0, 1, 0), (0, 2, 0)], 2, 3));
    assert!(!takes(vec![(0, 1, 0), (0, 1, 2)], 3, 2), "the slice is read again");
    assert!(takes(vec![(0, 1, 0), (0, 1, 2)], 0, 3));
    assert!(takes(vec![(0, 0, 0), (0, 1, 2), (0, 1, 3), (0, 4, 0)], 0, 5));
    assert!(!takes(vec![(0, 1, 0)], 1, 2), "the slice is carried on");
    // What is made on the way while the slice is read is made elsewhere.
    assert!(takes(vec![(5, 1, 0)], 0, 2));
    assert!(takes(vec![(5, 1, 1)], 0, 2));
}

#[test]
fn steps_in_place_make_what_is_carried_on_where_it_was() {
    let (acts, next, stacks) = (vec![(0, 0, 1), (0, 2, 1), (0, 3, 1)], vec![4], vec![]);
    let (carried, sliced, captured) = (1, 0, 1);
    let recipe = Recipe { len: 16, reverse: false, carried, sliced, captured, acts, next, stacks };
    let places = recipe.planned().plan.bodies.remove(0).places;
    // %2 is the position.
    assert_eq!([0, 3, 4, 5].map(|i| places[i]), [Place::Param(0); 4]);
}

#[test]
fn the_checker_knows_what_an_iteration_copies() {
    let spoilt = |spoil: fn(&mut [Place])| {
        let Compiled { program, mut plan } = swap_and_stack().planned();
        spoil(&mut plan.bodies[0].places);
        check(&program, &plan, &[]).map_or_else(|problems| lines(&problems), |()| String::new())
    };
    assert_eq!(spoilt(|_| {}), "");
    // The first would be overwritten before it is carried on in the second's place.
    let found = spoilt(|places| (places[0], places[1]) = (Place::Param(0), Place::Param(1)));
    assert_eq!(
        found,
        "in a loop: at the end: %0 is not at parameter 0 of its loop, which holds %1"
    );
    let found = spoilt(|places| places[0] = Place::Param(0));
    assert_eq!(
        found,
        "in a loop: at the end: %0 is not at parameter 0 of its loop, which holds %1"
    );
    assert_eq!(spoilt(|places| places[1] = Place::Param(1)), "");
    // An all-reduce is prepared for one place.
    let found = spoilt(|places| places[5] = Place::Stacked(2));
    assert_eq!(found, "in a loop: step 0 all_reduce: %5 is in another place in every iteration");
    let found = spoilt(|places| places[5] = Place::Stacked(0));
    assert_eq!(found, "in a loop: the plan: %5 is in a loop's result 0, which is not there");
    let found = spoilt(|places| places[5] = Place::Param(3));
    assert!(found.contains("%5 overwrites what the loop gave"), "{found}");
    let found = spoilt(|places| places[4] = Place::Param(4));
    assert_eq!(found, "in a loop: the plan: %4 is in a loop's parameter 4, which is not there");
    let found = spoilt(|places| places[2] = Place::Stacked(2));
    assert!(found.contains("parameter 2 is where result 2 is stacked"), "{found}");
}
