//! Saves while training goes on.

use super::*;

#[test]
fn a_writer_saves_what_was_when_it_was_asked() {
    let scratch = Scratch::new();
    let checkpoints = Checkpoints::new(&*scratch).keep_last(9);
    let mut writer = Writer::new(checkpoints.clone()).unwrap();
    assert_eq!(writer.wait().unwrap(), None);
    let mut training = session("a:2", 1);
    for number in 1..6 {
        training.write("step", &arr0(number)).unwrap();
        writer.save(&training, number as u64, State::new()).unwrap();
        // Later changes are not in the checkpoint.
        training.write("step", &arr0(-1)).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), Some(scratch.join("step-0000000005")));
    for number in 1..6 {
        let path = scratch.join(format!("step-{number:010}"));
        let checkpoint = Checkpoint::open(path).unwrap();
        let mut restored = session("", 0);
        restored.restore(&checkpoint, &Restore::all()).unwrap();
        assert_eq!(restored.read("step").unwrap(), arr0(number).into());
    }
}

#[test]
fn a_failed_save_is_told_at_the_next() {
    let scratch = Scratch::new();
    fs::create_dir_all(&*scratch).unwrap();
    let folder = scratch.join("folder");
    fs::write(&folder, "in the way").unwrap();
    let mut writer = Writer::new(Checkpoints::new(&folder)).unwrap();
    let training = session("", 1);
    writer.save(&training, 1, State::new()).unwrap();
    let error = writer.save(&training, 2, State::new()).unwrap_err().to_string();
    assert!(error.contains("cannot create"), "{error}");
    fs::remove_file(&folder).unwrap();
    // The error was returned once, and the writer goes on.
    writer.save(&training, 3, State::new()).unwrap();
    drop(writer);
    let found = Checkpoints::new(&folder).latest().unwrap().checkpoint.unwrap();
    assert_eq!(found.step(), 3, "a writer that is dropped waits");
    let mut writer =
        Writer::new(Checkpoints::new(scratch.join("folder/step-0000000003/manifest.json")))
            .unwrap();
    writer.save(&training, 1, State::new()).unwrap();
    assert!(writer.finish().is_err());
}
