//! The ranks of this job, started once per process and left when it exits.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mpi::{Threading, ffi};

use super::DEADLINE;

/// How often a rank looks before it lets others run, when it has a core of its own.
const SPIN: u32 = 2000;

/// How long rank `r` holds back what ends the job: all may have the same to say, and the first to
/// say it ends the others.
const HOLD_BACK: Duration = Duration::from_millis(200);

/// How much longer than the deadline a rank waits for the others to start: a launcher does not start
/// them all at the same moment.
const STARTING: Duration = Duration::from_secs(3);

/// A communicator.
#[derive(Clone, Copy)]
pub(super) struct Channel(pub(super) ffi::MPI_Comm);

// SAFETY: a handle, which MPI lets any thread use; `World::turn` sees to it that one does at a time.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// All ranks of the job.
pub(super) struct World {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How often to look before letting others run.
    pub(super) spin: u32,
    /// Of all ranks, and this framework's alone.
    pub(super) everybody: Channel,
    /// By ranks, in group order.
    channels: Mutex<Vec<(Vec<usize>, Channel)>>,
    turn: Mutex<()>,
}

/// Milliseconds that a rank which is done waits for the others.
static PATIENCE: AtomicU64 = AtomicU64::new(DEADLINE.as_millis() as u64);

/// Whether this process is ending the job.
static ABORTING: AtomicBool = AtomicBool::new(false);

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn on_exit(hook: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

#[cfg(not(target_env = "gnu"))]
unsafe extern "C" {
    fn atexit(hook: extern "C" fn()) -> c_int;
}

/// Ends the process's part in the job when it exits: with the others, or, after a failure, for all.
extern "C" fn leave(status: c_int, _: *mut c_void) {
    let mut finalized = 0;
    // SAFETY: allowed at any time.
    unsafe { ffi::MPI_Finalized(&mut finalized) };
    let Some(Ok(world)) = WORLD.get() else { return };
    if finalized != 0 || ABORTING.load(Ordering::Relaxed) {
        return;
    }
    if status != 0 {
        world.abort();
    }
    if !world.is_everybody_done() {
        let (patience, rank) = (patience().as_secs_f64(), world.rank);
        world.fail(&format!("rank {rank} is done, but others are not, {patience} s later"));
    }
    // SAFETY: everybody has got here, so nothing is under way.
    in_time(patience(), "leaving", || unsafe { ffi::MPI_Finalize() });
}

#[cfg(not(target_env = "gnu"))]
extern "C" fn leave_in_peace() {
    leave(0, ptr::null_mut());
}

static WORLD: OnceLock<Result<World, String>> = OnceLock::new();

/// The ranks, having met at the first call, for which they have about so long.
pub(super) fn world(deadline: Duration) -> Result<&'static World, String> {
    let meet = || in_time(deadline + STARTING, "starting", World::new);
    WORLD.get_or_init(meet).as_ref().map_err(Clone::clone)
}

fn patience() -> Duration {
    Duration::from_millis(PATIENCE.load(Ordering::Relaxed))
}

/// Does what waits for other ranks inside MPI, which knows no deadline: past it this process says so
/// and ends, and the job with it.
fn in_time<T>(deadline: Duration, doing: &'static str, wait: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    let watch = move || {
        if waiting.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
            let seconds = deadline.as_secs_f64();
            eprintln!("error: {doing} MPI: another rank has not done so within {seconds} s");
            std::process::abort()
        }
    };
    // Without memory for a thread it waits as MPI does.
    let _ = thread::Builder::new().name("deadline".to_owned()).spawn(watch);
    let result = wait();
    drop(done);
    result
}

impl World {
    fn new() -> Result<Self, String> {
        if let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Multiple) {
            // Finalizing waits for others, so it is for `leave`.
            std::mem::forget(universe);
            if threading < Threading::Serialized {
                return Err(format!("this MPI can be used by one thread only ({threading:?})"));
            }
            // SAFETY: a function of the signature asked for. That it might not be called again
            // for want of memory costs a message of the launcher's.
            #[cfg(target_env = "gnu")]
            unsafe {
                on_exit(leave, ptr::null_mut())
            };
            // SAFETY: as above.
            #[cfg(not(target_env = "gnu"))]
            unsafe {
                atexit(leave_in_peace)
            };
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a constant.
        let mut everybody = Channel(unsafe { ffi::RSMPI_COMM_NULL });
        // SAFETY: MPI is initialised, the communicator is its own; so are the results.
        unsafe {
            let world = ffi::RSMPI_COMM_WORLD;
            ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN);
            ffi::MPI_Comm_rank(world, &mut rank);
            ffi::MPI_Comm_size(world, &mut size);
            check(ffi::MPI_Comm_dup(world, &mut everybody.0))?;
            ffi::MPI_Comm_set_errhandler(everybody.0, ffi::RSMPI_ERRORS_RETURN);
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = if here(everybody)? <= cores { SPIN } else { 0 };
        let (channels, turn) = (Mutex::default(), Mutex::default());
        Ok(Self { rank: rank as usize, size: size as usize, spin, everybody, channels, turn })
    }

