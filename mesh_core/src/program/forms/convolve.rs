use super::contract::{factors, multiply_adds, products, summed};
use super::{FormRules, Legal, StepCx, ensure};
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers};
use crate::program::stablehlo::{Padding, Slide, Spell, Tensor, Writer, extents_of, those};
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

/// A window's labels by what they are to a convolution of StableHLO, and how it slides.
struct Tied {
    image: u8,
    kernel: u8,
    out: u8,
    slide: Slide,
}

impl Window {
    /// The window as one of a convolution whose out is the value that has one of the labels; `extent` has the
    /// labels' extents.
    fn tied(&self, out_has: impl Fn(u8) -> bool, extent: impl Fn(u8) -> usize) -> Tied {
        let Self { input, kernel, output, stride, dilation, pad } = *self;
        if out_has(input) {
            // Each position of the output image is a window's begin; the kernel goes backwards.
            let spread = (stride * (extent(output) - 1) + 1) as i64;
            let low = (dilation * (extent(kernel) - 1)) as i64 - pad as i64;
            let high = extent(input) as i64 - spread + pad as i64;
            let padding = Padding { low, high, between: stride as i64 - 1 };
            let slide = Slide { stride: 1, dilation, padding };
            return Tied { image: output, kernel, out: input, slide };
        }
        let reach = stride * (extent(output) - 1) + dilation * (extent(kernel) - 1) + 1;
        let high = reach as i64 - (extent(input) + pad) as i64;
        let padding = Padding::around(pad as i64, high);
        if out_has(output) {
            let slide = Slide { stride, dilation, padding };
            Tied { image: input, kernel, out: output, slide }
        } else {
            // Kernel and output image stand for each other.
            let slide = Slide { stride: dilation, dilation: stride, padding };
            Tied { image: input, kernel: output, out: kernel, slide }
        }
    }
}

impl Spell for Convolve {
    /// Labels of both factors and the out are groups of features, labels of both factors alone a group's
    /// features.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, space) = (step.out(0), step.space());
        let kept: Vec<u8> = (0..).take(out.extents.len()).collect();
        let tied = self.windows.iter().map(|window| {
            window.tied(|label| kept.contains(&label), |label| space[usize::from(label)])
        });
        let tied: Vec<_> = tied.collect();
        let positions = |of: fn(&Tied) -> u8| -> Vec<u8> { tied.iter().map(of).collect() };
        let (images, kernels) = (positions(|t| t.image), positions(|t| t.kernel));
        let mut windows = [&images[..], &kernels].concat();
        windows.extend(&kept);
        let [one, other] = factors(step, to, inputs, &windows);
        let [(image, i), (kernel, k)] =
            if one.1.contains(&images[0]) { [one, other] } else { [other, one] };
        let both = those(&i, &k, true);
        let (groups, features) = (those(&both, &kept, true), those(&both, &kept, false));
        let own =
            |labels: &[u8], windows: &[u8]| those(&those(labels, &both, false), windows, false);
        let (batch, made) = (own(&i, &images), own(&k, &kernels));
        let count = |labels: &[u8]| labels.iter().map(|&label| space[usize::from(label)]).product();
        let many: usize = count(&groups);

        let image = to.arranged(&image, &i, &[&batch[..], &images, &groups, &features].concat());
        let at = extents_of(&image, &[&batch[..], &images].concat(), &images);
        let image =
            to.reshaped(&image, &[&[count(&batch)], &at[..], &[many * count(&features)]].concat());
        let mut kernel =
            to.arranged(&kernel, &k, &[&kernels[..], &features, &groups, &made].concat());
        if kept.contains(&self.windows[0].input) {
            kernel = to.backwards(&kernel, &(0..kernels.len()).collect::<Vec<_>>());
        }
        let at = extents_of(&kernel, &kernels, &kernels);
        let kernel =
            to.reshaped(&kernel, &[&at[..], &[count(&features), many * count(&made)]].concat());

        let slides: Vec<_> = tied.iter().map(|tied| tied.slide).collect();
        let (image, slides) = padded(to, image, slides);
        let product = to.convolved(&image, &kernel, &slides, many);
        let labels = [&batch[..], &positions(|t| t.out), &groups, &made].concat();
        let extents: Vec<_> = labels.iter().map(|&label| space[usize::from(label)]).collect();
        let product = to.reshaped(&product, &extents);
        let product = to.arranged(&product, &labels, &kept);
        Ok(vec![to.stored(&product, out.dtype.into())])
    }
}

/// An image and slides without padding below 0, which not every compiler takes: what is dropped is dropped
/// before.
fn padded(to: &mut Writer<'_>, image: Tensor, mut slides: Vec<Slide>) -> (Tensor, Vec<Slide>) {
    if slides.iter().all(|slide| slide.padding.low >= 0 && slide.padding.high >= 0) {
        return (image, slides);
    }
    let mut padding = vec![Padding::default(); image.extents.len()];
    for (own, slide) in padding[1..].iter_mut().zip(&mut slides) {
        *own = std::mem::take(&mut slide.padding);
    }
    (to.padded(&image, 0.0, &padding), slides)
}
