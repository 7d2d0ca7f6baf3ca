//! A trial under layouts, compared with what one processor makes of it.

use super::SEED;
use super::case::Case;
use super::compare::{Tolerance, compare};
use super::graph::{OWED, Trial};
use super::layouts::{Layouts, accepts, all_layouts, quiet, selection};
use super::moved::moved;
use super::reference::{Dense, Values};
use super::report::{Count, Derivatives};
use mesh_core::array::Array;
use mesh_core::graph::TensorId;
use mesh_core::lower::{Module, Options, PassId, Target};
use mesh_core::names::{Layout, Mesh, stable_hash};
use mesh_core::session::{Error, Reference, Session, Threads};

/// Layouts run per trial and mesh, unless all are asked for; beyond that, an even selection. All are
/// counted.
const RUN_MOST: usize = 3;

/// Layouts per mesh under which derivatives of higher orders are run, unless all are asked for: what ops
/// do under layouts, those of the gradient have shown.
const DERIVED_MOST: usize = 3;

/// Differentiating a graph once more makes some four times as many operations, of which each rounds.
const PER_ORDER: f64 = 4.0;

/// A trial with what one processor makes of it, which agrees with the reference.
pub(super) struct Known<'a> {
    case: &'a Case,
    pub(super) trial: Trial,
    /// Of what it is a trial; empty for a case's graph as it is.
    of: String,
    alone: Vec<Array>,
    /// How far each fetch may lie apart.
    tolerances: Vec<Tolerance>,
}

impl<'a> Known<'a> {
    /// One processor against the reference.
    pub(super) fn new(case: &'a Case, trial: Trial, of: String) -> Result<Self, String> {
        let one = trial.graph.lower(&Mesh::single(), &Layout::default());
        let alone = run(&one.map_err(|report| report.to_string())?, &trial.feeds)?;
        let wanted = trial.made.wanted();
        let values = trial.reference(case).evaluate(&trial.feeds, &trial.variables, &wanted)?;
        if alone.len() != wanted.len() {
            return Err(format!("{} fetches instead of {}", alone.len(), wanted.len()));
        }
        let moved = moved(&trial.graph);
        let more = PER_ORDER.powi(trial.made.order.saturating_sub(1) as i32);
        let tolerance = |id: &TensorId| match moved.contains(id) {
            true => Tolerance::Bits,
            false => case.tolerance(&trial, trial.graph.type_of(*id).dtype).times(more),
        };
        let tolerances: Vec<_> = wanted.iter().map(tolerance).collect();
        let comma = if of.is_empty() { "" } else { ", " };
        for (k, (got, id)) in alone.iter().zip(&wanted).enumerate() {
            let want: &Dense = &values[id];
            let shape = want.ty.shape.sizes();
            if (got.shape(), got.dtype()) != (&shape[..], want.ty.dtype) {
                return Err(format!("fetch {k} is {:?}, not {}", got.shape(), want.ty));
            }
            compare(got.to_f64(), &want.data, tolerances[k]).map_err(|m| {
                format!("one processor against the reference{comma}{of}: fetch {k}: {m}")
            })?;
        }
        Ok(Self { case, trial, of, alone, tolerances })
    }

    /// Whether a module gives what one processor gave: on threads, compiled for a target, and on the
    /// reference back-end, as it is lowered.
    fn agrees(&self, module: &Module, target: Target) -> Result<(), String> {
        let threads = Threads::default().target(target);
        let threads = || Session::threads_with(module, SEED, &threads);
        self.agrees_on("", module, threads)?;
        self.agrees_on("by reference, ", module, || Session::reference(module, SEED))
    }

    fn agrees_on(
        &self,
        back_end: &str,
        module: &Module,
        session: impl FnOnce() -> Result<Session, Error>,
    ) -> Result<(), String> {
        let results = session().map_err(|error| error.to_string());
        let results = results.and_then(|session| call(session, module, &self.trial.feeds));
        let results = results.map_err(|message| format!("{back_end}{message}"))?;
        for (k, (got, want)) in results.iter().zip(&self.alone).enumerate() {
            let want: Vec<_> = want.to_f64().iter().copied().collect();
            compare(got.to_f64(), &want, self.tolerances[k])
                .map_err(|message| format!("{back_end}fetch {k}: {message}"))?;
        }
        Ok(())
    }

    /// The same lowered without some passes.
    pub(super) fn without(
        &self,
        passes: &[PassId],
        mesh: &Mesh,
        layout: &Layout,
    ) -> Result<(), String> {
        let options = passes.iter().fold(quiet(), |options, pass| options.without(*pass));
        let module = self.lowered(mesh, layout, &options)?;
        let target = passes.iter().fold(Target::host(), |target, pass| target.without(*pass));
        let compiled = || Session::on(&module, Reference::compiled(&module, &target, SEED)?);
        self.agrees(&module, target.clone())
            .and_then(|()| self.agrees_on("compiled, by reference, ", &module, compiled))
            .map_err(|m| {
                let names: Vec<_> = passes.iter().map(|pass| pass.name()).collect();
                format!("{}, without {}: {m}", self.under(mesh, layout), names.join(", "))
            })
    }

