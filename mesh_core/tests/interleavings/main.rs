//! Every order in which threads may meet, as far as a model checker (loom) tells them apart.
//!
//! The files of `exec/` that wait are compiled here once more, against loom's atomics, locks and cells
//! (`sync.rs` beside this file). Loom runs each model in every order of its threads' operations, with
//! every value that a load may return under the C11 memory model, and fails on a data race, on a
//! deadlock, and on an assertion.

#![allow(clippy::unwrap_used, reason = "a failure fails the model")]

#[path = "../../src/exec"]
mod exec {
    #[path = "../../tests/interleavings/sync.rs"]
    mod sync;

    mod comm {
        mod caught;
        mod stop;
        pub(super) use self::caught::caught;
        pub(super) use self::stop::{Bell, Padded, Stop, Stopped};
    }

    #[allow(dead_code, reason = "collectives need more of these files than waiting does")]
    mod threads {
        mod barrier;
        mod meeting;
        mod pool;

        #[path = "../../../tests/interleavings/models.rs"]
        mod models;
    }
}
