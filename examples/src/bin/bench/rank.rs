//! `rank`: predicted step times beside measured ones, over all layouts of small models.

use super::lines::median;
use examples::Rng;
use examples::backend::BackendFlags;
use examples::models::{lm, mnist};
use examples::optimizer::{Method, Training};
use examples::planning::of_file;
use examples::report::{print, remark};
use mesh_core::lower::Target;
use mesh_core::passes::Machine;
use mesh_ops::attention::Exchange;
use mesh_ops::layers::attention::AttentionWay;
use mesh_ops::prelude::*;
use mesh_optimize::search::{Choice, FindLayout, Search};
use ndarray::ArrayD;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Which models, on how many processors, on what machine.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// A file of this machine, as `bench machine` writes it.
    #[arg(long, value_name = "FILE", value_parser = of_file)]
    machine: Machine,

    /// Models.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Model::Perceptron, Model::Cnn, Model::Lm])]
    models: Vec<Model>,

    /// Numbers of processors.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    processors: Vec<usize>,

    /// Milliseconds that each layout is measured in a round, after its first step.
    #[arg(long, default_value_t = 50)]
    milliseconds: u64,

    /// How often all layouts are measured, one after the other; the median of each counts, as other work on the
    /// machine slows some rounds, and the least would compare a layout that met a quiet one with others.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Take measured times from what earlier runs printed with --list, the median of each layout, and measure
    /// nothing.
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,

    /// Print every layout with both times.
    #[arg(long)]
    list: bool,

    /// What makes the steps.
    #[command(flatten)]
    backend: BackendFlags,
}

/// Models of a size at which all their layouts can be measured.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Model {
    /// 784-512-512-10, batch 512, Adam.
    Perceptron,
    /// The convolutional model of `mnist`, batch 40, Adam.
    Cnn,
    /// A decoder of 2 layers of width 128, 16 sequences of 64 tokens, Adam.
    Lm,
}

impl Model {
    fn name(self) -> String {
        examples::running::word(self)
    }

    fn build(self, graph: &Graph) -> Result<String, Box<dyn Error>> {
        let adam = Method::named("adam");
        if self == Self::Lm {
            let sizes = lm::Sizes {
                batch: 16,
                sequence: 64,
                width: 128,
                heads: 4,
                hidden: 512,
                depth: 2,
                vocab: 256,
                scan: true,
                recompute: false,
                attention: AttentionWay::Auto,
                exchange: Exchange::Auto,
                pieces: None,
                dtype: F32,
            };
            let method = adam.optimizer(&adam.usual_rate(), None, Vec::new())?;
            return Ok(lm::build_training(graph, &sizes, &*method).name().to_owned());
        }
        let (model, batch) = match self {
            Self::Cnn => (mnist::Model::Conv, 40),
            _ => (mnist::Model::Mlp, 512),
        };
        let (wide, activations) = (F32, F32);
        let sizes = mnist::Sizes { model, batch, hidden: 512, filters: 16, wide, activations };
        let training = Training::by_flags(adam, None, None)?;
        Ok(mnist::build(graph, &sizes, &training).train.name().to_owned())
    }
}

/// What was found of one model on so many processors.
struct Ranked {
    /// Predicted and measured seconds, the fastest predicted first.
    times: Vec<(f64, f64)>,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let earlier = flags.measured.as_ref().map(|path| read(path)).transpose()?;
    print(
        "| model | processors | layouts | Kendall's tau | chosen, ms | best, ms | chosen / best |",
    )?;
    print("|---|---|---|---|---|---|---|")?;
    for &model in &flags.models {
        for &processors in &flags.processors {
            let ranked = rank(flags, model, processors, earlier.as_ref())?;
            let Some(&(_, chosen)) = ranked.times.first() else { continue };
            let best = ranked.times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            print(&format!(
                "| {} | {processors} | {} | {:.3} | {:.2} | {:.2} | {:.3} |",
                model.name(),
                ranked.times.len(),
                kendall(&ranked.times),
                chosen * 1e3,
                best * 1e3,
                chosen / best
            ))?;
        }
    }
    Ok(())
}

/// Median seconds by model, processors, mesh and layout.
type Earlier = BTreeMap<String, f64>;

fn read(path: &std::path::Path) -> Result<Earlier, Box<dyn Error>> {
    let text = mesh_core::files::read_text(path, 1 << 24)?;
    let line = |line: &str| {
        let rest = line.strip_prefix("layout ")?;
        let (key, times) = rest.split_once(" predicted_ms=")?;
        let (_, measured) = times.split_once(" measured_ms=")?;
        Some((key.to_owned(), measured.parse::<f64>().ok()? / 1e3))
    };
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, seconds) in text.lines().filter_map(line) {
        all.entry(key).or_default().push(seconds);
    }
    Ok(all.into_iter().map(|(key, times)| (key, median(times))).collect())
}