    /// Keeps the other threads of this process from using MPI meanwhile.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to wait for others at the end.
    pub(super) fn set_patience(&self, deadline: Duration) {
        let milliseconds = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        PATIENCE.store(milliseconds, Ordering::Relaxed);
    }

    /// The communicator of some ranks, this one among them, in their order. All of them make it.
    pub(super) fn channel(&self, ranks: &[usize]) -> Result<Channel, String> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = channels.iter().find(|(members, _)| members == ranks) {
            return Ok(*known);
        }
        let list: Vec<c_int> = ranks.iter().map(|&rank| rank as c_int).collect();
        // SAFETY: a constant.
        let mut channel = Channel(unsafe { ffi::RSMPI_COMM_NULL });
        // SAFETY: the list has that many ranks, which exist; the groups are freed after use.
        unsafe {
            let (mut all, mut group) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL);
            check(ffi::MPI_Comm_group(self.everybody.0, &mut all))?;
            let count = list.len() as c_int;
            check(ffi::MPI_Group_incl(all, count, list.as_ptr(), &mut group))?;
            let made = in_time(patience(), "making a group in", || {
                ffi::MPI_Comm_create_group(self.everybody.0, group, 0, &mut channel.0)
            });
            ffi::MPI_Group_free(&mut group);
            ffi::MPI_Group_free(&mut all);
            check(made)?;
            ffi::MPI_Comm_set_errhandler(channel.0, ffi::RSMPI_ERRORS_RETURN);
        }
        channels.push((ranks.to_vec(), channel));
        Ok(channel)
    }

    /// Waits for all ranks to be done, but not for ever.
    fn is_everybody_done(&self) -> bool {
        let (patience, began, mut done) = (patience(), Instant::now(), 0);
        // SAFETY: the request is made and tested here; if it is not done, the process ends.
        unsafe {
            let mut request = ffi::RSMPI_REQUEST_NULL;
            ffi::MPI_Ibarrier(self.everybody.0, &mut request);
            while done == 0 && began.elapsed() < patience {
                ffi::MPI_Test(&mut request, &mut done, ffi::RSMPI_STATUS_IGNORE);
                thread::sleep((began.elapsed() / 16).min(Duration::from_millis(2)));
            }
        }
        done != 0
    }

    /// Says why the job ends, and ends it.
    pub(super) fn fail(&self, message: &str) -> ! {
        thread::sleep(HOLD_BACK * self.rank.min(20) as u32);
        eprintln!("error: {message}");
        self.abort()
    }

    fn abort(&self) -> ! {
        ABORTING.store(true, Ordering::Relaxed);
        // SAFETY: allowed at any time between initialising and finalizing.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
        std::process::abort()
    }
}

/// How many ranks are on this host.
fn here(everybody: Channel) -> Result<usize, String> {
    let (mut shared, mut count) = (everybody.0, 0);
    // SAFETY: all ranks call this; the communicator is freed after use.
    unsafe {
        let (kind, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
        check(ffi::MPI_Comm_split_type(everybody.0, kind, 0, info, &mut shared))?;
        ffi::MPI_Comm_size(shared, &mut count);
        ffi::MPI_Comm_free(&mut shared);
    }
    Ok(count as usize)
}

/// What MPI says of a call that failed.
pub(super) fn check(code: c_int) -> Result<(), String> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let (mut text, mut length) = ([0_u8; ffi::MPI_MAX_ERROR_STRING as usize], 0);
    // SAFETY: as long as it may be.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    let text = &text[..(length.max(0) as usize).min(text.len())];
    Err(format!("MPI: {}", String::from_utf8_lossy(text)))
}
