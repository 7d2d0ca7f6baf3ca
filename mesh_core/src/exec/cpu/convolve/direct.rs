//! Forward convolution, the gradient of the kernel, and of the input where windows move by one.
//!
//! Lanes are features. Forward, the rows of a block are output positions and its steps the kernel's
//! positions and channels; for the kernel's gradient it is the other way round. The gradient of an
//! input is the forward convolution of the output's gradient with the kernel turned round.

use super::block::MOST_ROWS;
use super::lines::{Group, Side, Steps, meeting, sorted};
use super::micro::{Element, Micro};
use super::naive::window_labels;
use super::padding::Padding;
use super::parts::{CHUNK, Parts, labels_len, pairs};
use super::rows::is_run;
use crate::exec::cpu::isa::isa;
use crate::exec::cpu::strided::{Labels, Nest};
use crate::program::Window;

pub(super) struct Direct<T> {
    pub(super) roles: [usize; 3],
    pub(super) groups: Nest,
    pub(super) padding: Option<Padding>,
    /// Where the kernel's first position lies.
    pub(super) origin: isize,
    /// Per image: offsets of image and output.
    pub(super) batch: Vec<[isize; 2]>,
    /// Per feature: offsets in kernel and output.
    pub(super) features: Vec<[isize; 2]>,
    /// Images per chunk.
    pub(super) chunk: usize,
    pub(super) micro: Micro<T>,
    /// Of one image.
    pub(super) rows: Vec<Group>,
    /// From a row of a group to the next: in the image, in the result.
    pub(super) slide: [isize; 2],
    pub(super) steps: Steps,
    /// From a tap of a step to the next in the vector operand.
    pub(super) vector_slide: isize,
    /// Images whose steps are listed.
    pub(super) step_images: usize,
    /// Where rows go in a buffer.
    pub(super) packed_rows: [isize; MOST_ROWS],
}

/// Rows of the blocks that `rows` positions are computed in, if these slide. Rows of groups that
/// overlap are computed twice: at most a quarter may be.
fn sliding_rows(rows: usize) -> Option<usize> {
    let cost = |n: &usize| rows.div_ceil(*n) * n;
    let few = |n: &usize| *n <= rows && cost(n) * 4 <= rows * 5;
    [9, 8, 7, 5, 4, 3].into_iter().filter(few).min_by_key(cost)
}

/// The sliding window's ratio and loops, or those for rows anywhere.
fn choose<T: Element>(
    labels: &Labels,
    slide: &Window,
    forward: bool,
    features: usize,
) -> (Micro<T>, usize) {
    let [_, kernels, outputs] = window_labels(slide).map(|l| labels.extents[l]);
    let (rows, taps, [over, under]) = match forward {
        true => (outputs, kernels, [slide.stride, slide.dilation]),
        false => (kernels, outputs, [slide.dilation, slide.stride]),
    };
    let ratio = over / under;
    let anywhere = (T::micro(isa(), features), 1);
    if over % under != 0 || taps < 2 * ratio {
        return anywhere;
    }
    let best = if forward { sliding_rows(rows) } else { Some(rows) };
    let sliding = best.and_then(|rows| T::slide(isa(), rows, features));
    sliding.map_or(anywhere, |micro| (micro, ratio))
}

impl<T: Element> Direct<T> {
    /// `origin` is where the kernel's first position lies.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: Parts, origin: isize) -> Self {
        let Parts { roles, groups, batch, channels, features } = parts;
        let [image, kernel, output] = roles;
        let forward = output == 2;
        let windows = sorted(labels, windows, image);
        let (padded, padding) = pad(labels, &windows, &channels, image);
        let batch = pairs(labels, &batch, [image, output]);
        let features = pairs(labels, &features, [kernel, output]);

        let (micro, ratio) = match windows.last() {
            Some(slide) => choose(labels, slide, forward, features.len()),
            None => (T::micro(isa(), features.len()), 1),
        };
        let side = |part: usize, operand: usize, more: &[usize]| {
            let mut middle: Vec<_> = windows.iter().map(|w| window_labels(w)[part]).collect();
            let slide = middle.pop().unwrap_or_default();
            let outer = if middle.is_empty() { None } else { Some(middle.remove(0)) };
            middle.extend(more);
            Side { labels: &padded, image, operand, outer, middle, slide }
        };
        let (kernels, outputs) = (side(1, kernel, &channels), side(2, output, &[]));
        let (by_row, by_step) = if forward { (outputs, kernels) } else { (kernels, outputs) };
        let meets = |position: usize| match (windows.first(), by_step.outer) {
            (Some(w), Some(label)) => {
                let (row, step) =
                    if forward { (w.stride, w.dilation) } else { (w.dilation, w.stride) };
                let inputs = labels.extents[w.input as usize];
                meeting([step, labels.extents[label]], row * position, w.pad, inputs)
            }
            _ => [0, 1],
        };
        let rows = by_row.groups(micro.rows, meets);
        let slide = [image, by_row.operand].map(|k| padded.strides[k][by_row.slide]);
        let vector_slide = ratio as isize * padded.strides[by_step.operand][by_step.slide];
        let steps = by_step.steps(micro.taps, ratio);

