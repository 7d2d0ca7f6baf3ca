//! Text as tokens: bytes of a file, a token file or a generator; windows for training and for
//! evaluation.
//!
//! Files are not read whole: a batch reads its windows.
//!
//! ```
//! use examples::text::Text;
//!
//! let text = Text::tales();
//! text.check(8, 32)?;
//! let batches = text.batches(8, 32, 1)?;
//! for batch in batches.pass(0).take(3) {
//!     assert_eq!(batch?.get("following")?.shape(), [8, 32]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod tales;
mod windows;

pub use error::TextError;

use mesh_optimize::dataset::read::{self, Input, ReadError, Tokens};

/// One token in this many is held out.
const HELD_OUT: u64 = 10;

/// A text in two parts.
#[derive(Clone, Debug)]
pub struct Text {
    whole: Tokens,
    /// The training part.
    pub train: Tokens,
    /// The test part: the last tenth.
    pub held_out: Tokens,
}

impl Text {
    /// A file's bytes.
    pub fn load(file: impl Into<Input>) -> Result<Self, ReadError> {
        read::text(file).map(Self::divided)
    }

    /// The tokens of a token file ([`read::tokens()`]) with a vocabulary of `vocab` tokens.
    pub fn load_tokens(file: impl Into<Input>, vocab: usize) -> Result<Self, ReadError> {
        read::tokens(file, vocab).map(Self::divided)
    }

    /// Small tales that a grammar generates, the same at every call.
    pub fn tales() -> Self {
        Self::divided(Tokens::of_bytes("the built-in text", tales::tell()))
    }

    fn divided(whole: Tokens) -> Self {
        let kept = whole.len() - whole.len() / HELD_OUT;
        let (train, held_out) = whole.clone().split_at(kept);
        Self { whole, train, held_out }
    }

    /// The name that errors use.
    pub fn name(&self) -> &str {
        self.train.name()
    }

    /// What a token is: `byte` or `token`.
    pub fn unit(&self) -> &'static str {
        self.train.unit()
    }

    /// The length and the checksum of the tokens' bytes, which distinguish the text from others,
    /// whatever file it is in. Reads all of it.
    pub fn contents(&self) -> Result<String, ReadError> {
        self.whole.contents()
    }

    /// Refuses a text that is too short for `batch` windows of `length`.
    pub fn check(&self, batch: usize, length: usize) -> Result<(), TextError> {
        let window = (length as u64).saturating_add(1);
        let trained = (batch as u64).saturating_mul(length as u64).saturating_add(1);
        // The length of the held-out part is the total divided by HELD_OUT, rounded down.
        let total = trained.saturating_add((trained - 1) / (HELD_OUT - 1));
        let least = total.max(window.saturating_mul(HELD_OUT));
        let size = self.train.len() + self.held_out.len();
        if size < least {
            let (file, unit) = (self.name().to_owned(), self.unit());
            return Err(TextError::Short { file, unit, size, batch, length, least });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
