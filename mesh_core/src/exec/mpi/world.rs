//! The ranks of this job, started once per process and left when it exits.

use std::ffi::{c_int, c_void};
use std::io::{self, Write};
use std::ptr;
use std::time::{Duration, Instant};

use mpi::{Threading, ffi};

use super::super::sync::mpsc::{RecvTimeoutError, channel};
use super::super::sync::{
    AtomicBool, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, lock, thread,
};
use super::DEADLINE;
use super::channel::{Channel, Known, check};

/// How much longer than the rank before it, up to ten, a rank holds back what ends the job: all may have
/// the same to say, and the first to say it ends the others, which takes a launcher a while.
const HOLD_BACK: Duration = Duration::from_millis(400);

/// How much longer than the deadline a rank waits for the others to start: a launcher does not start
/// them all at the same moment.
const STARTING: Duration = Duration::from_secs(3);

/// The most cores of a host that are told apart.
const CORES: usize = 4096;

/// All ranks of the job.
pub(super) struct World {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How many cores this rank has, where those of its host share what they may run on.
    pub(super) cores: usize,
    /// Of all ranks, and this framework's alone.
    pub(super) everybody: Channel,
    /// The largest tag of a message.
    pub(super) largest_tag: c_int,
    /// Those made so far.
    pub(super) communicators: Mutex<Known>,
    turn: Mutex<()>,
    /// For an MPI that one thread may use at a time.
    one_by_one: Option<Mutex<()>>,
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
    in_time(patience(), "leaving MPI", || unsafe { ffi::MPI_Finalize() });
}

#[cfg(not(target_env = "gnu"))]
extern "C" fn leave_in_peace() {
    leave(0, ptr::null_mut());
}

static WORLD: OnceLock<Result<World, String>> = OnceLock::new();

/// The ranks, having met at the first call, for which they have about so long.
pub(super) fn world(deadline: Duration) -> Result<&'static World, String> {
    let meet = || in_time(deadline.saturating_add(STARTING), "starting MPI", World::new);
    WORLD.get_or_init(meet).as_ref().map_err(Clone::clone)
}

fn patience() -> Duration {
    Duration::from_millis(PATIENCE.load(Ordering::Relaxed))
}

/// Does what waits for other ranks inside MPI, which knows no deadline: past it this process says so
/// and ends, and the job with it.
pub(super) fn in_time<T>(deadline: Duration, doing: &'static str, wait: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    let watch = move || {
        if waiting.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
            let seconds = deadline.as_secs_f64();
            let problem = format!("another rank has not done so within {seconds} s");
            // The process ends whether it can say why or not.
            let _ = writeln!(io::stderr(), "error: {doing}: {problem}");
            std::process::abort()
        }
    };
    // Without memory for a thread it waits as MPI does.
    let watch = thread::Builder::new().name("deadline".to_owned()).spawn(watch);
    let result = wait();
    drop(done);
    // Nobody is left behind who still starts while steps run.
    let _ = watch.map(thread::JoinHandle::join);
    result
}

impl World {
    fn new() -> Result<Self, String> {
        if let Some((universe, _)) = mpi::initialize_with_threading(Threading::Multiple) {
            // Finalizing waits for others, so it is for `leave`.
            std::mem::forget(universe);
            // SAFETY: a function of the signature asked for. That it might not be called again
            // for want of memory costs a message of the launcher's.
            #[cfg(target_env = "gnu")]
            unsafe {
                on_exit(leave, ptr::null_mut())
            };
            // SAFETY: a function of the signature asked for, which may be called at any exit.
            #[cfg(not(target_env = "gnu"))]
            unsafe {
                atexit(leave_in_peace)
            };
        }
        // Somebody else may have initialised MPI.
        let threading = mpi::environment::threading_support();
        if threading < Threading::Serialized {
            return Err(format!("this MPI can be used by one thread only ({threading:?})"));
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
        }
        everybody.entitle("mesh")?;
        // Tests on two ranks go one way, on more the other.
        let several = threading >= Threading::Multiple && !(cfg!(test) && size == 2);
        Ok(Self {
            rank: rank as usize,
            size: size as usize,
            cores: cores(everybody)?,
            everybody,
            largest_tag: largest_tag()?,
            communicators: Mutex::default(),
            turn: Mutex::default(),
            one_by_one: (!several).then(Mutex::default),
        })
    }

    /// Keeps other sessions of this process from talking to other ranks meanwhile.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Held while MPI is called, where that must not be by several threads at once.
    pub(super) fn guard(&self) -> Option<MutexGuard<'_, ()>> {
        self.one_by_one.as_ref().map(lock)
    }

    /// How long to wait for others at the end.
    pub(super) fn set_patience(&self, deadline: Duration) {
        let milliseconds = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        PATIENCE.store(milliseconds, Ordering::Relaxed);
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
        thread::sleep(HOLD_BACK * self.rank.min(10) as u32);
        // In one piece, lest the launcher writes between two.
        let _ = io::stderr().write_all(format!("error: {message}\n").as_bytes());
        self.abort()
    }

    fn abort(&self) -> ! {
        ABORTING.store(true, Ordering::Relaxed);
        // SAFETY: allowed at any time between initialising and finalizing.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
        std::process::abort()
    }
}

/// How many cores this rank has: those that any rank of the host may run on, shared evenly, and no
/// more than the system gives it.
fn cores(everybody: Channel) -> Result<usize, String> {
    let most = thread::available_parallelism().map_or(1, usize::from);
    let own = core_affinity::get_core_ids().unwrap_or_default();
    let [mut here, mut all] = [[0_u8; CORES / 8]; 2];
    own.iter()
        .filter(|core| core.id < CORES)
        .for_each(|core| here[core.id / 8] |= 1 << (core.id % 8));
    let (mut shared, ranks) = everybody.on_host()?;
    // SAFETY: all ranks of the host call this; both are this long; the communicator is freed after
    // use.
    unsafe {
        let (count, byte, or) = (all.len() as c_int, ffi::RSMPI_UINT8_T, ffi::RSMPI_BOR);
        let (from, to) = (here.as_ptr().cast(), all.as_mut_ptr().cast());
        check(ffi::MPI_Allreduce(from, to, count, byte, or, shared.0))?;
        ffi::MPI_Comm_free(&mut shared.0);
    }
    let together = all.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    // A quota may hold for all of them, and so be less than the cores of one.
    let together = if most < own.len() { most } else { together.max(most) };
    Ok(together / ranks.max(1))
}

/// The largest tag of a message.
fn largest_tag() -> Result<c_int, String> {
    let (mut value, mut found) = (ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI gives the address of an int that lives as long as it runs.
    unsafe {
        let (key, into) = (ffi::MPI_TAG_UB as c_int, (&raw mut value).cast());
        check(ffi::MPI_Comm_get_attr(ffi::RSMPI_COMM_WORLD, key, into, &mut found))?;
        // What every MPI has.
        Ok(if found == 0 || value.is_null() { 32767 } else { *value })
    }
}
