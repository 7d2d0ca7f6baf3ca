//! The first bad number is found and named; correct functions pass.

use crate::models::{MODELS, borrowed, feeds, layouts};
use mesh_core::lower::Target;
use mesh_core::program::Form;
use mesh_core::session::{Error, NonFinite, Threads};
use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sgd};
use ndarray::{Array1, Array2, ArrayD};
use tests::on_host;

const GRID: &str = "a:2;b:2";

fn session(g: &Graph, mesh: &str, layout: &str) -> Session {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    checked(&module, 7)
}

/// A session that looks at every number.
fn checked(module: &Module, seed: u64) -> Session {
    let threads = Threads::default().target(Target::host().check_numerics());
    Session::threads_with(module, seed, &threads).unwrap()
}

#[track_caller]
fn found(result: Result<impl std::fmt::Debug, Error>) -> NonFinite {
    match result {
        Err(Error::NonFinite(found)) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn models_that_are_right_run_under_all_layouts() {
    for (name, build) in MODELS {
        for (mesh, most) in [("a:2", 40), (GRID, 25)] {
            let g = mesh_ops::graph();
            build(&g);
            for (layout, module) in layouts(&g, &mesh.parse().unwrap(), most) {
                let mut session = checked(&module, 0);
                let feeds = feeds(&module, "train");
                for _ in 0..2 {
                    let called = session.call_named("train", &borrowed(&feeds));
                    assert!(called.is_ok(), "{name} on {mesh} under {layout}: {called:?}");
                }
            }
        }
    }
}

/// One element of the input is bad. It is found under every layout.
#[test]
fn the_place_is_that_in_the_whole_tensor() {
    let (rows, cols) = (dim("p", 8), dim("q", 12));
    let g = mesh_ops::graph();
    let x = g.input("x", [rows, cols], F32);
    let line = line!() + 1;
    let root = x.sqrt();
    let y = (root * 2.0 + 1.0).sum([cols]);
    let f = g.function("f", [x], [y], []);
    let mesh: Mesh = GRID.parse().unwrap();
    for (k, (layout, module)) in layouts(&g, &mesh, 60).into_iter().enumerate() {
        let at = [(k * 5 + 3) % 8, (k * 7 + 1) % 12];
        let mut data = Array2::from_elem((8, 12), 4.0f32);
        data[at] = -1.0;
        let mut session = Session::threads(&module, 0).unwrap();
        let fine = session.call(&f, [data.view().into()]).unwrap();
        assert!(fine[0].to_f64()[at[0]].is_nan(), "not checked, it goes through");
        let found = found(checked(&module, 0).call(&f, [data.view().into()]));
        assert_eq!(found.global.as_deref(), Some(&at[..]), "{layout}");
        assert!(found.origin.name.starts_with("sqrt"), "{}", found.origin.name);
        assert!(
            found.origin.at.contains(&format!("numerics.rs:{}", line + 1)),
            "{}",
            found.origin.at
        );
        assert!(found.value.is_nan() && found.numbers.nan == 1, "{found}");
        let position = found.index[1] - found.around_from;
        assert!(found.around[position].is_nan());
        assert!(found.around.len() <= 7 && found.around.iter().filter(|x| x.is_nan()).count() == 1);
        assert_eq!(found.inputs.len(), 1);
        // The named processor's own slice has the bad element.
        assert_eq!((found.inputs[0].numbers.min, found.inputs[0].numbers.nan), (-1.0, 0));
        let local: Vec<_> = module.function("f").unwrap().feeds[0]
            .split
            .iter()
            .zip([8, 12])
            .map(|(axes, size)| {
                let part = size / mesh.group_size(axes);
                mesh.group_index(found.processor, axes) * part
            })
            .collect();
        assert_eq!([found.index[0] + local[0], found.index[1] + local[1]], at, "{layout}");
    }
}

#[test]
fn the_message_says_it_all() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("p", 4), dim("q", 6)], F32);
    let line = line!() + 1;
    let f = g.function("f", [x], [8.0 / (x * x - 1.0)], []);
    let mut session = session(&g, GRID, "p:a;q:b");
    let mut data = Array2::from_elem((4, 6), 3.0f32);
    data[[3, 3]] = 0.0;
    data[[3, 4]] = 1.0;
    let error = session.call(&f, [data.view().into()]).unwrap_err();
    let line = format!("numerics.rs:{line}");
    let text = error.to_string().replace(&line, "numerics.rs:LINE");
    insta::assert_snapshot!(text, @r"
    inf in `f`, mul+…+div `mul+…+div` at tests/tests/session/numerics.rs:LINE
      of which: mul `mul` at tests/tests/session/numerics.rs:LINE
      of which: sub `sub` at tests/tests/session/numerics.rs:LINE
      of which: div `div` at tests/tests/session/numerics.rs:LINE
      step: %1: f32[2, 3] = map 8 / ((x0 * x0) - 1) of %0[a, b]
      on processor 3 (a=1, b=1)
      tensor `div` at [3, 4], at [1, 1] of the processor's slice: -8 [inf] 1
      its slice: -8 to inf, 1 of 6 infinite
      given %0 (`x`): 0 to 3
      what it was given is finite: it was made here
    the session runs nothing more; variables may be half written
    ");
    // The session returns the error again, and its variables can still be read.
    assert_eq!(session.call(&f, [data.view().into()]).unwrap_err(), error);
}

