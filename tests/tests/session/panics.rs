//! A user's kernel may panic in any way: its call fails, and neither returns nor unwinds while
//! another processor works on the caller's arrays.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use mesh_core::graph::{Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, Module};
use mesh_core::program::{Elements, ElementsMut, UserKernel, Value, View, ViewMut};
use mesh_core::session::Threads;
use mesh_core::split::SplitRule;
use mesh_ops::prelude::*;
use ndarray::{Array1, Array2};

const PROCESSORS: usize = 4;

/// Panics when it is dropped, with another bomb as the payload, so many times.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            resume_unwind(Box::new(Self(self.0 - 1)));
        }
    }
}

/// Copies its input. The processor that finds a number below 0 panics; the others are slower.
#[derive(Clone, Debug)]
struct Fragile {
    panic: fn(),
    /// How many processors are running.
    running: Arc<AtomicUsize>,
}

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.running, &other.running)
    }
}

impl Eq for Fragile {}

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.running).hash(state);
    }
}

impl UserKernel for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn flops(&self, _: &[&Value], _: &[&Value]) -> u64 {
        0
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        let (Elements::F32(x), ElementsMut::F32(y)) = (inputs[0].elements, &mut outs[0].elements)
        else {
            return;
        };
        if x[0] < 0.0 {
            (self.panic)();
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        for _ in 0..if x[0] == 0.0 { 1 } else { 10 } {
            sleep(Duration::from_millis(1));
            // The input is the caller's own array.
            y.copy_from_slice(x);
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Op for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let outs = [(cx.output_shape(0), cx.output_dtype(0))];
        let made = cx.call(self.clone(), &cx.inputs(), &outs);
        made.into_iter().try_for_each(|value| cx.finish(0, value))
    }
}

/// Starts a session.
type Start = fn(&Module) -> Session;

const STARTS: [(&str, Start); 3] = [
    ("the caller's thread is a processor's", |module| Session::threads(module, 0).unwrap()),
    ("with couriers", |module| {
        Session::threads_with(module, 0, &Threads::default().couriers(true)).unwrap()
    }),
    ("on cores", |module| {
        Session::threads_with(module, 0, &Threads::default().cores([0; PROCESSORS])).unwrap()
    }),
];

const PANICS: [(&str, fn()); 3] = [
    ("no, thanks", || panic!("no, {}", "thanks")),
    ("a panic without a message", || panic_any(Bomb(1))),
    ("a panic without a message", || panic_any(Bomb(3))),
];

#[test]
fn no_panic_passes_a_processor_that_runs() {
    for (start, session) in STARTS {
        for (message, panic) in PANICS {
            for panicking in 0..PROCESSORS {
                let running = Arc::new(AtomicUsize::new(0));
                let g = mesh_ops::graph();
                let x = g.input("x", [dim("p", PROCESSORS), dim("q", 1000)], F32);
                let copy = g.apply1(Fragile { panic, running: Arc::clone(&running) }, &[x]);
                let line = line!() - 1;
                // A collective that no processor leaves without the one that panics.
                let f = g.function("f", [x], [copy.sum([dim("p", PROCESSORS)])], []);
                let mesh = format!("a:{PROCESSORS}").parse().unwrap();
                let module = g.lower(&mesh, &"p:a".parse().unwrap()).unwrap();
                let mut session = session(&module);
                let good = Array2::<f32>::zeros((PROCESSORS, 1000));
                let [sums] = session.call(&f, [good.view().into()]).unwrap();
                assert_eq!(sums, Array1::<f32>::zeros(1000).into());

                let mut bad = Array2::<f32>::ones((PROCESSORS, 1000));
                bad[[panicking, 0]] = -1.0;
                let called = AssertUnwindSafe(|| session.call(&f, [bad.view().into()]));
                let called = catch_unwind(called);
                let left = running.load(Ordering::SeqCst);
                drop(bad);
                let what = format!("{start}: processor {panicking}, {message}");
                assert_eq!(left, 0, "{what}");
                let error = called.unwrap_or_else(|_| panic!("{what}: it unwinds"));
                let error = error.unwrap_err().to_string();
                let at = format!("panics.rs:{line}");
                for part in [&format!("processor {panicking} failed"), &at, message] {
                    assert!(error.contains(part), "{what}: {error}");
                }
                let again = session.call(&f, [good.view().into()]);
                assert_eq!(again.unwrap_err().to_string(), error, "{what}");
            }
        }
    }
}
