//! The errors of texts, for the person who has to repair them.

/// Why a text cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text is too short for the windows that were asked for.
    #[error(
        "{file} holds {size} {unit}s; a batch of {batch} windows of {length} {unit}s for training, \
         and one window in the last tenth, need {least}"
    )]
    Short {
        /// The file.
        file: String,
        /// What a token is.
        unit: &'static str,
        /// How many it holds.
        size: u64,
        /// Windows a step.
        batch: usize,
        /// Tokens a window.
        length: usize,
        /// The least size that is enough.
        least: u64,
    },
}
