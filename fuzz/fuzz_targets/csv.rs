#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mesh_fuzz::csv(bytes));
