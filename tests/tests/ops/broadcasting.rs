//! The shape of an op of two tensors.

use mesh_ops::prelude::*;
use ndarray::Array2;

/// Mesh TensorFlow's four cases: one's dims stand in the other in order, twice; both have their own; both
/// have the same in another order.
#[test]
fn the_cases_of_mesh_tensorflow() {
    for (one, other, expected) in [
        ("a:2;b:3", "b:3", "[a:2, b:3]"),
        ("b:3", "a:2;b:3", "[a:2, b:3]"),
        ("a:2;b:3", "b:3;c:4", "[a:2, b:3, c:4]"),
        ("a:2;b:3", "b:3;a:2", "[a:2, b:3]"),
        ("", "a:2;b:3", "[a:2, b:3]"),
        ("c:4;a:2", "a:2;b:3", "[c:4, a:2, b:3]"),
    ] {
        let g = mesh_ops::graph();
        let [x, y] = [("x", one), ("y", other)]
            .map(|(name, shape)| g.input(name, shape.parse::<Shape>().unwrap(), F32));
        for z in [x + y, x * y, x.maximum(y), x.less(y).cast(F32), x.less(y).select(x, y)] {
            assert_eq!(z.shape().to_string(), expected, "{one} and {other}");
        }
    }
}

/// The shape may be said: in another order, and with dims along which the result is repeated.
#[test]
fn the_shape_may_be_said() {
    let g = mesh_ops::graph();
    let (a, b, c) = (dim("a", 2), dim("b", 3), dim("c", 2));
    let (x, y) = (g.input("x", [a], F32), g.input("y", [b], F32));
    let sum = mesh_ops::broadcast(x + y, &Shape::new([b, c, a]).unwrap());
    assert_eq!(sum.shape().to_string(), "[b:3, c:2, a:2]");
    let f = g.function("f", [x, y], [sum], []);
    for (mesh, layout) in [("", ""), ("m:2", "a:m"), ("m:2", "c:m"), ("m:3", "b:m")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let (x, y) = (ndarray::arr1(&[10f32, 20.0]), ndarray::arr1(&[1f32, 2.0, 3.0]));
        let mut session = Session::threads(&module, 0).unwrap();
        let [found] = session.call(&f, [x.view().into(), y.view().into()]).unwrap();
        let expected = Array2::from_shape_fn((3, 4), |(b, ca)| y[b] + x[ca % 2]);
        let expected = expected.into_shape_with_order([3, 2, 2]).unwrap().into_dyn();
        assert_eq!(found, Array::from(expected), "{layout}");
    }
}
