//! What lowering makes of a layout: which collectives and how many, what is owned, where sums are settled.

mod all_reduce;
mod counters;
mod memory;
mod owned;
mod reduced;
mod relayout;
mod scaling;
mod selections;
mod structure;
