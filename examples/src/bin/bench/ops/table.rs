//! `examples/bench/ops.txt`, which PyTorch's program reads as well.

use mesh_ops::prelude::*;
use std::error::Error;

const TABLE: &str = include_str!("../../../../bench/ops.txt");

/// What an input holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// Normal numbers; whether they are trained.
    Normal(bool),
    /// Uniform in `[0.1, 1)`; whether they are trained.
    Uniform(bool),
    /// Whole numbers below this.
    Below(i32),
    /// True or false.
    Truth,
}

/// An op, its inputs, and the layout under which processors share its work.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) inputs: Vec<(Kind, Shape)>,
    pub(super) layout: Layout,
}

impl Case {
    /// Whether it has a gradient.
    pub(super) fn is_trained(&self) -> bool {
        self.inputs.iter().any(|(kind, _)| matches!(kind, Kind::Normal(true) | Kind::Uniform(true)))
    }
}

/// All lines of the table.
pub(super) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| case(line).map_err(|error| format!("{line}: {error}").into())).collect()
}

fn case(line: &str) -> Result<Case, Box<dyn Error>> {
    let (name, inputs, dim) = match line.split(" | ").collect::<Vec<_>>()[..] {
        [name, _model, inputs] => (name, inputs, "batch"),
        [name, _model, inputs, dim] => (name, inputs, dim),
        _ => return Err("not three or four columns".into()),
    };
    let inputs = inputs.split(" ; ").map(input).collect::<Result<_, _>>()?;
    Ok(Case { name: name.to_owned(), inputs, layout: format!("{dim}:all").parse()? })
}

fn input(text: &str) -> Result<(Kind, Shape), Box<dyn Error>> {
    let (kind, shape) = text.split_once(' ').ok_or("no shape")?;
    let kind = match kind {
        "n" | "N" => Kind::Normal(kind == "n"),
        "u" | "U" => Kind::Uniform(kind == "u"),
        "b" => Kind::Truth,
        _ => Kind::Below(kind.strip_prefix('i').ok_or("no kind")?.parse()?),
    };
    Ok((kind, shape.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::made;

    #[test]
    fn every_line_is_an_op() {
        for case in cases().unwrap() {
            let graph = mesh_ops::graph();
            let inputs = case.inputs.iter().enumerate().map(|(i, (kind, shape))| {
                let dtype = match kind {
                    Kind::Normal(_) | Kind::Uniform(_) => F32,
                    Kind::Below(_) => I32,
                    Kind::Truth => Bool,
                };
                graph.input(&format!("x{i}"), shape.clone(), dtype)
            });
            let inputs: Vec<_> = inputs.collect();
            assert!(made(&case.name, &inputs).is_some(), "{} is no op", case.name);
            graph.check().unwrap_or_else(|report| panic!("{}: {report}", case.name));
        }
    }
}
