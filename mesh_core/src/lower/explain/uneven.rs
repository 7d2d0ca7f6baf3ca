//! Work that an operation's processors do not share evenly.

use super::Row;
use super::page::pattern;
use crate::program::Uneven;
use std::fmt;
use std::sync::Arc;

/// Operations of one line whose work is uneven in the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct Unbalanced {
    /// Their name, without the numbers that differ.
    pub name: String,
    /// How many there are in the function's text: of those in a loop one for all iterations.
    pub count: usize,
    /// The user's line.
    pub at: String,
    /// The axes along which processors differ, as the mesh names them.
    pub axes: String,
    /// Who does how much, and the remedy.
    pub work: Uneven,
}

/// What of a function's operations is uneven, alike ones together, in the order of the rows.
pub(super) fn unbalanced(rows: &[Row], list: impl Fn(&Uneven) -> String) -> Vec<Unbalanced> {
    let mut found: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|row| row.origin.uneven.is_some()) {
        let name = pattern(&row.name);
        let alike = |(known, rows): &&mut (String, Vec<&Row>)| {
            *known == name && rows[0].at == row.at && rows[0].origin.uneven == row.origin.uneven
        };
        match found.iter_mut().find(alike) {
            // An operation whose steps stand in several loops has several rows.
            Some((_, rows)) if rows.iter().any(|r| Arc::ptr_eq(&r.origin, &row.origin)) => {}
            Some((_, rows)) => rows.push(row),
            None => found.push((name, vec![row])),
        }
    }
    let of = |(name, rows): (String, Vec<&Row>)| {
        let work = rows[0].origin.uneven.clone()?;
        let name = if rows.len() == 1 { rows[0].name.clone() } else { name };
        let (at, axes) = (rows[0].at.clone(), list(&work));
        Some(Unbalanced { name, count: rows.len(), at, axes, work })
    };
    found.into_iter().filter_map(of).collect()
}

/// As the page has it.
impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, count, at, axes, work } = self;
        let Uneven { processors, busiest, most, unit, remedy, .. } = work;
        let which = match busiest + 1 == *processors {
            true => "the last".to_owned(),
            false => format!("number {busiest}"),
        };
        let mean = format!("{:.1}", work.mean());
        let mean = mean.strip_suffix(".0").unwrap_or(&mean);
        let many = if *count > 1 { format!(" x {count}") } else { String::new() };
        writeln!(
            f,
            "  uneven    {which} of {processors} processors over {axes} computes {most} {unit}, \
             where the mean is {mean}: {name}{many} at {at}"
        )?;
        if remedy.is_empty() { Ok(()) } else { writeln!(f, "            {remedy}") }
    }
}
