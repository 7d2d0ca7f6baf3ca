//! Dense layers, embeddings and how weights are made.

use crate::fed::Fed;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

fn names(g: &Graph) -> Vec<String> {
    g.trainable_variables().iter().map(|v| format!("{}{}", v.name(), v.shape())).collect()
}

#[test]
fn variables_have_their_names_and_dims() {
    let g = mesh_ops::graph();
    let (batch, model, hidden, experts) =
        (dim("batch", 4), dim("model", 8), dim("hidden", 6), dim("experts", 2));
    let x = g.input("x", [batch, model], F32);
    x.dense(model, "same");
    Dense::onto([hidden]).for_each([experts]).apply(x, "each");
    dense_product(x, &Dense::onto([hidden]), &[Activation::Relu, Activation::Linear], "glu");
    dense_relu_dense(x, hidden, "mlp");
    embedding(g.input("ids", [batch], I32), dim("vocab", 10), [model], "tokens");
    let norm = Norm::Layer.weights(&Parameters::like(x).stacked([dim("layers", 3)]), model, "n");
    assert_eq!(norm.tensors().len(), 2);
    g.check().unwrap();
    assert_eq!(
        names(&g),
        [
            "same/kernel[_model:8, model:8]",
            "same/bias[model:8]",
            "each/kernel[experts:2, model:8, hidden:6]",
            "each/bias[experts:2, hidden:6]",
            "glu/0/kernel[model:8, hidden:6]",
            "glu/0/bias[hidden:6]",
            "glu/1/kernel[model:8, hidden:6]",
            "glu/1/bias[hidden:6]",
            "mlp/wi/kernel[model:8, hidden:6]",
            "mlp/wi/bias[hidden:6]",
            "mlp/wo/kernel[hidden:6, model:8]",
            "mlp/wo/bias[model:8]",
            "tokens/embedding[vocab:10, model:8]",
            "n/scale[layers:3, model:8]",
            "n/bias[layers:3, model:8]",
        ]
    );
}

/// Standard deviation of a variable's initial value.
fn deviation(g: &Graph, name: &str) -> f64 {
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let value = Session::threads(&module, 5).unwrap().read(name).unwrap().to_f64();
    value.std(0.0)
}

#[test]
fn kernels_start_scaled_to_their_inputs() {
    let g = mesh_ops::graph();
    let (x, y) = (dim("x", 64), dim("y", 100));
    let parameters = Parameters::new(&g, F32);
    let stacked = parameters.clone().stacked([dim("layers", 4)]);
    Dense::onto([y]).over([x]).weights(&parameters, "plain");
    Dense::onto([y]).over([x]).weights(&stacked, "stacked");
    Dense::onto([y]).over([x]).for_each([dim("experts", 4)]).weights(&parameters, "experts");
    Dense::onto([y]).over([x]).unit_scaling().weights(&parameters, "unit");
    // A normal distribution that is cut at two deviations has 0.8796 of its deviation.
    const CUT: f64 = 0.8796;
    for name in ["plain/kernel", "stacked/kernel", "experts/kernel"] {
        let ratio = deviation(&g, name) * 8.0 / CUT;
        assert!((ratio - 1.0).abs() < 0.03, "{name}: {ratio}");
    }
    assert!((deviation(&g, "unit/kernel") / CUT - 1.0).abs() < 0.03);
}

#[test]
fn names_of_layers_may_have_several_parts() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    let _scope = g.scope("model");
    for name in ["encoder/first", "decoder/first", "decoder/first"] {
        Dense::onto([dim("y", 2)]).without_bias().apply(x, name);
    }
    let kernels = ["encoder/first", "decoder/first", "decoder/first_1"];
    assert_eq!(names(&g), kernels.map(|name| format!("model/{name}/kernel[x:4, y:2]")));
}

