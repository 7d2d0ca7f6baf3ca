//! Sizes of meshes, batches and microbatches from what people say of them: cores, tokens, sequences per
//! replica. The rules are those of Mesh TensorFlow's transformer package.

use mesh_core::names::{Mesh, NameError};

/// Tokens of a training run, by which [`train_steps`] sets its length: 2^36.
pub const TOKENS: u64 = 1 << 36;

/// Cores of a chip in a topology such as `4x4`.
const CORES: usize = 2;

/// Why a size does not come out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// What is asked for is no whole number of sequences for each replica.
    #[error("{what} is no whole number of sequences of {length} for each of {replicas} replicas")]
    Batch {
        /// What was asked for.
        what: String,
        /// Tokens of a sequence.
        length: usize,
        /// How many replicas there are.
        replicas: usize,
    },
    /// The text names no machine.
    #[error("{text:?} names no machine: write its grid of chips, as 4x4, or its cores, as v3-8")]
    Topology {
        /// The text.
        text: String,
    },
    /// The cores do not divide.
    #[error("{cores} cores cannot be divided into {parts} parts for each replica")]
    Cores {
        /// How many cores the machine has.
        cores: usize,
        /// Into how many parts a replica is cut.
        parts: usize,
    },
    /// The mesh cannot be.
    #[error(transparent)]
    Mesh(#[from] NameError),
}

/// How large a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BatchSize {
    /// Sequences in all.
    Sequences(usize),
    /// Tokens in all.
    Tokens(usize),
    /// Sequences for each replica.
    SequencesPerReplica(usize),
    /// Tokens for each replica.
    TokensPerReplica(usize),
}

impl BatchSize {
    /// Sequences of a batch, for sequences of so many tokens and so many replicas: the parts that
    /// the batch is split into.
    ///
    /// ```
    /// use mesh_optimize::BatchSize;
    /// assert_eq!(BatchSize::Tokens(65_536).sequences(512, 16)?, 128);
    /// assert_eq!(BatchSize::TokensPerReplica(2048).sequences(512, 16)?, 64);
    /// # Ok::<(), mesh_optimize::SizeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If tokens make no whole number of sequences.
    pub fn sequences(self, length: usize, replicas: usize) -> Result<usize, SizeError> {
        let of_tokens = |tokens: usize| {
            let whole = length > 0 && tokens.is_multiple_of(length) && tokens > 0;
            whole.then(|| tokens / length)
        };
        let sequences = match self {
            Self::Sequences(sequences) => Some(sequences),
            Self::Tokens(tokens) => of_tokens(tokens),
            Self::SequencesPerReplica(sequences) => sequences.checked_mul(replicas),
            Self::TokensPerReplica(tokens) => {
                of_tokens(tokens).and_then(|n| n.checked_mul(replicas))
            }
        };
        let what = format!("{self:?}");
        sequences.filter(|n| *n > 0).ok_or(SizeError::Batch { what, length, replicas })
    }
}

/// Into how many microbatches a batch is cut, so that a replica computes at most so many tokens at a
/// time, and at least one sequence; without a limit, one. See
/// [`microbatches`](crate::microbatches).
///
/// ```
/// assert_eq!(mesh_optimize::microbatch_count(96, 16, 512, Some(1024))?, 3);
/// # Ok::<(), mesh_optimize::SizeError>(())
/// ```
///
/// # Errors
///
/// If the batch does not divide among the replicas.
pub fn microbatch_count(
    batch: usize,
    replicas: usize,
    length: usize,
    tokens: Option<usize>,
) -> Result<usize, SizeError> {
    if replicas == 0 || batch == 0 || !batch.is_multiple_of(replicas) {
        let what = format!("a batch of {batch}");
        return Err(SizeError::Batch { what, length, replicas });
    }
    let own = batch / replicas;
    let most = tokens.map_or(own, |tokens| (tokens / length.max(1)).clamp(1, own));
    let counts = (own.div_ceil(most)..=own).find(|count| own.is_multiple_of(*count));
    Ok(counts.unwrap_or(own))
}

