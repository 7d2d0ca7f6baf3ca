//! Which old dims become which new dims.

use crate::room::*;

/// A minimal run of old dims and the run of new dims that holds the same elements.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    /// The first old dim larger than 1.
    pub(super) old: Dimension,
    /// The first new dim larger than 1.
    pub(super) new: Dimension,
}

/// The finest groups, in order.
pub(super) fn groups(old: &Shape, new: &Shape) -> Vec<Group> {
    // Dims of size 1 hold nothing apart.
    let large = |shape: &Shape| shape.iter().filter(|d| d.size > 1).collect::<Vec<_>>();
    let (old, new) = (large(old), large(new));
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < old.len() && j < new.len() {
        found.push(Group { old: old[i], new: new[j] });
        let (mut left, mut right) = (old[i].size, new[j].size);
        (i, j) = (i + 1, j + 1);
        while left != right {
            if left < right && i < old.len() {
                left *= old[i].size;
                i += 1;
            } else if j < new.len() {
                right *= new[j].size;
                j += 1;
            } else {
                return found;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_finest() {
        let of = |old: &str, new: &str| -> Vec<String> {
            groups(&old.parse().unwrap(), &new.parse().unwrap())
                .iter()
                .map(|g| format!("{} {}", g.old.name, g.new.name))
                .collect()
        };
        assert_eq!(of("a:6 b:8", "x:2 y:3 b:8"), ["a x", "b b"]);
        assert_eq!(of("a:6 b:8", "x:3 y:16"), ["a x"]);
        assert_eq!(of("b:8", "u:1 i:2 b:4"), ["b i"]);
        assert_eq!(of("a:2 b:3 c:4", "x:2 y:12"), ["a x", "b y"]);
    }
}
