//! Messages under way.

use std::ffi::c_int;
use std::time::{Duration, Instant};
use std::{hint, thread};

use mpi::ffi;

use super::super::comm::Stopped;
use super::world::{Channel, World, check};

/// The most bytes of one message; longer ones are sent in pieces, for MPI counts with 31 bits.
const LONGEST: usize = if cfg!(test) { 50_000 } else { 1 << 30 };

/// How long a rank lets others run before it sleeps.
const YIELDING: Duration = Duration::from_micros(300);

/// The longest sleep between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Sends and receives that have begun, and how to wait for them.
pub(super) struct Wire {
    pub(super) world: &'static World,
    pub(super) deadline: Duration,
    requests: Vec<ffi::MPI_Request>,
    /// Per request: the rank that it needs.
    peers: Vec<usize>,
    /// Why waiting ended without what was waited for.
    pub(super) problem: Option<String>,
}

// SAFETY: handles, used by one thread at a time.
unsafe impl Send for Wire {}

impl Wire {
    pub(super) fn new(world: &'static World, deadline: Duration) -> Self {
        Self { world, deadline, requests: Vec::new(), peers: Vec::new(), problem: None }
    }

    /// Begins to send bytes to `member` of a channel, which is rank `rank`.
    ///
    /// # Safety
    ///
    /// They are good and nobody writes to them until [`finish`](Self::finish) has returned.
    pub(super) unsafe fn send(
        &mut self,
        channel: Channel,
        (member, rank): (usize, usize),
        from: *const u8,
        bytes: usize,
    ) {
        for begin in (0..bytes).step_by(LONGEST) {
            let (count, to) = (LONGEST.min(bytes - begin) as c_int, member as c_int);
            // SAFETY: within the bytes; the request is waited for.
            unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (from, kind) = (from.add(begin).cast(), ffi::RSMPI_UINT8_T);
                let code = ffi::MPI_Isend(from, count, kind, to, 0, channel.0, &mut request);
                self.begun(code, request, rank);
            }
        }
    }

    /// Begins to receive as many bytes as `member` sends.
    ///
    /// # Safety
    ///
    /// They are good and nobody else touches them until [`finish`](Self::finish) has returned.
    pub(super) unsafe fn receive(
        &mut self,
        channel: Channel,
        (member, rank): (usize, usize),
        to: *mut u8,
        bytes: usize,
    ) {
        for begin in (0..bytes).step_by(LONGEST) {
            let (count, from) = (LONGEST.min(bytes - begin) as c_int, member as c_int);
            // SAFETY: within the bytes; the request is waited for.
            unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (to, kind) = (to.add(begin).cast(), ffi::RSMPI_UINT8_T);
                let code = ffi::MPI_Irecv(to, count, kind, from, 0, channel.0, &mut request);
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
        let (mut looks, mut began) = (0_u32, None);
        while self.problem.is_none() {
            let (mut done, count) = (0, self.requests.len() as c_int);
            // SAFETY: requests of ours, that many.
            let code = unsafe {
                let (requests, ignore) = (self.requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE);
                ffi::MPI_Testall(count, requests, &mut done, ignore)
            };
            self.problem = check(code).err();
            if done != 0 && self.problem.is_none() {
                self.requests.clear();
                self.peers.clear();
                return Ok(());
            }
            looks += 1;
            if looks < self.world.spin {
                hint::spin_loop();
                continue;
            }
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            if waited > self.deadline {
                // This process may have been stopped meanwhile, and find that all have come.
                self.problem = self.missing();
            } else if waited < YIELDING {
                thread::yield_now();
            } else {
                thread::sleep((waited / 16).min(NAP));
            }
        }
        Err(Stopped)
    }

    /// Whom this rank waits for, if for anybody.
    fn missing(&mut self) -> Option<String> {
        let mut ranks = Vec::new();
        for (request, &peer) in self.requests.iter_mut().zip(&self.peers) {
            let mut done = 0;
            // SAFETY: a request of ours.
            unsafe { ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
            if done == 0 && !ranks.contains(&peer) {
                ranks.push(peer);
            }
        }
        ranks.sort_unstable();
        let list: Vec<_> = ranks.iter().map(usize::to_string).collect();
        let ranks = if list.len() == 1 { "rank" } else { "ranks" };
        let seconds = self.deadline.as_secs_f64();
        let problem = format!("{ranks} {} did not get here within {seconds} s", list.join(", "));
        (!list.is_empty()).then_some(problem)
    }
}
