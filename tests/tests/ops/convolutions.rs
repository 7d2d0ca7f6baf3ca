//! Convolutions, pools and their layers: numbers that other programs computed, and collectives.

use mesh_ops::conv::{Conv, Padding, conv};
use mesh_ops::pool::{Pool, avg_pool, max_pool};
use mesh_ops::prelude::*;

type Build = dyn for<'g> Fn(&[Tensor<'g>]) -> Tensor<'g>;

/// Fetches of one function without gradients, fed in order.
fn computed(build: &Build, inputs: &[(&str, Vec<f32>)], layout: &str) -> (Vec<f64>, Vec<String>) {
    let g = mesh_ops::graph();
    let names = ["x", "y"];
    let x: Vec<_> = inputs
        .iter()
        .zip(names)
        .map(|((shape, _), name)| g.input(name, shape.parse::<Shape>().unwrap(), F32))
        .collect();
    g.declare_function("f", &x, &[build(&x)], Vec::new());
    let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let array = |t: &Tensor<'_>, data: &[f32]| {
        Array::from(ndarray::ArrayD::from_shape_vec(t.shape().sizes(), data.to_vec()).unwrap())
    };
    let arrays: Vec<_> = x.iter().zip(inputs).map(|(t, (_, data))| array(t, data)).collect();
    let fed: Vec<_> = names.into_iter().zip(arrays.iter().map(Array::view)).collect();
    let results = session.call_named("f", &fed).unwrap();
    let exchanged = module.functions()[0].steps().iter().filter(|step| step.axes().is_some());
    let forms = exchanged.map(|step| step.form.name().to_owned());
    (results[0].1.to_f64().into_iter().collect(), forms.collect())
}

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32).collect()
}

#[test]
fn the_numbers_of_mesh_tensorflow() {
    let x = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0];
    let filter = vec![1.0, -1.0, 0.0, 0.0, 2.0, -2.0, -1.0, 1.0, 3.0, -3.0, -2.0, 2.0];
    let build: Box<Build> = Box::new(|t| conv(t[0], t[1], &Conv::over([("h", "fh")])));
    let inputs = [("h:4;c:2", x), ("fh:3;c:2;o:2", filter)];
    for (layout, permutes) in [("", 0), ("h:a", 2)] {
        let (y, collectives) = computed(&build, &inputs, layout);
        assert_eq!(y, [0.0, 0.0, 1.0, -1.0, 5.0, -5.0, 4.0, -4.0]);
        assert_eq!(collectives, vec!["permute"; permutes]);
    }
}

#[test]
fn valid_windows_are_a_sum_of_products() {
    let build: Box<Build> =
        Box::new(|t| conv(t[0], t[1], &Conv::over([("l", "fl")]).padding(Padding::Valid)));
    let (b, l, c, f) = (2, 8, 3, 3);
    let (x, filter) = (counting(b * l * c), counting(f * c));
    let at = |b: usize, l0: usize| -> f64 {
        let term = |k: usize| f64::from(x[(b * l + l0) * c + k] * filter[k]);
        (0..f * c).map(term).sum()
    };
    let windows = (0..b).flat_map(|b| (0..6).map(move |l0| (b, l0)));
    let want: Vec<_> = windows.map(|(b, l0)| at(b, l0)).collect();
    let inputs = [("b:2;l:8;c:3", x.clone()), ("fl:3;c:3", filter.clone())];
    for layout in ["", "b:a", "l:a"] {
        assert_eq!(computed(&build, &inputs, layout).0, want);
    }
}

/// Fetches of a layer with variables of these values.
fn layer(
    build: &Build,
    x: (&str, Vec<f32>),
    variables: &[(&str, Vec<f32>)],
    layout: &str,
) -> Vec<f64> {
    let g = mesh_ops::graph();
    let input = g.input("x", x.0.parse::<Shape>().unwrap(), F32);
    let f = g.function("f", [input], [build(&[input])], []);
    let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    for (name, data) in variables {
        let sizes = session.read(name).unwrap().shape().to_vec();
        let value = ndarray::ArrayD::from_shape_vec(sizes, data.clone()).unwrap();
        session.write(name, value.view()).unwrap();
    }
    let x = ndarray::ArrayD::from_shape_vec(input.shape().sizes(), x.1).unwrap();
    let [y] = session.call(&f, [x.view().into()]).unwrap();
    y.to_f64().into_iter().collect()
}

