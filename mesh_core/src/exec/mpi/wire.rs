//! Messages under way.

use std::ffi::c_int;
use std::time::Duration;

use mpi::ffi;

use super::super::comm::Stopped;
use super::super::sync::Arc;
use super::super::threads::Process;
use super::channel::{Address, check};
use super::patience::{Pause, missing};
use super::world::World;

/// The most bytes of one message; longer ones are sent in pieces, for MPI counts with 31 bits.
const LONGEST: usize = if cfg!(test) { 50_000 } else { 1 << 30 };

/// What MPIs send at once between processes of a host, without asking the receiver first; most set
/// the limit at 4 KiB with their headers.
const AT_ONCE: usize = 3 << 10;

/// Up to so many such messages take less time than one that waits for the receiver.
const FEW_AT_ONCE: usize = 5;

/// How often to look before letting others run, where each processor has a core of its own.
const SPIN: u32 = 2000;

/// The same where ranks share cores: what is looked for may have been there already, and MPI lets
/// others run between looks if it knows that.
const SPIN_SHARED: u32 = 8;

/// The size of the messages that carry so many bytes.
fn piece(bytes: usize) -> usize {
    if bytes <= FEW_AT_ONCE * AT_ONCE { AT_ONCE } else { LONGEST }
}

/// Sends and receives that have begun, and how to wait for them.
pub(super) struct Wire {
    pub(super) world: &'static World,
    process: Arc<Process>,
    deadline: Duration,
    spin: u32,
    requests: Vec<ffi::MPI_Request>,
    /// Per request: the rank that it needs.
    peers: Vec<usize>,
    /// Why waiting ended without what was waited for.
    pub(super) problem: Option<String>,
}

// SAFETY: handles, used by one thread at a time.
unsafe impl Send for Wire {}

impl Wire {
    pub(super) fn new(world: &'static World, process: &Arc<Process>, deadline: Duration) -> Self {
        let spin = if process.is_roomy(0) { SPIN } else { SPIN_SHARED };
        let (process, requests, peers) = (Arc::clone(process), Vec::new(), Vec::new());
        Self { world, process, deadline, spin, requests, peers, problem: None }
    }

    /// Begins to send bytes.
    ///
    /// # Safety
    ///
    /// They are good and nobody writes to them until [`finish`](Self::finish) has returned.
    pub(super) unsafe fn send(
        &mut self,
        Address { channel, number, rank, to: tag, .. }: Address,
        from: *const u8,
        bytes: usize,
    ) {
        for begin in (0..bytes).step_by(piece(bytes)) {
            let (count, _guard) = (piece(bytes).min(bytes - begin) as c_int, self.world.guard());
            // SAFETY: within the bytes; the request is waited for.
            unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (from, kind) = (from.add(begin).cast(), ffi::RSMPI_UINT8_T);
                let code = ffi::MPI_Isend(from, count, kind, number, tag, channel.0, &mut request);
                self.begun(code, request, rank);
            }
        }
    }

    /// Begins to receive as many bytes as are sent.
    ///
    /// # Safety
    ///
    /// They are good and nobody else touches them until [`finish`](Self::finish) has returned.
    pub(super) unsafe fn receive(
        &mut self,
        Address { channel, number, rank, from: tag, .. }: Address,
        to: *mut u8,
        bytes: usize,
    ) {
        for begin in (0..bytes).step_by(piece(bytes)) {
            let (count, _guard) = (piece(bytes).min(bytes - begin) as c_int, self.world.guard());
            // SAFETY: within the bytes; the request is waited for.
            unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (to, kind) = (to.add(begin).cast(), ffi::RSMPI_UINT8_T);
                let code = ffi::MPI_Irecv(to, count, kind, number, tag, channel.0, &mut request);
                self.begun(code, request, rank);
            }
        }
    }

    fn begun(&mut self, code: c_int, request: ffi::MPI_Request, rank: usize) {
        if let Err(problem) = check(code) {
            self.problem.get_or_insert(problem);
        }
        self.requests.push(request);
        self.peers.push(rank);
    }

    /// Waits for all that has begun; the buffers are the caller's again. On an error they are not:
    /// the process has to end.
    pub(super) fn finish(&mut self) -> Result<(), Stopped> {
        let (mut looks, mut pause) = (0_u32, Pause::default());
        while self.problem.is_none() && !self.process.stop.is_stopped() {
            let mut done = 0;
            self.problem = check(self.test(&mut done)).err();
            if done != 0 && self.problem.is_none() {
                self.requests.clear();
                self.peers.clear();
                return Ok(());
            }
            looks += 1;
            if looks < self.spin {
                continue;
            }
            let waited = pause.rest();
            if waited > self.deadline {
                // This process may have been stopped meanwhile, and find that all have come.
                self.problem = self.missing(waited);
            }
        }
        Err(Stopped)
    }

    /// Whether everything that has begun is done; MPI's code.
    fn test(&mut self, done: &mut c_int) -> c_int {
        let (count, _guard) = (self.requests.len() as c_int, self.world.guard());
        // SAFETY: requests of ours, that many.
        unsafe {
            let (requests, ignore) = (self.requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE);
            ffi::MPI_Testall(count, requests, done, ignore)
        }
    }

    /// Whom this end has waited for, if for anybody.
    fn missing(&mut self, waited: Duration) -> Option<String> {
        let _guard = self.world.guard();
        let mut ranks = Vec::new();
        for (request, &peer) in self.requests.iter_mut().zip(&self.peers) {
            let mut done = 0;
            // SAFETY: a request of ours.
            unsafe { ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
            if done == 0 {
                ranks.push(peer);
            }
        }
        missing(ranks, self.world.rank, waited, self.deadline)
    }
}
