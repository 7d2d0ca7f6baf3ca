use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::sketch::{labelled, origin};
use crate::program::{Extents, Offset};
use smallvec::smallvec;

/// The program after one pass, or `unchanged`.
fn after(run: fn(&mut Block), variables: &[VariableType], program: &Program) -> String {
    let mesh = square();
    verify(program, &mesh, variables).unwrap();
    let mut changed = program.clone();
    run(&mut changed.block);
    verify(&changed, &mesh, variables).unwrap();
    if changed == *program { "unchanged".to_owned() } else { print(&changed, &mesh) }
}

#[test]
fn steps_that_nobody_needs_go() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let unused = b.fed("unused", &[4]);
        let image = b.fed("image", &[4]);
        let dead = b.of(x(0) + x(0), &[unused]);
        let kept = b.of(x(0) * x(0), &[image]);
        let old = b.old(0, &[4]);
        b.of(x(0), &[dead]);
        b.write(var(1), old);
        b.fetched("kept", kept);
    });
    insta::assert_snapshot!(after(dead::run, &[variable(&[4]), variable(&[4])], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = unused: f32[4] of [4] @ -
        %1 = image: f32[4] of [4] @ -
      steps
        %2: f32[4] = map x0 * x0 of %1[a]
        %3: f32[4] = read var0
        write var1 = %3
      fetches
        kept = %2: f32[4] of [4] @ -
    ");
}

#[test]
fn what_nobody_needs_is_not_sorted_along() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let keys = b.fed("keys", &[4]);
        let (dead, kept) = (b.of(x(0).exp(), &[keys]), b.of(x(0).tanh(), &[keys]));
        let inputs = [b.whole(keys), b.whole(dead), b.whole(kept)];
        let sorted = b.sort(&inputs, 0, false, &smallvec![2]);
        b.fetched("kept", sorted[2]);
    });
    insta::assert_snapshot!(after(dead::run, &[], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = keys: f32[4] of [4] @ -
      steps
        %1: f32[4] = map tanh(x0) of %0[a]
        %2: f32[2], %3: f32[2] = sort ascending along a of %0[a], %1[a]
      fetches
        kept = %3: f32[2] of [2] @ -
    ");
}

#[test]
fn dead_pairs_leave_an_all_reduce() {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    let mut program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let dead = b.of(x(0).exp(), &[image]);
        let kept = b.all_reduce(ReduceKind::Sum, &[rows], image);
        b.all_reduce(ReduceKind::Sum, &[rows], dead);
        b.fetched("kept", kept);
    });
    // The builder makes no all-reduce of several values: join the two.
    let second = program.block.steps.remove(2);
    let first = &mut program.block.steps[1];
    first.inputs.extend(second.inputs);
    first.outs.extend(second.outs);
    insta::assert_snapshot!(print(&program, &mesh), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4] of [4] @ -
      steps
        %1: f32[4] = map exp(x0) of %0[a]
        %2: f32[4], %3: f32[4] = all_reduce sum over rows of %0, %1
      fetches
        kept = %2: f32[4] of [4] @ -
    ");
    insta::assert_snapshot!(after(dead::run, &[], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4] of [4] @ -
      steps
        %1: f32[4] = all_reduce sum over rows of %0
      fetches
        kept = %1: f32[4] of [4] @ -
    ");
}

#[test]
fn equal_steps_become_one() {
    let mesh = square();
    let cols = axis(&mesh, "cols");
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4, 4]);
        let twice = |b: &mut Builder<'_>| {
            let old = b.old(0, &[4, 4]);
            let turned = b.transpose(old, &[1, 0]);
            let (lhs, rhs) = (labelled(turned, &[0, 2]), labelled(image, &[2, 1]));
            let product = b.contract(lhs, rhs, smallvec![4, 4]);
            b.all_reduce(ReduceKind::Sum, &[cols], product)
        };
        let (one, two) = (twice(b), twice(b));
        let difference = b.of(x(0) - x(1), &[one, two]);
        b.fetched("difference", difference);
        b.fetched("two", two);
    });
    insta::assert_snapshot!(after(cse::run, &[variable(&[4, 4])], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4, 4] of [4, 4] @ -, -
      steps
        %1: f32[4, 4] = read var0
        %2: f32[4, 4] = move %1[b, a]
        %3: f32[4, 4] = contract %2[a, k] * %0[k, b]
        %4: f32[4, 4] = all_reduce sum over cols of %3
        %5: f32[4, 4] = map x0 - x1 of %4[a, b], %4[a, b]
      fetches
        difference = %5: f32[4, 4] of [4, 4] @ -, -
        two = %4: f32[4, 4] of [4, 4] @ -, -
    ");
}

