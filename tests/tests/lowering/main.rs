//! What lowering makes of a layout: the collectives, owned variables, and where sums are settled.

mod all_reduce;
mod counters;
mod explained;
mod legal;
mod memory;
mod owned;
mod parts;
mod presets;
mod reduced;
mod relayout;
mod scaling;
mod selections;
mod stablehlo;
mod structure;