#[test]
fn layers_have_filters_of_their_own() {
    use mesh_ops::layers::{ConvLayer, conv_layer, separable_conv_layer};
    let x = || ("h:4;c:2", vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    let along = || Conv::over([("h", "fh")]);
    let filter = vec![1.0, -1.0, 0.0, 0.0, 2.0, -2.0, -1.0, 1.0, 3.0, -3.0, -2.0, 2.0];
    for layout in ["", "h:a", "o:a", "c:a"] {
        // If the output dim has the name of the summed one, the summed one is renamed.
        for output in ["o", "c"] {
            let plain: Box<Build> =
                Box::new(move |t| conv_layer(t[0], &along(), [3], dim(output, 2), "conv"));
            let variables = [("conv/kernel", filter.clone()), ("conv/bias", vec![10.0, 20.0])];
            let y = layer(&plain, x(), &variables, layout);
            assert_eq!(y, [10.0, 20.0, 11.0, 19.0, 15.0, 15.0, 14.0, 16.0], "{layout} {output}");
        }
        let separable: Box<Build> =
            Box::new(move |t| separable_conv_layer(t[0], &along(), [3], dim("o", 2), "conv"));
        let variables = [
            ("conv/depthwise", vec![1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
            ("conv/pointwise", vec![1.0, 0.0, 1.0, -1.0]),
        ];
        let y = layer(&separable, x(), &variables, layout);
        assert_eq!(y, [3.0, -2.0, 6.0, -4.0, 9.0, -6.0, 7.0, -4.0], "{layout}");
    }
    // Two groups of one channel each, and a filter of one position: products group by group.
    let grouped: Box<Build> = Box::new(move |t| {
        let by_group = along().depthwise(["g"]);
        ConvLayer::onto(dim("o", 2), &by_group, [1]).without_bias().apply(t[0], "conv")
    });
    let variables = [("conv/kernel", vec![1.0, 2.0, 3.0, 4.0])];
    for layout in ["", "h:a", "g:a", "o:a"] {
        let y = layer(&grouped, ("h:2;g:2;c:1", counting(4)), &variables, layout);
        assert_eq!(y, [0.0, 0.0, 3.0, 4.0, 2.0, 4.0, 9.0, 12.0], "{layout}");
    }
}

#[test]
fn layers_name_their_mistakes() {
    use mesh_ops::layers::conv_layer;
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("c", 2), dim("h", 4)], F32);
    let along = Conv::over([("h", "fh")]);
    conv_layer(x, &along, [3], dim("o", 2), "channels");
    conv_layer(x, &along, [3, 3], dim("o", 2), "sizes");
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("h:4 is no dim of input channels of [c:2, h:4]"), "{report}");
    assert!(
        report.contains("1 dims: its sizes are 1 numbers of at least 1, not [3, 3]"),
        "{report}"
    );
}

/// On [2, 3, 4, 6, 3] with windows that touch: the largest element gets all of the gradient of a
/// maximum, each element its part of that of a mean.
#[test]
fn gradients_of_pools_that_touch() {
    let pool = || Pool::over([("d", 3), ("h", 2), ("w", 3)]);
    type Pooling = for<'g> fn(Tensor<'g>, &Pool) -> Tensor<'g>;
    for layout in ["", "n:a", "h:a", "w:a", "c:a"] {
        for (pooling, most) in [(max_pool as Pooling, true), (avg_pool as Pooling, false)] {
            let gradient: Box<Build> = Box::new(move |t| {
                let loss = pooling(t[0], &pool()).sum_all();
                t[0].graph().gradients(&[loss], &[t[0]], None)[0].unwrap()
            });
            let shape = if layout == "c:a" { "n:2;d:3;h:4;w:6;c:4" } else { "n:2;d:3;h:4;w:6;c:3" };
            let size = shape.parse::<Shape>().unwrap().size();
            let (dx, collectives) = computed(&gradient, &[(shape, counting(size))], layout);
            assert_eq!(collectives, [""; 0], "{layout}");
            if most {
                assert_eq!(dx.iter().filter(|x| **x != 0.0).count(), size / 18);
                assert_eq!(dx.iter().sum::<f64>(), size as f64 / 18.0);
            } else {
                assert!(dx.iter().all(|x| (x - 1.0 / 18.0).abs() < 1e-8), "{dx:?}");
            }
        }
    }
}