#[test]
fn unequal_steps_stay_two() {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4, 4]);
        let noise = |b: &mut Builder<'_>, key, axis| {
            let noise = Generator::Uniform { key, low: 0.0, high: 1.0 };
            let begin = vec![Offset::sliced(&[axis], 4)];
            b.generate(noise, DType::F32, begin, smallvec![8], smallvec![4])
        };
        let values = [
            noise(b, 1, rows),
            noise(b, 2, rows),
            noise(b, 1, cols),
            b.reduce(ReduceKind::Sum, labelled(image, &[0, 1]), smallvec![4]),
            b.reduce(ReduceKind::Sum, labelled(image, &[1, 0]), smallvec![4]),
            b.reduce(ReduceKind::Max, labelled(image, &[1, 0]), smallvec![4]),
            b.old(0, &[4]),
            b.old(1, &[4]),
        ];
        b.reduce(ReduceKind::Sum, labelled(image, &[0, 1]), smallvec![]);
        b.reshape(image, smallvec![16]);
        b.reshape(image, smallvec![8, 2]);
        for value in values {
            b.fetched("value", value);
        }
    });
    let variables = [variable(&[4]), variable(&[4])];
    assert_eq!(after(cse::run, &variables, &program), "unchanged");
}

#[test]
fn tables_are_equal_by_address() {
    let mesh = square();
    let table = std::sync::Arc::new(crate::array::Array::zeros(DType::F32, &[4]));
    let copy = std::sync::Arc::new(table.as_ref().clone());
    let program = built(&mesh, |b| {
        for table in [&table, &table, &copy] {
            let global = Extents::from_slice(&[4]);
            let table = Generator::Table(table.clone());
            let value = b.generate(table, DType::F32, origin(1), global.clone(), global);
            b.fetched("table", value);
        }
    });
    insta::assert_snapshot!(after(cse::run, &[], &program), @r"
    program test on rows:2;cols:2
      steps
        %0: f32[4] = generate table from [0] of [4]
        %1: f32[4] = generate table from [0] of [4]
      fetches
        table = %0: f32[4] of [4] @ -
        table = %0: f32[4] of [4] @ -
        table = %1: f32[4] of [4] @ -
    ");
}

#[test]
fn chains_of_sums_owe_one_reduction() {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let mut total = b.all_reduce(ReduceKind::Sum, &[rows], image);
        for scale in [2.0, 3.0] {
            let partial = b.of(x(0) * scale, &[image]);
            let sum = b.all_reduce(ReduceKind::Sum, &[rows], partial);
            total = b.of(x(1) - x(0), &[total, sum]);
        }
        b.fetched("total", total);
    });
    insta::assert_snapshot!(after(merge_sums::run, &[], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4] of [4] @ -
      steps
        %1: f32[4] = map x0 * 2 of %0[a]
        %2: f32[4] = map x1 - x0 of %0[a], %1[a]
        %3: f32[4] = map x0 * 3 of %0[a]
        %4: f32[4] = map x1 - x0 of %2[a], %3[a]
        %5: f32[4] = all_reduce sum over rows of %4
      fetches
        total = %5: f32[4] of [4] @ -
    ");
}

#[test]
fn scattered_sums_merge_too() {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4, 8]);
        let other = b.fed("other", &[4, 8]);
        let one = b.reduce_scatter(ReduceKind::Sum, &[rows, cols], 1, image);
        let two = b.reduce_scatter(ReduceKind::Sum, &[rows, cols], 1, other);
        let sum = b.of(x(0) + x(1), &[one, two]);
        b.fetched("sum", sum);
    });
    insta::assert_snapshot!(after(merge_sums::run, &[], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4, 8] of [4, 8] @ -, -
        %1 = other: f32[4, 8] of [4, 8] @ -, -
      steps
        %2: f32[4, 8] = map x0 + x1 of %0[a, b], %1[a, b]
        %3: f32[4, 2] = reduce_scatter sum dim 1 over rows+cols of %2
      fetches
        sum = %3: f32[4, 2] of [4, 2] @ -, -
    ");
}

