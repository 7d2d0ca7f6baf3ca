//! Readers of files: arrays, tables and sequences of tokens.
//!
//! | reader | file | what is in memory |
//! |---|---|---|
//! | [`idx()`] | IDX, as MNIST's, plain or gzip | nothing; of gzip the elements |
//! | [`npy()`] | numpy's `np.save` | nothing |
//! | [`safetensors()`] | safetensors | nothing |
//! | [`csv()`] | numbers between commas, plain or gzip | 8 bytes per number |
//! | [`text`] | any file: each byte is a token | nothing |
//! | [`tokens()`] | llm.c's token files, plain or gzip | nothing; of gzip the tokens |
//!
//! Plain files of any size are read where a batch needs them. Headers and sizes are checked when a file
//! is opened, elements when they are read. An error names the file, the place in it, and what would be
//! legal. Pipes and devices are refused.
//!
//! ```no_run
//! use mesh_optimize::dataset::{Dataset, Remainder, read};
//!
//! let data = Dataset::from_files([
//!     ("image", read::idx("train-images-idx3-ubyte.gz")?.divided_by(255.0)),
//!     ("label", read::idx("train-labels-idx1-ubyte.gz")?),
//! ])?;
//! let batches = data.shuffle(60_000, 7)?.batch(200, Remainder::Drop)?.prefetch(2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array_file;
mod bytes;
mod csv;
mod element;
mod error;
mod idx;
mod npy;
mod safetensors;
mod token_file;
mod tokens;

pub use array_file::ArrayFile;
pub use bytes::{Input, ReadAt};
pub use csv::{Csv, Table, csv};
pub use error::ReadError;
pub use idx::idx;
pub use npy::npy;
pub use safetensors::safetensors;
pub use token_file::{tokens, write_tokens};
pub use tokens::{Tokens, Windows, text};

/// The result of reading a file.
type Result<T, E = ReadError> = std::result::Result<T, E>;

/// The most bytes that are held in memory of a compressed file: it cannot be entered in the middle.
const MOST_COMPRESSED: u64 = 1 << 30;

#[cfg(test)]
mod tests;
