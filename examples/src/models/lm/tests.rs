#![allow(clippy::unwrap_used, reason = "a failure fails its test")]

use super::*;
use mesh_ops::attention::{Blocks, Exchange};
use ndarray::{Array2, arr0, s};

/// Values of a byte.
const BYTES: usize = 256;

const SEED: u64 = 5;

/// The model with a key-value cache gives byte by byte the logits of the model on whole windows.
#[test]
fn the_next_byte_is_that_of_the_full_pass() {
    let plain = Sizes {
        batch: 2,
        sequence: 8,
        width: 16,
        heads: 2,
        hidden: 64,
        depth: 3,
        vocab: BYTES,
        scan: false,
        recompute: false,
        attention: AttentionWay::Auto,
        exchange: Exchange::Auto,
        pieces: None,
        dtype: F32,
    };
    let scanned = Sizes { scan: true, ..plain };
    let recomputed = Sizes { recompute: true, ..plain };
    for sizes in [plain, scanned, recomputed] {
        for (mesh, layout) in [
            ("", ""),
            ("data:2", "batch:data"),
            ("model:2", "heads:model;d_ff:model;vocab:model"),
            ("data:2;model:2", "batch:data;heads:model;d_ff:model;vocab:model"),
            ("seq:2", "length:seq"),
            ("a:2", "memory_length:a"),
        ] {
            agree(&sizes, mesh, layout, &format!("{sizes:?} {layout}"));
        }
    }
}

fn agree(sizes: &Sizes, mesh: &str, layout: &str, what: &str) {
    let g = mesh_ops::graph();
    let (batch, length) = (dim("batch", sizes.batch), dim("length", sizes.sequence));
    let model = Model::new(sizes, length);
    let weights = model.weights(&g);
    let bytes = g.input("bytes", [batch, length], I32);
    let full = g.function("full", [bytes], [model.logits(bytes, &weights)], []);
    let (byte, position) = (g.input("byte", [], I32), g.input("position", [], I32));
    let (logits, kept) = model.next(byte, position, &weights);
    let next = g.function("next", [byte, position], [logits], kept);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, SEED).unwrap();
    session.set_replica_check(true).unwrap();

    let text = Array2::from_shape_fn((sizes.batch, sizes.sequence), |(b, i)| {
        ((b * 91 + i * 53 + 7) % BYTES) as i32
    });
    let [expected] = session.call(&full, [text.view().into()]).unwrap();
    let expected = expected.to_f64();
    // The second text begins with a cache full of the first, which must have no effect.
    for (b, row) in text.rows().into_iter().enumerate() {
        for (i, &byte) in row.iter().enumerate() {
            let feeds = [arr0(byte), arr0(i as i32)];
            let [got] =
                session.call(&next, [feeds[0].view().into(), feeds[1].view().into()]).unwrap();
            let want = expected.slice(s![b, i, ..]);
            let (got, want) = (got.to_f64(), want.to_owned().into_dyn());
            let apart = (&got - &want).mapv(f64::abs).fold(0.0, |a: f64, &b| a.max(b));
            assert!(apart < 1e-4, "{what}: window {b}, position {i}: {apart}");
            assert!(want.iter().any(|x| x.abs() > 0.1), "{what}: nothing is said");
        }
    }
}

/// Positions that are dealt in zigzag order give the same losses, whether processors share them or not, and
/// however they exchange them.
#[test]
fn the_order_of_positions_is_nothing_to_the_loss() {
    /// Sums of f32 in other orders, and what two steps of training make of that.
    const ORDERS: f64 = 1e-4;
    let attention = AttentionWay::Blocks(Blocks { queries: 2, memory: 4 });
    let sizes = Sizes {
        batch: 2,
        sequence: 16,
        width: 16,
        heads: 2,
        hidden: 32,
        depth: 2,
        vocab: 32,
        scan: true,
        recompute: false,
        attention,
        exchange: Exchange::Auto,
        pieces: None,
        dtype: F32,
    };
    let losses = |(pieces, exchange), mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let sizes = Sizes { pieces, exchange, ..sizes };
        let train = build_training(&g, &sizes, &mesh_optimize::Sgd::new(0.5));
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, SEED).unwrap();
        session.set_replica_check(true).unwrap();
        let text = |ahead: usize| {
            Array2::from_shape_fn((2, 16), |(b, i)| ((b * 91 + (i + ahead) * 53) % 32) as i32)
        };
        let (bytes, following) = (text(0), text(1));
        [(); 3].map(|()| {
            let fed = [bytes.view().into(), following.view().into()];
            let [loss] = session.call(&train, fed).unwrap();
            loss.to_f64().first().copied().unwrap()
        })
    };
    let heads = Exchange::AllToAll("heads".into());
    let plain = losses((None, Exchange::Auto), "", "");
    for (model, mesh, layout) in [
        ((None, Exchange::Auto), "s:4", "length:s"),
        ((Some(8), Exchange::Auto), "s:4", "length:s"),
        ((Some(4), Exchange::Ring), "b:2;s:2", "batch:b;length:s"),
        ((Some(4), Exchange::Gather), "b:2;s:2", "batch:b;length:s"),
        ((None, heads), "b:2;s:2", "batch:b;length:s"),
        ((Some(4), heads), "b:2;s:2", "batch:b;length:s;params/*:b"),
    ] {
        for (found, want) in losses(model, mesh, layout).iter().zip(plain) {
            assert!((found - want).abs() < ORDERS, "{model:?} {layout}: {found}, not {want}");
        }
    }
}
