//! PJRT's C interface: what is used here of the structs and functions of `xla/pjrt/c/pjrt_c_api.h`, and how a
//! function is called.
//!
//! Every struct begins with its size, so that plugins and their callers may be of different versions: a plugin
//! reads what it knows of, and takes what lies behind for later additions. The structs are those of version
//! 0.114; fields are only ever added at the end.
#![allow(unsafe_code, reason = "calls a plugin's functions")]

mod ahead;
mod buffer;
mod client;
mod executable;
mod header;

use std::ffi::c_void;
use std::path::Path;
use std::{fmt, slice};

use libloading::Library;

pub(super) use self::ahead::Topology;
pub(super) use self::buffer::{Buffer, Element};
pub(super) use self::client::Client;
pub(super) use self::executable::Executable;
use self::header::{Arguments, ErrorCode, ErrorDestroy, ErrorMessage, Handle, Initialize, Table};

/// The version of the interface that the structs are those of; another major version is another interface.
pub(super) const MAJOR: i32 = 0;

/// The oldest minor version that was tried.
pub(super) const OLDEST: i32 = 81;

// SAFETY: a plugin's table is constant, and its functions may be called on any thread.
unsafe impl Send for Table {}
// SAFETY: a plugin's table is constant, and its functions may be called on any thread.
unsafe impl Sync for Table {}

/// Why a library is no plugin.
#[derive(Debug)]
pub(super) enum Unusable {
    /// The system does not load it.
    Unloadable(String),
    /// It exports no `GetPjrtApi`, or that returns nothing.
    NoPlugin,
    /// It is of another version of the interface.
    Version(i32, i32),
    /// Its table is shorter than its version says.
    Short(usize),
}

/// Why a function of the plugin's did nothing.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{kind}: {message}")]
pub(super) struct Failed {
    pub(super) kind: &'static str,
    pub(super) message: String,
}

/// Names of the codes, which are those of `absl::StatusCode`.
const KINDS: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Failed {
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The functions of a plugin.
#[derive(Clone, Copy)]
pub(super) struct Api(&'static Table);

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Api").field(&self.version()).finish()
    }
}

impl Api {
    /// Loads a plugin's library. It stays loaded: what a plugin starts does not end before the process.
    pub(super) fn load(path: &Path) -> Result<Self, Unusable> {
        // SAFETY: the initialisers of a library that the user names run, as those of this program did.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| Unusable::Unloadable(error.to_string()))?;
        // SAFETY: the interface's entry has this type.
        let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const Table>("GetPjrtApi") };
        let entry = *entry.map_err(|_| Unusable::NoPlugin)?;
        std::mem::forget(library);
        // SAFETY: the library is never unloaded, and the entry takes nothing.
        let table = unsafe { entry() };
        if table.is_null() {
            return Err(Unusable::NoPlugin);
        }
        // SAFETY: tables of every version begin with these fields.
        let (size, version) = unsafe { ((*table).struct_size, (*table).version) };
        if version.major != MAJOR || version.minor < OLDEST {
            return Err(Unusable::Version(version.major, version.minor));
        }
        if size < size_of::<Table>() {
            return Err(Unusable::Short(size));
        }
        // SAFETY: it is as large as this, constant, and in a library that is never unloaded.
        Ok(Self(unsafe { &*table }))
    }

    /// Major and minor version of the interface.
    pub(super) fn version(self) -> (i32, i32) {
        (self.0.version.major, self.0.version.minor)
    }

    /// What a plugin wants called once, before anything else.
    pub(super) fn initialize(self) -> Result<(), Failed> {
        // SAFETY: there is nothing in the arguments.
        unsafe { self.call(&mut Initialize::default()) }
    }

    /// Calls a function.
    ///
    /// # Safety
    ///
    /// The handles are alive, and the pointers good for what the header says of them.
    unsafe fn call<A: Arguments>(self, arguments: &mut A) -> Result<(), Failed> {
        let function = self.0.functions[A::SLOT];
        if function.is_null() {
            return Err(Failed::new("UNIMPLEMENTED", format!("the plugin has no {}", A::NAME)));
        }
        // SAFETY: what stands in this place of the table has this type.
        let error = unsafe {
            type Function<A> = unsafe extern "C" fn(*mut A) -> Handle;
            std::mem::transmute::<*const c_void, Function<A>>(function)(arguments)
        };
        if error.is_null() { Ok(()) } else { Err(self.failed(error)) }
    }

    /// Calls one of the functions that return nothing.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    unsafe fn tell<A: Arguments>(self, arguments: &mut A) {
        let function = self.0.functions[A::SLOT];
        if !function.is_null() {
            // SAFETY: what stands in this place of the table has this type.
            unsafe {
                type Function<A> = unsafe extern "C" fn(*mut A);
                std::mem::transmute::<*const c_void, Function<A>>(function)(arguments);
            }
        }
    }

    /// The text of an error, which ends with it.
    fn failed(self, error: Handle) -> Failed {
        let mut code = ErrorCode { error, ..ErrorCode::default() };
        let mut text = ErrorMessage { error, ..ErrorMessage::default() };
        // SAFETY: the error is alive until the last of these calls; its text is as long as it says.
        unsafe {
            let _ = self.call(&mut code);
            self.tell(&mut text);
            let message = words(text.message, text.size);
            self.tell(&mut ErrorDestroy { error, ..ErrorDestroy::default() });
            Failed::new(KINDS.get(code.code as usize).copied().unwrap_or("UNKNOWN"), message.trim())
        }
    }
}

/// A copy of a text of the plugin's.
///
/// # Safety
///
/// There are so many bytes at this address, or it is null.
unsafe fn words(text: *const u8, size: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: so many bytes are there.
    String::from_utf8_lossy(unsafe { slice::from_raw_parts(text, size) }).into_owned()
}
