//! Clusters as tf.distribute describes them: the JSON text of `TF_CONFIG`.
//!
//! ```json
//! {"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222", "host2:2222"]},
//!  "task": {"type": "worker", "index": 1}}
//! ```
//!
//! From this text follow the hosts that compute, their order, and the number of this process among
//! them. The chief comes first, then the workers. Parameter servers and evaluators compute no part
//! of a batch.

use crate::Strategy;
use serde_json::{Map, Value};
use std::fmt;
use thiserror::Error;

/// The work of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Task {
    /// A worker that also saves and reports. A cluster has at most one.
    Chief,
    /// Computes a part of each batch.
    Worker,
    /// Holds variables.
    Ps,
    /// Evaluates beside training.
    Evaluator,
}

impl Task {
    const ALL: [Self; 4] = [Self::Chief, Self::Worker, Self::Ps, Self::Evaluator];

    fn name(self) -> &'static str {
        match self {
            Self::Chief => "chief",
            Self::Worker => "worker",
            Self::Ps => "ps",
            Self::Evaluator => "evaluator",
        }
    }

    fn of(name: &str) -> Result<Self, ClusterError> {
        let found = Self::ALL.into_iter().find(|task| task.name() == name);
        found.ok_or_else(|| ClusterError::UnknownTask(name.to_owned()))
    }

    /// Whether the task computes a part of each batch.
    fn computes(self) -> bool {
        matches!(self, Self::Chief | Self::Worker)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a `TF_CONFIG` was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The text is not JSON.
    #[error("TF_CONFIG is no JSON: {0}")]
    Malformed(String),
    /// A value is missing or has the wrong type.
    #[error("TF_CONFIG: `{at}` must be {expected}")]
    Expected {
        /// The path of the value.
        at: String,
        /// What would be legal.
        expected: &'static str,
    },
    /// A key is unknown.
    #[error("TF_CONFIG: unknown key `{key}` in {within}: legal are {legal}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The object that it stands in.
        within: &'static str,
        /// The keys that are legal there.
        legal: &'static str,
    },
    /// A task type is unknown.
    #[error("TF_CONFIG: unknown task type `{0}`: legal are chief, worker, ps and evaluator")]
    UnknownTask(String),
    /// There is neither a chief nor a worker.
    #[error("TF_CONFIG: the cluster has no chief and no worker, so nobody would compute")]
    Empty,
    /// There is more than one chief.
    #[error("TF_CONFIG: the cluster has {0} chiefs: there is at most one")]
    Chiefs(usize),
    /// Two tasks have the same address.
    #[error("TF_CONFIG: the address `{address}` is given to {first} and to {second}")]
    Repeated {
        /// The address.
        address: String,
        /// One of the tasks.
        first: String,
        /// The other task.
        second: String,
    },
    /// The cluster has no task with the type and index of this process.
    #[error(
        "TF_CONFIG: the task is {task} {index}, but the cluster has {count} of that type{range}"
    )]
    OutOfRange {
        /// The type.
        task: Task,
        /// The index.
        index: u64,
        /// How many tasks of the type the cluster has.
        count: usize,
        /// The legal indices, in words.
        range: String,
    },
}

/// A cluster and this process's task in it, read from `TF_CONFIG`.
///
/// ```
/// use mesh_optimize::cluster::{Cluster, Task};
///
/// let cluster: Cluster = r#"{"cluster": {"worker": ["a:1", "b:1"]},
///                            "task": {"type": "worker", "index": 1}}"#.parse()?;
/// assert_eq!((cluster.hosts(), cluster.rank()), (vec!["a:1", "b:1"], Some(1)));
/// assert_eq!((cluster.task(), cluster.is_chief()), ((Task::Worker, 1), false));
/// assert!(cluster.addresses_of(Task::Ps).is_empty());
/// assert_eq!(cluster.strategy(4).to_string(), "multi_worker:2x4");
/// # Ok::<(), mesh_optimize::cluster::ClusterError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Task and address, the chief first, then workers, parameter servers and evaluators.
    tasks: Vec<(Task, usize, String)>,
    task: (Task, usize),
}

