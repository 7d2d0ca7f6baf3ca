//! The templates of `docs/clusters.md` have as many ranks as processors.

use mesh_core::names::{Layout, Mesh};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn template(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cluster").join(name)
}

/// The word after a flag.
fn after<'a>(words: &'a [String], flag: &str) -> &'a str {
    let at = words.iter().position(|word| word == flag);
    &words[at.unwrap_or_else(|| panic!("{flag} is not in {words:?}")) + 1]
}

/// The mesh of a command line, whose layout names its axes only.
fn mesh(words: &[String]) -> Mesh {
    let mesh: Mesh = after(words, "--mesh").parse().unwrap();
    let layout: Layout = after(words, "--layout").parse().unwrap();
    for (_, axis) in layout.to_string().split(';').filter_map(|rule| rule.split_once(':')) {
        assert!(mesh.axis(axis).is_some(), "{layout} on {mesh}");
    }
    mesh
}

#[test]
fn the_slurm_script_asks_for_a_core_per_processor() {
    let path = template("slurm.sh");
    let checked = Command::new("bash").arg("-n").arg(&path).status().unwrap();
    assert!(checked.success());
    let text = fs::read_to_string(&path).unwrap();
    let options = text.lines().filter_map(|line| line.strip_prefix("#SBATCH --"));
    let options: Vec<_> = options.map(|option| option.split_once('=').unwrap()).collect();
    let option = |name| options.iter().find(|(known, _)| *known == name).unwrap().1;
    let (nodes, tasks) = (option("nodes"), option("ntasks-per-node"));
    for cores in [option("cpus-per-task"), "4"] {
        let words = started_by_slurm(&text, nodes, tasks, cores);
        let [nodes, tasks, cores] = [nodes, tasks, cores].map(|n| n.parse::<usize>().unwrap());
        assert_eq!(mesh(&words).processors(), nodes * tasks * cores);
        assert_eq!(after(&words, "--steps"), "7");
        assert!(words.iter().any(|word| word == "--kill-on-bad-exit=1"));
        assert!(words.contains(&format!("--cpus-per-task={cores}")));
    }
}

/// The arguments that the script gives to `srun`.
fn started_by_slurm(text: &str, nodes: &str, tasks: &str, cores: &str) -> Vec<String> {
    // A replacement of `srun` that prints its arguments.
    let folder = std::env::temp_dir().join(format!("mesh-slurm-{cores}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let stub = "srun() { printf '%s\\n' \"$@\"; }\n";
    let script = folder.join("job.sh");
    fs::write(&script, format!("{stub}{text}")).unwrap();
    let run = Command::new("bash")
        .arg(&script)
        .args(["--steps", "7"])
        .envs([("SLURM_NNODES", nodes), ("SLURM_NTASKS_PER_NODE", tasks)])
        .env("SLURM_CPUS_PER_TASK", cores)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let words = String::from_utf8(run.stdout).unwrap();
    words.lines().map(str::to_owned).collect()
}

#[test]
fn the_kubernetes_job_has_a_slot_per_processor() {
    let text = fs::read_to_string(template("mpijob.json")).unwrap();
    let job: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&job["kind"], &job["apiVersion"]),
        (&"MPIJob".into(), &"kubeflow.org/v2beta1".into())
    );
    let spec = &job["spec"];
    let slots = spec["slotsPerWorker"].as_u64().unwrap();
    let replicas = &spec["mpiReplicaSpecs"];
    let workers = replicas["Worker"]["replicas"].as_u64().unwrap();
    let container = |kind: &str| &replicas[kind]["template"]["spec"]["containers"][0];
    let words = container("Launcher")["command"].as_array().unwrap().iter();
    let words: Vec<_> = words.map(|word| word.as_str().unwrap().to_owned()).collect();
    assert_eq!(after(&words, "-n").parse(), Ok(slots * workers));
    assert_eq!(mesh(&words).processors() as u64, slots * workers);
    let resources = &container("Worker")["resources"];
    for kind in ["requests", "limits"] {
        assert_eq!(resources[kind]["cpu"].as_str(), Some(slots.to_string().as_str()));
    }
    assert_eq!(container("Launcher")["image"], container("Worker")["image"]);
}
