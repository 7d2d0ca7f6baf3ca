//! Sets a session's variables to those of a checkpoint.

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
/// To resume a training run, use [`Restore::all`]: the variables must be exactly those of the
/// checkpoint, and the session takes over its seed. To start another run from a checkpoint, use the
/// other functions: choose variables, give their names in the checkpoint, and allow that it lacks
/// some or has more. Then the session keeps its own seed.
///
/// Patterns are regular expressions that may match anywhere in a name; `^` and `$` anchor them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Restore {
    matching: Option<String>,
    except: Option<String>,
    renames: Vec<(String, String)>,
    allow_missing: bool,
    allow_extra: bool,
}

/// What a restore has done.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Restored {
    /// The variables that were set, with their tensors.
    pub loaded: Vec<Loaded>,
    /// The variables that kept their values.
    pub kept: Vec<String>,
    /// The tensors of the checkpoint that were not used.
    pub left: Vec<String>,
    /// Whether the session took over the checkpoint's seed.
    pub seed: bool,
}

/// A variable and the tensor that it was set to.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The variable's name.
    pub variable: String,
    /// The tensor's name.
    pub tensor: String,
}

impl Restore {
    /// Sets every variable to the tensor of its name.
    pub fn all() -> Self {
        Self::default()
    }

    /// Sets only the variables in whose names `pattern` matches. Other tensors are not used.
    pub fn matching(pattern: &str) -> Self {
        Self { matching: Some(pattern.to_owned()), ..Self::default() }
    }

    /// Excludes the variables in whose names `pattern` matches, and the tensors of such names.
    pub fn except(mut self, pattern: &str) -> Self {
        self.except = Some(pattern.to_owned());
        self
    }

    /// Looks for a variable under another name: every match of `pattern` in the variable's name is
    /// replaced by `replacement`, in which `$1` or `${name}` are the pattern's groups. Several
    /// renames apply in the order in which they were given. Several variables may use one tensor.
    pub fn rename(mut self, pattern: &str, replacement: &str) -> Self {
        self.renames.push((pattern.to_owned(), replacement.to_owned()));
        self
    }

    /// Variables that the checkpoint lacks keep their values.
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// The checkpoint may have tensors that are not used.
    pub fn allow_extra(mut self) -> Self {
        self.allow_extra = true;
        self
    }
}

/// A [`Restore`] with compiled patterns.
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

    /// Whether a variable should be set.
    fn wants(&self, variable: &str) -> bool {
        self.matching.as_ref().is_none_or(|pattern| pattern.is_match(variable))
            && !self.excepts(variable)
    }

    fn excepts(&self, name: &str) -> bool {
        self.except.as_ref().is_some_and(|pattern| pattern.is_match(name))
    }

    /// The name of a variable's tensor.
    fn tensor(&self, variable: &str) -> String {
        let rename = |name: String, (pattern, to): &(Regex, String)| {
            pattern.replace_all(&name, to.as_str()).into_owned()
        };
        self.renames.iter().fold(variable.to_owned(), rename)
    }
}

/// Which variables are set to which tensors, by index.
struct Plan {
    pairs: Vec<(usize, usize)>,
    kept: Vec<String>,
    left: Vec<String>,
}

/// Finds a tensor for every variable, or all differences that prevent that.
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
    /// Sets variables to their values in a checkpoint, which may have been saved under another mesh
    /// and layout. With [`Restore::all`] the session also takes over the seed, so that random
    /// operations continue as they would have.
    ///
    /// Variables are read one after another, so that at most one variable's slices are in memory
    /// twice. Where several processes run one module, each reads the slices of its own processors.
    ///
    /// # Errors
    ///
    /// If the checkpoint's variables are not those that `restore` asks for, or a pattern is no
    /// regular expression, or the file is no longer as it was when the checkpoint was opened: all
    /// that is restored is checked first, and no variable has changed. If the file changes even after
    /// that, the error may be [`CheckpointError::Interrupted`].
    pub fn restore(&mut self, checkpoint: &Checkpoint, restore: &Restore) -> Result<Restored> {
        let specs = self.variables.values().map(|held| &held.spec);
        let Plan { pairs, kept, left } = plan(restore, specs, checkpoint)?;
        let mut buffer = vec![0; CHUNK];
        pairs.iter().try_for_each(|(_, stored)| checkpoint.check(*stored, &mut buffer))?;
        let loaded = self.set_variables(checkpoint, &pairs, &mut buffer)?;
        let seed = *restore == Restore::all();
        if seed {
            self.backend.set_seed(checkpoint.seed());
        }
        Ok(Restored { loaded, kept, left, seed })
    }

    /// Sets variables to tensors, by index, one after another.
    pub(super) fn set_variables(
        &mut self,
        checkpoint: &Checkpoint,
        pairs: &[(usize, usize)],
        buffer: &mut [u8],
    ) -> Result<Vec<Loaded>> {
        let names: Vec<_> = checkpoint.tensors().map(|stored| stored.name).collect();
        let mut loaded = Vec::new();
        for &(variable, stored) in pairs {
            let mut tensor = self.zeros(variable);
            checkpoint.fill(stored, &mut tensor, buffer).map_err(|source| match loaded.len() {
                0 => source,
                set => CheckpointError::Interrupted { set, of: pairs.len(), source: source.into() },
            })?;
            self.set_slices(variable, &tensor)?;
            loaded.push(Loaded { variable: tensor.spec.name, tensor: names[stored].to_owned() });
        }
        Ok(loaded)
    }

    /// The seed of initial values and random numbers.
    pub fn seed(&self) -> u64 {
        self.backend.seed()
    }

    /// A hash of the names, dtypes, global shapes and trainable flags of the variables. It does not
    /// depend on mesh, layout, build or machine.
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
