//! What runs without its graph, and several sessions on the same variables.

use std::fs;
use std::path::PathBuf;
use std::thread;

use mesh_core::lower::{ModuleError, ModuleFileError, Target};
use mesh_core::program::Form;
use mesh_core::session::{Error, Threads};
use mesh_ops::prelude::*;
use proptest::prelude::*;

use crate::models::{MODELS, borrowed, feeds, layouts};

/// A file of this test alone, which is deleted when the test ends.
struct Scrap(PathBuf);

impl Scrap {
    fn new(name: &str) -> Self {
        let name = format!("mesh-serving-{}-{name}.mesh", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scrap {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_loaded_module_is_the_one_that_was_saved() {
    let scrap = Scrap::new("same");
    for (name, build) in MODELS {
        let g = mesh_ops::graph();
        build(&g);
        for (layout, module) in layouts(&g, &"a:2;b:2".parse().unwrap(), 6) {
            module.save(&scrap.0).unwrap();
            let loaded = Module::load(&scrap.0).unwrap();
            let what = format!("{name} under {layout}");
            assert_eq!(loaded.mesh(), module.mesh(), "{what}");
            assert_eq!(loaded.variables(), module.variables(), "{what}");
            assert_eq!(loaded.functions(), module.functions(), "{what}");
            assert_eq!(loaded.init(), module.init(), "{what}");
            let fed = feeds(&module, "train");
            let run = |module: &Module| {
                let mut session = Session::threads(module, 3).unwrap();
                let losses = session.call_named("train", &borrowed(&fed)).unwrap();
                (losses, session.variables().map(|v| session.read(v).unwrap()).collect::<Vec<_>>())
            };
            assert_eq!(run(&loaded), run(&module), "{what}");
        }
    }
}

/// Every attribute of a form goes to the file and back: loops, tables, random numbers, infinities.
#[test]
fn all_that_programs_hold_goes_into_files() {
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let table = ndarray::arr1(&[f32::NEG_INFINITY, -0.0, f32::NAN, 1e-40]);
    let held = g.constant(table.clone().into_dyn(), [x]);
    let w = g.variable("w", [x], F32, Initializer::TruncatedNormal { mean: 0.0, stddev: 1.0 });
    let y = g.input("y", [x], F32);
    let noise = mesh_ops::random::random_normal(&g, [x], 0.0, 1.0, F32);
    let mask = g.fill(f64::NEG_INFINITY, [x], F32);
    let f = g.function("f", [y], [held, y + noise + w.value(), mask.maximum(y)], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"x:a".parse().unwrap()).unwrap();
    let scrap = Scrap::new("forms");
    module.save(&scrap.0).unwrap();
    let loaded = Module::load(&scrap.0).unwrap();
    let again = loaded.handle::<1, 3>("f").unwrap();
    let y = ndarray::arr1(&[1f32, 2.0, 3.0, 4.0]);
    let bits = |arrays: [Array; 3]| arrays.map(|a| a.as_f32().unwrap().mapv(f32::to_bits));
    let [one, two] = [(&module, &f), (&loaded, &again)].map(|(module, f)| {
        bits(Session::threads(module, 1).unwrap().call(f, [y.view().into()]).unwrap())
    });
    assert_eq!(one, two);
    assert_eq!(one[0], table.mapv(f32::to_bits).into_dyn());
}

#[test]
fn a_part_of_a_module_has_the_variables_that_it_uses() {
    let g = mesh_ops::graph();
    let (build, x) = (MODELS[0].1, dim("x", 4));
    build(&g);
    let scale = g.variable("scale", [x], F32, Initializer::Constant(3.0));
    let unused = g.variable("unused", [x], F32, Initializer::ONES);
    let input = g.input("row", [x], F32);
    g.function("scaled", [input], [input * scale.value()], []);
    g.function("other", [], [unused.value()], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"params/x:a".parse().unwrap()).unwrap();
    let part = module.only(&["scaled"]).unwrap();
    let names: Vec<_> = part.variables().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["scale"]);
    let writes = |step: &&mesh_core::program::Step| matches!(step.form, Form::Write(_));
    assert_eq!(part.init().steps().iter().filter(writes).count(), 1);
    assert!(part.init().steps().len() < 6, "{:?}", part.init());
    let mut session = Session::threads(&part, 0).unwrap();
    let row = ndarray::arr1(&[1f32, 2.0, 3.0, 4.0]);
    let scaled = session.call_named("scaled", &[("row", row.view().into())]).unwrap();
    assert_eq!(scaled[0].1, Array::from((&row * 3.0).into_dyn()));
    let unknown = module.only(&["scald"]).unwrap_err();
    assert!(matches!(unknown, ModuleError::Unknown { .. }));
    let said = unknown.to_string();
    assert!(said.contains("no function `scald`") && said.contains("`scaled`"), "{said}");
    let said = module.handle::<2, 1>("scaled").unwrap_err().to_string();
    assert_eq!(said, "function `scaled` has 1 feeds and 1 fetches, not 2 and 1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// One number, word or bracket of the file is another: the file is refused, or holds another module
    /// that is legal (and then is verified to be).
    #[test]
    fn a_changed_file_is_refused_or_legal(at in 0usize..1 << 20, with in "[0-9\\[\\]{}\",a-z-]{1,12}", cut: bool) {
        let g = mesh_ops::graph();
        MODELS[0].1(&g);
        let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
        let scrap = Scrap::new("changed");
        module.save(&scrap.0).unwrap();
        let mut text = fs::read(&scrap.0).unwrap();
        let at = at % text.len();
        let end = if cut { text.len() } else { (at + with.len()).min(text.len()) };
        text.splice(at..end, with.bytes());
        fs::write(&scrap.0, &text).unwrap();
        match Module::load(&scrap.0) {
            Ok(loaded) => drop(loaded.compile(&Target::host())),
            Err(error) => prop_assert!(error.to_string().contains("mesh-serving"), "{error}"),
        }
    }
}

#[test]
fn what_is_no_module_is_said() {
    let scrap = Scrap::new("other");
    let said = |text: &str| {
        fs::write(&scrap.0, text).unwrap();
        Module::load(&scrap.0).unwrap_err().to_string()
    };
    assert!(said("").contains("holds no module"));
    assert!(said("{\"mesh_module\":99}").contains("of format 99; this version of Mesh reads"));
    let missing = Module::load("/nowhere/at/all").unwrap_err();
    assert!(matches!(missing, ModuleFileError::Io { .. }));
}

/// Three threads call at once what one called alone, on several meshes.
#[test]
fn shared_sessions_answer_at_the_same_time() {
    let g = mesh_ops::graph();
    let x = dim("x", 8);
    let w = g.variable(
        "w",
        [x, dim("y", 6)],
        F32,
        Initializer::TruncatedNormal { mean: 0.0, stddev: 1.0 },
    );
    let input = g.input("input", [dim("batch", 4), x], F32);
    let product = input.matmul(&[w.value()]);
    let predict = g.function("predict", [input], [product.tanh()], []);
    let train = g.function("train", [], [], [w.assign(w.value() * 0.5)]);
    for (mesh, layout) in
        [("", ""), ("a:2", "batch:a"), ("a:2", "params/x:a"), ("a:2;b:2", "x:a;y:b")]
    {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 5).unwrap();
        let row = |thread: usize, call: usize| {
            ndarray::Array2::from_shape_fn((4, 8), |(i, j)| ((i * j + call + thread) % 7) as f32)
        };
        let alone = |session: &mut Session, thread: usize| -> Vec<Array> {
            (0..20)
                .map(|call| {
                    let [y] = session.call(&predict, [row(thread, call).view().into()]).unwrap();
                    y
                })
                .collect()
        };
        let expected: Vec<_> = (0..3).map(|thread| alone(&mut session, thread)).collect();
        let mut shares = [session.share().unwrap(), session.share().unwrap()];
        let [one, two] = &mut shares;
        let found: Vec<_> = thread::scope(|scope| {
            let sessions = [&mut session, one, two].into_iter().enumerate();
            let threads: Vec<_> = sessions
                .map(|(thread, session)| scope.spawn(move || alone(session, thread)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(found, expected, "{mesh} {layout}");

        // Whoever has them, nobody writes them; when one is left, it does, and those to come see it.
        let before = session.read("w").unwrap();
        for session in [&mut session, &mut shares[0]] {
            let refused = session.call(&train, []).unwrap_err();
            let said = "function `train` writes variable `w`, which 2 other sessions share: no session \
                        writes a variable while several have it";
            assert_eq!(refused, Error::Refused { reason: said.to_owned() });
            assert!(session.write("w", &before).unwrap_err().to_string().contains("variable `w`"));
        }
        let [one, two] = shares;
        drop(session);
        let mut third = two.share().unwrap();
        drop(one);
        drop(two);
        third.call(&train, []).unwrap();
        let halved = before.as_f32().unwrap() * 0.5;
        assert_eq!(third.read("w").unwrap(), Array::from(halved.clone()));
        assert_eq!(third.share().unwrap().read("w").unwrap(), Array::from(halved));
    }
}

/// The variables dwarf all else: another session would not fit beside this one twice.
#[test]
#[cfg(target_os = "linux")]
fn shared_variables_are_in_memory_once() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 1 << 24)], F32, Initializer::ONES);
    let sum = g.function("sum", [], [w.value().sum_all()], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads_with(&module, 0, &Threads::default()).unwrap();
    let resident = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
    };
    let before = resident();
    let mut shares: Vec<_> = (0..8).map(|_| session.share().unwrap()).collect();
    for session in shares.iter_mut().chain([&mut session]) {
        let [sum] = session.call(&sum, []).unwrap();
        assert_eq!(sum.item(), Some(f64::from(1 << 24)));
    }
    // Eight copies would be 512 MiB; other tests of this program run meanwhile.
    assert!(resident().saturating_sub(before) < 256 << 10, "{} KiB more", resident() - before);
}

#[test]
fn back_ends_that_cannot_share_say_so() {
    let g = mesh_ops::graph();
    MODELS[0].1(&g);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let session = Session::reference(&module, 0).unwrap();
    let said = session.share().unwrap_err().to_string();
    assert_eq!(said, "back-end reference cannot share its variables with another session");
}
