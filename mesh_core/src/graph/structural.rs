//! What core's own ops do.

use super::data::{CustomGradient, GradCx, Structural, Tensor};
use super::error::OpError;
use super::nodes::{Change, Updated};
use super::op::Op;
use super::types::{Signature, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::names::DimName;
use crate::program::{Expr, Generator, Scalar};
use crate::split::{Linearity, SplitRule};

type Grads<'g> = Result<Vec<Option<Tensor<'g>>>, OpError>;

impl Op for Structural {
    fn name(&self) -> &'static str {
        match self {
            Self::Input { .. } => "input",
            Self::Fill(_) => "fill",
            Self::Constant { .. } => "constant",
            Self::Read { .. } => "read",
            Self::Changed(Change::Add, _) => "assign_add",
            Self::Changed(Change::Sub, _) => "assign_sub",
            Self::Update(_) => "assign",
            Self::Relayout => "relayout",
            Self::StopGradient => "stop_gradient",
            Self::Barrier => "barrier",
            Self::Probe { .. } => "probe",
            Self::Custom { .. } => "custom_gradient",
            Self::Recompute { .. } => "recompute",
            Self::Reversible(_) => "reversible",
            Self::Loop(_) => "loop",
            Self::Param { .. } => "param",
        }
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        match self {
            Self::Input { ty, .. } | Self::Read { ty, .. } | Self::Param { ty } => {
                Ok(vec![ty.clone()])
            }
            Self::Fill(fill) => {
                Scalar::checked(fill.ty.dtype, fill.given())?;
                Ok(vec![fill.ty.clone()])
            }
            Self::Constant { data, shape } => {
                Ok(vec![TensorType::new(shape.clone(), data.0.dtype())])
            }
            Self::Changed(_, updated) => match inputs {
                [_, change] => updated.check(change).map(|()| vec![updated.ty.clone()]),
                _ => Err(OpError::arity(self.name(), 2, inputs.len())),
            },
            Self::Update(updated) => match inputs {
                [value] => updated.check(value).map(|()| Vec::new()),
                _ => Err(OpError::arity(self.name(), 1, inputs.len())),
            },
            Self::Relayout | Self::StopGradient | Self::Barrier | Self::Probe { .. } => {
                Ok(inputs.to_vec())
            }
            Self::Custom { results, .. } | Self::Recompute { results, .. } => {
                Ok(inputs[..*results].to_vec())
            }
            Self::Reversible(_) => Ok(inputs[..PAIR].to_vec()),
            Self::Loop(run) => Ok(run.outputs.clone()),
        }
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        match self {
            Self::Relayout | Self::StopGradient | Self::Probe { .. } => {
                SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
            }
            _ => SplitRule::parallel(),
        }
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        match self {
            Self::Input { name, .. } => cx.feed(name),
            Self::Fill(fill) => cx.generate(Generator::Fill(fill.value())),
            Self::Constant { data, .. } => cx.generate(Generator::Table(data.0.clone())),
            Self::Read { variable, .. } => cx.read(*variable),
            Self::Changed(change, updated) => updated.changed(*change, cx),
            Self::Update(updated) => updated.write(cx),
            Self::StopGradient => cx.forward(0),
            Self::Barrier => {
                let outs = cx.barrier(&cx.inputs());
                outs.into_iter().enumerate().try_for_each(|(i, out)| cx.finish(i, out))
            }
            // Their outputs are inputs, wherever those lie.
            Self::Relayout
            | Self::Probe { .. }
            | Self::Custom { .. }
            | Self::Recompute { .. }
            | Self::Reversible(_) => Ok(()),
            Self::Loop(_) | Self::Param { .. } => {
                Err(OpError::new("internal error: a loop is emitted with its region"))
            }
        }
    }

    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        match self {
            Self::Relayout => {
                let back = cx.input(0).key();
                Ok(vec![Some(back.map_or(cx.dy(), |key| cx.dy().relayout(key)))])
            }
            Self::StopGradient => Ok(vec![None]),
            Self::Barrier | Self::Probe { .. } => {
                Ok((0..cx.arity()).map(|i| cx.dy_of(i)).collect())
            }
            Self::Custom { results, gradient } => {
                let arguments = cx.behind(*results);
                Ok(none_before(*results, custom(&*gradient.0, &arguments)?))
            }
            Self::Recompute { results, computation } => {
                let graph = cx.input(0).graph();
                let made: Vec<_> = (0..*results).map(|i| cx.input(i).id()).collect();
                let grads = graph.repeat(computation, &made, &cx.behind(*results))?;
                Ok(none_before(*results, grads))
            }
            Self::Reversible(halves) => {
                let graph = cx.input(0).graph();
                Ok(none_before(PAIR, graph.reverse(halves, &cx.behind(PAIR))?))
            }
            Self::Loop(run) if run.conditional => Err(OpError::new(
                "a while loop has no gradient, as nobody knows its number of iterations; \
                 use scan, or stop_gradient what it returns",
            )),
            Self::Loop(run) => cx.output(0).graph().undo(run, cx),
            Self::Input { .. }
            | Self::Fill(_)
            | Self::Constant { .. }
            | Self::Read { .. }
            | Self::Changed(..)
            | Self::Update(_)
            | Self::Param { .. } => Ok(Vec::new()),
        }
    }

    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        match self {
            Self::Relayout | Self::Probe { .. } => cx.alias(),
            Self::Custom { results, .. } | Self::Recompute { results, .. } => cx.aliases(*results),
            Self::Reversible(_) => cx.aliases(PAIR),
            Self::Barrier => {
                let here = cx.all_available();
                Placing::new(here.clone(), here)
            }
            Self::Changed(_, updated) => {
                let (placing, change) = (cx.by_rule(&self.split(cx.signature())), cx.available(1));
                if !change.refines(&cx.wanted(&updated.ty.shape)) {
                    return placing;
                }
                Placing::new(vec![change.clone(); 2], vec![change.clone()])
            }
            _ => cx.by_rule(&self.split(cx.signature())),
        }
    }
}

