//! Defects of derivatives and loops.

use crate::fed::{Fed, near};
use mesh_ops::elementwise::{cos, elu, less, maximum, minimum, select, selu, sin, softplus};
use mesh_ops::prelude::*;
use mesh_ops::{split, unstack};

fn flat(array: &ndarray::ArrayD<f64>) -> Vec<f64> {
    array.iter().copied().collect()
}

/// The gradient of a maximum had the dims of the result instead of a broadcast operand's, and of
/// two equal operands each got the whole gradient.
#[test]
fn d01_extrema_reduce_their_gradients_and_share_ties() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D1");
    let x = fed.given("x", "p:3", &[1.0, 2.0, 0.0]);
    let b = fed.given("b", "", &[1.0]);
    for (extremum, of_x, of_b) in
        [(maximum(x, b), [0.5, 1.0, 0.0], 1.5), (minimum(x, b), [0.5, 0.0, 1.0], 1.5)]
    {
        let grads = g.gradients(&[extremum], &[x, b], None);
        let layouts = [("", ""), ("a:3", "p:a")];
        assert_eq!(flat(&fed.value(grads[0].unwrap(), &layouts)), of_x);
        let of = fed.value(grads[1].unwrap(), &layouts);
        assert_eq!((of.shape(), flat(&of)), (&[][..], vec![of_b]));
    }
}

/// elu, selu, softplus, sin and cos of a pending sum had no gradient, and nothing could depend on
/// such a sum.
#[test]
fn d02_functions_of_pending_sums_have_gradients() {
    type Function = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
    type Derivative = Box<dyn Fn(f64) -> f64>;
    // With their derivatives. The constants of selu: Klambauer et al. 2017, section 1.
    let (alpha, scale) = (1.6732632423543772, 1.0507009873554805);
    let below = move |s: f64, scale: f64| if s > 0.0 { scale } else { scale * s.exp() };
    let functions: [(Function, Derivative); 5] = [
        (elu, Box::new(move |s| below(s, 1.0))),
        (selu, Box::new(move |s| if s > 0.0 { scale } else { below(s, scale * alpha) })),
        (softplus, Box::new(|s| 1.0 / (1.0 + (-s).exp()))),
        (sin, Box::new(f64::cos)),
        (cos, Box::new(|s| -s.sin())),
    ];
    let layouts = [("", ""), ("a:4", "k:a"), ("a:2;b:2", "p:a;k:b")];
    for (function, derivative) in functions {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "D2");
        let (x, of_x) = fed.normal("x", "p:2;k:4");
        let (w, of_w) = fed.normal("w", "k:4");
        let sum = x.einsum(&[w], [dim("p", 2)]);
        let y = function(sum).depend(&[x.sum([dim("k", 4)])]);
        let dw = g.gradients(&[y], &[w], None)[0].unwrap();
        let dw = fed.value(dw, &layouts);
        let at = |p: usize, k: usize| f64::from(of_x[[p, k]]);
        let sum = |p: usize| (0..4).map(|k| at(p, k) * f64::from(of_w[[k]])).sum::<f64>();
        let want = ndarray::ArrayD::from_shape_fn(vec![4], |k| {
            (0..2).map(|p| derivative(sum(p)) * at(p, k[0])).sum()
        });
        near(&dw, &want, 1e-5, "derivative of a function of a sum");
    }
}

/// An iteration of a while loop took the partial sums of the previous one for sums.
#[test]
fn d03_loops_carry_sums_over_split_dims() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D3");
    let x = fed.given("x", "p:4", &[1.0, 2.0, 3.0, 4.0]);
    let one = g.scalar(1.0, F32);
    let [_, product] = g.while_loop(
        [one, one],
        |[i, _]| less(i, g.scalar(4.0, F32)),
        |[i, h]| [i + 1.0, (x * h).sum([dim("p", 4)])],
    );
    let value = fed.value(product, &[("", ""), ("a:2", "p:a"), ("a:2;b:2", "p:b+a")]);
    assert_eq!(flat(&value), [1000.0]);
}

/// The gradient of unstack crashed if one of its results was unused.
#[test]
fn d21_unused_parts_get_zeros() {
    let g = mesh_ops::graph();
    let fed = Fed::new(&g, "D21");
    let (layer, x) = (dim("layer", 4), dim("x", 2));
    let all = g.fill(1.0, [layer, x], F32);
    let (each, parts) = (unstack(all, layer), split(all, layer, [1, 3]));
    let loss = (each[2] * 3.0).sum_all() + (parts[0] * 5.0).sum_all();
    let gradient = g.gradients(&[loss], &[all], None)[0].unwrap();
    let value = fed.value(gradient, &[("", ""), ("m:2", "x:m")]);
    assert_eq!(flat(&value), [5.0, 5.0, 0.0, 0.0, 3.0, 3.0, 0.0, 0.0]);
}

/// Gradients of floordiv and modulo were an error for floats. A selection multiplied both operands,
/// so a NaN or an infinity in the operand that was not selected came through.
#[test]
fn d29_what_is_not_selected_does_not_matter() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D29");
    let layouts = [("", ""), ("a:2", "p:a")];
    let x = fed.given("x", "p:4", &[4.0, -1.0, 9.0, f32::NAN]);
    let y = fed.given("y", "p:4", &[f32::INFINITY, 3.0, f32::NAN, 5.0]);
    let chosen = select(x.greater(g.scalar(0.0, F32)), x, y);
    assert_eq!(flat(&fed.value(chosen, &layouts)), [4.0, 3.0, 9.0, 5.0]);
    let grads = g.gradients(&[chosen], &[x, y], None);
    assert_eq!(flat(&fed.value(grads[0].unwrap(), &layouts)), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(flat(&fed.value(grads[1].unwrap(), &layouts)), [0.0, 1.0, 0.0, 1.0]);
    let two = g.scalar(2.5, F32);
    let remainder = g.gradients(&[x.modulo(two)], &[x], None)[0].unwrap();
    assert_eq!(flat(&fed.value(remainder, &layouts)), [1.0; 4]);
    let quotient = g.gradients(&[x.floordiv(two) + x], &[x], None)[0].unwrap();
    assert_eq!(flat(&fed.value(quotient, &layouts)), [1.0; 4]);
}
