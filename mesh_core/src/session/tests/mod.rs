mod fixture;

use ndarray::{Array1, Array2, arr1, s};

use self::fixture::{
    BATCH, Regression, WIDTH, apart, close, data, module, session_of, slot, variable,
};
use super::*;
use crate::array::ArrayRef;
use crate::exec::ThreadBackend;
use crate::graph::Function;
use crate::names::DType::{self, F32};
use crate::names::{DimName, Placement, Shape, dim};
use crate::passes::{Executable, check};
use crate::program::{
    Builder, Compiled, Extents, Form, Generator, Offset, Place, VariableId, VariableType, verify,
};

const MESHES: [&str; 6] = ["", "b:1", "b:2", "b:2;f:2", "f:4;b:2", "r:2;b:2;f:2"];

#[test]
fn training_is_the_same_on_every_mesh() {
    let (x, y) = data();
    let train = Function::<2, 2>::of(GraphId::default(), "train");
    for mesh in MESHES {
        let module = Regression::new(mesh).module();
        // The weights are read and written elsewhere, and where they are.
        let elsewhere = apart(&module);
        let mut aliased = elsewhere.clone();
        let Compiled { program, plan } = &mut aliased.functions[0];
        for step in program.steps() {
            let aliased = match step.form {
                Form::Read(form) => Some((form.variable, step.outs[0])),
                Form::Write(form) => Some((form.variable, step.inputs[0].value)),
                _ => None,
            };
            if let Some((variable, value)) = aliased {
                plan.places[value.index()] = Place::Variable(variable);
            }
        }
        for executable in [elsewhere, aliased] {
            let mut session = session_of(&module, executable);
            session.set_replica_check(true).unwrap();
            let mut weights = Array1::from_iter((0..WIDTH).map(|i| i as f32));
            for step in 0..5 {
                assert!(close(&session.read("weights").unwrap(), &weights.to_vec()));
                assert_eq!(session.read("step").unwrap(), Array::from(step));
                let predicted = x.dot(&weights);
                let error = &predicted - &y;
                weights = weights - 0.0625 * x.t().dot(&error);
                let [loss, found] = session.call(&train, [(&x).into(), (&y).into()]).unwrap();
                assert!(close(&loss, &[error.dot(&error)]), "{mesh} {step} {loss:?}");
                assert!(close(&found, &predicted.to_vec()), "{mesh} {step} {found:?}");
            }
        }
    }
}

#[test]
fn feeds_may_be_views_and_outputs_are_reused() {
    let (x, y) = data();
    let train = Function::<2, 2>::of(GraphId::default(), "train");
    let turned = x.t().to_owned();
    let mut gaps = Array1::from_elem(3 * BATCH, f32::NAN);
    gaps.slice_mut(s![1..;3]).assign(&y);
    let backwards: Array1<f32> = y.iter().rev().copied().collect();
    for mesh in MESHES {
        let module = Regression::new(mesh).module();
        let run = |feeds: [ArrayRef<'_>; 2]| {
            let mut session = Session::threads(&module, 0).unwrap();
            let mut outputs: [Array; 2] =
                [arr1(&[0_i32]).into(), Array1::<f32>::zeros(BATCH).into()];
            let before = outputs[1].as_f32().unwrap().as_ptr();
            session.call_into(&train, feeds, &mut outputs).unwrap();
            assert_eq!(outputs[1].as_f32().unwrap().as_ptr(), before);
            outputs
        };
        let expected = run([(&x).into(), (&y).into()]);
        assert_eq!(run([turned.t().into(), gaps.slice(s![1..;3]).into()]), expected);
        assert_eq!(run([turned.t().into(), backwards.slice(s![..;-1]).into()]), expected);
    }
}

#[test]
fn calls_by_name_take_feeds_in_any_order() {
    let (x, y) = data();
    let module = Regression::new("b:2;f:2").module();
    let mut session = Session::threads(&module, 0).unwrap();
    let expected = session
        .call(&Function::<2, 2>::of(GraphId::default(), "train"), [(&x).into(), (&y).into()])
        .unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let found = session.call_named("train", &[("y", (&y).into()), ("x", (&x).into())]).unwrap();
    let expected = ["loss", "predicted"].map(str::to_owned).into_iter().zip(expected);
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(session.functions().collect::<Vec<_>>(), ["train"]);
    assert_eq!(session.variables().collect::<Vec<_>>(), ["weights", "step"]);
}

