//! A back-end of a user's own, of the public interface alone: it notes what a session asks of it.

use super::models::mlp;
use super::{ROUNDING, STEPS, assert_near, trained};
use mesh_core::array::ArrayRef;
use mesh_core::names::ProcessMap;
use mesh_core::session::{Backend, Capabilities, Error, Failure, Reference};
use mesh_ops::prelude::*;
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

/// What was asked for, in order.
type Notes = Arc<Mutex<Vec<String>>>;

struct Recorder {
    inner: Reference,
    notes: Notes,
}

impl Recorder {
    fn note(&self, what: String) {
        self.notes.lock().unwrap().push(what);
    }
}

impl Backend for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn map(&self) -> &ProcessMap {
        self.inner.map()
    }

    fn seed(&self) -> u64 {
        self.inner.seed()
    }

    fn set_seed(&mut self, seed: u64) {
        self.note(format!("seed {seed}"));
        self.inner.set_seed(seed);
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        let shapes: Vec<_> = feeds.iter().map(|feed| format!("{:?}", feed.shape())).collect();
        self.note(format!("call {function} with {}", shapes.join(", ")));
        self.inner.call(function, feeds, fetches, probes)
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        self.note(format!("slice of variable {variable}"));
        self.inner.slice(processor, variable)
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.note(format!("set variable {variable} on {processor}: {} bytes", bytes.len()));
        self.inner.set_slice(processor, variable, bytes)
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        self.inner.fetched_slice(processor, function, fetch)
    }
}

#[test]
fn a_session_asks_for_calls_and_slices() {
    let g = mesh_ops::graph();
    mlp(&g);
    let layout = "batch:rows;hidden:cols".parse().unwrap();
    let module = g.lower(&"rows:2;cols:2".parse().unwrap(), &layout).unwrap();
    let notes = Notes::default();
    let start = || {
        let inner = Reference::new(&module, 7).unwrap();
        Session::on(&module, Recorder { inner, notes: Arc::clone(&notes) }).unwrap()
    };
    let found = trained(start(), &module);
    let expected = trained(Session::threads(&module, 7).unwrap(), &module);
    assert_near("recorded", &found, &expected, ROUNDING);
    let taken = std::mem::take(&mut *notes.lock().unwrap());
    // The initialisation comes behind the one function.
    assert_eq!(taken[0], "call 1 with ");
    let calls = taken.iter().filter(|note| *note == "call 0 with [8, 12], [8]").count();
    assert_eq!(calls, STEPS);
    assert!(taken.iter().any(|note| note == "slice of variable 0"), "{taken:?}");

    let mut session = start();
    session.write("logits/bias", &Array::zeros(F32, &[4])).unwrap();
    let notes = notes.lock().unwrap();
    let set: Vec<_> = notes.iter().filter(|note| note.starts_with("set")).collect();
    assert_eq!(set.len(), 4, "every processor holds the bias: {set:?}");
    assert!(set.iter().all(|note| note.ends_with("16 bytes")), "{set:?}");
}

#[test]
fn what_it_cannot_do_is_an_error() {
    let g = mesh_ops::graph();
    mlp(&g);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let inner = Reference::new(&module, 7).unwrap();
    let mut session = Session::on(&module, Recorder { inner, notes: Notes::default() }).unwrap();
    let error: Error = session.record(true).unwrap_err();
    assert!(
        error.to_string().contains("back-end recorder cannot record when steps run"),
        "{error}"
    );
    assert!(session.record(false).is_ok());
    assert!(session.recorded(0).is_none());
}
