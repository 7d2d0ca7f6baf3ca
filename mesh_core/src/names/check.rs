//! Which names and dimensions there may be, and how they are read.

use std::str::FromStr;

use super::dimension::Dimension;
use super::error::NameError;
use super::text::{Piece, is_separator, number};

/// Whether a dimension or mesh axis may be called `name`: names hold none of `: ; , . + * / @` or
/// whitespace, and are not empty.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::EmptyName);
    }
    match name.chars().find(|&c| is_separator(c) || matches!(c, ':' | '+' | '*' | '/' | '@')) {
        Some(found) => Err(NameError::BadName { name: name.to_owned(), found }),
        None => Ok(()),
    }
}

/// Refuses what no shape may hold: a bad name, or size 0.
pub(super) fn check_dimension(dim: Dimension) -> Result<(), NameError> {
    check_name(dim.name.as_str())?;
    if dim.size == 0 {
        return Err(NameError::EmptySize { name: dim.name.to_string() });
    }
    Ok(())
}

impl<'t> Piece<'t> {
    /// `problem`, shown at this piece.
    pub(super) fn locate(self, problem: NameError) -> NameError {
        NameError::At { problem: Box::new(problem), at: self.excerpt() }
    }

    /// Reads `name:size`; the name is not checked.
    pub(super) fn name_and_size(self) -> Result<(&'t str, usize), NameError> {
        let Some((name, size)) = self.split_once(':') else {
            return Err(self.locate(NameError::NoSize { name: self.text().to_owned() }));
        };
        let number = number(size.text())
            .ok_or_else(|| size.locate(NameError::BadSize { size: size.text().to_owned() }))?;
        Ok((name.text(), number))
    }
}

impl FromStr for Dimension {
    type Err = NameError;

    /// Reads `batch:200`.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let piece = Piece::new(text);
        let (name, size) = piece.name_and_size()?;
        let dim = Self::new(name, size);
        check_dimension(dim).map_err(|problem| piece.locate(problem))?;
        Ok(dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_layouts_use() {
        for bad in ["a:b", "a;b", "a,b", "a.b", "a+b", "*", "a/b", "a@b", "a b", "a\tb"] {
            assert!(matches!(check_name(bad), Err(NameError::BadName { .. })), "{bad}");
        }
        assert_eq!(check_name(""), Err(NameError::EmptyName));
        assert_eq!(check_name("d_ff-2"), Ok(()));
        assert_eq!(
            check_name("a b").unwrap_err().to_string(),
            "the name `a b` holds ' ': names hold none of `: ; , . + * / @` or whitespace"
        );
    }
}
