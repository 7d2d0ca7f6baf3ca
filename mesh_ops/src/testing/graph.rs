//! The graph of a case: the op, its gradients, and what owes sums around it.

use super::case::Case;
use super::fill::{Fill, Random, terms};
use super::reference::{Dense, Reference, Values};
use crate::Ops;
use mesh_core::graph::{Graph, Tensor, TensorId, TensorType};
use mesh_core::names::{Shape, dim};

/// A case's graph with what to feed it.
///
/// The function `forward` returns the case's tensors y; `gradients` returns the gradients of
/// `sum(y * weights)`, of all float ones together, with respect to the float inputs. Where the op's inputs *owe*, they are sums
/// over a dim `owed` of what is fed, and so are the cotangents that reach the op: split `owed`, and
/// the op meets pending sums.
#[derive(Debug)]
pub struct Trial {
    /// The graph, with its functions declared.
    pub graph: Graph,
    /// What to feed, by name.
    pub feeds: Values,
    /// What is made out of it.
    pub made: Made,
}

/// The tensors of a [`Trial`] that matter.
#[derive(Clone, PartialEq, Debug)]
pub struct Made {
    /// What `forward` returns.
    pub outputs: Vec<TensorId>,
    /// `sum(y * weights)` of the float outputs, if it has gradients.
    pub loss: Option<TensorId>,
    /// The differentiated inputs: number among the case's inputs, and the gradient if any.
    pub gradients: Vec<(usize, Option<TensorId>)>,
    /// How many operations the graph had before anything was derived from its outputs.
    pub forward_operations: usize,
}

/// The dim over which inputs and cotangents owe sums.
pub(super) const OWED: &str = "owed";

fn owing(ty: &TensorType) -> Result<TensorType, String> {
    let dims = std::iter::once(dim(OWED, 4)).chain(ty.shape.iter());
    Ok(TensorType::new(Shape::new(dims).map_err(|error| error.to_string())?, ty.dtype))
}

impl Trial {
    /// Builds the graph of a case; the inputs listed in `owe` owe sums.
    pub fn new(case: &Case, owe: &[usize]) -> Result<Self, String> {
        let graph = crate::graph();
        let (random, feeds, fed) = (Random::new(&case.name), Values::new(), Vec::new());
        let mut building = Building { graph: &graph, case, random, feeds, fed };
        let made = building.build(owe)?;
        let feeds = building.feeds;
        graph.check().map_err(|report| report.to_string())?;
        Ok(Self { graph, feeds, made })
    }

    /// The evaluator, which knows the case's own ops.
    pub fn reference(&self, case: &Case) -> Reference<'_> {
        let reference = Reference::new(&self.graph);
        case.meanings.iter().fold(reference, |r, (op, meaning)| r.with(op, meaning.clone()))
    }
}

struct Building<'a, 'g> {
    graph: &'g Graph,
    case: &'a Case,
    random: Random,
    feeds: Values,
    fed: Vec<Tensor<'g>>,
}

impl<'g> Building<'_, 'g> {
    fn build(&mut self, owe: &[usize]) -> Result<Made, String> {
        let case = self.case;
        let mut inputs = Vec::new();
        for (i, given) in case.inputs.iter().enumerate() {
            let shape: Shape = given.shape.parse().map_err(|error| format!("{error}"))?;
            let ty = TensorType::new(shape, given.dtype);
            let value = given.fill.draw(&ty, &mut self.random)?;
            inputs.push(if owe.contains(&i) {
                let terms = terms(&value, &owing(&ty)?, &mut self.random)?;
                self.feed(&given.name, terms).sum([dim(OWED, 4)])
            } else {
                self.feed(&given.name, value)
            });
        }
        let ys = (case.build)(self.graph, &inputs);
        self.graph.check().map_err(|report| report.to_string())?;
        let forward_operations = self.graph.operations().len();
        let (loss, gradients) = self.differentiate(&inputs, &ys, !owe.is_empty())?;
        self.graph.declare_function("forward", &self.fed, &ys, Vec::new());
        let found: Vec<_> = gradients.iter().filter_map(|(_, gradient)| *gradient).collect();
        if !found.is_empty() {
            self.graph.declare_function("gradients", &self.fed, &found, Vec::new());
        }
        let gradients = gradients.into_iter().map(|(i, g)| (i, g.map(Tensor::id))).collect();
        let outputs = ys.into_iter().map(Tensor::id).collect();
        Ok(Made { outputs, loss, gradients, forward_operations })
    }

    fn feed(&mut self, name: &str, value: Dense) -> Tensor<'g> {
        let x = self.graph.input(name, &value.ty.shape, value.ty.dtype);
        self.feeds.insert(name.to_owned(), value);
        self.fed.push(x);
        x
    }

    #[expect(clippy::type_complexity, reason = "two results of one step, used once")]
    fn differentiate(
        &mut self,
        inputs: &[Tensor<'g>],
        ys: &[Tensor<'g>],
        owe: bool,
    ) -> Result<(Option<TensorId>, Vec<(usize, Option<Tensor<'g>>)>), String> {
        let floats: Vec<_> = (0..inputs.len()).filter(|&i| inputs[i].dtype().is_float()).collect();
        if !self.case.gradient || floats.is_empty() {
            return Ok((None, Vec::new()));
        }
        let mut loss: Option<Tensor<'g>> = None;
        for (i, &y) in ys.iter().enumerate().filter(|(_, y)| y.dtype().is_float()) {
            let name = if i == 0 { "weights".to_owned() } else { format!("weights_{i}") };
            let weights = self.weights(&name, y, owe)?;
            let term = (y * weights).sum_all();
            loss = Some(loss.map_or(term, |loss| loss + term));
        }
        let Some(loss) = loss else { return Ok((None, Vec::new())) };
        let xs: Vec<_> = floats.iter().map(|&i| inputs[i]).collect();
        let gradients = self.graph.gradients(&[loss], &xs, None);
        Ok((Some(loss.id()), floats.into_iter().zip(gradients).collect()))
    }

    /// What an output is multiplied with; if it owes, a sum is owed to the op's gradient.
    fn weights(&mut self, name: &str, y: Tensor<'g>, owe: bool) -> Result<Tensor<'g>, String> {
        let fill = if self.case.exact { Fill::Integers(-2, 2) } else { Fill::Normal };
        let ty = if owe { owing(&y.tensor_type())? } else { y.tensor_type() };
        let weights = fill.draw(&ty, &mut self.random)?;
        Ok(self.feed(name, weights))
    }
}
