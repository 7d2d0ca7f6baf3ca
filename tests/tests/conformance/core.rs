//! What the graph itself offers: sources, identities, loops, recomputation.

use crate::conform;
use crate::meanings::line;
use mesh_core::graph::Key;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case};

const FEW: &[&str] = &["a:2", "a:4", "a:2;b:2"];

fn two(case: Case) -> Case {
    case.normal("x", "b:4;d:4", F32).normal("y", "b:4;d:4", F32).meshes(FEW)
}

/// What is at each place of two inputs.
fn of_both(
    f: fn(f64, f64) -> f64,
) -> impl Fn(&[&testing::Dense], &mesh_core::graph::TensorType) -> testing::Dense {
    move |x, ty| testing::Dense::each(ty, |at| f(x[0].at(at), x[1].at(at)))
}

#[test]
fn sources() {
    let (p, q) = (dim("p", 8), dim("q", 12));
    conform(
        "sources",
        vec![
            Case::new("constant and fill", move |g, x| {
                let table: Vec<f32> = (0..96).map(|i| i as f32).collect();
                let table = ndarray::Array2::from_shape_vec((12, 8), table).unwrap();
                x[0] * g.constant(table, [q, p]) + g.fill(3.0, [p], F32)
            })
            .computes(|x, ty| {
                let number = |at: &At| (8 * at.along("q") + at.along("p")) as f64;
                testing::Dense::each(ty, |at| x[0].at(at) * number(at) + 3.0)
            })
            .exact()
            .integers("x", "p:8;q:12", F32),
            Case::new("a variable's value", move |g, x| {
                let w = g.variable("w", [q], F32, Initializer::Uniform { low: -1.0, high: 1.0 });
                x[0] * w.value()
            })
            .computes(of_both(|x, w| x * w))
            .normal("x", "p:8;q:12", F32)
            .meshes(FEW),
        ],
    );
}

#[test]
fn identities() {
    conform(
        "identities",
        vec![
            two(Case::new("relayout", |g, x| {
                let w = g.variable("w", x[0].shape(), F32, Initializer::ZEROS);
                x[0].relayout(w.slots_key()).relayout(Key::COMPUTE) * x[1]
            }))
            .computes(of_both(|x, y| x * y)),
            two(Case::new("depend", |_, x| x[0].depend(&[x[1].exp()]) * x[1]))
                .computes(of_both(|x, y| x * y)),
            // The cotangent y, by the factor through which gradients pass.
            two(Case::new("stop_gradient", |g, x| {
                let y = x[0] * x[0].stop_gradient();
                g.gradients(&[y], &[x[0]], Some(&[x[1]]))[0].unwrap()
            }))
            .computes(of_both(|x, dy| x * dy))
            .without_gradient(),
            two(Case::several("custom_gradient", |g, x| {
                let [y] = g.custom_gradient([x[0]], |[x]| [x * x], |cx| vec![Some(cx.dy() * 0.5)]);
                vec![y, g.gradients(&[y], &[x[0]], Some(&[x[1]]))[0].unwrap()]
            }))
            .computes_all(|x, types| {
                let square = of_both(|x, _| x * x)(x, &types[0]);
                vec![square, of_both(|_, dy| dy / 2.0)(x, &types[1])]
            })
            .without_gradient(),
        ],
    );
}

#[test]
fn recomputed() {
    conform(
        "recomputed",
        vec![
            two(Case::new("recompute", |g, x| {
                let [y] = g.recompute([x[0]], |[x0]| [(x0 * x[1]).tanh() * x[1]]);
                y
            }))
            .computes(of_both(|x, y| (x * y).tanh() * y)),
            two(Case::several("reversible", |g, x| {
                let blocks =
                    g.reversible([x[0], x[1]], 2, |i, h| h.tanh() * (i + 1) as f64, |_, h| h.sin());
                blocks.to_vec()
            }))
            .computes_all(|x, types| {
                let blocks = |x: f64, y: f64| {
                    let (mut x, mut y) = (x, y);
                    for i in [1.0, 2.0] {
                        x += y.tanh() * i;
                        y += x.sin();
                    }
                    [x, y]
                };
                let each = |i: usize| {
                    let both = |at: &At| blocks(x[0].at(at), x[1].at(at))[i];
                    testing::Dense::each(&types[i], both)
                };
                vec![each(0), each(1)]
            }),
        ],
    );
}

#[test]
fn loops() {
    let (layers, parts) = (dim("layers", 3), dim("parts", 3));
    /// What a loop carries after each layer, from x, w of all layers.
    fn carried(x: &[&testing::Dense], at: &At) -> Vec<f64> {
        let weights = line(at, ("layers", 3), |at| x[1].at(at));
        let next = |h: &mut f64, w: f64| {
            *h += (*h * w).tanh();
            Some(*h)
        };
        weights.into_iter().scan(x[0].at(at), next).collect()
    }
    let of_layers =
        |case: Case| case.normal("x", "b:4;d:4", F32).normal("w", "layers:3;d:4", F32).meshes(FEW);
    conform(
        "loops",
        vec![
            of_layers(Case::several("scan", move |g, x| {
                let ([y], [all]) = g.scan(layers, [x[0]], [x[1]], |[h], [w]| {
                    let next = (h * w).tanh() + h;
                    ([next], [next * w])
                });
                vec![y, all]
            }))
            .computes_all(|x, types| {
                let last = |at: &At| carried(x, at)[2];
                let each = |at: &At| carried(x, at)[at.along("layers")] * x[1].at(at);
                vec![testing::Dense::each(&types[0], last), testing::Dense::each(&types[1], each)]
            }),
            of_layers(Case::new("recompute in a scan", move |g, x| {
                let ([y], []) = g.scan(layers, [x[0]], [x[1]], |[h], [w]| {
                    let [next] = g.recompute([h], |[h]| [(h * w).tanh() + h]);
                    ([next], [])
                });
                y
            }))
            .computes(|x, ty| testing::Dense::each(ty, |at| carried(x, at)[2])),
            Case::new("sum_over", move |g, x| {
                g.sum_over(parts, &[x[0]], |part| vec![part[0].exp() * x[1]])[0]
            })
            .computes(|x, ty| {
                let terms = |at: &At| line(at, ("parts", 3), |at| x[0].at(at).exp() * x[1].at(at));
                testing::Dense::each(ty, |at| terms(at).iter().sum())
            })
            .normal("x", "parts:3;d:4", F32)
            .normal("y", "d:4", F32)
            .meshes(FEW),
            Case::new("while_loop", |g, x| {
                let [_, y] = g.while_loop(
                    [x[1], x[0]],
                    |[n, _]| n.less(g.scalar(5.0, I32)),
                    |[n, y]| [n + g.scalar(2.0, I32), y * 3.0],
                );
                y
            })
            .computes(|x, ty| {
                let mut n = x[1].data[0];
                let mut factor = 1.0;
                while n < 5.0 {
                    (n, factor) = (n + 2.0, factor * 3.0);
                }
                testing::Dense::each(ty, |at| x[0].at(at) * factor)
            })
            .without_gradient()
            .exact()
            .integers("x", "b:4;d:4", F32)
            .integers("n", "", I32)
            .meshes(FEW),
        ],
    );
}
