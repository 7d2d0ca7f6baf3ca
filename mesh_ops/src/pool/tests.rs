//! Sizes by padding and stride, and what is refused.

use super::*;
use crate::prelude::*;

fn shape(pool: &Pool, x: &str) -> String {
    let g = crate::graph();
    let x = g.input("x", x.parse::<Shape>().unwrap(), F32);
    let (max, avg) = (max_pool(x, pool), avg_pool(x, pool));
    match g.check() {
        Ok(()) => {
            assert_eq!(max.shape(), avg.shape());
            max.shape().to_string()
        }
        Err(report) => report.to_string(),
    }
}

#[test]
fn sizes() {
    let square = Pool::over([("h", 2), ("w", 2)]);
    assert_eq!(shape(&square, "n:2;h:4;w:5;c:3"), "[n:2, h:2, w:2, c:3]");
    assert_eq!(shape(&square.clone().padding(Padding::Same), "h:4;w:5"), "[h:2, w:3]");
    assert_eq!(shape(&square.clone().strides([1, 3]), "h:4;w:5"), "[h:3, w:2]");
    assert_eq!(shape(&Pool::over([("h", 9)]).padding(Padding::Same), "h:4"), "[h:1]");
    assert_eq!(shape(&Pool::over([("h", 1)]), "h:1"), "[h:1]");
    let apart = Pool::over([("h", 2)]).strides([usize::MAX]);
    assert_eq!(shape(&apart, "h:4"), "[h:1]");
}

#[test]
fn mistakes_are_named() {
    let refused = |pool: &Pool, text: &str| {
        let report = shape(pool, "h:4;w:5");
        assert!(report.contains(text), "{report}");
    };
    refused(&Pool::over([("d", 2)]), "pooling of d, which [h:4, w:5] does not have");
    refused(&Pool::over([("h", 2), ("h", 2)]), "names h twice");
    refused(&Pool::over([("h", 0)]), "at least 1 position");
    refused(&Pool::over([("h", 5)]), "windows along h have 5 positions, but h has only 4");
    refused(&Pool::over([("h", 2)]).strides([0]), "strides are 1 numbers of at least 1");
    refused(&Pool::over([("h", 2)]).strides([1, 1]), "strides are 1 numbers of at least 1");
}

#[test]
fn dtypes() {
    let g = crate::graph();
    let pool = Pool::over([("h", 2)]);
    assert_eq!(max_pool(g.input("i", [dim("h", 4)], I32), &pool).dtype(), I32);
    avg_pool(g.input("j", [dim("h", 4)], I32), &pool);
    max_pool(g.input("b", [dim("h", 4)], Bool), &pool);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("avg_pool needs floats, not i32"), "{report}");
    assert!(report.contains("max_pool needs numbers, not bool"), "{report}");
}

#[test]
fn one_window_needs_no_more_than_itself() {
    let g = crate::graph();
    let x = g.input("x", [dim("h", 4)], F32);
    let y = avg_pool(x, &Pool::over([("h", 2)]).strides([usize::MAX]));
    let dx = g.gradients(&[y], &[x], None)[0].unwrap();
    let f = g.function("f", [x], [y, dx], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let x = ndarray::arr1(&[1.0_f32, 3.0, 7.0, 7.0]);
    let [y, dx] = session.call(&f, [x.view().into()]).unwrap();
    assert_eq!(y.to_f64().as_slice().unwrap(), [2.0]);
    assert_eq!(dx.to_f64().as_slice().unwrap(), [0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn windows_beyond_all_bounds_see_everything() {
    let g = crate::graph();
    let x = g.input("x", [dim("h", 4)], F32);
    let endless = Pool::over([("h", usize::MAX)]).padding(Padding::Same);
    let ys = [endless.clone(), endless.strides([2])].map(|pool| avg_pool(x, &pool));
    let f = g.function("f", [x], ys, []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let x = ndarray::arr1(&[1.0_f32, 3.0, 7.0, 9.0]);
    let [one, two] = session.call(&f, [x.view().into()]).unwrap();
    assert_eq!(one.to_f64().as_slice().unwrap(), [5.0]);
    assert_eq!(two.to_f64().as_slice().unwrap(), [5.0, 5.0]);
}
