use super::*;
use crate::names::{DType, ReduceKind};
use crate::program::sketch::labelled;
use smallvec::smallvec;

const LONG: &[usize] = &[32];

#[test]
fn updates_work_in_the_variables_buffer() {
    let mesh = square();
    let rows = axis(&mesh, "rows");
    let program = built(&mesh, |b| {
        let image = b.fed("image", LONG);
        let old = b.old(0, LONG);
        let gradient = b.of(x(0) * x(1), &[old, image]);
        let gradient = b.all_reduce(ReduceKind::Sum, &[rows], gradient);
        let new = b.of(x(0) - 0.1 * x(1), &[old, gradient]);
        b.write(var(0), new);
        b.fetched("gradient", gradient);
    });
    insta::assert_snapshot!(planned(program, &[variable(LONG)]), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[32] of [32] @ -
      steps
        %1: f32[32] = read var0
        %2: f32[32] = map x0 * x1 of %1[a], %0[a]
        %3: f32[32] = all_reduce sum over rows of %2
        %4: f32[32] = map x0 - (0.1 * x1) of %1[a], %3[a]
        write var0 = %4
      fetches
        gradient = %3: f32[32] of [32] @ -
    arena 128: %0 @0, %1 in var0, %2 @0, %3 @0, %4 in var0
    ");
}

#[test]
fn an_early_update_is_copied_at_the_end() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let old = b.old(0, LONG);
        let new = b.of(x(0) + 1.0, &[old]);
        b.write(var(0), new);
        let late = b.of(x(0) * x(1), &[old, new]);
        b.fetched("late", late);
    });
    insta::assert_snapshot!(planned(program, &[variable(LONG)]), @r"
    program test on rows:2;cols:2
      steps
        %0: f32[32] = read var0
        %1: f32[32] = map x0 + 1 of %0[a]
        %2: f32[32] = map x0 * x1 of %0[a], %1[a]
        write var0 = %1
      fetches
        late = %2: f32[32] of [32] @ -
    arena 256: %0 in var0, %1 @0, %2 @128
    ");
}

#[test]
fn a_turned_access_is_not_in_place() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let old = b.old(0, &[4, 4]);
        let inputs = vec![labelled(old, &[0, 1]), labelled(old, &[1, 0])];
        let new = b.map(inputs, smallvec![4, 4], &(x(0) + x(1)), DType::F32).unwrap();
        b.write(var(0), new);
    });
    insta::assert_snapshot!(planned(program, &[variable(&[4, 4])]), @r"
    program test on rows:2;cols:2
      steps
        %0: f32[4, 4] = read var0
        %1: f32[4, 4] = map x0 + x1 of %0[a, b], %0[b, a]
        write var0 = %1
    arena 64: %0 in var0, %1 @0
    ");
}

#[test]
fn variables_swap() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let (one, two) = (b.old(0, LONG), b.old(1, LONG));
        b.write(var(0), two);
        b.write(var(1), one);
    });
    insta::assert_snapshot!(planned(program, &[variable(LONG), variable(LONG)]), @r"
    program test on rows:2;cols:2
      steps
        %0: f32[32] = read var0
        %1: f32[32] = read var1
        write var0 = %1
        write var1 = %0
    arena 128: %0 @0, %1 in var1
    ");
}

#[test]
fn a_fetched_old_value_survives_its_update() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let old = b.old(0, LONG);
        let flat = b.reshape(old, smallvec![4, 8]);
        let new = b.of(x(0) + 1.0, &[old]);
        b.write(var(0), new);
        b.fetched("flat", flat);
    });
    insta::assert_snapshot!(planned(program, &[variable(LONG)]), @r"
    program test on rows:2;cols:2
      steps
        %0: f32[32] = read var0
        %1: f32[4, 8] = reshape %0
        %2: f32[32] = map x0 + 1 of %0[a]
        write var0 = %2
      fetches
        flat = %1: f32[4, 8] of [4, 8] @ -, -
    arena 128: %0 @0, %1 @0, %2 in var0
    ");
}

#[test]
fn one_value_goes_to_two_variables() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let image = b.fed("image", LONG);
        let new = b.of(x(0).exp(), &[image]);
        b.write(var(0), new);
        b.write(var(1), new);
        let (old, third) = (b.old(2, LONG), b.old(3, LONG));
        b.write(var(2), old);
        b.write(var(3), image);
        b.fetched("third", third);
    });
    let variables = [variable(LONG), variable(LONG), variable(LONG), variable(LONG)];
    insta::assert_snapshot!(planned(program, &variables), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[32] of [32] @ -
      steps
        %1: f32[32] = map exp(x0) of %0[a]
        %2: f32[32] = read var2
        %3: f32[32] = read var3
        write var0 = %1
        write var1 = %1
        write var2 = %2
        write var3 = %0
      fetches
        third = %3: f32[32] of [32] @ -
    arena 256: %0 @0, %1 in var0, %2 in var2, %3 @128
    ");
}

