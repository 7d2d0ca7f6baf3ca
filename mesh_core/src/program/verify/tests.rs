use super::*;
use crate::names::{AxisList, DType, ReduceKind};
use crate::program::sketch::{
    axis, built, every_form, every_variable, labelled, origin, square, var,
};
use crate::program::{
    Body, Expr, Extents, Generator, Instr, Offset, Operand, PoolKind, Prim, Reg, Scalar, forms,
};
use smallvec::smallvec;

fn problems(spoil: impl FnOnce(&mut Program)) -> String {
    let mesh = square();
    let mut program = built(&mesh, every_form);
    spoil(&mut program);
    match verify(&program, &mesh, &every_variable()) {
        Ok(()) => "legal".to_owned(),
        Err(problems) => texts(&problems).join("\n"),
    }
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn step(index: usize, spoil: impl FnOnce(&mut Step)) -> String {
    problems(|program| spoil(&mut program.block.steps[index]))
}

macro_rules! spoil {
    ($index:literal, $form:ident { $($field:ident),* } => $change:expr) => {
        step($index, |step| {
            let Form::$form(forms::$form { $($field,)* .. }) = &mut step.form else {
                panic!("{}", step.form.name())
            };
            $change;
        })
    };
}

/// `text` behind the words that begin each message of a step.
#[track_caller]
fn refused(found: &str, step: &str, text: &str) {
    assert_eq!(found, format!("step {step} (op_1 at src/main.rs:7): {text}"));
}

#[test]
fn every_form_has_a_legal_step() {
    assert_eq!(problems(|_| {}), "legal");
}

#[test]
fn values_are_defined_once_before_use() {
    let found = problems(|program| drop(program.block.steps.remove(8)));
    assert_eq!(
        found,
        "step 8 all_reduce (op_1 at src/main.rs:7): %9 is used before it is defined\n\
         value %9: is never defined"
    );
    let found = problems(|program| program.block.steps.insert(1, program.block.steps[0].clone()));
    refused(&found, "1 read", "%1 is defined twice");
    let found = step(9, |step| step.inputs[0].value = ValueId(99));
    refused(&found, "9 all_reduce", "there is no value %99");
    let found = problems(|program| program.block.values[3].extents[0] = 0);
    assert_eq!(found, "value %3: has an empty extent: [0, 6]");
    let found = problems(|program| program.block.values[3].order = smallvec![1, 1]);
    assert_eq!(found, "value %3: has no memory order: [1, 1]");
    let found = problems(|program| program.block.values[3].extents[0] = usize::MAX);
    assert_eq!(found, format!("value %3: is too large: [{}, 6]", usize::MAX));
}

#[test]
fn slots_multiply_to_their_global_shape() {
    let rows = axis(&square(), "rows");
    let split = |dims: [&[crate::names::Axis]; 2], shape: [usize; 2]| {
        problems(|program| {
            program.fetches[0].split = dims.map(AxisList::from_slice).to_vec();
            program.fetches[0].shape = shape.to_vec();
        })
    };
    assert_eq!(split([&[rows], &[]], [8, 4]), "legal");
    assert_eq!(
        split([&[rows], &[]], [4, 4]),
        "fetch moved: dim 0 is 2 parts of 4, but its global size is 4"
    );
    assert_eq!(split([&[rows], &[rows]], [8, 8]), "fetch moved: axis rows is listed twice");
    let found = problems(|program| program.fetches[0].shape.push(1));
    assert_eq!(found, "fetch moved: 2 dims, but 3 global sizes and 2 splits");
}

#[test]
fn operands_agree_on_labels() {
    let found = step(3, |step| step.inputs[0].dims = smallvec![0, 0]);
    refused(&found, "3 contract", "%3 has label 0 twice");
    let found = step(3, |step| step.inputs[0].dims = smallvec![0]);
    refused(&found, "3 contract", "%3 has 2 dims, but 1 labels");
    let found = step(3, |step| step.inputs[0].dims = smallvec![2, 0]);
    refused(&found, "3 contract", "label 0 is 16, but 6 in lhs");
    let found = step(3, |step| step.inputs[1].dims = smallvec![0, 2]);
    refused(&found, "3 contract", "result dim 1 is in no operand");
    let found = step(4, |step| step.inputs[0].dims = smallvec![1, 2]);
    refused(&found, "4 reduce", "result dim 0 is in no operand");
    let found = spoil!(4, Reduce { kind } => *kind = ReduceKind::Any);
    refused(&found, "4 reduce", "there is no any of f32");
    let square = || Body::new(&[DType::F32], &[(Expr::input(0) * Expr::input(0), DType::F32)]);
    let found = spoil!(4, Reduce { body } => *body = square().ok());
    assert_eq!(found, "legal");
    let two = || Body { results: vec![Reg(0); 2], ..square().unwrap() };
    let found = spoil!(4, Reduce { body } => *body = Some(two()));
    refused(&found, "4 reduce", "2 results are folded");
    let cast = || Body::new(&[DType::F32], &[(Expr::input(0).cast(DType::F64), DType::F64)]);
    let found = spoil!(4, Reduce { body } => *body = cast().ok());
    refused(&found, "4 reduce", "the out is f32, but what is folded f64");
    let found = step(5, |step| step.inputs[1].dims = smallvec![2]);
    refused(&found, "5 map", "%5 has label 2 of no result dim");
}

#[test]
fn inputs_and_outs_are_as_many_as_the_form_states() {
    let found = step(9, |step| step.inputs[0].dims.swap(0, 1));
    refused(&found, "9 all_reduce", "%9 is not met whole");
    let found = step(3, |step| step.inputs.truncate(1));
    refused(&found, "3 contract", "1 inputs instead of 2");
    let found = step(2, |step| step.outs.push(ValueId(3)));
    refused(&found, "2 reshape", "%3 is defined twice");
    let found = problems(|program| drop(program.feeds.pop()));
    assert_eq!(found, "the border: 0 slots for 1 values");
}

#[test]
fn problems_tell_their_step_and_rule() {
    let mesh = square();
    let mut program = built(&mesh, every_form);
    program.block.steps[3].inputs[0].dims.clear();
    let found = verify(&program, &mesh, &every_variable()).unwrap_err();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].step, found[0].rule), (Some(3), Rule::Operands));
    program.block.values[3].extents[0] = 0;
    let found = verify(&program, &mesh, &every_variable()).unwrap_err();
    assert_eq!((found[0].step, found[0].rule), (None, Rule::Values));
}

