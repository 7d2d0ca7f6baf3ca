//! The one test for every op.

use super::case::Case;
use super::graph::{OWED, Trial};
use super::layouts::{legal_layouts, selection};
use super::reference::{Dense, Reference, SEED, Values};
use super::roles::roles;
use mesh_core::array::Array;
use mesh_core::graph::{TensorId, TensorType};
use mesh_core::lower::{Module, Options, pass_names};
use mesh_core::names::{DType, Layout, Mesh, Shape};
use mesh_core::session::Session;
use std::fmt;

/// Where every op is checked: flat meshes of each kind of size, and grids that split a dim twice
/// or three times.
pub const MESHES: &[&str] = &["a:2", "a:4", "a:3", "a:2;b:2", "a:2;b:4", "a:2;b:2;c:2"];

/// Where ops whose inputs owe sums are checked.
const OWING_MESHES: &[&str] = &["a:2", "a:4", "a:2;b:2"];

/// Layouts run per trial and mesh; beyond that, an even selection. All are counted.
const RUN_MOST: usize = 40;

/// Step of the finite differences. In f64 the error of a central difference is about
/// `step^2 + 1e-16 / step`, so some 1e-10.
const STEP: f64 = 1.0 / 131_072.0;

/// Differences are compared at this: their error with four digits to spare for steep functions.
const DIFFERENCES: Tolerance = Tolerance::Within(1e-6);

/// How far two results may lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// Not at all.
    Exact,
    /// By this fraction of the greatest element, or of 1 if all are smaller.
    Within(f64),
}

impl Tolerance {
    /// What roundings add up to: a checked graph sums at most some 2^7 terms and rounds after each
    /// of its few ops, so 2^9 roundings; bf16 sums in f32 and rounds only after each op, 2^4 times.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::Within(512.0 * f64::from(f32::EPSILON)),
            DType::F64 => Self::Within(512.0 * f64::EPSILON),
            DType::BF16 => Self::Within(1.0 / 16.0),
            DType::I32 | DType::Bool => Self::Exact,
        }
    }
}

/// Whether two lists of elements agree; else what differs first.
pub fn compare(
    got: impl IntoIterator<Item = f64>,
    want: &[f64],
    tolerance: Tolerance,
) -> Result<(), String> {
    let got: Vec<_> = got.into_iter().collect();
    if got.len() != want.len() {
        return Err(format!("{} elements instead of {}", got.len(), want.len()));
    }
    let scale = want.iter().filter(|x| x.is_finite()).fold(1.0, |most: f64, x| most.max(x.abs()));
    let same = |got: f64, want: f64| {
        let allowed = match tolerance {
            Tolerance::Exact => 0.0,
            Tolerance::Within(fraction) => fraction * scale,
        };
        got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= allowed
    };
    match (0..got.len()).find(|&i| !same(got[i], want[i])) {
        None => Ok(()),
        Some(i) => Err(format!("element {i} is {}, not {} ({tolerance:?})", got[i], want[i])),
    }
}

/// What a check found; prints as an entry of a committed table.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Name of the case.
    pub name: String,
    /// One line per op of the graph, see [`roles`](super::roles).
    pub roles: Vec<String>,
    /// Per mesh: legal layouts and layouts tried; the same where inputs owe sums.
    pub counts: Vec<Count>,
}

/// Layouts of one trial on one mesh.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// The mesh.
    pub mesh: String,
    /// Which inputs owe sums.
    pub owing: String,
    /// How many layouts are legal.
    pub legal: usize,
    /// How many were tried.
    pub tried: usize,
    /// Whether there were too many to try all.
    pub sampled: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for line in &self.roles {
            write!(f, "\n    {line}")?;
        }
        let mut before = None;
        for count in &self.counts {
            match before.replace(&count.owing) {
                Some(owing) if *owing == count.owing => f.write_str(",")?,
                _ if count.owing.is_empty() => f.write_str("\n    legal:")?,
                _ => write!(f, "\n    legal, {} owing:", count.owing)?,
            }
            let more = if count.sampled { "+" } else { "" };
            write!(f, " {} {}/{}{more}", count.mesh, count.legal, count.tried)?;
        }
        Ok(())
    }
}

