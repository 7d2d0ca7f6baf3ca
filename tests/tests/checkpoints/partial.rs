//! Restores parts of a checkpoint, under other names, into other models.

use mesh_core::session::checkpoint::{Checkpoint, CheckpointError, Checkpoints, Restore, State};
use mesh_ops::prelude::*;

use super::model::counting;
use super::{Scratch, content, session};

/// Variables of f32, one per name and size, that count up.
fn saved(scratch: &Scratch, variables: &[(&str, usize)]) -> Checkpoint {
    let g = vectors(variables);
    let mut session = session(&g, ("d:2", "params/*:d"), 1);
    for (name, size) in variables {
        session.write(name, &counting(*size)).unwrap();
    }
    let path =
        Checkpoints::new(&**scratch).save(5, &session.snapshot().unwrap(), &State::new()).unwrap();
    Checkpoint::open(path).unwrap()
}

fn vectors(variables: &[(&str, usize)]) -> Graph {
    let g = mesh_ops::graph();
    for (name, size) in variables {
        g.variable(name, [dim("x", *size)], F32, Initializer::Constant(-1.0));
    }
    g.function("nothing", [], [], []);
    g
}

/// Restores into a model with these variables. Returns the variables that were set, and the others'
/// lists.
fn restore(
    checkpoint: &Checkpoint,
    variables: &[(&str, usize)],
    restore: &Restore,
) -> (Vec<String>, String) {
    let mut session = session(&vectors(variables), ("d:2", "params/*:d"), 2);
    let restored = session.restore(checkpoint, restore).unwrap();
    assert_eq!(session.seed(), if *restore == Restore::all() { 1 } else { 2 });
    let mut set = Vec::new();
    for (name, size) in variables {
        let value = session.read(name).unwrap();
        if value == counting(*size) {
            set.push((*name).to_owned());
        } else {
            assert!(value.as_f32().unwrap().iter().all(|&x| x == -1.0), "{name}");
        }
    }
    let mut loaded: Vec<_> = restored.loaded.iter().map(|one| one.variable.clone()).collect();
    loaded.sort();
    let mut sorted = set.clone();
    sorted.sort();
    assert_eq!(loaded, sorted);
    (set, restored.to_string())
}

fn refusal(checkpoint: &Checkpoint, variables: &[(&str, usize)], restore: &Restore) -> String {
    let mut session = session(&vectors(variables), ("d:2", "params/*:d"), 2);
    let before = content(&session);
    let error = session.restore(checkpoint, restore).unwrap_err();
    assert!(matches!(error, CheckpointError::Unfit(_)), "{error}");
    assert_eq!((content(&session), session.seed()), (before, 2));
    error.to_string().replace(&checkpoint.path().display().to_string(), "PATH")
}

#[test]
fn everything_that_does_not_fit_is_told_at_once() {
    let scratch = Scratch::new();
    let checkpoint =
        saved(&scratch, &[("encoder/w", 4), ("encoder/b", 2), ("head/w", 6), ("old", 2)]);
    let other = [("encoder/w", 8), ("encoder/bias", 2), ("head/w", 6), ("new", 4), ("far", 2)];
    let expected = "\
the checkpoint PATH is not of these variables:
  missing: variable `encoder/bias` is not in it (did you mean `encoder/b`?)
  missing: variable `new` is not in it
  missing: variable `far` is not in it
  extra: its `encoder/b`, f32[2], is for no variable
  extra: its `old`, f32[2], is for no variable
  different: variable `encoder/w` is f32[8], its `encoder/w` is f32[4]";
    assert_eq!(refusal(&checkpoint, &other, &Restore::all()), expected);
    // What is allowed is not an error; shapes must fit all the same.
    let lenient = Restore::all().allow_missing().allow_extra();
    let expected = "\
the checkpoint PATH is not of these variables:
  different: variable `encoder/w` is f32[8], its `encoder/w` is f32[4]";
    assert_eq!(refusal(&checkpoint, &other, &lenient), expected);
}

