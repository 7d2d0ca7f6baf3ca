//! Forms and primitives where conventions differ: the ends of integers, NaN, signs of zero, indices that are
//! nowhere, iterations that do not come, values that one processor owns. Programs are written step by step
//! and run on devices as on the reference back-end.
//!
//! Subnormal numbers are left out: XLA's CPU devices take them for 0.

use super::conformance::on_cpus;
use super::{fast, plugin};
use mesh_core::names::{Axis, ReduceKind};
use mesh_core::program::forms::Loop;
use mesh_core::program::{
    Builder, Expr, Extents, Generator, Offset, Operand, Prim, Program, Scalar, Slot, ValueId,
};
use mesh_ops::prelude::*;
use ndarray::{ArrayD, IxDyn};

/// How far functions that no dtype computes exactly may be apart, relative to the result or 1: some units
/// in the last place.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        F32 => 16.0 * f64::from(f32::EPSILON),
        // Of a register, which holds f32; it is stored with 8 bits.
        BF16 => 1.0 / 128.0,
        _ => 64.0 * f64::EPSILON,
    }
}

/// Numbers of a dtype that are met in pairs.
fn numbers(dtype: DType) -> Vec<f64> {
    let whole = [-7.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 46341.0];
    let ends = [i32::MIN, i32::MIN + 1, i32::MAX - 1, i32::MAX].map(f64::from);
    let floats =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1, -0.75, 2.5, 1e9, -3e9, 1e-7];
    match dtype {
        I32 => [&whole[..], &ends].concat(),
        Bool => vec![0.0, 1.0],
        _ => [&whole[..], &ends, &floats].concat(),
    }
}

fn array(dtype: DType, shape: &[usize], numbers: &[f64]) -> Array {
    let of = ArrayD::from_shape_vec(IxDyn(shape), numbers.to_vec()).unwrap();
    match dtype {
        F32 => of.mapv(|x| x as f32).into(),
        F64 => of.into(),
        BF16 => of.mapv(half::bf16::from_f64).into(),
        I32 => of.mapv(|x| x as i32).into(),
        Bool => of.mapv(|x| x != 0.0).into(),
    }
}

fn slot(name: &str, shape: &[usize], split: &[(usize, Axis)]) -> Slot {
    let axes = |dim| split.iter().filter(move |(of, _)| *of == dim).map(|(_, axis)| *axis);
    let split = (0..shape.len()).map(|dim| axes(dim).collect()).collect();
    Slot { name: name.to_owned(), shape: shape.to_vec(), split, ..Slot::default() }
}

/// An unsplit feed.
fn fed(b: &mut Builder<'_>, name: &str, dtype: DType, shape: &[usize]) -> ValueId {
    b.feed(dtype, Extents::from_slice(shape), slot(name, shape, &[]))
}

/// A feed whose first dim is split over axes.
fn split(b: &mut Builder<'_>, name: &str, dtype: DType, shape: &[usize], axes: &[Axis]) -> ValueId {
    let mut local = Extents::from_slice(shape);
    local[0] /= b.mesh().group_size(axes);
    let axes: Vec<_> = axes.iter().map(|&axis| (0, axis)).collect();
    b.feed(dtype, local, slot(name, shape, &axes))
}

/// A fetch of which each processor along the axes has a part along the first dim.
fn fetched(b: &mut Builder<'_>, name: &str, value: ValueId, axes: &[Axis]) {
    let mut shape = b.value(value).extents.to_vec();
    if let Some(first) = shape.first_mut() {
        *first *= b.mesh().group_size(axes);
    }
    let axes: Vec<_> = axes.iter().map(|&axis| (0, axis)).collect();
    b.fetch(slot(name, &shape, &axes), value);
}

fn whole(b: &Builder<'_>, value: ValueId) -> Operand {
    Operand::whole(value, b.value(value).extents.len())
}

