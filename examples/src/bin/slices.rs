//! Draws which processor holds which slice of a tensor.

use clap::Parser;
use examples::launch::{LaunchError, exit, parse};
use examples::report::print;
use mesh_core::names::{Layout, Mesh, Placement, Rules, Shape};
use std::process::ExitCode;

/// Shows which processor holds which slice of a tensor.
///
/// Example: slices --tensor "batch:8;hidden:16" --mesh "rows:2;cols:4" --layout
/// "batch:rows;hidden:cols"
#[derive(Parser, Debug)]
#[command(name = "slices", version)]
struct Flags {
    /// The tensor's dims, in order.
    #[arg(long, default_value = "batch:8;hidden:16")]
    tensor: String,
    /// Processors as a grid.
    #[arg(long, default_value = "rows:2;cols:4")]
    mesh: String,
    /// How dims are split over mesh axes.
    #[arg(long, default_value = "batch:rows;hidden:cols")]
    layout: String,
}

/// The most processors that are drawn.
const MOST: usize = 1 << 16;

fn main() -> ExitCode {
    exit(|| Ok(print(run(&Flags::parse())?.trim_end())?))
}

fn run(flags: &Flags) -> Result<String, Box<dyn std::error::Error>> {
    let shape: Shape = parse("tensor", &flags.tensor)?;
    let mesh: Mesh = parse("mesh", &flags.mesh)?;
    if mesh.processors() > MOST {
        return Err(format!(
            "--mesh {mesh}: there is a line for each processor; legal are up to {MOST}"
        )
        .into());
    }
    let layout: Layout = parse("layout", &flags.layout)?;
    let rules = Rules::bind(&layout, &mesh).map_err(|errors| LaunchError::Flag {
        flag: "layout",
        text: flags.layout.clone(),
        message: errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    })?;
    let placement = rules.compute(&shape);
    check(&mesh, &shape, &placement)?;
    let mut text = format!(
        "{} on {} processors, {} elements on each\n\n",
        placement.describe(&mesh, &shape),
        mesh.processors(),
        placement.local_shape(&mesh, &shape).map_or(0, |local| local.size()),
    );
    text.push_str(&table(&mesh, &shape, &placement));
    if shape.rank() == 2 {
        text.push_str(&picture(&mesh, &shape, &placement));
    }
    Ok(text)
}

/// The problems of the layout with this tensor, in words.
fn check(mesh: &Mesh, shape: &Shape, placement: &Placement) -> Result<(), String> {
    for dim in shape {
        let parts = placement.parts(mesh, dim.name);
        if dim.size % parts != 0 {
            let legal: Vec<_> = (1..=dim.size.min(1024))
                .filter(|n| dim.size % n == 0)
                .map(|n| n.to_string())
                .collect();
            return Err(format!(
                "dim {dim} cannot be split over {} into {parts} equal parts; {} would do",
                mesh.list(placement.axes(dim.name)),
                legal.join(", ")
            ));
        }
    }
    for axis in mesh.axes() {
        let on: Vec<_> =
            placement.splits().filter(|(_, axes)| axes.contains(&axis)).map(|s| s.0).collect();
        if let [a, b, ..] = on[..] {
            return Err(format!("dims {a} and {b} are both split over {}", mesh.name(axis)));
        }
    }
    Ok(())
}

fn table(mesh: &Mesh, shape: &Shape, placement: &Placement) -> String {
    let axes: Vec<_> = mesh.axes().collect();
    let mut text = String::new();
    for processor in 0..mesh.processors() {
        let Some(slice) = placement.slice(mesh, shape, processor) else { continue };
        let place: Vec<_> = axes
            .iter()
            .map(|&axis| format!("{}={}", mesh.name(axis), mesh.coordinate(processor, axis)))
            .collect();
        let ranges: Vec<_> = shape
            .iter()
            .zip(slice.begin.iter().zip(&slice.size))
            .map(|(dim, (begin, size))| format!("{}[{begin}..{}]", dim.name, begin + size))
            .collect();
        text.push_str(&format!(
            "processor {processor:>3}  {:<20} {}\n",
            place.join(" "),
            ranges.join(" ")
        ));
    }
    text
}

/// Draws the blocks of a matrix, each with the processors that hold it.
fn picture(mesh: &Mesh, shape: &Shape, placement: &Placement) -> String {
    let parts: Vec<_> = shape.iter().map(|d| placement.parts(mesh, d.name)).collect();
    let mut cells = vec![vec![Vec::new(); parts[1]]; parts[0]];
    for processor in 0..mesh.processors() {
        let Some(slice) = placement.slice(mesh, shape, processor) else { continue };
        let block = |i: usize| slice.begin[i] / slice.size[i];
        cells[block(0)][block(1)].push(processor.to_string());
    }
    let names: Vec<Vec<String>> =
        cells.iter().map(|row| row.iter().map(|c| c.join(",")).collect()).collect();
    let width = names.iter().flatten().map(String::len).max().unwrap_or(1) + 2;
    let line = format!("+{}\n", format!("{}+", "-".repeat(width)).repeat(parts[1]));
    let mut text = format!("\n{} down, {} across:\n{line}", shape.dims()[0], shape.dims()[1]);
    for row in names {
        // `format!` pads to 65,535 characters at most.
        let centred = |cell: &String| {
            let (gap, space) = (width - cell.len(), " ");
            format!("{}{cell}{}", space.repeat(gap / 2), space.repeat(gap - gap / 2))
        };
        let cells: Vec<_> = row.iter().map(centred).collect();
        text.push_str(&format!("|{}|\n{line}", cells.join("|")));
    }
    text
}