#[test]
fn dtypes_and_ranks_have_to_fit() {
    let scratch = Scratch::new();
    let checkpoint = saved(&scratch, &[("w", 4)]);
    let g = mesh_ops::graph();
    g.variable("w", [dim("x", 4)], BF16, Initializer::ZEROS);
    g.function("nothing", [], [], []);
    let error = session(&g, ("", ""), 0).restore(&checkpoint, &Restore::all()).unwrap_err();
    let text = "different: variable `w` is bf16[4], its `w` is f32[4]";
    assert!(error.to_string().ends_with(text), "{error}");
    let g = mesh_ops::graph();
    g.variable("w", [dim("x", 2), dim("y", 2)], F32, Initializer::ZEROS);
    g.function("nothing", [], [], []);
    let error = session(&g, ("", ""), 0).restore(&checkpoint, &Restore::all()).unwrap_err();
    let text = "different: variable `w` is f32[2, 2], its `w` is f32[4]";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn another_head() {
    let scratch = Scratch::new();
    let checkpoint = saved(&scratch, &[("body/w", 4), ("body/w/m", 4), ("head/w", 6), ("step", 2)]);
    let model = [("body/w", 4), ("body/w/m", 4), ("head/w", 8), ("step", 2)];
    let (set, text) = restore(&checkpoint, &model, &Restore::matching("^body/"));
    assert_eq!(set, ["body/w", "body/w/m"]);
    let expected = "2 variables restored\n  kept as it was: `head/w`\n  kept as it was: `step`\n  \
                    left in the checkpoint: `head/w`\n  left in the checkpoint: `step`";
    assert_eq!(text, expected);
    let (set, _) = restore(&checkpoint, &model, &Restore::all().except("^head/"));
    assert_eq!(set, ["body/w", "body/w/m", "step"]);
    let (set, _) = restore(&checkpoint, &model, &Restore::matching("w$").except("^head/"));
    assert_eq!(set, ["body/w"]);
    // A variable that was asked for must be in the checkpoint.
    let error = refusal(&checkpoint, &[("body/w", 4), ("body/v", 4)], &Restore::matching("^body/"));
    assert!(
        error.ends_with("missing: variable `body/v` is not in it (did you mean `body/w/m`?)"),
        "{error}"
    );
}

#[test]
fn other_names() {
    let scratch = Scratch::new();
    let checkpoint = saved(&scratch, &[("net/layer_0/w", 4), ("net/layer_1/w", 4), ("net/out", 2)]);
    let model = [("a/0/w", 4), ("a/1/w", 4), ("a/out", 2)];
    let renamed = Restore::all().rename("^a/([0-9]+)/", "a/layer_$1/").rename("^a/", "net/");
    let (set, text) = restore(&checkpoint, &model, &renamed);
    assert_eq!(set.len(), 3);
    assert!(text.contains("`a/0/w` from `net/layer_0/w`"), "{text}");
    let error = refusal(&checkpoint, &model, &Restore::all().rename("^a/", "net/").allow_extra());
    let expected = "missing: variable `a/0/w` is to be `net/0/w`, which is not in it";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn more_layers() {
    let scratch = Scratch::new();
    let checkpoint = saved(&scratch, &[("layer_0", 4), ("layer_1", 4)]);
    let grown = [("layer_0", 4), ("layer_1", 4), ("layer_2", 4), ("layer_3", 4)];
    let (set, _) = restore(&checkpoint, &grown, &Restore::all().allow_missing());
    assert_eq!(set, ["layer_0", "layer_1"]);
    // Each tensor is used twice.
    let twice = Restore::all().rename("layer_[01]", "layer_0").rename("layer_[23]", "layer_1");
    let (set, text) = restore(&checkpoint, &grown, &twice);
    assert_eq!(set.len(), 4);
    assert!(text.contains("`layer_3` from `layer_1`"), "{text}");
    let shrunk = [("layer_0", 4)];
    let (set, text) = restore(&checkpoint, &shrunk, &Restore::all().allow_extra());
    assert_eq!((&*set[0], set.len()), ("layer_0", 1));
    assert!(text.contains("left in the checkpoint: `layer_1`"), "{text}");
}

#[test]
fn patterns_that_are_none() {
    let scratch = Scratch::new();
    let checkpoint = saved(&scratch, &[("w", 4)]);
    let mut session = session(&vectors(&[("w", 4)]), ("", ""), 0);
    for restore in
        [Restore::matching("("), Restore::all().except("("), Restore::all().rename("(", "x")]
    {
        let error = session.restore(&checkpoint, &restore).unwrap_err().to_string();
        assert!(error.starts_with("\"(\" is no regular expression: "), "{error}");
    }
}