fn rank(
    flags: &Flags,
    model: Model,
    processors: usize,
    earlier: Option<&Earlier>,
) -> Result<Ranked, Box<dyn Error>> {
    let graph = mesh_ops::graph();
    let function = model.build(&graph)?;
    let found = graph.search(&Search {
        every: true,
        state: false,
        ..Search::new(&function, processors, flags.machine.clone())
    })?;
    let mut all = found.all;
    all.sort_by(|a, b| a.price.seconds().total_cmp(&b.price.seconds()));
    let key = |Choice { mesh, layout, .. }: &Choice| {
        format!("{} {processors} \"{mesh}\" \"{layout}\"", model.name())
    };
    let measured = match earlier {
        Some(earlier) => all.iter().map(|choice| earlier.get(&key(choice)).copied()).collect(),
        None => in_rounds(flags, &graph, &function, &all)?,
    };
    let mut times = Vec::new();
    for (choice, measured) in all.iter().zip(measured) {
        let Some(measured) = measured else {
            remark(&format!("not measured: {}", key(choice)));
            continue;
        };
        let predicted = choice.price.seconds();
        if flags.list {
            print(&format!(
                "layout {} predicted_ms={:.4} measured_ms={:.4}",
                key(choice),
                predicted * 1e3,
                measured * 1e3
            ))?;
        }
        times.push((predicted, measured));
    }
    Ok(Ranked { times })
}

/// The seconds of a step under each layout: of a round the least, of all rounds the median.
fn in_rounds(
    flags: &Flags,
    graph: &Graph,
    function: &str,
    all: &[Choice],
) -> Result<Vec<Option<f64>>, Box<dyn Error>> {
    let mut times = vec![Vec::new(); all.len()];
    for _ in 0..flags.rounds {
        for (choice, times) in all.iter().zip(&mut times) {
            times.push(measure(flags, graph, function, choice)?);
        }
    }
    Ok(times.into_iter().map(|times| Some(median(times))).collect())
}

/// The least seconds of a step under a layout.
fn measure(
    flags: &Flags,
    graph: &Graph,
    function: &str,
    choice: &Choice,
) -> Result<f64, Box<dyn Error>> {
    /// The fewest steps that are timed.
    const LEAST: usize = 3;
    let module = graph.lower(&choice.mesh, &choice.layout)?;
    let mut session = flags.backend.session(&module, 0, Target::host())?;
    let program = module.function(function).ok_or("the function is not in the module")?;
    let mut rng = Rng::keyed(1, 0, 0);
    let mut feeds = Vec::new();
    for (param, slot) in program.block.params.iter().zip(&program.feeds) {
        let shape = &slot.shape[..];
        let array = match program.block.value(*param).dtype {
            F32 => Array::from(ArrayD::from_shape_simple_fn(shape, || rng.unit())),
            // Labels and tokens alike.
            _ => Array::from(ArrayD::from_shape_simple_fn(shape, || rng.below(10) as i32)),
        };
        feeds.push((slot.name.as_str(), array));
    }
    let views: Vec<_> = feeds.iter().map(|(name, array)| (*name, array.view())).collect();
    session.call_named(function, &views)?;
    let (began, most) = (Instant::now(), Duration::from_millis(flags.milliseconds));
    let (mut least, mut count) = (f64::INFINITY, 0);
    while began.elapsed() < most || count < LEAST {
        let started = Instant::now();
        session.call_named(function, &views)?;
        least = least.min(started.elapsed().as_secs_f64());
        count += 1;
    }
    Ok(least)
}

/// Kendall's rank correlation, tau-b, which takes pairs that are equal on one side out of that side's count:
/// M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945). Predictions of one part in
/// a million apart are equal.
fn kendall(times: &[(f64, f64)]) -> f64 {
    let sign = |a: f64, b: f64| match (a - b).abs() <= 1e-6 * a.abs() {
        true => 0.0,
        false => (a - b).signum(),
    };
    let (mut together, mut one, mut other) = (0.0, 0.0, 0.0);
    for (i, a) in times.iter().enumerate() {
        for b in &times[..i] {
            let (x, y) = (sign(a.0, b.0), sign(a.1, b.1));
            together += x * y;
            one += x * x;
            other += y * y;
        }
    }
    together / f64::sqrt(one * other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.kendalltau` (1.16), its default tau-b.
    #[test]
    fn ranks_are_correlated_as_scipy_does() {
        let pairs =
            |a: &[f64], b: &[f64]| -> Vec<_> { a.iter().copied().zip(b.iter().copied()).collect() };
        for (a, b, expected) in [
            (&[1., 2., 3.][..], &[10., 20., 30.][..], 1.0),
            (&[1., 2., 3.], &[3., 2., 1.], -1.0),
            (&[12., 2., 1., 12., 2.], &[1., 4., 7., 1., 0.], -0.471_404_520_791_031_7),
        ] {
            assert!((kendall(&pairs(a, b)) - expected).abs() < 1e-12);
        }
    }
}
