//! Comparing two layouts op by op names wrong ops, and no right ones. Tensors are shown by name.

use crate::models::{MODELS, borrowed, feeds, layouts};
use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, LocalPiece, Options, PassId};
use mesh_core::names::ReduceKind;
use mesh_core::program::{Expr, Offset, Scalar};
use mesh_core::session::{CompareError, Comparing, Difference, Side, Subject, compare};
use mesh_core::split::{Linearity, Role, SplitRule};
use mesh_ops::prelude::*;
use ndarray::{Array1, Array2};
use std::sync::{Arc, Mutex};

fn single() -> (Mesh, Layout) {
    (Mesh::single(), Layout::default())
}

#[test]
fn right_models_agree_under_all_layouts() {
    let (one, plain) = single();
    for (name, build) in MODELS {
        for (mesh, most) in [("a:2", 12), ("a:2;b:2", 12)] {
            let (g, mesh) = (mesh_ops::graph(), mesh.parse().unwrap());
            build(&g);
            for (layout, module) in layouts(&g, &mesh, most) {
                let feeds = feeds(&module, "train");
                let sides = [Side::new(&one, &plain), Side::new(&mesh, &layout)];
                let found = compare(&g, "train", sides, &borrowed(&feeds), &Comparing::default());
                assert_eq!(found, Ok(None), "{name} on {mesh} under {layout}");
            }
        }
    }
}

fn grid() -> Mesh {
    "a:2;b:2".parse().unwrap()
}

/// An op of one input that is right on one processor only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Wrong {
    /// A square that declares that it is linear.
    Linear,
    /// A sum over `q` that declares `q` as parallel.
    Parallel,
    /// A sum that combines parts by their maximum.
    Max,
    /// A shift that ignores the neighbours.
    Shift,
    /// A cut that begins elsewhere on replicas, if `p` is split and there is an axis beside.
    Replicas,
}

impl Op for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let x = &inputs[0];
        Ok(vec![match self {
            Self::Linear | Self::Shift | Self::Replicas => x.clone(),
            _ => TensorType::new(x.shape.without(&["q".into()]), x.dtype),
        }])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let rule = SplitRule::parallel();
        match self {
            Self::Linear => rule.linear(Linearity::Adds, &[&[0]]),
            Self::Max => rule.with(["q".into()], Role::Reduced(ReduceKind::Max)),
            _ => rule,
        }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape, dtype) = (cx.input(0)?, cx.output_shape(0), cx.output_dtype(0));
        let out = match self {
            Self::Linear => cx.map_over(&shape, &[x], &(Expr::input(0) * Expr::input(0)), dtype)?,
            Self::Parallel | Self::Max => cx.reduce(ReduceKind::Sum, &x, &shape)?,
            Self::Shift | Self::Replicas => {
                let size = shape.get("q".into()).map_or(1, |d| d.size);
                let beside = match (self, cx.parts("p".into())?) {
                    (Self::Replicas, 2) => grid().axis("b"),
                    _ => None,
                };
                let begin = Offset::sliced(beside.as_slice(), 1);
                let mut piece = LocalPiece::whole(cx.cut(&x, "q".into(), begin, size - 1)?);
                piece.at.push(("q".into(), 1));
                cx.assemble(&[piece], Scalar::new(dtype, 0.0), &shape)?
            }
        };
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok(vec![Some(cx.dy() * cx.input(0))])
    }
}

/// A wrong op among right ones, all of which depend on it.
fn planted(op: Wrong) -> (Graph, u32) {
    let g = mesh_ops::graph();
    let line = {
        let x = g.input("x", [dim("p", 4), dim("q", 8)], F32);
        let w = g.variable(
            "w",
            [dim("q", 8), dim("r", 8)],
            F32,
            Initializer::Uniform { low: 0.5, high: 1.0 },
        );
        // Is pending if `r` is split, and is split if `q` is.
        let before = (w.value().sum([dim("r", 8)]) + x).tanh();
        let owing = match op {
            Wrong::Linear => (x * w.value()).sum([dim("r", 8)]),
            Wrong::Shift => x * 2.0,
            _ => before,
        };
        let made = g.apply1(op, &[owing]);
        let line = line!() - 1;
        let after = (made.sigmoid() * 3.0).sum_all();
        g.function("f", [x], [after, before.sum_all()], []);
        line
    };
    (g, line)
}

fn difference(op: Wrong, layout: &str) -> (Difference, u32) {
    let (g, line) = planted(op);
    let (one, plain) = single();
    let (mesh, layout): (Mesh, Layout) = ("a:2;b:2".parse().unwrap(), layout.parse().unwrap());
    let x = Array2::from_shape_fn((4, 8), |(i, j)| 0.25 + ((i * 5 + j * 3) % 7) as f32 / 8.0);
    let sides = [Side::new(&one, &plain), Side::new(&mesh, &layout)];
    let found = compare(&g, "f", sides, &[("x", x.view().into())], &Comparing::default());
    (found.unwrap().expect("a difference"), line)
}

