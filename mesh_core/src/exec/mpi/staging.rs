//! Memory that messages are sent from and received into.

use super::super::memory::Buffer;

/// Memory for messages, which grows to what the largest needs and stays.
pub(super) struct Staging {
    buffer: Buffer,
    bytes: usize,
}

impl Staging {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self { buffer: Buffer::zeroed(0)?, bytes: 0 })
    }

    /// At least so many bytes, aligned.
    pub(super) fn of(&mut self, bytes: usize) -> Result<*mut u8, String> {
        if bytes > self.bytes {
            (self.buffer, self.bytes) = (Buffer::zeroed(bytes)?, bytes);
        }
        Ok(self.buffer.pointer())
    }
}
