//! Wrong rules that a right rule hides: the layouts that would show them are illegal for both
//! together, or the other op has settled the sums that would show them.

use crate::caught;
use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::{Local, LocalCx};
use mesh_core::names::ReduceKind;
use mesh_core::program::Expr;
use mesh_core::split::{Linearity, Role, SplitRule};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Dense};

type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

/// The mistake of an op whose dim `q` must be whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    Nothing,
    /// Declares `q` as parallel.
    Parallel,
    /// Declares that it is linear in its first input.
    Linear,
    /// Its body omits a factor.
    Body,
}

impl Fault {
    fn split(self) -> SplitRule {
        let whole = Role::Whole("each element takes a sum along the dim");
        let right = SplitRule::parallel().with(["q".into()], whole);
        match self {
            Self::Nothing | Self::Body => right,
            Self::Parallel => SplitRule::parallel(),
            Self::Linear => right.linear(Linearity::Adds, &[&[0]]),
        }
    }
}

/// `y = x / s`, where `s` is 1 and the sum of `x²` along `q`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Norm {
    forward: Fault,
    gradient: Fault,
}

/// `dx`, of `x`, `y` and `dy`: `(dy - 2 y (sum of x dy along q)) / s`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct NormGradient(Fault);

impl Op for Norm {
    fn name(&self) -> &'static str {
        "own_norm"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        self.forward.split()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape, dtype) = (cx.input(0)?, cx.output_shape(0), cx.output_dtype(0));
        let squares = cx.map(&cx.inputs(), &(Expr::input(0) * Expr::input(0)), dtype)?;
        let sum = cx.reduce(ReduceKind::Sum, &squares, &shape.without(&["q".into()]))?;
        let expr = Expr::input(0) / (Expr::input(1) + 1.0);
        let out = cx.map_over(&shape, &[x, sum], &expr, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (x, y, dy) = (cx.input(0), cx.output(0), cx.dy());
        Ok(vec![Some(x.graph().apply1(NormGradient(self.gradient), &[x, y, dy]))])
    }
}

impl Op for NormGradient {
    fn name(&self) -> &'static str {
        "own_norm_gradient"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs[..1].to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        self.0.split()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (shape, dtype) = (cx.output_shape(0), cx.output_dtype(0));
        let line = shape.without(&["q".into()]);
        let (x, y, dy) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let mut sum = |a: Local, b: Local| -> Result<_, OpError> {
            let products = cx.map(&[a, b], &(Expr::input(0) * Expr::input(1)), dtype)?;
            cx.reduce(ReduceKind::Sum, &products, &line)
        };
        let (squares, along) = (sum(x.clone(), x.clone())?, sum(x, dy.clone())?);
        let factor = if self.0 == Fault::Body { 1.0 } else { 2.0 };
        let through = Expr::input(1) * Expr::input(2) * factor;
        let expr = (Expr::input(0) - through) / (Expr::input(3) + 1.0);
        let out = cx.map_over(&shape, &[dy, y, along, squares], &expr, dtype)?;
        cx.finish(0, out)
    }
}

/// The sum of products of two lines' elements.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm_means(x: &[&Dense], ty: &TensorType) -> Dense {
    let line = |x: &[f64]| x.iter().map(|e| e / (1.0 + dot(x, x))).collect::<Vec<_>>();
    Dense { ty: ty.clone(), data: x[0].data.chunks(6).flat_map(line).collect() }
}

fn norm_gradient_means(x: &[&Dense], ty: &TensorType) -> Dense {
    let [x, y, dy] = [0, 1, 2].map(|i| x[i].data.chunks(6));
    let line = |((x, y), dy): ((&[f64], &[f64]), &[f64])| {
        let (s, along) = (1.0 + dot(x, x), dot(x, dy));
        y.iter().zip(dy).map(|(y, dy)| (dy - 2.0 * y * along) / s).collect::<Vec<_>>()
    };
    Dense { ty: ty.clone(), data: x.zip(y).zip(dy).flat_map(line).collect() }
}