#[test]
fn exactly_the_wrong_op_is_named() {
    let table = [
        (Wrong::Linear, "r:b"),
        (Wrong::Parallel, "q:a"),
        (Wrong::Max, "q:a"),
        (Wrong::Max, "p:b;q:a"),
        (Wrong::Shift, "q:a"),
        (Wrong::Shift, "p:a;q:b"),
    ];
    for (op, layout) in table {
        let (found, line) = difference(op, layout);
        let Subject::Operation { op: kind, name, at } = &found.subject else { panic!("{found}") };
        assert_eq!((kind.as_str(), name.as_str()), ("wrong", "wrong"), "{op:?}: {found}");
        assert!(at.contains(&format!("compare.rs:{line}")), "{found}");
        assert!(found.inputs.iter().all(|input| input.largest <= input.allowed), "{found}");
        assert_eq!(found.inputs.len(), 1);
        assert!((found.values[0] - found.values[1]).abs() == found.largest);
        assert!(found.largest > found.allowed && found.far > 0);
        // Sums that are declared as parallel seem to have the same placement.
        let same = found.placements[0] == found.placements[1];
        assert_eq!(same, op == Wrong::Parallel, "{found}");
    }
}

#[test]
fn the_message_says_where_and_what() {
    let (found, line) = difference(Wrong::Shift, "p:a;q:b");
    let text = found.to_string().replace(&format!("compare.rs:{line}"), "compare.rs:LINE");
    insta::assert_snapshot!(text, @r#"
    wrong `wrong` at tests/tests/session/compare.rs:LINE differs at [2, 4] by 1.750e0, where 2.001e-3 is allowed; so do 4 of 32 elements
      1.75 under layout "" on mesh "", [p:4, q:8]
      0 under layout "p:a;q:b" on mesh "a:2;b:2", [p:4@a, q:8@b]
      its input `mul` agrees: by 0.000e0, 2.001e-3 allowed
    "#);
}

/// If terms cancel, the rounding of the terms is left: within the tolerance of each of them, but not of what
/// is left in the variable.
#[test]
fn what_updates_compute_is_compared_as_well() {
    let g = mesh_ops::graph();
    let d = dim("d", 4096);
    let x = g.input("x", [d], F32);
    let total = g.variable("total", [], F32, Initializer::ZEROS);
    let update = total.assign_sub(x.square().sum_all());
    g.function("f", [x], [], [update]);
    let (one, plain) = single();
    let (mesh, layout) = ("a:2".parse().unwrap(), "d:a".parse().unwrap());
    let module = g.lower(&one, &plain).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let differs = |step: u32| {
        let data = Array1::from_shape_fn(4096, |i| (i as f32 * (step as f32 + 0.37)).sin() * 62.5);
        let feeds = [("x", data.view().into())];
        let sides = || [Side::new(&one, &plain), Side::new(&mesh, &layout)];
        let found = compare(&g, "f", sides(), &feeds, &Comparing::default());
        assert_eq!(found, Ok(None));
        // The variable starts at the sum, so that only rounding is left.
        session.write("total", &Array::from(0f32)).unwrap();
        session.call_named("f", &feeds).unwrap();
        let sum = -session.read("total").unwrap().item().unwrap();
        session.write("total", &Array::from(sum as f32)).unwrap();
        let comparing = Comparing { variables: Some(&session), ..Comparing::default() };
        compare(&g, "f", sides(), &feeds, &comparing).unwrap()
    };
    // Sometimes both orders of the sum give the same bits.
    let found = (0..20).find_map(differs).expect("sums whose order matters");
    let Subject::Operation { op, .. } = &found.subject else { panic!("{found}") };
    assert_eq!(op, "assign_sub");
    assert!(found.inputs.iter().all(|input| input.largest <= input.allowed), "{found}");
    assert_eq!(found.values[0], 0.0);
}

/// Of replicas one is shown, which may be right. What others store of theirs is not.
#[test]
fn a_variable_that_replicas_write_differently_is_named() {
    let g = mesh_ops::graph();
    let dims = [dim("p", 4), dim("q", 8)];
    let x = g.input("x", dims, F32);
    let kept = g.variable("kept", dims, F32, Initializer::ZEROS);
    let update = kept.assign(g.apply1(Wrong::Replicas, &[x]));
    let line = line!() - 1;
    g.function("f", [x], [], [update]);
    let (one, plain) = single();
    let (mesh, layout) = (grid(), "p:a;params/q:b".parse().unwrap());
    let x = Array2::from_shape_fn((4, 8), |(i, j)| (i * 8 + j) as f32);
    let sides = [Side::new(&one, &plain), Side::new(&mesh, &layout)];
    let found = compare(&g, "f", sides, &[("x", x.view().into())], &Comparing::default());
    let found = found.unwrap().expect("a difference");
    let Subject::Variable { name, at } = &found.subject else { panic!("{found}") };
    assert_eq!(name, "kept");
    assert!(at.contains(&format!("compare.rs:{line}")), "{found}");
    // The right half of each row is the replica's.
    assert_eq!((&found.index[..], found.values, found.far), (&[0, 4][..], [3.0, 4.0], 16));
}

/// Compares one layout with and without each pass.
#[test]
fn passes_are_left_out_on_one_side() {
    let (mesh, layout): (Mesh, Layout) = ("a:2".parse().unwrap(), "batch:a".parse().unwrap());
    let (_, build) = MODELS[1];
    let g = mesh_ops::graph();
    build(&g);
    let module = g.lower(&mesh, &layout).unwrap();
    let feeds = feeds(&module, "train");
    for &pass in PassId::ALL {
        let sides = [Side::new(&mesh, &layout), Side::new(&mesh, &layout).without(pass)];
        let found = compare(&g, "train", sides, &borrowed(&feeds), &Comparing::default());
        assert_eq!(found, Ok(None), "{pass}");
    }
}

#[test]
fn what_cannot_be_compared_says_which_side() {
    let (g, _) = planted(Wrong::Shift);
    let (one, plain) = single();
    let (mesh, layout) = ("a:3".parse().unwrap(), "p:a".parse().unwrap());
    let x = Array2::from_elem((4, 8), 0.5f32);
    let feeds = [("x", x.view().into())];
    let sides = [Side::new(&one, &plain), Side::new(&mesh, &layout)];
    let error = compare(&g, "f", sides, &feeds, &Comparing::default()).unwrap_err();
    assert!(matches!(error, CompareError::Lower { .. }));
    assert!(error.to_string().starts_with("layout \"p:a\" on mesh \"a:3\": "), "{error}");
    let sides = [Side::new(&one, &plain), Side::new(&one, &plain)];
    let error = compare(&g, "g", sides, &feeds, &Comparing::default()).unwrap_err();
    assert!(error.to_string().contains("there is no function `g`"), "{error}");
}

/// The tensors that a session shows, by name.
fn shown(g: &Graph, layout: &str, probe: &[&str]) -> Result<Vec<(String, Array)>, String> {
    let probe = probe.iter().map(|&name| name.to_owned()).collect();
    let options = Options { probe, ..Options::default() };
    let module = g
        .lower_with(&"a:2;b:2".parse().unwrap(), &layout.parse().unwrap(), &options)
        .map_err(|report| report.to_string())?;
    let mut session = Session::threads(&module, 0).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&seen);
    session.watch(move |label, array| {
        inside.lock().unwrap().push((label.to_owned(), array.clone()));
    });
    let feeds = feeds(&module, "f");
    session.call_named("f", &borrowed(&feeds)).unwrap();
    let seen = seen.lock().unwrap().clone();
    Ok(seen)
}

