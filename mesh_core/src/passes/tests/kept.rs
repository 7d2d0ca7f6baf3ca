//! What a loop keeps for another, and what that makes again.

use super::super::kept;
use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::Origin;
use crate::program::sketch::labelled;
use ndarray::{Array1, Array2};
use proptest::prelude::*;
use smallvec::smallvec;

/// How far sums of 2^20 terms of f32 may be apart that are added in different orders, relative to the result.
const NEAR: f64 = 1e-3;
const COUNT: usize = 3;
const LEN: usize = 16;

/// What an iteration of the first loop makes next of two values it has, and whether it stacks that.
#[derive(Clone, Copy, Debug)]
struct Act {
    form: u8,
    one: usize,
    two: usize,
    stacks: bool,
}

/// The body of the first loop: given what is carried, a slice, what is captured and the position.
fn forward(mesh: &Mesh, acts: &[Act], len: usize) -> (Box<Block>, usize) {
    let mut b = Builder::new("body", mesh);
    let mut values: Vec<_> = (0..3).map(|_| b.param(DType::F32, [len])).collect();
    let position = b.param(DType::I32, []);
    let mut stacked = Vec::new();
    for act in acts {
        let (one, two) = (values[act.one % values.len()], values[act.two % values.len()]);
        let made = match act.form {
            0 => b.of(x(0) * x(1), &[one, two]),
            1 => b.of(x(0).tanh(), &[one]),
            2 => {
                let inputs = vec![b.whole(one), labelled(position, &[])];
                let counted = x(0) + x(1).cast(DType::F32) * 0.25;
                b.map(inputs, smallvec![len], &counted, DType::F32).unwrap()
            }
            3 => {
                let sum = b.reduce(ReduceKind::Max, labelled(one, &[0]), smallvec![]);
                let inputs = vec![labelled(sum, &[]), b.whole(two)];
                b.map(inputs, smallvec![len], &(x(0) - x(1)), DType::F32).unwrap()
            }
            4 => {
                let square = b.reshape(one, smallvec![4, len / 4]);
                let square = b.of(x(0) + 1.0, &[square]);
                b.reshape(square, smallvec![len])
            }
            5 => b.of(x(0) + x(1), &[one, two]),
            // What is given, as it is.
            _ => one,
        };
        values.push(made);
        stacked.extend(act.stacks.then_some(made));
    }
    let last = values[values.len() - 1];
    let next = b.of(x(0) * 0.5 + x(1), &[values[0], last]);
    b.result(next);
    stacked.iter().for_each(|value| b.result(*value));
    (Box::new(b.finish().block), stacked.len())
}

/// The body of the second: adds to what is carried the product of it with each slice of what was stacked, and its sum.
fn backward(mesh: &Mesh, stacks: usize, len: usize) -> Box<Block> {
    let mut b = Builder::new("back", mesh);
    let mut carried = b.param(DType::F32, [len]);
    let slices: Vec<_> = (0..stacks).map(|_| b.param(DType::F32, [len])).collect();
    b.param(DType::I32, []);
    for slice in slices {
        let sum = b.reduce(ReduceKind::Sum, labelled(slice, &[0]), smallvec![]);
        let inputs = vec![b.whole(carried), b.whole(slice), labelled(sum, &[])];
        let next = x(0) * 0.5 + (x(1) * x(0)).tanh() + x(2) * 0.01;
        carried = b.map(inputs, smallvec![len], &next, DType::F32).unwrap();
    }
    b.result(carried);
    Box::new(b.finish().block)
}

/// A loop, and another that reads backwards what it stacks; who is shown is stacked for others as well.
fn pair(acts: &[Act], shows: Option<usize>, len: usize) -> Program {
    let mesh = Mesh::single();
    built(&mesh, |b| {
        let (h, w, c) = (b.fed("h", &[len]), b.fed("w", &[COUNT, len]), b.fed("c", &[len]));
        let (h, c) = (b.of(x(0) + 0.5, &[h]), b.of(x(0) * 0.5, &[c]));
        let (body, stacks) = forward(&mesh, acts, len);
        let form =
            Loop { body, count: COUNT, reverse: false, conditional: false, carried: 1, sliced: 1 };
        let outs = b.repeat(form, &[h, w, c]);
        // As a gradient's loop, it is given the weights as well.
        let (carried, sliced) = (1, 1 + stacks);
        let body = backward(&mesh, sliced, len);
        let back = Loop { body, count: COUNT, reverse: true, conditional: false, carried, sliced };
        let given: Vec<_> = [outs[0], w].iter().chain(&outs[1..]).copied().collect();
        let found = b.repeat(back, &given);
        b.fetched("last", found[0]);
        if let Some(shown) = shows.and_then(|shown| outs.get(1 + shown)) {
            b.fetched("shown", *shown);
        }
    })
}

fn numbers(compiled: Compiled, len: usize) -> Vec<Vec<f64>> {
    let number = |i: usize| ((i as f32) * 0.37).sin() * 2.0;
    let h = Array1::from_shape_fn(len, number);
    let w = Array2::from_shape_fn((COUNT, len), |(i, j)| number(7 * i + j));
    let c = Array1::from_shape_fn(len, |i| number(i + 5));
    doubles(run(&Mesh::single(), compiled, &[h.view().into(), w.view().into(), c.view().into()]))
}

