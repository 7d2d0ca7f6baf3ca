//! Whether all ranks are about to do the same.

use std::fmt::Write;

use super::super::comm::{Collective, Group, Stopped};
use super::super::cpu::isa::isa;
use super::messages::Messages;
use crate::names::stable_hash;
use crate::passes::Executable;
use crate::program::Compiled;

/// Everything that results depend on, a line each.
pub(super) fn description(executable: &Executable, seed: u64) -> String {
    let Executable { mesh, variables, .. } = executable;
    let (version, target) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let mut text = format!("version {version}\nkernels {:?} on {target}\n", isa());
    let order: Vec<_> = (0..mesh.processors()).map(|p| mesh.physical(p)).collect();
    let _ = writeln!(text, "mesh {mesh}\nprocessor order {order:?}\nseed {seed}");
    for variable in variables {
        let _ = writeln!(text, "variable {variable:?}");
    }
    for Compiled { program, plan } in executable.programs() {
        let _ = write!(text, "{}", program.display(mesh));
        let _ = writeln!(text, "  memory {} bytes", plan.arena_bytes);
    }
    text
}

/// Compares what the ranks are about to do; the error says where the first differs that does.
pub(super) fn compare(
    ranks: &mut Messages,
    group: Group,
    text: &str,
) -> Result<Result<(), String>, Stopped> {
    let facts = gather(ranks, group, [stable_hash(text), text.len() as u64])?;
    let Some(other) = facts.iter().position(|fact| *fact != facts[0]) else { return Ok(Ok(())) };
    let first = broadcast(ranks, group, 0, text, facts[0][1])?;
    let difference = difference(&first, text);
    let lengths = gather(ranks, group, [0, difference.len() as u64])?;
    let told = broadcast(ranks, group, other, &difference, lengths[other][1])?;
    Ok(Err(format!("rank {other} is not about to do what rank 0 does{told}")))
}

/// The first line in which a text is not another's, and where it stands.
fn difference(first: &str, own: &str) -> String {
    let (mut program, mut others) = ("", first.lines());
    let tell = |program: &str, own: Option<&str>, first: Option<&str>| {
        let at = if program.is_empty() { String::new() } else { format!(", in {program}") };
        let [own, first] = [own, first].map(|line| line.map_or("nothing more", str::trim));
        format!("{at}\n  it has:     {own}\n  rank 0 has: {first}")
    };
    for line in own.lines() {
        let other = others.next();
        if other != Some(line) {
            return tell(program, Some(line), other);
        }
        if line.starts_with("program ") {
            program = line;
        }
    }
    tell(program, None, others.next())
}

/// What every member says.
pub(super) fn gather(
    ranks: &mut Messages,
    group: Group,
    say: [u64; 2],
) -> Result<Vec<[u64; 2]>, Stopped> {
    let mut all = vec![[0; 2]; group.size];
    let (input, out) = (say.as_ptr().cast(), all.as_mut_ptr().cast());
    let collective = Collective::AllGather { outer: 1, chunk: size_of_val(&say), input, out };
    // SAFETY: as large as it says; both are this function's, and plain numbers.
    unsafe { ranks.meet(group, &collective)? };
    Ok(all)
}

/// The text of `root`, which has `length` bytes.
fn broadcast(
    ranks: &mut Messages,
    group: Group,
    root: usize,
    text: &str,
    length: u64,
) -> Result<String, Stopped> {
    let mut copy = vec![0; length as usize];
    let (bytes, input, out) = (copy.len(), text.as_ptr(), copy.as_mut_ptr());
    // SAFETY: the root's text and everybody's copy are this long.
    unsafe { ranks.meet(group, &Collective::Broadcast { root, bytes, input, out })? };
    Ok(String::from_utf8_lossy(&copy).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_quoted() {
        let here = "seed 1\nprogram train on a:2\n    %0: f32[] = fill 1\n";
        let table = [
            ("seed 2\n", "\n  it has:     seed 2\n  rank 0 has: seed 1"),
            (
                "seed 1\nprogram train on a:2\n    %0: f32[] = fill 2\n",
                ", in program train on a:2\n  it has:     %0: f32[] = fill 2\n  \
                 rank 0 has: %0: f32[] = fill 1",
            ),
            ("seed 1\n", "\n  it has:     nothing more\n  rank 0 has: program train on a:2"),
        ];
        for (there, expected) in table {
            assert_eq!(difference(here, there), expected);
        }
    }
}
