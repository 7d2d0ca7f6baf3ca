//! One test for each feature from which this project grew: a question about `CrossShardOptimizer`,
//! that wrapper, tensor2tensor's Adafactor, tf.distribute's strategies.

mod adafactor;
mod cross_shard;
mod distribute;
mod guides;
mod question;

#[test]
fn all_40_are_here() {
    let sources = [
        include_str!("adafactor.rs"),
        include_str!("cross_shard.rs"),
        include_str!("distribute.rs"),
        include_str!("question.rs"),
    ];
    let of = |number: usize| format!("#[test]\nfn row_{number:02}_");
    let count =
        |number| sources.iter().map(|text| text.matches(&of(number)).count()).sum::<usize>();
    let missing: Vec<_> = (1..=40).filter(|&number| count(number) != 1).collect();
    assert!(missing.is_empty(), "rows {missing:?}");
}
