//! What core's own ops do.

use super::data::{CustomGradient, GradCx, Structural, Tensor};
use super::error::OpError;
use super::nodes::{UpdateKind, VariableUpdate};
use super::op::Op;
use super::types::{Signature, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
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
            Self::Update(update) => update.kind.name(),
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
            Self::Update(update) => update.check(inputs).map(|()| Vec::new()),
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
            Self::Update(update) => update.local(cx),
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

impl UpdateKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Assign => "assign",
            Self::Add => "assign_add",
            Self::Sub => "assign_sub",
        }
    }
}

impl VariableUpdate {
    fn check(&self, inputs: &[TensorType]) -> Result<(), OpError> {
        let [value] = inputs else {
            return Err(OpError::arity(self.kind.name(), 1, inputs.len()));
        };
        if value.shape.is_permutation_of(&self.ty.shape) && value.dtype == self.ty.dtype {
            return Ok(());
        }
        let Self { name, ty, .. } = self;
        Err(OpError::new(format!("variable {name} is {ty}; {value} does not fit")))
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let value = cx.input(0)?;
        let value = cx.transpose(&value, &self.ty.shape.names().collect::<Vec<_>>())?;
        let (old, new) = (Expr::input(0), Expr::input(1));
        let expr = match self.kind {
            UpdateKind::Assign => {
                cx.write(self.variable, &value);
                return Ok(());
            }
            UpdateKind::Add => old + new,
            UpdateKind::Sub => old - new,
        };
        let before = cx.variable(self.variable, &value);
        let after = cx.map(&[before, value], &expr, self.ty.dtype)?;
        cx.write(self.variable, &after);
        Ok(())
    }
}