/// What a program fetches on devices and on the reference back-end, by name. Replicas that should be equal are
/// compared by both.
fn both(mesh: &Mesh, program: Program, feeds: &[(&str, Array)]) -> Vec<(String, Array, Array)> {
    let Some(plugin) = plugin() else { return Vec::new() };
    let name = program.name.clone();
    let init = Builder::new("init", mesh).finish();
    let module = Module::new(mesh.clone(), Vec::new(), vec![program], init).unwrap();
    let feeds: Vec<_> = feeds.iter().map(|(name, array)| (*name, array.view())).collect();
    let call = |mut session: Session| session.call_named(&name, &feeds).unwrap();
    let expected = call(Session::reference(&module, 11).unwrap());
    let found = call(Session::xla_with(&module, 11, &fast(&plugin)).unwrap());
    let pairs = found.into_iter().zip(expected);
    pairs.map(|((name, found), (_, expected))| (name, found, expected)).collect()
}

/// The first number that is not the same, nor near enough for its place; NaN is NaN, and zeros are equal.
fn difference(found: &Array, expected: &Array, allowed: impl Fn(usize) -> f64) -> Option<String> {
    assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()));
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let apart = |&(i, (x, y)): &(usize, (&f64, &f64))| {
        let same = x == y || x.is_nan() && y.is_nan();
        let near = (x - y).abs() <= allowed(i) * y.abs().max(1.0);
        !(same || near)
    };
    let first = found.iter().zip(&expected).enumerate().find(apart);
    first.map(|(i, (x, y))| format!("element {i} is {x}, not {y}"))
}

/// Whether numbers are the same; NaN is NaN, and zeros are equal.
#[track_caller]
fn assert_same(what: &str, found: &Array, expected: &Array) {
    assert_eq!(difference(found, expected, |_| 0.0), None, "{what}");
}

/// Whether the primitive is rounded alike everywhere.
fn is_exact(prim: Prim, dtype: DType) -> bool {
    // A contraction to one rounding is allowed.
    let contracted = prim == Prim::Mod && dtype.is_float();
    // GPUs have instructions for f32 that are off by a unit in the last place; bf16 is computed in f32.
    let quick =
        !on_cpus() && matches!(dtype, F32 | BF16) && [Prim::Div, Prim::Sqrt].contains(&prim);
    let approximate = [
        Prim::Rsqrt,
        Prim::Exp,
        Prim::Exp2,
        Prim::Log,
        Prim::Log2,
        Prim::Log10,
        Prim::Log1p,
        Prim::Tanh,
        Prim::Logistic,
        Prim::Sin,
        Prim::Cos,
        Prim::Tan,
        Prim::Asin,
        Prim::Acos,
        Prim::Erf,
        Prim::Erfc,
        Prim::ErfInv,
        Prim::NormalCdf,
        Prim::Pow,
        Prim::Atan2,
    ];
    !contracted && !quick && !approximate.contains(&prim)
}

/// Every primitive, on all pairs of numbers.
#[test]
fn primitives_agree_on_all_pairs() {
    let mut differences = Vec::new();
    for dtype in [F32, F64, BF16, I32, Bool] {
        let numbers = numbers(dtype);
        let pairs = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
        let (left, right): (Vec<_>, Vec<_>) = pairs.unzip();
        let (mesh, shape) = (Mesh::single(), [left.len()]);
        let mut b = Builder::new("primitives", &mesh);
        let given = [fed(&mut b, "a", dtype, &shape), fed(&mut b, "b", dtype, &shape)];
        let [x, y] = [0, 1].map(Expr::input);
        for &prim in Prim::ALL.iter().filter(|prim| prim.accepts(dtype) && **prim != Prim::Cast) {
            let args = match prim {
                Prim::Select => vec![x.clone().equal(y.clone()), x.clone(), y.clone()],
                _ => [x.clone(), y.clone()][..prim.arity()].to_vec(),
            };
            let out = if prim.is_comparison() { Bool } else { dtype };
            let inputs = given.map(|value| whole(&b, value)).to_vec();
            let extents = Extents::from_slice(&shape);
            let made = b.map(inputs, extents, &Expr::apply(prim, args), out).unwrap();
            fetched(&mut b, prim.name(), made, &[]);
        }
        for to in [F32, F64, BF16, I32, Bool] {
            let extents = Extents::from_slice(&shape);
            let made = b.map(vec![whole(&b, given[0])], extents, &x.clone().cast(to), to).unwrap();
            fetched(&mut b, &format!("to {to}"), made, &[]);
        }
        let feeds = [("a", array(dtype, &shape, &left)), ("b", array(dtype, &shape, &right))];
        for (name, found, expected) in both(&mesh, b.finish(), &feeds) {
            let prim = Prim::ALL.iter().copied().find(|prim| prim.name() == name);
            let exact = prim.is_none_or(|prim| is_exact(prim, dtype));
            // What is left of a large number is as rough as that.
            let size =
                |i: usize| if prim == Some(Prim::Mod) { left[i].abs().max(1.0) } else { 1.0 };
            let allowed = |i| if exact { 0.0 } else { rounding(dtype) * size(i) };
            let difference = difference(&found, &expected, allowed);
            differences.extend(difference.map(|found| format!("{name} of {dtype}: {found}")));
        }
    }
    assert_eq!(differences, [""; 0]);
}

