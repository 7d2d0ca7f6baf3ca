//! How people write the ten digits: several ways each, as pen strokes on a 100 × 100 sheet.
//!
//! Pure data plus the curve that joins the points; [`super::generate`] distorts and draws it.

/// A point of the sheet: x to the right, y downwards.
pub(super) type Point = [f32; 2];

/// The side of the sheet on which templates are written.
pub(super) const SHEET: f32 = 100.0;

/// One movement of the pen, by the points that it passes through.
pub(super) enum Stroke {
    /// Straight from point to point.
    Line(&'static [[u8; 2]]),
    /// Smoothly through the points.
    Curve(&'static [[u8; 2]]),
    /// Smoothly through the points and back to the first.
    Loop(&'static [[u8; 2]]),
}

use Stroke::{Curve, Line, Loop};

/// One way of writing a digit.
pub(super) type Template = &'static [Stroke];

/// The templates of each digit.
#[rustfmt::skip]
pub(super) const DIGITS: [&[Template]; 10] = [
    &[
        &[Loop(&[[50, 5], [74, 18], [80, 50], [74, 82], [50, 95], [26, 82], [20, 50], [26, 18]])],
        &[Loop(&[[50, 5], [66, 20], [70, 50], [65, 80], [50, 95], [35, 80], [30, 50], [34, 20]])],
        &[Loop(&[[55, 13], [79, 28], [82, 55], [66, 84], [42, 88], [21, 72], [18, 44], [33, 21]])],
        &[Curve(&[[60, 9], [40, 8], [24, 28], [20, 55], [28, 85], [50, 95], [72, 82], [80, 52],
                  [72, 22], [52, 8], [38, 14]])],
    ],
    &[
        &[Line(&[[50, 5], [50, 95]])],
        &[Line(&[[32, 26], [54, 5], [54, 95]])],
        &[Line(&[[34, 24], [54, 5], [54, 95]]), Line(&[[30, 95], [76, 95]])],
        &[Line(&[[62, 5], [38, 95]])],
    ],
    &[
        &[Curve(&[[22, 28], [30, 10], [52, 5], [74, 16], [74, 36], [56, 60], [22, 94]]),
          Line(&[[22, 94], [80, 94]])],
        &[Curve(&[[24, 22], [44, 6], [68, 12], [74, 32], [58, 60], [34, 84], [20, 90], [22, 78],
                  [36, 80], [56, 92], [82, 88]])],
        &[Curve(&[[20, 30], [34, 8], [60, 6], [76, 24], [66, 50], [40, 74], [20, 92]]),
          Curve(&[[20, 92], [40, 86], [62, 94], [82, 86]])],
    ],
    &[
        &[Curve(&[[24, 16], [46, 5], [70, 14], [70, 34], [44, 47]]),
          Curve(&[[44, 47], [74, 56], [78, 78], [52, 95], [22, 84]])],
        &[Line(&[[24, 8], [74, 8], [46, 42]]),
          Curve(&[[46, 42], [74, 52], [78, 76], [54, 95], [22, 86]])],
        &[Curve(&[[24, 18], [48, 5], [72, 20], [60, 42], [40, 50], [38, 44], [56, 46], [78, 64],
                  [70, 88], [44, 95], [22, 82]])],
    ],
    &[
        &[Line(&[[28, 8], [22, 55], [80, 55]]), Line(&[[66, 10], [64, 95]])],
        &[Line(&[[64, 95], [64, 5], [18, 66], [84, 66]])],
        &[Curve(&[[30, 10], [24, 36], [34, 54], [60, 52], [72, 44]]),
          Curve(&[[74, 8], [70, 50], [62, 95]])],
        &[Line(&[[40, 5], [18, 58], [82, 58]]), Line(&[[58, 34], [56, 95]])],
    ],
    &[
        &[Line(&[[74, 6], [30, 6], [27, 44]]),
          Curve(&[[27, 44], [52, 38], [76, 54], [74, 80], [50, 95], [20, 86]])],
        &[Curve(&[[76, 10], [52, 6], [30, 16], [32, 40], [58, 48], [74, 68], [62, 90], [38, 95],
                  [20, 84]])],
        &[Line(&[[32, 10], [28, 46]]),
          Curve(&[[28, 46], [50, 40], [72, 52], [76, 72], [60, 92], [24, 92]]),
          Line(&[[32, 8], [82, 4]])],
    ],
    &[
        &[Curve(&[[68, 6], [42, 24], [26, 52], [26, 78], [46, 95], [70, 88], [76, 68], [58, 52],
                  [36, 60], [27, 74]])],
        &[Curve(&[[48, 5], [32, 40], [25, 70], [36, 92], [58, 94], [72, 78], [62, 60], [40, 62],
                  [28, 74]])],
        &[Curve(&[[72, 20], [60, 6], [38, 14], [24, 42], [22, 72], [38, 94], [62, 94], [76, 76],
                  [66, 58], [44, 56], [26, 70]])],
    ],
    &[
        &[Line(&[[20, 8], [78, 8], [40, 95]])],
        &[Line(&[[20, 8], [78, 8], [42, 95]]), Line(&[[38, 50], [76, 48]])],
        &[Line(&[[22, 24], [22, 8], [80, 8]]), Curve(&[[80, 8], [58, 44], [48, 95]])],
        &[Curve(&[[18, 18], [30, 8], [50, 14], [78, 8]]), Curve(&[[78, 8], [60, 50], [36, 95]])],
    ],
    &[
        &[Loop(&[[50, 5], [68, 14], [68, 36], [50, 46], [32, 36], [32, 14]]),
          Loop(&[[50, 46], [74, 58], [76, 82], [50, 95], [24, 82], [26, 58]])],
        &[Curve(&[[66, 14], [46, 5], [28, 18], [38, 40], [62, 56], [74, 78], [52, 95], [28, 82],
                  [36, 58], [60, 42], [74, 20], [60, 8]])],
        &[Curve(&[[76, 8], [50, 8], [30, 22], [42, 44], [68, 64], [66, 90], [40, 94], [26, 76],
                  [44, 52], [66, 30], [78, 6]])],
    ],
    &[
        &[Loop(&[[48, 6], [68, 16], [70, 36], [50, 50], [30, 42], [26, 20]]),
          Line(&[[70, 22], [66, 95]])],
        &[Curve(&[[72, 24], [54, 6], [30, 14], [26, 36], [44, 50], [66, 40], [73, 18]]),
          Curve(&[[73, 18], [72, 50], [64, 78], [38, 94]])],
        &[Curve(&[[74, 14], [50, 6], [28, 20], [30, 44], [52, 52], [72, 36], [74, 14]]),
          Curve(&[[74, 14], [75, 62], [66, 90], [44, 95], [26, 84]])],
    ],
];

/// Straight pieces per span of a curve: at 28 pixels more would not be seen.
const PIECES: usize = 4;

impl Stroke {
    /// The points that the pen passes through, as written.
    pub(super) fn points(&self) -> &'static [[u8; 2]] {
        match self {
            Line(points) | Curve(points) | Loop(points) => points,
        }
    }

    /// The stroke through `points` (its own, moved) as a chain of straight pieces, into `chain`.
    pub(super) fn flatten(&self, points: &[Point], chain: &mut Vec<Point>) {
        chain.clear();
        let (spans, closed) = match self {
            Line(_) => return chain.extend_from_slice(points),
            Curve(_) => (points.len().saturating_sub(1), false),
            Loop(_) => (points.len(), true),
        };
        let at = |place: usize| points[place % points.len()];
        for span in 0..spans {
            let (from, to) = (at(span), at(span + 1));
            let before = match span {
                0 if !closed => from,
                _ => at(span + points.len() - 1),
            };
            let after = if span + 1 == spans && !closed { to } else { at(span + 2) };
            for piece in 0..PIECES {
                let t = piece as f32 / PIECES as f32;
                chain.push(catmull_rom([before, from, to, after], t));
            }
        }
        chain.extend((!points.is_empty()).then(|| at(spans)));
    }
}

/// The point at `t` (0 to 1) between the middle two of four points of a Catmull–Rom curve.
fn catmull_rom([before, from, to, after]: [Point; 4], t: f32) -> Point {
    std::array::from_fn(|i| {
        let (a, b, c, d) = (before[i], from[i], to[i], after[i]);
        let cubic = (b - c) * 3.0 + (d - a);
        let square = a * 2.0 - b * 5.0 + c * 4.0 - d;
        b + 0.5 * t * ((c - a) + t * (square + t * cubic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_lie_on_the_sheet_and_draw_something() {
        for (digit, templates) in DIGITS.iter().enumerate() {
            assert!(templates.len() >= 3, "digit {digit}");
            for stroke in templates.iter().flat_map(|template| template.iter()) {
                assert!(stroke.points().len() >= 2, "digit {digit}");
                assert!(stroke.points().iter().flatten().all(|&at| f32::from(at) <= SHEET));
            }
        }
    }

    #[test]
    fn curves_pass_through_their_points_and_loops_return() {
        for stroke in DIGITS.iter().flat_map(|ways| ways.iter()).flat_map(|way| way.iter()) {
            let points: Vec<Point> = stroke.points().iter().map(|p| p.map(f32::from)).collect();
            let mut chain = Vec::new();
            stroke.flatten(&points, &mut chain);
            assert!(points.iter().all(|point| chain.contains(point)));
            let end = if matches!(stroke, Loop(_)) { points.first() } else { points.last() };
            assert_eq!(chain.last(), end);
        }
    }
}
