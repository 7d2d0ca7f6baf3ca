//! Wrong ops, defined here and so outside the framework: wrong roles, linearity sets, bodies,
//! gradients.

use crate::caught;
use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::LocalCx;
use mesh_core::names::ReduceKind;
use mesh_core::program::Expr;
use mesh_core::split::{Linearity, Role, SplitRule};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Dense};

type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

/// `x * x`, with a mistake or without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Square {
    Right,
    /// Declares that it is linear.
    Linear,
    /// Its gradient omits a factor.
    HalfGradient,
    /// Computes something else.
    Cube,
}

impl Op for Square {
    fn name(&self) -> &'static str {
        "own_square"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let rule = SplitRule::parallel();
        if *self == Self::Linear { rule.linear(Linearity::Adds, &[&[0]]) } else { rule }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let square = Expr::input(0) * Expr::input(0);
        let expr = if *self == Self::Cube { square * Expr::input(0) } else { square };
        let (inputs, shape, dtype) = (cx.inputs(), cx.output_shape(0), cx.output_dtype(0));
        let out = cx.map_over(&shape, &inputs, &expr, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let factor = if *self == Self::HalfGradient { 1.0 } else { 2.0 };
        Ok(vec![Some(cx.dy() * cx.input(0) * factor)])
    }
}

fn square(op: Square) -> Case {
    Case::new(&format!("{op:?}"), move |g, x| g.apply1(op, &[x[0]]))
        .meaning("own_square", |x, ty| Dense {
            ty: ty.clone(),
            data: x[0].data.iter().map(|x| x * x).collect(),
        })
        .exact()
        .integers("x", "p:4;q:6", F32)
        .meshes(&["a:2", "a:2;b:2"])
}

/// A sum over `q`, or a running sum along `q`, with the rule that the mistake gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sum {
    Right,
    /// Declares the summed dim as parallel.
    Parallel,
    /// Combines partial sums by their maximum.
    Max,
    /// Its local body sums over one more dim.
    Forgetful,
}

impl Op for Sum {
    fn name(&self) -> &'static str {
        "own_sum"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let x = &inputs[0];
        Ok(vec![TensorType::new(x.shape.without(&["q".into()]), x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let role = match self {
            Self::Parallel => Role::Parallel,
            Self::Max => Role::Reduced(ReduceKind::Max),
            _ => Role::Reduced(ReduceKind::Sum),
        };
        SplitRule::parallel().with(["q".into()], role)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, onto) = (cx.input(0)?, cx.output_shape(0));
        let kind = if *self == Self::Forgetful { ReduceKind::Max } else { ReduceKind::Sum };
        let out = cx.reduce(kind, &x, &onto)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![Some(cx.dy().broadcast(&cx.input(0).shape()))])
    }
}

fn sum(op: Sum) -> Case {
    Case::new(&format!("{op:?}"), move |g, x| g.apply1(op, &[x[0]]))
        .meaning("own_sum", |x, ty| {
            let mut out = Dense::zeros(ty.clone());
            for (i, element) in x[0].data.iter().enumerate() {
                out.data[i / 6] += element;
            }
            out
        })
        .exact()
        .integers("x", "p:4;q:6", F32)
        .meshes(&["a:2"])
}

/// `a * b`, declared as linear in this way in these inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Product(Linearity, &'static [&'static [usize]]);

impl Op for Product {
    fn name(&self) -> &'static str {
        "own_product"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs[..1].to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(self.0, self.1)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (inputs, shape, dtype) = (cx.inputs(), cx.output_shape(0), cx.output_dtype(0));
        let expr = Expr::input(0) * Expr::input(1);
        let out = cx.map_over(&shape, &inputs, &expr, dtype)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let (a, b, dy) = (cx.input(0), cx.input(1), cx.dy());
        Ok(vec![Some(dy * b), Some(dy * a)])
    }
}

fn product(how: Linearity, sets: &'static [&'static [usize]]) -> Case {
    Case::new(&format!("{how} {sets:?}"), move |g, x| g.apply1(Product(how, sets), x))
        .meaning("own_product", |x, ty| {
            let data = x[0].data.iter().zip(&x[1].data).map(|(a, b)| a * b).collect();
            Dense { ty: ty.clone(), data }
        })
        .exact()
        .integers("x", "p:4", F32)
        .integers("y", "p:4", F32)
        .meshes(&["a:2"])
}

/// The sum along `q` at every element of it: `q` must be whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Spread {
    /// Whether it declares that the dim must be whole.
    whole: bool,
}

impl Op for Spread {
    fn name(&self) -> &'static str {
        "own_spread"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        let rule = SplitRule::parallel();
        if self.whole {
            rule.with(["q".into()], Role::Whole("each element takes the sum along the dim"))
        } else {
            rule
        }
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape, dtype) = (cx.input(0)?, cx.output_shape(0), cx.output_dtype(0));
        let sum = cx.reduce(ReduceKind::Sum, &x, &shape.without(&["q".into()]))?;
        let out = cx.map_over(&shape, &[sum], &Expr::input(0), dtype)?;
        cx.finish(0, out)
    }
}

fn spread(whole: bool) -> Case {
    Case::new("spread", move |g, x| g.apply1(Spread { whole }, &[x[0]]))
        .meaning("own_spread", |x, ty| {
            let rows = x[0].data.chunks(6).map(|row| row.iter().sum::<f64>());
            Dense { ty: ty.clone(), data: rows.flat_map(|sum| [sum; 6]).collect() }
        })
        .exact()
        .without_gradient()
        .integers("x", "p:4;q:6", F32)
        .meshes(&["a:2", "a:3"])
}

#[test]
fn right_ops_pass() {
    for case in [
        square(Square::Right),
        sum(Sum::Right),
        product(Linearity::Multiplies, &[&[0], &[1]]),
        spread(true),
    ] {
        case.check().unwrap();
    }
}

#[test]
fn a_wrong_body_is_caught_on_one_processor() {
    caught(&square(Square::Cube), "one processor against the reference");
    caught(&sum(Sum::Forgetful), "one processor against the reference");
}

#[test]
fn a_wrong_gradient_is_caught_by_differences() {
    caught(&square(Square::HalfGradient), "gradient of x against differences");
}

#[test]
fn a_wrong_linearity_set_is_caught_where_inputs_are_pending() {
    caught(&square(Square::Linear), "x owing");
    caught(&product(Linearity::Adds, &[&[0, 1]]), "x+y owing");
}

/// Zeros of other processors are multiplied by infinity.
#[test]
fn a_product_that_says_it_moves_or_adds_is_caught_where_inputs_are_selected() {
    caught(&product(Linearity::Moves, &[&[0], &[1]]), "x selected");
    caught(&product(Linearity::Adds, &[&[0], &[1]]), "selected");
    product(Linearity::Multiplies, &[&[0], &[1]]).check().unwrap();
}

#[test]
fn a_wrong_role_is_caught_by_layouts() {
    caught(&sum(Sum::Parallel), "layout q:a");
    caught(&sum(Sum::Max), "layout q:a");
    caught(&spread(false), "layout q:a");
}

#[test]
fn a_wrong_expectation_is_caught() {
    let case = Case::new("relu", |_, x| x[0].relu() + 1.0)
        .meaning("add", |x, ty| Dense { ty: ty.clone(), data: x[0].data.clone() })
        .integers("x", "p:4", F32);
    caught(&case, "gradient of x against differences");
}

#[test]
fn an_unknown_op_is_an_error() {
    let case = Case::new("own", |g, x| g.apply1(Square::Right, &[x[0]])).integers("x", "p:4", F32);
    caught(&case, "not known");
}
