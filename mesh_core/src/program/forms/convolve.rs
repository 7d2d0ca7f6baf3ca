use super::contract::{multiply_adds, products, summed};
use super::{FormRules, Legal, StepCx, ensure};
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// As [`Contract`](super::Contract), with some labels tied to others by windows. Which of image,
/// kernel and output image is the out is a matter of labels: forward convolution and both its
/// gradients.
///
/// A window's label which is the out's is in no factor. A window's three labels differ, belong to no
/// other window, and are each a dim of exactly one of lhs, rhs and out: `input` of the image, `kernel`
/// of the kernel, `output` of the output image, the same for all windows. Strides and dilations are at
/// least 1. The last window begins before the end of the image followed by
/// `max(pad, dilation * (kernel - 1))` zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Convolve {
    /// At least one.
    pub windows: SmallVec<[Window; 2]>,
}

/// Ties three labels of a [`Convolve`]: `input = stride * output + dilation * kernel - pad`; terms
/// outside the input are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Label of the position in the (unpadded) input image.
    pub input: u8,
    /// Label of the position in the kernel.
    pub kernel: u8,
    /// Label of the position in the output image.
    pub output: u8,
    /// Input positions per output position.
    pub stride: usize,
    /// Input positions per kernel position.
    pub dilation: usize,
    /// Zeros before the input's first position.
    pub pad: usize,
}

impl FormRules for Convolve {
    fn name(&self) -> &'static str {
        "convolve"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        ensure!(!self.windows.is_empty(), "there is no window");
        step.counts(2, 1)?;
        step.one_dtype()?;
        let labels = products(step, &self.windows)?;
        let mut seen = Vec::new();
        let mut roles = None;
        for window in &self.windows {
            let tied = [window.input, window.kernel, window.output];
            let mut holders = [0; 3];
            for (label, holder) in tied.into_iter().zip(&mut holders) {
                ensure!(!seen.contains(&label), "label {label} is in windows twice");
                seen.push(label);
                let [lhs, rhs] = [0, 1].map(|i: usize| step.step.inputs[i].dims.contains(&label));
                let is_dim_of = [lhs, rhs, labels.is_result(label)];
                let found: Vec<_> = (0..3).filter(|&i| is_dim_of[i]).collect();
                let count = found.len();
                ensure!(count == 1, "window label {label} is a dim of {count} values");
                *holder = found[0];
            }
            let [image, kernel, output] = holders;
            let distinct = image != kernel && kernel != output && output != image;
            ensure!(distinct, "window labels {tied:?} are not dims of three values");
            ensure!(*roles.get_or_insert(holders) == holders, "windows differ in who is the image");
            ensure!(window.stride > 0 && window.dilation > 0, "stride and dilation are at least 1");
            let [image, kernel, output] = tied.map(|label| labels.extent(label) as u128);
            let pad = window.pad as u128;
            let behind = pad.max(window.dilation as u128 * (kernel - 1));
            ensure!(
                window.stride as u128 * (output - 1) < image + pad + behind,
                "the last of {output} windows begins beyond the {image} input positions"
            );
        }
        Ok(())
    }

    /// Taps that meet padding are counted.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: multiply_adds(step, &self.windows), bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let mut text = format!("{} * {}", step.labelled(0), step.labelled(1));
        for w in &self.windows {
            let [input, kernel, output] =
                [w.input, w.kernel, w.output].map(|label| step.letter(label));
            let (stride, dilation) = (times(w.stride), times(w.dilation));
            text += &format!(" with {input} = {stride}{output} + {dilation}{kernel}");
            if w.pad > 0 {
                text += &format!(" - {}", w.pad);
            }
        }
        text
    }
}

impl Local for Convolve {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let image = step.space();
        let mut space = image.clone();
        self.windows.iter().for_each(|window| space[usize::from(window.input)] = 1);
        vec![summed(step, &space, inputs, |point| {
            self.windows.iter().all(|window| {
                let [input, kernel, output] =
                    [window.input, window.kernel, window.output].map(usize::from);
                let padded = window.stride * point[output] + window.dilation * point[kernel];
                point[input] = padded.wrapping_sub(window.pad);
                padded >= window.pad && point[input] < image[input]
            })
        })]
    }
}

fn times(factor: usize) -> String {
    if factor == 1 { String::new() } else { format!("{factor}*") }
}
