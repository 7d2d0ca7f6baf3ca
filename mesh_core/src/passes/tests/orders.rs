use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{Extents, Program};
use ndarray::{Array3, Array4};
use smallvec::smallvec;

const BATCH: usize = 2;
const LENGTH: usize = 96;
const HEADS: usize = 4;
const KV: usize = 16;
const MODEL: usize = 32;

/// Attention, its dims declared as batch, length, heads, kv. Keys and values are one.
fn attention(fetches_queries: bool) -> Program {
    built(&Mesh::single(), |b| {
        let x0 = b.fed("x", &[BATCH, LENGTH, MODEL]);
        let w = b.fed("w", &[MODEL, HEADS, KV]);
        let keys = b.fed("keys", &[BATCH, LENGTH, HEADS, KV]);
        let per_head: Extents = smallvec![BATCH, LENGTH, HEADS, KV];
        let scores: Extents = smallvec![BATCH, LENGTH, HEADS, LENGTH];
        let (x0, into) = (labelled(x0, &[0, 1, 4]), labelled(w, &[4, 2, 3]));
        let queries = b.contract(x0, into, per_head.clone());
        let scaled = b.of(x(0) * 0.25, &[queries]);
        let keys_here = b.of(x(0) + x(0), &[keys]);
        let (q, k) = (labelled(scaled, &[0, 1, 2, 4]), labelled(keys_here, &[0, 3, 2, 4]));
        let logits = b.contract(q, k, scores.clone());
        let rows = |value| labelled(value, &[0, 1, 2]);
        let max = b.reduce(ReduceKind::Max, b.whole(logits), smallvec![BATCH, LENGTH, HEADS]);
        let inputs = vec![b.whole(logits), rows(max)];
        let exp = b.map(inputs, scores.clone(), &(x(0) - x(1)).exp(), DType::F32).unwrap();
        let sum = b.reduce(ReduceKind::Sum, b.whole(exp), smallvec![BATCH, LENGTH, HEADS]);
        let inputs = vec![b.whole(exp), rows(sum)];
        let weights = b.map(inputs, scores, &(x(0) / x(1)), DType::F32).unwrap();
        let (weights, v) = (labelled(weights, &[0, 1, 2, 4]), labelled(keys_here, &[0, 4, 2, 3]));
        let seen = b.contract(weights, v, per_head);
        let (seen, back) = (labelled(seen, &[0, 1, 3, 4]), labelled(w, &[2, 3, 4]));
        let result = b.contract(seen, back, smallvec![BATCH, LENGTH, MODEL]);
        b.fetched("result", result);
        if fetches_queries {
            b.fetched("queries", scaled);
        }
    })
}

fn run(compiled: Compiled) -> Vec<Vec<f64>> {
    let x = Array3::from_shape_fn((BATCH, LENGTH, MODEL), |(i, j, k)| {
        ((i * 7 + j * 3 + k) as f32).sin()
    });
    let w = Array3::from_shape_fn((MODEL, HEADS, KV), |(i, j, k)| ((i + j * 5 + k) as f32).cos());
    let shape = (BATCH, LENGTH, HEADS, KV);
    let keys = Array4::from_shape_fn(shape, |(i, j, k, l)| ((i + j * 2 + k * 9 + l) as f32).sin());
    let feeds = [x.view().into(), w.view().into(), keys.view().into()];
    doubles(super::run(&Mesh::single(), compiled, &feeds))
}

/// The memory orders of a program's values with four dims.
fn orders(program: &Program) -> Vec<&[u8]> {
    let values = program.block.values.iter().filter(|value| value.extents.len() == 4);
    values.map(|value| &value.order[..]).collect()
}

#[test]
fn products_per_head_have_heads_outermost() {
    const DECLARED: &[u8] = &[0, 1, 2, 3];
    const HEADS_FIRST: &[u8] = &[0, 2, 1, 3];
    let mut program = attention(false);
    order::run(&mut program.block);
    // What is fed lies as declared; queries, scaled, copied keys, logits, exp, weights, seen do not.
    let found = orders(&program);
    assert_eq!(found[0], DECLARED);
    assert_eq!(found[1..], [HEADS_FIRST; 7]);
    let statistics = program.block.values.iter().filter(|value| value.extents.len() == 3);
    let statistics: Vec<_> = statistics.map(|value| &value.order[..]).collect();
    assert_eq!(statistics[2..4], [[0, 2, 1], [0, 2, 1]]);
    let mut program = attention(true);
    order::run(&mut program.block);
    assert_eq!(orders(&program)[1..4], [DECLARED, DECLARED, HEADS_FIRST]);
}

