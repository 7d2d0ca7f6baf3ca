//! A profile as tables.

use super::super::lines::digits;
use super::super::product::Product;
use super::{Line, Profile};
use examples::report::print;
use mesh_core::program::{Cost, ValueId};
use mesh_ops::prelude::*;
use std::collections::BTreeMap;
use std::error::Error;

/// How many of the slowest steps are shown.
const DEAREST: usize = 20;

/// A number in a table.
fn cell(value: f64) -> String {
    if value == 0.0 || !value.is_finite() { "-".to_owned() } else { digits(value, 3) }
}

fn row(cells: &[String]) -> Result<(), Box<dyn Error>> {
    Ok(print(&format!("| {} |", cells.join(" | ")))?)
}

fn head(names: &[&str]) -> Result<(), Box<dyn Error>> {
    row(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    Ok(print(&format!("|{}", "---|".repeat(names.len())))?)
}

impl Profile<'_> {
    pub(super) fn print(&self) -> Result<(), Box<dyn Error>> {
        let Self { wall, accounted, bandwidth, threads, .. } = self;
        print(&format!(
            "\nstep {} ms, accounted {} % (processor 0 of {threads} at a time); triad over the \
             step's memory {} GB/s a processor\n",
            digits(*wall, 4),
            digits(accounted * 100.0, 3),
            digits(bandwidth / *threads as f64 / 1e9, 3),
        ))?;
        self.forms()?;
        self.dearest()?;
        self.contractions()
    }

    /// The milliseconds that moving the bytes alone would take one processor.
    fn limit(&self, cost: Cost) -> f64 {
        cost.bytes as f64 / (self.bandwidth / self.threads as f64) * 1e3
    }

    fn rates(&self, ms: f64, cost: Cost) -> [String; 3] {
        let per_second = |count: u64| cell(count as f64 / ms / 1e6);
        [per_second(cost.flops), per_second(cost.bytes), cell(ms / self.limit(cost))]
    }

    fn forms(&self) -> Result<(), Box<dyn Error>> {
        let mut forms: BTreeMap<&str, (f64, u64, Cost)> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.runs > 0) {
            let (ms, runs, cost) = forms.entry(line.step.form.name()).or_default();
            *ms += line.ms;
            *runs += line.runs;
            *cost += line.cost.times(line.runs);
        }
        let mut forms: Vec<_> = forms.into_iter().collect();
        forms.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        head(&["form", "ms", "% of step", "runs", "GFLOP/s", "GB/s", "times its bytes at triad"])?;
        for (form, (ms, runs, cost)) in forms {
            let own = [form.to_owned(), cell(ms), cell(100.0 * ms / self.wall), runs.to_string()];
            row(&[&own[..], &self.rates(ms, cost)].concat())?;
        }
        let border = ["feeds and fetches".to_owned(), cell(self.border)];
        let share = [cell(100.0 * self.border / self.wall), "2".to_owned()];
        row(&[&border[..], &share, &["-", "-", "-"].map(str::to_owned)].concat())
    }

    fn dearest(&self) -> Result<(), Box<dyn Error>> {
        let mut lines: Vec<_> = self.lines.iter().filter(|line| line.runs > 0).collect();
        lines.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        print("")?;
        head(&["form", "ms", "%", "GFLOP/s", "GB/s", "times triad", "operation", "what", "at"])?;
        for line in lines.into_iter().take(DEAREST) {
            let origin = &line.step.origin;
            let own = [line.step.form.name().to_owned(), cell(line.ms)];
            let share = [cell(100.0 * line.ms / self.wall)];
            let [flops, bytes, limit] = self.rates(line.ms, line.cost.times(line.runs));
            let where_ = [origin.name.clone(), line.types(), origin.at.clone()];
            row(&[&own[..], &share, &[flops, bytes, limit], &where_].concat())?;
        }
        Ok(())
    }

    /// Compares the contractions of a step with the same products by `ndarray`: each on matrices
    /// of its own, and all on the same ones.
    fn contractions(&self) -> Result<(), Box<dyn Error>> {
        let mut products: Vec<(Product, u64, f64)> = Vec::new();
        for line in self.lines.iter().filter(|line| line.runs > 0) {
            let Some(product) = Product::of(line.block, line.step) else { continue };
            match products.iter_mut().find(|(known, ..)| *known == product) {
                Some((_, runs, ms)) => (*runs, *ms) = (*runs + line.runs, *ms + line.ms),
                None => products.push((product, line.runs, line.ms)),
            }
        }
        products.sort_by(|a, b| b.2.total_cmp(&a.2));
        print("")?;
        let apart = ["ms by ndarray", "reached", "ms in cache", "reached"];
        head(&[&["product", "runs", "ms in the step", "GFLOP/s"][..], &apart].concat())?;
        let (mut inside, mut outside) = (0.0, 0.0);
        for (product, runs, ms) in products {
            let [alone, cached] =
                [true, false].map(|apart| product.seconds(runs, apart, self.threads) * 1e3);
            let flops = product.flops() * runs as f64 / 1e6;
            let numbers = [ms, flops / ms, alone, alone / ms, cached, cached / ms].map(cell);
            row(&[&[product.to_string(), runs.to_string()][..], &numbers].concat())?;
            (inside, outside) = (inside + ms, outside + alone);
        }
        print(&format!(
            "\ncontractions: {} ms in the step, {} ms by ndarray: {} % of its rate reached",
            cell(inside),
            cell(outside),
            cell(100.0 * outside / inside)
        ))?;
        Ok(())
    }
}

impl Line<'_> {
    /// The types of inputs and results.
    fn types(&self) -> String {
        let list = |ids: &[ValueId]| {
            let types = ids.iter().map(|&id| {
                let value = self.block.value(id);
                let dtype =
                    if value.dtype == F32 { String::new() } else { value.dtype.to_string() };
                let order = if value.in_order() { "" } else { "'" };
                format!("{dtype}{:?}{order}", value.extents.as_slice())
            });
            types.collect::<Vec<_>>().join(" ")
        };
        let inputs: Vec<_> = self.step.reads().collect();
        format!("{} -> {}", list(&inputs), list(&self.step.outs))
    }
}
