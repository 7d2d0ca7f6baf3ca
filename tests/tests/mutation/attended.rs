//! Wrong steps in attention whose keys and values go round: results and gradients are not those of one
//! processor any more, on threads and by reference.

use mesh_core::lower::Module;
use mesh_core::program::forms::Generate;
use mesh_core::program::{Block, Form, Generator, Offset, Pairs, Step};
use mesh_ops::attention::{Attend, Blocks, Mask, attention};
use mesh_ops::prelude::*;
use ndarray::ArrayD;
use tests::changed;

type Build = for<'g> fn(&'g Graph, Tensor<'g>) -> Tensor<'g>;
type Spoil = fn(&mut Step) -> bool;

/// Sums of a few terms of magnitude 1 in f64, in different orders.
const ORDERS: f64 = 1e-12;
/// What no rounding explains.
const WRONG: f64 = 1e-3;

/// Pieces of the length, in zigzag order.
const PIECES: usize = 8;

fn length() -> Dimension {
    dim("length", 8)
}

fn to_itself<'g>(x: Tensor<'g>, mask: Mask<'g>) -> Tensor<'g> {
    let kv = dim("kv", 4);
    let blocks = Blocks { queries: 2, memory: 2 };
    let how = Attend { mask, blocks, ..Attend::to_itself(length(), memory(), kv, kv) };
    attention(x, x * 0.5, x * 2.0, &how).0
}

fn memory() -> Dimension {
    dim("memory", 8)
}

fn causal<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    to_itself(x, Mask::along(g, length(), memory()).causal())
}

fn gradient<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    let y = causal(g, x);
    let weights = mesh_ops::range(g, length(), F64) * 0.5 - 1.0;
    let gradient = g.gradients(&[(y * weights).sum_all()], &[x], None)[0];
    gradient.unwrap_or(y)
}

/// With weights dropped, a gradient and what it is of.
fn dropping<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    let (kv, mask) = (dim("kv", 4), Mask::along(g, length(), memory()).causal());
    let blocks = Blocks { queries: 2, memory: 2 };
    let how =
        Attend { mask, blocks, dropout: 0.5, ..Attend::to_itself(length(), memory(), kv, kv) };
    let y = attention(x, x * 0.5, x * 2.0, &how).0;
    let weights = mesh_ops::range(g, length(), F64) * 0.5 - 1.0;
    let gradient = g.gradients(&[(y * weights).sum_all()], &[x], None)[0];
    y + gradient.unwrap_or(y)
}

fn dealt<'g>(g: &'g Graph, x: Tensor<'g>) -> Tensor<'g> {
    let mask = Mask::in_zigzag(g, length(), memory(), PIECES).causal();
    let y = to_itself(mesh_ops::zigzag(x, length(), PIECES), mask);
    mesh_ops::zigzag_inverse(y, length(), PIECES)
}

fn permuted(step: &mut Step, by: i64) -> bool {
    let Form::Permute(form) = &mut step.form else { return false };
    form.pairs = Pairs::Shift { by, wrap: true };
    true
}

