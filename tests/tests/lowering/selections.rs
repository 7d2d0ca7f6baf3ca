//! A selection along a split dim keeps its bits, and is not combined with the zeros of processors
//! that have no element.

use mesh_core::names::ReduceKind;
use mesh_core::program::Form;
use mesh_ops::prelude::*;
use mesh_ops::*;
use ndarray::{ArrayD, IxDyn, arr1};

const P: usize = 4;
const Q: usize = 8;

fn p() -> Dimension {
    dim("p", P)
}

fn q() -> Dimension {
    dim("q", Q)
}

/// Every kind of number at every position along `p`, and along `q`.
fn numbers() -> ArrayD<f32> {
    let kinds =
        [-0.0, f32::NAN, f32::INFINITY, 1.5, f32::NEG_INFINITY, 0.0, -f32::NAN, -3e38, 1e-45, -7.0];
    ArrayD::from_shape_fn(IxDyn(&[P, Q]), |i| kinds[(3 * i[0] + i[1]) % kinds.len()])
}

fn bits(array: &Array) -> Vec<u64> {
    match array {
        Array::F32(x) => x.iter().map(|x| u64::from(x.to_bits())).collect(),
        Array::F64(x) => x.iter().map(|x| x.to_bits()).collect(),
        Array::BF16(x) => x.iter().map(|x| u64::from(x.to_bits())).collect(),
        Array::I32(x) => x.iter().map(|x| *x as u64).collect(),
        Array::Bool(x) => x.iter().map(|x| u64::from(*x)).collect(),
    }
}

/// Equality of numbers: arithmetic may change the sign of a zero or a NaN.
fn equal(a: &Array, b: &Array) -> bool {
    let (a, b) = (a.to_f64(), b.to_f64());
    a.iter().zip(&b).all(|(a, b)| a == b || a.is_nan() && b.is_nan())
}

type Build = for<'g> fn(Tensor<'g>) -> Tensor<'g>;

/// Some rows in another order, and one that does not exist.
fn rows(x: Tensor<'_>) -> Tensor<'_> {
    gather(x, x.graph().constant(arr1(&[3, 0, 2, 9]).into_dyn(), [dim("r", 4)]), p())
}

/// The products with NaN and infinities.
fn times(x: Tensor<'_>) -> Tensor<'_> {
    let w = x.graph().constant(numbers().index_axis_move(ndarray::Axis(0), 1), [q()]);
    x * w
}

/// What Mesh TensorFlow does in place of a gather: rows of a finite table as products with 1 and 0.
fn one_hot_rows<'g>(x: Tensor<'g>) -> Tensor<'g> {
    let r = dim("r", 2);
    let hot = one_hot(x.graph().constant(arr1(&[3, 1]).into_dyn(), [r]), p(), F32);
    let table = elementwise::cast(range(x.graph(), p(), I32), F32) - 2.0;
    (hot * table).sum([p()])
}

/// Functions of `x: [p, q]` that move a selection along `p`, or multiply it.
const BITWISE: &[(&str, Build)] = &[
    ("pick", |x| x.pick(p(), 2)),
    ("gather", rows),
    ("pick, then pick", |x| x.pick(p(), 1).pick(q(), 3)),
    ("gather, then gather", |x| {
        gather(rows(x), x.graph().constant(arr1(&[7, 1]).into_dyn(), [dim("s", 2)]), q())
    }),
    ("times infinity", |x| x.pick(p(), 0) * f64::INFINITY),
    ("divided by zero", |x| x.pick(p(), 0) / 0.0),
    ("times a tensor", |x| times(x.pick(p(), 3))),
    ("gathered times a tensor", |x| times(rows(x))),
    ("divided by a tensor", |x| rows(x) / times(rows(x))),
    ("moved", |x| {
        let turned = rows(x).pad(dim("r", 4), 1, 0).slice(dim("r", 3), 1);
        stack(turned, &[turned], "twice").reshape([dim("two", 2), dim("rq", 3 * Q)])
    }),
    ("masked", |x| {
        let zero = x.graph().scalar(0.0, F32);
        let row = rows(x);
        elementwise::select(elementwise::greater(row, zero), row, zero)
    }),
    ("joined", |x| concat(rows(x), &[rows(x)], "r")),
    ("joined with what is whole", |x| concat(rows(x), &[x.rename(p(), "r")], "r")),
    ("cast", |x| elementwise::cast(elementwise::cast(rows(x), BF16), F32)),
    ("a one-hot product times infinity", |x| one_hot_rows(x) * f64::INFINITY),
    ("a one-hot product divided by zero", |x| one_hot_rows(x) / 0.0),
    ("a one-hot product times a tensor", |x| times(one_hot_rows(x))),
    ("bf16", |x| rows(elementwise::cast(x, BF16))),
    ("bool", |x| rows(elementwise::cast(x, Bool))),
    ("i32", |x| rows(elementwise::cast(x, I32)) * 3.0),
    ("stacked by a loop", |x| {
        let init = x.graph().fill(0.0, [q()], F32);
        let ([_], [all]) = x.graph().scan(dim("n", 3), [init], [], |[h], []| {
            let row = x.pick(p(), 2);
            ([h * 0.5], [row])
        });
        all
    }),
    ("carried by a loop", |x| {
        let ([row], []) = x.graph().scan(dim("n", 3), [x.pick(p(), 0)], [], |[h], []| {
            ([elementwise::maximum(h, x.pick(p(), 1))], [])
        });
        row
    }),
];