/// What a reversible block is given, and gives.
const PAIR: usize = 2;

/// Cotangents of all inputs, of which the first have none.
fn none_before<'g>(first: usize, grads: Vec<Option<Tensor<'g>>>) -> Vec<Option<Tensor<'g>>> {
    std::iter::repeat_n(None, first).chain(grads).collect()
}

fn custom<'g>(gradient: &CustomGradient, cx: &GradCx<'g>) -> Grads<'g> {
    let grads = gradient(cx);
    if grads.len() != cx.arity() {
        return Err(OpError::new(format!(
            "its gradient function returns {} cotangents for {} inputs",
            grads.len(),
            cx.arity()
        )));
    }
    Ok(grads)
}

impl Updated {
    fn check(&self, value: &TensorType) -> Result<(), OpError> {
        if value.shape.is_permutation_of(&self.ty.shape) && value.dtype == self.ty.dtype {
            return Ok(());
        }
        let Self { name, ty, .. } = self;
        Err(OpError::new(format!("variable {name} is {ty}; {value} does not fit")))
    }

    fn dims(&self) -> Vec<DimName> {
        self.ty.shape.names().collect()
    }

    fn changed(&self, change: Change, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let (before, by) = (cx.input(0)?, cx.input(1)?);
        let by = cx.transpose(&by, &self.dims())?;
        let (old, new) = (Expr::input(0), Expr::input(1));
        let expr = match change {
            Change::Add => old + new,
            Change::Sub => old - new,
        };
        let after = cx.map(&[before, by], &expr, self.ty.dtype)?;
        cx.finish(0, after)
    }

    fn write(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let value = cx.input(0)?;
        let value = cx.transpose(&value, &self.dims())?;
        cx.write(self.variable, &value);
        Ok(())
    }
}