impl Case {
    /// Checks the case:
    ///
    /// 1. one processor computes what the [`Reference`] computes, forward and backward;
    /// 2. the gradients are the finite differences of the reference;
    /// 3. every legal layout on several meshes gives what one processor gives, with the replica
    ///    check on; also where inputs and cotangents owe sums.
    ///
    /// # Errors
    /// What was found first, with the mesh and the layout.
    pub fn check(&self) -> Result<Report, String> {
        self.check_all().map_err(|message| format!("{}: {message}", self.name))
    }

    fn check_all(&self) -> Result<Report, String> {
        let trial = Trial::new(self, &[])?;
        self.differences(&trial)?;
        let meshes: Vec<&str> = match &self.meshes {
            Some(meshes) => meshes.iter().map(String::as_str).collect(),
            None => MESHES.to_vec(),
        };
        let roles = roles(&trial.graph, trial.made.forward_operations);
        let mut counts = self.layouts(&trial, &meshes, "")?;
        for owe in self.owing() {
            let names: Vec<_> = owe.iter().map(|&i| self.inputs[i].name.as_str()).collect();
            let trial = Trial::new(self, &owe)?;
            let few: Vec<_> =
                meshes.iter().copied().filter(|mesh| OWING_MESHES.contains(mesh)).collect();
            counts.extend(self.layouts(&trial, &few, &names.join("+"))?);
        }
        Ok(Report { name: self.name.clone(), roles, counts })
    }

    /// Which inputs owe sums at once: each alone, and all.
    fn owing(&self) -> Vec<Vec<usize>> {
        let numbers: Vec<_> =
            (0..self.inputs.len()).filter(|&i| self.inputs[i].dtype != DType::Bool).collect();
        let mut sets: Vec<_> = numbers.iter().map(|&i| vec![i]).collect();
        if numbers.len() > 1 {
            sets.push(numbers);
        }
        sets
    }

    /// Results are as rough as the roughest floats on their way.
    fn tolerance(&self, trial: &Trial, dtype: DType) -> Tolerance {
        let outputs = trial.graph.operations().into_iter().flat_map(|o| o.outputs);
        let dtypes: Vec<_> = outputs.map(|t| trial.graph.type_of(t).dtype).collect();
        let rough = [DType::BF16, DType::F32].into_iter().find(|dtype| dtypes.contains(dtype));
        match rough {
            _ if self.exact => Tolerance::Exact,
            Some(rough) if dtype.is_float() => Tolerance::of(rough),
            _ => Tolerance::of(dtype),
        }
    }

    /// The gradient graph against differences, both by the reference.
    fn differences(&self, trial: &Trial) -> Result<(), String> {
        let Some(loss) = trial.made.loss else { return Ok(()) };
        let reference = trial.reference(self);
        let found: Vec<_> = trial.made.gradients.iter().filter_map(|(_, id)| *id).collect();
        let values = reference.evaluate(&trial.feeds, &untrained(), &found)?;
        for (i, gradient) in &trial.made.gradients {
            let name = &self.inputs[*i].name;
            let want = difference(&reference, &trial.feeds, name, loss)?;
            let zeros = vec![0.0; want.len()];
            let got = gradient.as_ref().map_or(&zeros, |id| &values[id].data);
            compare(got.iter().copied(), &want, DIFFERENCES)
                .map_err(|message| format!("gradient of {name} against differences: {message}"))?;
        }
        Ok(())
    }

    /// One processor against the reference, then every layout against one processor.
    fn layouts(&self, trial: &Trial, meshes: &[&str], owing: &str) -> Result<Vec<Count>, String> {
        let one = trial.graph.lower(&Mesh::single(), &Layout::default());
        let alone = run(&one.map_err(|report| report.to_string())?, &trial.feeds)?;
        let reference = trial.reference(self);
        let mut wanted = trial.made.outputs.clone();
        wanted.extend(trial.made.gradients.iter().filter_map(|(_, id)| *id));
        let values = reference.evaluate(&trial.feeds, &untrained(), &wanted)?;
        if alone.len() != wanted.len() {
            return Err(format!("{} fetches instead of {}", alone.len(), wanted.len()));
        }
        for (k, (got, id)) in alone.iter().zip(&wanted).enumerate() {
            let want: &Dense = &values[id];
            let shape = want.ty.shape.sizes();
            if (got.shape(), got.dtype()) != (&shape[..], want.ty.dtype) {
                return Err(format!("fetch {k} is {:?}, not {}", got.shape(), want.ty));
            }
            compare(got.to_f64(), &want.data, self.tolerance(trial, want.ty.dtype)).map_err(
                |m| format!("one processor against the reference, {owing} owing: {k}: {m}"),
            )?;
        }
        for pass in pass_names().filter(|_| owing.is_empty()) {
            let options = Options { without: Some(pass), ..Options::default() };
            self.again(trial, &Mesh::single(), &Layout::default(), &options, &alone)?;
        }
        let mut counts = Vec::new();
        for mesh in meshes {
            counts.push(self.on(trial, mesh, &alone, owing)?);
        }
        Ok(counts)
    }