#[test]
fn chains_share_one_buffer() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let image = b.fed("image", LONG);
        let kept = b.of(x(0).tanh(), &[image]);
        let other = b.of(x(0).exp(), &[kept]);
        let other = b.of(x(0) * x(1), &[other, kept]);
        let flat = b.reshape(other, smallvec![8, 4]);
        let sum = b.reduce(ReduceKind::Sum, labelled(flat, &[1, 0]), smallvec![4]);
        b.fetched("sum", sum);
    });
    insta::assert_snapshot!(planned(program, &[]), @r"
    program test on rows:2;cols:2
      feeds
        %0 = image: f32[32] of [32] @ -
      steps
        %1: f32[32] = map tanh(x0) of %0[a]
        %2: f32[32] = map exp(x0) of %1[a]
        %3: f32[32] = map x0 * x1 of %2[a], %1[a]
        %4: f32[8, 4] = reshape %3
        %5: f32[4] = reduce sum of %4[k, a]
      fetches
        sum = %5: f32[4] of [4] @ -
    arena 256: %0 @0, %1 @0, %2 @128, %3 @128, %4 @128, %5 @0
    ");
}

/// A training step of one weight with an activation, for sabotage.
fn trained() -> (Program, Vec<VariableType>) {
    let mesh = square();
    let program = built(&mesh, |b| {
        let image = b.fed("image", LONG); // %0
        let (first, second) = (b.old(0, LONG), b.old(1, LONG)); // %1 %2
        let product = b.of(x(0) * x(1), &[image, first]); // %3
        let hidden = b.of(x(0) + x(1), &[product, second]); // %4
        let loss = b.reduce(ReduceKind::Sum, labelled(hidden, &[0]), smallvec![]); // %5
        let new = b.of(x(0) - x(1), &[first, hidden]); // %6
        b.write(var(0), new);
        b.fetched("loss", loss);
    });
    (program, vec![variable(LONG), variable(LONG)])
}

fn sabotaged(spoil: impl FnOnce(&mut Program, &mut Plan)) -> String {
    let (mut program, variables) = trained();
    let mut plan = plan(&program, &variables);
    spoil(&mut program, &mut plan);
    match check(&program, &plan, &variables) {
        Ok(()) => "right".to_owned(),
        Err(problems) => lines(&problems),
    }
}

#[test]
fn the_checker_finds_sabotage() {
    let (program, variables) = trained();
    let plan = plan(&program, &variables);
    let places = [0, 1, 2, 3, 4, 5, 6].map(|i| plan.places[i]);
    let (zero, one) = (Place::Variable(var(0)), Place::Variable(var(1)));
    let arena = Place::Arena;
    assert_eq!(places, [arena(0), zero, one, arena(0), arena(0), arena(128), zero]);
    assert_eq!(sabotaged(|_, _| {}), "right");

    // A shifted offset.
    let found = sabotaged(|_, plan| plan.places[5] = Place::Arena(132));
    assert_eq!(found, "the plan: %5 is at byte 132, which is not aligned");
    // A second name for half of a buffer.
    let found = sabotaged(|_, plan| plan.places[5] = Place::Arena(64));
    insta::assert_snapshot!(found, @r"
    step 4 reduce: %5 overwrites %4 while it is read
    step 5 map: %4 is not at byte 0, which holds nothing known
    ");
    // Swapped variables.
    let found = sabotaged(|_, plan| plan.places.swap(1, 2));
    insta::assert_snapshot!(found, @r"
    step 1 read: old var1 is not at var1, which holds %1
    at the end: old var1 is not at var1, which holds %1
    ");
    // A read after the write.
    let found = sabotaged(|program, _| {
        program.block.steps.swap(4, 5);
        program.block.steps[5].inputs[0].value = ValueId(1);
    });
    insta::assert_snapshot!(found, @r"step 5 reduce: %1 is not at var0, which holds %6");
    // A fetch overwritten.
    let found = sabotaged(|_, plan| {
        plan.places[5] = Place::Arena(128);
        plan.places[6] = Place::Arena(128);
        plan.arena_bytes = 256;
    });
    insta::assert_snapshot!(found, @r"at the end: %5 is not at byte 128, which holds nothing known");
    // An arena that is too small.
    let found = sabotaged(|_, plan| plan.arena_bytes = 131);
    assert_eq!(found, "the plan: %5 at byte 128 ends beyond the arena");
    // A variable as scratch.
    let found = sabotaged(|_, plan| plan.places[3] = Place::Variable(var(1)));
    insta::assert_snapshot!(found, @r"
    step 3 map: %2 is not at var1, which holds %3
    at the end: old var1 is not at var1, which holds %3
    ");
    // A variable of another size.
    let found = sabotaged(|_, plan| plan.places[5] = Place::Variable(var(1)));
    assert_eq!(found, "the plan: %5 does not fit var1");
    // A feed in a variable.
    let found = sabotaged(|_, plan| plan.places[0] = Place::Variable(var(1)));
    insta::assert_snapshot!(found, @r"
    the parameters: parameter 0 is in var1
    step 1 read: old var1 is not at var1, which holds %0
    at the end: old var1 is not at var1, which holds %0, %2
    ");
    // A place too few.
    let found = sabotaged(|_, plan| plan.places.truncate(6));
    assert_eq!(found, "the plan: 6 places for 7 values");
}

#[test]
fn a_long_backward_pass_needs_no_more_than_its_activations() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let mut value = b.fed("image", LONG);
        let mut kept = Vec::new();
        for step in 0..2000 {
            let scale = f64::from(step);
            value = b.of((x(0) * scale).tanh(), &[value]);
            kept.push(value);
        }
        for earlier in kept.into_iter().rev() {
            value = b.of(x(0) * (1.0 - x(1) * x(1)), &[value, earlier]);
        }
        b.fetched("gradient", value);
    });
    let plan = plan(&program, &[]);
    assert_eq!(plan.arena_bytes, lower_bound(&program, &[]));
    assert_eq!(plan.arena_bytes, 2000 * 128);
    check(&program, &plan, &[]).unwrap();
}
