//! The slots of optimizers: which there are, how to find them, and their memory.

use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, ByName, Delayed, Factoring, Momentum, Sgd};
use mesh_optimize::{Optimizer, compute_gradients};

/// A matrix of `dims` that `optimizer` updates.
fn update<'g>(
    graph: &'g Graph,
    dims: impl IntoIterator<Item = Dimension>,
    optimizer: &dyn Optimizer,
) -> Variable<'g> {
    let w = graph.variable("w", dims, F32, Initializer::ZEROS);
    let loss = (w.value() * 2.0).sum_all();
    graph.function("train", [], [], optimizer.minimize(loss));
    w
}

#[test]
fn slots_are_listed_and_found() {
    let adafactor = || Adafactor { beta1: 0.5.into(), ..Adafactor::tensor2tensor() };
    // The optimizer, the slots that it may make, and those that it makes for a matrix, in order.
    type Case<'a> = (Box<dyn Optimizer>, &'a [&'a str], &'a [&'a str]);
    let table: Vec<Case<'_>> = vec![
        (Box::new(Sgd::new(0.1)), &[], &[]),
        (Box::new(Momentum::new(0.1, 0.9)), &["momentum"], &["momentum"]),
        (Box::new(AdamWeightDecay::new(0.1)), &["adam_m", "adam_v"], &["adam_m", "adam_v"]),
        (
            Box::new(AdamWeightDecay::standard(0.1)),
            &["adam_m", "adam_v", "adam_t"],
            &["adam_m", "adam_v", "adam_t"],
        ),
        (
            Box::new(adafactor()),
            &["adafactor_vr", "adafactor_vc", "adafactor_v", "adafactor_m"],
            &["adafactor_vr", "adafactor_vc", "adafactor_m"],
        ),
        (
            Box::new(Adafactor { factoring: Factoring::Never, ..Adafactor::default() }),
            &["adafactor_v"],
            &["adafactor_v"],
        ),
        (
            Box::new(Delayed::new(Momentum::new(0.1, 0.9), 1)),
            &["momentum", "delayed_gradients", "delayed_count"],
            &["delayed_gradients", "delayed_count", "momentum"],
        ),
        (
            Box::new(ByName::new(Sgd::new(0.1)).with("w", Momentum::new(0.1, 0.9))),
            &["momentum"],
            &["momentum"],
        ),
    ];
    for (optimizer, names, made) in table {
        let g = mesh_ops::graph();
        let other = g.variable("other", [dim("x", 2)], F32, Initializer::ZEROS);
        let w = update(&g, [dim("rows", 3), dim("cols", 4)], &*optimizer);
        assert_eq!(optimizer.slot_names(), names);
        let own: Vec<_> = w.slots().iter().map(|slot| slot.name()).collect();
        assert_eq!(own, made.iter().map(|name| format!("w/{name}")).collect::<Vec<_>>());
        for name in names {
            let slot = optimizer.slot(w, name);
            assert_eq!(slot.map(|slot| slot.name()).is_some(), made.contains(name), "{name}");
            assert!(optimizer.slot(other, name).is_none(), "{name}");
        }
        assert!(optimizer.slot(w, "unheard_of").is_none());
        assert!(other.slots().is_empty());
        assert!(
            w.slots()
                .iter()
                .all(|slot| !g.trainable_variables().iter().any(|t| t.id() == slot.id()))
        );
        g.check().unwrap();
    }
}

#[test]
fn a_slot_of_another_optimizer_is_not_ones_own() {
    let g = mesh_ops::graph();
    let w = update(&g, [dim("x", 2)], &Momentum::new(0.1, 0.9));
    assert!(w.find_slot("momentum").is_some());
    assert!(Sgd::new(0.1).slot(w, "momentum").is_none());
}

/// Of three dims the two largest are factored; of equal dims the first.
#[test]
fn factored_dims() {
    let cases = [
        (Factoring::TwoLargest { least: 4 }, [4, 8, 4], ["[a:4, c:4]", "[b:8, c:4]"]),
        (Factoring::TwoLargest { least: 4 }, [4, 4, 4], ["[b:4, c:4]", "[a:4, c:4]"]),
        (Factoring::TwoLargest { least: 4 }, [8, 2, 4], ["[b:2, c:4]", "[a:8, b:2]"]),
        (Factoring::LastTwo, [8, 2, 4], ["[a:8, b:2]", "[a:8, c:4]"]),
    ];
    for (factoring, sizes, shapes) in cases {
        let g = mesh_ops::graph();
        let dims = ["a", "b", "c"].into_iter().zip(sizes).map(|(name, size)| dim(name, size));
        let adafactor = Adafactor { factoring, ..Adafactor::default() };
        let w = update(&g, dims, &adafactor);
        let slots = ["adafactor_vr", "adafactor_vc"].map(|name| adafactor.slot(w, name).unwrap());
        assert_eq!(slots.map(|slot| slot.shape().to_string()), shapes, "{factoring:?} {sizes:?}");
    }
    for (factoring, stacked) in [
        (Factoring::Never, vec![]),
        (Factoring::Matrices, vec![]),
        (Factoring::TwoLargest { least: 5 }, vec![]),
        (Factoring::LastTwo, vec!["a".to_owned(), "b".to_owned()]),
    ] {
        let g = mesh_ops::graph();
        let adafactor = Adafactor { factoring, stacked_dims: stacked, ..Adafactor::default() };
        let w = update(&g, [dim("a", 8), dim("b", 2), dim("c", 4)], &adafactor);
        assert_eq!(adafactor.slot(w, "adafactor_v").unwrap().shape(), w.shape(), "{factoring:?}");
    }
}

#[test]
fn a_large_matrix_keeps_rows_and_columns_only() {
    let g = mesh_ops::graph();
    update(&g, [dim("rows", 1024), dim("cols", 4096)], &Adafactor::default());
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let slots = module.variables().iter().filter(|v| v.name.starts_with("w/"));
    assert_eq!(slots.map(|v| v.shape.size()).sum::<usize>(), 5_120);
}

/// Only the layout splits the state.
#[test]
fn each_of_four_processors_holds_a_quarter_of_adams_state() {
    const SIZE: usize = 1024 * 4096;
    let bytes = |layout: &str, optimizer: &dyn Optimizer| {
        let g = mesh_ops::graph();
        update(&g, [dim("rows", 1024), dim("cols", 4096)], optimizer);
        g.lower(&"all:4".parse().unwrap(), &layout.parse().unwrap()).unwrap().variable_bytes()
    };
    let adam = AdamWeightDecay::new(0.1);
    // The matrix, its two slots, the step.
    assert_eq!(bytes("", &adam), 3 * 4 * SIZE + 4);
    assert_eq!(bytes("slots/*:all", &adam), 4 * SIZE + 2 * SIZE + 4);
    assert_eq!(bytes("params/*:all;slots/*:all", &adam), 3 * SIZE + 4);
    // A ring buffer of three gradients, and the number of updates.
    let late = Delayed::new(Sgd::new(0.1), 2);
    assert_eq!(bytes("slots/*:all", &late), 4 * SIZE + 3 * SIZE + 4 + 4);
    // The row means are whole, as they are means over the split dim.
    assert_eq!(bytes("slots/*:all", &Adafactor::default()), 4 * SIZE + 4 * (1024 + 4096 / 4) + 4);
}

#[test]
fn a_missing_gradient_is_warned_of() {
    let optimizers: [Box<dyn Optimizer>; 3] = [
        Box::new(Sgd::new(0.1)),
        Box::new(Delayed::new(Sgd::new(0.1), 1)),
        Box::new(ByName::new(Sgd::new(0.1)).with("nely", Momentum::new(0.1, 0.9))),
    ];
    for (optimizer, updates) in optimizers.iter().zip([1, 3, 1]) {
        let g = mesh_ops::graph();
        let lonely = g.variable("lonely", [dim("x", 2)], F32, Initializer::ZEROS);
        let used = g.variable("used", [dim("x", 2)], F32, Initializer::ZEROS);
        let grads = compute_gradients(used.value().sum_all(), &[]);
        assert!(grads[0].0.is_none() && grads[1].0.is_some());
        assert_eq!(optimizer.apply_grads(&grads).len(), updates);
        let warnings = g.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].subject, lonely.name());
        assert!(lonely.slots().is_empty());
    }
}

#[test]
fn no_gradient_at_all_is_an_error() {
    let g = mesh_ops::graph();
    let a = g.variable("a", [dim("x", 2)], F32, Initializer::ZEROS);
    let b = g.variable("b", [dim("x", 2)], F32, Initializer::ZEROS);
    let loss = b.value().sum_all();
    assert!(compute_gradients(loss, &[b])[0].0.is_some());
    g.check().unwrap();
    compute_gradients(loss, &[a]);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("compute_gradients: the loss depends on none of a"), "{report}");
    assert!(report.contains("slots.rs"), "{report}");

    let empty = mesh_ops::graph();
    let _ = Sgd::new(0.1).minimize(empty.scalar(1.0, F32));
    let report = empty.check().unwrap_err().to_string();
    assert!(report.contains("there is no trainable variable to differentiate by"), "{report}");
}