/// Steps in which so large batches have [`TOKENS`] tokens; at least one.
///
/// ```
/// assert_eq!(mesh_optimize::train_steps(128, 512), 1_048_576);
/// ```
pub fn train_steps(batch: usize, length: usize) -> u64 {
    (TOKENS / (batch as u64).saturating_mul(length as u64).max(1)).max(1)
}

/// The mesh `ensemble;batch;model` for a machine, named by its grid of chips with two cores each (`4x4`) or by
/// its cores (`v3-8`): a replica is cut into `model` parts, and the rest of the cores are
/// replicas, shared among `ensemble` models. Axes of size 1 are left out.
///
/// ```
/// assert_eq!(mesh_optimize::machine_mesh("4x4", 8, 1)?.to_string(), "batch:4;model:8");
/// assert_eq!(mesh_optimize::machine_mesh("4x4", 4, 2)?.to_string(), "ensemble:2;batch:4;model:4");
/// # Ok::<(), mesh_optimize::SizeError>(())
/// ```
///
/// # Errors
///
/// If the text names no machine, or its cores do not divide.
pub fn machine_mesh(topology: &str, model: usize, ensemble: usize) -> Result<Mesh, SizeError> {
    let unknown = || SizeError::Topology { text: topology.to_owned() };
    let cores = match topology.split_once('-') {
        Some((generation, cores)) if generation.starts_with('v') => cores.parse().ok(),
        _ => {
            let mut sides = topology.split('x').map(|side| side.parse().ok());
            sides.try_fold(CORES, |cores, side: Option<usize>| cores.checked_mul(side?))
        }
    };
    let cores = cores.filter(|cores| *cores > 0).ok_or_else(unknown)?;
    let parts = model.saturating_mul(ensemble);
    if parts == 0 || !cores.is_multiple_of(parts) {
        return Err(SizeError::Cores { cores, parts });
    }
    let axes = [("ensemble", ensemble), ("batch", cores / parts), ("model", model)];
    Ok(Mesh::new(axes.into_iter().filter(|(_, size)| *size > 1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Mesh TensorFlow's `compute_batch_size`, `serialize_num_microbatches`, `auto_train_steps` and
    /// `tpu_mesh_shape` give.
    #[test]
    fn the_numbers_of_mesh_tensorflow() {
        for (size, sequences) in [
            (BatchSize::Sequences(7), 7),
            (BatchSize::Tokens(65_536), 128),
            (BatchSize::SequencesPerReplica(4), 64),
            (BatchSize::TokensPerReplica(2048), 64),
        ] {
            assert_eq!(size.sequences(512, 16), Ok(sequences), "{size:?}");
        }
        for (tokens, count) in
            [(None, 1), (Some(2048), 2), (Some(1024), 3), (Some(512), 6), (Some(3000), 2)]
        {
            assert_eq!(microbatch_count(96, 16, 512, tokens), Ok(count), "{tokens:?}");
        }
        assert_eq!(train_steps(128, 512), 1_048_576);
        for (machine, model, ensemble, mesh) in [
            ("4x4", 8, 1, "batch:4;model:8"),
            ("v3-8", 2, 1, "batch:4;model:2"),
            ("2x2", 1, 1, "batch:8"),
            ("4x4", 4, 2, "ensemble:2;batch:4;model:4"),
        ] {
            let found = machine_mesh(machine, model, ensemble).map(|mesh| mesh.to_string());
            assert_eq!(found.as_deref(), Ok(mesh), "{machine}");
        }
    }

    #[test]
    fn what_does_not_come_out_is_said() {
        let said = |error: SizeError| error.to_string();
        let batch = BatchSize::Tokens(1000).sequences(512, 16).unwrap_err();
        assert_eq!(
            said(batch),
            "Tokens(1000) is no whole number of sequences of 512 for each of 16 replicas"
        );
        assert!(said(microbatch_count(97, 16, 512, None).unwrap_err()).contains("a batch of 97"));
        for wrong in ["", "4x", "x4", "v3-", "v3-0", "four", "99999999999999999999x2"] {
            let error = machine_mesh(wrong, 1, 1).unwrap_err();
            assert!(matches!(error, SizeError::Topology { .. }), "{wrong}: {error}");
        }
        let cores = machine_mesh("2x2", 3, 1).unwrap_err();
        assert_eq!(said(cores), "8 cores cannot be divided into 3 parts for each replica");
    }
}
