//! From one dtype to another.

use super::ops::Is;
use super::writer::{Element, Tensor, Writer};

impl Writer<'_> {
    /// A number as a value of a dtype is computed with: bf16 in f32.
    pub(in crate::program) fn held(&mut self, x: &Tensor) -> Tensor {
        self.converted(x, x.element.reduction())
    }

    /// A number that was computed, as a value that is stored.
    pub(in crate::program) fn stored(&mut self, x: &Tensor, element: Element) -> Tensor {
        if element != Element::BF16 || x.element == Element::BF16 {
            return self.converted(x, element);
        }
        let rounded = self.rounded(x, Element::BF16);
        let narrow = self.converted(&rounded, Element::F32);
        self.converted(&narrow, Element::BF16)
    }

    /// A float rounded once to what bf16 or f32 holds, but for those below its least normal number.
    pub(super) fn rounded(&mut self, x: &Tensor, to: Element) -> Tensor {
        let format = if to == Element::BF16 { "e8m7" } else { "e8m23" };
        let text = format!("stablehlo.reduce_precision {x}, format = {format} : {}", x.kind());
        self.line(text, x.element, &x.extents)
    }

    /// [`Prim::Cast`](crate::program::Prim::Cast) between dtypes, of numbers as they are computed with.
    pub(super) fn cast(&mut self, x: &Tensor, from: Element, to: Element) -> Tensor {
        match to {
            _ if from == to => x.clone(),
            Element::Bool => self.compare_with(x, Is::Other, 0.0),
            Element::I32 if from.is_float() => self.towards_zero(x),
            Element::BF16 if from == Element::Bool => self.converted(x, Element::F32),
            Element::BF16 => {
                // i32 by way of f64, which holds it: else it would be rounded twice.
                let wide =
                    if from == Element::I32 { self.converted(x, Element::F64) } else { x.clone() };
                let rounded = self.rounded(&wide, Element::BF16);
                self.converted(&rounded, Element::F32)
            }
            _ => self.converted(x, to.reduction()),
        }
    }

    /// Towards zero, to the ends if it is beyond them, 0 of NaN. The conversion itself leaves both open.
    fn towards_zero(&mut self, x: &Tensor) -> Tensor {
        let end = -f64::from(i32::MIN);
        let size = self.unary("stablehlo.abs", x);
        let fits = self.compare_with(&size, Is::Less, end);
        let nothing = self.fill(x.element, &x.extents, 0.0);
        let inside = self.select(&fits, x, &nothing);
        let inside = self.converted(&inside, Element::I32);
        let [most, least] =
            [i32::MAX, i32::MIN].map(|end| self.fill(Element::I32, &x.extents, f64::from(end)));
        let above = self.compare_with(x, Is::AtLeast, end);
        let raised = self.select(&above, &most, &inside);
        let below = self.compare_with(x, Is::AtMost, -end);
        self.select(&below, &least, &raised)
    }
}
