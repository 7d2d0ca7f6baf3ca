//! A training run that is killed and stopped, and resumed.

use super::{mesh, models};
use mesh_core::session::Ranks;
use mesh_core::session::checkpoint::Checkpoints;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::training::{Every, MetricsFile, Trainer};
use std::error::Error;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

/// The steps of a whole run, and between two checkpoints.
const STEPS: u64 = 1500;
const SAVED_EVERY: u64 = 5;

const LAYOUT: &str = "batch:a; hidden:b; slots/*:a";

/// Resumes from what is in the folder and trains as far as it gets. Ranks wait `seconds` for
/// others.
pub fn train(folder: &Path, seconds: u64) {
    let graph = mesh_ops::graph();
    models::mlp(&graph);
    let module = graph.lower(&mesh(), &LAYOUT.parse().unwrap()).unwrap();
    let ranks =
        Ranks::default().deadline(Duration::from_secs(seconds)).last_step(folder.join("last"));
    let mut session = Session::mpi_with(&module, 9, &ranks).unwrap();
    let rank = session.rank();
    if let Err(error) = trained(&mut session, folder) {
        // The first rank to report the error ends the others.
        thread::sleep(Duration::from_millis(400) * rank as u32);
        let text = format!("error: rank {rank}: {error}");
        eprintln!("{text}");
        process::exit(1);
    }
}

fn trained(session: &mut Session, folder: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let rank = session.rank();
    let pixel = |(i, p)| ((i * 5 + p * p) % 8) as f32 / 8.0;
    let image = ndarray::Array2::from_shape_fn((80, 12), pixel);
    let label = ndarray::Array1::from_shape_fn(80, |i| (i % 4) as i32);
    let data = Dataset::from_arrays([("image", image.into()), ("label", label.into())])?;
    let data = data.shuffle(80, 3)?.batch(8, Remainder::Drop)?;
    let checkpoints = Checkpoints::new(folder.join("checkpoints"));
    let mut trainer = Trainer::new(session, "train", data)
        .quiet()
        .steps(STEPS)
        .checkpoints(checkpoints, Every::Steps(SAVED_EVERY));
    if rank == 0 {
        trainer = trainer.watch(MetricsFile::create(&folder.join("metrics"))?);
    }
    trainer.run()?;
    Ok(())
}