        let elements = |k: usize| labels_len(labels, k) / batch.len();
        let image_len = padding.as_ref().map_or(elements(image), |padding| padding.len);
        let bytes = size_of::<T>() * (image_len + elements(output));
        let chunk = (CHUNK / bytes.max(1)).clamp(1, batch.len());
        let packed_rows = std::array::from_fn(|p| (p * micro.lanes) as isize);
        let mut plan = Self {
            roles,
            groups,
            padding,
            origin,
            batch,
            features,
            chunk,
            micro,
            rows,
            slide,
            steps,
            vector_slide,
            step_images: 1,
            packed_rows,
        };
        plan.place_vectors();
        plan
    }

    /// Whether offsets fit into the tables.
    pub(super) fn fits(&self) -> bool {
        self.packed_len() <= i32::MAX as usize && self.padded_len() <= i32::MAX as usize
    }

    pub(super) fn is_forward(&self) -> bool {
        self.roles[2] == 2
    }

    /// Offset of an image of a chunk that begins with image `first`.
    pub(super) fn image(&self, first: usize, n: usize) -> isize {
        match &self.padding {
            Some(padding) => ((n - first) * padding.len) as isize,
            None => self.batch[n][0],
        }
    }

    /// Whether blocks can read the output's features where they lie.
    pub(super) fn reads_output(&self) -> bool {
        !self.is_forward()
            && self.features.len().is_multiple_of(self.micro.lanes)
            && is_run(self.features.iter().map(|f| f[1]))
    }

    /// Turns positions in `taps` into offsets of vectors; of a kernel's gradient, lists the steps
    /// of several images if they are small and equally far apart.
    fn place_vectors(&mut self) {
        let (lanes, reads) = (self.micro.lanes, self.reads_output());
        let per_image = self.steps.taps.len();
        let difference = |a: usize, k: usize| self.batch[a + 1][k] - self.batch[a][k];
        let regular = (1..self.batch.len().saturating_sub(1))
            .all(|a| [0, 1].iter().all(|&k| difference(a, k) == difference(0, k)));
        if !self.is_forward() && regular {
            self.step_images = (MANY_STEPS / per_image).clamp(1, self.chunk);
        }
        if !reads {
            self.vector_slide = lanes as isize;
        }
        let lists = std::mem::take(&mut self.steps.lists);
        let place = |n: usize, [a, tap]: [i32; 2]| {
            let in_image = self.image(0, n) - self.image(0, 0);
            let vector = match reads {
                true => self.batch[n][1] - self.batch[0][1] + self.steps.taps[tap as usize],
                false => ((n * per_image + tap as usize) * lanes) as isize,
            };
            [a + in_image as i32, vector as i32]
        };
        let images = 0..self.step_images;
        self.steps.lists = lists.map(|list| {
            images
                .clone()
                .flat_map(|n| list.iter().map(move |&s| (n, s)))
                .map(|(n, step)| place(n, step))
                .collect()
        });
    }

    fn vectors(&self) -> usize {
        self.features.len().div_ceil(self.micro.lanes)
    }

    /// Elements of the packed vector operand.
    pub(super) fn packed_len(&self) -> usize {
        let taps = self.steps.taps.len();
        match (self.is_forward(), self.reads_output()) {
            (true, _) => taps * self.vectors() * self.micro.lanes,
            (false, true) => 0,
            (false, false) => taps * self.chunk * self.micro.lanes,
        }
    }

    pub(super) fn padded_len(&self) -> usize {
        self.padding.as_ref().map_or(0, |padding| padding.len * self.chunk)
    }
}

/// Steps of a kernel's gradient that are worth an addition to the sums.
const MANY_STEPS: usize = 256;

/// The labels as blocks see them, in a copy of the image that has zeros around it if need be.
fn pad(
    labels: &Labels,
    windows: &[Window],
    channels: &[usize],
    image: usize,
) -> (Labels, Option<Padding>) {
    let mut padded = Labels {
        extents: labels.extents.clone(),
        strides: labels.strides.clone(),
        has: labels.has.clone(),
    };
    let reach = |w: &Window| {
        let [_, k, o] = window_labels(w).map(|l| labels.extents[l]);
        w.stride * (o - 1) + w.dilation * (k - 1) + 1
    };
    let fits = |w: &Window| w.pad == 0 && reach(w) <= labels.extents[w.input as usize];
    let mut padding = None;
    if !windows.iter().all(fits) {
        let mut order: Vec<usize> = windows.iter().map(|w| w.input as usize).collect();
        order.extend(channels);
        order.sort_by_key(|&l| std::cmp::Reverse(labels.strides[image][l]));
        let mut step = 1;
        for &l in order.iter().rev() {
            padded.strides[image][l] = step as isize;
            let window = windows.iter().find(|w| w.input as usize == l);
            step *= window.map_or(labels.extents[l], reach);
        }
        padding = Some(Padding::new(labels, &padded, windows, &order, image, step));
    }
    // Where a row or step lies in the image: by the window's stride or dilation.
    for w in windows {
        let [i, k, o] = window_labels(w);
        let step = padded.strides[image][i];
        padded.strides[image][k] = step * w.dilation as isize;
        padded.strides[image][o] = step * w.stride as isize;
    }
    (padded, padding)
}
