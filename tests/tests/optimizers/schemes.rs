//! Optimizers of whole matrices under the layouts of every kind of parallelism: the numbers of one
//! processor, and the collectives that the schemes of other frameworks need.

use mesh_ops::prelude::*;
use mesh_optimize::{AdamW, Muon, Optimizer, Shampoo, Soap};
use std::collections::BTreeMap;

/// What rounding leaves after four steps of training in f64.
const TOLERANCE: f64 = 1e-10;

/// Layers whose kernels are a wide, a high and a square matrix, and two experts' matrices; two variables
/// are no matrices.
fn model(g: &Graph) -> (Tensor<'_>, Tensor<'_>) {
    let (batch, d, ff) = (dim("batch", 8), dim("d", 8), dim("ff", 16));
    let (e, experts, out) = (dim("e", 8), dim("experts", 2), dim("out", 4));
    let x = g.input("x", [batch, d], F64);
    let weight = |name: &str, dims: &[Dimension]| {
        let start = Initializer::Uniform { low: -0.5, high: 0.5 };
        g.variable(name, dims.iter().copied(), F64, start).value()
    };
    let h = x.einsum(&[weight("up", &[d, ff])], [batch, ff]).tanh();
    let h = h.einsum(&[weight("down", &[ff, e])], [batch, e]) + weight("bias", &[e]);
    let h = h.tanh().einsum(&[weight("square", &[e, e.renamed("s")])], [batch, e.renamed("s")]);
    let h = (h * weight("gate", &[experts, e.renamed("s")])).tanh();
    let each = weight("experts", &[experts, e.renamed("s"), out]);
    let y = h.einsum(&[each], [batch, experts, out]).tanh();
    (x, (y - 0.5).square().mean())
}

/// The losses of four steps, and the collectives of one as lowered.
fn train(optimizer: &dyn Optimizer, mesh: &str, layout: &str) -> (Vec<f64>, String) {
    let g = mesh_ops::graph();
    let (x, loss) = model(&g);
    let train = g.function("train", [x], [loss], optimizer.minimize(loss));
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
    let module = module.unwrap_or_else(|report| panic!("{layout}: {report}"));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (form, axes, ..) in module.explain().functions[0].collectives() {
        *counts.entry(format!("{form}({axes})")).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(form, count)| format!("{count} {form}")).collect();
    let mut session = Session::threads(&module, 3).unwrap();
    session.set_replica_check(true).unwrap();
    let losses = (0..4).map(|step| {
        let data = ndarray::Array2::from_shape_fn((8, 8), |(b, i)| {
            ((b * 5 + i * 3 + step) % 7) as f64 / 4.0 - 0.5
        });
        let [loss] = session.call(&train, [data.view().into()]).unwrap();
        loss.item().unwrap()
    });
    (losses.collect(), counts.join(", "))
}

/// What other frameworks call: data parallelism, ZeRO-1 (each gradient reduce-scattered, each change
/// gathered), FSDP, parameters split only, tensor parallelism by the larger and by the smaller side of
/// matrices, an owner for each variable's state, the same for parameters, with tensor parallelism, experts.
const LAYOUTS: [(&str, &str); 11] = [
    ("d:2", "batch:d"),
    ("d:2", "batch:d;slots/*:d"),
    ("d:2", "batch:d;params/*:d;slots/*:d"),
    ("d:2", "batch:d;params/*:d"),
    ("m:2", "ff:m;s:m"),
    ("m:2", "e:m"),
    ("d:2", "batch:d;slots/*:d@each"),
    ("d:2", "batch:d;params/*:d@each;slots/*:d@each"),
    ("d:2", "batch:d;params/*:d@each;slots/*:d@0"),
    ("d:2;m:2", "batch:d;ff:m;s:m;slots/*:d@each"),
    ("m:2", "experts:m"),
];

/// AdamW's: those of the model, one reduction for each variable and what brings its change back.
const ADAM: [&str; 11] = [
    "7 all_reduce(d)",
    "6 all_gather(d), 1 all_reduce(d), 6 reduce_scatter(d)",
    "10 all_gather(d), 1 all_reduce(d), 6 reduce_scatter(d)",
    "16 all_gather(d), 7 all_reduce(d)",
    "3 all_reduce(m)",
    "2 all_reduce(m)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 9 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 3 all_reduce(m), 6 broadcast(d), 6 reduce_to(d)",
    "2 all_reduce(m)",
];

