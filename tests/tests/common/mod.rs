//! What the conformance suites share.

use mesh_ops::testing::Case;

/// Checks the cases of a table and keeps their reports.
pub fn conform(table: &str, cases: Vec<Case>) {
    let results: Vec<_> = cases.iter().map(Case::check).collect();
    let faults: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let reports: Vec<_> = results.iter().flatten().map(ToString::to_string).collect();
    let path = "../snapshots/conformance";
    insta::with_settings!({
        snapshot_path => path, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        insta::assert_snapshot!(table, reports.join("\n"));
    });
}
