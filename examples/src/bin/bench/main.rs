//! `bench`: what a training step costs, where its time goes, what compiling costs.
//!
//! It prints lines of the form `result workload=… peer=mesh layout=… metric=… value=…`.

mod all_reduce;
mod compile;
mod decode;
mod initial;
mod lines;
mod machine;
mod models;
mod nets;
mod ops;
mod product;
mod profile;
mod rank;
mod scaling;
mod setup;
mod start;
mod step;
mod triad;
mod update;
mod watch;
mod workload;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures training steps, and parts of them.
#[derive(Parser, Debug)]
#[command(name = "bench", version)]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Whole training steps.
    Step(setup::Flags),
    /// Where the time of a training step goes: by form of step, the dearest steps, contractions
    /// against `ndarray`'s products, the rest against memory bandwidth.
    Profile(setup::Flags),
    /// Training steps of a transformer against batch, width, depth and processors.
    Scaling(scaling::Flags),
    /// Building, differentiating and lowering the training step of a deep transformer.
    Compile(compile::Flags),
    /// Tokens of a language model one after the other, against reading its weights and its cache.
    Decode(decode::Flags),
    /// All-reduces among threads, from 1 KiB to 64 MiB.
    AllReduce(all_reduce::Flags),
    /// Adam's update of one large variable, against memory bandwidth.
    Update(update::Flags),
    /// What metrics, events and a report cost a step of `lm`, and how long a checkpoint keeps it
    /// waiting, against a copy of as many bytes.
    Watch(watch::Flags),
    /// Single ops on shapes of models that people train: forward, and with gradients and updates.
    Ops(ops::Flags),
    /// This machine's rates, as the TOML file that `--machine` reads.
    Machine(machine::Flags),
    /// Predicted step times beside measured ones, over all layouts of small models.
    Rank(rank::Flags),
    /// Lowering, starting, saving and restoring a session of many small variables.
    Start(start::Flags),
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    examples::launch::exit(|| match &flags.command {
        Command::Step(flags) => step::run(flags),
        Command::Profile(flags) => profile::run(flags),
        Command::Scaling(flags) => scaling::run(flags),
        Command::Compile(flags) => compile::run(flags),
        Command::Decode(flags) => decode::run(flags),
        Command::AllReduce(flags) => all_reduce::run(flags),
        Command::Update(flags) => update::run(flags),
        Command::Watch(flags) => watch::run(flags),
        Command::Ops(flags) => ops::run(flags),
        Command::Machine(flags) => machine::run(flags),
        Command::Rank(flags) => rank::run(flags),
        Command::Start(flags) => start::run(flags),
    })
}
