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
mod token_file;
mod tokens;
mod windows;

pub use error::TextError;
pub use token_file::write_tokens;
pub use tokens::Tokens;

use crate::files::{self, ReadAt};
use std::fs::File;
use std::path::Path;

/// One token in this many is held out.
const HELD_OUT: u64 = 10;

/// A text in two parts.
#[derive(Clone, Debug)]
pub struct Text {
    /// The training part.
    pub train: Tokens,
    /// The test part: the last tenth.
    pub held_out: Tokens,
}

impl Text {
    /// A file's bytes.
    pub fn load(file: &Path) -> Result<Self, TextError> {
        Self::of_bytes(file.display().to_string(), files::positioned(opened(file)?))
    }

    /// The tokens of a token file (llm.c's format, version 1, plain or gzip) with a vocabulary of
    /// `vocab` tokens. A token that is not in the vocabulary is an error when it is read.
    pub fn load_tokens(file: &Path, vocab: usize) -> Result<Self, TextError> {
        let name = file.display().to_string();
        Self::of_token_file(name, files::positioned(opened(file)?), vocab)
    }

    /// Small tales that a grammar generates, the same at every call.
    pub fn tales() -> Self {
        let (name, tales) = ("the built-in text".to_owned(), tales::tell());
        Self::divided(Tokens::in_memory(name, tales))
    }

    /// [`load`](Self::load) from memory; errors call the text `name`.
    pub fn of_bytes(name: String, bytes: Box<dyn ReadAt>) -> Result<Self, TextError> {
        Tokens::bytes(name, bytes).map(Self::divided)
    }

    /// [`load_tokens`](Self::load_tokens) from memory; errors call the file `name`.
    pub fn of_token_file(
        name: String,
        bytes: Box<dyn ReadAt>,
        vocab: usize,
    ) -> Result<Self, TextError> {
        Tokens::words(name, bytes, vocab).map(Self::divided)
    }

    fn divided(tokens: Tokens) -> Self {
        let kept = tokens.len() - tokens.len() / HELD_OUT;
        let (train, held_out) = tokens.split_at(kept);
        Self { train, held_out }
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
    pub fn contents(&self) -> Result<String, TextError> {
        self.train.contents(&self.held_out)
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

fn opened(file: &Path) -> Result<File, TextError> {
    let failed = |source| TextError::Read { file: file.display().to_string(), source };
    mesh_core::files::open(file).map_err(failed)
}

#[cfg(test)]
mod tests;
