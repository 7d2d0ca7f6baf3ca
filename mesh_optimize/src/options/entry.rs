//! An optimizer in the list of all.

use super::keys::Keys;
use super::range::Range;
use super::setting::Setting;
use crate::{Optimizer, Schedule};
use mesh_core::graph::Graph;
use std::fmt;
use std::sync::Arc;

/// What an optimizer's room says of it, for configurations and for docs/optimizers.md.
#[derive(Debug)]
pub struct About {
    /// Its name in configurations and flags.
    pub name: &'static str,
    /// The learning rate that PyTorch or optax takes if none is given; of an optimizer that neither has, the
    /// paper's.
    pub rate: f64,
    /// What an update computes, in lines of plain text.
    pub formula: &'static str,
    /// The paper that it is from, with the algorithm or equation.
    pub paper: &'static str,
    /// Where the defaults of optax and PyTorch differ from each other, and from these.
    pub peers: &'static str,
}

/// An optimizer that is in the list: it says once what it is called and which options it has.
pub(crate) trait Listed: Optimizer + Clone + fmt::Debug + Send + Sync + 'static {
    /// What it is.
    const ABOUT: About;

    /// With its default options.
    fn of_rate(rate: Schedule) -> Self;

    /// With another rate.
    fn with_rate(self, rate: Schedule) -> Self;

    /// The rate that it takes if none is given, if it has one of its own.
    fn own_rate(&self) -> Option<Schedule> {
        None
    }

    /// Its options. What they may be holds for configurations and for fields alike.
    fn settings() -> Vec<Setting<Self>>;

    /// The options of a configuration.
    fn read(keys: &mut Keys) -> Self {
        let mut optimizer = Self::of_rate(Self::ABOUT.rate.into());
        read(&mut optimizer, &Self::settings(), keys);
        optimizer
    }
}

/// The two functions of [`Listed`] about the rate, of a struct with `new` and a field `learning_rate`.
macro_rules! rate_field {
    () => {
        fn of_rate(rate: Schedule) -> Self {
            Self::new(rate)
        }

        fn with_rate(self, learning_rate: Schedule) -> Self {
            Self { learning_rate, ..self }
        }
    };
}
pub(crate) use rate_field;

/// An optimizer around another one that is in the list: its options, without the other.
pub(crate) trait Wrapper: Clone + fmt::Debug + Send + Sync + 'static {
    /// What it is. The rate has no meaning.
    const ABOUT: About;

    /// Its default options.
    fn defaults() -> Self;

    /// Its options.
    fn settings() -> Vec<Setting<Self>>;

    /// The optimizer around `inner`, which already has the learning rate.
    fn around(&self, inner: Box<dyn Optimizer>, rate: &Schedule) -> Box<dyn Optimizer>;
}

/// Whether every number of an optimizer is in its range. Records an error for each that is not.
#[track_caller]
pub(crate) fn check<O: Listed>(optimizer: &O, graph: &Graph) -> bool {
    in_ranges(O::ABOUT.name, optimizer, &O::settings(), graph)
}

/// As [`check`], for an optimizer around another one.
#[track_caller]
pub(crate) fn check_wrapper<W: Wrapper>(options: &W, graph: &Graph) -> bool {
    in_ranges(W::ABOUT.name, options, &W::settings(), graph)
}

#[track_caller]
fn in_ranges<O>(name: &str, options: &O, settings: &[Setting<O>], graph: &Graph) -> bool {
    let numbers: Vec<(&str, f64, Range)> = settings
        .iter()
        .filter_map(|setting| {
            Some((setting.name, (setting.get)(options).number()?, setting.range?))
        })
        .collect();
    super::in_range(graph, name, &numbers)
}

fn read<O>(options: &mut O, settings: &[Setting<O>], keys: &mut Keys) {
    for setting in settings {
        (setting.get_mut)(options).read(keys, setting.name, setting.range);
    }
}

/// An optimizer's options, read and checked; its rate is still to come.
pub(crate) trait Prototype: fmt::Debug + Send + Sync {
    /// The optimizer with a rate.
    fn optimizer(&self, rate: &Schedule) -> Box<dyn Optimizer>;

    /// See [`Listed::own_rate`].
    fn own_rate(&self) -> Option<Schedule>;
}

