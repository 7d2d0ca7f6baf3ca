//! Writes text, one token at a time.

use super::flags::Flags;
use examples::Rng;
use examples::models::lm::Functions;
use examples::ranks::speaks;
use examples::report::print;
use examples::text::Text;
use mesh_ops::prelude::*;
use ndarray::arr0;
use std::error::Error;
use std::io::{self, Write};

/// The stream of random numbers for samples, apart from other uses of the seed.
const STREAM: u64 = 0x5341_4d50;

/// Feeds the model one token after another and returns the logits of the next.
struct Reader<'a> {
    session: &'a mut Session,
    functions: &'a Functions,
    /// The number of positions in the key-value cache.
    length: usize,
    read: Vec<usize>,
    /// The position of the next token.
    position: usize,
}

impl Reader<'_> {
    /// The logits of the token after `token`. If the cache is full, the later half of the tokens is
    /// fed again from the beginning of the cache.
    fn read(&mut self, token: usize) -> Result<Array, Box<dyn Error>> {
        if self.position == self.length {
            self.position = 0;
            let kept = self.read.split_off(self.read.len() - self.length / 2);
            self.read.clear();
            for &earlier in &kept {
                self.read(earlier)?;
            }
        }
        let (at, what) = (arr0(self.position as i32), arr0(token as i32));
        let feeds = [what.view().into(), at.view().into()];
        let [logits] = self.session.call(&self.functions.next, feeds)?;
        self.position += 1;
        self.read.push(token);
        Ok(logits)
    }
}

/// Writes an empty line, the prompt, and the text with which the model continues it.
pub(crate) fn sample(
    flags: &Flags,
    functions: &Functions,
    session: &mut Session,
    text: &Text,
) -> Result<(), Box<dyn Error>> {
    let length = flags.sequence;
    let prompt = match flags.prompt_tokens()? {
        Some(tokens) => tokens,
        None => text.train.read(0, 1)?.into_iter().map(|token| token as usize).collect(),
    };
    let mut reader = Reader { session, functions, length, read: Vec::new(), position: 0 };
    let mut rng = Rng::keyed(flags.seed, STREAM, 0);
    let mut writer = Writer { numbers: flags.tokens.is_some(), waiting: Vec::new() };
    print("")?;
    let newline = usize::from(b'\n');
    let shown = prompt.iter().skip_while(|&&token| !writer.numbers && token == newline);
    let shown: Vec<_> = shown.copied().collect();
    writer.write(&shown)?;
    let mut logits = None;
    for &token in &prompt[prompt.len().saturating_sub(length)..] {
        logits = Some(reader.read(token)?);
    }
    for _ in 0..flags.sample {
        let Some(given) = logits else { break };
        let given: Vec<_> = given.to_f64().iter().copied().collect();
        let token = draw(&given, flags.temperature, f64::from(rng.unit()));
        writer.write(&[token])?;
        logits = Some(reader.read(token)?);
    }
    Ok(writer.end()?)
}

/// The token at the quantile `chance`, from 0 to 1, of the distribution.
fn draw(logits: &[f64], temperature: f64, chance: f64) -> usize {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |logit: f64| match temperature {
        0.0 => f64::from(u8::from(logit == greatest)),
        _ => ((logit - greatest) / temperature).exp(),
    };
    let total: f64 = logits.iter().copied().map(weight).sum();
    let mut left = chance * total;
    for (token, &logit) in logits.iter().enumerate() {
        left -= weight(logit);
        if left < 0.0 {
            return token;
        }
    }
    // If rounding leaves none, the likeliest token.
    logits.iter().position(|logit| *logit == greatest).unwrap_or(0)
}

/// Writes tokens to standard output, as numbers or as text: each character as soon as its bytes are
/// complete. Bytes that are no text become U+FFFD.
struct Writer {
    numbers: bool,
    waiting: Vec<u8>,
}

impl Writer {
    fn write(&mut self, tokens: &[usize]) -> io::Result<()> {
        if self.numbers {
            return show(&tokens.iter().map(|token| format!("{token} ")).collect::<String>());
        }
        // The tokens of a model of bytes are bytes.
        self.waiting.extend(tokens.iter().map(|&token| token as u8));
        // The last bytes may be the beginning of a character.
        let begun = match std::str::from_utf8(&self.waiting) {
            Err(error) if error.error_len().is_none() => self.waiting.len() - error.valid_up_to(),
            _ => 0,
        };
        let rest = self.waiting.split_off(self.waiting.len() - begun);
        let whole = std::mem::replace(&mut self.waiting, rest);
        show(&String::from_utf8_lossy(&whole))
    }

    fn end(self) -> io::Result<()> {
        show(&String::from_utf8_lossy(&self.waiting))?;
        print("")
    }
}

fn show(text: &str) -> io::Result<()> {
    if !speaks() {
        return Ok(());
    }
    let shown = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{FFFD}' } else { c };
    let mut out = io::stdout().lock();
    out.write_all(text.chars().map(shown).collect::<String>().as_bytes())?;
    out.flush()
}
