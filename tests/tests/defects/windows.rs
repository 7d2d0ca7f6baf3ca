//! Defects of convolutions and pools.

use crate::fed::Fed;
use crate::{collectives, fed::near};
use mesh_ops::conv::{Conv, Padding, conv, conv_transpose};
use mesh_ops::pool::{Pool, max_pool};
use mesh_ops::prelude::*;

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32).collect()
}

/// Transposed convolutions used the size of all output channels on every slice of them.
#[test]
fn d14_transposed_convolutions_split_their_output_channels() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D14");
    let x = fed.given("x", "n:2;h:4;w:4;i:2", &counting(64));
    let filter = fed.given("filter", "fh:2;fw:2;i:2;o:4", &counting(32));
    let halves = Conv::over([("h", "fh"), ("w", "fw")]).strides([2, 2]);
    let y = conv_transpose(x, filter, &halves);
    for (layout, forms) in
        [("o:a", &[][..]), ("i:a", &["all_reduce"]), ("n:a", &[]), ("h:a", &[]), ("w:a", &[])]
    {
        fed.value(y, &[("", ""), ("a:2", layout)]);
        let found = collectives(&g, "a:2", layout);
        assert_eq!(found.iter().map(|(form, _)| form).collect::<Vec<_>>(), forms, "{layout}");
    }
}

/// The number of windows was rounded down.
#[test]
fn d15_strides_that_do_not_divide_round_up() {
    for (n, taps, stride, padding, outputs) in [
        (5, 3, 2, Padding::Same, 3),
        (6, 3, 4, Padding::Same, 2),
        (5, 2, 3, Padding::Valid, 2),
        (6, 2, 3, Padding::Valid, 2),
        (10, 3, 3, Padding::Valid, 3),
    ] {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "D15");
        let x = fed.given("x", &format!("h:{n};n:2"), &counting(2 * n));
        let filter = fed.given("filter", &format!("fh:{taps}"), &counting(taps));
        let y = conv(x, filter, &Conv::over([("h", "fh")]).strides([stride]).padding(padding));
        let mut layouts = vec![("", ""), ("a:2", "n:a")];
        if n % 2 == 0 && outputs % 2 == 0 {
            layouts.push(("a:2", "h:a"));
        }
        assert_eq!(fed.value(y, &layouts).len(), 2 * outputs);
    }
}

/// Blocks with strides started windows at other positions than the padding Same.
#[test]
fn d16_strides_with_blocks_are_refused_and_with_split_dims_right() {
    let halves = Conv::over([("h", "fh")]).strides([2]);
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("blocks", 2), dim("h", 4)], F32);
    let filter = g.input("filter", [dim("fh", 3)], F32);
    mesh_ops::conv::conv_with_blocks(x, filter, &halves, [dim("blocks", 2)]);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("blocks are for padding Same and stride 1"), "{report}");

    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "D16");
    let x = fed.given("x", "h:8", &counting(8));
    let filter = fed.given("filter", "fh:3", &[1.0, 10.0, 100.0]);
    let y = fed.value(conv(x, filter, &halves), &[("", ""), ("a:2", "h:a")]);
    // The odd zero is at the high end, so windows begin at 0, 2, 4 and 6.
    near(&y, &ndarray::arr1(&[210.0, 432.0, 654.0, 76.0]).into_dyn(), 0.0, "windows");
}

/// Every slice was pooled by itself, although windows of 3 do not divide slices of 4.
#[test]
fn d17_windows_across_slices() {
    for (window, want, forms) in
        [(3, vec![2.0, 5.0], &["permute"][..]), (2, vec![1.0, 3.0, 5.0, 9.0], &[])]
    {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "D17");
        let x = fed.given("x", "h:8", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 9.0]);
        let y = max_pool(x, &Pool::over([("h", window)]));
        let value = fed.value(y, &[("", ""), ("a:2", "h:a")]);
        near(&value, &ndarray::Array1::from(want).into_dyn(), 0.0, "pool");
        // Windows that divide the slices need no elements of other processors.
        let found = collectives(&g, "a:2", "h:a");
        assert_eq!(found.iter().map(|(form, _)| form).collect::<Vec<_>>(), forms);
    }
}
