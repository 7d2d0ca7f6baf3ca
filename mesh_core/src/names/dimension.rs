//! Dimensions and their names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The name of a dimension. Names are interned for the life of the process, so that they are `Copy`
/// and equal names have equal addresses.
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct DimName(&'static str);

impl PartialEq for DimName {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Hash for DimName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl DimName {
    /// Interns `name`. Any text is accepted; [`check_name`](super::check_name) says which names a shape accepts.
    pub fn new(name: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return Self(known);
        }
        let leaked: &'static str = Box::leak(name.into());
        names.insert(leaked);
        Self(leaked)
    }

    /// Where the text lies: the same for equal names, and quicker to compare than the text.
    pub(super) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// The name as text.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl Serialize for DimName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for DimName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|name| Self::new(&name))
    }
}

impl From<&str> for DimName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for DimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for DimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A name with a size. Two dimensions are equal if both are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dimension {
    /// The name.
    pub name: DimName,
    /// The number of positions.
    pub size: usize,
}

impl Dimension {
    /// Makes a dimension. A bad name or a size of 0 is reported when a shape is made of it.
    pub fn new(name: &str, size: usize) -> Self {
        Self { name: DimName::new(name), size }
    }

    /// A dimension with this size and another name.
    pub fn renamed(self, name: &str) -> Self {
        Self { name: DimName::new(name), ..self }
    }

    /// A dimension with this name and another size.
    pub fn resized(self, size: usize) -> Self {
        Self { size, ..self }
    }
}

/// Short for [`Dimension::new`].
pub fn dim(name: &str, size: usize) -> Dimension {
    Dimension::new(name, size)
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.size)
    }
}

impl fmt::Debug for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_one_name() {
        let (a, b) = (DimName::new("batch"), DimName::from("batch"));
        assert_eq!(a, b);
        assert!(std::ptr::eq(a.as_str(), b.as_str()));
        assert!(DimName::new("a") < DimName::new("b"));
        assert_eq!(format!("{a} {a:?}"), "batch batch");
    }

    #[test]
    fn dimensions_print_and_parse() {
        let batch = dim("batch", 200);
        assert_eq!(batch.to_string(), "batch:200");
        assert_eq!("batch:200".parse(), Ok(batch));
        assert_eq!(batch.renamed("b").resized(3), dim("b", 3));
        assert!("batch 200".parse::<Dimension>().is_err());
        assert!("a b:200".parse::<Dimension>().is_err());
    }
}
