//! The strides of a caller's array do not matter to a call.

use mesh_ops::prelude::*;
use ndarray::{Array2, ArrayView2, ArrayViewD, s};

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
