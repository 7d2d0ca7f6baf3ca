//! Each operation of a case in a graph of its own, so that no other operation's rule decides where
//! it is tried.

use super::case::{Case, Given};
use super::graph::Trial;
use super::reference::{Dense, Met};
use super::report::Count;
use super::{Fill, Values};
use mesh_core::graph::{DynOp, Kind, Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, PlaceCx, Placing};
use mesh_core::names::{Layout, Mesh};
use mesh_core::split::SplitRule;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// An op taken out of another graph.
#[derive(Clone, Eq, Debug)]
struct Alone(Arc<dyn DynOp>);

// Derived, it would move the op out of what it compares.
impl PartialEq for Alone {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Hash for Alone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Op for Alone {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        self.0.outputs(inputs)
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        self.0.split(io)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        self.0.local(cx)
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        self.0.place(cx)
    }
}

/// The op itself, if it was taken out of another graph.
pub(super) fn inner(op: &dyn DynOp) -> &dyn DynOp {
    op.as_any().downcast_ref::<Alone>().map_or(op, |alone| &*alone.0)
}

/// What layouts an operation allows and whether its results are right follow from this, whatever case it
/// is taken out of.
#[derive(Clone, PartialEq)]
struct Key {
    op: Alone,
    types: Vec<TensorType>,
    exact: bool,
    meshes: Option<Vec<String>>,
}

type Found = Result<Vec<Count>, String>;

/// What the checks of this process have found.
static FOUND: Mutex<Vec<(Key, Found)>> = Mutex::new(Vec::new());

/// A case of one operation out of another case.
pub(super) struct Single {
    pub(super) case: Case,
    key: Key,
}

impl Single {
    /// What a check finds: this one, or one of an equal operation before it.
    pub(super) fn once(&self, check: impl FnOnce(&Case) -> Found) -> Found {
        let all = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = all().iter().find(|(key, _)| *key == self.key) {
            return found.clone();
        }
        let found = check(&self.case);
        all().push((self.key.clone(), found.clone()));
        found
    }
}

/// A case of its own for each operation that was evaluated in a trial of `case`, fed what it was
/// given there. The first of equal operations on equal types stands for all.
pub(super) fn cases(case: &Case, trial: &Trial, met: &[Met]) -> Vec<Single> {
    let made = &trial.made;
    let forward = trial.graph.operations().into_iter().take(made.forward_operations);
    let computing = forward.filter(|operation| !matches!(operation.kind, Kind::Input(_)));
    // A forward function of one operation is that operation alone.
    let skipped = if computing.count() > 1 { 0 } else { made.forward_operations };
    let mut cases: Vec<Single> = Vec::new();
    for met in met {
        // Between the two functions stands the loss.
        let of_loss = (made.forward_operations..made.before_gradients).contains(&met.number);
        if met.number >= skipped && !of_loss {
            let single = alone(case, met);
            let is_known =
                |of: &Single| (&of.key.op, &of.key.types) == (&single.key.op, &single.key.types);
            if !cases.iter().any(is_known) {
                cases.push(single);
            }
        }
    }
    cases
}

fn alone(case: &Case, met: &Met) -> Single {
    let (op, outputs) = (Alone(met.operation.op.clone()), met.outputs.len());
    let types: Vec<_> = met.inputs.iter().map(|x| x.ty.clone()).collect();
    let mut values = met.inputs.iter().chain(&met.outputs).flat_map(|x| &x.data);
    let whole = values.all(|x| !x.is_finite() || x.fract() == 0.0);
    let (exact, meshes) = (case.exact && whole, case.meshes.clone());
    let given = |(i, x): (usize, &Dense)| Given {
        name: format!("x{i}"),
        shape: x.ty.shape.to_string(),
        dtype: x.ty.dtype,
        fill: Fill::Values(x.data.clone()),
    };
    let said: Vec<_> = types.iter().map(TensorType::to_string).collect();
    let name = format!("{}({})", Op::name(&op), said.join(", "));
    let key = Key { op: op.clone(), types, exact, meshes: meshes.clone() };
    let case = Case {
        inputs: met.inputs.iter().enumerate().map(given).collect(),
        exact,
        meshes,
        meanings: case.meanings.clone(),
        alone: true,
        ..Case::several(&name, move |g, x| g.apply(op.clone(), x, outputs))
    };
    Single { case: case.without_gradient(), key }
}

/// What one processor makes of an op's inputs, rounded to their dtypes.
pub(super) fn computed(
    op: &Arc<dyn DynOp>,
    inputs: &[&Dense],
    types: &[TensorType],
) -> Result<Vec<Dense>, String> {
    let graph = crate::graph();
    let name = |i: usize| format!("x{i}");
    let fed = |(i, x): (usize, &&Dense)| graph.input(&name(i), &x.ty.shape, x.ty.dtype);
    let fed: Vec<_> = inputs.iter().enumerate().map(fed).collect();
    let outputs = graph.apply(Alone(op.clone()), &fed, types.len());
    graph.declare_function("forward", &fed, &outputs, Vec::new());
    let module = graph.lower(&Mesh::single(), &Layout::default());
    let module = module.map_err(|report| report.to_string())?;
    let feeds = inputs.iter().enumerate().map(|(i, &x)| (name(i), x.clone()));
    let results = super::known::run(&module, &feeds.collect::<Values>())?;
    Ok(results.iter().zip(types).map(|(y, ty)| Dense::from_array(y, &ty.shape)).collect())
}
