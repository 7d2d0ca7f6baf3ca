//! The pages for users of TensorFlow.

use std::path::Path;

/// A page of `docs/`.
pub fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails unless a page has these headings, each with text below it.
pub fn settles(name: &str, headings: &[&str]) {
    let text = page(name);
    for heading in headings {
        let mut lines = text.lines();
        let found = lines.find(|line| line.trim_start_matches('#').trim() == *heading);
        assert!(found.is_some_and(|line| line.starts_with("##")), "{name}: no heading {heading}");
        let below: Vec<_> = lines.take_while(|line| !line.starts_with('#')).collect();
        assert!(below.concat().len() > 80, "{name}: nothing below {heading}");
    }
}
