//! A restored session continues as the saved one does.

use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State, Writer};
use mesh_optimize::Optimizer;

use super::model::{LAYOUTS, adafactor, adam, model};
use super::{Scratch, content, session};

#[test]
fn training_goes_on_bit_for_bit() {
    let optimizers: [&dyn Optimizer; 2] = [&adam(), &adafactor()];
    for optimizer in optimizers {
        let model = model(optimizer);
        for layout in LAYOUTS {
            let mut whole = session(&model.graph, layout, 7);
            let scratch = Scratch::new();
            let mut writer = Writer::new(Checkpoints::new(&*scratch)).unwrap();
            for step in 0..3 {
                model.step(&mut whole, step);
            }
            writer.save(&whole, 3, State::new()).unwrap();
            let losses: Vec<_> =
                (3..6).map(|step| model.step(&mut whole, step).to_bits()).collect();
            let path = writer.finish().unwrap().unwrap();
            // The session's own seed differs: with it, dropout would drop other elements.
            let mut resumed = session(&model.graph, layout, 8);
            resumed.restore(&Checkpoint::open(path).unwrap(), &Restore::all()).unwrap();
            let again: Vec<_> =
                (3..6).map(|step| model.step(&mut resumed, step).to_bits()).collect();
            assert_eq!(again, losses, "{layout:?}");
            assert_eq!(content(&resumed), content(&whole), "{layout:?}");
        }
    }
}

/// The difference that another order of sums may make in f32 after three training steps.
const TOLERANCE: f32 = 1e-5;

#[test]
fn training_goes_on_elsewhere_to_rounding() {
    let model = model(&adam());
    let mut whole = session(&model.graph, ("", ""), 7);
    (0..3).for_each(|step| {
        model.step(&mut whole, step);
    });
    let scratch = Scratch::new();
    let path =
        Checkpoints::new(&*scratch).save(3, &whole.snapshot().unwrap(), &State::new()).unwrap();
    let losses: Vec<_> = (3..6).map(|step| model.step(&mut whole, step)).collect();
    for layout in LAYOUTS {
        let mut resumed = session(&model.graph, layout, 8);
        resumed.restore(&Checkpoint::open(&path).unwrap(), &Restore::all()).unwrap();
        for (step, want) in (3..6).zip(&losses) {
            let found = model.step(&mut resumed, step);
            assert!((found - want).abs() <= TOLERANCE * want, "{layout:?}: {found} {want}");
        }
    }
}

#[test]
fn without_the_seed_it_would_not() {
    let model = model(&adam());
    let losses = [7, 8].map(|seed| {
        let mut session = session(&model.graph, ("", ""), seed);
        let first = super::session(&model.graph, ("", ""), 7);
        session.copy_variables(&first).unwrap();
        model.step(&mut session, 0)
    });
    assert_ne!(losses[0], losses[1], "dropout is of the seed");
}
