//! Convolutions and pools whose spatial dims are split, in bulk against one processor, for whatever
//! strides, dilations and paddings.

use crate::{EVERY, ROUNDING, started};
use mesh_ops::conv::{Conv, Padding, conv, conv_transpose};
use mesh_ops::pool::{Pool, max_pool};
use mesh_ops::prelude::*;
use mesh_ops::testing::Random;
use proptest::prelude::*;

type Build = dyn for<'g> Fn(&[Tensor<'g>]) -> Tensor<'g>;

/// The result and the gradients of a product with random weights, under a layout; whole numbers.
/// `Err` if the layout is refused.
fn values(
    build: &Build,
    inputs: &[String],
    (mesh, layout): (&str, &str),
    start: impl FnOnce(&Module) -> Session,
) -> Result<Vec<f64>, String> {
    let g = mesh_ops::graph();
    let shape = |text: &String| text.parse::<Shape>().unwrap();
    let x: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, text)| g.input(["x", "y"][i], shape(text), F32))
        .collect();
    let result = build(&x);
    let weights = g.input("weights", result.shape(), F32);
    let grads = g.gradients(&[result], &x, Some(&[weights]));
    let fetched: Vec<_> = std::iter::once(result).chain(grads.into_iter().flatten()).collect();
    let fed: Vec<_> = x.iter().copied().chain([weights]).collect();
    g.declare_function("f", &fed, &fetched, Vec::new());
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
    let module = module.map_err(|report| report.to_string())?;
    let mut session = start(&module);
    session.set_replica_check(true).unwrap();
    let draw = |t: Tensor<'_>| {
        let mut random = Random::new("input");
        let data = (0..t.shape().size()).map(|_| random.integer(-3, 3) as f32).collect();
        Array::from(ndarray::ArrayD::from_shape_vec(t.shape().sizes(), data).unwrap())
    };
    let names = ["x", "y"].into_iter().take(x.len()).chain(["weights"]);
    let arrays: Vec<_> = names.zip(fed.into_iter().map(draw)).collect();
    let views: Vec<_> = arrays.iter().map(|(name, array)| (*name, array.view())).collect();
    let results = session.call_named("f", &views).unwrap();
    Ok(results.iter().flat_map(|(_, array)| array.to_f64().into_iter()).collect())
}

/// Whether splitting `h` changes nothing against one thread; `false` if sizes do not allow it, and are said
/// not to.
fn agrees(build: &Build, inputs: &[String], mesh: &str, layout: &str, divisible: bool) -> bool {
    let split = values(build, inputs, (mesh, layout), started);
    if !divisible {
        let message = split.unwrap_err();
        assert!(message.contains("cannot be split over"), "{message}");
        return false;
    }
    let alone = values(build, inputs, ("", ""), |module| Session::threads(module, 0).unwrap());
    let alone = alone.unwrap();
    let split = split.unwrap();
    assert_eq!(split.len(), alone.len(), "{inputs:?} on {mesh}");
    let is_near = |(found, own): (&f64, &f64)| (found - own).abs() <= ROUNDING * own.abs();
    let near = split.iter().zip(&alone).all(is_near);
    assert!(near, "{inputs:?} on {mesh}: {split:?}, not {alone:?}");
    true
}

const PADDINGS: [&str; 3] = ["same", "valid", "pads"];

fn padded(conv: Conv, padding: &str, reach: usize) -> Conv {
    match padding {
        "same" => conv,
        "valid" => conv.padding(Padding::Valid),
        _ => conv.pads([(reach / 3, reach - 1)]),
    }
}

/// Outputs along a dim of `n`, by the definition: windows that begin in the padded image.
fn count(n: usize, reach: usize, stride: usize, padding: &str) -> usize {
    match padding {
        "same" => n.div_ceil(stride),
        "valid" => (n + 1).saturating_sub(reach).div_ceil(stride),
        _ => (n + reach / 3).div_ceil(stride),
    }
}

#[test]
fn every_stride_dilation_kernel_and_padding() {
    let (mut number, mut compared) = (0_usize, 0);
    for n in [6, 8, 12] {
        for (taps, stride, dilation) in [1, 2, 3, 4, 5].into_iter().flat_map(|taps| {
            (1..=4).flat_map(move |stride| (1..=2).map(move |dilation| (taps, stride, dilation)))
        }) {
            let reach = (taps - 1) * dilation + 1;
            for padding in PADDINGS {
                let outputs = count(n, reach, stride, padding);
                if outputs == 0 {
                    continue;
                }
                let described = Conv::over([("h", "fh")]).strides([stride]).dilations([dilation]);
                let described = padded(described, padding, reach);
                let build: Box<Build> = Box::new(move |t| conv(t[0], t[1], &described));
                for parts in [2, 3, 4] {
                    let inputs = [format!("h:{n};c:2"), format!("fh:{taps};c:2;o:2")];
                    let divisible = n.is_multiple_of(parts) && outputs.is_multiple_of(parts);
                    let mesh = format!("a:{parts}");
                    number += 1;
                    if number.is_multiple_of(EVERY) {
                        compared += usize::from(agrees(&build, &inputs, &mesh, "h:a", divisible));
                    }
                }
            }
        }
    }
    assert!(compared > 200 / EVERY, "only {compared} combinations were legal");
}

