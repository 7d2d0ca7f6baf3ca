//! Errors of loops, with the user's line, and tensors that gradients leave alone.

use mesh_ops::prelude::*;

/// Each mistake is one error, with its own line.
#[test]
fn bodies_that_do_not_fit_are_refused_where_the_loop_stands() {
    type Build = for<'g> fn(&'g Graph, Tensor<'g>);
    const CASES: &[(&str, &str, Build)] = &[
        ("scan", "f32[d:4] is carried, but the body returns bf16[d:4]", |g, x| {
            g.scan(dim("n", 3), [x], [], |[h], []| ([h.cast(BF16)], []));
        }),
        ("scan", "f32[d:4] is carried, but the body returns f32[d:4, e:2]", |g, x| {
            let w = g.fill(1.0, [dim("e", 2)], F32);
            g.scan(dim("n", 3), [x], [], |[h], []| ([h * w], []));
        }),
        ("scan", "x: f32[d:4] has no dim n:3 to slice", |g, x| {
            g.scan(dim("n", 3), [], [x], |[], [_]| ([], []));
        }),
        ("scan", "1 tensors are carried, 0 returned", |g, x| {
            g.scan_lists(dim("n", 3), &[x], &[], |_, _| (vec![], vec![]));
        }),
        ("scan", "cannot be stacked", |g, x| {
            g.scan(dim("d", 4), [x], [], |[h], []| ([h], [h]));
        }),
        ("while_loop", "f32[d:4] is carried, but the body returns i32[d:4]", |g, x| {
            g.while_loop([x], |_| g.scalar(1.0, Bool), |[h]| [h.cast(I32)]);
        }),
        ("while_loop", "the condition is bool[d:4], not a bool without dims", |g, x| {
            g.while_loop([x], |[h]| h.less(h), |[h]| [h]);
        }),
        ("sum_over", "has no dim n:3 to slice", |g, x| {
            g.sum_over(dim("n", 3), &[x], |x| vec![x[0]]);
        }),
    ];
    for (op, stated, build) in CASES {
        let g = mesh_ops::graph();
        build(&g, g.input("x", [dim("d", 4)], F32));
        let report = g.check().expect_err(stated);
        let text = report.issues[0].to_string();
        assert!(text.starts_with(&format!("{op}: ")) && text.contains(stated), "{stated}: {text}");
        for issue in &report.issues {
            let file = issue.at.as_ref().map(|at| at.location.file());
            assert_eq!(file, Some(file!()), "{issue}");
        }
    }
}

/// A loop that doubles its input until the sum is at least 100.
fn grown(x: Tensor<'_>) -> Tensor<'_> {
    let [y] =
        x.graph().while_loop([x], |[y]| y.sum_all().less(y.scalar_like(100.0)), |[y]| [y * 2.0]);
    y
}

/// A tensor that no variable of a gradient reaches through floats is a constant for that gradient.
#[test]
fn gradients_stop_before_a_while_loop_that_they_need_not_pass() {
    let d = dim("d", 2);
    let g = mesh_ops::graph();
    let x = g.input("x", [d], F32);
    let w = g.input("w", [d], F32);
    let of = |y: Tensor<'_>, by: &[Tensor<'_>]| -> Vec<_> {
        let found = y.graph().gradients(&[y.sum_all()], by, None);
        found.into_iter().map(|grad| grad.map(|grad| grad.id())).collect()
    };
    // Behind stop_gradient the loop's result is a constant factor.
    let y = grown(x.stop_gradient());
    let stopped = g.gradients(&[(x * y).sum_all()], &[x], None)[0].unwrap();
    // No gradient passes through whole numbers.
    let whole = grown(x.cast(I32).cast(F32));
    let by_whole = g.gradients(&[(x * whole).sum_all()], &[x], None)[0].unwrap();
    // The gradient is taken with respect to the loop's result, not its input.
    let z = grown(x);
    let behind = g.gradients(&[z.square().sum_all()], &[z], None)[0].unwrap();
    // The loop's input does not depend on the variable.
    let beside = g.gradients(&[(w * grown(x)).sum_all()], &[w], None)[0].unwrap();
    // The same in a scan.
    let ([h], []) = g.scan(dim("n", 2), [x], [], |[h], []| ([h * grown(h.stop_gradient())], []));
    let scanned = g.gradients(&[h.sum_all()], &[x], None)[0].unwrap();
    assert_eq!(of(grown(x.stop_gradient()), &[x]), [None]);
    g.check().unwrap();

    let f = g.function("f", [x, w], [stopped, by_whole, behind, beside, scanned], []);
    for layout in ["", "d:a"] {
        let module = g.lower(&"a:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let (x, w) = (ndarray::arr1(&[3f32, 5.0]), ndarray::arr1(&[1f32, 1.0]));
        let results = session.call(&f, [x.view().into(), w.view().into()]).unwrap();
        let results = results.map(|y| y.as_f32().unwrap().iter().copied().collect::<Vec<_>>());
        // 3 + 5 is doubled four times; then 3 * 48 + 5 * 80 is above 100 at once.
        let once = vec![48.0, 80.0];
        let twice = vec![48.0 * 144.0, 80.0 * 400.0];
        assert_eq!(
            results,
            [once.clone(), once.clone(), vec![96.0, 160.0], once, twice],
            "{layout}"
        );
    }

    // A gradient through the loop itself is refused.
    let g = mesh_ops::graph();
    let x = g.input("x", [d], F32);
    g.gradients(&[grown(x * 2.0).sum_all()], &[x], None);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("a while loop has no gradient"), "{report}");
}
