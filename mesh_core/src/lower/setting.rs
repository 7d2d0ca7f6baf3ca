//! What placing needs to know besides the graph.

use super::memo::{Key as Number, Memo, NumberedHome, Ruled};
use super::placed::Placed;
use crate::graph::{Data, Key, Operation, OperationId, TensorId};
use crate::names::{Home, Mesh, Placement, RuleSet, Rules};
use crate::program::VariableId;
use std::rc::Rc;

/// A graph, a mesh and a layout's rules, with what placing has found for them so far.
pub(crate) struct Setting<'a> {
    pub(crate) data: &'a Data,
    pub(crate) mesh: &'a Mesh,
    pub(crate) rules: &'a Rules,
    /// What `*` means for each variable, under `params/` and under `slots/`.
    homes: Vec<[NumberedHome; 2]>,
    pub(crate) memo: Rc<Memo>,
    ruled: Ruled,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(data: &'a Data, mesh: &'a Mesh, rules: &'a Rules) -> Self {
        Self::with(data, mesh, rules, Rc::default())
    }

    /// One of many with the same graph and mesh.
    pub(crate) fn with(data: &'a Data, mesh: &'a Mesh, rules: &'a Rules, memo: Rc<Memo>) -> Self {
        let mut ordinal = 0;
        let mut homes = Vec::new();
        for variable in &data.variables {
            let home = |set| {
                let home = match variable.trainable {
                    true => rules.home(mesh, set, &variable.ty.shape, ordinal),
                    false => Home::default(),
                };
                NumberedHome { number: memo.home(&home), home }
            };
            homes.push([home(RuleSet::Params), home(RuleSet::Slots)]);
            ordinal += usize::from(variable.trainable);
        }
        Self { data, mesh, rules, homes, memo, ruled: Ruled::default() }
    }

    /// What the placement of a loop depends on, but for where its inputs lie.
    pub(super) fn of_loop(&self, id: OperationId) -> Number {
        self.ruled.of_loop(&self.memo, self.rules, &self.homes, id)
    }

    pub(super) fn home(&self, key: Key) -> &Home {
        static NOWHERE: std::sync::LazyLock<Home> = std::sync::LazyLock::new(Home::default);
        self.numbered(key).map_or(&NOWHERE, |numbered| &numbered.home)
    }

    fn numbered(&self, key: Key) -> Option<&NumberedHome> {
        match (key.set, key.variable) {
            (RuleSet::Params, Some(v)) => Some(&self.homes[v.index()][0]),
            (RuleSet::Slots, Some(v)) => Some(&self.homes[v.index()][1]),
            _ => None,
        }
    }

    /// Where the layout wants a tensor.
    pub(crate) fn wanted(&self, tensor: TensorId) -> Placement {
        let node = &self.data.tensors[tensor.index()];
        let key = node.key.unwrap_or(Key::COMPUTE);
        self.rules.placement(key.set, self.home(key), &node.ty.shape)
    }

    /// Where a variable lies at rest.
    pub(crate) fn at_rest(&self, id: VariableId) -> Placement {
        let variable = &self.data.variables[id.index()];
        // A slot without dims has no owner: operations on scalars lie under no rules.
        if variable.ty.shape.is_scalar() {
            return Placement::replicated();
        }
        let key = variable.key(id);
        self.rules.placement(key.set, self.home(key), &variable.ty.shape)
    }

    /// The rules an operation works under: those of its tensors that are not scalars.
    pub(super) fn key(&self, operation: &Operation) -> Option<Key> {
        let key = |t: &TensorId| self.data.tensors[t.index()].key;
        // An update's input and a relayout's output name the target; others agree.
        let tensors = operation.outputs.iter().chain(&operation.inputs);
        tensors.filter_map(key).next()
    }

    /// All that the placement of an operation depends on, where the memo knows what is alike; `home` is that of an
    /// operation without key, `here` has where each input lies, and whether it is settled.
    pub(super) fn number<'p>(
        &self,
        id: OperationId,
        (of, home): (Option<Key>, &Home),
        here: impl Iterator<Item = (&'p Placed, bool)>,
    ) -> Option<Number> {
        let class = self.memo.alike.as_ref()?.of(id);
        let set = of.map_or(RuleSet::Compute, |key| key.set);
        let said = self.ruled.operation(&self.memo, self.rules, (class, set))?;
        let home = match of {
            Some(key) => self.numbered(key).map_or(0, |numbered| numbered.number),
            None => self.memo.home(home),
        };
        let mut key = Number::from_slice(&[class, said, home]);
        // `extend` takes longer for so few.
        for (placed, settled) in here {
            key.push(placed.number() << 1 | u32::from(settled));
        }
        Some(key)
    }
}