/// The message is the one in `docs/debugging.md`.
#[test]
fn the_page_shows_what_is_written() {
    let first = line!() + 1;
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 8), dim("width", 6)], F32);
    let length = x.square().sum([dim("width", 6)]).sqrt();
    let unit = g.function("unit", [x], [x / length], []);
    let mut session = session(&g, "rows:2", "batch:rows");
    let mut rows = Array2::from_elem((8, 6), 1f32);
    rows.row_mut(5).fill(0.0);
    let mut text = session.call(&unit, [rows.view().into()]).unwrap_err().to_string();
    for line in 1..5 {
        let here = format!("tests/tests/session/numerics.rs:{}", first + line - 1);
        text = text.replace(&here, &format!("src/main.rs:{line}"));
    }
    let page = include_str!("../../../docs/debugging.md");
    assert!(page.contains(&format!("```text\n{text}\n```")), "{text}");
}

#[test]
fn feeds_and_variables_are_looked_at() {
    let g = mesh_ops::graph();
    let d = dim("d", 8);
    let x = g.input("x", [d], F32);
    let w = g.variable("scale", [d], F32, Initializer::ONES);
    let f = g.function("f", [x], [(x * w.value()).sum_all()], []);
    let mut fed = Array1::from_elem(8, 1.0f32);
    for (mesh, layout) in [("", ""), ("a:2", "d:a"), ("a:4", "d:a")] {
        let mut session = session(&g, mesh, layout);
        let mut weights = fed.clone();
        weights[5] = f32::NAN;
        session.write("scale", &weights).unwrap();
        let bad = found(session.call(&f, [fed.view().into()]));
        assert_eq!((bad.origin.op.as_str(), bad.global), ("read", Some(vec![5])));
        assert!(bad.inputs.is_empty());
    }
    fed[6] = f32::NAN;
    for (mesh, layout) in [("", ""), ("a:2", "d:a"), ("a:4", "d:a")] {
        let bad = found(session(&g, mesh, layout).call(&f, [fed.view().into()]));
        assert_eq!((bad.origin.op.as_str(), bad.origin.name.as_str()), ("feed", "x"));
        assert!(bad.origin.at.contains("numerics.rs:"));
        assert_eq!(bad.global, Some(vec![6]));
    }
}

/// Every iteration raises ten times the number to the tenth power, which exceeds f32 in the fourth.
#[test]
fn iterations_of_loops_are_named() {
    let g = mesh_ops::graph();
    let (batch, rounds) = (dim("batch", 4), dim("rounds", 6));
    let x = g.input("x", [batch], F32);
    let ([h], []) = g.scan(rounds, [x], [], |[h], []| ([h * 1e10], []));
    let f = g.function("f", [x], [h.sum_all()], []);
    let data = Array1::from_elem(4, 1.0f32);
    for (mesh, layout) in [("", ""), ("a:2", "batch:a")] {
        let bad = found(session(&g, mesh, layout).call(&f, [data.view().into()]));
        let [iteration] = &bad.iterations[..] else { panic!("{bad}") };
        assert_eq!((iteration.position, iteration.count), (3, 6), "{bad}");
        assert_eq!(bad.value, f64::INFINITY);
        assert!((bad.inputs[0].numbers.max / 1e30 - 1.0).abs() < 1e-5, "{bad}");
        assert!(bad.to_string().contains("at position 3 of the 6 iterations of loop `"), "{bad}");
    }
}

/// A pass makes a loop over tiles; the index is that in the whole tensor all the same.
#[test]
fn tiles_are_seen_through() {
    let (rows, cols) = (dim("p", 512), dim("q", 512));
    let g = mesh_ops::graph();
    let x = g.input("x", [rows, cols], F32);
    let y = x.sqrt().softmax(cols);
    let f = g.function("f", [x], [y.square().sum([cols])], []);
    let mut data = Array2::from_elem((512, 512), 1.0f32);
    data[[397, 201]] = -1.0;
    for (mesh, layout) in [("", ""), ("a:2", "p:a")] {
        let mut session = session(&g, mesh, layout);
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let functions = on_host(&module);
        let mut steps = functions[0].program.steps().iter();
        assert!(steps.any(|step| matches!(step.form, Form::Loop(_))), "it is tiled");
        let bad = found(session.call(&f, [data.view().into()]));
        assert_eq!(bad.global, Some(vec![397, 201]), "{bad}");
        assert_eq!(bad.iterations.len(), 1);
    }
}

