//! Setting a session's variables to those of a checkpoint.

use std::fmt;

use indexmap::{IndexMap, IndexSet};
use regex_lite::Regex;

use super::manifest::signature_of;
use super::tensors::CHUNK;
use super::{Checkpoint, CheckpointError, Differing, Missing, Result, Unfit, Unused};
use crate::lower::VariableSpec;
use crate::names::nearest;
use crate::session::Session;

/// Which variables are set to which tensors of a checkpoint.
///
/// [`Restore::all`] is to go on with a training run: the same variables, no more and no fewer, and
/// the seed. The rest is to begin another one from it: which variables are to be had from it, what
/// they were called there, and whether it may lack some or have others. Then the session keeps its
/// own seed.
///
/// Patterns are regular expressions that are searched in names; `^` and `$` tie them to the ends.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Restore {
    matching: Option<String>,
    except: Option<String>,
    renames: Vec<(String, String)>,
    allow_missing: bool,
    allow_extra: bool,
}

/// What restoring did.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Restored {
    /// Variables that were set.
    pub loaded: Vec<Loaded>,
    /// Variables that are what they were.
    pub kept: Vec<String>,
    /// Tensors of the checkpoint that no variable was set to.
    pub left: Vec<String>,
    /// Whether the session has the checkpoint's seed now.
    pub seed: bool,
}

/// A variable and the tensor that it was set to.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The variable.
    pub variable: String,
    /// The tensor.
    pub tensor: String,
}

impl Restore {
    /// Every variable from the tensor of its name.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only the variables in whose names `pattern` is found. What else the checkpoint has is left.
    pub fn matching(pattern: &str) -> Self {
        Self { matching: Some(pattern.to_owned()), ..Self::default() }
    }

    /// Not the variables in whose names `pattern` is found, and not the tensors of such names.
    pub fn except(mut self, pattern: &str) -> Self {
        self.except = Some(pattern.to_owned());
        self
    }

    /// Looks for a variable under another name: in the variable's name, every match of `pattern` is
    /// replaced by `replacement`, in which `$1` or `${name}` stand for what a group matched. Several
    /// renames are made in the order in which they were given. Several variables may come from
    /// one tensor.
    pub fn rename(mut self, pattern: &str, replacement: &str) -> Self {
        self.renames.push((pattern.to_owned(), replacement.to_owned()));
        self
    }

    /// Variables that the checkpoint lacks are what they were.
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// The checkpoint may have tensors that no variable is set to.
    pub fn allow_extra(mut self) -> Self {
        self.allow_extra = true;
        self
    }
}

/// A [`Restore`] with its patterns read.
struct Patterns {
    matching: Option<Regex>,
    except: Option<Regex>,
    renames: Vec<(Regex, String)>,
}

impl Patterns {
    fn new(restore: &Restore) -> Result<Self> {
        let read = |pattern: &String| {
            Regex::new(pattern).map_err(|error| {
                let (pattern, problem) = (pattern.clone(), error.to_string());
                CheckpointError::Pattern { pattern, problem }
            })
        };
        let renames = restore.renames.iter().map(|(pattern, to)| Ok((read(pattern)?, to.clone())));
        Ok(Self {
            matching: restore.matching.as_ref().map(read).transpose()?,
            except: restore.except.as_ref().map(read).transpose()?,
            renames: renames.collect::<Result<_>>()?,
        })
    }

    /// Whether a variable is to be set.
    fn wants(&self, variable: &str) -> bool {
        self.matching.as_ref().is_none_or(|pattern| pattern.is_match(variable))
            && !self.excepts(variable)
    }

    fn excepts(&self, name: &str) -> bool {
        self.except.as_ref().is_some_and(|pattern| pattern.is_match(name))
    }

    /// What the tensor of a variable is called.
    fn tensor(&self, variable: &str) -> String {
        let rename = |name: String, (pattern, to): &(Regex, String)| {
            pattern.replace_all(&name, to.as_str()).into_owned()
        };
        self.renames.iter().fold(variable.to_owned(), rename)
    }
}

/// Variables and the tensors they are set to, by number.
struct Plan {
    pairs: Vec<(usize, usize)>,
    kept: Vec<String>,
    left: Vec<String>,
}

