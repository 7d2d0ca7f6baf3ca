//! Derivatives against finite differences, and a case as a whole against its own meaning: on one
//! processor, in f64, by the reference.

use super::case::Case;
use super::compare::{Tolerance, compare};
use super::fill::Random;
use super::graph::Trial;
use super::known::Known;
use super::layouts::all_layouts;
use super::reference::{Dense, Met, Reference, Values};
use mesh_core::graph::TensorId;
use mesh_core::names::{DType, stable_hash};

/// Step of the finite differences. In f64 the error of a central difference is about
/// `step^2 + 1e-16 / step`, so some 1e-10.
const STEP: f64 = 1.0 / 131_072.0;

/// Differences are compared at this: their error with four digits to spare for steep functions.
const DIFFERENCES: Tolerance = Tolerance::Within(1e-6);

/// Two ways to compute the same in f64: nothing is rounded but the numbers that a composition multiplies
/// with, to the dtype of what it multiplies.
fn whole(dtype: DType) -> Tolerance {
    match dtype {
        DType::F32 => Tolerance::Within(16.0 * f64::from(f32::EPSILON)),
        DType::F64 => Tolerance::Within(1e-9),
        other => Tolerance::of(other),
    }
}

/// Of so many cases one has its third derivatives checked, unless everything is asked for.
const THIRD_IN: u64 = 4;

/// The orders of derivatives after the gradient.
const HIGHER: [usize; 2] = [2, 3];

impl Case {
    /// The ops of the case against what it says that it computes, for two draws of its inputs.
    pub(super) fn compared_as_a_whole(&self, trial: &Trial) -> Result<(), String> {
        let Some(meaning) = &self.whole else { return Ok(()) };
        let made = &trial.made;
        let types: Vec<_> = made.outputs.iter().map(|&id| trial.graph.type_of(id)).collect();
        let variables = trial.graph.variable_names();
        let variables: Vec<_> = variables.iter().filter_map(|v| trial.variables.get(v)).collect();
        for draw in ["", ", drawn again"] {
            let mut random = Random::new(&format!("{}{draw}", self.name));
            let mut feeds = trial.feeds.clone();
            for given in &self.inputs {
                let ty = feeds[&given.name].ty.clone();
                feeds.insert(given.name.clone(), given.fill.draw(&ty, &mut random)?);
            }
            let reference = trial.reference(self);
            let values = reference.evaluate(&feeds, &trial.variables, &made.outputs)?;
            let inputs = self.inputs.iter().map(|given| &feeds[&given.name]);
            let inputs: Vec<&Dense> = inputs.chain(variables.iter().copied()).collect();
            let wanted = meaning(&inputs, &types);
            if wanted.len() != made.outputs.len() {
                return Err(format!("{} tensors by its own meaning", wanted.len()));
            }
            for (k, (id, want)) in made.outputs.iter().zip(&wanted).enumerate() {
                let found = &values[id];
                if found.ty != want.ty {
                    return Err(format!("output {k} is {}, not {}", found.ty, want.ty));
                }
                compare(found.data.iter().copied(), &want.data, whole(want.ty.dtype)).map_err(
                    |m| format!("its ops against its own meaning{draw}: output {k}: {m}"),
                )?;
            }
        }
        Ok(())
    }

    /// The gradient graph against differences, both by the reference; returns what that met.
    pub(super) fn differences(&self, trial: &Trial) -> Result<Vec<Met>, String> {
        let reference = trial.reference(self).recording();
        let values = reference.evaluate(&trial.feeds, &trial.variables, &trial.made.wanted())?;
        let met = reference.recorded();
        let Some(loss) = trial.made.loss else { return Ok(met) };
        let scalar = Scalar { reference: trial.reference(self), trial, id: loss };
        for (name, gradient) in &trial.made.gradients {
            // What one processor computes is rounded.
            let tolerance = match met.iter().all(|met| met.explained) {
                true => DIFFERENCES,
                false => DIFFERENCES.max(self.tolerance(trial, trial.feeds[name].ty.dtype)),
            };
            scalar
                .compare(name, gradient.map(|id| &values[&id]), tolerance)
                .map_err(|message| format!("gradient of {name} against differences: {message}"))?;
        }
        Ok(met)
    }

