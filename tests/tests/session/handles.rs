//! Functions and their handles: names are unique in a graph, and a handle is valid for its own
//! graph only.

use mesh_core::graph::{Op, OpError, Signature, TensorType};
use mesh_core::lower::LocalCx;
use mesh_core::session::Error;
use mesh_core::split::SplitRule;
use mesh_ops::prelude::*;

fn doubled(by: f64) -> (Graph, Function<1, 1>) {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("p", 2)], F32);
    let f = g.function("f", [x], [x * by], []);
    (g, f)
}

#[test]
fn a_handle_calls_modules_of_its_own_graph_only() {
    let ((g, f), (_, other)) = (doubled(2.0), doubled(3.0));
    assert_ne!(f, other);
    let x = ndarray::arr1(&[1f32, 2.0]);
    // Any module of the graph works, whenever it was made.
    for mesh in ["", "a:2"] {
        let module = g.lower(&mesh.parse().unwrap(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let refused = session.call(&other, [x.view().into()]).unwrap_err();
        assert_eq!(refused, Error::OtherGraph { function: "f".to_owned() });
        assert!(refused.to_string().contains("`f` was declared in another graph"), "{refused}");
        let [y] = session.call(&f, [x.view().into()]).unwrap();
        assert_eq!(y.as_f32().unwrap().as_slice().unwrap(), [2.0, 4.0]);
        // A call by name finds the function of that name.
        assert_eq!(session.call_named("f", &[("x", x.view().into())]).unwrap()[0].1, y);
    }
}

#[test]
fn two_functions_of_one_name_are_told_with_both_lines() {
    let g = mesh_ops::graph();
    let x = g.input("x", [], F32);
    let first = line!() + 1;
    g.function("f", [x], [x], []);
    let second = line!() + 1;
    g.function("f", [x], [x * 2.0], []);
    g.declare_function("f", &[x], &[x], vec![]);
    let report = g.check().unwrap_err();
    assert_eq!(report.issues.len(), 2, "{report}");
    for (issue, line) in report.issues.iter().zip([second, second + 1]) {
        let text = issue.to_string();
        assert!(text.contains(&format!("{}:{first}", file!())), "{text}");
        assert!(text.contains(&format!("at {}:{line}", file!())), "{text}");
    }
}

#[test]
fn fetches_have_the_names_that_the_user_gave() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("p", 2)], F32);
    let (loss, other) = ((x * x).sum_all().named("loss"), (x + 1).sum_all().named("loss"));
    g.function("train", [x], [loss, x.exp(), x.named("input")], []);
    // Another function may have a tensor of the same name.
    g.function("evaluate", [x], [other.named("badness").named("loss"), x.exp().probe("seen")], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let fed = ndarray::arr1(&[1f32, 2.0]);
    let mut fetched = |function: &str| {
        let fetched = session.call_named(function, &[("x", (&fed).into())]).unwrap();
        fetched.into_iter().map(|(name, array)| (name, array.to_f64().sum())).collect::<Vec<_>>()
    };
    let train = fetched("train");
    let names: Vec<_> = train.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((&names[..], train[0].1), (&["loss", "exp", "input"][..], 5.0));
    let evaluate = fetched("evaluate");
    assert_eq!((evaluate[0].0.as_str(), evaluate[0].1), ("loss", 5.0));
    assert_eq!(evaluate[1].0, "seen");
    // Errors use the name, too.
    assert_eq!(format!("{loss:?}"), "loss: f32[]");
    g.function("twice", [x], [loss, other], []);
    let text = g.check().unwrap_err().to_string();
    assert!(text.starts_with("twice: two of its fetches are named loss"), "{text}");
}

/// An op whose body fails: a mistake of its author.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Broken(u8);

impl Op for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, _: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        Err(OpError::new(format!("fault number {}", self.0)))
    }
}

#[test]
fn faults_of_all_functions_are_told() {
    let g = mesh_ops::graph();
    let x = g.input("x", [], F32);
    for number in [1, 2, 3] {
        g.function(&format!("f{number}"), [x], [g.apply1(Broken(number), &[x])], []);
    }
    g.function("fine", [x], [x + 1.0], []);
    let report = g.lower(&Mesh::single(), &Layout::default()).unwrap_err();
    assert_eq!(report.issues.len(), 3, "{report}");
    for (number, issue) in (1..).zip(&report.issues) {
        assert!(issue.message.contains(&format!("fault number {number}")), "{issue}");
    }
}

#[test]
fn a_tensor_has_at_most_64_dims() {
    let dims = |count: usize, from: usize| {
        (from..from + count).map(|i| dim(&format!("d{i}"), if i == 3 || i == 60 { 2 } else { 1 }))
    };
    let g = mesh_ops::graph();
    g.input("x", dims(300, 0), F32);
    let report = g.check().unwrap_err();
    assert_eq!(report.issues.len(), 1);
    assert!(report.to_string().contains("`d64:1` is one dimension too many"), "{report}");
    assert!(report.to_string().contains("at most 64"), "{report}");
    // Two inputs that together have more dims.
    let g = mesh_ops::graph();
    let _ = g.input("x", dims(40, 0), F32) * g.input("y", dims(40, 40), F32);
    let _ = g.input("z", dims(40, 0), F32).matmul(&[g.input("w", dims(40, 40), F32)]);
    assert_eq!(g.check().unwrap_err().to_string().matches("at most 64").count(), 2);
    // As many dims as are legal, through ops that number them.
    let g = mesh_ops::graph();
    let x = g.input("x", dims(64, 0), F32);
    let d = |i: usize| dim(&format!("d{i}"), 2);
    let reversed: Vec<_> = x.shape().iter().collect::<Vec<_>>().into_iter().rev().collect();
    let y = (x.transpose(reversed) + x).softmax(d(3)).einsum(&[x], [d(60)]);
    let gradient = g.gradients(&[y], &[x], None)[0].unwrap();
    let f = g.function("f", [x], [y, gradient], []);
    for (mesh, layout) in [("", ""), ("a:2", "d3:a"), ("a:2", "d60:a")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut shape = vec![1; 64];
        (shape[3], shape[60]) = (2, 2);
        let fed = ndarray::Array::from_shape_vec(shape, vec![1f32, 2.0, 3.0, 4.0]).unwrap();
        let [y, gradient] =
            Session::threads(&module, 0).unwrap().call(&f, [fed.view().into()]).unwrap();
        let weight = |a: f32, b: f32| 1.0 / (1.0 + (2.0 * (b - a)).exp());
        let of = |a: f32, b: f32| a * weight(a, b) + b * weight(b, a);
        let y = y.as_f32().unwrap();
        assert!(
            (y[[0]] - of(1.0, 3.0)).abs() < 1e-5 && (y[[1]] - of(2.0, 4.0)).abs() < 1e-5,
            "{y}"
        );
        assert_eq!(gradient.len(), 4);
    }
}