/// A mistake: its name, the function, and a change of a step that returns whether it applies.
const MISTAKES: &[(&str, Build, Spoil)] = &[
    ("keys and values that go round the wrong way", causal, |step| permuted(step, 1)),
    ("a stale block", causal, |step| permuted(step, 0)),
    ("a stale block, or its gradient, in the ring backwards", gradient, |step| permuted(step, 0)),
    ("blocks that are skipped", causal, skipped),
    ("blocks that are skipped backwards", gradient, skipped),
    ("a merge without rescaling", causal, |step| {
        // exp(greatest before - greatest now), of each query.
        let is_scale = step.form.name() == "map" && step.inputs.len() == 2 && step.outs.len() == 1;
        let is_exp = is_scale && format!("{:?}", step.form).contains("Exp");
        let alike = is_exp && step.inputs[0].dims == step.inputs[1].dims;
        if alike {
            step.inputs[0] = step.inputs[1].clone();
        }
        alike
    }),
    ("positions of the memory as if all were the first processor's", causal, |step| {
        let Form::Move(form) = &mut step.form else { return false };
        let begins = form.pieces.iter_mut().flat_map(|piece| &mut piece.begin);
        let moving: Vec<_> = begins.filter(|begin| !begin.axes.is_empty()).collect();
        let found = !moving.is_empty();
        moving.into_iter().for_each(|begin| *begin = Offset::default());
        found
    }),
    ("the zeros of the first block in all blocks", dropping, |step| {
        let Form::Generate(form) = &mut step.form else { return false };
        form.strides.iter_mut().for_each(|stride| *stride = 0);
        !form.strides.is_empty()
    }),
    ("other zeros backward than forward", dropping, |step| {
        let is_backward = step.origin.op == "attention_gradient";
        let Form::Generate(Generate { generator, .. }) = &mut step.form else { return false };
        let Generator::Uniform { key, .. } = generator else { return false };
        *key ^= u64::from(is_backward);
        is_backward
    }),
    ("a wrong order of pieces", dealt, |step| {
        // The second half of the pieces.
        let Form::Move(form) = &mut step.form else { return false };
        let begins = form.pieces.iter_mut().flat_map(|piece| &mut piece.begin);
        let half: Vec<_> =
            begins.filter(|begin| begin.base == 1 && begin.axes.is_empty()).collect();
        let found = !half.is_empty();
        half.into_iter().for_each(|begin| *begin = Offset::default());
        found
    }),
];

/// Leaves what is carried into a guard as it is.
fn skipped(step: &mut Step) -> bool {
    let Form::Loop(form) = &mut step.form else { return false };
    if form.conditional {
        let (params, carried) = (form.body.params.clone(), form.carried);
        form.body.results[..carried].copy_from_slice(&params[..carried]);
    }
    form.conditional
}

/// Whether a mistake applies to any step, in loops as outside.
fn spoil(block: &mut Block, mistake: Spoil) -> bool {
    let mut made = false;
    for step in &mut block.steps {
        made |= mistake(step);
        if let Form::Loop(form) = &mut step.form {
            made |= spoil(&mut form.body, mistake);
        }
    }
    made
}

fn run(module: &Module) -> [Option<ArrayD<f64>>; 2] {
    [Session::threads(module, 1), Session::reference(module, 1)].map(|session| {
        let mut session = session.ok()?;
        let x = ndarray::Array2::from_shape_fn((4, 8), |(i, j)| {
            (((i * 13 + j * 7) % 11) as f64 - 4.0) / 4.0
        });
        let found = session.call_named("f", &[("x", x.view().into())]).ok()?;
        found.first().map(|(_, array)| array.to_f64().to_owned())
    })
}

/// How far two results are apart; NaN and no result at all are far.
fn apart(a: &Option<ArrayD<f64>>, b: &Option<ArrayD<f64>>) -> f64 {
    let (Some(a), Some(b)) = (a, b) else { return f64::INFINITY };
    let off = |(x, y): (&f64, &f64)| if x == y { 0.0 } else { (x - y).abs() };
    let worst = a
        .iter()
        .zip(b)
        .map(off)
        .fold(0.0, |worst: f64, off| if off > worst || off.is_nan() { off } else { worst });
    if worst.is_nan() { f64::INFINITY } else { worst }
}

#[test]
fn wrong_rings_are_caught_by_one_processor() {
    for (what, build, mistake) in MISTAKES {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("kv", 4), length()], F64);
        g.function("f", [x], [build(&g, x)], []);
        let want = run(&g.lower(&Mesh::single(), &Layout::default()).unwrap());
        let mesh = "r:2;c:2".parse().unwrap();
        let right = g.lower(&mesh, &"length:r+c".parse().unwrap()).unwrap();
        for (found, want) in run(&right).iter().zip(&want) {
            assert!(apart(found, want) < ORDERS, "without {what}");
        }
        let mut made = false;
        let wrong = changed(&right, |functions, _| {
            made |= spoil(&mut functions[0].block, *mistake);
        });
        assert!(made, "nowhere to make it: {what}\n{}", right.print("f").unwrap());
        let found = wrong.map_or_else(|_| [None, None], |wrong| run(&wrong));
        for (found, want) in found.iter().zip(&want) {
            assert!(apart(found, want) > WRONG, "{what}");
        }
    }
}