#[test]
fn every_transposed_stride_and_kernel() {
    let (mut number, mut compared) = (0_usize, 0);
    for outputs in [4, 6] {
        for (taps, stride) in (1..=6).flat_map(|taps| (1..=4).map(move |stride| (taps, stride))) {
            for padding in ["same", "valid"] {
                let image = match padding {
                    "same" => outputs * stride,
                    _ => outputs * stride + usize::saturating_sub(taps, stride),
                };
                let described = padded(Conv::over([("h", "fh")]).strides([stride]), padding, taps);
                let build: Box<Build> = Box::new(move |t| conv_transpose(t[0], t[1], &described));
                for parts in [2, 3, 4] {
                    let inputs = [format!("h:{outputs};c:2"), format!("fh:{taps};c:2;o:2")];
                    let divisible = outputs % parts == 0 && image % parts == 0;
                    let mesh = format!("a:{parts}");
                    number += 1;
                    if number.is_multiple_of(EVERY) {
                        compared += usize::from(agrees(&build, &inputs, &mesh, "h:a", divisible));
                    }
                }
            }
        }
    }
    assert!(compared > 80 / EVERY, "only {compared} combinations were legal");
}

#[test]
fn every_window_and_stride_of_pools() {
    let (mut number, mut compared) = (0_usize, 0);
    for n in [8_usize, 12, 14] {
        for (size, stride) in
            (1..=5_usize).flat_map(|size| (1..=4).map(move |stride| (size, stride)))
        {
            for padding in [Padding::Same, Padding::Valid] {
                let outputs = match padding {
                    Padding::Same => n.div_ceil(stride),
                    Padding::Valid => (n + 1 - size).div_ceil(stride),
                };
                let pool = Pool::over([("h", size)]).strides([stride]).padding(padding);
                let build: Box<Build> = Box::new(move |t| max_pool(t[0], &pool));
                for parts in [2, 3, 4] {
                    let divisible = n % parts == 0 && outputs % parts == 0;
                    let (inputs, mesh) = ([format!("h:{n};c:2")], format!("a:{parts}"));
                    number += 1;
                    if number.is_multiple_of(EVERY) {
                        compared += usize::from(agrees(&build, &inputs, &mesh, "h:a", divisible));
                    }
                }
            }
        }
    }
    assert!(compared > 80 / EVERY, "only {compared} combinations were legal");
}

/// Two split dims, corners included, or one dim split over two axes.
#[derive(Clone, Debug)]
struct Square {
    parts: [usize; 2],
    outputs: [usize; 2],
    taps: [usize; 2],
    strides: [usize; 2],
    padding: usize,
    together: bool,
}

fn squares() -> impl Strategy<Value = Square> {
    let two = |range: std::ops::Range<usize>| [range.clone(), range];
    (two(2..4), two(1..3), two(1..5), two(1..4), 0..3_usize, any::<bool>()).prop_map(
        |(parts, outputs, taps, strides, padding, together)| Square {
            parts,
            outputs,
            taps,
            strides,
            padding,
            together,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128 / EVERY as u32))]

    #[test]
    fn two_split_dims(square in squares()) {
        let Square { parts, outputs, taps, strides, padding, together } = square;
        let all = parts[0] * parts[1];
        let counts = if together { [all * outputs[0], 3] } else { [0, 1].map(|i| parts[i] * outputs[i]) };
        let conv_over = Conv::over([("h", "fh"), ("w", "fw")]).strides(strides);
        // The image that has as many windows as wanted, made divisible by what windows do not see.
        let image = |i: usize| -> usize {
            let cut = if together { [all, 1][i] } else { parts[i] };
            let seen = match PADDINGS[padding] {
                "same" => (counts[i] - 1) * strides[i] + 1,
                "valid" => (counts[i] - 1) * strides[i] + taps[i],
                _ => (counts[i] - 1) * strides[i] + 1 - (taps[i] / 3).min((counts[i] - 1) * strides[i]),
            };
            seen.next_multiple_of(cut)
        };
        let sizes = [image(0), image(1)];
        let described = match PADDINGS[padding] {
            "pads" => conv_over.pads(taps.map(|taps| (taps / 3, taps - 1))),
            "valid" => conv_over.padding(Padding::Valid),
            _ => conv_over,
        };
        let made = [0, 1].map(|i| count(sizes[i], taps[i], strides[i], PADDINGS[padding]));
        let cuts = if together { [all, 1] } else { parts };
        let divisible = made[0] % cuts[0] == 0 && made[1] % cuts[1] == 0;
        let inputs = [
            format!("h:{};w:{};c:2", sizes[0], sizes[1]),
            format!("fh:{};fw:{};c:2;o:3", taps[0], taps[1]),
        ];
        let mesh = format!("a:{};b:{}", parts[0], parts[1]);
        let layout = if together { "h:a+b" } else { "h:a;w:b" };
        let build: Box<Build> = Box::new(move |t| conv(t[0], t[1], &described));
        agrees(&build, &inputs, &mesh, layout, divisible);
    }
}