#[test]
fn bodies_are_typed() {
    let found = spoil!(5, Map { body } => body.code[0].0 = Instr::Input(2));
    refused(&found, "5 map", "register 0: there is no x2");
    let found = spoil!(5, Map { body } => body.code[0].1 = DType::I32);
    refused(&found, "5 map", "register 0: x0 is f32, not i32");
    let later = Instr::Apply(Prim::Lt, [Reg(0), Reg(2), Reg(0)]);
    let found = spoil!(5, Map { body } => body.code[2].0 = later);
    refused(&found, "5 map", "register 2: lt of register 2, which comes later");
    let and = Instr::Apply(Prim::And, [Reg(0), Reg(1), Reg(0)]);
    let found = spoil!(5, Map { body } => body.code[2].0 = and);
    refused(&found, "5 map", "register 2: and does not accept f32");
    let found = spoil!(5, Map { body } => body.results[0] = Reg(2));
    refused(&found, "5 map", "%6 is f32, but its result bool");
    let found = spoil!(5, Map { body } => body.results.push(Reg(0)));
    refused(&found, "5 map", "2 results, but 1 outs");
}

#[test]
fn windows_tie_three_values() {
    let found = spoil!(1, Convolve { windows } => windows[0].kernel = 1);
    refused(&found, "1 convolve", "label 1 is in windows twice");
    let found = spoil!(1, Convolve { windows } => windows[0].output = 2);
    refused(&found, "1 convolve", "result dim 1 is in no operand");
    let found = spoil!(1, Convolve { windows } => windows[0].stride = 0);
    refused(&found, "1 convolve", "stride and dilation are at least 1");
    let found = spoil!(1, Convolve { windows } => windows[0].stride = 4);
    refused(&found, "1 convolve", "the last of 4 windows begins beyond the 8 input positions");
    let found = spoil!(1, Convolve { windows } => windows.clear());
    refused(&found, "1 convolve", "there is no window");
    let found = step(1, |step| step.inputs[0].dims = smallvec![0, 4, 3]);
    refused(&found, "1 convolve", "label 3 is 2, but 3 in rhs");
    let found = spoil!(1, Convolve { windows } => windows[0].input = 9);
    refused(&found, "1 convolve", "window label 9 is a dim of 0 values");
}

