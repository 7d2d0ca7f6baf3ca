//! Writing text, a byte at a time.

use super::flags::Flags;
use super::model::Functions;
use examples::Rng;
use examples::report::print;
use mesh_ops::prelude::*;
use ndarray::arr0;
use std::error::Error;
use std::io::{self, Write};

/// Keeps the draws apart from other uses of the seed.
const STREAM: u64 = 0x5341_4d50;

/// Reads bytes one after the other, and says what may follow.
struct Reader<'a> {
    session: &'a mut Session,
    functions: &'a Functions,
    /// As many positions as there are in the model's memory.
    length: usize,
    read: Vec<u8>,
    /// Of the next byte.
    position: usize,
}

impl Reader<'_> {
    /// Logits of what follows `byte`. Where memory is full, the later half of what was read is read
    /// again from the beginning of memory.
    fn read(&mut self, byte: u8) -> Result<Array, Box<dyn Error>> {
        if self.position == self.length {
            self.position = 0;
            let kept = self.read.split_off(self.read.len() - self.length / 2);
            self.read.clear();
            for &earlier in &kept {
                self.read(earlier)?;
            }
        }
        let (at, what) = (arr0(self.position as i32), arr0(i32::from(byte)));
        let feeds = [what.view().into(), at.view().into()];
        let [logits] = self.session.call(&self.functions.next, feeds)?;
        self.position += 1;
        self.read.push(byte);
        Ok(logits)
    }
}

/// Writes, after an empty line, the prompt and what the model says follows it.
pub(crate) fn sample(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
) -> Result<(), Box<dyn Error>> {
    let length = flags.sequence;
    let mut reader = Reader { session, functions, length, read: Vec::new(), position: 0 };
    let mut rng = Rng::keyed(flags.seed, STREAM, 0);
    let prompt = flags.prompt.as_bytes();
    let mut text = Text::default();
    print("")?;
    text.write(flags.prompt.trim_start_matches('\n').as_bytes())?;
    let mut logits = None;
    for &byte in &prompt[prompt.len().saturating_sub(length)..] {
        logits = Some(reader.read(byte)?);
    }
    for _ in 0..flags.sample {
        let Some(given) = logits else { break };
        let given: Vec<_> = given.to_f64().iter().copied().collect();
        let byte = draw(&given, flags.temperature, f64::from(rng.unit()));
        text.write(&[byte])?;
        logits = Some(reader.read(byte)?);
    }
    Ok(text.end()?)
}

/// The byte at the place `chance`, from 0 to 1, of the distribution.
fn draw(logits: &[f64], temperature: f64, chance: f64) -> u8 {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |logit: f64| match temperature {
        0.0 => f64::from(u8::from(logit == greatest)),
        _ => ((logit - greatest) / temperature).exp(),
    };
    let total: f64 = logits.iter().copied().map(weight).sum();
    let mut left = chance * total;
    for (byte, &logit) in (0..=u8::MAX).zip(logits) {
        left -= weight(logit);
        if left < 0.0 {
            return byte;
        }
    }
    // What rounding leaves: the likeliest.
    let likeliest = (0..=u8::MAX).zip(logits).find(|(_, logit)| **logit == greatest);
    likeliest.map_or(0, |(byte, _)| byte)
}

/// Text on standard output, a character as soon as its bytes are there. What is no text is shown as
/// U+FFFD.
#[derive(Default)]
struct Text {
    waiting: Vec<u8>,
}

impl Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting.extend(bytes);
        // Bytes at the end that may become a character.
        let begun = match std::str::from_utf8(&self.waiting) {
            Err(error) if error.error_len().is_none() => self.waiting.len() - error.valid_up_to(),
            _ => 0,
        };
        let rest = self.waiting.split_off(self.waiting.len() - begun);
        let whole = std::mem::replace(&mut self.waiting, rest);
        show(&whole)
    }

    fn end(self) -> io::Result<()> {
        show(&self.waiting)?;
        writeln!(io::stdout())
    }
}

fn show(bytes: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(bytes);
    let shown = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{FFFD}' } else { c };
    let mut out = io::stdout().lock();
    out.write_all(text.chars().map(shown).collect::<String>().as_bytes())?;
    out.flush()
}
