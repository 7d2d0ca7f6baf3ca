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
/// `sum(y * weights)`, of all float ones together, with respect to the float inputs. Where the op's
/// inputs *owe*, they are sums over a dim `owed` of what is fed, and so are the cotangents that
/// reach the op: split `owed`, and the op meets pending sums.
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
    /// How many it had before it was differentiated.
    pub before_gradients: usize,
}

impl Made {
    /// All that the functions return, in order.
    pub(super) fn wanted(&self) -> Vec<TensorId> {
        let found = self.gradients.iter().filter_map(|(_, id)| *id);
        self.outputs.iter().copied().chain(found).collect()
    }
}

/// The dim over which inputs and cotangents owe sums.
pub(super) const OWED: &str = "owed";

fn owing(ty: &TensorType) -> Result<TensorType, String> {
    let dims = std::iter::once(dim(OWED, 4)).chain(ty.shape.iter());
    Ok(TensorType::new(Shape::new(dims).map_err(|error| error.to_string())?, ty.dtype))
}

impl Trial {
    /// Builds the graph of a case; the inputs listed in `owe` owe sums.
    ///
    /// # Errors
    /// What the graph refuses.
    pub fn new(case: &Case, owe: &[usize]) -> Result<Self, String> {
        Self::built(case, owe, case.gradient)
    }

    /// As [`new`](Self::new), without gradients, whatever the case says.
    ///
    /// # Errors
    /// What the graph refuses.
    pub fn forward(case: &Case, owe: &[usize]) -> Result<Self, String> {
        Self::built(case, owe, false)
    }

    fn built(case: &Case, owe: &[usize], gradient: bool) -> Result<Self, String> {
        let graph = crate::graph();
        let (random, feeds, fed) = (Random::new(&case.name), Values::new(), Vec::new());
        let mut building = Building { graph: &graph, case, gradient, random, feeds, fed };
        let made = building.build(owe)?;
        let feeds = building.feeds;
        graph.check().map_err(|report| report.to_string())?;
        Ok(Self { graph, feeds, made })
    }

    /// The evaluator, which knows the case's own ops. An op of the gradient that it does not know
    /// means what one processor computes.
    pub fn reference(&self, case: &Case) -> Reference<'_> {
        let trusted = if case.alone { 0 } else { self.made.before_gradients };
        let reference = Reference::new(&self.graph).trusting(trusted);
        case.meanings.iter().fold(reference, |r, (op, meaning)| r.with(op, meaning.clone()))
    }
}

struct Building<'a, 'g> {
    graph: &'g Graph,
    case: &'a Case,
    gradient: bool,
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
        let cotangents = self.cotangents(&inputs, &ys, !owe.is_empty())?;
        let losses = cotangents.iter().map(|&(y, weights)| (y * weights).sum_all());
        let loss = losses.reduce(|sum, loss| sum + loss);
        let before_gradients = self.graph.operations().len();
        let gradients = self.gradients(&inputs, &cotangents);
        self.graph.declare_function("forward", &self.fed, &ys, Vec::new());
        let found: Vec<_> = gradients.iter().filter_map(|(_, gradient)| *gradient).collect();
        if !found.is_empty() {
            self.graph.declare_function("gradients", &self.fed, &found, Vec::new());
        }
        let gradients = gradients.into_iter().map(|(i, g)| (i, g.map(Tensor::id))).collect();
        let outputs = ys.into_iter().map(Tensor::id).collect();
        let loss = loss.map(Tensor::id);
        Ok(Made { outputs, loss, gradients, forward_operations, before_gradients })
    }

    fn feed(&mut self, name: &str, value: Dense) -> Tensor<'g> {
        let x = self.graph.input(name, &value.ty.shape, value.ty.dtype);
        self.feeds.insert(name.to_owned(), value);
        self.fed.push(x);
        x
    }

    /// The float outputs with what each is multiplied with, if there is anything to differentiate.
    fn cotangents(
        &mut self,
        inputs: &[Tensor<'g>],
        ys: &[Tensor<'g>],
        owe: bool,
    ) -> Result<Vec<(Tensor<'g>, Tensor<'g>)>, String> {
        if !self.gradient || !inputs.iter().any(|x| x.dtype().is_float()) {
            return Ok(Vec::new());
        }
        let floats = ys.iter().enumerate().filter(|(_, y)| y.dtype().is_float());
        let weighted = floats.map(|(i, &y)| {
            let name = if i == 0 { "weights".to_owned() } else { format!("weights_{i}") };
            Ok((y, self.weights(&name, y, owe)?))
        });
        weighted.collect()
    }

    /// The float inputs by number, with their gradients.
    fn gradients(
        &self,
        inputs: &[Tensor<'g>],
        cotangents: &[(Tensor<'g>, Tensor<'g>)],
    ) -> Vec<(usize, Option<Tensor<'g>>)> {
        if cotangents.is_empty() {
            return Vec::new();
        }
        let floats: Vec<_> = (0..inputs.len()).filter(|&i| inputs[i].dtype().is_float()).collect();
        let xs: Vec<_> = floats.iter().map(|&i| inputs[i]).collect();
        let (ys, weights): (Vec<_>, Vec<_>) = cotangents.iter().copied().unzip();
        let gradients = self.graph.gradients(&ys, &xs, Some(&weights));
        floats.into_iter().zip(gradients).collect()
    }

    /// What an output is multiplied with; if that owes, the op's gradient meets a pending sum.
    fn weights(&mut self, name: &str, y: Tensor<'g>, owe: bool) -> Result<Tensor<'g>, String> {
        let fill = if self.case.exact { Fill::Integers(-2, 2) } else { Fill::Normal };
        let ty = if owe { owing(&y.tensor_type())? } else { y.tensor_type() };
        let weights = fill.draw(&ty, &mut self.random)?;
        let fed = self.feed(name, weights);
        Ok(if owe { fed.sum([dim(OWED, 4)]) } else { fed })
    }
}
