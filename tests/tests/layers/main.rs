//! Layers against closed forms, naive loops and counted collectives.

mod attention;
mod decoding;
mod dense;
mod fed;
mod losses;
mod mixtures;
mod norms;
mod refusals;
mod traffic;
