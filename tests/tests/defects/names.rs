//! Defects of names, shapes, rules and processors.

use mesh_core::names::Mesh as Processors;
use mesh_ops::prelude::*;
use ndarray::arr1;
use std::sync::{Arc, Mutex};

/// The physical order of processors could be a function instead of a list. Here nothing chooses an
/// order yet; a given order is checked and changes no number.
#[test]
fn d06_an_order_of_processors_is_a_permutation() {
    let mesh: Processors = "rows:2;cols:2".parse().unwrap();
    for (order, problem) in [(vec![0, 1, 2], "3"), (vec![0, 1, 1, 3], "2"), (vec![0, 1, 2, 4], "3")]
    {
        let error = mesh.clone().with_order(order.clone()).unwrap_err().to_string();
        assert!(error.contains(problem), "{order:?}: {error}");
    }
    let g = mesh_ops::graph();
    let (p, q) = (dim("p", 4), dim("q", 2));
    let x = g.input("x", [p, q], F32);
    let w = g.variable("w", [p], F32, Initializer::Uniform { low: 0.0, high: 1.0 });
    let f = g.function("f", [x], [(x * w.value()).sum([p])], []);
    let x = ndarray::arr2(&[[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]);
    let run = |mesh: &Processors| {
        let module = g.lower(mesh, &"p:rows;q:cols".parse().unwrap()).unwrap();
        Session::threads(&module, 3).unwrap().call(&f, [x.view().into()]).unwrap()
    };
    let in_order = run(&mesh);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2]] {
        assert_eq!(run(&mesh.clone().with_order(order.to_vec()).unwrap()), in_order);
    }
}

/// A shape could have two dims of one name, if their sizes differed.
#[test]
fn d18_names_are_unique_in_a_shape() {
    for sizes in [[2, 2], [2, 3]] {
        let error = Shape::new(sizes.map(|size| dim("x", size))).unwrap_err().to_string();
        assert!(error.contains('x'), "{error}");
    }
    assert!("x:2,x:3".parse::<Shape>().is_err());
    let g = mesh_ops::graph();
    g.input("a", [dim("x", 2)], F32).stack(&[], "x");
    assert!(g.check().is_err());
    let g = mesh_ops::graph();
    let _ = g.input("a", [dim("x", 2)], F32) + g.input("b", [dim("x", 3)], F32);
    assert!(g.check().is_err());
}

/// Rules for dims and axes that do not exist had no effect and no warning; the README's own command
/// had one.
#[test]
fn d19_rules_that_do_nothing_are_told() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 4), dim("hidden_odd", 4)], F32);
    g.function("f", [x], [x.relu()], []);
    let mesh: Mesh = "x:2;y:2".parse().unwrap();
    let module = g.lower(&mesh, &"batch:x;hidden:y".parse().unwrap()).unwrap();
    let warnings: Vec<_> = module.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings[0].contains("no tensor has a dim `hidden`"), "{warnings:?}");
    assert!(warnings[0].contains("did you mean `hidden_odd`?"), "{warnings:?}");
    let unused = g.lower(&mesh, &"batch:x".parse().unwrap()).unwrap();
    let warnings: Vec<_> = unused.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings[0].contains("no rule uses the mesh axis `y`"), "{warnings:?}");
    let report = g.lower(&mesh, &"batch:z".parse().unwrap()).unwrap_err().to_string();
    assert!(report.contains("the mesh has no axis `z`"), "{report}");
}

/// Whether a layout divides was asked of a function that later versions of Python lack. Here every
/// dim of a name must be divisible, and the dims that are not are named.
#[test]
fn d27_dims_of_one_name_must_all_divide() {
    let g = mesh_ops::graph();
    let (x, y) = (g.input("x", [dim("b", 10)], F32), g.input("y", [dim("b", 15)], F32));
    g.function("f", [x, y], [x.sum_all() + y.sum_all()], []);
    let lower = |mesh: &str| g.lower(&mesh.parse().unwrap(), &"b:m".parse().unwrap());
    // The greatest common divisor of 10 and 15.
    assert!(lower("m:5").is_ok());
    let report = lower("m:2").unwrap_err().to_string();
    assert!(report.contains("dim b of size 15 cannot be split over m"), "{report}");
    let report = lower("m:3").unwrap_err().to_string();
    assert!(report.contains("dim b of size 10 cannot be split over m"), "{report}");
}

/// A summary was documented to return a tensor and returned an operation.
#[test]
fn d28_a_probe_is_the_tensor_that_it_shows() {
    let g = mesh_ops::graph();
    let d = dim("d", 4);
    let x = g.input("x", [d], F32);
    let total = x.sum([d]).probe("total");
    assert_eq!(total.tensor_type(), x.sum([d]).tensor_type());
    let f = g.function("f", [x], [total * 2.0], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"d:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&seen);
    session
        .watch(move |label, array| inside.lock().unwrap().push((label.to_owned(), array.item())));
    let [twice] = session.call(&f, [arr1(&[1.0_f32, 2.0, 3.0, 4.0]).view().into()]).unwrap();
    assert_eq!(twice.item(), Some(20.0));
    assert_eq!(*seen.lock().unwrap(), [("total".to_owned(), Some(10.0))]);
}

/// Seeds were derived from a hash that differs between processes. These numbers were computed in
/// another process.
#[test]
fn d30_the_seed_alone_decides_random_numbers() {
    let g = mesh_ops::graph();
    g.variable("w", [dim("p", 4)], F32, Initializer::Uniform { low: 0.0, high: 1.0 });
    let noise = mesh_ops::random::random_integer(&g, [dim("p", 4)], 0, 1000);
    let f = g.function("f", [], [noise], []);
    for (mesh, layout) in [("", ""), ("a:2", "p:a"), ("a:4", "p:a")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 7).unwrap();
        let bits = session.read("w").unwrap().as_f32().unwrap().mapv(f32::to_bits);
        assert_eq!(
            bits.as_slice().unwrap(),
            [1_064_398_830_u32, 1_048_908_384, 1_051_135_208, 1_060_879_311]
        );
        let [noise] = session.call(&f, []).unwrap();
        assert_eq!(noise, arr1(&[682, 714, 266, 765]).into());
    }
}