    /// Whether derivatives of this order are checked even if not everything is asked for.
    pub(super) fn in_turn(&self, order: usize) -> bool {
        order < 3 || stable_hash(&self.name).is_multiple_of(THIRD_IN)
    }

    /// Derivatives of higher orders: against differences of those of the order below, and one
    /// processor against the reference. Says why there are none if an op of the gradient has no gradient.
    pub(super) fn higher(&self) -> Result<(Vec<Known<'_>>, Option<String>), String> {
        let mut found = Vec::new();
        for order in HIGHER {
            if !self.in_turn(order) && !all_layouts() {
                break;
            }
            let trial = match Trial::derivatives(self, order) {
                Ok(Some(trial)) => trial,
                Ok(None) => break,
                Err(message) if order == 2 => return Ok((found, Some(message))),
                Err(message) => return Err(format!("derivatives of order {order}: {message}")),
            };
            self.derivatives(&trial)
                .map_err(|message| format!("derivatives of order {order}: {message}"))?;
            found.push(Known::new(self, trial, format!("derivatives of order {order}"))?);
        }
        Ok((found, None))
    }

    /// Derivatives against differences: along a line through all elements of each feed, or element by
    /// element if everything is asked for.
    fn derivatives(&self, trial: &Trial) -> Result<(), String> {
        let Some(loss) = trial.made.loss else { return Ok(()) };
        let wanted = trial.made.wanted();
        let reference = trial.reference(self);
        let values = reference.evaluate(&trial.feeds, &trial.variables, &wanted)?;
        let scalar = Scalar { reference, trial, id: loss };
        let mut random = Random::new(&self.name);
        for (name, gradient) in &trial.made.gradients {
            let gradient = gradient.map(|id| &values[&id]);
            let compared = match all_layouts() {
                true => scalar.compare(name, gradient, DIFFERENCES),
                false => scalar.compare_along_a_line(name, gradient, &mut random),
            };
            compared.map_err(|message| format!("by {name} against differences: {message}"))?;
        }
        Ok(())
    }
}

/// A scalar of a trial, by the reference.
struct Scalar<'a> {
    reference: Reference<'a>,
    trial: &'a Trial,
    id: TensorId,
}

impl Scalar<'_> {
    /// Its derivative with respect to every element that is fed under a name, against a gradient; without
    /// one they are zeros.
    fn compare(
        &self,
        name: &str,
        gradient: Option<&Dense>,
        tolerance: Tolerance,
    ) -> Result<(), String> {
        let fed = &self.trial.feeds[name];
        let along = |i: usize| {
            let mut line = vec![0.0; fed.data.len()];
            line[i] = 1.0;
            self.derivative(name, &line)
        };
        let want = (0..fed.data.len()).map(along).collect::<Result<Vec<_>, _>>()?;
        let zeros = vec![0.0; want.len()];
        let got = gradient.map_or(&zeros, |gradient| &gradient.data);
        compare(got.iter().copied(), &want, tolerance)
    }

    /// Its derivative along a line through everything that is fed under a name, one of two directions for
    /// each element.
    fn compare_along_a_line(
        &self,
        name: &str,
        gradient: Option<&Dense>,
        random: &mut Random,
    ) -> Result<(), String> {
        let count = self.trial.feeds[name].data.len();
        let line: Vec<_> = (0..count).map(|_| 1.0 - 2.0 * random.below(2) as f64).collect();
        let products = gradient.map(|gradient| gradient.data.iter().zip(&line).map(|(g, l)| g * l));
        let got = products.map_or(0.0, Iterator::sum);
        compare([got], &[self.derivative(name, &line)?], DIFFERENCES)
    }

    fn derivative(&self, name: &str, line: &[f64]) -> Result<f64, String> {
        Ok((self.moved(name, line, STEP)? - self.moved(name, line, -STEP)?) / (2.0 * STEP))
    }

    /// Its value where a feed is moved along a line.
    fn moved(&self, name: &str, line: &[f64], by: f64) -> Result<f64, String> {
        let mut feeds: Values = self.trial.feeds.clone();
        let fed = feeds.get_mut(name).ok_or("no such feed")?;
        fed.data.iter_mut().zip(line).for_each(|(x, direction)| *x += by * direction);
        let values = self.reference.evaluate(&feeds, &self.trial.variables, &[self.id])?;
        Ok(values[&self.id].data[0])
    }
}
