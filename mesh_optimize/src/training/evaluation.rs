//! Metrics of a whole data set, for a trainer's evaluations.

use super::{BoxError, Metrics};
use crate::dataset::Dataset;
use mesh_core::array::{Array, ArrayRef};
use mesh_core::graph::{Graph, Tensor};
use mesh_core::session::Session;
use mesh_ops::metrics::Metric;

/// Functions of a graph that compute metrics of a data set, batch by batch: the sums of a
/// [`Metric`] are kept in variables.
///
/// ```
/// use mesh_ops::{metrics, prelude::*};
/// use mesh_optimize::dataset::{Dataset, Remainder};
/// use mesh_optimize::training::{Evaluation, Every, Trainer};
/// use mesh_optimize::{Optimizer, Sgd};
///
/// let g = mesh_ops::graph();
/// let (batch, width, classes) = (dim("batch", 4), dim("width", 2), dim("classes", 3));
/// let (x, label) = (g.input("x", [batch, width], F32), g.input("label", [batch], I32));
/// let logits = x.dense(classes, "logits");
/// let loss = logits.softmax_cross_entropy(label, classes);
/// let train = g.function("train", [x, label], [loss.mean()], Sgd::new(0.1).minimize(loss.mean()));
/// let evaluation = Evaluation::declare(
///     &g,
///     "evaluate",
///     &[x, label],
///     &[
///         ("accuracy", metrics::accuracy(logits, label, classes, None)),
///         ("loss", metrics::average(loss, None)),
///     ],
/// );
///
/// let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
/// let mut session = Session::threads(&module, 0)?;
/// let (x, label) = (ndarray::Array2::<f32>::ones((20, 2)), ndarray::Array1::<i32>::zeros(20));
/// let data = Dataset::from_arrays([("x", x.into()), ("label", label.into())])?;
/// let data = data.batch(4, Remainder::Drop)?;
/// let outcome = Trainer::new(&mut session, train.name(), data.clone())
///     .epochs(20)
///     .evaluate(Every::Epochs(10), |session, _| evaluation.run(session, &data))
///     .run()?;
/// assert_eq!(outcome.evaluation.and_then(|metrics| metrics.get("accuracy")), Some(1.0));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Evaluation {
    name: String,
    metrics: Vec<String>,
}

impl Evaluation {
    /// Declares the functions `{name}/add`, which is fed a batch, `{name}/value`, which fetches the metrics, and
    /// `{name}/reset`, with variables `{name}/{metric}/{sum}`. A tensor among metrics has a number for each of its
    /// elements: `f1[0]`, `f1[1]` and so on, in row-major order.
    #[track_caller]
    pub fn declare<'g>(
        graph: &'g Graph,
        name: &str,
        feeds: &[Tensor<'g>],
        metrics: &[(&str, Metric<'g>)],
    ) -> Self {
        let scope = graph.scope(name);
        let streams: Vec<_> =
            metrics.iter().map(|(metric, sums)| sums.streaming(graph, metric)).collect();
        drop(scope);
        let values: Vec<_> = streams.iter().map(|stream| stream.value).collect();
        let add = streams.iter().flat_map(|stream| stream.updates.clone()).collect();
        let reset = streams.iter().flat_map(|stream| stream.reset.clone()).collect();
        graph.declare_function(&format!("{name}/add"), feeds, &[], add);
        graph.declare_function(&format!("{name}/value"), &[], &values, Vec::new());
        graph.declare_function(&format!("{name}/reset"), &[], &[], reset);
        let metrics = metrics.iter().map(|(metric, _)| (*metric).to_owned()).collect();
        Self { name: name.to_owned(), metrics }
    }

    /// The metrics of all records of the first pass of `data`, whose arrays are fed by name. Nothing is left of
    /// another run.
    ///
    /// # Errors
    ///
    /// If the data set or the session fails.
    pub fn run(&self, session: &mut Session, data: &Dataset) -> Result<Metrics, BoxError> {
        let [add, value, reset] =
            ["add", "value", "reset"].map(|function| format!("{}/{function}", self.name));
        session.call_named(&reset, &[])?;
        for record in &data.addressable(session, &add)? {
            let record = record?;
            let feeds: Vec<(&str, ArrayRef<'_>)> =
                record.arrays().map(|(name, array)| (name, array.view())).collect();
            session.call_named(&add, &feeds)?;
        }
        let values = session.call_named(&value, &[])?;
        let mut metrics = Metrics::new();
        for (name, (_, array)) in self.metrics.iter().zip(&values) {
            set(&mut metrics, name, array);
        }
        Ok(metrics)
    }
}

/// Sets the elements of an array, each under a name of its own if there may be several.
fn set(metrics: &mut Metrics, name: &str, array: &Array) {
    let is_number = array.shape().is_empty();
    for (i, element) in array.to_f64().iter().enumerate() {
        let own = if is_number { name.to_owned() } else { format!("{name}[{i}]") };
        metrics.set(&own, *element);
    }
}