    /// Layouts of a mesh, or as many as are to be run of them. If the trial owes something, those under
    /// which nothing owes are left out.
    pub(super) fn on(&self, mesh: &Mesh, layouts: &Layouts) -> Result<(), String> {
        let worth = self.worth(layouts);
        let most = if all_layouts() { usize::MAX } else { RUN_MOST };
        for i in selection(worth.len(), most) {
            let module = self.lowered(mesh, worth[i], &quiet())?;
            self.agrees(&module, Target::host())
                .map_err(|m| format!("{}: {m}", self.under(mesh, worth[i])))?;
        }
        Ok(())
    }

    /// The last of the layouts without one of the passes, and without all of them.
    pub(super) fn without_some(&self, mesh: &Mesh, layouts: &Layouts) -> Result<(), String> {
        let worth = self.worth(layouts);
        let Some(layout) = worth.last() else { return Ok(()) };
        let turn = worth.len() + mesh.to_string().len() + self.case.name.len();
        let pass = PassId::ALL[turn % PassId::ALL.len()];
        self.without(&[pass], mesh, layout)?;
        self.without(PassId::ALL, mesh, layout)
    }

    /// A higher order of derivatives under layouts that are legal for the gradient, or as many as are to
    /// be run of them, on threads. Adds up under how many.
    pub(super) fn on_some(
        &self,
        mesh: &Mesh,
        layouts: &Layouts,
        found: &mut Derivatives,
    ) -> Result<(), String> {
        // The first is the layout that splits nothing.
        let split = layouts.legal.get(1..).unwrap_or_default();
        let chosen: Vec<_> = selection(split.len(), DERIVED_MOST).collect();
        found.left += split.len() - chosen.len();
        for (i, layout) in split.iter().enumerate() {
            let counts = chosen.contains(&i);
            if !counts && !all_layouts() {
                continue;
            }
            found.tried += usize::from(counts);
            if !accepts(&self.trial.graph, mesh, layout)? {
                continue;
            }
            found.legal += usize::from(counts);
            let module = self.lowered(mesh, layout, &quiet())?;
            self.agrees_on("", &module, || Session::threads(&module, SEED))
                .map_err(|m| format!("{}: {m}", self.under(mesh, layout)))?;
        }
        Ok(())
    }

    /// At most so many layouts of a mesh, in sessions that the caller starts. Returns how many. Where there
    /// are more, the first is left out, which splits nothing, and the case's name says which of the others are run.
    pub(super) fn on_back_end(
        &self,
        mesh: &Mesh,
        layouts: &Layouts,
        most: usize,
        start: &dyn Fn(&Module) -> Result<Session, Error>,
    ) -> Result<usize, String> {
        let split = &layouts.legal[usize::from(layouts.legal.len() > most)..];
        let chosen: Vec<_> = selection(split.len(), most).collect();
        let turn = stable_hash(&self.case.name) as usize % split.len().max(1);
        for &i in &chosen {
            let layout = &split[(i + turn) % split.len()];
            let module = self.lowered(mesh, layout, &quiet())?;
            self.agrees_on("", &module, || start(&module))
                .map_err(|m| format!("{}: {m}", self.under(mesh, layout)))?;
        }
        Ok(chosen.len())
    }

    /// The layouts worth running.
    fn worth<'b>(&self, layouts: &'b Layouts) -> Vec<&'b Layout> {
        let owes = self.trial.feeds.values().any(|fed| fed.ty.shape.contains(OWED.into()));
        let worth = |layout: &Layout| !owes || layout.to_string().contains(OWED);
        layouts.legal.iter().filter(|layout| worth(layout)).collect()
    }

    fn lowered(&self, mesh: &Mesh, layout: &Layout, options: &Options) -> Result<Module, String> {
        let module = self.trial.graph.lower_with(mesh, layout, options);
        module.map_err(|report| format!("{}: {report}", self.under(mesh, layout)))
    }

    fn under(&self, mesh: &Mesh, layout: &Layout) -> String {
        let comma = if self.of.is_empty() { "" } else { ", " };
        format!("mesh {mesh}, layout {layout}{comma}{}", self.of)
    }

    pub(super) fn count(&self, mesh: &Mesh, layouts: &Layouts) -> Count {
        Count {
            of: self.of.clone(),
            mesh: mesh.to_string(),
            legal: layouts.legal.len(),
            tried: layouts.tried,
            sampled: layouts.sampled,
            left: self.worth(layouts).len().saturating_sub(RUN_MOST),
        }
    }
}

/// Calls every function of a module on threads; all fetches in order.
pub(super) fn run(module: &Module, feeds: &Values) -> Result<Vec<Array>, String> {
    call(Session::threads(module, SEED).map_err(|error| error.to_string())?, module, feeds)
}

/// Calls every function of a session's module; all fetches in order.
fn call(mut session: Session, module: &Module, feeds: &Values) -> Result<Vec<Array>, String> {
    session.set_replica_check(true).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for program in module.functions() {
        let fed = program.feeds.iter().map(|slot| {
            let value = feeds.get(&slot.name).ok_or_else(|| format!("{} is not fed", slot.name))?;
            Ok((slot.name.as_str(), value.to_array()?))
        });
        let fed = fed.collect::<Result<Vec<_>, String>>()?;
        let fed: Vec<_> = fed.iter().map(|(name, array)| (*name, array.view())).collect();
        let results = session.call_named(&program.name, &fed).map_err(|error| error.to_string())?;
        all.extend(results.into_iter().map(|(_, array)| array));
    }
    Ok(all)
}
