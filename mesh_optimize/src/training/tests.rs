use super::*;
use std::time::Duration;

#[test]
fn a_pace_is_the_median_of_the_last_steps() {
    let mut pace = Pace::new("examples", 200.0);
    assert_eq!((pace.step_seconds(), pace.per_second(), pace.remaining()), (None, None, None));
    pace.note(9.0, Some(30));
    assert_eq!(pace.step_seconds(), Some(9.0));
    (0..200).for_each(|i| pace.note(if i % 10 == 0 { 7.0 } else { 0.5 }, Some(30)));
    assert_eq!((pace.step_seconds(), pace.per_second()), (Some(0.5), Some(400.0)));
    assert_eq!(pace.remaining(), Some(Duration::from_secs(15)));
    pace.note(0.5, None);
    assert_eq!((pace.remaining(), pace.unit(), pace.per_step()), (None, "examples", 200.0));
}

#[test]
fn what_is_not_finite_is_never_better() {
    use Better::{Higher, Lower};
    for (better, value, best, improves) in [
        (Lower, 1.0, None, true),
        (Lower, 1.0, Some(1.0), false),
        (Lower, 0.5, Some(1.0), true),
        (Higher, 0.5, Some(1.0), false),
        (Higher, 1.5, Some(1.0), true),
        (Higher, f64::NAN, None, false),
        (Higher, f64::INFINITY, Some(1.0), false),
        (Lower, f64::NEG_INFINITY, Some(1.0), false),
    ] {
        assert_eq!(better.improves(value, best), improves, "{better:?} {value} {best:?}");
    }
}

#[test]
fn things_are_due_after_whole_steps_and_epochs() {
    let at = |step, epoch, record| Position { step, epoch, record };
    for (every, position, due) in [
        (Every::Steps(3), at(3, 0, 3), true),
        (Every::Steps(3), at(4, 1, 0), false),
        (Every::Epochs(1), at(4, 1, 0), true),
        (Every::Epochs(1), at(5, 1, 1), false),
        (Every::Epochs(2), at(4, 1, 0), false),
        (Every::Epochs(2), at(8, 2, 0), true),
    ] {
        assert_eq!(every.due(position), due, "{every:?} {position:?}");
    }
    assert_eq!([at(3, 0, 3), at(4, 1, 0), at(5, 1, 1)].map(|p| p.epoch_of_step()), [1, 1, 2]);
}

#[test]
fn states_are_text_and_back() {
    let watchers = [("metrics".to_owned(), "17".to_owned()), ("é \"\n".to_owned(), String::new())];
    let state = TrainingState {
        position: Position { step: u64::MAX, epoch: 3, record: 7 },
        best: Some(0.1 + 0.2),
        best_step: Some(u64::MAX - 1),
        waited: 2,
        not_finite: 1,
        watchers: watchers.into_iter().collect(),
    };
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<TrainingState>(&text).unwrap(), state);
    for bad in ["", "{}", r#"{"position":{"step":-1,"epoch":0,"record":0}}"#, "[]"] {
        assert!(serde_json::from_str::<TrainingState>(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_in_the_way_of_a_checkpoint_is_told_and_ends_nothing() {
    use super::checkpoints::Settled;
    use mesh_core::session::checkpoint::CheckpointError;
    use std::cell::RefCell;

    struct Notes<'n>(&'n RefCell<Vec<String>>);
    impl Watcher for Notes<'_> {
        fn name(&self) -> &str {
            "notes"
        }
        fn warning(&mut self, position: Position, problem: &str) -> Result<(), BoxError> {
            self.0.borrow_mut().push(format!("{}: {problem}", position.step));
            Ok(())
        }
        fn saved(&mut self, position: Position, name: &str) -> Result<(), BoxError> {
            self.0.borrow_mut().push(format!("{} saved as {name}", position.step));
            Ok(())
        }
    }

    let notes = RefCell::new(Vec::new());
    let mut watchers: [Box<dyn Watcher + '_>; 1] = [Box::new(Notes(&notes))];
    let at = |step| Position { step, ..Position::default() };
    let source = std::io::Error::other("it is busy");
    let problem = CheckpointError::Io { action: "remove", path: "old".into(), source };
    let settled = Settled { saved: Some((at(3), "new".into())), problems: vec![problem] };
    run::tell_settled(&mut watchers, at(5), settled).unwrap();
    drop(watchers);
    assert_eq!(notes.into_inner(), ["5: cannot remove old: it is busy", "3 saved as new"]);
}

#[test]
fn metrics_keep_their_order() {
    let mut metrics = Metrics::from([("b", 1.0), ("a", 2.0)]);
    metrics.set("b", 3.0);
    metrics.set("c", 4.0);
    assert_eq!(metrics.iter().collect::<Vec<_>>(), [("b", 3.0), ("a", 2.0), ("c", 4.0)]);
    assert_eq!((metrics.get("a"), metrics.get("d")), (Some(2.0), None));
}