#[test]
fn attention_is_tiled_per_head_and_stays_what_it_is() {
    let mesh = Mesh::single();
    let with = compiled(attention(false), &mesh, &[], &all());
    let found = loops(&with.program);
    let [tiles] = found[..] else { panic!("attention is not tiled") };
    assert!(tiles.count >= BATCH * HEADS / 4);
    let contracts = |block: &Block| {
        block.steps.iter().filter(|step| matches!(step.form, Form::Contract(_))).count()
    };
    assert_eq!((contracts(&with.program.block), contracts(&tiles.body)), (2, 2));
    let without = compiled(attention(false), &mesh, &[], &[]);
    for (with, without) in run(with)[0].iter().zip(&run(without)[0]) {
        assert!((with - without).abs() <= 1e-5 * without.abs().max(1.0));
    }
}

/// A loop whose iterations make queries per head, which it stacks, and scores of them; another that reads the queries
/// backwards. `shown`: the stack is fetched as well.
fn stacked(shown: bool) -> Program {
    let mesh = Mesh::single();
    let per_head: Extents = smallvec![BATCH, LENGTH, HEADS, KV];
    let mut b = Builder::new("body", &mesh);
    let (h, w) =
        (b.param(DType::F32, [BATCH, LENGTH, MODEL]), b.param(DType::F32, [MODEL, HEADS, KV]));
    b.param(DType::I32, []);
    let queries = b.contract(labelled(h, &[0, 1, 4]), labelled(w, &[4, 2, 3]), per_head.clone());
    let scores: Extents = smallvec![BATCH, LENGTH, HEADS, LENGTH];
    let (q, k) = (labelled(queries, &[0, 1, 2, 4]), labelled(queries, &[0, 3, 2, 4]));
    let scores = b.contract(q, k, scores);
    let seen =
        b.contract(labelled(scores, &[0, 1, 2, 4]), labelled(queries, &[0, 4, 2, 3]), per_head);
    let next = b.contract(
        labelled(seen, &[0, 1, 3, 4]),
        labelled(w, &[2, 3, 4]),
        smallvec![BATCH, LENGTH, MODEL],
    );
    b.result(next);
    b.result(queries);
    let first = Box::new(b.finish().block);
    let mut b = Builder::new("back", &mesh);
    let (h, queries) = (
        b.param(DType::F32, [BATCH, LENGTH, MODEL]),
        b.param(DType::F32, [BATCH, LENGTH, HEADS, KV]),
    );
    let w = b.param(DType::F32, [MODEL, HEADS, KV]);
    b.param(DType::I32, []);
    let back = b.contract(
        labelled(queries, &[0, 1, 3, 4]),
        labelled(w, &[2, 3, 4]),
        smallvec![BATCH, LENGTH, MODEL],
    );
    let next = b.of(x(0) * 0.5 + x(1), &[h, back]);
    b.result(next);
    let second = Box::new(b.finish().block);
    built(&mesh, |b| {
        let (h, w) = (b.fed("h", &[BATCH, LENGTH, MODEL]), b.fed("w", &[MODEL, HEADS, KV]));
        let form = |body, reverse, sliced| Loop {
            body,
            count: 3,
            reverse,
            conditional: false,
            carried: 1,
            sliced,
        };
        let small = b.of(x(0) * 0.01, &[w]);
        let outs = b.repeat(form(first, false, 0), &[h, small]);
        let back = b.repeat(form(second, true, 1), &[outs[0], outs[1], small]);
        b.fetched("back", back[0]);
        if shown {
            b.fetched("queries", outs[1]);
        }
    })
}

/// What one loop keeps for another lies as the first wishes it, unless somebody else looks at it.
#[test]
fn what_is_kept_between_loops_lies_as_it_was_made() {
    let mesh = Mesh::single();
    for shown in [false, true] {
        let order = if shown { [0, 1, 2, 3] } else { [0, 2, 1, 3] };
        let with = compiled(stacked(shown), &mesh, &[], &all());
        let found = loops(&with.program);
        let given = found.iter().find(|form| form.reverse).unwrap();
        assert_eq!(
            given.body.value(given.body.params[1]).order[..],
            order,
            "{}",
            print(&with.program, &mesh)
        );
        let left = found.iter().find(|form| form.stacks().len() == 1 && form.carried == 1).unwrap();
        assert_eq!(left.body.value(left.body.results[1]).order[..], order);
        let x = Array3::from_shape_fn((BATCH, LENGTH, MODEL), |(i, j, k)| {
            ((i * 7 + j * 3 + k) as f32).sin()
        });
        let w =
            Array3::from_shape_fn((MODEL, HEADS, KV), |(i, j, k)| ((i + j * 5 + k) as f32).cos());
        let run =
            |compiled| doubles(super::run(&mesh, compiled, &[x.view().into(), w.view().into()]));
        let (found, expected) = (run(with), run(compiled(stacked(shown), &mesh, &[], &[])));
        let all = |numbers: Vec<Vec<f64>>| numbers.into_iter().flatten().collect::<Vec<_>>();
        for (found, expected) in all(found).iter().zip(&all(expected)) {
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{found} {expected}"
            );
        }
    }
}