/// Muon's besides: for a matrix that is split, one all-reduce for its norm, and in each of five rounds one of
/// A where the side that is summed over is split; where the other one is, a square matrix is gathered and
/// its product reduce-scattered, and of any other matrix X and A are gathered. An owner, and who has
/// whole matrices of experts, sends nothing besides.
const MUON: [&str; 11] = [
    "7 all_reduce(d)",
    "11 all_gather(d), 20 all_reduce(d), 11 reduce_scatter(d)",
    "15 all_gather(d), 20 all_reduce(d), 11 reduce_scatter(d)",
    "16 all_gather(d), 7 all_reduce(d)",
    "27 all_reduce(m)",
    "15 all_gather(m), 4 all_reduce(m), 5 reduce_scatter(m)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 9 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 27 all_reduce(m), 6 broadcast(d), 6 reduce_to(d)",
    "2 all_reduce(m)",
];

/// Shampoo's besides: a product of all rows for each side, of which one is summed over a split side and of
/// the other the gradient is gathered; L, R and the roots are gathered where they are used. How much is left
/// to a root is one number, which experts on several processors share in each round.
const SHAMPOO: [&str; 11] = [
    "7 all_reduce(d)",
    "14 all_gather(d), 9 all_reduce(d), 6 reduce_scatter(d)",
    "18 all_gather(d), 9 all_reduce(d), 6 reduce_scatter(d)",
    "12 all_gather(d), 7 all_reduce(d)",
    "12 all_gather(m), 7 all_reduce(m)",
    "6 all_gather(m), 4 all_reduce(m)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 9 broadcast(d), 6 reduce_to(d)",
    "12 all_gather(m), 1 all_reduce(d), 7 all_reduce(m), 6 broadcast(d), 6 reduce_to(d)",
    "6 all_reduce(m)",
];

/// SOAP's besides: those of L and R, and the products with the bases.
const SOAP: [&str; 11] = [
    "7 all_reduce(d)",
    "23 all_gather(d), 13 all_reduce(d), 4 all_to_all(d), 6 reduce_scatter(d)",
    "27 all_gather(d), 13 all_reduce(d), 4 all_to_all(d), 6 reduce_scatter(d)",
    "16 all_gather(d), 7 all_reduce(d)",
    "22 all_gather(m), 11 all_reduce(m), 4 all_to_all(m)",
    "11 all_gather(m), 6 all_reduce(m), 2 all_to_all(m)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 6 broadcast(d), 6 reduce_to(d)",
    "1 all_reduce(d), 9 broadcast(d), 6 reduce_to(d)",
    "24 all_gather(m), 1 all_reduce(d), 11 all_reduce(m), 4 all_to_all(m), 6 broadcast(d), 6 reduce_to(d)",
    "2 all_reduce(m)",
];

fn judge(optimizer: &dyn Optimizer, collectives: [&str; 11]) {
    let (alone, none) = train(optimizer, "", "");
    assert_eq!(none, "");
    let mut found = Vec::new();
    for ((mesh, layout), want) in LAYOUTS.iter().zip(collectives) {
        let (losses, counts) = train(optimizer, mesh, layout);
        for (loss, alone) in losses.iter().zip(&alone) {
            assert!((loss - alone).abs() <= TOLERANCE * alone, "{layout}: {loss} not {alone}");
        }
        if counts != want {
            found.push(format!("{layout}: {counts}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn adam_reduces_and_brings_back() {
    judge(&AdamW::new(0.01), ADAM);
}

#[test]
fn muon_under_every_scheme() {
    judge(&Muon::new(0.01), MUON);
}

#[test]
fn shampoo_under_every_scheme() {
    judge(&Shampoo { interval: 2, ..Shampoo::new(0.01) }, SHAMPOO);
}

#[test]
fn soap_under_every_scheme() {
    judge(&Soap { interval: 2, ..Soap::new(0.01) }, SOAP);
}