#[test]
fn what_must_not_merge() {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    let sum = ReduceKind::Sum;
    let unchanged = |build: &dyn Fn(&mut Builder<'_>, ValueId)| {
        let program = built(&mesh, |b| {
            let image = b.fed("image", &[4, 4]);
            build(b, image);
        });
        assert_eq!(after(merge_sums::run, &[], &program), "unchanged");
    };
    let join = |b: &mut Builder<'_>, one, two| {
        let joined = b.of(x(0) + x(1), &[one, two]);
        b.fetched("joined", joined);
    };
    // Used elsewhere.
    unchanged(&|b, image| {
        let one = b.all_reduce(sum, &[rows], image);
        let two = b.all_reduce(sum, &[rows], image);
        b.fetched("one", one);
        join(b, one, two);
    });
    // Other axes.
    unchanged(&|b, image| {
        let one = b.all_reduce(sum, &[rows], image);
        let two = b.all_reduce(sum, &[cols], image);
        join(b, one, two);
    });
    // Not sums.
    unchanged(&|b, image| {
        let one = b.all_reduce(ReduceKind::Max, &[rows], image);
        let two = b.all_reduce(ReduceKind::Max, &[rows], image);
        join(b, one, two);
    });
    // Scattered along other dims.
    unchanged(&|b, image| {
        let one = b.reduce_scatter(sum, &[rows], 0, image);
        let two = b.reduce_scatter(sum, &[rows], 1, image);
        let two = b.reshape(two, smallvec![2, 4]);
        join(b, one, two);
    });
    // Not additive.
    unchanged(&|b, image| {
        let one = b.all_reduce(sum, &[rows], image);
        let two = b.all_reduce(sum, &[rows], image);
        let product = b.of(x(0) * x(1), &[one, two]);
        b.fetched("product", product);
    });
    // Turned.
    unchanged(&|b, image| {
        let one = b.all_reduce(sum, &[rows], image);
        let two = b.all_reduce(sum, &[rows], image);
        let inputs = vec![labelled(one, &[0, 1]), labelled(two, &[1, 0])];
        let joined = b.map(inputs, smallvec![4, 4], &(x(0) + x(1)), DType::F32).unwrap();
        b.fetched("joined", joined);
    });
    // Nothing to merge with.
    unchanged(&|b, image| {
        let one = b.all_reduce(sum, &[rows], image);
        join(b, one, one);
    });
}

#[test]
fn what_frees_memory_moves_up() {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    let program = built(&mesh, |b| {
        let image = b.fed("image", &[4]);
        let inputs = || vec![labelled(image, &[0]), labelled(image, &[1])];
        let large = b.map(inputs(), smallvec![4, 4], &(x(0) * x(1)), DType::F32).unwrap();
        let used = b.map(inputs(), smallvec![4, 4], &(x(0) + x(1)), DType::F32).unwrap();
        let later = b.of(x(0) + x(1), &[used, used]);
        let part = b.reduce_scatter(ReduceKind::Sum, &[rows], 0, large);
        let small = b.reduce(ReduceKind::Sum, labelled(part, &[0, 1]), smallvec![2]);
        let kept = b.reduce(ReduceKind::Sum, labelled(used, &[0, 1]), smallvec![4]);
        b.fetched("small", small);
        b.fetched("kept", kept);
        b.fetched("later", later);
    });
    // The scattered sum follows what it sums, the sum of that follows it. `used` is used twice.
    insta::assert_snapshot!(after(early::run, &[], &program), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[4] of [4] @ -
      steps
        %1: f32[4, 4] = map x0 * x1 of %0[a], %0[b]
        %2: f32[2, 4] = reduce_scatter sum dim 0 over rows of %1
        %3: f32[2] = reduce sum of %2[a, k]
        %4: f32[4, 4] = map x0 + x1 of %0[a], %0[b]
        %5: f32[4, 4] = map x0 + x1 of %4[a, b], %4[a, b]
        %6: f32[4] = reduce sum of %4[a, k]
      fetches
        small = %3: f32[2] of [2] @ -
        kept = %6: f32[4] of [4] @ -
        later = %5: f32[4, 4] of [4, 4] @ -, -
    ");
}

/// The forms of the steps of an update of a variable, after the product that is its gradient and steps
/// that have nothing to do with it; the variable is read once more before or behind that product.
fn update(reads_behind: bool) -> Vec<&'static str> {
    let mesh = square();
    let mut program = built(&mesh, |b| {
        let image = b.fed("image", &[4, 4]);
        let old = b.old(0, &[4, 4]);
        let product = |b: &mut Builder<'_>, lhs| {
            b.contract(labelled(lhs, &[0, 2]), labelled(image, &[2, 1]), smallvec![4, 4])
        };
        if !reads_behind {
            let read = product(b, old);
            b.fetched("read", read);
        }
        let gradient = product(b, image);
        let between = b.reduce(ReduceKind::Sum, labelled(image, &[0, 1]), smallvec![4]);
        b.fetched("between", between);
        if reads_behind {
            let read = product(b, old);
            b.fetched("read", read);
        }
        let new = b.of(x(0) - x(1), &[old, gradient]);
        b.write(var(0), new);
    });
    early::run(&mut program.block);
    program.steps().iter().map(|step| step.form.name()).collect()
}

#[test]
fn an_update_follows_its_gradient_unless_the_old_value_is_read_behind() {
    assert_eq!(update(false), ["read", "contract", "contract", "map", "reduce", "write"]);
    assert_eq!(update(true), ["read", "contract", "reduce", "contract", "map", "write"]);
}
