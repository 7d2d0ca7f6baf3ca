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
use std::f64::consts::{PI, SQRT_2};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Two layouts are told apart where their medians differ by two standard errors of a difference, in errors of one.
const APART: f64 = 2.0 * SQRT_2;

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

    /// Milliseconds that each layout is measured in a round, in turns with one that all are measured beside, after its
    /// first step.
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,

    /// How often all layouts are measured, one after the other; the median of each counts. By default 5 times, and up to
    /// 20 where there are fewer than 80 layouts.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Take measured times from what earlier runs printed with --list, and measure the chosen layout beside the fastest
    /// of them alone.
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,

    /// Layouts with rules for parameters and slots as well: several times as many.
    #[arg(long)]
    state: bool,

    /// Print every layout with both times.
    #[arg(long)]
    list: bool,

    /// What makes the steps.
    #[command(flatten)]
    backend: BackendFlags,
}

impl Flags {
    /// How often so many layouts are measured.
    fn rounds(&self, layouts: usize) -> usize {
        let usual = (400 / layouts.max(1)).clamp(5, 20);
        self.rounds.map_or(usual, |rounds| rounds as usize)
    }
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

/// Measured seconds of a layout's step, one of each round.
type Rounds = Vec<f64>;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let earlier = flags.measured.as_ref().map(|path| read(path)).transpose()?;
    print(
        "| model | processors | layouts | Kendall's tau | of pairs told apart | error, % | chosen, ms | best, ms | chosen / best |",
    )?;
    print("|---|---|---|---|---|---|---|---|---|")?;
    for &model in &flags.models {
        for &processors in &flags.processors {
            let Ranked { found, again } = rank(flags, model, processors, earlier.as_ref())?;
            let times: Vec<_> = found
                .iter()
                .map(|(predicted, rounds)| (*predicted, median(rounds.clone())))
                .collect();
            let Some(&(_, chosen)) = times.first() else { continue };
            let error = error(&found);
            let told = error.map(|error| format!("{:.3}", kendall(&times, APART * error)));
            let best = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            print(&format!(
                "| {} | {processors} | {} | {:.3} | {} | {} | {:.2} | {:.2} | {:.3} |",
                model.name(),
                times.len(),
                kendall(&times, 0.0),
                told.as_deref().unwrap_or("-"),
                error.map_or("-".to_owned(), |error| format!("{:.1}", error * 100.0)),
                chosen * 1e3,
                best * 1e3,
                again
            ))?;
        }
    }
    Ok(())
}

/// The relative standard error of a layout's median, if there are several rounds: the median over layouts of what
/// rounds differ by, of which a median of many keeps the part sqrt(pi / 2) / sqrt(rounds).
fn error(found: &[(f64, Rounds)]) -> Option<f64> {
    let count = found.iter().map(|(_, rounds)| rounds.len()).min().filter(|count| *count > 1)?;
    let spread = |rounds: &Rounds| {
        let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
        let squares: f64 = rounds.iter().map(|time| (time / mean - 1.0).powi(2)).sum();
        f64::sqrt(squares / (rounds.len() - 1) as f64)
    };
    let typical = median(found.iter().map(|(_, rounds)| spread(rounds)).collect());
    Some(typical * f64::sqrt(PI / 2.0 / count as f64))
}

/// What was measured, by model, processors, mesh and layout.
type Earlier = BTreeMap<String, Rounds>;

fn read(path: &std::path::Path) -> Result<Earlier, Box<dyn Error>> {
    let text = mesh_core::files::read_text(path, 1 << 24)?;
    let line = |line: &str| {
        let rest = line.strip_prefix("layout ")?;
        let (key, times) = rest.split_once(" predicted_ms=")?;
        let (_, measured) = times.split_once(" measured_ms=")?;
        let rounds: Result<Rounds, _> =
            measured.split(',').map(|time| time.parse().map(|time: f64| time / 1e3)).collect();
        Some((key.to_owned(), rounds.ok()?))
    };
    let mut all = Earlier::new();
    for (key, rounds) in text.lines().filter_map(line) {
        all.entry(key).or_default().extend(rounds);
    }
    Ok(all)
}

/// What was found of one model on so many processors.
struct Ranked {
    /// Predicted seconds and measured ones, the fastest predicted first.
    found: Vec<(f64, Rounds)>,
    /// What the first takes by the fastest measured, measured again for these two: of many layouts the fastest
    /// measured is one that was lucky as well.
    again: f64,
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
        state: flags.state,
        ..Search::new(&function, processors, flags.machine.clone())
    })?;
    let mut all = found.all;
    all.sort_by(|a, b| a.price.seconds().total_cmp(&b.price.seconds()));
    let key = |Choice { mesh, layout, .. }: &Choice| {
        format!("{} {processors} \"{mesh}\" \"{layout}\"", model.name())
    };
    let measured = match earlier {
        Some(earlier) => all
            .iter()
            .map(|choice| earlier.get(&key(choice)).cloned().unwrap_or_default())
            .collect(),
        None => in_rounds(flags, &graph, &function, &all)?,
    };
    let again = first_by_best(flags, &graph, &function, &all, &measured)?;
    let mut found = Vec::new();
    for (choice, rounds) in all.iter().zip(measured) {
        if rounds.is_empty() {
            remark(&format!("not measured: {}", key(choice)));
            continue;
        }
        let predicted = choice.price.seconds();
        if flags.list {
            let rounds: Vec<_> = rounds.iter().map(|time| format!("{:.4}", time * 1e3)).collect();
            print(&format!(
                "layout {} predicted_ms={:.4} measured_ms={}",
                key(choice),
                predicted * 1e3,
                rounds.join(",")
            ))?;
        }
        found.push((predicted, rounds));
    }
    Ok(Ranked { found, again })
}