/// Sorts with NaN and equal keys, lookups and sums at indices that are nowhere, folds so far.
#[test]
fn forms_agree_at_their_edges() {
    let mesh: Mesh = "rows:2;cols:2".parse().unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let keys = [2.0, f64::NAN, -0.0, 1.0, 0.0, f64::NAN, f64::NEG_INFINITY, 2.0];
    let at = [-1.0, 0.0, 7.0, 8.0, 3.0, f64::from(i32::MIN), f64::from(i32::MAX), 4.0];
    let mut b = Builder::new("edges", &mesh);
    let [k, i, n] =
        [("keys", F32), ("at", I32), ("n", I32)].map(|(name, of)| fed(&mut b, name, of, &[8]));
    for descending in [false, true] {
        let inputs = [whole(&b, k), whole(&b, n)];
        let outs = b.sort(&inputs, 0, descending, &Extents::from_slice(&[5]));
        fetched(&mut b, &format!("sorted {descending}"), outs[0], &[]);
        fetched(&mut b, &format!("payload {descending}"), outs[1], &[]);
    }
    // Each processor looks among positions of its own.
    let begin = Offset::sliced(&axes, 2);
    let row = Operand { value: k, dims: [1].into_iter().collect() };
    let (to, out) = (whole(&b, i), Extents::from_slice(&[8]));
    let found = b.gather(row, to.clone(), 1, begin.clone(), out);
    fetched(&mut b, "looked up", found, &axes);
    let updates = whole(&b, n);
    let row = Operand { value: updates.value, dims: [1].into_iter().collect() };
    let to = Operand { value: to.value, dims: [1].into_iter().collect() };
    let sums = b.scatter(ReduceKind::Sum, row, to, 0, begin.clone(), Extents::from_slice(&[3]));
    fetched(&mut b, "summed", sums, &axes);
    // Eight lines, each with an index of its own, some of them outside.
    let lines = b.reshape(i, Extents::from_slice(&[8, 1]));
    let [row, to] = [n, i].map(|value| Operand { value, dims: [0].into_iter().collect() });
    let put = b.put(lines, row, to, 1, begin);
    fetched(&mut b, "put", put, &axes);
    // Expressions are folded of values with dims of their own, turned and repeated.
    let table = b.reshape(k, Extents::from_slice(&[4, 2]));
    let of = |value, dims: &[u8]| Operand { value, dims: dims.iter().copied().collect() };
    let expr = Expr::input(0) - Expr::input(1) * Expr::input(2).cast(F32);
    for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
        let inputs = vec![of(table, &[1, 0]), of(k, &[2]), of(i, &[2])];
        let folded = b.reduce_of(kind, inputs, Extents::from_slice(&[2]), (&expr, F32)).unwrap();
        fetched(&mut b, &format!("{kind} of an expression"), folded, &[]);
    }
    for (kind, value) in
        [(ReduceKind::Sum, n), (ReduceKind::Prod, n), (ReduceKind::Max, k), (ReduceKind::Min, n)]
    {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let scanned = b.scan(kind, 0, exclusive, reverse, value);
            fetched(&mut b, &format!("{kind} {exclusive} {reverse}"), scanned, &[]);
        }
    }
    let feeds = [
        ("keys", array(F32, &[8], &keys)),
        ("at", array(I32, &[8], &at)),
        ("n", array(I32, &[8], &[1e9, 2e9, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0])),
    ];
    for (name, found, expected) in both(&mesh, b.finish(), &feeds) {
        assert_same(&name, &found, &expected);
    }
}

