//! The executor: programs to numbers.

#![allow(unsafe_code, reason = "kernels work on raw memory of planned arenas")]

pub(crate) mod cpu;
