//! Runs that must be refused, with an exit code and one readable message, and never with a panic.

mod common;

use common::{lm_line, mnist_line, refused, run, scratch, write_pair};

#[test]
fn a_dim_that_does_not_divide() {
    let run = mnist_line("--mesh r:3 --layout batch:r", &[]);
    refused(&run, &["batch", "200", "over r into 3", "mnist.rs:", "1, 2, 4, 5, 8, 10, 20"]);
    assert!(run.out.is_empty(), "{}", run.out);
    let line = run.err.lines().find(|line| line.trim_start().starts_with("at ")).unwrap();
    let number = line.rsplit(':').next().unwrap();
    assert!(number.parse::<u32>().is_ok(), "{line}");
}

#[test]
fn flags() {
    let table: &[(&str, &[&str])] = &[
        (
            "--mesh all:8 --layout hidden1:all;hidden2:all --model mlp",
            &["hidden2/kernel", "hidden1", "hidden2", "mnist.rs:"],
        ),
        ("--mesh rows:2 --layout batch:row", &["`row`", "did you mean `rows`"]),
        (
            "--mesh rows:2 --layout bacth:rows --strict",
            &["--strict", "`bacth`", "did you mean `batch`"],
        ),
        ("--mesh rows:2 --strict", &["--strict", "`rows`"]),
        ("--mesh rows", &["--mesh", "rows"]),
        ("--mesh rows:0", &["--mesh", "rows"]),
        ("--mesh rows:2;rows:2", &["--mesh", "rows"]),
        ("--layout batch", &["--layout", "batch"]),
        ("--bogus", &["--bogus"]),
        ("--model mpl", &["mpl", "mlp"]),
        ("--optimizer adamx", &["adamx", "adam"]),
        ("--weight-decay 0.1", &["--weight-decay", "Adafactor has none"]),
        ("--optimizer adam --weight-decay -1", &["--weight-decay", "-1"]),
        ("--optimizer adam --weight-decay NaN", &["--weight-decay", "NaN"]),
        ("--lr -1", &["--lr", "-1", "positive"]),
        ("--lr 0", &["--lr", "positive"]),
        ("--lr inf", &["--lr", "positive"]),
        ("--lr NaN", &["--lr", "positive"]),
        ("--lr fast", &["--lr", "fast"]),
        ("--batch 0", &["--batch", "legal"]),
        ("--batch -1", &["-1"]),
        ("--batch 99999999999999999", &["--batch", "legal"]),
        ("--batch 100000 --model linear", &["--batch 100000", "12000"]),
        ("--steps 0", &["--steps", "legal"]),
        ("--epochs 0", &["--epochs", "legal"]),
        ("--deadline 0", &["--deadline", "1..=315360000"]),
        ("--deadline 18446744073709551615", &["--deadline", "1..=315360000"]),
        ("--couriers maybe", &["--couriers", "maybe", "on, off, auto"]),
        ("--hidden 0", &["--hidden 0", "legal"]),
        ("--filters 99999999999", &["--filters", "legal"]),
        ("--model linear --eval-layout bad", &["--eval-layout", "bad"]),
        (
            "--mesh r:2 --layout batch:r --model linear --eval-layout batch:c",
            &["--eval-layout", "`c`"],
        ),
        (
            "--mesh r:2 --layout batch:r --model linear --eval-layout pixels:r;classes:r",
            &["--eval-layout", "pixels", "classes"],
        ),
        (
            "--model linear --steps 1 --metrics /no/such/directory/metrics",
            &["--metrics", "/no/such/directory/metrics", "No such file"],
        ),
        (
            "--model linear --dot /no/such/directory/dot",
            &["--dot", "/no/such/directory/dot", "No such file"],
        ),
    ];
    for (line, words) in table {
        refused(&mnist_line(line, &[]), words);
    }
}

