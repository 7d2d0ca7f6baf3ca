//! Ops that take tensors apart and put them together: exact numbers, unused parts, refusals.

use mesh_core::program::Step;
use mesh_ops::layers::{logsumexp_with, softmax_with};
use mesh_ops::prelude::*;
use mesh_ops::reduce::{max, mean, min};
use mesh_ops::*;
use ndarray::{ArrayD, Axis, IxDyn};

fn call(g: &Graph, layout: &str, fetch: Tensor<'_>) -> Array {
    let f = g.function("f", [], [fetch], []);
    let module = g.lower(&"m:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let [result] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
    result
}

/// Mesh TensorFlow's own cases: [2, 3, 4, 5] pooled by 2 to [2, 3, 2, 5], [2, 3, 6, 5] in strides
/// of 2 and 3, the first along a dim.
#[test]
fn pooling_and_strides_of_mesh_tensorflow() {
    let data = |size: usize| {
        ArrayD::from_shape_fn(IxDyn(&[2, 3, size, 5]), |i| {
            ((i[0] * 31 + i[1] * 17 + i[2] * 7 + i[3] * 3) % 11) as f32
        })
    };
    let dims = |size| [dim("a", 2), dim("b", 3), dim("c", size), dim("d", 5)];
    type Fold = fn(f32, f32) -> f32;
    let table: [(&str, Fold); 3] =
        [("max", f32::max), ("min", f32::min), ("mean", |a, b| (a + b) / 2.0)];
    for (name, fold) in table {
        let g = mesh_ops::graph();
        let (x, c) = (g.constant(data(4), dims(4)), dim("c", 4));
        let pooled = match name {
            "max" => pool_1d(x, c, 2, max),
            "min" => pool_1d(x, c, 2, min),
            _ => pool_1d(x, c, 2, mean),
        };
        let want = ArrayD::from_shape_fn(IxDyn(&[2, 3, 2, 5]), |i| {
            let at = |k: usize| data(4)[[i[0], i[1], 2 * i[2] + k, i[3]]];
            fold(at(0), at(1))
        });
        assert_eq!(call(&g, "c:m", pooled).as_f32().unwrap(), &want, "{name}");
    }
    for stride in [2, 3] {
        let g = mesh_ops::graph();
        let x = g.constant(data(6), dims(6));
        let want: Vec<_> = (0..6).step_by(stride).collect();
        let want = data(6).select(Axis(2), &want);
        let layout = if stride == 3 { "c:m" } else { "a:m" };
        let found = call(&g, layout, stride_1d(x, dim("c", 6), stride));
        assert_eq!(found.as_f32().unwrap(), &want);
    }
    let g = mesh_ops::graph();
    let first = pick(g.constant(data(4), dims(4)), dim("c", 4), 0);
    let found = call(&g, "c:m", first);
    assert_eq!(found.as_f32().unwrap(), &data(4).index_axis(Axis(2), 0).to_owned());
}

/// D21: Mesh TensorFlow's gradient of unstack crashes if a part is unused.
#[test]
fn unused_parts_get_zeros() {
    let g = mesh_ops::graph();
    let (layer, x) = (dim("layer", 4), dim("x", 2));
    let all = g.fill(1.0, [layer, x], F32);
    let (each, parts) = (unstack(all, layer), split(all, layer, [1, 3]));
    let loss = (each[2] * 3.0).sum_all() + (parts[0] * 5.0).sum_all();
    let gradient = g.gradients(&[loss], &[all], None)[0].unwrap();
    let found = call(&g, "", gradient);
    let want = ndarray::arr2(&[[5.0_f32, 5.0], [0.0, 0.0], [3.0, 3.0], [0.0, 0.0]]);
    assert_eq!(found.as_f32().unwrap(), &want.into_dyn());
}

/// Elements that are not picked have no effect, not even NaN.
#[test]
fn picking_sees_nothing_else() {
    let g = mesh_ops::graph();
    let data = ndarray::arr1(&[f32::NAN, 2.0, f32::INFINITY, f32::NAN]).into_dyn();
    let picked = pick(g.constant(data, [dim("x", 4)]), dim("x", 4), 1);
    assert_eq!(call(&g, "x:m", picked).item(), Some(2.0));
}

#[test]
fn stacking_sends_nothing() {
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let (a, b) = (g.input("a", [x], F32), g.input("b", [x], F32));
    g.function("f", [a, b], [stack(a, &[b], "layer")], []);
    for layout in ["layer:m", "x:m", ""] {
        let module = g.lower(&"m:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let steps = module.functions()[0].steps();
        assert!(steps.iter().all(|step| step.axes().is_none()), "{layout}");
    }
}

/// If the dim is split, picking costs one small sum, otherwise a copy of one row.
#[test]
fn picking_costs_one_row() {
    let g = mesh_ops::graph();
    let (x, y) = (dim("x", 4), dim("y", 6));
    let a = g.input("a", [x, y], F32);
    g.function("f", [a], [pick(a, x, 3)], []);
    let steps = |layout: &str| -> Vec<Step> {
        let module = g.lower(&"m:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        module.functions()[0].steps().to_vec()
    };
    let forms =
        |steps: &[Step]| steps.iter().map(|step| step.form.name()).collect::<Vec<_>>().join(" ");
    assert_eq!(forms(&steps("y:m")), "reshape move");
    assert_eq!(forms(&steps("x:m")), "generate reshape gather all_reduce");
}

/// The gradient of a product where one, two or no elements are 0; quotients would be NaN.
#[test]
fn gradients_of_products_at_zero() {
    let table = [
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
        ([2.0, 0.0, 4.0], [0.0, 8.0, 0.0]),
        ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
        ([-0.0, 5.0, -1.0], [-5.0, 0.0, 0.0]),
    ];
    for (x, want) in table {
        let g = mesh_ops::graph();
        let data = ndarray::arr1(&x.map(|x| x as f32)).into_dyn();
        let x = g.constant(data, [dim("x", 3)]);
        let gradient = g.gradients(&[x.prod([dim("x", 3)])], &[x], None)[0].unwrap();
        let found = call(&g, "", gradient);
        assert_eq!(found.as_f32().unwrap().iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), want);
    }
}

#[test]
fn an_extra_logit_takes_its_share() {
    let g = mesh_ops::graph();
    let x = dim("x", 3);
    let logits = g.fill(0.0, [x], F32);
    let share = softmax_with(logits, x, Some(g.scalar(0.0, F32)));
    assert_eq!(call(&g, "", share).as_f32().unwrap()[[0]], 0.25);

    let g = mesh_ops::graph();
    let masked = g.fill(f64::NEG_INFINITY, [x], F32);
    let nothing = softmax_with(masked, x, Some(g.scalar(1e4, F32)));
    assert_eq!(call(&g, "", nothing).as_f32().unwrap()[[2]], 0.0, "all the weight is elsewhere");

    let g = mesh_ops::graph();
    let wide = logsumexp_with(g.fill(-1e4, [x], F32), [x], Some(g.scalar(1e4, F32)));
    assert_eq!(call(&g, "", wide).item(), Some(1e4));
}

#[test]
fn what_is_refused() {
    type Build = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
    fn x() -> Dimension {
        dim("x", 4)
    }
    fn y() -> Dimension {
        dim("y", 6)
    }
    let table: [(Build, &str); 17] = [
        (|t| split(t, x(), [1, 2])[0], "parts of [1, 2] do not make up x:4"),
        (|t| split(t, x(), [4, 0])[0], "parts of [4, 0] do not make up x:4"),
        (|t| split(t, dim("x", 3), [1, 2])[0], "has no dim x:3"),
        (|t| split_evenly::<3>(t, x())[0], "3 equal parts do not make up x:4"),
        (|t| split_evenly::<2>(t, dim("z", 4))[0], "has no dim z:4"),
        (|t| unstack(t, dim("z", 2))[1], "has no dim z:2"),
        (|t| pick(t, x(), 4), "there is no element 4 along x:4"),
        (|t| stack(t, &[t.sum([y()])], "s"), "f32[x:4, y:6] and f32[x:4] differ"),
        (|t| stack(t, &[t.cast(I32)], "s"), "f32[x:4, y:6] and i32[x:4, y:6] differ"),
        (|t| stack(t, &[t], "x"), "x"),
        (|t| pool_1d(t, x(), 3, max), "blocks of 3 do not make up x:4"),
        (|t| stride_1d(t, x(), 0), "blocks of 0 do not make up x:4"),
        (|t| replace_dims(t, [x()], [dim("u", 5)]), "has 4 elements, [u:5] has 5"),
        (|t| replace_dims(t, [dim("u", 5)], [x()]), "has no dim u:5"),
        (|t| merge_dims(t, [], "u"), "there are no dims to replace"),
        (|t| softmax_with(t, x(), Some(t)), "may have the dims [y:6], not x:4"),
        (|t| t.cast(Bool).prod([x()]), "prod needs numbers, not bool"),
    ];
    for (build, text) in table {
        let g = mesh_ops::graph();
        let t = g.input("t", [x(), y()], F32);
        assert!(build(t).is_poisoned(), "{text}");
        let report = g.check().unwrap_err().to_string();
        assert!(report.contains(text), "{text}: {report}");
        assert!(report.contains(file!()), "{report}");
    }
}

/// Two dims that no tensor has together, of one op.
#[test]
fn dims_that_meet_in_an_op_are_refused_on_one_axis() {
    let g = mesh_ops::graph();
    let (x, y) = (g.input("x", [dim("i", 4)], F32), g.input("y", [dim("j", 4)], F32));
    g.function("f", [x, y], [x.einsum(&[y], [])], []);
    let lower = |layout: &str| g.lower(&"a:2;b:2".parse().unwrap(), &layout.parse().unwrap());
    let report = lower("i:a;j:a").unwrap_err().to_string();
    assert!(report.contains("dims i and j are both split over a, and both meet here"), "{report}");
    lower("i:a;j:b").unwrap();
}