#[test]
fn folds_over_windows_go_from_one_side_to_the_other() {
    let found = spoil!(24, Pool { windows } => windows[0].stride = 0);
    refused(&found, "24 pool", "stride and size are at least 1");
    let found = spoil!(24, Pool { windows } => windows[0].pad = usize::MAX);
    refused(&found, "24 pool", "windows overflow");
    let found = spoil!(24, Pool { windows } => windows[0].input = 1);
    refused(&found, "24 pool", "label 1 is in windows twice");
    let found = spoil!(24, Pool { windows } => windows[0].output = 9);
    refused(&found, "24 pool", "a value has not one of the window labels 3, 9");
    let found = spoil!(24, Pool { kind } => *kind = PoolKind::Count);
    refused(&found, "24 pool", "1 inputs instead of 2");
    let found = step(24, |step| step.inputs[0].dims = smallvec![0, 3, 4]);
    refused(&found, "24 pool", "input 0 has a label of no result dim");
    let found = problems(|program| {
        program.block.steps[24].inputs[0].dims = smallvec![0, 1, 2];
        program.block.values[2].extents[1] = 2;
    });
    assert!(found.contains("input 0 is on the wrong side of the windows"), "{found}");
}

#[test]
fn pieces_and_slices_stay_inside() {
    let found = spoil!(6, Move { pieces } => pieces[0].begin[0].scale = 5);
    let text = "piece 0: input: 4 elements from 15 on leave dim 0 of 16";
    refused(&found, "6 move", text);
    let found = spoil!(6, Move { pieces } => pieces[0].begin[0].scale = -1);
    refused(&found, "6 move", "piece 0: input: an offset goes below 0");
    let found = spoil!(6, Move { pieces } => pieces[0].at[1] = 1);
    refused(&found, "6 move", "piece 0: result: 8 elements from 1 on leave dim 1 of 8");
    let found = spoil!(6, Move { fill } => *fill = Scalar::new(DType::I32, 0.0));
    refused(&found, "6 move", "%7 is f32, but the fill i32");
    let found = spoil!(7, Generate { global } => global[0] = 7);
    refused(&found, "7 generate", "4 elements from 4 on leave dim 0 of 7");
    let fill = Generator::Fill(Scalar::new(DType::F64, 0.0));
    let found = spoil!(7, Generate { generator } => *generator = fill);
    refused(&found, "7 generate", "the fill is f64, not f32");
    let image = || Operand::whole(ValueId(0), 3);
    let noise = Generator::TruncatedNormal { key: 0, mean: 0.0, stddev: 0.0 };
    let found = spoil!(7, Generate { generator } => *generator = noise);
    refused(&found, "7 generate", "no normal has mean 0 and deviation 0");
    let numbers = |high| Generator::Uniform { key: 0, low: 0.0, high };
    let found = spoil!(7, Generate { generator } => *generator = numbers(0.0));
    refused(&found, "7 generate", "there are no numbers from 0 to 0");
    let found = step(7, |step| step.inputs.push(image()));
    refused(&found, "7 generate", "%0 is f32[4, 8, 2], but a salt is a scalar of i32");
    let fill = Generator::Fill(Scalar::new(DType::F32, 0.0));
    let found = step(7, |step| {
        let Form::Generate(form) = &mut step.form else { panic!("{}", step.form.name()) };
        form.generator = fill;
        step.inputs.push(image());
    });
    refused(&found, "7 generate", "only random numbers have salts");
    let found = step(7, |step| {
        let Form::Generate(form) = &mut step.form else { panic!("{}", step.form.name()) };
        form.strides = vec![1];
        step.inputs.push(image());
    });
    refused(&found, "7 generate", "%0 is f32[4, 8, 2], but a shift is a scalar of i32");
    let found = spoil!(7, Generate { strides } => *strides = vec![1]);
    refused(&found, "7 generate", "there are 0 inputs for 1 shifts");
    let fill = Generator::Fill(Scalar::new(DType::F32, 0.0));
    let found = step(7, |step| {
        let Form::Generate(form) = &mut step.form else { panic!("{}", step.form.name()) };
        (form.generator, form.strides) = (fill, vec![1]);
        step.inputs.push(image());
    });
    refused(&found, "7 generate", "only random numbers are shifted");
    let found = step(2, |step| step.inputs[0] = image());
    refused(&found, "2 reshape", "64 elements become 96");
}

