//! XLA runs the collectives that a module has, or fewer: it makes one of several, and none of its own.

use super::models::{MODELS, layouts};
use mesh_core::program::{Block, Form};
use std::collections::BTreeMap;
use tests::{fast, plugin};

/// A program's collectives by XLA's names, those of a loop's body once. What one processor sends to all, or all add
/// up on one, is an all-reduce there, of which others look at nothing.
fn ours(block: &Block, counts: &mut BTreeMap<&'static str, usize>) {
    for step in &block.steps {
        let name = match &step.form {
            Form::AllReduce(_) | Form::ReduceTo(_) | Form::Broadcast(_) => "all-reduce",
            Form::AllGather(_) => "all-gather",
            Form::ReduceScatter(_) => "reduce-scatter",
            Form::AllToAll(_) => "all-to-all",
            Form::Permute(_) => "collective-permute",
            Form::Loop(form) => {
                ours(&form.body, counts);
                continue;
            }
            _ => continue,
        };
        *counts.entry(name).or_default() += 1;
    }
}

/// Layouts of a model on a mesh that are compared.
const LAYOUTS: usize = 8;

#[test]
fn xla_adds_no_collective() {
    let Some(plugin) = plugin() else { return };
    let (mut all, mut left) = (0, 0);
    for (model, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        for (layout, module) in layouts(&g, &"a:2;b:2".parse().unwrap(), LAYOUTS) {
            let mut own = BTreeMap::new();
            ours(&module.function("train").unwrap().block, &mut own);
            let found = fast(&plugin).collectives(&module, "train").unwrap();
            let what = format!("{model} under \"{layout}\": {own:?} became {found:?}");
            for (name, count) in &found {
                assert!(own.get(name.as_str()).is_some_and(|own| count <= own), "{what}");
            }
            for (name, count) in &own {
                let fewer = count - found.get(*name).copied().unwrap_or(0);
                if fewer > 0 {
                    println!("{model} under \"{layout}\": {fewer} of {count} {name} merged");
                }
            }
            all += own.values().sum::<usize>();
            left += found.values().sum::<usize>();
        }
    }
    println!("{left} of {all} collectives");
    assert!(left > 0 && left <= all);
}