#[test]
fn ties_share_the_gradient_of_a_maximum() {
    let gradient: Box<Build> = Box::new(|t| {
        let loss = max_pool(t[0], &Pool::over([("h", 2), ("w", 2)])).sum_all();
        t[0].graph().gradients(&[loss], &[t[0]], None)[0].unwrap()
    });
    let x = vec![1.0, 1.0, 5.0, 0.0, 1.0, 0.0, 5.0, 0.0];
    let third = f64::from(1.0_f32 / 3.0);
    for layout in ["", "w:a"] {
        let (dx, _) = computed(&gradient, &[("h:2;w:4", x.clone())], layout);
        assert_eq!(dx, [third, third, 0.5, 0.0, third, 0.0, 0.5, 0.0]);
    }
}

#[test]
fn what_is_beyond_the_ends_does_not_count() {
    let pool = || Pool::over([("h", 3)]).strides([1]).padding(Padding::Same);
    let max: Box<Build> = Box::new(move |t| max_pool(t[0], &pool()));
    let avg: Box<Build> = Box::new(move |t| avg_pool(t[0], &pool()));
    for layout in ["", "h:a"] {
        let x = || [("h:4", vec![-4.0, -3.0, -2.0, -1.0])];
        assert_eq!(computed(&max, &x(), layout).0, [-3.0, -2.0, -1.0, -1.0]);
        assert_eq!(computed(&avg, &x(), layout).0, [-3.5, -3.0, -2.0, -1.5]);
        let lost =
            computed(&max, &[("h:4", vec![f32::NAN, 1.0, 2.0, f32::NEG_INFINITY])], layout).0;
        assert!(lost[0].is_nan() && lost[1].is_nan());
        assert_eq!(lost[2..], [2.0, 2.0]);
    }
}

/// Only margins are sent, each once, and the gradients reuse those of the forward pass.
#[test]
fn margins_are_as_wide_as_needed() {
    let sent = |described: Conv, taps: usize, n: usize, outputs: usize| {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("h", n), dim("c", 2)], F32);
        let filter = g.input("filter", [dim("fh", taps), dim("c", 2), dim("o", 3)], F32);
        let y = conv(x, filter, &described);
        assert_eq!(y.shape().sizes(), [outputs, 3]);
        let weights = g.input("weights", y.shape(), F32);
        let grads = g.gradients(&[y], &[x, filter], Some(&[weights]));
        let (dx, df) = (grads[0].unwrap(), grads[1].unwrap());
        g.function("f", [x, filter, weights], [y, dx, df], []);
        let module = g.lower(&"a:4".parse().unwrap(), &"h:a".parse().unwrap()).unwrap();
        let program = &module.functions()[0];
        let collectives = program.steps().iter().filter(|step| step.axes().is_some());
        let sent = |step: &mesh_core::program::Step| {
            let elements: usize = step.reads().map(|id| program.value(id).len()).sum();
            format!("{} {elements}", step.form.name())
        };
        let mut sent: Vec<_> = collectives.map(sent).collect();
        sent.sort();
        sent
    };
    let along = || Conv::over([("h", "fh")]);
    // x: one row of 2 from either side; dy: one row of 3; the filter gradient of 3 * 2 * 3 summed.
    let same = ["all_reduce 18", "permute 2", "permute 2", "permute 3", "permute 3"];
    assert_eq!(sent(along(), 3, 16, 16), same);
    // An even filter reaches farther at the high end.
    assert_eq!(sent(along(), 2, 16, 16), ["all_reduce 12", "permute 2", "permute 3"]);
    // Windows that touch need nothing of the neighbours.
    assert_eq!(sent(along().strides([2]), 2, 16, 8), ["all_reduce 12"]);
    // Causal: two rows from before, and two rows of dy from after.
    let causal = ["all_reduce 18", "permute 4", "permute 6"];
    assert_eq!(sent(along().pads([(2, 0)]), 3, 16, 16), causal);
}
