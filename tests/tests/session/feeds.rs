//! The strides of a caller's array do not matter to a call, and integers of any type are fed.

use mesh_core::array::Integers;
use mesh_core::session::Error;
use mesh_ops::prelude::*;
use ndarray::{Array2, ArrayView2, ArrayViewD, arr1, arr2, s};

const ROWS: usize = 8;
const COLUMNS: usize = 12;

/// Two functions of a matrix: one with kernels alone, also under another shape; one with a loop, a
/// collective and the matrix itself.
fn module(mesh: &str, layout: &str) -> (Module, [Function<1, 2>; 2]) {
    let g = mesh_ops::graph();
    let (rows, columns) = (dim("rows", ROWS), dim("columns", COLUMNS));
    let (high, low) = (dim("high", 3), dim("low", 4));
    let x = g.input("x", [rows, columns], F32);
    let kernels =
        g.function("kernels", [x], [x.tanh() * 2.0, x.reshape([rows, high, low]).exp()], []);
    let folded = x.mean_over([rows]);
    let [sum] =
        g.while_loop([x], |[sum]| sum.sum_all().less(g.scalar(200.0, F32)), |[sum]| [sum + x]);
    let others = g.function("others", [x], [sum + folded, x], []);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    (module, [kernels, others])
}

fn results(module: &Module, functions: &[Function<1, 2>], fed: ArrayView2<'_, f32>) -> Vec<Array> {
    let mut session = Session::threads(module, 0).unwrap();
    let fed: ArrayViewD<'_, f32> = fed.into_dyn();
    let mut call = |function| session.call(function, [fed.clone().into()]).unwrap();
    functions.iter().flat_map(&mut call).collect()
}

#[test]
fn arrays_may_lie_anywhere() {
    let fed = Array2::from_shape_fn((ROWS, COLUMNS), |(i, j)| (i * COLUMNS + j) as f32 / 50.0);
    // One element off any alignment; every other element; columns side by side; backwards.
    let mut shifted = vec![0f32; 1 + fed.len()];
    shifted[1..].copy_from_slice(fed.as_slice().unwrap());
    let shifted = ArrayView2::from_shape((ROWS, COLUMNS), &shifted[1..]).unwrap();
    let mut wide = Array2::zeros((2 * ROWS, 2 * COLUMNS));
    wide.slice_mut(s![..;2, ..;2]).assign(&fed);
    let turned = fed.t().as_standard_layout().into_owned();
    let backwards = fed.slice(s![..;-1, ..]).to_owned();
    let views = [shifted, wide.slice(s![..;2, ..;2]), turned.t(), backwards.slice(s![..;-1, ..])];
    let layouts = [("one:1", ""), ("a:2", "rows:a"), ("a:2", "columns:a"), ("a:2;b:2", "rows:b")];
    for (mesh, layout) in layouts {
        let (module, functions) = module(mesh, layout);
        let expected = results(&module, &functions, fed.view());
        assert_eq!(expected[3].to_f64(), fed.mapv(f64::from).into_dyn());
        for view in views {
            assert_eq!(view, fed);
            assert_eq!(results(&module, &functions, view), expected, "{mesh} {layout}");
        }
    }
}

