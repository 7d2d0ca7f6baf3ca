use super::super::combine;
use super::*;
use crate::names::{DType, ReduceKind};
use ReduceKind::{Max, Sum};

/// The program after combining.
fn combined(program: &Program) -> Program {
    let mesh = square();
    verify(program, &mesh, &[]).unwrap();
    let mut changed = program.clone();
    combine::run(&mut changed.block, &host());
    verify(&changed, &mesh, &[]).unwrap();
    changed
}

/// How many values each all-reduce is of.
fn sizes(program: &Program) -> Vec<usize> {
    let steps = program.steps().iter();
    let all_reduces = steps.filter(|step| matches!(step.form, Form::AllReduce(_)));
    all_reduces.map(|step| step.outs.len()).collect()
}

/// Two chains of two sums each, one behind the other.
fn chains(extents: &[usize]) -> Program {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    built(&mesh, |b| {
        for name in ["one", "two"] {
            let fed = b.fed(name, extents);
            let first = b.all_reduce(Sum, &[rows], fed);
            let second = b.of(x(0) * x(1), &[first, fed]);
            let second = b.all_reduce(Sum, &[rows], second);
            let end = b.of(x(0).exp(), &[second]);
            b.fetched(name, end);
        }
    })
}

#[test]
fn equal_stages_of_chains_meet_once() {
    insta::assert_snapshot!(print(&combined(&chains(&[4])), &square()), @r"
    program test on rows:2;cols:2
      feeds
        %0 = one: f32[4] of [4] @ -
        %1 = two: f32[4] of [4] @ -
      steps
        %2: f32[4], %3: f32[4] = all_reduce sum over rows of %0, %1
        %4: f32[4] = map x0 * x1 of %2[a], %0[a]
        %5: f32[4] = map x0 * x1 of %3[a], %1[a]
        %6: f32[4], %7: f32[4] = all_reduce sum over rows of %4, %5
        %8: f32[4] = map exp(x0) of %6[a]
        %9: f32[4] = map exp(x0) of %7[a]
      fetches
        one = %8: f32[4] of [4] @ -
        two = %9: f32[4] of [4] @ -
    ");
}

#[test]
fn what_is_large_stays_alone() {
    // 16 KiB may meet others, up to 64 KiB; more may not.
    assert_eq!(sizes(&combined(&chains(&[4096]))), [2, 2]);
    assert_eq!(sizes(&combined(&chains(&[4097]))), [1, 1, 1, 1]);
    let mesh = square();
    let rows = axis(&mesh, "rows");
    let nine = built(&mesh, |b| {
        for i in 0..9 {
            let fed = b.fed(&format!("f{i}"), &[4096]);
            let sum = b.all_reduce(Sum, &[rows], fed);
            b.fetched(&format!("s{i}"), sum);
        }
    });
    assert_eq!(sizes(&combined(&nine)), [4, 4, 1]);
}

#[test]
fn unlike_sums_stay_apart() {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let other = b.map(
            vec![b.whole(image)],
            [4].into_iter().collect(),
            &x(0).cast(DType::F64),
            DType::F64,
        );
        let results = [
            b.all_reduce(Sum, &[rows], image),
            b.all_reduce(Max, &[rows], image),
            b.all_reduce(Sum, &[cols], image),
            b.all_reduce(Sum, &[rows, cols], image),
            b.all_reduce(Sum, &[rows], other.unwrap()),
        ];
        results.iter().enumerate().for_each(|(i, &sum)| b.fetched(&format!("s{i}"), sum));
    });
    assert_eq!(combined(&program), program);
}

#[test]
fn not_much_is_kept_for_it() {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    // What waits for the first sum reads a large value that would die there.
    let program = |elements: usize| {
        built(&mesh, |b| {
            let fed = b.fed("fed", &[elements]);
            let large = b.of(x(0).exp(), &[fed]);
            let part = b.reduce(Sum, b.whole(large), Default::default());
            let scale = b.all_reduce(Sum, &[rows], part);
            let extents = b.value(large).extents.clone();
            let scale = crate::program::sketch::labelled(scale, &[]);
            let small = b.map(vec![b.whole(large), scale], extents, &(x(0) * x(1)), DType::F32);
            let small = b.reduce(Sum, b.whole(small.unwrap()), Default::default());
            b.fetched("small", small);
            let later = b.fed("later", &[]);
            let later = b.all_reduce(Sum, &[rows], later);
            b.fetched("later", later);
        })
    };
    assert_eq!(sizes(&combined(&program(1 << 20))), [2]);
    assert_eq!(sizes(&combined(&program((1 << 20) + 1))), [1, 1]);
}
