//! Warnings reach the program's logger, each once.

use log::{LevelFilter, Log, Metadata, Record};
use mesh_core::lower::{Options, Warnings};
use mesh_core::session::Threads;
use mesh_ops::prelude::*;
use std::sync::Mutex;

struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        self.0.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
    }
    fn flush(&self) {}
}

static LINES: Lines = Lines(Mutex::new(Vec::new()));

fn logged() -> Vec<String> {
    std::mem::take(&mut *LINES.0.lock().unwrap())
}

/// This is one test because a process has one logger.
#[test]
fn a_logger_is_told_once_what_a_layout_does_not_do() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(LevelFilter::Warn);
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 4)], F32);
    g.function("f", [x], [x.exp()], []);
    let (mesh, misspelt) = ("data:2".parse().unwrap(), "bacth:data".parse().unwrap());

    let kept = Options { warnings: Warnings::Keep, ..Options::default() };
    let module = g.lower_with(&mesh, &misspelt, &kept).unwrap();
    assert_eq!((module.warnings().len(), logged().len()), (1, 0));

    g.lower(&mesh, &misspelt).unwrap();
    let [line] = &logged()[..] else { panic!("one warning") };
    assert!(line.starts_with("WARN no tensor has a dim `bacth`"), "{line}");
    assert!(line.contains("did you mean `batch`?"), "{line}");

    g.lower(&mesh, &misspelt).unwrap();
    assert_eq!(logged(), [""; 0], "told before");
    g.lower(&mesh, &"".parse().unwrap()).unwrap();
    assert_eq!(logged().len(), 1, "another warning");
    g.lower(&mesh, &"batch:data".parse().unwrap()).unwrap();
    assert_eq!(logged(), [""; 0]);

    let cores = std::thread::available_parallelism().unwrap().get();
    let crowd: Mesh = format!("data:{}", 8 * cores).parse().unwrap();
    let module = g.lower_with(&crowd, &"".parse().unwrap(), &kept).unwrap();
    Session::threads_with(&module, 0, &Threads::default().warnings(Warnings::Keep)).unwrap();
    assert_eq!(logged(), [""; 0]);
    Session::threads(&module, 0).unwrap();
    let [line] = &logged()[..] else { panic!("a crowd of threads") };
    assert!(
        line.contains(&format!("has {} processors, and each is a thread", 8 * cores)),
        "{line}"
    );

    g.warn("x", "this is hardly meant");
    g.lower(&mesh, &"batch:data".parse().unwrap()).unwrap();
    let [line] = &logged()[..] else { panic!("what was recorded") };
    assert!(line.contains("this is hardly meant") && line.contains("warned.rs"), "{line}");
}
