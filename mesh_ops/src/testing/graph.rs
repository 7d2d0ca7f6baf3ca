//! The graph of a case: the op, its gradients, and what owes sums around it.

use super::SEED;
use super::case::Case;
use super::fill::{Fill, Random, terms};
use super::reference::{Dense, Reference, Values};
use crate::Ops;
use mesh_core::graph::{Graph, Tensor, TensorId, TensorType};
use mesh_core::lower::VariableSpec;
use mesh_core::names::{Layout, Mesh, Shape, dim};
use mesh_core::session::Session;

/// A case's graph with what to feed it.
///
/// The function `forward` returns the case's tensors y; `gradients` returns the gradients of
/// `sum(y * weights)`, of all float ones together, with respect to the float inputs. Where the op's
/// inputs *owe*, they are sums over a dim `owed` of what is fed, and so are the cotangents that
/// reach the op: split `owed`, and the op meets pending sums.
///
/// A trial of derivatives of order two has one function, `derivatives`: the gradients, with respect
/// to the float inputs and the weights, of the sum of the gradients, weighted in their turn; and so on for
/// higher orders.
#[derive(Debug)]
pub struct Trial {
    /// The graph, with its functions declared.
    pub graph: Graph,
    /// What to feed, by name.
    pub feeds: Values,
    /// The variables as they are initialised.
    pub variables: Values,
    /// What is made out of it.
    pub made: Made,
}

/// The tensors of a [`Trial`] that matter.
#[derive(Clone, PartialEq, Debug)]
pub struct Made {
    /// What `forward` returns.
    pub outputs: Vec<TensorId>,
    /// What is differentiated: the sum of what was made before, weighted; `None` if nothing is.
    pub loss: Option<TensorId>,
    /// The feeds that it is differentiated by, with the gradient if it depends on them.
    pub gradients: Vec<(String, Option<TensorId>)>,
    /// The order of its derivatives: 1 for the gradients, 0 if there are none.
    pub order: usize,
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

    /// Whether a gradient was found.
    pub(super) fn differentiates(&self) -> bool {
        self.gradients.iter().any(|(_, id)| id.is_some())
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
        Self::built(case, owe, usize::from(case.gradient), false)
    }

    /// As [`new`](Self::new), where nothing owes and one function, `all`, returns what both do: compilers that
    /// take long for each function are asked once.
    ///
    /// # Errors
    /// What the graph refuses.
    pub fn in_one(case: &Case) -> Result<Self, String> {
        Self::built(case, &[], usize::from(case.gradient), true)
    }

    /// As [`new`](Self::new), without gradients, whatever the case says.
    ///
    /// # Errors
    /// What the graph refuses.
    pub fn forward(case: &Case, owe: &[usize]) -> Result<Self, String> {
        Self::built(case, owe, 0, false)
    }

    /// The derivatives of an order of two or more; `None` if those of a lower order are constant.
    ///
    /// # Errors
    /// What the graph refuses.
    pub fn derivatives(case: &Case, order: usize) -> Result<Option<Self>, String> {
        let trial = Self::built(case, &[], if case.gradient { order } else { 0 }, false)?;
        Ok(trial.made.outputs.is_empty().then_some(trial))
    }

    fn built(case: &Case, owe: &[usize], order: usize, in_one: bool) -> Result<Self, String> {
        let graph = crate::graph();
        let (random, feeds, fed) = (Random::new(&case.name), Values::new(), Vec::new());
        let mut building =
            Building { graph: &graph, case, owes: !owe.is_empty(), in_one, random, feeds, fed };
        let made = building.build(owe, order)?;
        let feeds = building.feeds;
        graph.check().map_err(|report| report.to_string())?;
        let variables = initial(&graph)?;
        Ok(Self { graph, feeds, variables, made })
    }

    /// The evaluator, which knows the case's own ops. An op of the gradient that it does not know
    /// means what one processor computes.
    pub fn reference(&self, case: &Case) -> Reference<'_> {
        let trusted = if case.alone { 0 } else { self.made.before_gradients };
        let reference = Reference::new(&self.graph).trusting(trusted);
        case.meanings.iter().fold(reference, |r, (op, meaning)| r.with(op, meaning.clone()))
    }
}

/// The initial values of a graph's variables, which are the same under every layout.
fn initial(graph: &Graph) -> Result<Values, String> {
    if graph.variable_names().is_empty() {
        return Ok(Values::new());
    }
    let module = graph.lower(&Mesh::single(), &Layout::default());
    let module = module.map_err(|report| report.to_string())?;
    let session = Session::threads(&module, SEED).map_err(|error| error.to_string())?;
    let value = |variable: &VariableSpec| {
        let array = session.read(&variable.name).map_err(|error| error.to_string())?;
        Ok((variable.name.clone(), Dense::from_array(&array, &variable.shape)))
    };
    module.variables().iter().map(value).collect()
}

struct Building<'a, 'g> {
    graph: &'g Graph,
    case: &'a Case,
    owes: bool,
    in_one: bool,
    random: Random,
    feeds: Values,
    fed: Vec<Tensor<'g>>,
}