/// Functions that add up a selection.
const ADDITIVE: &[(&str, Build)] = &[
    ("a sum of two selections", |x| x.pick(p(), 0) + x.pick(p(), 3)),
    ("a difference", |x| x.pick(p(), 0) - rows(x)),
    ("negated", |x| -x.pick(p(), 0)),
    ("added to what is whole", |x| x.pick(p(), 1) + x.rename(p(), "r")),
];

const LAYOUTS: &[(&str, &str)] = &[
    ("a:2", "p:a"),
    ("a:4", "p:a"),
    ("a:2;b:2", "p:a+b"),
    ("a:2;b:2", "p:b;q:a"),
    ("a:2;b:2", "q:a+b"),
    ("a:4", "q:a"),
    ("a:2", "p:a;r:a"),
];

#[test]
fn what_is_selected_keeps_its_bits_and_meets_no_zeros() {
    for (name, build) in BITWISE.iter().chain(ADDITIVE) {
        let result = |mesh: &str, layout: &str| -> Option<Array> {
            let g = mesh_ops::graph();
            let x = g.constant(numbers(), [p(), q()]);
            let f = g.function("f", [], [build(x)], []);
            g.check().unwrap_or_else(|report| panic!("{name}: {report}"));
            let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).ok()?;
            let [result] = Session::threads(&module, 0).unwrap().call(&f, []).unwrap();
            Some(result)
        };
        let alone = result("a:1", "").unwrap();
        let mut legal = 0;
        for (mesh, layout) in LAYOUTS {
            let Some(found) = result(mesh, layout) else { continue };
            legal += 1;
            let moves = BITWISE.iter().any(|(moves, _)| moves == name);
            let same = if moves { bits(&found) == bits(&alone) } else { equal(&found, &alone) };
            assert!(same, "{name}: {mesh} {layout}: {found:?} instead of {alone:?}");
        }
        assert!(legal >= 2, "{name}: {legal} legal layouts");
    }
}

/// Selections are sent in their own dtype, whatever sums are held in, and are settled after the ops
/// that move them.
#[test]
fn a_selection_is_one_collective_of_its_own_kind() {
    let g = mesh_ops::graph();
    let x = g.input("x", [p(), q()], BF16);
    let kept = rows(x).slice(dim("r", 1), 0);
    g.function("f", [x], [kept], []);
    let module = g.lower(&"a:4".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    let collectives: Vec<_> = program
        .steps()
        .iter()
        .filter_map(|step| match &step.form {
            Form::AllReduce(form) => Some((form.kind, program.value(step.inputs[0].value).clone())),
            form => form.axes().map(|_| panic!("{}", form.name())),
        })
        .collect();
    let [(kind, value)] = &collectives[..] else { panic!("{} collectives", collectives.len()) };
    assert_eq!(
        (*kind, value.dtype, value.extents[..].to_vec()),
        (ReduceKind::Select, BF16, vec![1, Q])
    );
}

/// A sum of parts is reduced once: a selection is a sum in which all terms but one are zero.
#[test]
fn a_sum_of_selections_is_reduced_after_it_is_summed() {
    let g = mesh_ops::graph();
    let x = g.input("x", [p(), q()], F32);
    g.function("f", [x], [rows(x).sum([dim("r", 4)])], []);
    let module = g.lower(&"a:4".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let explain = module.explain();
    let sent: Vec<_> = explain.functions[0].collectives().map(|c| format!("{c:?}")).collect();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let program = &module.functions()[0];
    let sum = program.steps().iter().find_map(|step| match &step.form {
        Form::AllReduce(form) => Some((form.kind, program.value(step.inputs[0].value).len())),
        _ => None,
    });
    assert_eq!(sum, Some((ReduceKind::Sum, Q)));
}