#[test]
fn data() {
    const IMAGES: &str = "train-images-idx3-ubyte";
    const LABELS: &str = "train-labels-idx1-ubyte";
    let dir = scratch("refused-data");
    let load = |words: &[&str]| {
        let run =
            mnist_line("--model linear --steps 1 --batch 10 --data", &[dir.to_str().unwrap()]);
        refused(&run, words);
    };
    let names = [IMAGES, LABELS, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];
    load(&names);
    let run = mnist_line("--data /no/such/directory", &[]);
    refused(&run, &[&["/no/such/directory", "does not exist"][..], &names].concat());

    // Each fault is in one file of a pair that is otherwise whole.
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 100);
    type Fault = fn(&mut Vec<u8>);
    let faults: [(&str, Fault, &str); 9] = [
        (IMAGES, cut, "truncated"),
        (IMAGES, |bytes| bytes.truncate(6), "truncated"),
        (IMAGES, Vec::clear, "truncated"),
        (IMAGES, |bytes| bytes.push(0), "goes on"),
        (IMAGES, |bytes| bytes[2] = 1, "magic"),
        (IMAGES, |bytes| (bytes[11], bytes[15]) = (14, 56), "i32[50, 14, 56]"),
        (IMAGES, |bytes| bytes.splice(..2, [0x1f, 0x8b]).for_each(drop), "cannot read"),
        (LABELS, |bytes| bytes[20] = 10, "is 10; legal are 0 to 9"),
        (LABELS, |bytes| bytes[4] = 255, "truncated"),
    ];
    for (name, fault, word) in faults {
        write_pair(&dir, 50);
        let file = dir.join(name);
        let mut bytes = std::fs::read(&file).unwrap();
        fault(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        load(&[name, word]);
    }
    write_pair(&dir, 50);
    std::fs::remove_file(dir.join(LABELS)).unwrap();
    load(&[LABELS, &format!("only {IMAGES} was found")]);

    // The last fifth is the test set.
    write_pair(&dir, 50);
    let all = mnist_line("--model linear --batch 41 --data", &[dir.to_str().unwrap()]);
    refused(&all, &["--batch 41", "40"]);
}

