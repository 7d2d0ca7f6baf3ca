//! Calls whose gradients are not finite are left out, as by `optax.apply_if_finite`.

use super::{counter, keeper, only_if};
use crate::clip::{Pair, full_precision};
use crate::options::{About, COUNT_FROM_0, Setting, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::add_n;
use mesh_ops::elementwise::{abs, cast, greater, less_equal, logical_or, select};
use mesh_ops::reduce::sum;

const IN_A_ROW: &str = "not_finite_in_a_row";
const IN_ALL: &str = "not_finite_in_all";
const APPLIED: &str = "not_skipped";

/// Another optimizer, which is applied only if every element of every gradient of the call is finite.
///
/// In a call that is skipped, variables and slots stay as they are, and schedules of the inner optimizer do
/// not advance. If more than `most` calls in a row would be skipped, they are applied all the same, so that
/// a run that has broken down shows it. The slots `not_finite_in_a_row` and `not_finite_in_all` of the first
/// variable count such calls.
///
/// A [`Trainer`](crate::training::Trainer) ends a run whose loss is not finite, unless
/// [`Trainer::not_finite_losses`](crate::training::Trainer::not_finite_losses) allows it.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{AdamW, Optimizer, SkipNotFinite};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let optimizer = SkipNotFinite::new(AdamW::new(1e-3), 10);
/// g.function("train", [input], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SkipNotFinite<O = Box<dyn Optimizer>> {
    /// The optimizer that is applied.
    pub inner: O,
    /// How many calls in a row are skipped at most.
    pub most: u64,
}

impl<O> SkipNotFinite<O> {
    /// At most `most` calls in a row are skipped. (optax has no default.)
    pub fn new(inner: O, most: u64) -> Self {
        Self { inner, most }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> SkipNotFinite<P> {
        SkipNotFinite { inner, most: self.most }
    }
}

/// Whether every element of all gradients is finite; nothing if there are none. The bad ones of all variables are counted together, so
/// they are reduced once, whatever the variables are split over.
#[track_caller]
fn all_finite<'g>(grads: &[Pair<'g>]) -> Option<Tensor<'g>> {
    let bad = |grad: Tensor<'g>| {
        let largest = if grad.dtype() == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
        let finite = less_equal(abs(grad), grad.scalar_like(largest));
        cast(
            sum(select(finite, grad.scalar_like(0.0), grad.scalar_like(1.0)), grad.shape()),
            DType::F32,
        )
    };
    let counts: Vec<_> = grads.iter().filter_map(|(grad, _)| grad.map(bad)).collect();
    let (first, others) = counts.split_first()?;
    Some(less_equal(add_n(*first, others), 0.0))
}

impl<O: Optimizer> Optimizer for SkipNotFinite<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.apply_grads(&[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names().into_iter().chain([IN_A_ROW, IN_ALL, APPLIED]).collect()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let Some(first) = keeper(grads) else { return self.inner.apply_grads(grads) };
        let graph = first.graph();
        if !check_wrapper(&self.with(()), graph) {
            return Vec::new();
        }
        let number = |x: f64| graph.scalar(x, DType::I32);
        graph.on_behalf("skip if not finite", || {
            let grads = full_precision(grads);
            let [in_a_row, in_all, applied] =
                [IN_A_ROW, IN_ALL, APPLIED].map(|name| counter(first, name));
            let Some(finite) = all_finite(&grads) else { return self.inner.apply_grads(&grads) };
            let row = select(finite, number(0.0), in_a_row.stored() + 1.0);
            let most = number(self.most as f64);
            let taken = logical_or(finite, greater(row, most));
            let inner = {
                let _step = graph.stepped(applied.stored());
                self.inner.apply_grads(&grads)
            };
            let mut updates = only_if(taken, inner);
            let one_if = |condition, yes: f64| select(condition, number(yes), number(1.0 - yes));
            updates.extend([
                in_a_row.assign(row),
                in_all.assign_add(one_if(finite, 0.0)),
                applied.assign_add(one_if(taken, 1.0)),
            ]);
            updates
        })
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        self.inner.compute_gradients(loss)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.inner.evaluation_value(variable)
    }
}

impl Wrapper for SkipNotFinite<()> {
    const ABOUT: About = About {
        name: "skip_not_finite",
        rate: 1.0,
        formula: "nothing in calls whose gradients are not all finite, but not more than `most` in a row",
        paper: "Micikevicius et al. 2018, section 3.2",
        peers: "optax has no default.",
    };

    fn defaults() -> Self {
        Self::new((), 5)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"most": most in COUNT_FROM_0}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.with(inner))
    }
}