/// Bytes of images and wide class numbers, as readers give them.
#[test]
fn integers_are_converted_to_what_they_are_fed_to() {
    let g = mesh_ops::graph();
    let (rows, columns) = (dim("rows", 2), dim("columns", 4));
    let image = g.input("image", [rows, columns], F32);
    let label = g.input("label", [rows], I32);
    let w = g.state("w", [rows], F32, Initializer::ZEROS);
    let f = g.function("f", [image, label], [image / 255, label * 2, w.value()], []);
    let bytes = arr2(&[[0_u8, 1, 127, 255], [254, 128, 2, 3]]);
    for (mesh, layout) in [("", ""), ("a:2", "rows:a"), ("a:2", "columns:a")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        for mut session in
            [Session::threads(&module, 0).unwrap(), Session::reference(&module, 0).unwrap()]
        {
            session.write("w", &arr1(&[7_u16, 9])).unwrap();
            let turned = bytes.t().as_standard_layout().into_owned();
            let labels = (arr1(&[3_i64, -4]), arr1(&[3_i32, -4]));
            let [image, label, held] =
                session.call(&f, [turned.t().into(), (&labels.0).into()]).unwrap();
            let floats = bytes.mapv(f32::from);
            let [same, twice, _] =
                session.call(&f, [(&floats).into(), (&labels.1).into()]).unwrap();
            assert_eq!((&image, &label), (&same, &twice), "{mesh} {layout}");
            assert_eq!(held, arr1(&[7_f32, 9.0]).into());
        }
    }
}

/// What was refused says the feed, its dims, and the first number that does not fit.
#[test]
fn feeds_that_do_not_fit_are_refused_in_a_sentence() {
    let g = mesh_ops::graph();
    let (batch, pixels) = (dim("batch", 2), dim("pixels", 3));
    let image = g.input("image", [batch, pixels], F32);
    let label = g.input("label", [batch], I32);
    let mask = g.input("mask", [batch], Bool);
    let f = g.function(
        "f",
        [image, label, mask],
        [image.sum_all(), label.sum([batch]), mask.any([batch])],
        [],
    );
    let w = g.state("w", [pixels], F32, Initializer::ZEROS);
    let read = g.function("read", [], [w.value()], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let later = g.function("later", [], [w.value() + 1], []);
    let (image, label, mask) = (Array2::<f32>::zeros((2, 3)), arr1(&[0, 1]), arr1(&[true, false]));
    let (wide, flat) = (Array2::<f32>::zeros((2, 4)), arr1(&[0_f32]));
    let odd = arr2(&[[1_i64, 2, 3], [4, (1 << 24) + 1, 6]]);
    let (large, floats, bits) = (arr1(&[1_i64, 1 << 40]), arr1(&[1_f64, 0.0]), arr1(&[1_u8, 0]));
    let mut texts = Vec::new();
    let mut refused = |feeds| texts.push(session.call(&f, feeds).unwrap_err().to_string());
    refused([(&wide).into(), (&label).into(), (&mask).into()]);
    refused([(&flat).into(), (&label).into(), (&mask).into()]);
    refused([(&odd).into(), (&label).into(), (&mask).into()]);
    refused([(&image).into(), (&large).into(), (&mask).into()]);
    refused([(&image).into(), (&floats).into(), (&mask).into()]);
    refused([(&image).into(), (&label).into(), (&bits).into()]);
    let mut write =
        |array: ArrayRef<'_>| texts.push(session.write("w", array).unwrap_err().to_string());
    write((&wide).into());
    write((&arr1(&[1_u64, 2, u64::MAX])).into());
    texts.push(session.call(&later, []).unwrap_err().to_string());
    texts.push(session.call_named("f", &[("imag", (&image).into())]).unwrap_err().to_string());
    insta::assert_snapshot!("feeds", texts.join("\n"));
    // Nothing of it stopped the session.
    session.call(&read, []).unwrap();
    let later = session.call(&later, []).unwrap_err();
    assert_eq!(later, Error::NotLowered { function: "later".to_owned() });
}

/// A back-end sees dtypes only.
#[test]
fn integers_have_no_dtype() {
    let (labels, floats) = (arr1(&[1_i64]), arr1(&[1_f32]));
    let feed = ArrayRef::from(&labels);
    assert_eq!((feed.dtype(), feed.shape(), feed.to_owned()), (None, &[1][..], None));
    let ArrayRef::Integers(Integers::I64(view)) = &feed else { panic!("{feed:?}") };
    assert_eq!(view.as_slice(), Some(&[1][..]));
    assert_eq!(ArrayRef::from(&floats).dtype(), Some(F32));
}
