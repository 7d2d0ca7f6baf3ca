//! One operation whose inputs are selected: of each of their elements one processor has the value,
//! the others have zeros, which nothing may come of.

use super::case::Case;
use super::compare::compare;
use super::fill::Random;
use super::graph::OWED;
use super::known::run;
use super::layouts::quiet;
use super::reference::{Dense, Values};
use mesh_core::array::Array;
use mesh_core::graph::{Graph, Kind, Signature, TensorType};
use mesh_core::names::{DType, Dimension, Layout, Mesh, Shape, dim};
use mesh_core::split::Linearity;

/// What is not selected: a selection that lets it through shows it.
const OTHER: f64 = 77.0;

/// Beside what is selected every third element of a float is infinite: a processor that multiplies
/// the zeros of who has nothing with it makes NaN of them.
const EVERY: usize = 3;

/// Where an operation moves what is selected, some of that is of these kinds.
const KINDS: [f64; 4] = [-0.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY];

impl Case {
    /// Whether two processors, of which each has two of four rows from which inputs are selected,
    /// compute what one computes; bit for bit where the operation moves what is selected. The case
    /// is of one operation.
    pub(super) fn selected(&self) -> Result<(), String> {
        let all: Vec<_> = (0..self.inputs.len()).collect();
        let each = all.iter().map(|&i| vec![i]);
        let joint = (all.len() > 1).then(|| all.clone());
        for chosen in each.chain(joint) {
            let names: Vec<_> = chosen.iter().map(|&i| self.inputs[i].name.as_str()).collect();
            self.selects(&chosen).map_err(|m| format!("{} selected: {m}", names.join("+")))?;
        }
        Ok(())
    }

    fn selects(&self, chosen: &[usize]) -> Result<(), String> {
        let moves = self.graph_selecting(chosen, false)?.2;
        let (graph, feeds, _) = self.graph_selecting(chosen, moves)?;
        let computed = |mesh: &str, layout: &str| -> Result<Vec<Array>, String> {
            let mesh: Mesh = mesh.parse().map_err(|error| format!("{error}"))?;
            let layout: Layout = layout.parse().map_err(|error| format!("{error}"))?;
            let module = graph.lower_with(&mesh, &layout, &quiet());
            run(&module.map_err(|report| report.to_string())?, &feeds)
        };
        let (alone, split) = (computed("", "")?, computed("a:2", &format!("{OWED}:a"))?);
        for (k, (got, want)) in split.iter().zip(&alone).enumerate() {
            let (got, want) = (got.to_f64(), want.to_f64());
            let same =
                |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            if moves && !got.iter().zip(&want).all(same) {
                return Err(format!("fetch {k} is {got:?}, not {want:?}"));
            }
            let dtype = alone[k].dtype();
            let want: Vec<_> = want.iter().copied().collect();
            let tolerance = self.rounding(dtype);
            compare(got, &want, tolerance).map_err(|m| format!("fetch {k}: {m}"))?;
        }
        Ok(())
    }

    /// The case with some inputs selected, what to feed it, and whether its operation says that it
    /// moves them; `kinds`: whether what is selected has elements of all kinds.
    fn graph_selecting(
        &self,
        chosen: &[usize],
        kinds: bool,
    ) -> Result<(Graph, Values, bool), String> {
        let (graph, mut feeds) = (crate::graph(), Values::new());
        let mut random = Random::new(&self.name);
        let (mut fed, mut inputs) = (Vec::new(), Vec::new());
        for (i, given) in self.inputs.iter().enumerate() {
            let shape: Shape = given.shape.parse().map_err(|error| format!("{error}"))?;
            let ty = TensorType::new(shape, given.dtype);
            let mut value = given.fill.draw(&ty, &mut random)?;
            let selected = chosen.contains(&i);
            if given.dtype.is_float() && (kinds || !selected) {
                let every = value.data.iter_mut().skip(1).step_by(EVERY);
                let kinds = if selected { &KINDS[..] } else { &KINDS[3..] };
                every.zip(kinds.iter().cycle()).for_each(|(x, kind)| *x = *kind);
            }
            let owed = dim(OWED, 4);
            let value = if selected { row(&value, owed, i % 4)? } else { value };
            let x = graph.input(&given.name, &value.ty.shape, given.dtype);
            feeds.insert(given.name.clone(), value);
            fed.push(x);
            inputs.push(if selected { crate::pick(x, owed, i % 4) } else { x });
        }
        let before = graph.operations().len();
        let ys = (self.build)(&graph, &inputs);
        graph.declare_function("forward", &fed, &ys, Vec::new());
        graph.check().map_err(|report| report.to_string())?;
        let moves = graph.operations()[before..].iter().all(|operation| {
            let types = |ids: &[_]| ids.iter().map(|&t| graph.type_of(t)).collect::<Vec<_>>();
            let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
            let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
            let sets = rule.linear_sets();
            let all = |set: &[usize]| chosen.iter().all(|i| set.contains(i));
            matches!(operation.kind, Kind::Other)
                && rule.linearity() == Linearity::Moves
                && sets.iter().any(|set| all(set))
        });
        Ok((graph, feeds, moves))
    }
}

/// Four rows, of which one is the value.
fn row(value: &Dense, owed: Dimension, at: usize) -> Result<Dense, String> {
    let dims = std::iter::once(owed).chain(value.ty.shape.iter());
    let shape = Shape::new(dims).map_err(|error| error.to_string())?;
    let ty = TensorType::new(shape, value.ty.dtype);
    let other = if ty.dtype == DType::Bool { 1.0 } else { OTHER };
    let count = value.data.len();
    let mut data = vec![other; owed.size * count];
    data[at * count..(at + 1) * count].copy_from_slice(&value.data);
    Ok(Dense { ty, data })
}
