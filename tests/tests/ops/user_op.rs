//! Ops of other crates have equal rights: an elementwise one, one that communicates and an opaque
//! one, each in a few lines with `mesh_core`'s public interface. They are differentiated, split and
//! checked like any other.

use mesh_core::graph::{GradCx, Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, LocalPiece};
use mesh_core::names::DimName;
use mesh_core::program::{
    Elements, ElementsMut, Expr, Form, Offset, Scalar, UserKernel, Value, View, ViewMut,
};
use mesh_core::split::{Collective, Linearity, Role, SplitRule};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Case, Dense, Fill};
use tests::picky::Picky;

type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

/// `x³`, element by element.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cube;

impl Op for Cube {
    fn name(&self) -> &'static str {
        "cube"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let x = Expr::input(0);
        let dtype = cx.output_dtype(0);
        let out = cx.map(&cx.inputs(), &(x.clone() * x.clone() * x), dtype)?;
        cx.finish(0, out)
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let x = cx.input(0);
        Ok(vec![Some(cx.dy() * x * x * 3.0)])
    }
}

/// `y[i] = x[i - 1] + x[i] + x[i + 1]` along a dim, zeros beyond its ends. If the dim is split,
/// neighbours exchange their border elements.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Banded {
    dim: DimName,
}

impl Op for Banded {
    fn name(&self) -> &'static str {
        "banded"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        match inputs {
            [x] if x.shape.contains(self.dim) => Ok(inputs.to_vec()),
            _ => Err(OpError::new(format!("a banded sum needs one tensor with dim {}", self.dim))),
        }
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        let role = Role::Exchange(&[Collective::Permute]);
        SplitRule::parallel().with([self.dim], role).linear(Linearity::Adds, &[&[0]])
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (x, shape, dim) = (cx.input(0)?, cx.output_shape(0), self.dim);
        let dtype = cx.dtype(&x);
        let size = shape.get(dim).map_or(1, |d| d.size);
        let mut pieces = vec![];
        // The last element of the processor before, our own, the first of the processor behind.
        for (from, at, shift) in [(size - 1, 0, 1), (0, size + 1, -1)] {
            let border = cx.cut(&x, dim, Offset::fixed(from), 1)?;
            if !cx.axes(dim)?.is_empty() {
                let border = cx.permute(dim, shift, false, &border)?;
                pieces.push(LocalPiece { at: vec![(dim, at)], ..LocalPiece::whole(border) });
            }
        }
        pieces.push(LocalPiece { at: vec![(dim, 1)], ..LocalPiece::whole(x) });
        let wider = |d: Dimension| if d.name == dim { d.resized(size + 2) } else { d };
        let wider = Shape::new(shape.iter().map(wider))?;
        let wide = cx.assemble(&pieces, Scalar::new(dtype, 0.0), &wider)?;
        let terms = (0..3).map(|i| cx.cut(&wide, dim, Offset::fixed(i), size));
        let terms = terms.collect::<Result<Vec<_>, _>>()?;
        let sum = Expr::input(0) + Expr::input(1) + Expr::input(2);
        let out = cx.map(&terms, &sum, dtype)?;
        cx.finish(0, out)
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dy = cx.dy();
        Ok(vec![Some(dy.graph().apply1(Self { dim: self.dim }, &[dy]))])
    }
}

/// `x / (1 + sum of |x| over a dim)`, computed line by line by a kernel that returns the norms,
/// too.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Softsign {
    dim: DimName,
}

/// The kernel, over the last dim of its input.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SoftsignLines;