#[test]
fn random_integers_lie_between_whole_bounds() {
    let mesh = square();
    let integers = |high| {
        built(&mesh, |b| {
            let global = Extents::from_slice(&[4]);
            let numbers = Generator::Uniform { key: 0, low: 0.0, high };
            let step = b.read(var(0), DType::I32, Extents::default());
            b.generate_salted(numbers, &[step], DType::I32, origin(1), global.clone(), global);
        })
    };
    let step = VariableType {
        name: "step".to_owned(),
        dtype: DType::I32,
        extents: Extents::default(),
        owners: Owners::new(),
    };
    let check = |high| verify(&integers(high), &mesh, std::slice::from_ref(&step));
    assert_eq!(check(4.0), Ok(()));
    let found = check(4.5).unwrap_err();
    assert_eq!(texts(&found), ["step 1 generate: there are no random i32 from 0 to 4.5"]);
}

#[test]
fn collectives_keep_their_extents() {
    let found = spoil!(9, AllReduce { axes } => axes.clear());
    refused(&found, "9 all_reduce", "the group has no axes");
    let cube: Mesh = "a:2;b:2;c:2".parse().unwrap();
    let found = spoil!(9, AllReduce { axes } => axes.push(axis(&cube, "c")));
    refused(&found, "9 all_reduce", "axis2 is not an axis of rows:2;cols:2");
    let found = spoil!(9, AllReduce { axes } => axes.push(axes[0]));
    refused(&found, "9 all_reduce", "axis rows is listed twice");
    let found = step(9, |step| step.inputs.clear());
    refused(&found, "9 all_reduce", "0 inputs, but 1 outs");
    let found = spoil!(10, ReduceScatter { dim } => *dim = 0);
    refused(&found, "10 reduce_scatter", "%11 is [4, 2], not [1, 8]");
    let found = spoil!(10, ReduceScatter { dim } => *dim = 2);
    refused(&found, "10 reduce_scatter", "%10 has no dim 2");
    let found = spoil!(11, AllToAll { split, concat } => *split = *concat);
    refused(&found, "11 all_to_all", "cuts and joins along dim 1");
    let found = spoil!(12, AllGather { dim } => *dim = 1);
    refused(&found, "12 all_gather", "%13 is [4, 4], not [2, 8]");
    let found = step(13, |step| step.inputs[0].value = ValueId(12));
    refused(&found, "13 permute", "%14 is [4, 4], not [2, 4]");
    let mesh = square();
    let half = built(&mesh, |b| {
        let global = Extents::from_slice(&[4]);
        let fill = Generator::Fill(Scalar::new(DType::BF16, 1.0));
        let ones = b.generate(fill, DType::BF16, origin(1), global.clone(), global);
        b.all_reduce(ReduceKind::Sum, &[axis(&mesh, "rows")], ones);
    });
    let found = verify(&half, &mesh, &[]).unwrap_err();
    assert_eq!(texts(&found), ["step 1 all_reduce: a sum over a group is held in f32"]);
}

