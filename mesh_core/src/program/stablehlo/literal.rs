//! Constants.

use super::writer::{Element, Tensor, Writer, kind};
use crate::array::Array;
use crate::names::DType;
use half::bf16;

impl Writer<'_> {
    /// The same number everywhere, rounded to the type.
    pub(in crate::program) fn fill(
        &mut self,
        element: Element,
        extents: &[usize],
        x: f64,
    ) -> Tensor {
        self.splat(element, extents, &number(element, x))
    }

    /// The same unsigned number everywhere.
    pub(super) fn word(&mut self, element: Element, extents: &[usize], x: u64) -> Tensor {
        self.splat(element, extents, &x.to_string())
    }

    fn splat(&mut self, element: Element, extents: &[usize], number: &str) -> Tensor {
        let text = format!("stablehlo.constant dense<{number}> : {}", kind(element, extents));
        self.line(text, element, extents)
    }

    /// An array.
    pub(in crate::program) fn table(&mut self, array: &Array) -> Tensor {
        let (element, extents) = (array.dtype().into(), array.shape());
        let elements = match array {
            // How bits of truth values are packed differs between versions of the language.
            Array::Bool(array) => nested(
                extents,
                &mut array.iter().map(|&x| number(Element::Bool, f64::from(u8::from(x)))),
            ),
            _ => {
                let bytes = array.view().part_bytes(&vec![0; extents.len()], extents);
                format!(
                    "\"0x{}\"",
                    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>()
                )
            }
        };
        let text = format!("stablehlo.constant dense<{elements}> : {}", kind(element, extents));
        self.line(text, element, extents)
    }
}

/// Elements in brackets, a pair for each dim.
fn nested(extents: &[usize], elements: &mut impl Iterator<Item = String>) -> String {
    let Some((&extent, inner)) = extents.split_first() else {
        return elements.next().unwrap_or_default();
    };
    let parts: Vec<_> = (0..extent).map(|_| nested(inner, elements)).collect();
    format!("[{}]", parts.join(", "))
}

/// A number of a type: decimal digits where a reader gets the same number out of them, else its bits.
fn number(element: Element, x: f64) -> String {
    match element {
        Element::F32 => {
            let held = x as f32;
            let bits = || format!("0x{:08X}", held.to_bits());
            digits(format!("{held:?}"), |read| (read as f32).to_bits() == held.to_bits())
                .unwrap_or_else(bits)
        }
        Element::BF16 => {
            let held = bf16::from_f64(x);
            let bits = || format!("0x{:04X}", held.to_bits());
            let same = |read| bf16::from_f64(read).to_bits() == held.to_bits();
            digits(format!("{:?}", held.to_f32()), same).unwrap_or_else(bits)
        }
        Element::F64 => {
            let bits = || format!("0x{:016X}", x.to_bits());
            digits(format!("{x:?}"), |read| read.to_bits() == x.to_bits()).unwrap_or_else(bits)
        }
        Element::Bool => (x != 0.0).to_string(),
        Element::I32 => (x as i32).to_string(),
        Element::U16 | Element::U32 | Element::U64 => (x as u64).to_string(),
    }
}

/// Digits with a point, as the language wants it, if they are read (as f64, then rounded) as what they
/// stand for.
fn digits(text: String, same: impl Fn(f64) -> bool) -> Option<String> {
    if !text.parse().is_ok_and(|x: f64| x.is_finite() && same(x)) {
        return None;
    }
    match text.split_once('e') {
        Some((digits, power)) if !digits.contains('.') => Some(format!("{digits}.0e{power}")),
        _ => Some(text),
    }
}

/// The dtype of a type's numbers; words fold as i32 do.
pub(super) fn dtype(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F64 => DType::F64,
        Element::BF16 => DType::BF16,
        Element::Bool => DType::Bool,
        Element::I32 | Element::U16 | Element::U32 | Element::U64 => DType::I32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_what_they_stand_for() {
        let table = [
            (Element::F32, 0.1, "0.1"),
            (Element::F32, 1e-10, "1.0e-10"),
            (Element::F32, -0.0, "-0.0"),
            (Element::F32, f64::INFINITY, "0x7F800000"),
            (Element::F64, f64::NEG_INFINITY, "0xFFF0000000000000"),
            (Element::F64, 1.5e300, "1.5e300"),
            (Element::BF16, 0.1, "0.100097656"),
            (Element::BF16, f64::INFINITY, "0x7F80"),
            (Element::I32, -7.0, "-7"),
            (Element::Bool, 1.0, "true"),
        ];
        for (element, x, expected) in table {
            assert_eq!(number(element, x), expected);
        }
    }
}