impl<O: Listed> Prototype for O {
    fn own_rate(&self) -> Option<Schedule> {
        Listed::own_rate(self)
    }

    fn optimizer(&self, rate: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.clone().with_rate(rate.clone()))
    }
}

/// A wrapper's options, and the prototype of what it is around.
#[derive(Debug)]
struct Wrapped<W>(W, Arc<dyn Prototype>);

impl<W: Wrapper> Prototype for Wrapped<W> {
    fn own_rate(&self) -> Option<Schedule> {
        self.1.own_rate()
    }

    fn optimizer(&self, rate: &Schedule) -> Box<dyn Optimizer> {
        self.0.around(self.1.optimizer(rate), rate)
    }
}

/// An option as users see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionAbout {
    /// Its name in configurations and errors.
    pub name: &'static str,
    /// Its default, as a configuration would say it.
    pub default: String,
    /// What it may be.
    pub legal: String,
}

fn abouts<O>(defaults: &O, settings: &[Setting<O>]) -> Vec<OptionAbout> {
    let about = |setting: &Setting<O>| {
        let field = (setting.get)(defaults);
        OptionAbout { name: setting.name, default: field.text(), legal: field.legal(setting.range) }
    };
    settings.iter().map(about).collect()
}

/// An optimizer in the list of all; see [`optimizers`](crate::optimizers).
///
/// ```
/// use mesh_optimize::{Optimizer, optimizers};
///
/// for entry in optimizers().iter().filter(|entry| !entry.wraps()) {
///     let optimizer = entry.optimizer(&entry.usual_rate(), serde_json::Map::new())?;
///     println!("{}: {}, {:?}", entry.name(), entry.about().paper, optimizer.slot_names());
///     entry.options().iter().for_each(|option| println!("  {} {}", option.name, option.default));
/// }
/// # Ok::<(), mesh_optimize::ConfigError>(())
/// ```
pub struct Entry {
    about: &'static About,
    options: fn() -> Vec<OptionAbout>,
    rate: fn() -> Schedule,
    make: Make,
}

enum Make {
    Optimizer(fn(&mut Keys) -> Arc<dyn Prototype>),
    Wrapper(fn(&mut Keys, Arc<dyn Prototype>) -> Arc<dyn Prototype>),
}

impl Entry {
    pub(crate) const fn of<O: Listed>() -> Self {
        Self {
            about: &O::ABOUT,
            options: || abouts(&O::of_rate(O::ABOUT.rate.into()), &O::settings()),
            rate: || {
                let usual = Schedule::from(O::ABOUT.rate);
                O::of_rate(usual.clone()).own_rate().unwrap_or(usual)
            },
            make: Make::Optimizer(|keys| Arc::new(O::read(keys))),
        }
    }

    pub(crate) const fn around<W: Wrapper>() -> Self {
        Self {
            about: &W::ABOUT,
            options: || abouts(&W::defaults(), &W::settings()),
            rate: || W::ABOUT.rate.into(),
            make: Make::Wrapper(|keys, inner| {
                let mut wrapper = W::defaults();
                read(&mut wrapper, &W::settings(), keys);
                Arc::new(Wrapped(wrapper, inner))
            }),
        }
    }

    /// What its room says of it.
    pub fn about(&self) -> &'static About {
        self.about
    }

    /// Its name in configurations and flags.
    pub fn name(&self) -> &'static str {
        self.about.name
    }

    /// The rate for a run that names none: the optimizer's own, or the usual one.
    pub fn usual_rate(&self) -> Schedule {
        (self.rate)()
    }

    /// Its options with their defaults.
    pub fn options(&self) -> Vec<OptionAbout> {
        (self.options)()
    }

    /// Whether it is an optimizer around another one, which a configuration names under `inner`.
    pub fn wraps(&self) -> bool {
        matches!(self.make, Make::Wrapper(_))
    }

    /// Its options, taken from a configuration; `inner` is given to optimizers around others only.
    pub(crate) fn read(
        &self,
        keys: &mut Keys,
        inner: Option<Arc<dyn Prototype>>,
    ) -> Option<Arc<dyn Prototype>> {
        match &self.make {
            Make::Optimizer(make) => Some(make(keys)),
            Make::Wrapper(make) => Some(make(keys, inner?)),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name()).finish()
    }
}