/// The time of the first layout's step by that of the fastest measured one.
fn first_by_best(
    flags: &Flags,
    graph: &Graph,
    function: &str,
    all: &[Choice],
    measured: &[Rounds],
) -> Result<f64, Box<dyn Error>> {
    let time = |i: &usize| median(measured[*i].clone());
    let best = (0..all.len()).min_by(|i, j| time(i).total_cmp(&time(j))).unwrap_or(0);
    if best == 0 {
        return Ok(1.0);
    }
    let mut ratios = Vec::new();
    // Sessions of one program differ by where their memory lies.
    for _ in 0..flags.rounds(all.len()) {
        let mut best = Trained::new(flags, graph, function, &all[best])?;
        let mut first = Trained::new(flags, graph, function, &all[0])?;
        let [best, first] = in_turns(flags, &mut best, &mut first)?;
        ratios.push(first / best);
    }
    Ok(median(ratios))
}

/// The seconds of a step under each layout. What is measured is its time by that of the layout that is predicted to be
/// the fastest, whose steps are made in turns with its own, so that what slows the machine for a while slows both;
/// the unit is the median of what that layout took beside all others.
fn in_rounds(
    flags: &Flags,
    graph: &Graph,
    function: &str,
    all: &[Choice],
) -> Result<Vec<Rounds>, Box<dyn Error>> {
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let mut common = Trained::new(flags, graph, function, first)?;
    let (mut ratios, mut yardstick) = (vec![Vec::new(); all.len()], Vec::new());
    for _ in 0..flags.rounds(all.len()) {
        for (choice, ratios) in all.iter().zip(&mut ratios) {
            let mut trained = Trained::new(flags, graph, function, choice)?;
            let [beside, own] = in_turns(flags, &mut common, &mut trained)?;
            ratios.push(own / beside);
            yardstick.push(beside);
        }
    }
    let unit = median(yardstick);
    ratios.iter_mut().flatten().for_each(|ratio| *ratio *= unit);
    Ok(ratios)
}

/// A model under a layout, and a batch.
struct Trained<'a> {
    session: Session,
    function: &'a str,
    feeds: Vec<(String, Array)>,
}

impl<'a> Trained<'a> {
    /// Has made one step.
    fn new(
        flags: &Flags,
        graph: &Graph,
        function: &'a str,
        choice: &Choice,
    ) -> Result<Self, Box<dyn Error>> {
        let module = graph.lower(&choice.mesh, &choice.layout)?;
        let session = flags.backend.session(&module, 0, Target::host())?;
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
            feeds.push((slot.name.clone(), array));
        }
        let mut trained = Self { session, function, feeds };
        trained.step()?;
        Ok(trained)
    }

    /// Makes a step; returns its seconds.
    fn step(&mut self) -> Result<f64, Box<dyn Error>> {
        let views: Vec<_> =
            self.feeds.iter().map(|(name, array)| (name.as_str(), array.view())).collect();
        let started = Instant::now();
        self.session.call_named(self.function, &views)?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// The median seconds of a step of both, which are made in turns.
fn in_turns(
    flags: &Flags,
    one: &mut Trained<'_>,
    other: &mut Trained<'_>,
) -> Result<[f64; 2], Box<dyn Error>> {
    /// The fewest steps of each that are timed.
    const LEAST: usize = 3;
    let (began, most) = (Instant::now(), Duration::from_millis(flags.milliseconds));
    let mut times = [Vec::new(), Vec::new()];
    while began.elapsed() < most || times[0].len() < LEAST {
        times[0].push(one.step()?);
        times[1].push(other.step()?);
    }
    Ok(times.map(median))
}

/// Kendall's rank correlation, tau-b, which takes pairs that are equal on one side out of that side's count:
/// M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945). Predictions of one part in
/// a million apart are equal. Only pairs count whose measured times are this part of themselves apart.
fn kendall(times: &[(f64, f64)], apart: f64) -> f64 {
    let sign = |a: f64, b: f64| match (a - b).abs() <= 1e-6 * a.abs() {
        true => 0.0,
        false => (a - b).signum(),
    };
    let (mut together, mut one, mut other) = (0.0, 0.0, 0.0);
    for (i, a) in times.iter().enumerate() {
        for b in times[..i].iter().filter(|b| (a.1 - b.1).abs() >= apart * a.1.min(b.1)) {
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
            assert!((kendall(&pairs(a, b), 0.0) - expected).abs() < 1e-12);
        }
    }

    /// 10 and 10.5 are not told apart where 10 % are asked for; they are in the wrong order.
    #[test]
    fn what_is_not_told_apart_has_no_order() {
        let times = [(1.0, 10.5), (2.0, 10.0), (3.0, 20.0)];
        assert!((kendall(&times, 0.0) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(kendall(&times, 0.1), 1.0);
    }

    /// Standard deviations of two and of none: the median is that of the greater.
    #[test]
    fn an_error_is_of_a_typical_layout() {
        let found = [(1.0, vec![0.9, 1.1]), (1.0, vec![1.0, 1.0])];
        let expected = f64::sqrt(0.02) * f64::sqrt(PI / 2.0 / 2.0);
        assert!((error(&found).unwrap() - expected).abs() < 1e-12);
        assert_eq!(error(&[(1.0, vec![1.0])]), None);
    }
}
