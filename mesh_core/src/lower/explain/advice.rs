//! Work that processors repeat, and the rule that would divide it.

use super::{FunctionRows, Row};
use crate::lower::Module;
use crate::names::{Axis, DimName, Dimension, Mesh, RuleDim, RuleSet};
use crate::program::DimUse;
use indexmap::IndexMap;

/// Work that all processors along an axis do alike, although each could do a part.
#[derive(Clone, PartialEq, Debug)]
pub struct Repeated {
    /// The axis.
    pub axis: String,
    /// Its size: how often the work is done.
    pub times: usize,
    /// Positions of the operations among the function's rows, the dearest first.
    pub rows: Vec<usize>,
    /// Which part of a processor's work in this function they are.
    pub share: f64,
    /// What would divide it, or why no one rule does.
    pub advice: Advice,
}

/// What becomes of repeated work.
#[derive(Clone, PartialEq, Debug)]
pub enum Advice {
    /// A rule that is legal beside those that there are. No other divides more of it.
    Rule {
        /// The rule.
        rule: String,
        /// Which part of a processor's work in this function it divides.
        share: f64,
    },
    /// Why the dim that most of it has cannot be split.
    None(String),
}

/// What the operations of an update say that they are.
const UPDATE: &str = "update";

/// The least share of a function's work that is worth a word.
const WORTH: f64 = 0.01;

/// Fills in what each function repeats. A rule concerns every function of the module.
pub(super) fn repeated(functions: &mut [FunctionRows], module: &Module) {
    let mesh = &module.mesh;
    let uses = Uses { dims: uses(functions, module), slots: has_star(module, RuleSet::Slots) };
    for axis in mesh.axes().filter(|&axis| mesh.size(axis) > 1) {
        let found: Vec<_> =
            functions.iter().map(|function| of_function(function, mesh, axis, &uses)).collect();
        for (function, found) in functions.iter_mut().zip(found) {
            function.repeated.extend(found);
        }
    }
}

/// How dims are used in the module: by name, each combination once.
struct Uses {
    /// Of a dim: its sizes, why it must be whole somewhere, and whether it is split.
    dims: IndexMap<DimName, Known>,
    /// Whether there is a rule for the largest dims of slots already.
    slots: bool,
}

fn has_star(module: &Module, set: RuleSet) -> bool {
    let mut rules = module.layout.rules().iter();
    rules.any(|rule| rule.set == set && rule.dim == RuleDim::Largest)
}

#[derive(Default)]
struct Known {
    sizes: Vec<usize>,
    /// An operation in which it must be whole.
    whole: Option<String>,
    /// Whether it has a rule already, but for those of parameters and slots.
    has_rule: bool,
    /// Per axis: an operation in which another dim is split over it.
    beside: Vec<(Axis, DimName, String)>,
}

fn uses(functions: &[FunctionRows], module: &Module) -> IndexMap<DimName, Known> {
    // A rule for the largest dim gives way to others.
    let named = |dim: DimName, set: Option<RuleSet>| {
        let mut rules = module.layout.rules().iter();
        rules.any(|rule| set.is_none_or(|set| rule.set == set) && rule.dim == RuleDim::Named(dim))
    };
    let mut dims: IndexMap<DimName, Known> = IndexMap::new();
    for row in functions.iter().flat_map(|function| &function.rows) {
        for DimUse { dim, splits, .. } in &row.origin.dims {
            let known = dims.entry(dim.name).or_default();
            if !known.sizes.contains(&dim.size) {
                known.sizes.push(dim.size);
            }
            known.has_rule |= named(dim.name, Some(RuleSet::Compute));
            if !splits {
                known.whole.get_or_insert_with(|| row.name.clone());
            }
            let others = row.origin.dims.iter().filter(|other| other.dim.name != dim.name);
            for other in others.filter(|other| named(other.dim.name, None)) {
                for &axis in &other.axes {
                    if known.beside.iter().all(|(known, ..)| *known != axis) {
                        known.beside.push((axis, other.dim.name, row.name.clone()));
                    }
                }
            }
        }
    }
    dims
}

