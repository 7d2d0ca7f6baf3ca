//! Variables that one processor owns, or processors in turn: reads are broadcast, gradients are
//! reduced to the owner, and only the owner computes updates. The numbers are those of one
//! processor.

use mesh_core::lower::Module;
use mesh_core::program::Form;
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Delayed, Factoring, Optimizer, Sgd};

/// Two layers and their training; returns the losses of four steps and the module.
fn train(optimizer: &dyn Optimizer, mesh: &str, layout: &str) -> (Vec<f64>, Vec<Array>, Module) {
    let g = mesh_ops::graph();
    let (batch, i, h, o) = (dim("batch", 8), dim("i", 4), dim("h", 8), dim("o", 4));
    let x = g.input("x", [batch, i], F32);
    let loss = (x.dense(h, "one").tanh().dense(o, "two") - 1.0).square().mean();
    let train = g.function("train", [x], [loss], optimizer.minimize(loss));
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 7).unwrap();
    session.set_replica_check(true).unwrap();
    let mut losses = Vec::new();
    for step in 0..4 {
        let data = ndarray::Array2::from_shape_fn((8, 4), |(b, i)| {
            ((b * 5 + i * 3 + step) % 7) as f32 / 4.0 - 0.5
        });
        let [loss] = session.call(&train, [data.view().into()]).unwrap();
        losses.push(loss.item().unwrap());
    }
    let names: Vec<_> = session.variables().map(str::to_owned).collect();
    let values = names.iter().map(|name| session.read(name).unwrap()).collect();
    (losses, values, module)
}

const LAYOUTS: &[(&str, &str)] = &[
    ("d:2", "batch:d;params/*:d@0;slots/*:d@0"),
    ("d:4", "batch:d;params/*:d@1;slots/*:d@3"),
    ("d:2", "batch:d;params/*:d@each;slots/*:d@each"),
    ("d:2", "batch:d;params/*:d@each"),
    ("d:2", "batch:d;slots/*:d@1"),
    ("d:2;m:2", "batch:d;h:m;params/*:d@each;slots/*:d@each"),
    ("d:2;m:2", "batch:d;params/*:m@each;slots/*:d"),
    ("d:2", "params/*:d@0;slots/*:d@0"),
];

/// The difference that another order of sums may make in f32 after four training steps.
const TOLERANCE: f64 = 1e-5;

#[test]
fn owners_change_no_number() {
    let factored = Adafactor {
        factoring: Factoring::TwoLargest { least: 4 },
        beta1: 0.5.into(),
        ..Adafactor::default()
    };
    // The last optimizer has slots without dims.
    let delayed = Delayed::new(Sgd::new(0.1), 2);
    let adam = AdamWeightDecay::new(0.01).weight_decay(0.1);
    let optimizers: [&dyn Optimizer; 4] = [&Sgd::new(0.1), &adam, &factored, &delayed];
    for optimizer in optimizers {
        let (losses, values, _) = train(optimizer, "", "");
        for (mesh, layout) in LAYOUTS {
            let (found, held, _) = train(optimizer, mesh, layout);
            for (found, want) in found.iter().zip(&losses) {
                assert!((found - want).abs() <= TOLERANCE * want, "{layout}: {found} {want}");
            }
            for (found, want) in held.iter().zip(&values) {
                let gap = (found.to_f64() - want.to_f64()).mapv(f64::abs);
                assert!(gap.iter().all(|&gap| gap <= TOLERANCE), "{layout}: {gap}");
            }
        }
    }
}

#[test]
fn updates_are_made_by_the_owner_alone() {
    let (_, _, module) =
        train(&AdamWeightDecay::new(0.01), "d:4", "batch:d;params/*:d@each;slots/*:d@each");
    let program = module.function("train").unwrap();
    let count = |form: &str| program.steps().iter().filter(|s| s.form.name() == form).count();
    // There are four variables: one broadcast and one reduction for each, and one for the fetched
    // loss.
    assert_eq!((count("broadcast"), count("reduce_to"), count("all_reduce")), (4, 4, 1));
    for step in program.steps() {
        let variable = match &step.form {
            Form::Write(form) => form.variable,
            Form::Read(form) => form.variable,
            _ => continue,
        };
        let spec = &module.variables()[variable.index()];
        assert_eq!(step.owners.len(), usize::from(spec.name != "step"), "{}", spec.name);
    }
    // Each owns one variable with its two slots: 32, 8, 32 and 4 elements; and the step.
    let bytes = [0, 1, 2, 3].map(|processor| module.variable_bytes_on(processor));
    assert_eq!(bytes, [32, 8, 32, 4].map(|elements| 3 * 4 * elements + 4));
}

/// Descent by what a function makes of the gradient.
struct By(for<'g> fn(Tensor<'g>, Dimension) -> Tensor<'g>);