/// Finds a tensor for every variable, or else everything that is in the way.
fn plan<'v>(
    restore: &Restore,
    variables: impl Iterator<Item = &'v VariableSpec>,
    checkpoint: &Checkpoint,
) -> Result<Plan> {
    let patterns = Patterns::new(restore)?;
    let tensors: IndexMap<_, _> =
        checkpoint.tensors().map(|stored| (stored.name, stored)).collect();
    let (mut pairs, mut kept, mut missing, mut differing) = (vec![], vec![], vec![], vec![]);
    for (index, VariableSpec { name, dtype, shape, .. }) in variables.enumerate() {
        let (variable, tensor) = (name.clone(), patterns.tensor(name));
        if !patterns.wants(name) {
            kept.push(variable);
            continue;
        }
        match tensors.get_full(&*tensor) {
            Some((found, _, stored)) => {
                let expected = (*dtype, shape.sizes());
                if (stored.dtype, stored.shape) != (expected.0, &expected.1[..]) {
                    let found = (stored.dtype, stored.shape.to_vec());
                    differing.push(Differing { variable, expected, tensor, found });
                }
                pairs.push((index, found));
            }
            None if restore.allow_missing => kept.push(variable),
            None => missing.push(Missing { variable, tensor, nearest: None }),
        }
    }
    let used: IndexSet<usize> = pairs.iter().map(|(_, tensor)| *tensor).collect();
    let rest = || tensors.values().enumerate().filter(|(index, _)| !used.contains(index));
    for Missing { tensor, nearest: found, .. } in &mut missing {
        *found = nearest(tensor, rest().map(|(_, stored)| stored.name));
    }
    let extra_is_fine = restore.allow_extra || restore.matching.is_some();
    let unused = rest().filter(|(_, stored)| !extra_is_fine && !patterns.excepts(stored.name));
    let unused = unused.map(|(_, stored)| {
        let (tensor, dtype, shape) = (stored.name.to_owned(), stored.dtype, stored.shape.to_vec());
        Unused { tensor, dtype, shape }
    });
    let path = checkpoint.path().to_owned();
    let unfit = Unfit { path, missing, unused: unused.collect(), differing };
    if !unfit.is_empty() {
        return Err(CheckpointError::Unfit(Box::new(unfit)));
    }
    Ok(Plan { pairs, kept, left: rest().map(|(_, stored)| stored.name.to_owned()).collect() })
}

impl Session {
    /// Sets variables to what they are in a checkpoint, saved under whatever mesh and layout. If
    /// anything is wrong, nothing has changed. With [`Restore::all`] the seed is the checkpoint's
    /// as well, so that random operations go on as they would have.
    ///
    /// Until all is read, what is restored is in memory twice. Of several processes, each reads the
    /// slices of its own processors.
    pub fn restore(&mut self, checkpoint: &Checkpoint, restore: &Restore) -> Result<Restored> {
        let specs = self.variables.values().map(|held| &held.spec);
        let Plan { pairs, kept, left } = plan(restore, specs, checkpoint)?;
        let (mut buffer, mut read) = (vec![0; CHUNK], Vec::new());
        for &(variable, stored) in &pairs {
            let mut tensor = self.zeros(variable);
            checkpoint.fill(stored, &mut tensor, &mut buffer)?;
            read.push(tensor);
        }
        for ((variable, _), tensor) in pairs.iter().zip(&read) {
            self.set_slices(*variable, tensor)?;
        }
        let seed = *restore == Restore::all();
        if seed {
            self.backend.set_seed(checkpoint.seed());
        }
        let names: Vec<_> = checkpoint.tensors().map(|stored| stored.name).collect();
        let loaded = pairs.iter().zip(&read).map(|(&(_, stored), tensor)| {
            let (variable, tensor) = (tensor.spec.name.clone(), names[stored].to_owned());
            Loaded { variable, tensor }
        });
        Ok(Restored { loaded: loaded.collect(), kept, left, seed })
    }

    /// What everything random follows from.
    pub fn seed(&self) -> u64 {
        self.backend.seed()
    }

    /// A hash of the names, dtypes, global shapes and trainable flags of the variables, the same
    /// under every mesh and layout, in every build and on every machine.
    pub fn signature(&self) -> String {
        signature_of(self.variables.values().map(|held| &held.spec))
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} variables restored", self.loaded.len())?;
        let renamed = self.loaded.iter().filter(|loaded| loaded.variable != loaded.tensor);
        for Loaded { variable, tensor } in renamed {
            write!(f, "\n  `{variable}` from `{tensor}`")?;
        }
        self.kept.iter().try_for_each(|name| write!(f, "\n  kept as it was: `{name}`"))?;
        self.left.iter().try_for_each(|name| write!(f, "\n  left in the checkpoint: `{name}`"))
    }
}
