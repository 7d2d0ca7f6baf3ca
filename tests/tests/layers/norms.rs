//! Norms against numbers and closed forms.

use crate::fed::Fed;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

const LAYOUTS: &[(&str, &str)] =
    &[("", ""), ("a:2", "batch:a"), ("a:3", "k:a"), ("a:2;b:3", "batch:a;k:b")];

/// Numbers of Mesh TensorFlow's own test.
#[test]
fn batches_are_normalised() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "batch_norm");
    let x = fed.given("x", "batch:2;k:3", &[0.0, 1.0, 2.0, 4.0, 5.0, 6.0]);
    for (name, input) in [("plain", x), ("moved", x * 2.0 + 1.0)] {
        let (y, _) = batch_norm(input, [dim("k", 3)], name);
        let y = fed.value(y, LAYOUTS);
        for (got, want) in y.iter().zip([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]) {
            assert!((got - want).abs() < 1e-5, "{name}: {y}");
        }
    }
}

/// D33 of Mesh TensorFlow: the average mean started as a random number.
#[test]
fn averages_start_at_mean_0_and_variance_1() {
    let g = mesh_ops::graph();
    let (batch, k) = (dim("batch", 2), dim("k", 3));
    let x = g.input("x", [batch, k], F32);
    let norm = BatchNorm::keeping([k]).momentum(0.75).epsilon(0.0);
    let weights = norm.weights(&Parameters::like(x), "norm");
    let (y, updates) = norm.train(x, &weights);
    let train = g.function("train", [x], [y], updates);
    let evaluate = g.function("evaluate", [x], [norm.evaluate(x, &weights)], []);
    let data = ndarray::arr2(&[[0f32, 1.0, 2.0], [4.0, 5.0, 6.0]]);
    for (mesh, layout) in LAYOUTS {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 1).unwrap();
        let [same] = session.call(&evaluate, [data.view().into()]).unwrap();
        assert_eq!(same.as_f32().unwrap(), &data.clone().into_dyn(), "nothing is known yet");
        let read = |session: &Session, name: &str| {
            session.read(name).unwrap().to_f64().iter().copied().collect::<Vec<_>>()
        };
        let [_] = session.call(&train, [data.view().into()]).unwrap();
        assert_eq!(read(&session, "norm/moving_mean"), [0.5, 0.75, 1.0]);
        assert_eq!(read(&session, "norm/moving_variance"), [1.75; 3], "3/4 of 1, 1/4 of 4");
        let [_] = session.call(&train, [data.view().into()]).unwrap();
        assert_eq!(read(&session, "norm/moving_mean")[0], 0.875);
        let [after] = session.call(&evaluate, [data.view().into()]).unwrap();
        let want = (4.0 - 0.875) / (0.75 * 1.75 + 1.0f64).sqrt();
        assert!((after.to_f64()[[1, 0]] - want).abs() < 1e-6);
    }
}

#[test]
fn examples_are_normalised() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "norms");
    let k = dim("k", 3);
    let x = fed.given("x", "batch:2;k:3", &[1.0, 2.0, 6.0, -4.0, 4.0, 0.0]);
    let layer = fed.value(layer_norm(x, k, "layer"), LAYOUTS);
    let rms = fed.value(rms_norm(x, k, "rms"), LAYOUTS);
    for (row, (mean, variance)) in [(3.0, 14.0 / 3.0), (0.0, 32.0 / 3.0)].into_iter().enumerate() {
        for column in 0..3 {
            let element = [[1.0, 2.0, 6.0], [-4.0, 4.0, 0.0]][row][column];
            let want = (element - mean) / (variance + NORM_EPSILON).sqrt();
            assert!((layer[[row, column]] - want).abs() < 1e-6);
            let want = element / (variance + mean * mean + NORM_EPSILON).sqrt();
            assert!((rms[[row, column]] - want).abs() < 1e-6);
        }
    }
}