/// Masks with minus infinity in the usual ways.
#[test]
fn masks_may_be_infinite() {
    let (rows, cols) = (dim("p", 4), dim("q", 8));
    let open = Array2::from_shape_fn((4, 8), |(i, j)| j <= 2 * i);
    let added = open.mapv(|open| if open { 0.0 } else { f32::NEG_INFINITY });
    let data = Array2::from_shape_fn((4, 8), |(i, j)| (i as f32 - j as f32) / 4.0);
    for way in ["select", "fed", "constant", "variable"] {
        let g = mesh_ops::graph();
        let x = g.input("x", [rows, cols], F32);
        let mask = g.input("mask", [rows, cols], F32);
        let logits = match way {
            "select" => {
                let open = mesh_ops::elementwise::greater_equal(mask, g.scalar(0.0, F32));
                mesh_ops::elementwise::select(open, x, x.fill_like(f64::NEG_INFINITY))
            }
            "fed" => x + mask,
            "constant" => x + g.constant(added.clone(), [rows, cols]),
            _ => x + g.variable("held", [rows, cols], F32, Initializer::ZEROS).value(),
        };
        let y = logits.softmax(cols);
        let dx = g.gradients(&[y.square().sum_all()], &[x], None)[0].unwrap();
        let f = g.function("f", [x, mask], [y, dx], []);
        for (mesh, layout) in [("", ""), ("a:2", "p:a"), ("a:4", "q:a"), (GRID, "p:b;q:a")] {
            let mut session = session(&g, mesh, layout);
            if way == "variable" {
                session.write("held", &added).unwrap();
            }
            let result = session.call(&f, [data.view().into(), added.view().into()]);
            assert!(result.is_ok(), "{way} under {layout}: {}", result.unwrap_err());
        }
    }
}

/// A sum over processors of finite parts that overflows is an error; with an infinite part it is
/// not.
#[test]
fn sums_over_processors_know_what_they_were_given() {
    let g = mesh_ops::graph();
    let d = dim("d", 4);
    let x = g.input("x", [d], F32);
    let f = g.function("f", [x], [x.sum_all()], []);
    let total = |data: [f32; 4]| {
        let data = ndarray::arr1(&data);
        session(&g, "a:4", "d:a").call(&f, [data.view().into()])
    };
    let bad = found(total([3e38; 4]));
    assert!(bad.step.contains("all_reduce"), "{bad}");
    assert_eq!(bad.inputs[0].numbers.infinite, 0);
    for given in [[1.0, f32::INFINITY, 1.0, 2.0], [0.0, 0.0, 0.0, f32::NEG_INFINITY]] {
        let [sum] = total(given).unwrap();
        assert!(sum.item().unwrap().is_infinite());
    }
    let bad = found(total([f32::INFINITY, 1.0, f32::NEG_INFINITY, 1.0]));
    assert!(bad.value.is_nan() && bad.step.contains("all_reduce"), "{bad}");
}

/// The new value is computed in the old one's memory; the step's inputs are still known.
#[test]
fn updates_in_place_and_by_owners() {
    let g = mesh_ops::graph();
    let (batch, width) = (dim("batch", 4), dim("width", 4));
    let x = g.input("x", [batch, width], F32);
    let w = g.variable("w", [width], F32, Initializer::ONES);
    let loss = (x * w.value()).sum_all();
    let train = g.function("train", [x], [], Sgd::new(1e38).minimize(loss));
    let data = Array2::from_elem((4, 4), 0.5f32);
    let layouts = [
        ("", ""),
        ("a:2", "batch:a"),
        ("a:2", "batch:a;params/*:a@1;slots/*:a@1"),
        (GRID, "batch:a;width:b"),
    ];
    for (mesh, layout) in layouts {
        let mut session = session(&g, mesh, layout);
        let bad = (0..3).find_map(|_| session.call(&train, [data.view().into()]).err());
        let Some(Error::NonFinite(bad)) = bad else { panic!("{layout}: {bad:?}") };
        assert_eq!(bad.value, f64::NEG_INFINITY, "{bad}");
        let before: Vec<_> = bad.inputs.iter().filter(|given| given.numbers.max < -1e38).collect();
        assert!(!before.is_empty(), "{layout}: {bad}");
        assert!(session.read("w").is_ok());
    }
}

#[test]
fn other_floats_are_looked_at_as_well() {
    for (dtype, least) in [(F64, -1.0), (BF16, -1.0), (F32, -1.0)] {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("d", 6)], F64);
        let f = g.function("f", [x], [x.cast(dtype).log().cast(F64)], []);
        let mut data = ArrayD::from_elem(vec![6], 1.0f64);
        data[[4]] = least;
        let bad = found(session(&g, "a:2", "d:a").call(&f, [data.view().into()]));
        assert_eq!(bad.global, Some(vec![4]), "{bad}");
    }
}