/// A case whose gradient op has no stated meaning.
fn unexplained(forward: Fault, gradient: Fault, dtype: DType) -> Case {
    Case::new("norm", move |g, x| g.apply1(Norm { forward, gradient }, x))
        .meaning("own_norm", norm_means)
        .normal("x", "p:4;q:6", dtype)
        .meshes(&["a:2", "a:2;b:2"])
}

fn norm(forward: Fault, gradient: Fault) -> Case {
    unexplained(forward, gradient, F64).meaning("own_norm_gradient", norm_gradient_means)
}

/// A norm of a norm, of which the first is wrong.
fn norm_of_norm(fault: Fault) -> Case {
    let right = Norm { forward: Fault::Nothing, gradient: Fault::Nothing };
    let wrong = Norm { forward: fault, ..right };
    Case::new("two norms", move |g, x| g.apply1(right, &[g.apply1(wrong, x)]))
        .meaning("own_norm", norm_means)
        .without_gradient()
        .normal("x", "p:4;q:6", F64)
        .meshes(&["a:2", "a:2;b:2"])
}

/// A wrong norm and a right one in each of two iterations.
fn norm_in_iterations(fault: Fault) -> Case {
    let norm = Norm { forward: fault, gradient: Fault::Nothing };
    Case::new("norm in rounds", move |g, x| {
        let ([y], []) = g.scan(dim("rounds", 2), [x[0]], [], |[h], []| {
            let right = Norm { forward: Fault::Nothing, ..norm };
            ([g.apply1(norm, &[g.apply1(right, &[h])])], [])
        });
        y
    })
    .meaning("own_norm", norm_means)
    .meaning("own_norm_gradient", norm_gradient_means)
    .normal("x", "p:4;q:6", F64)
    .meshes(&["a:2"])
}

const GRADIENT_ALONE: &str =
    "own_norm_gradient(f64[p:4, q:6], f64[p:4, q:6], f64[p:4, q:6]) alone: ";

#[test]
fn right_norms_pass() {
    let right = Fault::Nothing;
    for case in [norm(right, right), norm_of_norm(right), norm_in_iterations(right)] {
        case.check().unwrap();
    }
}

#[test]
fn a_rule_that_the_rule_of_the_gradient_hides_is_caught() {
    caught(&norm(Fault::Parallel, Fault::Nothing), "mesh a:2, layout q:a, forward alone");
}

#[test]
fn a_rule_of_the_gradient_that_the_forward_rule_hides_is_caught() {
    let case = norm(Fault::Nothing, Fault::Parallel);
    caught(&case, &format!("{GRADIENT_ALONE}mesh a:2, layout q:a"));
}

#[test]
fn a_linearity_set_of_the_gradient_that_the_forward_op_hides_is_caught() {
    let case = norm(Fault::Nothing, Fault::Linear);
    caught(&case, &format!("{GRADIENT_ALONE}mesh a:2, layout owed:a, x0 owing"));
}

#[test]
fn a_rule_that_another_op_of_the_function_hides_is_caught() {
    let alone = "own_norm(f64[p:4, q:6]) alone: mesh a:2, layout q:a";
    caught(&norm_of_norm(Fault::Parallel), alone);
    caught(&norm_in_iterations(Fault::Parallel), alone);
}

#[test]
fn where_nobody_says_what_the_gradient_means_one_processor_does() {
    let right = Fault::Nothing;
    for dtype in [F32, F64] {
        let report = unexplained(right, right, dtype).check().unwrap();
        assert_eq!(report.unexplained, ["own_norm_gradient"]);
        assert!(report.to_string().contains("by one processor"), "{report}");
    }
    assert_eq!(norm(right, right).check().unwrap().unexplained, [""; 0]);
    let case = unexplained(right, Fault::Parallel, F64);
    caught(&case, &format!("{GRADIENT_ALONE}mesh a:2, layout q:a"));
    caught(&unexplained(right, Fault::Linear, F64), "x0 owing");
    caught(&unexplained(right, Fault::Body, F64), "gradient of x against differences");
    caught(&unexplained(Fault::Parallel, right, F64), "layout q:a, forward alone");
}
