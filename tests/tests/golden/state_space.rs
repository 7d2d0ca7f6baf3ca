//! State-space layers against a loop over positions in PyTorch.

use crate::Builder;
use mesh_ops::AssociativeScan;
use mesh_ops::layers::*;

/// Builders of `torch_state_space.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("selective_scan", |i| {
        let how = AssociativeScan { blocks: Some(i.size("blocks")), ..Default::default() };
        vec![selective_scan(i.x[0], i.x[1], i.x[2], i.x[3], i.x[4], i.dim("time"), how)]
    }),
    ("mamba", |i| {
        let [time, model, inner, state] =
            ["time", "model", "inner", "state"].map(|name| i.dim(name));
        let block = Mamba::new(time, model, inner, state).rank(i.dim("delta_rank"));
        let block = block.taps(i.dim("taps").size);
        let weights = MambaWeights {
            input: i.x[1],
            filter: i.x[2],
            filter_bias: i.x[3],
            delta_down: i.x[4],
            b: i.x[5],
            c: i.x[6],
            delta_up: i.x[7],
            delta_bias: i.x[8],
            log_a: i.x[9],
            skip: i.x[10],
            output: i.x[11],
        };
        vec![block.apply(i.x[0], &weights)]
    }),
];
