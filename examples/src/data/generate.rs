//! Digits that look handwritten, drawn from a seed: no download, the same on every platform.
//!
//! A sample takes one of its digit's templates, bends and jitters it, places it by a random affine
//! map and draws it with a pen of random width on a slightly dirty sheet. Only additions,
//! multiplications, divisions and square roots are used, so that every platform gets the same bits.
//! The distortions are wide enough that a linear classifier stays far behind a small network.

use std::ops::Range;

use super::strokes::{DIGITS, Point, SHEET};
use super::{DataError, Examples, PIXELS, SIDE};
use crate::Rng;

/// The side, in pixels, of the sheet before it is scaled.
const WRITING: f32 = 19.0;
/// How far a point of a template strays, as a fraction of the sheet.
const JITTER: f32 = 0.04;
/// The largest coefficient of the quadratic bend of the sheet.
const BEND: f32 = 0.25;
/// The tangent of half the largest rotation: about 14 degrees.
const HALF_TURN: f32 = 0.12;
/// The largest slant to either side.
const SHEAR: f32 = 0.2;
/// The largest shift along each side, in pixels.
const SHIFT: f32 = 2.0;
/// Half the pen's width, in pixels.
const PEN: (f32, f32) = (0.75, 1.6);
/// The width of a stroke's soft edge, in pixels.
const EDGE: (f32, f32) = (0.9, 1.8);
/// The brightness of the ink.
const INK: (f32, f32) = (0.75, 1.0);
/// The strongest noise of a pixel, in the dirtiest image.
const NOISE: f32 = 0.12;
/// How many of a hundred images carry a stray mark.
const CLUTTERED: usize = 25;

type Canvas = [[f32; SIDE]; SIDE];

/// Samples in memory.
pub(super) struct Drawn {
    pub(super) pixels: Vec<f32>,
    pub(super) labels: Vec<i32>,
}

impl Examples for Drawn {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn read(
        &self,
        run: Range<usize>,
        pixels: &mut Vec<f32>,
        labels: &mut Vec<i32>,
    ) -> Result<(), DataError> {
        pixels.extend_from_slice(&self.pixels[PIXELS * run.start..PIXELS * run.end]);
        labels.extend_from_slice(&self.labels[run]);
        Ok(())
    }

    /// Everything else about the samples follows from the seed.
    fn contents(&self) -> Result<String, DataError> {
        Ok(format!("{} generated", self.len()))
    }
}

/// `count` samples; sample `i` depends on `(seed, stream, i)` and nothing else.
pub(super) fn draw(seed: u64, stream: u64, count: usize) -> Drawn {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let mut writer = Writer::default();
    for index in 0..count {
        let mut rng = Rng::keyed(seed, stream, index as u64);
        let digit = rng.below(DIGITS.len());
        writer.write(digit, &mut rng);
        pixels.extend_from_slice(writer.canvas.as_flattened());
        labels.push(digit as i32);
    }
    Drawn { pixels, labels }
}

/// The canvas and the buffers that all samples share.
#[derive(Default)]
struct Writer {
    points: Vec<Point>,
    chain: Vec<Point>,
    /// Each pixel's distance to the nearest ink while drawing; its brightness afterwards.
    canvas: Canvas,
}

