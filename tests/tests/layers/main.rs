//! Layers against closed forms, naive loops and counted collectives.

mod attention;
mod attention_to_less;
mod decoding;
mod dense;
mod exchanges;
mod fed;
mod hierarchies;
mod long;
mod losses;
mod mixtures;
mod norms;
mod refusals;
mod rings;
mod traffic;
