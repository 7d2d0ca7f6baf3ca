//! Strategies as text: `mirrored:2`, `tpu:2x2`, `parameter_server:2;staleness:3`.

use super::{Processors, Strategy, StrategyError};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneDevice => f.write_str("one_device"),
            Self::Mirrored(Processors::Count(count)) => write!(f, "mirrored:{count}"),
            Self::Mirrored(Processors::Cores(cores)) => {
                write!(f, "mirrored:[{}]", joined(cores, ","))
            }
            Self::MultiWorkerMirrored { hosts, local } => write!(f, "multi_worker:{hosts}x{local}"),
            Self::Tpu(topology) => write!(f, "tpu:{}", joined(topology, "x")),
            Self::CentralStorage(processors) => write!(f, "central_storage:{processors}"),
            Self::ParameterServer { processors, staleness: 0 } => {
                write!(f, "parameter_server:{processors}")
            }
            Self::ParameterServer { processors, staleness } => {
                write!(f, "parameter_server:{processors};staleness:{staleness}")
            }
        }
    }
}

fn joined(numbers: &[usize], by: &str) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(by)
}

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let (name, argument) = match text.trim().split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text.trim(), None),
        };
        let found = argument.unwrap_or_default();
        let refuse = |strategy, expected, example| {
            let found = text.trim().to_owned();
            StrategyError::Argument { strategy, found, expected, example }
        };
        let strategy = match name {
            "one_device" => match argument {
                None => Self::OneDevice,
                Some(_) => return Err(refuse("one_device", "nothing", "one_device")),
            },
            "mirrored" => Self::Mirrored(processors(found).ok_or_else(|| {
                let expected = "a number of processors or a list of cores";
                refuse("mirrored", expected, "mirrored:2` or `mirrored:[0,1]")
            })?),
            "multi_worker" => match numbers(found, 'x').as_deref() {
                Some(&[hosts, local]) => Self::MultiWorkerMirrored { hosts, local },
                _ => {
                    let expected = "hosts x processors of each";
                    return Err(refuse("multi_worker", expected, "multi_worker:2x2"));
                }
            },
            "tpu" => Self::Tpu(
                numbers(found, 'x').ok_or_else(|| refuse("tpu", "a topology", "tpu:2x2"))?,
            ),
            "central_storage" => Self::CentralStorage(number(found).ok_or_else(|| {
                refuse("central_storage", "a number of processors", "central_storage:2")
            })?),
            "parameter_server" => server(found).ok_or_else(|| {
                let expected = "a number of processors and perhaps a staleness";
                let example = "parameter_server:2` or `parameter_server:2;staleness:1";
                refuse("parameter_server", expected, example)
            })?,
            _ => return Err(StrategyError::Unknown(text.to_owned())),
        };
        strategy.check()?;
        Ok(strategy)
    }
}

fn number(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

fn numbers(text: &str, by: char) -> Option<Vec<usize>> {
    text.split(by).map(number).collect()
}

fn processors(text: &str) -> Option<Processors> {
    match text.trim().strip_prefix('[') {
        None => number(text).map(Processors::Count),
        Some(rest) => numbers(rest.strip_suffix(']')?, ',').map(Processors::Cores),
    }
}

fn server(text: &str) -> Option<Strategy> {
    let (count, staleness) = match text.split_once(';') {
        None => (text, 0),
        Some((count, option)) => {
            let (name, depth) = option.split_once(':')?;
            (count, (name.trim() == "staleness").then(|| number(depth))??)
        }
    };
    Some(Strategy::ParameterServer { processors: number(count)?, staleness })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_round_trips() {
        for text in [
            "one_device",
            "mirrored:2",
            "mirrored:[0,3]",
            "multi_worker:2x4",
            "tpu:2x2",
            "tpu:4x4x4",
            "central_storage:2",
            "parameter_server:3",
            "parameter_server:3;staleness:2",
        ] {
            assert_eq!(text.parse::<Strategy>().map(|s| s.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn refusals_name_the_legal_forms() {
        for (text, word) in [
            ("mirror:2", "mirrored:N"),
            ("", "tpu:XxY"),
            ("one_device:2", "one_device takes nothing"),
            ("mirrored", "`mirrored:2`"),
            ("mirrored:0", "mirrored:0 has no processors"),
            ("mirrored:[0,0]", "core 0 is named twice in [0, 0]"),
            ("mirrored:[0", "list of cores"),
            ("mirrored:-1", "a number of processors"),
            ("multi_worker:2", "`multi_worker:2x2`"),
            ("multi_worker:2x2x2", "hosts x processors of each"),
            ("tpu:2x", "a topology"),
            ("tpu:2x2x2x2x2", "5 are given"),
            ("tpu:2x0", "has no processors"),
            ("central_storage:two", "`central_storage:2`"),
            ("parameter_server:2;stale:1", "staleness:1"),
        ] {
            let error = text.parse::<Strategy>().map_err(|e| e.to_string()).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