fn probed() -> Graph {
    let g = mesh_ops::graph();
    let (batch, width) = (dim("batch", 4), dim("width", 8));
    {
        let x = g.input("x", [batch, width], F32);
        let (best, at) = (x * 2.0).top_k(width, dim("best", 2));
        let ([h], []) = g.scan(dim("rounds", 3), [best], [], |[h], []| ([(h * h).tanh()], []));
        let _nobody = x.exp();
        g.function("f", [x], [h.sum_all().probe("total"), at.cast(F32).sum_all()], []);
    }
    g
}

#[test]
fn tensors_are_shown_by_name() {
    let g = probed();
    for layout in ["", "batch:a", "batch:b+a"] {
        let all = shown(&g, layout, &["*"]).unwrap();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "total", "probes of the model come first: {names:?}");
        for name in ["x", "top_k.0", "top_k.1", "loop"] {
            assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name} of {names:?}");
        }
        assert!(!names.contains(&"exp") && !names.contains(&"tanh"), "{names:?}");
        let find = |name: &str| all.iter().find(|(n, _)| n == name).unwrap().1.to_f64();
        let doubled = find("x").mapv(|x| x * 2.0);
        assert_eq!(find(names.iter().find(|n| n.starts_with("mul")).unwrap()), doubled);
        let one = shown(&g, layout, &["top_k"]).unwrap();
        let found: Vec<_> = one.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, ["total", "top_k.0", "top_k.1"]);
        assert_eq!(one[1].1.to_f64(), find("top_k.0"));
        assert_eq!(shown(&g, layout, &["top_k.1", "*.1"]).unwrap().len(), 2);
    }
}

#[test]
fn names_that_mean_nothing_are_errors() {
    let g = probed();
    let refused = |names: &[&str]| shown(&g, "", names).unwrap_err();
    assert!(
        refused(&["topk"]).contains("no operation of this name (did you mean `top_k`?)"),
        "{}",
        refused(&["topk"])
    );
    let text = refused(&["zzz", "qqq*"]);
    assert!(text.contains("probe zzz: ") && text.contains("probe qqq*: "), "{text}");
    assert!(text.contains("there are `x`, "), "{text}");
    let text = refused(&["tanh"]);
    assert!(
        text.contains("in a loop's body") && text.contains("what the loop gives: `loop`"),
        "{text}"
    );
    assert!(refused(&["exp"]).contains("no function computes it"));
}
