//! A trial under layouts, compared with what one processor makes of it.

use super::SEED;
use super::case::Case;
use super::compare::compare;
use super::graph::{OWED, Trial};
use super::layouts::{Layouts, quiet, selection};
use super::reference::{Dense, Values};
use super::report::Count;
use mesh_core::array::Array;
use mesh_core::graph::TensorType;
use mesh_core::lower::{Module, PassId, Target};
use mesh_core::names::{DType, Layout, Mesh, Shape};
use mesh_core::session::{Error, Reference, Session, Threads};

/// Layouts run per trial and mesh; beyond that, an even selection. All are counted.
const RUN_MOST: usize = 40;

/// A trial with what one processor makes of it, which agrees with the reference.
pub(super) struct Known<'a> {
    case: &'a Case,
    pub(super) trial: Trial,
    /// Of what it is a trial; empty for a case's graph as it is.
    of: String,
    alone: Vec<Array>,
}

impl<'a> Known<'a> {
    /// One processor against the reference.
    pub(super) fn new(case: &'a Case, trial: Trial, of: String) -> Result<Self, String> {
        let one = trial.graph.lower(&Mesh::single(), &Layout::default());
        let alone = run(&one.map_err(|report| report.to_string())?, &trial.feeds)?;
        let wanted = trial.made.wanted();
        let values = trial.reference(case).evaluate(&trial.feeds, &untrained(), &wanted)?;
        if alone.len() != wanted.len() {
            return Err(format!("{} fetches instead of {}", alone.len(), wanted.len()));
        }
        let comma = if of.is_empty() { "" } else { ", " };
        for (k, (got, id)) in alone.iter().zip(&wanted).enumerate() {
            let want: &Dense = &values[id];
            let shape = want.ty.shape.sizes();
            if (got.shape(), got.dtype()) != (&shape[..], want.ty.dtype) {
                return Err(format!("fetch {k} is {:?}, not {}", got.shape(), want.ty));
            }
            let tolerance = case.tolerance(&trial, want.ty.dtype);
            compare(got.to_f64(), &want.data, tolerance).map_err(|m| {
                format!("one processor against the reference{comma}{of}: fetch {k}: {m}")
            })?;
        }
        Ok(Self { case, trial, of, alone })
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
            compare(got.to_f64(), &want, self.case.tolerance(&self.trial, got.dtype()))
                .map_err(|message| format!("{back_end}fetch {k}: {message}"))?;
        }
        Ok(())
    }

    /// The same lowered without a pass.
    pub(super) fn without(&self, pass: PassId, mesh: &Mesh, layout: &Layout) -> Result<(), String> {
        let options = quiet().without(pass);
        let module = self.trial.graph.lower_with(mesh, layout, &options);
        let module = module.map_err(|report| report.to_string())?;
        let target = Target::host().without(pass);
        let compiled = || Session::on(&module, Reference::compiled(&module, &target, SEED)?);
        self.agrees(&module, target.clone())
            .and_then(|()| self.agrees_on("compiled, by reference, ", &module, compiled))
            .map_err(|m| format!("{}, without {pass}: {m}", self.under(mesh, layout)))
    }

    /// Layouts of a mesh. If the trial owes something, those under which nothing owes are left out.
    pub(super) fn on(&self, mesh: &Mesh, layouts: &Layouts) -> Result<(), String> {
        let owes = self.trial.feeds.values().any(|fed| fed.ty.shape.contains(OWED.into()));
        let worth = |layout: &Layout| !owes || layout.to_string().contains(OWED);
        let worth: Vec<_> = layouts.legal.iter().filter(|(layout, _)| worth(layout)).collect();
        for i in selection(worth.len(), RUN_MOST) {
            let (layout, module) = worth[i];
            self.agrees(module, Target::host())
                .map_err(|m| format!("{}: {m}", self.under(mesh, layout)))?;
        }
        // The passes in turn, since all of them on all meshes would take long.
        if let Some((layout, _)) = worth.last().filter(|_| !self.case.alone) {
            let turn = worth.len() + mesh.to_string().len() + self.case.name.len();
            let pass = PassId::ALL[turn % PassId::ALL.len()];
            self.without(pass, mesh, layout)?;
        }
        Ok(())
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
        }
    }
}

/// Variables before anything is trained.
pub(super) fn untrained() -> Values {
    let step = Dense::zeros(TensorType::new(Shape::scalar(), DType::I32));
    Values::from([("step".to_owned(), step)])
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