#[test]
fn lookups_have_their_labels() {
    let found = spoil!(16, Gather { dim } => *dim = 1);
    refused(&found, "16 gather", "the result has the gathered label 1");
    let found = spoil!(16, Gather { dim } => *dim = 3);
    refused(&found, "16 gather", "the input lacks the gathered label 3");
    let found = step(16, |step| step.inputs[1].dims[0] = 3);
    refused(&found, "16 gather", "the indices has label 3 of no result dim");
    let found = step(16, |step| step.inputs[0].dims[1] = 4);
    refused(&found, "16 gather", "the input has label 4 of no result dim");
    let found = step(16, |step| step.inputs[1] = labelled(ValueId(14), &[3, 1]));
    refused(&found, "16 gather", "the indices are f32, not i32");
    let far = Offset {
        base: usize::MAX,
        scale: i64::MAX,
        ..Offset::sliced(&[axis(&square(), "rows")], 1)
    };
    let found = spoil!(16, Gather { begin } => *begin = far);
    refused(&found, "16 gather", "an offset overflows");
    let found = spoil!(17, Scatter { dim } => *dim = 2);
    refused(&found, "17 scatter", "the result lacks the label 2");
    let found = spoil!(17, Scatter { dim } => *dim = 1);
    refused(&found, "17 scatter", "the updates have the indexed label 1");
    let found = step(17, |step| step.inputs[1].dims[0] = 3);
    refused(&found, "17 scatter", "the indices have labels that the updates lack");
    let found = step(17, |step| step.inputs[0].dims[1] = 3);
    refused(&found, "17 scatter", "result dim 1 is in no operand");
    let found = step(17, |step| step.inputs.push(labelled(ValueId(16), &[1, 0])));
    refused(&found, "17 scatter", "what is folded onto has not the labels of the result in order");
    let found = step(17, |step| step.inputs.push(labelled(ValueId(15), &[0])));
    refused(&found, "17 scatter", "%17 is f32, but %15 is i32");
    let found = spoil!(26, Put { dim } => *dim = 2);
    refused(&found, "26 put", "the result lacks the label 2");
    let found = spoil!(26, Put { dim } => *dim = 1);
    refused(&found, "26 put", "the row has the indexed label 1");
    let found = step(26, |step| step.inputs[0].dims.swap(0, 1));
    refused(&found, "26 put", "the input's labels are not those of the result in order");
    let found = step(26, |step| step.inputs[2].dims[0] = 2);
    refused(&found, "26 put", "the indices have labels that the row lacks");
    let found = step(26, |step| step.inputs[2].value = step.inputs[1].value);
    refused(&found, "26 put", "the indices are f32, not i32");
}

#[test]
fn orders_have_their_lines() {
    let found = spoil!(18, Scan { dim } => *dim = 2);
    refused(&found, "18 scan", "%17 has no dim 2");
    let found = spoil!(18, Scan { kind } => *kind = ReduceKind::All);
    refused(&found, "18 scan", "there is no all of f32");
    let found = spoil!(19, Sort { dim } => *dim = 2);
    refused(&found, "19 sort", "there is no dim 2");
    let found = spoil!(19, Sort { dim } => *dim = 1);
    refused(&found, "19 sort", "label 0 is 1, but 2 in %18");
    let found = step(19, |step| drop(step.inputs.pop()));
    refused(&found, "19 sort", "1 inputs, but 2 outs");
    let found = step(19, |step| step.inputs.swap(0, 1));
    refused(&found, "19 sort", "%19 is f32, but %15 is i32");
    let found = problems(|program| {
        program.block.values[19].extents[0] = 3;
        program.block.values[20].extents[0] = 3;
    });
    refused(&found, "19 sort", "3 elements are kept of 2");
}

#[test]
fn calls_are_in_declared_order() {
    let found = step(20, |step| step.outs.clear());
    assert!(found.contains("there are no outs"), "{found}");
    let found = problems(|program| {
        let block = &mut program.block;
        let out = block.define(Value { order: smallvec![1, 0], ..block.values[18].clone() });
        block.steps[20].outs.push(out);
    });
    refused(&found, "20 call", "%27 is f32[2, 4] order [1, 0], not in declared order");
}

#[test]
fn variables_keep_their_type() {
    let found = spoil!(14, Write { variable } => *variable = var(0));
    refused(&found, "14 write", "f32[4, 4] is not f32[3, 2, 6]");
    let found = spoil!(0, Read { variable } => *variable = var(2));
    refused(&found, "0 read", "there is no var2");
    let found = problems(|program| program.block.steps.push(program.block.steps[14].clone()));
    refused(&found, "27 write", "var1 is written twice");
}

#[test]
fn a_read_may_follow_a_write() {
    let late = |program: &mut Program| {
        let block = &mut program.block;
        let out = block.define(Value::new(DType::F32, [4, 4]));
        let read = block.steps[0].instead(forms::Read { variable: var(1) }, [], &[out]);
        block.steps.push(read);
    };
    assert_eq!(problems(late), "legal");
}
