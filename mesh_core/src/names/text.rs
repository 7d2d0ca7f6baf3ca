//! Pieces of the user's strings that know their place in the string.

use std::fmt;

/// How many characters around a piece are shown, so that a message stays short.
const CONTEXT: usize = 60;

/// A string with a marked piece. It prints as two lines, the second with carets below the piece.
/// What is far from the piece is left out (`…`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    text: String,
    start: usize,
    end: usize,
}

impl Excerpt {
    /// The string around the piece.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The marked piece.
    pub fn piece(&self) -> &str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String =
            self.text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        let before = self.text.get(..self.start).unwrap_or_default().chars().count();
        let width = self.piece().chars().count().max(1);
        // `format!` pads to 65,535 characters at most.
        write!(f, "  {line}\n  {}{}", " ".repeat(before), "^".repeat(width))
    }
}

/// Whether `c` separates two `name:value` pairs.
pub(super) fn is_separator(c: char) -> bool {
    matches!(c, ',' | '.' | ';') || c.is_whitespace()
}

/// A part of a larger string.
#[derive(Clone, Copy)]
pub(super) struct Piece<'t> {
    whole: &'t str,
    text: &'t str,
}

impl<'t> Piece<'t> {
    pub(super) fn new(whole: &'t str) -> Self {
        Self { whole, text: whole }
    }

    pub(super) fn text(self) -> &'t str {
        self.text
    }

    /// A piece of this piece; `text` must be a part of it.
    pub(super) fn part(self, text: &'t str) -> Self {
        Self { text, ..self }
    }

    /// The pairs between separators. Several separators in a row count as one.
    pub(super) fn pairs(self) -> impl Iterator<Item = Self> {
        let texts = self.text.split(is_separator).filter(|text| !text.is_empty());
        texts.map(move |text| self.part(text))
    }

    pub(super) fn split(self, at: char) -> impl Iterator<Item = Self> {
        self.text.split(at).map(move |text| self.part(text))
    }

    pub(super) fn split_once(self, at: char) -> Option<(Self, Self)> {
        self.text.split_once(at).map(|(left, right)| (self.part(left), self.part(right)))
    }

    pub(super) fn excerpt(self) -> Excerpt {
        let start = self.text.as_ptr().addr() - self.whole.as_ptr().addr();
        let (before, rest) = self.whole.split_at(start);
        let after = &rest[self.text.len()..];
        let from = before.char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at);
        let to = after.char_indices().nth(CONTEXT).map_or(after.len(), |(at, _)| at);
        let mut text = if from > 0 { "…".to_owned() } else { String::new() };
        text += &before[from..];
        let start = text.len();
        text += self.text;
        let end = text.len();
        text += &after[..to];
        if to < after.len() {
            text.push('…');
        }
        Excerpt { text, start, end }
    }
}

/// A number in digits, without sign or underscore.
pub(super) fn number(text: &str) -> Option<usize> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The candidate that is most like `name`, if one is similar enough.
pub(crate) fn nearest<'n>(
    name: &str,
    candidates: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    const ALIKE: f64 = 0.8;
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate.to_owned())
}

/// ` (did you mean ...?)`, or nothing if there is no suggestion.
pub(crate) fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// A 64-bit hash of a name (FNV-1a), the same in every build and on every machine.
pub fn stable_hash(name: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    name.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_count_characters_and_flatten_line_breaks() {
        let text = "größe:1\nb";
        let piece = Piece::new(text).pairs().nth(1).unwrap();
        assert_eq!(piece.excerpt().to_string(), "  größe:1 b\n          ^");
        assert_eq!(piece.excerpt().piece(), "b");
        assert_eq!(Piece::new("").excerpt().to_string(), "  \n  ^");
        let long = "n".repeat(70_000);
        let text = format!("{long}:1 {long}:x");
        let carets = Piece::new(&text).pairs().nth(1).unwrap().excerpt().to_string();
        assert_eq!(carets.matches('^').count(), long.len() + 2);
    }

    #[test]
    fn of_long_strings_the_neighbourhood_is_shown() {
        let text = vec!["größe:1"; 1000].join(";");
        for (number, before, after) in [(0, "", "…"), (500, "…", "…"), (999, "…", "")] {
            let piece = Piece::new(&text).pairs().nth(number).unwrap();
            let excerpt = piece.excerpt();
            assert_eq!(excerpt.piece(), "größe:1");
            assert!(excerpt.text().starts_with(before) && excerpt.text().ends_with(after));
            let cuts = [before, after].into_iter().filter(|cut| !cut.is_empty()).count();
            assert_eq!(excerpt.text().chars().count(), "größe:1".chars().count() + 61 * cuts);
            let shown = excerpt.to_string();
            let (line, carets) = shown.split_once('\n').unwrap();
            let marked = line.chars().zip(carets.chars()).filter(|(_, caret)| *caret == '^');
            assert_eq!(marked.map(|(c, _)| c).collect::<String>(), "größe:1");
        }
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        let names = ["rows", "cols", "hidden_odd"];
        assert_eq!(nearest("col", names), Some("cols".to_owned()));
        assert_eq!(nearest("hidden", names), Some("hidden_odd".to_owned()));
        assert_eq!(nearest("ROWS", names), Some("rows".to_owned()));
        assert_eq!(nearest("model", names), None);
    }
}
