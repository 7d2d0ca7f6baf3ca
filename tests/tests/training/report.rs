//! The report of a run.

use super::common::{Model, scratch};
use mesh_optimize::training::{Every, Metrics, ReportFile, Trainer};
use std::fs;

#[test]
fn a_run_leaves_a_page_that_needs_nothing_else() {
    let (model, path) =
        (Model::new("b:3;w:2", "batch:b;width:w"), scratch("report").join("r.html"));
    let mut session = model.session(0);
    let file = ReportFile::create(&path, "A <run>", &model.module, &model.layout, "train").unwrap();
    Trainer::new(&mut session, "train", model.data(1))
        .quiet()
        .epochs(30)
        .metric_names(["loss"])
        .counting("examples", 3.0)
        .evaluate(Every::Epochs(3), |_, position| {
            Ok(Metrics::from([("accuracy", 1.0 - 1.0 / position.step as f64)]))
        })
        .watch(file)
        .run()
        .unwrap();
    let page = fs::read_to_string(&path).unwrap();
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for said in [
        "A &lt;run&gt;",
        "6 processors",
        "layout batch:b;width:w",
        "accuracy",
        "examples per second",
        "median step",
        "Time by operation",
        "tests/tests/training/common.rs:",
        "all_reduce",
        "other values of a step",
        "values kept for the gradient",
        "Work of a processor",
        "b &times; 3",
        "<code>width:w</code>",
        "step 90: evaluation 0.98889",
    ] {
        assert!(page.contains(said), "no {said:?}");
    }
    // The curves of loss, two probes, accuracy and throughput, some of them twice.
    assert!(page.matches("<polyline").count() >= 5);
}