/// The program with what is cheapest kept, however little that is; compiled by all passes.
fn kept_within(mut program: Program) -> Compiled {
    improve(&mut program, &Mesh::single(), &[], AllReduce::Direct, &PORTABLE).unwrap();
    kept::run_within(&mut program.block, &host(), 0);
    compiled(program, &Mesh::single(), &[], &all())
}

fn bits(numbers: &[Vec<f64>]) -> Vec<u64> {
    numbers.iter().flatten().map(|number| number.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever is made again, made it is of the same bits, and no more is stacked than before.
    #[test]
    fn what_is_made_again_has_the_same_bits(
        acts in prop::collection::vec((0..8_u8, 0..9_usize, 0..9_usize, any::<bool>()), 1..9),
        shows in prop::option::of(0..4_usize),
    ) {
        let acts: Vec<_> = acts
            .into_iter()
            .map(|(form, one, two, stacks)| Act { form, one, two, stacks })
            .collect();
        let program = pair(&acts, shows, LEN);
        let without = compiled(program.clone(), &Mesh::single(), &[], &without(PassId::KeptValues));
        let with = kept_within(program);
        let found = [&with, &without].map(stacked);
        prop_assert!(found[0] <= found[1], "{found:?} {}", print(&with.program, &Mesh::single()));
        prop_assert_eq!(bits(&numbers(with, LEN)), bits(&numbers(without, LEN)));
    }
}

const fn act(form: u8, one: usize, two: usize, stacks: bool) -> Act {
    Act { form, one, two, stacks }
}

/// Values 3 to 6 of the first body: a product, its tanh, the product of that with the slice, twice the captured value.
const CHAIN: [Act; 4] =
    [act(0, 0, 1, true), act(1, 3, 3, true), act(0, 4, 1, true), act(5, 2, 2, true)];

/// The two loops of a pair.
fn both(compiled: &Compiled) -> [&Loop; 2] {
    let found: Vec<_> =
        loops(&compiled.program).into_iter().filter(|form| form.carried == 1).collect();
    let [first, second] = found[..] else { panic!("{} loops", found.len()) };
    [first, second]
}

/// Bytes that the first loop stacks in an iteration.
fn stacked(compiled: &Compiled) -> usize {
    let [first, _] = both(compiled);
    first.stacks().map(|i| first.body.value(first.body.results[i]).bytes()).sum()
}

/// How many operations a block and the loops in it do again.
fn again(block: &Block) -> usize {
    let own = block.steps.iter().flat_map(|step| step.origin.operations());
    own.filter(|origin| origin.again).count()
        + block.loops().map(|(_, form)| again(&form.body)).sum::<usize>()
}

/// How many values the first loop stacks, and how many operations the second does again.
fn choice(compiled: &Compiled) -> (usize, usize) {
    let [first, second] = both(compiled);
    (first.stacks().len(), again(&second.body))
}

/// A large product is kept, and so is its tanh, which takes too long; what is one product away from these and from
/// what is there anyway is made again.
#[test]
fn what_costs_less_is_made_again() {
    const LARGE: usize = 1 << 20;
    let mut program = pair(&CHAIN[..3], None, LARGE);
    for step in &mut program.block.steps {
        let Form::Loop(form) = &mut step.form else { continue };
        for (i, step) in (0..).zip(&mut form.body.steps) {
            step.origin = std::sync::Arc::new(Origin { name: format!("{i}"), ..Origin::default() });
        }
    }
    let with = compiled(program.clone(), &Mesh::single(), &[], &all());
    assert_eq!(choice(&with).0, 2, "{}", print(&with.program, &Mesh::single()));
    assert!(choice(&with).1 > 0);
    let left_out = without(PassId::KeptValues);
    let without = compiled(program, &Mesh::single(), &[], &left_out);
    assert_eq!(choice(&without), (3, 0));
    assert!(with.plan.arena_bytes < without.plan.arena_bytes);
    // Sums over tiles are of other tiles.
    let [with, without] = [with, without].map(|compiled| numbers(compiled, LARGE).concat());
    for (with, without) in with.iter().zip(&without) {
        assert!((with - without).abs() <= NEAR * without.abs().max(1.0), "{with} {without}");
    }
}

/// What fits in caches is kept.
#[test]
fn little_is_kept() {
    let program = pair(&CHAIN, None, LEN);
    assert_eq!(choice(&compiled(program.clone(), &Mesh::single(), &[], &all())), (4, 0));
    let (stacks, again) = choice(&kept_within(program));
    assert!(stacks < 4 && again > 0, "{stacks} {again}");
}

/// A value that is stacked or sliced twice is so once.
#[test]
fn what_is_stacked_twice_is_one() {
    let twice = [act(1, 0, 0, true), act(6, 3, 3, true), act(6, 3, 3, true)];
    let program = pair(&twice, None, LEN);
    let with = compiled(program.clone(), &Mesh::single(), &[], &all());
    let [first, second] = both(&with);
    assert_eq!((first.stacks().len(), second.sliced), (1, 2));
    let apart = compiled(program, &Mesh::single(), &[], &without(PassId::CommonSubexpressions));
    assert_eq!(choice(&apart).0, 3);
    assert_eq!(bits(&numbers(with, LEN)), bits(&numbers(apart, LEN)));
}
