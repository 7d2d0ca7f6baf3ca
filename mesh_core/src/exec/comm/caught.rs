//! Panics as values: where others go on with memory that a thread would free if it unwound, it must
//! not unwind.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `run` gives, or what it said when it panicked. Never unwinds.
///
/// A panic's payload is the panicking code's own value, so that dropping it may panic as well; what
/// that panics with is leaked.
pub(in crate::exec) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let said = message(&*panic).to_owned();
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            forget(another);
        }
        said
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
