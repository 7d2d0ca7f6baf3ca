//! The same computation of other tensors.

use super::data::{Context, Graph, Tensor};
use super::error::OpError;
use super::recompute::Now;

impl Graph {
    /// What `targets` would be if each first tensor of `replacements` were the second beside it: what lies
    /// between is computed again, random numbers included, and everything else is shared.
    ///
    /// So a model is evaluated, or differentiated, at other weights than its variables have. Replacements
    /// are of the type of what they replace. A target that depends on none of them stays as it is. Probes
    /// on the way show what they showed before, and nothing of what is computed again.
    ///
    /// ```
    /// # use mesh_core::{graph::{Graph, Initializer}, names::{dim, DType::F32}};
    /// # fn doc(g: &Graph) {
    /// let x = g.input("x", [dim("x", 3)], F32);
    /// let w = g.variable("w", [dim("x", 3)], F32, Initializer::ONES);
    /// let y = x * w.value();
    /// let doubled = g.replace(&[y], &[(w.value(), w.value() * 2.0)]);
    /// g.function("f", [x], [doubled[0]], []); // x times twice w
    /// # }
    /// ```
    #[track_caller]
    pub fn replace<'g>(
        &'g self,
        targets: &[Tensor<'g>],
        replacements: &[(Tensor<'g>, Tensor<'g>)],
    ) -> Vec<Tensor<'g>> {
        let poison = || targets.iter().map(|_| self.poison()).collect();
        let foreign = |t: &Tensor<'g>| !std::ptr::eq(t.graph(), self);
        let (old, new): (Vec<_>, Vec<_>) = replacements.iter().copied().unzip();
        let mut all = targets.iter().chain(&old).chain(&new);
        if all.clone().any(foreign) {
            self.record("replace", "a tensor belongs to another graph");
            return poison();
        }
        if all.any(|t| t.is_poisoned()) {
            return poison();
        }
        if let Some((old, new)) =
            replacements.iter().find(|(old, new)| old.tensor_type() != new.tensor_type())
        {
            self.record("replace", format!("{new:?} cannot stand for {old:?}: the types differ"));
            return poison();
        }
        match self.with_replaced(targets, replacements) {
            Ok(found) => found,
            Err(error) => {
                self.record("replace", error.to_string());
                poison()
            }
        }
    }

    #[track_caller]
    fn with_replaced<'g>(
        &'g self,
        targets: &[Tensor<'g>],
        replacements: &[(Tensor<'g>, Tensor<'g>)],
    ) -> Result<Vec<Tensor<'g>>, OpError> {
        let in_place = |&(old, new): &(Tensor<'g>, Tensor<'g>)| {
            (old.id(), old.key().map_or(new, |key| new.relayout(key)))
        };
        let mut now: Now<'g> = replacements.iter().map(in_place).collect();
        let old: Vec<_> = now.keys().copied().collect();
        let ys: Vec<_> = targets.iter().map(|t| t.id()).collect();
        let computation = {
            let data = self.data();
            data.depending(&data.enclosing(), &old, &ys)
        };
        self.in_own_phase(|| self.again(&computation, &mut now))?;
        let found: Vec<_> =
            targets.iter().map(|t| now.get(&t.id()).copied().unwrap_or(*t)).collect();
        let data = &mut *self.data.borrow_mut();
        for (from, to) in ys.iter().zip(&found) {
            let label = data.tensors[from.index()].label.clone();
            let to = &mut data.tensors[to.id().index()];
            to.label = to.label.take().or(label);
        }
        Ok(found)
    }

    /// What `build` makes is a phase of its own, on the account of whoever it was: what it gathers out of
    /// variables is not kept for others.
    fn in_own_phase<T>(&self, build: impl FnOnce() -> T) -> T {
        let phase = self.new_phase();
        let (at, layer) = {
            let data = self.data();
            let last = data.context.last();
            (last.and_then(|context| context.at.clone()), last.and_then(|context| context.layer))
        };
        self.data.borrow_mut().context.push(Context { at, phase, layer });
        let made = build();
        self.data.borrow_mut().context.pop();
        made
    }
}