impl Cluster {
    /// The addresses of the hosts that compute, in the order of their ranks.
    pub fn hosts(&self) -> Vec<&str> {
        self.addresses(Task::computes)
    }

    /// The addresses of all tasks of a type.
    pub fn addresses_of(&self, task: Task) -> Vec<&str> {
        self.addresses(|other| other == task)
    }

    fn addresses(&self, which: impl Fn(Task) -> bool) -> Vec<&str> {
        let tasks = self.tasks.iter().filter(|(task, ..)| which(*task));
        tasks.map(|(.., address)| address.as_str()).collect()
    }

    /// The type and index of this process's task.
    pub fn task(&self) -> (Task, usize) {
        self.task
    }

    /// The position of this process among [`hosts`](Self::hosts); `None` if it does not compute.
    pub fn rank(&self) -> Option<usize> {
        let mut computing = self.tasks.iter().filter(|(task, ..)| task.computes());
        computing.position(|(task, index, _)| (*task, *index) == self.task)
    }

    /// Whether this process saves and reports: it is the chief, or the first worker where there is
    /// no chief.
    pub fn is_chief(&self) -> bool {
        self.rank() == Some(0)
    }

    /// The strategy that uses `local` processors of every host that computes.
    pub fn strategy(&self, local: usize) -> Strategy {
        Strategy::MultiWorkerMirrored { hosts: self.hosts().len(), local }
    }
}

impl std::str::FromStr for Cluster {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ClusterError::Malformed(error.to_string()))?;
        let top = object(&value, "TF_CONFIG")?;
        // Launchers write `environment` and `rpc_layer`; neither says which hosts compute.
        let legal = ["cluster", "task", "environment", "rpc_layer"];
        known(top, &legal, "TF_CONFIG", "cluster, task, environment and rpc_layer")?;
        let tasks = tasks(object(member(top, "cluster")?, "cluster")?)?;
        let task = object(member(top, "task")?, "task")?;
        known(task, &["type", "index", "trial", "cloud"], "task", "type and index")?;
        let name = member(task, "type")?.as_str().ok_or_else(|| ClusterError::Expected {
            at: "task.type".to_owned(),
            expected: "a string",
        })?;
        let number = member(task, "index")?.as_u64().ok_or_else(|| ClusterError::Expected {
            at: "task.index".to_owned(),
            expected: "a whole number from 0",
        })?;
        let task = Task::of(name)?;
        let count = tasks.iter().filter(|(other, ..)| *other == task).count();
        // An evaluator may be missing from the cluster, as no other task connects to it.
        let unlisted = task == Task::Evaluator && count == 0;
        match usize::try_from(number) {
            Ok(index) if index < count || unlisted => Ok(Self { tasks, task: (task, index) }),
            _ => {
                let range = match count {
                    0 => String::new(),
                    _ => format!(": legal are 0 to {}", count - 1),
                };
                Err(ClusterError::OutOfRange { task, index: number, count, range })
            }
        }
    }
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, ClusterError> {
    let expected = "an object, as in {\"cluster\": {\"worker\": [\"host:port\"]}, \"task\": \
                    {\"type\": \"worker\", \"index\": 0}}";
    value.as_object().ok_or_else(|| ClusterError::Expected { at: at.to_owned(), expected })
}

fn member<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value, ClusterError> {
    map.get(key).ok_or_else(|| ClusterError::Expected { at: key.to_owned(), expected: "given" })
}

fn known(
    map: &Map<String, Value>,
    keys: &[&str],
    within: &'static str,
    legal: &'static str,
) -> Result<(), ClusterError> {
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(ClusterError::UnknownKey { key: key.clone(), within, legal }),
    }
}