/// What processors do together, of values that no sum keeps: NaN, -0.0, the ends of integers.
#[test]
fn collectives_agree_on_bits() {
    let mesh: Mesh = "rows:2;cols:4".parse().unwrap();
    let [rows, cols] = ["rows", "cols"].map(|name| mesh.axis(name).unwrap());
    let both_axes = [cols, rows];
    let mut b = Builder::new("together", &mesh);
    let mut feeds = Vec::new();
    for dtype in [F32, F64, BF16, I32, Bool] {
        let of = numbers(dtype);
        let numbers: Vec<_> = of.iter().cycle().take(64).copied().collect();
        feeds.push((dtype.to_string(), array(dtype, &[16, 4], &numbers)));
        let own = split(&mut b, &dtype.to_string(), dtype, &[16, 4], &both_axes);
        let all = b.all_gather(&both_axes, 0, own);
        fetched(&mut b, &format!("all of {dtype}"), all, &[]);
        let turned = b.all_to_all(&[cols], 1, 0, own);
        fetched(&mut b, &format!("turned {dtype}"), turned, &both_axes);
        for (by, wrap) in [(1, true), (-1, false), (5, false)] {
            let moved = b.permute(&both_axes, by, wrap, own);
            fetched(&mut b, &format!("moved {by} {wrap} {dtype}"), moved, &both_axes);
        }
        let sent = b.broadcast(&[cols], 2, own);
        fetched(&mut b, &format!("sent {dtype}"), sent, &both_axes);
        // Each processor has its own slice of the whole, and nothing elsewhere.
        let begin = vec![Offset::default(), Offset::default()];
        let at = Offset::sliced(&both_axes, 2);
        let place = b.generate(
            Generator::Iota(0),
            I32,
            begin,
            Extents::from_slice(&[16, 4]),
            Extents::from_slice(&[16, 4]),
        );
        let part = b.gather(
            Operand { value: own, dims: [2, 1].into_iter().collect() },
            whole(&b, place),
            2,
            at,
            Extents::from_slice(&[16, 4]),
        );
        let chosen = b.all_reduce(ReduceKind::Select, &both_axes, part);
        fetched(&mut b, &format!("chosen {dtype}"), chosen, &[]);
        let scattered = b.reduce_scatter(ReduceKind::Select, &both_axes, 0, part);
        fetched(&mut b, &format!("scattered {dtype}"), scattered, &both_axes);
        if dtype == Bool {
            for kind in [ReduceKind::All, ReduceKind::Any] {
                let folded = b.all_reduce(kind, &[rows], own);
                fetched(&mut b, &format!("{kind}"), folded, &both_axes);
            }
        }
    }
    let feeds: Vec<_> = feeds.iter().map(|(name, of)| (name.as_str(), of.clone())).collect();
    for (name, found, expected) in both(&mesh, b.finish(), &feeds) {
        assert_same(&name, &found, &expected);
        let bits = |of: &Array| of.to_f64().mapv(|x| x.is_sign_negative() && !x.is_nan());
        assert_eq!(bits(&found), bits(&expected), "{name}: signs");
    }
}