/// A scalar and its gradients by the tensors of these names.
struct Derived<'g> {
    loss: Tensor<'g>,
    gradients: Vec<(String, Option<Tensor<'g>>)>,
}

impl<'g> Building<'_, 'g> {
    fn build(&mut self, owe: &[usize], order: usize) -> Result<Made, String> {
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
        let names = case.inputs.iter().map(|given| given.name.clone());
        let floats = |x: &Tensor<'g>| x.dtype().is_float();
        let mut by: Vec<_> = names.zip(inputs).filter(|(_, x)| floats(x)).collect();
        let of: Vec<_> = ys.iter().copied().filter(floats).collect();
        let mut before_gradients = forward_operations;
        let mut derived = None;
        if order > 0 {
            derived = self.derived(&of, &mut by, "weights", &mut before_gradients)?;
        }
        for order in 2..=order {
            let Some(Derived { gradients, .. }) = &derived else { break };
            let of: Vec<_> = gradients.iter().filter_map(|(_, gradient)| *gradient).collect();
            let (name, mut later) = (format!("weights{order}"), 0);
            derived = self.derived(&of, &mut by, &name, &mut later)?;
        }
        self.functions(ys, derived, order, [forward_operations, before_gradients])
    }

    /// Declares the functions. If there are no derivatives of the order asked for, that is the forward
    /// function.
    fn functions(
        &self,
        ys: Vec<Tensor<'g>>,
        derived: Option<Derived<'g>>,
        order: usize,
        [forward_operations, before_gradients]: [usize; 2],
    ) -> Result<Made, String> {
        let gradients = derived.as_ref().map(|derived| &derived.gradients[..]).unwrap_or_default();
        let found: Vec<_> = gradients.iter().filter_map(|(_, gradient)| *gradient).collect();
        let higher = order > 1 && !found.is_empty();
        let ys = if higher { Vec::new() } else { ys };
        let declare = |name: &str, fetches: &[Tensor<'g>]| {
            self.graph.declare_function(name, &self.fed, fetches, Vec::new());
        };
        match (higher, self.in_one) {
            (true, _) => declare("derivatives", &found),
            (false, true) => declare("all", &[&ys[..], &found].concat()),
            (false, false) => {
                declare("forward", &ys);
                if !found.is_empty() {
                    declare("gradients", &found);
                }
            }
        }
        let id = |(name, gradient): &(String, Option<Tensor<'g>>)| {
            (name.clone(), gradient.map(Tensor::id))
        };
        Ok(Made {
            outputs: ys.into_iter().map(Tensor::id).collect(),
            loss: derived.as_ref().map(|derived| derived.loss.id()),
            gradients: gradients.iter().map(id).collect(),
            order: if higher { order } else { usize::from(!found.is_empty()) },
            forward_operations,
            before_gradients,
        })
    }

    fn feed(&mut self, name: &str, value: Dense) -> Tensor<'g> {
        let x = self.graph.input(name, &value.ty.shape, value.ty.dtype);
        self.feeds.insert(name.to_owned(), value);
        self.fed.push(x);
        x
    }

    /// The gradients of the sum of tensors, weighted, by others, which the weights then join; `None` if
    /// there is nothing to differentiate. `before` is the number of operations before there is a gradient.
    fn derived(
        &mut self,
        of: &[Tensor<'g>],
        by: &mut Vec<(String, Tensor<'g>)>,
        weights: &str,
        before: &mut usize,
    ) -> Result<Option<Derived<'g>>, String> {
        if of.is_empty() || by.is_empty() {
            return Ok(None);
        }
        let name = |i| if i == 0 { weights.to_owned() } else { format!("{weights}_{i}") };
        let named = of.iter().enumerate().map(|(i, &y)| Ok((name(i), self.weights(&name(i), y)?)));
        let named = named.collect::<Result<Vec<_>, String>>()?;
        let cotangents: Vec<_> = named.iter().map(|(_, weights)| *weights).collect();
        let losses = of.iter().zip(&cotangents).map(|(&y, &weights)| (y * weights).sum_all());
        let Some(loss) = losses.reduce(|sum, loss| sum + loss) else { return Ok(None) };
        *before = self.graph.operations().len();
        let xs: Vec<_> = by.iter().map(|(_, x)| *x).collect();
        let gradients = self.graph.gradients(of, &xs, Some(&cotangents));
        let gradients = by.iter().map(|(name, _)| name.clone()).zip(gradients).collect();
        by.extend(named);
        Ok(Some(Derived { loss, gradients }))
    }

    /// What a tensor is multiplied with; if that owes, the op's gradient meets a pending sum.
    fn weights(&mut self, name: &str, y: Tensor<'g>) -> Result<Tensor<'g>, String> {
        let fill = if self.case.exact { Fill::Integers(-2, 2) } else { Fill::Normal };
        let weights = fill.draw(&y.tensor_type(), &mut self.random)?;
        if !self.owes {
            return Ok(self.feed(name, weights));
        }
        let terms = terms(&weights, &owing(&weights.ty)?, &mut self.random)?;
        Ok(self.feed(name, terms).sum([dim(OWED, 4)]))
    }
}