fn tasks(cluster: &Map<String, Value>) -> Result<Vec<(Task, usize, String)>, ClusterError> {
    for name in cluster.keys() {
        Task::of(name)?;
    }
    let mut tasks: Vec<(Task, usize, String)> = Vec::new();
    for task in Task::ALL {
        let Some(listed) = cluster.get(task.name()) else { continue };
        let refuse = || ClusterError::Expected {
            at: format!("cluster.{task}"),
            expected: "a list of addresses, each a string like \"host:port\"",
        };
        for (index, address) in listed.as_array().ok_or_else(refuse)?.iter().enumerate() {
            let address = address.as_str().filter(|text| !text.trim().is_empty());
            let address = address.ok_or_else(refuse)?.to_owned();
            if let Some((other, number, _)) = tasks.iter().find(|(.., known)| *known == address) {
                let (first, second) = (format!("{other} {number}"), format!("{task} {index}"));
                return Err(ClusterError::Repeated { address, first, second });
            }
            tasks.push((task, index, address));
        }
    }
    let count = |task| tasks.iter().filter(|(other, ..)| *other == task).count();
    match count(Task::Chief) {
        0 if count(Task::Worker) == 0 => Err(ClusterError::Empty),
        0 | 1 => Ok(tasks),
        chiefs => Err(ClusterError::Chiefs(chiefs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(cluster: &str, task: &str) -> Result<Cluster, String> {
        let text = format!("{{\"cluster\": {cluster}, \"task\": {task}}}");
        text.parse().map_err(|error: ClusterError| error.to_string())
    }

    #[test]
    fn the_chief_comes_first() {
        let all = r#"{"worker": ["b:1", "c:1"], "ps": ["p:1"], "chief": ["a:1"]}"#;
        let second = cluster(all, r#"{"type": "worker", "index": 1}"#).unwrap();
        assert_eq!(second.hosts(), ["a:1", "b:1", "c:1"]);
        assert_eq!((second.rank(), second.is_chief()), (Some(2), false));
        assert_eq!(second.addresses_of(Task::Ps), ["p:1"]);
        let server = cluster(all, r#"{"type": "ps", "index": 0}"#).unwrap();
        assert_eq!((server.rank(), server.task()), (None, (Task::Ps, 0)));
        let apart = cluster(all, r#"{"type": "evaluator", "index": 0}"#).unwrap();
        assert_eq!((apart.rank(), apart.hosts().len()), (None, 3));
        let workers = r#"{"worker": ["b:1", "c:1"]}"#;
        assert!(cluster(workers, r#"{"type": "worker", "index": 0}"#).unwrap().is_chief());
    }

    #[test]
    fn refusals() {
        let first = r#"{"type": "worker", "index": 0}"#;
        for (of, task, word) in [
            ("{}", first, "no chief and no worker"),
            (r#"{"worker": []}"#, first, "no chief and no worker"),
            (r#"{"ps": ["a:1"]}"#, first, "no chief and no worker"),
            (r#"{"wroker": ["a:1"]}"#, first, "unknown task type `wroker`"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "master", "index": 0}"#, "`master`"),
            (r#"{"worker": "a:1"}"#, first, "cluster.worker"),
            (r#"{"worker": [1]}"#, first, "host:port"),
            (r#"{"worker": ["a:1", "a:1"]}"#, first, "`a:1` is given to worker 0 and to worker 1"),
            (r#"{"worker": ["a:1"], "ps": ["a:1"]}"#, first, "worker 0 and to ps 0"),
            (r#"{"chief": ["a:1", "b:1"]}"#, first, "2 chiefs"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "worker", "index": 1}"#, "legal are 0 to 0"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "ps", "index": 0}"#, "has 0 of that type"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "worker", "index": -1}"#, "whole number"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "worker"}"#, "`index` must be given"),
            (r#"{"worker": ["a:1"]}"#, r#"{"type": "worker", "index": 0, "x": 1}"#, "key `x`"),
            (r#"["a:1"]"#, first, "an object"),
        ] {
            let error = cluster(of, task).unwrap_err();
            assert!(error.starts_with("TF_CONFIG") && error.contains(word), "{of}: {error}");
        }
        for (text, word) in [
            ("", "no JSON"),
            ("{", "line 1"),
            ("[]", "an object"),
            ("{}", "`cluster` must be given"),
            (r#"{"cluster": {"worker": ["a:1"]}}"#, "`task` must be given"),
            (r#"{"clusters": {}}"#, "unknown key `clusters`"),
        ] {
            let error = text.parse::<Cluster>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
