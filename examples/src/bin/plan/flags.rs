//! Command line of `plan`.

use clap::{Parser, Subcommand};
use examples::models::mnist;
use examples::optimizer::Method;
use examples::planning::of_file;
use mesh_core::passes::Machine;
use std::path::PathBuf;

/// Finds the mesh and the layout under which a step of training is fastest, proves that none is faster under
/// the model of cost (docs/search.md), and says why. Nothing is run.
#[derive(Parser, Debug)]
#[command(name = "plan", version)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) model: Model,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Model {
    /// The language model of `lm`.
    Lm {
        /// Number of layers.
        #[arg(long, default_value_t = 4)]
        depth: usize,
        /// Size of the vectors between layers.
        #[arg(long, default_value_t = 128)]
        width: usize,
        /// Heads of attention, which divide the width.
        #[arg(long, default_value_t = 4)]
        heads: usize,
        /// Size of the hidden vectors of feed-forward layers. By default four times the width.
        #[arg(long)]
        hidden: Option<usize>,
        /// How many different tokens there are.
        #[arg(long, default_value_t = 256)]
        vocab: usize,
        /// Tokens of a sequence.
        #[arg(long, default_value_t = 128)]
        sequence: usize,
        /// Write layers out, instead of a loop over them.
        #[arg(long)]
        unrolled: bool,
        /// Keep nothing within a layer for its gradient, but compute it again.
        #[arg(long)]
        recompute: bool,
        #[command(flatten)]
        sized: Sized,
        #[command(flatten)]
        search: SearchFlags,
    },
    /// A classifier of `mnist`.
    Mnist {
        /// What is trained.
        #[arg(long, value_enum, default_value_t = mnist::Model::Conv)]
        model: mnist::Model,
        /// Size of the hidden layers.
        #[arg(long, default_value_t = 512)]
        hidden: usize,
        /// Filters of each convolution.
        #[arg(long, default_value_t = 16)]
        filters: usize,
        #[command(flatten)]
        sized: Sized,
        #[command(flatten)]
        search: SearchFlags,
    },
}

/// What both models have.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Sized {
    /// Sequences or examples of a step, over all processors. By default 8 sequences, 200 examples.
    #[arg(long)]
    pub(crate) batch: Option<usize>,
    /// How it is trained.
    #[arg(long, value_enum, default_value_t = Method::named("adam"))]
    pub(crate) optimizer: Method,
}

/// What is searched.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchFlags {
    /// How many processors there are.
    #[arg(long, default_value_t = 1)]
    pub(crate) processors: usize,
    /// The most axes of the mesh.
    #[arg(long, default_value_t = 2)]
    pub(crate) axes: usize,
    /// The mesh, instead of one that is found.
    #[arg(long, conflicts_with = "processors")]
    pub(crate) mesh: Option<String>,
    /// Price this layout on --mesh instead of finding one.
    #[arg(long, requires = "mesh")]
    pub(crate) layout: Option<String>,
    /// A file of a machine, as in `machines/`. By default a host's cores.
    #[arg(long, value_name = "FILE", value_parser = of_file)]
    pub(crate) machine: Option<Machine>,
    /// Bytes that a processor may need: `80GB`, `4GiB`. By default the machine's.
    #[arg(long, value_parser = bytes)]
    pub(crate) memory: Option<u64>,
    /// Search no `params/` and `slots/` rules.
    #[arg(long)]
    pub(crate) no_state: bool,
    /// Search such rules for single dims as well, not for `*` alone.
    #[arg(long, conflicts_with = "no_state")]
    pub(crate) single_dims: bool,
    /// Price every legal layout, not those alone that may be the best.
    #[arg(long)]
    pub(crate) every: bool,
    /// Stop after so many seconds with the best so far.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// How many more layouts are printed.
    #[arg(long, default_value_t = 5)]
    pub(crate) runners_up: usize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with a plot of time against memory of all layouts; it prices all.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// A number of bytes with a unit.
fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1000),
    ];
    let unit = UNITS.iter().find_map(|(unit, of)| Some((text.strip_suffix(unit)?, *of)));
    let (number, of) = unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
    let number: f64 =
        number.trim().parse().map_err(|_| "legal are numbers such as 80GB".to_owned())?;
    let bytes = number * of as f64;
    if bytes >= 1.0 && bytes < u64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err("legal are numbers such as 80GB".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let table =
            [("80GB", Ok(80_000_000_000)), ("1.5GiB", Ok(3 << 29)), ("12", Ok(12)), ("7B", Ok(7))];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for text in ["", "GB", "-1", "0", "nan", "1e40TB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