impl Writer {
    fn write(&mut self, digit: usize, rng: &mut Rng) {
        let templates = DIGITS[digit];
        let template = templates[rng.below(templates.len())];
        let hand = Hand::new(rng);
        let edge = rng.between(EDGE.0, EDGE.1);

        self.canvas = [[edge; SIDE]; SIDE];
        for stroke in template {
            self.points.clear();
            self.points.extend(stroke.points().iter().map(|&point| hand.place(point, rng)));
            stroke.flatten(&self.points, &mut self.chain);
            let (start, end) = (hand.pen * rng.between(0.85, 1.15), hand.pen);
            let pieces = self.chain.len().saturating_sub(1).max(1) as f32;
            for (piece, ends) in self.chain.windows(2).enumerate() {
                let pen = start + (end - start) * (piece as f32 / pieces);
                ink(&mut self.canvas, [ends[0], ends[1]], pen, edge);
            }
        }
        if rng.below(100) < CLUTTERED {
            let reach = SIDE as f32 - 1.0;
            let from = [rng.between(0.0, reach), rng.between(0.0, reach)];
            let to = from.map(|at| at + rng.around_zero(2.0));
            ink(&mut self.canvas, [from, to], rng.between(0.2, 0.7), edge);
        }

        let brightness = rng.between(INK.0, INK.1);
        let noise = NOISE * rng.unit();
        for pixel in self.canvas.as_flattened_mut() {
            let covered = (0.5 - *pixel / edge).clamp(0.0, 1.0);
            *pixel = (covered * brightness + rng.around_zero(noise)).clamp(0.0, 1.0);
        }
    }
}

/// How one sample distorts the templates: the map from the sheet to pixels.
struct Hand {
    bend: [[f32; 3]; 2],
    /// The affine map after the bend, a row for each of x and y: `[x, y, 1]` coefficients.
    map: [[f32; 3]; 2],
    pen: f32,
}

impl Hand {
    fn new(rng: &mut Rng) -> Self {
        let bend = std::array::from_fn(|_| std::array::from_fn(|_| rng.around_zero(BEND)));
        let size = WRITING * rng.between(0.85, 1.15);
        let (wide, high) = (size * rng.between(0.75, 1.1), size);
        let slant = rng.around_zero(SHEAR);
        let half = rng.around_zero(HALF_TURN);
        let (cos, sin) =
            ((1.0 - half * half) / (1.0 + half * half), 2.0 * half / (1.0 + half * half));
        let middle = (SIDE as f32 - 1.0) / 2.0;
        let mut shift = || middle + rng.around_zero(SHIFT);
        let map = [
            [cos * wide, (cos * slant - sin) * high, shift()],
            [sin * wide, (sin * slant + cos) * high, shift()],
        ];
        Self { bend, map, pen: rng.between(PEN.0, PEN.1) }
    }

    fn place(&self, point: [u8; 2], rng: &mut Rng) -> Point {
        let [x, y] = point.map(|at| f32::from(at) / SHEET - 0.5 + rng.around_zero(JITTER));
        let bent = |[xx, xy, yy]: [f32; 3]| xx * x * x + xy * x * y + yy * y * y;
        let (x, y) = (x + bent(self.bend[0]), y + bent(self.bend[1]));
        self.map.map(|[along_x, along_y, shift]| along_x * x + along_y * y + shift)
    }
}

/// Lowers the distances of pixels near a line segment to their distance from its ink, which reaches
/// `pen` from the segment. Pixels farther than `edge` from the ink do not change.
fn ink(canvas: &mut Canvas, [from, to]: [Point; 2], pen: f32, edge: f32) {
    let along = [to[0] - from[0], to[1] - from[1]];
    let square = (along[0] * along[0] + along[1] * along[1]).max(1e-6);
    let reach = pen + edge;
    let [columns, rows] = [0, 1].map(|axis| {
        let (low, high) = (from[axis].min(to[axis]) - reach, from[axis].max(to[axis]) + reach);
        low.max(0.0) as usize..(high.max(-1.0) + 1.0).min(SIDE as f32) as usize
    });
    for row in rows {
        for column in columns.clone() {
            let away = [column as f32 - from[0], row as f32 - from[1]];
            let foot = ((away[0] * along[0] + away[1] * along[1]) / square).clamp(0.0, 1.0);
            let (x, y) = (away[0] - foot * along[0], away[1] - foot * along[1]);
            let distance = (x * x + y * y).sqrt() - pen;
            let pixel = &mut canvas[row][column];
            *pixel = pixel.min(distance);
        }
    }
}