/// Iterations that end where a processor says so, at once or at the last; with loops in loops, slices and
/// stacks, forwards and backwards.
#[test]
fn loops_agree() {
    let mesh: Mesh = "rows:4".parse().unwrap();
    let rows = mesh.axis("rows").unwrap();
    let scalar = Extents::new;
    let x = || Expr::input(0);

    // Doubles a number as long as it is below 100.
    let mut body = Builder::new("doubles", &mesh);
    let h = body.param(I32, []);
    body.param(I32, []);
    let twice = body.map(vec![whole(&body, h)], scalar(), &(x() + x()), I32).unwrap();
    let again = body.map(vec![whole(&body, twice)], scalar(), &x().less(100.0), Bool).unwrap();
    body.result(twice);
    body.result(again);
    let body = Box::new(body.finish().block);
    let doubling =
        Loop { body, count: 9, reverse: false, conditional: true, carried: 1, sliced: 0 };

    // Adds slices, and stacks what it had, in loops within each iteration.
    let running = |reverse, inner: Option<Loop>| {
        let mut body = Builder::new("adds", &mesh);
        let h = body.param(I32, inner.as_ref().map(|_| 3));
        let w = body.param(I32, inner.as_ref().map(|_| 3));
        let at = body.param(I32, []);
        let next = match inner {
            // Along the slice: what comes out is as long.
            Some(inner) => {
                let start = body.fill(Scalar::new(I32, 1.0), scalar());
                body.repeat(inner, &[start, w])[1]
            }
            None => {
                let inputs = vec![whole(&body, h), whole(&body, w), whole(&body, at)];
                let sum = x() + Expr::input(1) * Expr::input(2);
                body.map(inputs, scalar(), &sum, I32).unwrap()
            }
        };
        body.result(next);
        body.result(h);
        let body = Box::new(body.finish().block);
        Loop { body, count: 3, reverse, conditional: false, carried: 1, sliced: 1 }
    };

    let mut b = Builder::new("loops", &mesh);
    let first = split(&mut b, "first", I32, &[4], &[rows]);
    let first = b.reshape(first, scalar());
    let go = b.map(vec![whole(&b, first)], scalar(), &x().less(100.0), Bool).unwrap();
    let last = b.repeat(doubling, &[first, go])[0];
    let last = b.reshape(last, Extents::from_slice(&[1]));
    fetched(&mut b, "doubled", last, &[rows]);
    let w = fed(&mut b, "w", I32, &[3, 3]);
    let h = b.fill(Scalar::new(I32, 7.0), Extents::from_slice(&[3]));
    for (reverse, inner) in [(false, true), (true, false)] {
        let outs = b.repeat(running(reverse, Some(running(inner, None))), &[h, w]);
        fetched(&mut b, &format!("last {reverse}"), outs[0], &[]);
        fetched(&mut b, &format!("all {reverse}"), outs[1], &[]);
    }
    let feeds = [
        ("first", array(I32, &[4], &[1.0, 3.0, 64.0, 100.0])),
        ("w", array(I32, &[3, 3], &[1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0, 9.0])),
    ];
    for (name, found, expected) in both(&mesh, b.finish(), &feeds) {
        assert_same(&name, &found, &expected);
    }
}

/// Random numbers and positions of every dtype, with bounds and salts, have the meaning's bits on every
/// processor.
#[test]
fn random_numbers_have_their_bits() {
    let mesh: Mesh = "rows:2;cols:2".parse().unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let mut b = Builder::new("random", &mesh);
    let salt = fed(&mut b, "salt", I32, &[]);
    let (global, extents) = (Extents::from_slice(&[64, 40]), Extents::from_slice(&[16, 40]));
    let uniform = |low, high| Generator::Uniform { key: 5, low, high };
    let floats = [
        uniform(0.0, 1.0),
        uniform(-0.3, 1.7),
        uniform(1.0, 1.0 + 1e-6),
        Generator::Normal { key: 6, mean: 0.0, stddev: 1.0 },
        Generator::Normal { key: 7, mean: -3.0, stddev: 0.1 },
        Generator::TruncatedNormal { key: 8, mean: 0.5, stddev: 2.0 },
        Generator::Iota(0),
    ];
    let whole_numbers = [
        uniform(-5.0, 9.0),
        uniform(f64::from(i32::MIN), f64::from(i32::MAX) + 1.0),
        Generator::Iota(1),
    ];
    for dtype in [F32, F64, BF16, I32] {
        let generators = if dtype == I32 { &whole_numbers[..] } else { &floats };
        for generator in generators {
            let begin = vec![Offset::sliced(&axes, 16), Offset::default()];
            let salts = if generator.key().is_some() { &[salt, salt][..] } else { &[] };
            let (global, extents) = (global.clone(), extents.clone());
            let made = b.generate_salted(generator.clone(), salts, dtype, begin, global, extents);
            fetched(&mut b, &format!("{generator:?} {dtype}"), made, &axes);
        }
    }
    let feeds = [("salt", array(I32, &[], &[-2.0]))];
    for (name, found, expected) in both(&mesh, b.finish(), &feeds) {
        assert_same(&name, &found, &expected);
    }
}