impl UserKernel for SoftsignLines {
    fn name(&self) -> &'static str {
        "softsign_lines"
    }

    fn flops(&self, inputs: &[&Value], _: &[&Value]) -> u64 {
        inputs.iter().map(|x| 2 * x.len() as u64).sum()
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        let line = inputs[0].extents.last().copied().unwrap_or(1);
        let [y, norms] = outs else { return };
        macro_rules! lines {
            ($x:ident, $y:ident, $norms:ident) => {{
                let lines = $x.chunks(line).zip($y.chunks_mut(line)).zip($norms.iter_mut());
                for ((x, y), norm) in lines {
                    *norm = x.iter().fold(1.0, |sum, x| sum + x.abs());
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = x / *norm);
                }
            }};
        }
        match (inputs[0].elements, &mut y.elements, &mut norms.elements) {
            (Elements::F32(x), ElementsMut::F32(y), ElementsMut::F32(norms)) => lines!(x, y, norms),
            (Elements::F64(x), ElementsMut::F64(y), ElementsMut::F64(norms)) => lines!(x, y, norms),
            (x, ..) => panic!("softsign of {x:?}"),
        }
    }
}

impl Op for Softsign {
    fn name(&self) -> &'static str {
        "softsign"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        match inputs {
            [x] if matches!(x.dtype, F32 | F64) && x.shape.contains(self.dim) => {
                let norms = TensorType::new(x.shape.without(&[self.dim]), x.dtype);
                Ok(vec![x.clone(), norms])
            }
            _ => Err(OpError::new("softsign needs one tensor of f32 or f64 with the dim")),
        }
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        let reason = "each element is divided by a norm of the whole line";
        SplitRule::parallel().with([self.dim], Role::Whole(reason))
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let x = cx.input(0)?;
        let lines = x.shape().without(&[self.dim]);
        let order: Vec<_> = lines.names().chain([self.dim]).collect();
        let x = cx.transpose(&x, &order)?;
        let (dtype, shape) = (cx.dtype(&x), x.shape().clone());
        let made = cx.call(SoftsignLines, &[x], &[(shape, dtype), (lines, dtype)]);
        made.into_iter().enumerate().try_for_each(|(i, value)| cx.finish(i, value))
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        // With n = 1 + sum |x|: d(y · dy + n · dn) = dx · (dy / n) + sign(x) · (dn - y · dy / n).
        let (x, y, norm) = (cx.input(0), cx.output(0), cx.output(1));
        let line = x.shape().get(self.dim).map(|d| [d]).ok_or(OpError::new("no such dim"))?;
        let direct = cx.dy_of(0).map(|dy| dy / norm);
        let through = direct.map(|direct| -(direct * y).sum(line));
        let of_norm = match (through, cx.dy_of(1)) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        let of_norm = of_norm.map(|dn| x.sign() * dn);
        Ok(vec![match (direct, of_norm) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        }])
    }
}

