//! Faults on one of several ranks.

use super::{LAYOUT, attention, mesh, train, transformer};
use mesh_core::lower::Target;
use mesh_core::session::Ranks;
use mesh_ops::prelude::*;
use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;
use tests::picky::Picky;

/// How long ranks wait for others.
const DEADLINE: Duration = Duration::from_secs(2);

/// Makes the fault happen; `false` if there is no fault of this name.
pub fn run(fault: &str, folder: &Path) -> bool {
    // The ranks have several processors each, or one.
    let (fault, shared) = match fault.strip_suffix("-shared") {
        Some(fault) => (fault, true),
        None => (fault, false),
    };
    let mesh = if shared { "a:4;b:2".parse().unwrap() } else { mesh() };
    let mut module = attention(&mesh);
    let rank = || mesh_rank();
    let ranks = Ranks::default().deadline(DEADLINE);
    let ranks = if folder.as_os_str().is_empty() { ranks } else { ranks.last_step(folder) };
    let ranks = match fault {
        "nan" => ranks.target(Target::host().check_numerics()),
        _ => ranks,
    };
    match fault {
        "seed" => refused(&module, 7 + u64::from(rank() == 1), &ranks),
        "program" => {
            if rank() == 1 {
                module = other(&mesh);
            }
            refused(&module, 7, &ranks);
        }
        "size" => {
            let mesh: Mesh = "a:1;b:2".parse().unwrap();
            refused(&attention(&mesh), 7, &ranks);
        }
        "kernel" => a_thread_fails(&mesh, &ranks),
        "launcher" => refused(&module, 7, &ranks.started(4)),
        "fine" => drop(trained(&module, &ranks)),
        _ => {
            let mut session = trained(&module, &ranks);
            if rank() == 1 {
                match fault {
                    "nan" => train_on_nan(&mut session),
                    "stop" => signal("STOP"),
                    "kill" => signal("KILL"),
                    "cut" => cut(),
                    "exit" => process::exit(3),
                    "leave" => process::exit(0),
                    "panic" => panic!("rank 1 was told to"),
                    _ => return false,
                }
            }
            train(&mut session, &module, 3);
            println!("nothing went wrong");
        }
    }
    true
}

/// A session on every rank after two steps.
fn trained(module: &Module, ranks: &Ranks) -> Session {
    let mut session = Session::mpi_with(module, 7, ranks).unwrap();
    train(&mut session, module, 2);
    session
}

/// Only the last processor of rank 1 gets a number that the op refuses; the others wait for it.
fn a_thread_fails(mesh: &Mesh, ranks: &Ranks) {
    let graph = mesh_ops::graph();
    let x = graph.input("x", [dim("p", 8)], F32);
    let sum = graph.function("sum", [x], [graph.apply1(Picky, &[x]).sum_all()], []);
    let module = graph.lower(mesh, &"p:a+b".parse().unwrap()).unwrap();
    let mut session = Session::mpi_with(&module, 7, ranks).unwrap();
    let mut numbers = ndarray::Array1::<f32>::ones(8);
    session.call(&sum, [numbers.view().into()]).unwrap();
    let unlucky = session.processes().of(1)[1];
    numbers[unlucky] = -1.0;
    session.call(&sum, [numbers.view().into()]).unwrap();
    println!("nothing went wrong");
}

/// Every rank gets the same error; one reports it.
fn refused(module: &Module, seed: u64, ranks: &Ranks) {
    let error = Session::mpi_with(module, seed, ranks).unwrap_err();
    if mesh_rank() == 0 {
        println!("{error}");
    }
}

/// The module with another learning rate.
fn other(mesh: &Mesh) -> Module {
    let graph = mesh_ops::graph();
    transformer::with_rate(&graph, 4e-3);
    graph.lower(mesh, &LAYOUT.parse().unwrap()).unwrap()
}

fn mesh_rank() -> usize {
    let rank = std::env::var("OMPI_COMM_WORLD_RANK").or_else(|_| std::env::var("PMI_RANK"));
    rank.map_or(0, |rank| rank.parse().unwrap())
}

/// Sends this process a signal.
fn signal(name: &str) {
    let pid = process::id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    // The signal arrives before this ends.
    std::thread::sleep(Duration::from_secs(60));
}

/// Disconnects this rank's host, which `two_hosts.sh` has named.
fn cut() {
    let cable = std::env::var("MESH_LINK").unwrap();
    let cut = Command::new("ip").args(["link", "set", &cable, "down"]).status();
    assert!(cut.unwrap().success());
}

/// Feeds this rank alone a label that is NaN.
fn train_on_nan(session: &mut Session) {
    session.write("bytes_1/embedding", &ndarray::ArrayD::from_elem(vec![8, 8], f32::NAN)).unwrap();
}