impl Uses {
    /// Why a dim cannot be split over an axis that nothing here splits it over yet.
    fn objection(&self, dim: Dimension, mesh: &Mesh, axis: Axis) -> Option<String> {
        let (name, parts, along) = (dim.name, mesh.size(axis), mesh.name(axis));
        let known = self.dims.get(&name)?;
        if known.has_rule {
            return Some(format!("`{name}` has a rule already"));
        }
        if let Some(size) = known.sizes.iter().find(|size| !size.is_multiple_of(parts)) {
            return Some(format!("`{name}` of size {size} does not divide by {parts}"));
        }
        if let Some(row) = &known.whole {
            return Some(format!("`{name}` must be whole in {row}"));
        }
        let beside = known.beside.iter().find(|(other, ..)| *other == axis);
        beside.map(|(_, other, row)| {
            format!("`{other}` is split over {along} beside `{name}` in {row}")
        })
    }
}

fn of_function(function: &FunctionRows, mesh: &Mesh, axis: Axis, uses: &Uses) -> Option<Repeated> {
    let weight = |row: &Row| super::weight(row.cost);
    let total: f64 = function.rows.iter().map(weight).sum();
    let repeats = |row: &Row| {
        let divided = row.origin.dims.iter().any(|used| used.axes.contains(&axis))
            || row.origin.parts.contains(&axis);
        // What lies on several processors is written on each.
        let writes = row.steps.iter().any(|step| step == "write");
        !divided && !row.owned && !writes && !row.origin.dims.is_empty()
    };
    let rows = function.rows.iter().enumerate().filter(|(_, row)| repeats(row));
    let mut rows: Vec<_> =
        rows.map(|(i, _)| i).filter(|&i| weight(&function.rows[i]) > 0.0).collect();
    rows.sort_by(|&a, &b| weight(&function.rows[b]).total_cmp(&weight(&function.rows[a])));
    let share = rows.iter().map(|&i| weight(&function.rows[i])).sum::<f64>() / total.max(1e-9);
    if share < WORTH {
        return None;
    }
    let repeated: Vec<_> = rows.iter().map(|&i| &function.rows[i]).collect();
    let advice = advise(&repeated, total, mesh, axis, uses);
    let (axis, times) = (mesh.name(axis).to_owned(), mesh.size(axis));
    Some(Repeated { axis, times, rows, share, advice })
}

/// The rule that divides most of the rows' work, if one does: for a dim, or for slots, whose variables are
/// then updated where their slots lie.
fn advise(rows: &[&Row], total: f64, mesh: &Mesh, axis: Axis, uses: &Uses) -> Advice {
    let mut dims: IndexMap<Dimension, f64> = IndexMap::new();
    let mut updates = 0.0;
    for row in rows {
        let weight = super::weight(row.cost);
        for used in &row.origin.dims {
            *dims.entry(used.dim).or_default() += weight;
        }
        // `*` is the largest dim that is whole and divides.
        let free =
            |used: &DimUse| used.axes.is_empty() && used.dim.size.is_multiple_of(mesh.size(axis));
        let of_slots = !uses.slots && row.note.starts_with(UPDATE);
        updates += if of_slots && row.origin.dims.iter().any(free) { weight } else { 0.0 };
    }
    let mut dims: Vec<_> = dims.into_iter().collect();
    dims.sort_by(|a, b| b.1.total_cmp(&a.1));
    let legal = dims.iter().find(|(dim, _)| uses.objection(*dim, mesh, axis).is_none());
    let name = mesh.name(axis);
    let of_dim = legal.map(|(dim, weight)| (format!("{}:{name}", dim.name), *weight));
    let of_slots = (format!("slots/*:{name}"), updates);
    let best = [of_slots].into_iter().chain(of_dim).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((rule, share)) =
        best.map(|(rule, weight)| (rule, weight / total)).filter(|(_, share)| *share >= WORTH)
    {
        return Advice::Rule { rule, share };
    }
    let objection = dims.iter().find_map(|(dim, _)| uses.objection(*dim, mesh, axis));
    Advice::None(objection.unwrap_or_else(|| "it has no dims that matter".to_owned()))
}