#[track_caller]
fn softsign(x: Tensor<'_>) -> Tensor<'_> {
    x.graph().apply(Softsign { dim: "q".into() }, &[x], 2)[0]
}

/// The elements of each line along a dim, in the order of the lines.
fn lines(x: &Dense, dim: DimName) -> Vec<Vec<usize>> {
    let at = x.ty.shape.position(dim).unwrap();
    let sizes = x.ty.shape.sizes();
    let stride: usize = sizes[at + 1..].iter().product();
    let first = (0..x.data.len()).filter(|i| (i / stride).is_multiple_of(sizes[at]));
    first.map(|i| (0..sizes[at]).map(|k| i + k * stride).collect()).collect()
}

fn softsign_means(x: &[&Dense], types: &[TensorType]) -> Vec<Dense> {
    let [mut y, mut norms] = [&types[0], &types[1]].map(|ty| Dense::zeros(ty.clone()));
    for (line, norm) in lines(x[0], "q".into()).iter().zip(&mut norms.data) {
        *norm = line.iter().fold(1.0, |sum, &i| sum + x[0].data[i].abs());
        line.iter().for_each(|&i| y.data[i] = x[0].data[i] / *norm);
    }
    vec![y, norms]
}

#[test]
fn an_elementwise_op() {
    let case = || {
        Case::new("cube", |g, x| g.apply1(Cube, x)).meaning("cube", |x, ty| Dense {
            ty: ty.clone(),
            data: x[0].data.iter().map(|x| x * x * x).collect(),
        })
    };
    case().exact().integers("x", "p:4;q:12", F32).check().unwrap();
    case().normal("x", "p:4;q:12", F64).check().unwrap();
}

#[test]
fn an_op_that_exchanges() {
    for shape in ["p:4;q:12", "q:8;p:3"] {
        let case = Case::new("banded", |g, x| g.apply1(Banded { dim: "q".into() }, x))
            .meaning("banded", |x, ty| {
                let mut out = Dense::zeros(ty.clone());
                for line in lines(x[0], "q".into()) {
                    for (i, &at) in line.iter().enumerate() {
                        let band =
                            line[i.saturating_sub(1)..].iter().take(if i == 0 { 2 } else { 3 });
                        out.data[at] = band.map(|&j| x[0].data[j]).sum();
                    }
                }
                out
            })
            .exact()
            .integers("x", shape, F32);
        let report = case.check().unwrap().to_string();
        assert!(report.contains("q exchange([Permute])"), "{report}");
    }
}

/// In one of the shapes the dim comes first, so the kernel's input is transposed.
#[test]
fn an_opaque_op() {
    for shape in ["p:4;q:12", "q:6;p:8", "p:4;q:1"] {
        let case = Case::several("softsign", |g, x| g.apply(Softsign { dim: "q".into() }, x, 2))
            .meaning_of_all("softsign", softsign_means)
            .away_from_zero("x", shape, F32);
        let report = case.check().unwrap().to_string();
        assert!(report.contains("q whole (each element is divided"), "{report}");
    }
}

#[test]
fn opaque_calls_are_steps_like_others() {
    let g = mesh_ops::graph();
    let (p, q) = (dim("p", 4), dim("q", 6));
    let x = g.input("x", [p, q], F32);
    let _unused = softsign(x * 2.0);
    let twice = softsign(x) + softsign(x);
    g.function("f", [x], [twice], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let program = &module.functions()[0];
    let calls: Vec<_> =
        program.steps().iter().filter(|step| matches!(step.form, Form::Call(_))).collect();
    assert_eq!(calls.len(), 1, "equal calls are one, unused calls none");
    let printed = module.print("f").unwrap();
    assert!(
        printed.contains("f32[2, 6], %2: f32[2] = call softsign_lines (SoftsignLines) of %0"),
        "{printed}"
    );
    let cost = mesh_core::program::cost(&program.block, calls[0], module.mesh());
    assert_eq!((cost.flops, cost.sent), (2 * 12, 0));
}

/// Opaque calls run in the iterations of a loop, with its gradient.
#[test]
fn opaque_calls_stand_in_loops() {
    let case = Case::new("softsign in rounds", |g, x| {
        let ([y], []) = g.scan(dim("steps", 3), [x[0]], [x[1]], |[h], [w]| ([softsign(h) + w], []));
        y
    })
    .meaning_of_all("softsign", softsign_means)
    .input("x", "p:4;q:6", F64, Fill::Between(1.0, 2.0))
    .input("w", "steps:3;p:4;q:6", F64, Fill::Between(1.0, 2.0));
    case.meshes(&["a:2", "a:4"]).check().unwrap();
}

#[test]
fn a_kernel_that_panics_is_an_error_with_the_users_line() {
    let g = mesh_ops::graph();
    let p = dim("p", 4);
    let x = g.input("x", [p], F32);
    let line = line!() + 1;
    let y = g.apply1(Picky, &[x]);
    let f = g.function("f", [x], [y], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"p:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let good = ndarray::arr1(&[0.0_f32, 1.0, 2.0, 3.0]);
    let [y] = session.call(&f, [good.view().into()]).unwrap();
    assert_eq!(y, good.into());
    let bad = ndarray::arr1(&[0.0_f32, 1.0, 2.0, -3.0]);
    let error = session.call(&f, [bad.view().into()]).unwrap_err().to_string();
    for part in ["processor 1", "(call, for picky", &format!("user_op.rs:{line}"), "not below 0"] {
        assert!(error.contains(part), "{error}");
    }
}
