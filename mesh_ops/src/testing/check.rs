//! The one test for every op.

use super::alone::{self, Single};
use super::case::Case;
use super::compare::Tolerance;
use super::graph::Trial;
use super::known::Known;
use super::layouts::{all_layouts, legal_layouts, more_layouts};
use super::report::{Count, Derivatives, Report};
use super::roles::roles;
use mesh_core::lower::PassId;
use mesh_core::names::{DType, Layout, Mesh, stable_hash};

/// Where every op is checked: flat meshes of each kind of size, and grids that split a dim twice
/// or three times.
pub const MESHES: &[&str] = &["a:2", "a:4", "a:3", "a:2;b:2", "a:2;b:4", "a:2;b:2;c:2"];

/// Where ops whose inputs owe sums are checked.
const OWING_MESHES: &[&str] = &["a:2", "a:4", "a:2;b:2"];

/// Of the passes one in so many is left out of a case on one processor, each of some cases.
const LEFT_OUT_IN: u64 = 4;

impl Case {
    /// Checks the case:
    ///
    /// 1. one processor computes what the [`Reference`] computes, forward and backward;
    /// 2. the gradients are the finite differences of the reference, and their derivatives those of the
    ///    gradients, where the gradient can be differentiated; for some cases, a third time;
    /// 3. the legal layouts of several meshes give what one processor gives, with the replica
    ///    check on; also where inputs and cotangents owe sums;
    /// 4. the forward function in a graph of its own does so under every layout that is legal there,
    ///    and so does each operation of both functions in a graph of its own, on the smaller of the
    ///    meshes: an operation that forbids a layout does not hide the faults of another. The first of
    ///    equal operations on equal types that a process checks stands for all;
    /// 5. each operation does so where its inputs are selected and what they meet is infinite;
    /// 6. a case that says what it [computes](Self::computes) computes that.
    ///
    /// Where a graph has more than 3 legal layouts on a mesh, 3 of them are run, and derivatives of
    /// higher orders under as many; [`Count::left`] says how many are left out. On one processor the case also runs
    /// without any pass, and without each of a quarter of them; on one of the meshes without any, and without one.
    /// With `MESH_LAYOUTS=all` in the environment no layout is left out, and each pass in turn.
    ///
    /// An op of the gradient that the reference does not know is compared with what one processor
    /// computes of it ([`Report::unexplained`]). That it is right on one processor, only the
    /// differences show then.
    ///
    /// # Errors
    /// What was found first, with the mesh and the layout.
    pub fn check(&self) -> Result<Report, String> {
        self.check_all().map_err(|message| format!("{}: {message}", self.name))
    }

    fn check_all(&self) -> Result<Report, String> {
        let trial = Trial::new(self, &[])?;
        self.compared_as_a_whole(&trial)?;
        let met = self.differences(&trial)?;
        let explained = met.iter().all(|met| met.explained);
        let (higher, underived) = if explained { self.higher()? } else { (Vec::new(), None) };
        let mut higher: Vec<_> = higher.into_iter().map(Higher::new).collect();
        let roles = roles(&trial.graph, trial.made.forward_operations);
        let mut counts = self.trials(&mut higher)?;
        let operations = alone::cases(self, &trial, &met);
        if met.iter().filter(|met| met.number < trial.made.forward_operations).count() == 1 {
            self.selected()?;
        }
        counts.extend(checked(&operations)?);
        let unexplained = met.iter().filter(|met| !met.explained);
        let mut unexplained: Vec<_> =
            unexplained.map(|met| met.operation.op.name().to_owned()).collect();
        unexplained.sort();
        unexplained.dedup();
        let (name, whole) = (self.name.clone(), self.whole.is_some());
        // What is found beside that is not reported, so that the report is the same.
        let derivatives = higher.into_iter().map(|higher| higher.found);
        let derivatives = derivatives.filter(|found| self.in_turn(found.order)).collect();
        Ok(Report { name, roles, counts, unexplained, whole, derivatives, underived })
    }

