//! The gradient driver: connections, weights, stops, errors.

use mesh_ops::prelude::*;
use ndarray::arr1;

fn value(g: &Graph, name: &str, x: Tensor<'_>, y: Tensor<'_>) -> Vec<f32> {
    let f = g.function(name, [x], [y], []);
    let module = g.lower(&"a:3".parse().unwrap(), &"x:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let [y] = session.call(&f, [arr1(&[1f32, -2.0, 3.0]).view().into()]).unwrap();
    y.as_f32().unwrap().iter().copied().collect()
}

#[test]
fn unconnected_tensors_have_no_gradient() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 3)], F32);
    let z = g.input("z", [dim("x", 3)], F32);
    let indices = x.cast(I32);
    let y = (x.square() + z.stop_gradient() + indices.cast(F32)).sum_all();
    let grads = g.gradients(&[y], &[x, z, indices], None);
    assert!(grads[0].is_some() && grads[1].is_none() && grads[2].is_none());
    assert!(g.check().is_ok());
    assert_eq!(value(&g, "f", x, grads[0].unwrap()), [2.0, -4.0, 6.0]);
}

#[test]
fn any_tensors_may_be_asked_for_and_weighted() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 3)], F32);
    let h = x.square();
    let (y, z) = (h * 3.0, h.sum_all());
    let weight = x.fill_like(10.0);
    let two = g.scalar(2.0, F32);
    let grads = g.gradients(&[y, z], &[h, x], Some(&[weight, two]));
    // d/dh of 10 * 3h + 2 * sum h
    assert_eq!(value(&g, "h", x, grads[0].unwrap()), [32.0; 3]);
    let second = g.gradients(&[grads[1].unwrap()], &[x], None)[0].unwrap();
    assert_eq!(value(&g, "second", x, second), [64.0; 3]);
}

#[test]
fn an_op_without_a_gradient_is_named() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    let y = mesh_ops::reduce::all(x.greater(x.fill_like(0.0)), [dim("x", 4)]).cast(F32);
    let grads = g.gradients(&[y], &[x], None);
    assert!(grads[0].is_none(), "a comparison ends the path");
    let integers = g.gradients(&[x.cast(I32)], &[x], None);
    assert!(integers[0].is_none());
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("is not of floats") && report.contains("gradients.rs"), "{report}");
}