#[test]
fn language_model() {
    let dir = scratch("refused-text");
    let [empty, short] = [("empty", 0), ("short", 1_000)].map(|(name, bytes)| {
        let file = dir.join(name);
        std::fs::write(&file, vec![b'x'; bytes]).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let folder = dir.to_str().unwrap();
    let table: &[(&str, &[&str])] = &[
        ("--heads 3", &["--heads 3", "width 128", "1, 2, 4, 8, 16, 32, 64"]),
        ("--heads 128", &["--heads 128", "even"]),
        ("--width 7 --heads 1", &["--heads 1", "make the width even"]),
        ("--width 0", &["--width 0", "legal"]),
        ("--heads 0", &["--heads 0", "legal"]),
        ("--depth 0", &["--depth 0", "legal"]),
        ("--depth 16777216", &["--depth 16777216", "1 to 4096"]),
        ("--sample 16777217", &["--sample 16777217", "0 to 16777216"]),
        ("--hidden 0", &["--hidden 0", "legal"]),
        ("--sequence 0", &["--sequence 0", "legal"]),
        ("--batch 0", &["--batch 0", "legal"]),
        ("--batch 16777217", &["--batch", "legal"]),
        ("--steps 0", &["--steps", "legal"]),
        ("--eval-every 0", &["--eval-every", "legal"]),
        ("--lr -1", &["--lr", "positive"]),
        ("--optimizer adafactor --weight-decay 0.1", &["--weight-decay", "Adafactor has none"]),
        ("--temperature -1", &["--temperature", "legal"]),
        ("--temperature NaN", &["--temperature", "legal"]),
        ("--prompt=", &["--prompt"]),
        ("--mesh m:3 --layout heads:m", &["heads", "4", "over m into 3", "1, 2, 4"]),
        ("--mesh m:2 --layout heads:m;kv:m", &["heads", "kv"]),
        ("--mesh m:2 --layout head:m --strict", &["--strict", "did you mean `heads`"]),
        ("--text /no/such/file", &["/no/such/file", "No such file"]),
        (&format!("--text {folder}"), &["cannot read", folder]),
        (&format!("--text {empty}"), &[&empty, "0 bytes", "need 1290"]),
        (&format!("--text {short} --sequence 100 --batch 1"), &["1000 bytes", "need 1010"]),
        (&format!("--text {short} --sequence 10 --batch 90"), &["1000 bytes", "need 1001"]),
        ("--text /dev/zero", &["/dev/zero", "no regular file"]),
        ("--metrics /no/such/directory/metrics", &["--metrics", "No such file"]),
    ];
    for (line, words) in table {
        refused(&lm_line(line, &[]), words);
    }
}

#[test]
fn token_files() {
    let dir = scratch("refused-tokens");
    let written = |name: &str, bytes: &[u8]| {
        let file = dir.join(name);
        std::fs::write(&file, bytes).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let mut bytes = Vec::new();
    // The held-out part has a token that is not below a vocabulary of 60.
    let tokens: Vec<_> = (0..3000).map(|i| if i == 2950 { 60 } else { i % 60 }).collect();
    mesh_optimize::dataset::read::write_tokens(&mut bytes, &tokens).unwrap();
    let good = written("good", &bytes);
    let cut = written("cut", &bytes[..3000]);
    let long = written("long", &[&bytes[..], &[0]].concat());
    bytes[8] = 255;
    let absurd = written("absurd", &bytes);
    bytes[0] = 7;
    let other = written("other", &bytes);
    let small = "--vocab 60 --width 8 --heads 1 --depth 1 --sequence 8 --batch 4 --steps 2";
    let table: &[(&str, &[&str])] = &[
        (&format!("--tokens {good}"), &["--vocab"]),
        ("--vocab 60", &["--tokens"]),
        (&format!("--tokens {good} --vocab 60 --text {good}"), &["--tokens", "--text"]),
        (&format!("--tokens {good} --vocab 0"), &["--vocab 0", "1 to 65536"]),
        (&format!("--tokens {good} --vocab 65537"), &["--vocab 65537", "1 to 65536"]),
        (&format!("--tokens {good} --vocab 60 --prompt 1,x"), &["--prompt", "1,x", "below 60"]),
        (&format!("--tokens {good} --vocab 60 --prompt 60"), &["--prompt", "below 60"]),
        (&format!("--tokens {good} --vocab 60 --prompt="), &["--prompt", "a token"]),
        (&format!("--tokens {good} --vocab 60 --batch 400"), &["3000 tokens", "need 56889"]),
        (
            &format!("--tokens {cut} {small}"),
            &["byte 3000", "7024 bytes are declared", "truncated"],
        ),
        (&format!("--tokens {long} {small}"), &["byte 7024", "goes on"]),
        (&format!("--tokens {absurd} {small}"), &["truncated"]),
        (&format!("--tokens {other} {small}"), &["magic number", "20240520"]),
        (&format!("--tokens /no/such/file {small}"), &["/no/such/file", "No such file"]),
        (&format!("--tokens /dev/zero {small}"), &["/dev/zero", "no regular file"]),
    ];
    for (line, words) in table {
        refused(&lm_line(line, &[]), words);
    }
    // The fault is found when the token is read.
    let run = lm_line(&format!("--tokens {good} {small}"), &[]);
    assert!(run.err.contains("token 2950: it is 60"), "{}", run.err);
    refused(&run, &["a vocabulary of 60 has 0 to 59"]);
}

#[test]
fn slices() {
    let table: &[(&[&str], &[&str])] = &[
        (&["--layout", "batch:rows;hidden:rows"], &["batch", "hidden", "rows"]),
        (&["--layout", "batch:row"], &["--layout", "did you mean `rows`"]),
        (&["--layout", "batch"], &["--layout", "`batch`"]),
        (&["--mesh", "rows:3;cols:4"], &["batch:8", "rows", "3", "1, 2, 4, 8"]),
        (&["--mesh", "rows"], &["--mesh"]),
        (&["--tensor", "batch"], &["--tensor"]),
        (&["--tensor", "batch:8;batch:8"], &["--tensor", "batch"]),
        (&["--mesh", "p:65537", "--layout", ""], &["--mesh p:65537", "up to 65536"]),
        (&["--bogus"], &["--bogus"]),
    ];
    for (flags, words) in table {
        refused(&run(env!("CARGO_BIN_EXE_slices"), flags), words);
    }
}

/// `format!` pads to 65,535 characters at most, so a longer name would fail where text is padded to
/// the width of names.
#[test]
fn names_of_any_length() {
    let (program, long) = (env!("CARGO_BIN_EXE_slices"), "n".repeat(70_000));
    let named = format!("{long}:2");
    refused(&mnist_line("--model linear --mesh", &[&long]), &["--mesh"]);
    refused(&mnist_line("--model linear --layout", &[&long]), &["--layout"]);
    refused(
        &mnist_line("--model linear --mesh r:2 --layout", &[&format!("batch:{long}")]),
        &[&long],
    );
    let explained = mnist_line(
        "--model linear --explain --layout",
        &[&format!("batch:{long}"), "--mesh", &named],
    );
    assert!(explained.well().out.contains(&long));
    for flags in [
        ["--mesh", &named, "--tensor", "batch:2", "--layout", &format!("batch:{long}")],
        ["--mesh", "r:2", "--tensor", &named, "--layout", &format!("{long}:r")],
        // A cell of the drawing lists all processors.
        ["--mesh", "r:20000", "--tensor", "a:2;b:2", "--layout", ""],
    ] {
        run(program, &flags).well();
    }
}

#[test]
fn more_processors_than_a_machine_can_have() {
    let mesh = "p:1048576";
    let run = mnist_line("--model linear --steps 1 --mesh", &[mesh]);
    let said: Vec<_> = run.err.lines().collect();
    assert_eq!((run.code, said.len()), (Some(1), 2), "{}", run.err);
    assert!(said[0].starts_with("warning: "), "an axis without a dim: {}", run.err);
    assert!(said[1].starts_with("error: ") && said[1].contains(mesh), "{}", run.err);
    // The reason is threads or memory; both messages say how many processors would do.
    let [threads, memory] = ["this process can have ", " would do"].map(|w| said[1].contains(w));
    assert!(threads || memory, "{}", run.err);
    // Lowering allocates nothing per processor.
    assert!(mnist_line("--model linear --explain --mesh", &[mesh]).well().out.contains(mesh));
}

#[test]
#[cfg(unix)]
fn files_without_an_end_are_not_read() {
    let dir = scratch("endless");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    for name in ["pipe.json", "pipe.toml", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"] {
        let made = std::process::Command::new("mkfifo").arg(path(name)).status().unwrap();
        assert!(made.success(), "{name}");
    }
    std::os::unix::fs::symlink("/dev/zero", path("zero.json")).unwrap();
    let long = std::fs::File::create(path("long.toml")).unwrap();
    long.set_len(1 << 40).unwrap();
    let (pipe, folder) = (path("pipe.json"), path(""));
    let kept = path("kept/step-0000000001");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::rename(path("pipe.toml"), format!("{kept}/manifest.json")).unwrap();
    let kept = path("kept");
    for (line, words) in [
        (format!("--config {pipe}"), &["pipe.json", "no regular file"][..]),
        (format!("--config {}", path("zero.json")), &["zero.json", "no regular file"]),
        (format!("--config {}", path("long.toml")), &["long.toml", "too long", "1048576 bytes"]),
        (format!("--config {folder}"), &["directory"]),
        (format!("--data {folder}"), &["train-images-idx3-ubyte", "no regular file"]),
        (format!("--checkpoints {kept}"), &["no checkpoint is whole", "it is not a file"]),
        (format!("--restore-from {kept}/step-0000000001"), &["it is not a file"]),
    ] {
        refused(&mnist_line(&format!("--model linear --steps 1 {line}"), &[]), words);
    }
    let optimizer = env!("CARGO_BIN_EXE_get_optimizer");
    refused(&run(optimizer, &["--config", &pipe]), &["pipe.json", "no regular file"]);
    refused(&lm_line(&format!("--text {pipe}"), &[]), &["pipe.json", "no regular file"]);
    refused(&lm_line(&format!("--tokens {pipe} --vocab 9"), &[]), &["no regular file"]);
}

#[test]
fn a_misspelt_dim_is_a_warning_without_strict() {
    let line = "--mesh rows:2 --layout batch:rows;hiden1:rows --model mlp --explain";
    let run = mnist_line(line, &[]).well();
    assert!(run.err.starts_with("warning: "), "{}", run.err);
    assert_eq!(run.err.matches("warning: ").count(), 1, "{}", run.err);
    assert!(
        run.err.contains("`hiden1`") && run.err.contains("did you mean `hidden1`"),
        "{}",
        run.err
    );
    assert!(mnist_line("--model mlp --explain --strict", &[]).well().err.is_empty());
}