#[test]
fn mistakes_are_explained_and_nothing_runs() {
    let (x, y) = data();
    let (x, y) = (ArrayRef::from(&x), ArrayRef::from(&y));
    let integers = arr1(&[0; BATCH]);
    let mut session = Session::threads(&Regression::new("b:2").module(), 0).unwrap();
    let mut feeds = |feeds: &[(&'static str, &ArrayRef<'_>)]| {
        let feeds: Vec<_> = feeds.iter().map(|(name, array)| (*name, (*array).clone())).collect();
        session.call_named("train", &feeds).unwrap_err().to_string()
    };
    let table = [
        (feeds(&[("x", &x)]), "a call of `train` needs the feed `y` as well"),
        (feeds(&[("x", &x), ("x", &x)]), "a call of `train` is given the feed `x` twice"),
        (
            feeds(&[("x", &x), ("z", &y)]),
            "there is no feed of `train` called `z`: there are `x` and `y`",
        ),
        (
            feeds(&[("x", &y), ("y", &y)]),
            "feed `x` of `train` has shape [8, 4], but the array given has shape [8]",
        ),
        (
            feeds(&[("x", &x), ("y", &(&integers).into())]),
            "feed `y` of `train` is of dtype f32, but the array given is of i32",
        ),
        (
            session.call_named("trian", &[]).unwrap_err().to_string(),
            "there is no function `trian` (did you mean `train`?): the only one is `train`",
        ),
        (
            session
                .call(&Function::<0, 1>::of(GraphId::default(), "eval"), [])
                .unwrap_err()
                .to_string(),
            "the session's module lacks function `eval` of its graph: it was declared after \
             Graph::lower, or left out of this part of the module; lower the graph again",
        ),
        (
            session
                .call(&Function::<2, 1>::of(GraphId::default(), "train"), [x, y])
                .unwrap_err()
                .to_string(),
            "function `train` has 2 feeds and 2 fetches, not 2 and 1",
        ),
        (
            session.read("weight").unwrap_err().to_string(),
            "there is no variable `weight` (did you mean `weights`?): there are `weights` and `step`",
        ),
        (
            session.write("weights", &arr1(&[1.0_f32; 5])).unwrap_err().to_string(),
            "variable `weights` has shape [width:4], but the array given has shape [5]: width is 4, not 5",
        ),
        (
            session.write("step", &ndarray::arr0(1.0_f32)).unwrap_err().to_string(),
            "variable `step` is of dtype i32, but the array given is of f32",
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
    assert_eq!(session.read("step").unwrap(), Array::from(0));
}

#[test]
fn one_process_needs_feeds_whole() {
    for mesh in MESHES {
        let session = Session::threads(&Regression::new(mesh).module(), 0).unwrap();
        let feeds: Vec<_> = session.feeds("train").unwrap().collect();
        let feed = |name, shape, addressable| Feed { name, dtype: F32, shape, addressable };
        let all = [0..BATCH, 0..WIDTH];
        assert_eq!(feeds, [feed("x", &[BATCH, WIDTH], &all), feed("y", &[BATCH], &all[..1])]);
        assert!(session.feeds("trian").is_err());
    }
}

#[test]
fn variables_are_read_and_written_whole() {
    let (rows, cols): (DimName, DimName) = ("rows".into(), "cols".into());
    let shape = Shape::new([dim("rows", 4), dim("cols", 6)]).unwrap();
    let value = Array2::from_shape_fn((4, 6), |(i, j)| (10 * i + j) as f32);
    let mesh: Mesh = "a:2;b:2;c:2".parse().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| mesh.axis(name).unwrap());
    let split = Placement::replicated();
    let placements = [
        split.clone(),
        split.clone().split(rows, &[b, a]),
        split.clone().split(cols, &[c]).split(rows, &[a]),
        split.clone().with_owner(b, 1),
        split.clone().split(cols, &[a]).with_owner(c, 0).with_owner(b, 1),
    ];
    for placement in placements {
        let variables = [variable("v", shape.clone(), placement)];
        let module = module(&mesh, variables, Program::default(), Program::default());
        let mut session = Session::threads(&module, 0).unwrap();
        assert_eq!(session.read("v").unwrap(), Array::zeros(F32, &[4, 6]));
        session.write("v", &value).unwrap();
        assert_eq!(session.read("v").unwrap(), Array::from(value.clone()));
        let turned = value.t().to_owned();
        session.write("v", turned.slice(s![.., ..;-1]).t()).unwrap();
        assert_eq!(session.read("v").unwrap(), Array::from(value.slice(s![..;-1, ..]).to_owned()));
        session.check_replicas(0).unwrap();
    }
}

#[test]
fn two_variables_are_swapped_in_one_call() {
    for mesh in ["", "b:2", "b:2;f:2"] {
        let mesh: Mesh = mesh.parse().unwrap();
        let axes: Vec<_> = mesh.axis("b").into_iter().collect();
        let extents: Extents = [6 / mesh.group_size(&axes)].into_iter().collect();
        let mut p = Builder::new("swap", &mesh);
        let [first, second] = [0, 1].map(|v| p.read(VariableId(v), F32, extents.clone()));
        p.write(VariableId(0), second);
        p.write(VariableId(1), first);
        let shape = Shape::new([dim("d", 6)]).unwrap();
        let placement = Placement::replicated().split("d".into(), &axes);
        let variables = ["first", "second"].map(|n| variable(n, shape.clone(), placement.clone()));
        let module = module(&mesh, variables, p.finish(), Program::default());
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        let values = [1.0, 10.0].map(|by| Array1::from_shape_fn(6, |i| by * (i + 1) as f32));
        session.write("first", &values[0]).unwrap();
        session.write("second", &values[1]).unwrap();
        for call in 1..5 {
            session.call(&Function::<0, 0>::of(GraphId::default(), "swap"), []).unwrap();
            assert_eq!(session.read("first").unwrap(), values[call % 2].clone().into());
            assert_eq!(session.read("second").unwrap(), values[1 - call % 2].clone().into());
        }
    }
}

#[test]
fn a_variable_is_copied_wherever_and_in_whatever_order_it_is_read() {
    let mesh: Mesh = "b:2".parse().unwrap();
    let rows = [mesh.axis("b").unwrap()];
    let mut p = Builder::new("copy", &mesh);
    let value = p.read(VariableId(0), F32, Extents::from_slice(&[2, 3]));
    p.write(VariableId(1), value);
    let shape = Shape::new([dim("d", 4), dim("e", 3)]).unwrap();
    let placement = Placement::replicated().split("d".into(), &rows);
    let variables = ["from", "to"].map(|n| variable(n, shape.clone(), placement.clone()));
    let module = module(&mesh, variables, p.finish(), Program::default());
    let plain = apart(&module);
    let mut turned = plain.clone();
    turned.functions[0].program.block.values[0].order = [1, 0].into_iter().collect();
    let mut elsewhere = plain.clone();
    elsewhere.functions[0].plan.places[0] = Place::Variable(VariableId(1));
    for executable in [plain, turned, elsewhere] {
        let mut session = session_of(&module, executable);
        let value = Array2::from_shape_fn((4, 3), |(i, j)| (10 * i + j) as f32);
        session.write("from", &value).unwrap();
        session.call_named("copy", &[]).unwrap();
        assert_eq!(session.read("to").unwrap(), value.into());
    }
}

/// A function `differ` that computes other numbers on every processor along `b`, and writes or
/// fetches them as if they were replicas.
fn differing(write: bool) -> Module {
    let mesh: Mesh = "a:2;b:2".parse().unwrap();
    let axes = [mesh.axis("b").unwrap()];
    let extents = |extent: usize| [extent].into_iter().collect::<Extents>();
    let mut p = Builder::new("differ", &mesh);
    let begin = [Offset::sliced(&axes, 1)].into_iter().collect();
    let value = p.generate(Generator::Iota(0), F32, begin, extents(4), extents(3));
    if write {
        p.write(VariableId(0), value);
    } else {
        p.fetch(slot("f", &[3], &[&[]]), value);
    }
    let shape = Shape::new([dim("d", 3)]).unwrap();
    let variables = [variable("v", shape, Placement::replicated())];
    module(&mesh, variables, p.finish(), Program::default())
}

#[test]
fn replicas_that_differ_are_found() {
    for (write, what) in [(true, "variable `v`"), (false, "fetch `f`")] {
        let mut session = Session::threads(&differing(write), 0).unwrap();
        session.call_named("differ", &[]).unwrap();
        session.set_replica_check(true).unwrap();
        let error = session.call_named("differ", &[]).unwrap_err().to_string();
        let expected = "differs between processors 0 and 1 at [0]: 0 is not 1";
        assert_eq!(error, format!("after `differ`, {what} {expected}"));
    }
}

/// The module's check refuses everything that a session relies on; the back-end's check refuses what
/// its memory safety relies on.
#[test]
fn functions_that_do_not_fit_are_refused() {
    let whole = Regression::new("b:2").module();
    let refusal = |change: &dyn Fn(&mut Compiled, &mut [VariableType])| {
        let mut executable = apart(&whole);
        let Executable { functions, variables, .. } = &mut executable;
        change(&mut functions[0], variables);
        let Compiled { program, plan } = &functions[0];
        let verified = verify(program, whole.mesh(), variables);
        let legal = verified.and_then(|()| check(program, plan, variables));
        let problems = legal.unwrap_err();
        let backend = ThreadBackend::new(executable, 0, &[], None).err();
        (problems[0].to_string(), backend.unwrap_or_default())
    };
    type Change = dyn Fn(&mut Compiled, &mut [VariableType]);
    let table: [(&Change, &str, &str); 5] = [
        (
            &|function, _| function.plan.arena_bytes = 64,
            "ends beyond the arena",
            "%1 of `train` is misplaced in the arena",
        ),
        (
            &|function, _| function.plan.places.truncate(3),
            "3 places for",
            "the plan of `train` is for another program",
        ),
        (
            &|_, variables| variables[0].dtype = DType::F64,
            "step 0 read: f32[4] is not f64[4]",
            "cannot prepare step 0 of `train` (read): f32[4] is not of the type of `weights`",
        ),
        (
            &|function, _| function.program.feeds[0].shape[0] = 9,
            "feed x: dim 0 is 2 parts of 4, but its global size is 9",
            "slot `x` does not fit its value f32[4, 4]",
        ),
        // Two values share memory. Only the plan's check finds that.
        (&|function, _| function.plan.places[0] = function.plan.places[1], "%0 is not at", ""),
    ];
    for (change, by_rule, by_backend) in table {
        let (problem, backend) = refusal(change);
        assert!(problem.contains(by_rule), "{problem}");
        assert_eq!(backend, by_backend);
    }
    let mut functions = whole.functions().to_vec();
    functions[0].feeds[0].shape[0] = 9;
    let (mesh, variables) = (whole.mesh().clone(), whole.variables().to_vec());
    let error = Module::new(mesh, variables, functions, whole.init().clone()).unwrap_err();
    let expected = "`train` cannot be a function of the module:\n  feed x: dim 0 is 2 parts of 4";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn sessions_move_between_threads() {
    fn check<T: Send + 'static>(_: &T) {}
    check(&Session::threads(&Regression::new("b:2").module(), 0).unwrap());
}

#[test]
fn processors_are_kept_on_cores() {
    let module = differing(false);
    let processors = module.mesh().processors();
    let pinned =
        |cores: &[usize]| Session::threads_with(&module, 0, &Threads::default().cores(cores));
    let error = |cores: &[usize]| pinned(cores).unwrap_err().to_string();
    let text = error(&[0]);
    assert!(text.contains(&format!("1 cores for {processors} processors")), "{text}");
    // No system has so many; where cores are not known, threads run anywhere.
    if core_affinity::get_core_ids().is_some() {
        let text = error(&vec![usize::MAX; processors]);
        assert!(
            text.contains("there is no core 18446744073709551615 to run on; there are"),
            "{text}"
        );
    }
    let first = core_affinity::get_core_ids().and_then(|cores| cores.first().map(|core| core.id));
    let first = first.unwrap_or(0);
    let session = pinned(&vec![first; processors]).unwrap();
    if cfg!(target_os = "linux") {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let kept = tasks.filter_map(|task| {
            let path = task.ok()?.path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            (name.starts_with("processor-") && cores.trim() == first.to_string()).then_some(())
        });
        assert!(kept.count() >= processors);
    }
    drop(session);
}