#[test]
fn weights_may_be_stored_in_another_dtype() {
    let g = mesh_ops::graph();
    let (x, y) = (dim("x", 4), dim("y", 2));
    let parameters = Parameters::new(&g, F32).computed_in(BF16);
    let weights = Dense::onto([y]).over([x]).weights(&parameters, "h");
    assert_eq!(weights.kernel.dtype(), BF16);
    assert_eq!(g.trainable_variables()[0].dtype(), F32);
    let input = g.input("x", [x], BF16);
    assert_eq!(Dense::onto([y]).apply_with(input, &weights).dtype(), BF16);
    g.check().unwrap();
}

#[test]
fn unit_scaling_divides_by_the_root_of_the_inputs() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "unit scaling");
    let x = fed.given("x", "x:4", &[1.0, 2.0, 3.0, 4.0]);
    let kernel = fed.given("kernel", "x:4;y:1", &[1.0; 4]);
    let dense = Dense::onto([dim("y", 1)]).unit_scaling();
    let y = dense.apply_with(x, &DenseWeights { kernel, bias: None });
    let layouts = [("", ""), ("a:2", "x:a"), ("a:4", "x:a")];
    assert_eq!(fed.value(y, &layouts).iter().copied().collect::<Vec<_>>(), [5.0]);
}

#[test]
fn weights_are_handled_as_one() {
    let g = mesh_ops::graph();
    let (model, hidden) = (dim("model", 8), dim("hidden", 6));
    let layer = FeedForward::new(model, hidden)
        .activations([Activation::Swish, Activation::Linear])
        .with_bias();
    let layers = dim("layers", 2);
    let stacked = layer.weights(&Parameters::new(&g, F32).stacked([layers]), "mlp");
    assert_eq!(stacked.tensors().len(), 6);
    let second = stacked.mapped(&mut |w| w.slice(layers.resized(1), 1).sum([layers.resized(1)]));
    let x = g.input("x", [model], F32);
    assert_eq!(layer.apply(x, &second).shape(), x.shape());
    g.check().unwrap();
}

#[test]
fn embeddings_look_up_rows() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "embeddings");
    let vocab = dim("vocab", 3);
    let ids = fed.integers("ids", "p:6", &[2, 0, 1, 3, -1, 2]);
    let table = fed.given("table", "vocab:3;d:2", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let layouts = [("", ""), ("a:2", "p:a"), ("a:3", "vocab:a"), ("a:2;b:3", "d:a;vocab:b")];
    let rows = fed.value(embed(ids, table, vocab), &layouts);
    let expected = [5.0, 6.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 5.0, 6.0];
    assert_eq!(rows.iter().copied().collect::<Vec<_>>(), expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let g = mesh_ops::graph();
    let (a, b) = (dim("a", 4), dim("b", 3));
    let x = g.input("x", [a], F32);
    Dense::onto([b]).over([b]).apply(x, "lacking");
    Dense::onto([b]).weights(&Parameters::like(x), "unsaid");
    let kernel = g.fill(1.0, [a], F32);
    Dense::onto([b]).apply_with(x, &DenseWeights { kernel, bias: None });
    dense_product(x, &Dense::onto([b]), &[], "none");
    g.scalar(1.0, F32).dense(b, "scalar");
    embedding_logits(x, g.fill(1.0, [b, dim("c", 2)], F32), b);
    let report = g.check().unwrap_err().to_string();
    for expected in [
        "x: f32[a:4] has no dim b:3",
        "say what to sum with Dense::over",
        "f32[a:4] is no weight of dims [a:4, b:3]",
        "0 activations and 0 weights; one of each is needed",
        "dense needs a dim to sum over",
        "x: f32[a:4] has no dim c:2",
    ] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    assert_eq!(report.matches("layers/dense.rs:").count(), 6, "{report}");
    let unknown = "gleu".parse::<Activation>().unwrap_err();
    assert!(unknown.contains("`gleu`") && unknown.contains("gelu"), "{unknown}");
    for activation in Activation::ALL {
        assert_eq!(activation.to_string().parse(), Ok(activation));
    }
}