    /// Every legal layout, with nothing and with something owing, and some for derivatives of higher
    /// orders.
    fn trials(&self, higher: &mut [Higher<'_>]) -> Result<Vec<Count>, String> {
        let mut counts = self.layouts(&[], higher)?;
        for owe in self.owing() {
            counts.extend(self.layouts(&owe, &mut [])?);
        }
        Ok(counts)
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

    /// Every legal layout of the graph, and those of its forward function in a graph of its own that
    /// the gradients do not allow.
    fn layouts(&self, owe: &[usize], higher: &mut [Higher<'_>]) -> Result<Vec<Count>, String> {
        let names: Vec<_> = owe.iter().map(|&i| self.inputs[i].name.as_str()).collect();
        let owing = |of: &str| match names.is_empty() {
            true => of.to_owned(),
            false => format!("{of}{} owing", names.join("+")),
        };
        let whole = Known::new(self, Trial::new(self, owe)?, owing(""))?;
        let forward = match whole.trial.made.differentiates() {
            true => Some(Known::new(self, Trial::forward(self, owe)?, owing("forward alone, "))?),
            false => None,
        };
        if owe.is_empty() && !self.alone {
            let turn = stable_hash(&self.name);
            let is_left_out = |i: u64| all_layouts() || (i + turn).is_multiple_of(LEFT_OUT_IN);
            let each = (0..).zip(PassId::ALL).filter(|(i, _)| is_left_out(*i));
            let each = each.map(|(_, pass)| std::slice::from_ref(pass));
            for passes in each.chain([PassId::ALL]) {
                whole.without(passes, &Mesh::single(), &Layout::default())?;
            }
        }
        let (mut counts, mut of_forward) = (Vec::new(), Vec::new());
        let meshes = self.checked_on(!owe.is_empty())?;
        let turn = stable_hash(&self.name) as usize + owe.len();
        for (i, mesh) in meshes.iter().enumerate() {
            let leaves_passes_out = all_layouts() || i == turn % meshes.len();
            let leaves_passes_out = leaves_passes_out && !self.alone;
            let layouts = legal_layouts(&whole.trial.graph, mesh)?;
            whole.on(mesh, &layouts)?;
            if leaves_passes_out {
                whole.without_some(mesh, &layouts)?;
            }
            counts.push(whole.count(mesh, &layouts));
            for Higher { known, found } in &mut *higher {
                known.on_some(mesh, &layouts, found)?;
            }
            if let Some(forward) = &forward {
                let mut more = more_layouts(&forward.trial.graph, mesh, &layouts.legal)?;
                of_forward.push(forward.count(mesh, &more));
                more.legal.retain(|more| !layouts.legal.contains(more));
                forward.on(mesh, &more)?;
                if leaves_passes_out {
                    forward.without_some(mesh, &more)?;
                }
            }
        }
        let same = of_forward.iter().zip(&counts).all(|(a, b)| a.legal == b.legal);
        counts.extend(of_forward.into_iter().filter(|_| !same));
        Ok(counts)
    }

    /// The case's meshes, or those of them where inputs owe sums. To keep the check short, an
    /// operation alone is tried on at most four processors, and where its inputs owe sums on one axis:
    /// two processors show a wrong role or linearity set, and two axes in which order a dim is split.
    fn checked_on(&self, owing: bool) -> Result<Vec<Mesh>, String> {
        let meshes: Vec<&str> = match &self.meshes {
            Some(meshes) => meshes.iter().map(String::as_str).collect(),
            None => MESHES.to_vec(),
        };
        let meshes = meshes.into_iter().filter(|mesh| !owing || OWING_MESHES.contains(mesh));
        let mut parsed = Vec::new();
        for mesh in meshes {
            let mesh: Mesh = mesh.parse().map_err(|error| format!("{error}"))?;
            let small = mesh.processors() <= 4 && (!owing || mesh.axes().count() == 1);
            parsed.extend(Some(mesh).filter(|_| small || !self.alone));
        }
        Ok(parsed)
    }

    /// Results are as rough as the roughest floats on their way.
    pub(super) fn tolerance(&self, trial: &Trial, dtype: DType) -> Tolerance {
        let outputs = trial.graph.operations().into_iter().flat_map(|o| o.outputs);
        let dtypes: Vec<_> = outputs.map(|t| trial.graph.type_of(t).dtype).collect();
        let rough = [DType::BF16, DType::F32].into_iter().find(|dtype| dtypes.contains(dtype));
        match rough {
            Some(rough) if dtype.is_float() => self.rounding(rough),
            _ => self.rounding(dtype),
        }
    }

    /// Of one operation.
    pub(super) fn rounding(&self, dtype: DType) -> Tolerance {
        if self.exact { Tolerance::Exact } else { Tolerance::of(dtype) }
    }
}

/// Derivatives of a higher order, and under how many layouts they were tried.
struct Higher<'a> {
    known: Known<'a>,
    found: Derivatives,
}

impl<'a> Higher<'a> {
    fn new(known: Known<'a>) -> Self {
        let order = known.trial.made.order;
        Self { known, found: Derivatives { order, tried: 0, legal: 0, left: 0 } }
    }
}

/// What is counted of operations that were taken out of a case's graph, all together.
fn checked(cases: &[Single]) -> Result<Vec<Count>, String> {
    let of = match cases.len() {
        1 => "1 operation alone".to_owned(),
        more => format!("{more} operations alone"),
    };
    let mut sums: Vec<Count> = Vec::new();
    for single in cases {
        let counts = single.once(|case| {
            let counts = case.trials(&mut [])?;
            case.selected().map(|()| counts)
        });
        for count in counts.map_err(|m| format!("{} alone: {m}", single.case.name))? {
            match sums.iter_mut().find(|sum| sum.mesh == count.mesh) {
                Some(sum) => sum.add(&count),
                None => sums.push(Count { of: of.clone(), ..count }),
            }
        }
    }
    Ok(sums)
}