    /// Whether a module gives what one processor gave.
    fn agrees(&self, trial: &Trial, module: &Module, alone: &[Array]) -> Result<(), String> {
        let results = run(module, &trial.feeds)?;
        for (k, (got, want)) in results.iter().zip(alone).enumerate() {
            let want: Vec<_> = want.to_f64().iter().copied().collect();
            compare(got.to_f64(), &want, self.tolerance(trial, got.dtype()))
                .map_err(|message| format!("fetch {k}: {message}"))?;
        }
        Ok(())
    }

    /// The same lowered with other options.
    fn again(
        &self,
        trial: &Trial,
        mesh: &Mesh,
        layout: &Layout,
        options: &Options,
        alone: &[Array],
    ) -> Result<(), String> {
        let module = trial.graph.lower_with(mesh, layout, options);
        let module = module.map_err(|report| report.to_string())?;
        self.agrees(trial, &module, alone)
            .map_err(|m| format!("mesh {mesh}, layout {layout}, with {options:?}: {m}"))
    }

    fn on(&self, trial: &Trial, text: &str, alone: &[Array], owing: &str) -> Result<Count, String> {
        let mesh: Mesh = text.parse().map_err(|error| format!("{error}"))?;
        let layouts = legal_layouts(&trial.graph, &mesh)?;
        // Unless something owes, the trial without debts has covered the layout.
        let worth = |layout: &Layout| owing.is_empty() || layout.to_string().contains(OWED);
        let worth: Vec<_> = layouts.legal.iter().filter(|(layout, _)| worth(layout)).collect();
        for i in selection(worth.len(), RUN_MOST) {
            let (layout, module) = worth[i];
            self.agrees(trial, module, alone)
                .map_err(|m| format!("mesh {text}, layout {layout}, {owing} owing: {m}"))?;
        }
        // The passes in turn, since all of them on all meshes would take long.
        if let Some((layout, _)) = worth.last() {
            let turn = worth.len() + text.len() + self.name.len();
            let without = pass_names().nth(turn % pass_names().count());
            let options = Options { without, ..Options::default() };
            self.again(trial, &mesh, layout, &options, alone)?;
        }
        Ok(Count {
            mesh: text.to_owned(),
            owing: owing.to_owned(),
            legal: layouts.legal.len(),
            tried: layouts.tried,
            sampled: layouts.sampled,
        })
    }
}

/// Variables before anything is trained.
fn untrained() -> Values {
    let step = Dense::zeros(TensorType::new(Shape::scalar(), DType::I32));
    Values::from([("step".to_owned(), step)])
}

/// The derivative of a scalar with respect to every element that is fed under a name.
fn difference(
    reference: &Reference<'_>,
    feeds: &Values,
    name: &str,
    loss: TensorId,
) -> Result<Vec<f64>, String> {
    let fed = feeds.get(name).ok_or("no such feed")?;
    let mut feeds = feeds.clone();
    let mut at = |i: usize, by: f64| -> Result<f64, String> {
        let mut moved = fed.clone();
        moved.data[i] += by;
        feeds.insert(name.to_owned(), moved);
        Ok(reference.evaluate(&feeds, &untrained(), &[loss])?[&loss].data[0])
    };
    (0..fed.data.len()).map(|i| Ok((at(i, STEP)? - at(i, -STEP)?) / (2.0 * STEP))).collect()
}

/// Calls every function of a module; all fetches in order.
fn run(module: &Module, feeds: &Values) -> Result<Vec<Array>, String> {
    let mut session = Session::threads(module, SEED).map_err(|error| error.to_string())?;
    session.set_replica_check(true);
    let mut all = Vec::new();
    for function in module.functions() {
        let program = &function.program;
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
