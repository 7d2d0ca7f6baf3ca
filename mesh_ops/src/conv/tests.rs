//! Sizes by padding and stride, and what is refused.

use super::*;
use crate::prelude::*;

fn square() -> Conv {
    Conv::over([("h", "fh"), ("w", "fw")])
}

fn output(conv: &Conv, image: &str, filter: &str) -> String {
    let (image, filter) = (image.parse().unwrap(), filter.parse().unwrap());
    match conv.output(&image, &filter) {
        Ok(shape) => shape.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_round_up() {
    let size = |n: usize, f: usize, stride: usize, padding| {
        let conv = Conv::over([("h", "fh")]).strides([stride]).padding(padding);
        output(&conv, &format!("h:{n}"), &format!("fh:{f}"))
    };
    assert_eq!(size(28, 5, 1, Padding::Same), "[h:28]");
    assert_eq!(size(5, 3, 2, Padding::Same), "[h:3]");
    assert_eq!(size(7, 2, 3, Padding::Same), "[h:3]");
    assert_eq!(size(28, 5, 1, Padding::Valid), "[h:24]");
    assert_eq!(size(6, 3, 2, Padding::Valid), "[h:2]");
    assert_eq!(size(5, 5, 9, Padding::Valid), "[h:1]");
    assert_eq!(
        size(4, 5, 1, Padding::Valid),
        "the filter reaches over 5 positions, but the image has only h:4"
    );
}

#[test]
fn an_odd_zero_stands_at_the_high_end() {
    let low = |n, f, stride| {
        let conv = Conv::over([("h", "fh")]).strides([stride]);
        conv.low(&conv.slides().unwrap()[0], n, f)
    };
    assert_eq!(
        [low(4, 3, 1), low(4, 2, 1), low(4, 3, 2), low(5, 3, 2), low(4, 1, 3)],
        [1, 0, 0, 1, 0]
    );
}

#[test]
fn channels_take_each_others_place() {
    let filter = "fh:3;fw:3;c:2;o:5";
    assert_eq!(output(&square(), "n:2;h:4;w:4;c:2", filter), "[n:2, h:4, w:4, o:5]");
    assert_eq!(output(&square(), "c:2;n:2;h:4;w:4", filter), "[o:5, n:2, h:4, w:4]");
    assert_eq!(output(&square(), "h:4;w:4", "fh:3;fw:3;o:5"), "[h:4, w:4, o:5]");
    let apart = square().depthwise(["c"]);
    assert_eq!(output(&apart, "h:4;w:4;c:2", filter), "[h:4, w:4, c:2, o:5]");
}

#[test]
fn mistakes_are_named() {
    let refusal = |conv: &Conv, filter| output(conv, "n:2;h:4;w:4;c:2", filter);
    assert!(refusal(&square(), "fh:3;c:2").starts_with("conv slides fw of the filter along w"));
    assert!(refusal(&square(), "fh:3;fw:3;h:4").contains("must be a dim of one of them only"));
    assert!(refusal(&square(), "fh:3;fw:3;c:3").contains("`c:2` meets `c:3`"));
    assert!(refusal(&square().strides([2]), "fh:3;fw:3").contains("2 numbers of at least 1"));
    assert!(refusal(&square().strides([2, 0]), "fh:3;fw:3").contains("not [2, 0]"));
    assert!(refusal(&square().depthwise(["n"]), "fh:3;fw:3").contains("depthwise dim n"));
    let twice = Conv::over([("h", "fh"), ("h", "fw")]);
    assert_eq!(refusal(&twice, "fh:3;fw:3"), "conv names a dim twice");
    assert!(refusal(&Conv::over::<&str, &str>([]), "fh:3").contains("names no dims"));
}

#[test]
fn blocks_need_odd_filters_and_stride_1() {
    let refusal = |conv: &Conv, filter: &str| {
        let g = crate::graph();
        let blocks = [dim("rows", 2), dim("columns", 2)];
        let x = g.input("x", "rows:2;columns:2;h:4;w:4".parse::<Shape>().unwrap(), F32);
        let filter = g.input("filter", filter.parse::<Shape>().unwrap(), F32);
        conv_with_blocks(x, filter, conv, blocks);
        g.check().unwrap_err().to_string()
    };
    assert!(refusal(&square(), "fh:3;fw:2").contains("reaches over 2 positions of w:4 (fw:2)"));
    assert!(refusal(&square().strides([2, 1]), "fh:3;fw:3").contains("padding Same and stride 1"));
    let valid = square().padding(Padding::Valid);
    assert!(refusal(&valid, "fh:3;fw:3").contains("padding Same and stride 1"));
}

#[test]
fn pads_stand_in_place_of_padding() {
    let line = |pads| Conv::over([("h", "fh")]).strides([2]).pads([pads]);
    assert_eq!(output(&line((2, 0)), "h:5", "fh:3"), "[h:3]");
    assert_eq!(output(&line((1, 2)), "h:6", "fh:4"), "[h:3]");
    let image = line((1, 2)).image(&"h:3".parse().unwrap(), &"fh:4".parse().unwrap());
    assert_eq!(image.unwrap().to_string(), "[h:5]");
    let refusal = output(&line((3, 0)), "h:5", "fh:3");
    assert!(refusal.contains("each must be less than the 3 positions"), "{refusal}");
    let refusal = output(&line((0, 0)).pads([(0, 0), (1, 1)]), "h:5", "fh:3");
    assert!(refusal.contains("pads are 1 pairs of numbers"), "{refusal}");
    let refusal = output(&line((1, 1)).dilations([usize::MAX]), "h:5", "fh:3");
    assert!(refusal.contains("are the most"), "{refusal}");
}

#[test]
fn a_split_spatial_dim_divides_image_and_output() {
    let g = crate::graph();
    let x = g.input("x", "n:2;h:4;w:5;c:2".parse::<Shape>().unwrap(), F32);
    let filter = g.input("filter", "fh:3;fw:2;c:2;o:2".parse::<Shape>().unwrap(), F32);
    let y = conv(x, filter, &square().padding(Padding::Valid));
    g.function("f", [x, filter], [y], []);
    let lower = |layout: &str| g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap());
    for legal in ["n:a", "h:a", "c:a", "o:a"] {
        lower(legal).unwrap();
    }
    let refusal = lower("w:a").unwrap_err().to_string();
    assert!(refusal.contains("dim w of size 5 cannot be split over a into 2 equal"), "{refusal}");
    let refusal = lower("fh:a").unwrap_err().to_string();
    assert!(refusal.contains("every window needs the whole filter"), "{refusal}");
}
