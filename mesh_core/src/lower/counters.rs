//! What a module computes and sends, counted as Mesh TensorFlow counts it.

use super::Module;
use crate::names::Mesh;
use crate::program::{Block, Form, Step};
use indexmap::IndexMap;

impl Module {
    /// Counters of a function under the keys of Mesh TensorFlow's `Lowering`, in elements, all processors
    /// together, replicas counted:
    ///
    /// | key | what is counted |
    /// |---|---|
    /// | `{op}` | multiply-adds of the products of operations of this kind |
    /// | `output/{op}` | elements that operations of this kind make |
    /// | `allreduce/[{axes}]/{op}` | elements of sums over processors, for operations of this kind |
    /// | `alltoall/{axes}/{op}`, `allconcat/{axes}/{op}` | elements before an all-to-all, after an all-gather |
    /// | `reducescatter/[{axes}]/{op}`, `permute/{axes}/{op}`, … | elements before other collectives |
    ///
    /// Upstream names the operation that owes a sum, and here it is that which needs it; the sums of
    /// keys that begin alike are comparable. `None` if there is no such function.
    pub fn counters(&self, function: &str) -> Option<IndexMap<String, u64>> {
        let program = self.function(function)?;
        let mut counters = IndexMap::new();
        count(&mut counters, &program.block, self.mesh(), 1);
        counters.sort_keys();
        Some(counters)
    }
}

fn count(counters: &mut IndexMap<String, u64>, block: &Block, mesh: &Mesh, times: u64) {
    let everywhere = times * mesh.processors() as u64;
    for step in &block.steps {
        let mut add = |key: String, elements: usize| {
            *counters.entry(key).or_default() += elements as u64 * everywhere;
        };
        let op = &step.origin.op;
        let read: usize = step.reads().map(|id| block.value(id).len()).sum();
        let made: usize = step.outs.iter().map(|id| block.value(*id).len()).sum();
        let axes = step.axes().map(|axes| mesh.list(axes)).unwrap_or_default();
        match &step.form {
            Form::AllReduce(_) => add(format!("allreduce/[{axes}]/{op}"), made),
            Form::ReduceScatter(_) => add(format!("reducescatter/[{axes}]/{op}"), read),
            Form::ReduceTo(_) => add(format!("reduceto/[{axes}]/{op}"), read),
            Form::AllToAll(_) => add(format!("alltoall/{axes}/{op}"), read),
            Form::AllGather(_) => add(format!("allconcat/{axes}/{op}"), made),
            Form::Permute(_) => add(format!("permute/{axes}/{op}"), read),
            Form::Broadcast(_) => add(format!("broadcast/{axes}/{op}"), read),
            Form::Await(_) => {}
            form => {
                if matches!(form, Form::Contract(_)) {
                    add(op.clone(), products(block, step));
                }
                add(format!("output/{op}"), made);
            }
        }
        if let Form::Loop(form) = &step.form {
            count(counters, &form.body, mesh, times * form.expected() as u64);
        }
    }
}

/// Multiply-adds of a product: the size of its space, which its labels number.
fn products(block: &Block, step: &Step) -> usize {
    let mut sizes: IndexMap<u8, usize> = IndexMap::new();
    for input in &step.inputs {
        let extents = &block.value(input.value).extents;
        sizes.extend(input.dims.iter().copied().zip(extents.iter().copied()));
    }
    sizes.values().product()
}