impl Optimizer for By {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let first = grad.shape().dims()[0];
        vec![variable.assign_sub((self.0)(grad, first) * 0.1)]
    }
    fn slot_names(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Whatever the ops: those with a rule of their own for where tensors lie, scalars, loops.
#[test]
fn what_is_computed_of_owned_values_is_the_owners() {
    let ways: [(&str, By); 7] = [
        (
            "rename",
            By(|x, d| x.rename(d, "other").tanh().rename(d.renamed("other"), d.name.as_str())),
        ),
        (
            "reshape",
            By(|x, d| {
                let cut = [d.renamed("half").resized(2), d.resized(d.size / 2)];
                let whole = x.shape();
                x.replace_dims([d], cut).square().reshape(whole.iter())
            }),
        ),
        (
            "einsum",
            By(|x, d| {
                let other = x.rename(d, "other");
                let gram = x.einsum(&[other], [d, d.renamed("other")]);
                gram.einsum(&[other], x.shape().iter())
            }),
        ),
        ("scalars", By(|x, _| x / (x.square().sum_all().sqrt() + 1.0))),
        ("cumsum", By(|x, d| x.cumsum(d))),
        (
            "loop",
            By(|x, d| {
                let ([sum], []) =
                    x.graph().scan(d, [x.sum([d])], [x], |[sum], [x]| ([sum + x * 0.5], []));
                x * sum
            }),
        ),
        (
            "while",
            By(|x, _| {
                x.graph().while_loop(
                    [x + 0.1],
                    |[x]| x.square().sum_all().less(1.0),
                    |[x]| [x * 2.0],
                )[0]
            }),
        ),
    ];
    for (what, by) in &ways {
        let (alone, ..) = train(by, "", "");
        for (layout, [broadcasts, reductions]) in [
            ("batch:d;slots/*:d@each", [4, 4]),
            ("batch:d;params/*:d@each;slots/*:d@each", [4, 4]),
            ("batch:d;params/*:d@each;slots/*:d@0", [6, 4]),
        ] {
            let (losses, _, module) = train(by, "d:2", layout);
            for (found, want) in losses.iter().zip(&alone) {
                assert!(
                    (found - want).abs() <= TOLERANCE * want.abs(),
                    "{what}, {layout}: {found} {want}"
                );
            }
            let mut sent = std::collections::BTreeMap::new();
            for step in module.function("train").unwrap().steps() {
                if step.axes().is_some() {
                    *sent.entry(step.form.name()).or_insert(0) += 1;
                }
            }
            let want = [("all_reduce", 1), ("broadcast", broadcasts), ("reduce_to", reductions)];
            assert_eq!(sent, want.into(), "{what}, {layout}");
        }
    }
}

/// A variable that the owner's axis splits, a scalar, and a variable that no optimizer updates have
/// no owner.
#[test]
fn what_has_no_owner() {
    let g = mesh_ops::graph();
    let (h, k) = (dim("h", 8), dim("k", 4));
    let split = g.variable("split", [h], F32, Initializer::ZEROS);
    let scalar = g.variable("scalar", [], F32, Initializer::ONES);
    let owned = g.variable("owned", [k], F32, Initializer::ZEROS);
    let state = g.state("state", [k], F32, Initializer::ZEROS);
    let loss = (split.value() * scalar.value() + owned.value().sum_all()).sum_all();
    let mut updates = AdamWeightDecay::new(0.1).minimize(loss);
    updates.push(state.assign(owned.value()));
    g.function("train", [], [loss], updates);
    let layout = "h:d;params/*:d@1;slots/*:d@1".parse().unwrap();
    let module = g.lower(&"d:2".parse().unwrap(), &layout).unwrap();
    let held: Vec<_> = module
        .variables()
        .iter()
        .filter(|v| v.placement.owned().is_empty())
        .map(|v| v.name.as_str())
        .collect();
    let everywhere = [
        "split",
        "scalar",
        "state",
        "split/adam_m",
        "split/adam_v",
        "scalar/adam_m",
        "scalar/adam_v",
        "step",
    ];
    assert!(everywhere.iter().all(|name| held.contains(name)), "{held:?}");
    assert_eq!(held.len(), everywhere.len(), "{held:?}");
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    session.call_named("train", &[]).unwrap();
}

#[test]
fn loops_are_given_what_owners_have() {
    let (layers, batch, d) = (dim("layers", 3), dim("batch", 4), dim("d", 4));
    let run = |mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let x = g.input("x", [batch, d], F32);
        let scale = Initializer::Uniform { low: -0.5, high: 0.5 };
        let w = g.variable("w", [layers, d], F32, scale);
        let b = g.variable("b", [d], F32, Initializer::Constant(0.25));
        let ([y], []) =
            g.scan(layers, [x], [w.value()], |[h], [w]| ([(h * w + b.value()).tanh()], []));
        let loss = y.square().mean();
        let f = g.function("train", [x], [loss], Sgd::new(0.5).minimize(loss));
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 1).unwrap();
        let data = ndarray::Array2::from_shape_fn((4, 4), |(i, j)| (i * 3 + j) as f32 / 8.0);
        [0; 3].map(|_| {
            let [loss] = session.call(&f, [data.view().into()]).unwrap();
            loss.item().unwrap()
        })
    };
    let alone = run("", "");
    for layout in ["batch:a;params/*:a@0;slots/*:a@0", "batch:a;params/*:a@each;slots/*:a@each"] {
        for (found, want) in run("a:2", layout).iter().zip(alone) {
            assert!((found - want).abs() <= TOLERANCE * want, "{layout}: {found} {want}");
        }
    }
}
