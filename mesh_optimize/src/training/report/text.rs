//! Numbers and text for a page.

/// Escapes text for HTML, attributes included.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A number with so many significant digits, without zeros at the end.
pub(super) fn digits(value: f64, significant: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-5..12).contains(&exponent) {
        return format!("{value:.*e}", significant.saturating_sub(1));
    }
    let decimals = (significant as i32 - 1 - exponent).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count in thousands, millions and so on: `12.3k`.
pub(super) fn count(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = UNITS.iter().find(|(size, _)| {
        value.abs() >= *size * 10.0 || value.abs() >= 1e6 && value.abs() >= *size
    });
    match unit {
        Some((size, name)) => format!("{}{name}", digits(value / size, 3)),
        None => digits(value, 4),
    }
}

/// A size in bytes, in powers of 1024.
pub(super) fn bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{} {name}", digits(size as f64 / *unit as f64, 3)),
        None => format!("{size} B"),
    }
}

/// A time, given in milliseconds, in the unit that suits it.
pub(super) fn milliseconds(time: f64) -> String {
    match time {
        t if t >= 1e3 => format!("{} s", digits(t / 1e3, 3)),
        t if t >= 1.0 => format!("{} ms", digits(t, 3)),
        t => format!("{} µs", digits(t * 1e3, 3)),
    }
}

/// A number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
