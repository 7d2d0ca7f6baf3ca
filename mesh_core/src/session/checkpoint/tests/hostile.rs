//! Files that no save has written, with valid checksums.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::manifest::Manifest;
use super::*;

/// A manifest with this content and a valid checksum.
fn sealed(content: &str) -> String {
    let body = content.trim_end().strip_suffix('}').unwrap().trim_end().to_owned() + ",\n";
    let sum = crc32c::crc32c(body.as_bytes());
    format!("{body}  \"crc32c\": \"{sum:08x}\"\n}}\n")
}

/// The bytes of a file of tensors.
fn tensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// The header of a file with one tensor `v` of two booleans.
const HEADER: &str = r#"{"v":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}"#;

/// A manifest for a file of tensors, changed by `change`.
fn manifest(tensors: &[u8], change: impl Fn(&mut Json)) -> String {
    let length = u64::from_le_bytes(tensors[..8].try_into().unwrap());
    let header = tensors.len().min((length as usize).saturating_add(8));
    let crc = |bytes: &[u8]| format!("{:08x}", crc32c::crc32c(bytes));
    let x = dim("x", 2);
    let signature =
        of_variables(&Mesh::single(), vec![variable("v", DType::Bool, &[x])], 0).signature();
    let mut content = json!({
        "format": "mesh checkpoint",
        "version": 1,
        "step": 1,
        "seed": 2,
        "signature": signature,
        "file": {"bytes": tensors.len(), "header_crc32c": crc(&tensors[..header])},
        "tensors": {"v": {
            "dims": ["x"],
            "trainable": true,
            "crc32c": crc(&tensors[header..]),
        }},
        "state": {},
    });
    change(&mut content);
    sealed(&content.to_string())
}

fn open(scratch: &Scratch, tensors: &[u8], manifest: &str) -> Result<Checkpoint> {
    let path = scratch.join("step-0000000001");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("variables.safetensors"), tensors).unwrap();
    fs::write(path.join("manifest.json"), manifest).unwrap();
    Checkpoint::open(path)
}

#[test]
fn what_is_written_here_is_read() {
    let scratch = Scratch::new();
    let file = tensors(HEADER, &[1, 0]);
    let checkpoint = open(&scratch, &file, &manifest(&file, |_| {})).unwrap();
    let stored: Vec<_> = checkpoint.tensors().collect();
    assert_eq!((stored.len(), stored[0].name, stored[0].shape), (1, "v", &[2][..]));
    assert_eq!((stored[0].dtype, stored[0].dims), (DType::Bool, &["x".to_owned()][..]));
}

#[test]
fn a_file_that_changes_while_it_is_restored() {
    let scratch = Scratch::new();
    let saved = session("", 4).snapshot().unwrap();
    let path = Checkpoints::new(&*scratch).save(1, &saved, &State::new()).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path.join("variables.safetensors")).unwrap();
    let length = file.metadata().unwrap().len();
    // In the file are `w`, `step` and `flags`; the session's variables are in the opposite order.
    let restore = |cut: u64| {
        let mut session = session("a:2", 5);
        file.set_len(length - cut).unwrap();
        let all = [(0, 1), (1, 2), (2, 0)];
        let error = session.set_variables(&checkpoint, &all, &mut [0; 64]).unwrap_err();
        (values(&session), error)
    };
    let [old, new] = [4, 5].map(|number| values(&session("", number)));
    let (after, error) = restore(1);
    assert_eq!((&after[0], &after[1..]), (&old[0], &new[1..]));
    let text = error.to_string();
    assert!(matches!(error, CheckpointError::Interrupted { set: 1, of: 3, .. }), "{error:?}");
    assert!(text.contains("1 of 3 variables are set to the checkpoint's values"), "{text}");
    let (after, error) = restore(4);
    assert_eq!(after, new);
    assert!(matches!(error, CheckpointError::Io { .. }), "{error:?}");
}

#[test]
fn manifests_that_make_no_sense() {
    let scratch = Scratch::new();
    let file = tensors(HEADER, &[1, 0]);
    type Change = fn(&mut Json);
    let table: [(Change, &str); 13] = [
        (|m| m["version"] = json!(2), "is of format version 2; this build reads version 1"),
        (|m| m["version"] = json!(-1), "it is no manifest: invalid value"),
        (|m| m["version"] = json!(1.5), "it is no manifest"),
        (|m| m["format"] = json!("pictures"), "it is of a \"pictures\""),
        (|m| m["step"] = json!("one"), "it is no manifest"),
        (|m| m["state"] = json!({"epoch": 3}), "it is no manifest"),
        (|m| m["file"]["bytes"] = json!(u64::MAX), "but was written with 18446744073709551615"),
        (|m| m["file"]["header_crc32c"] = json!("0"), "its header is not the one that was written"),
        (|m| m["tensors"] = json!({}), "it does not know `v`"),
        (|m| m["tensors"]["w"] = m["tensors"]["v"].clone(), "it knows 1 tensors of 2"),
        (|m| m["tensors"]["v"]["dims"] = json!([]), "`v` has 1 dims"),
        (|m| m["tensors"]["v"]["trainable"] = json!(false), "its signature is of other variables"),
        (|m| m["tensors"]["v"]["crc32c"] = json!(""), "the bytes of `v` are not those"),
    ];
    for (change, expected) in table {
        let error = open(&scratch, &file, &manifest(&file, change)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
        assert!(error.contains("step-0000000001"), "{error}");
    }
    let deep = sealed(&format!("{{\"format\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)));
    for text in [&deep, "", "{}", "null", &sealed("{\"a\": 1}"), &manifest(&file, |_| {})[1..]] {
        let error = open(&scratch, &file, text).unwrap_err();
        assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
    }
}

#[test]
fn headers_that_make_no_sense() {
    let scratch = Scratch::new();
    let of = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"v":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let most = usize::MAX;
    let table = [
        (of("F32", "[2]", "[0,8]"), "its tensors do not fill it"),
        (of("BOOL", "[1]", "[0,2]"), "invalid shape, data type, or offset"),
        (of("BOOL", "[1]", "[1,2]"), "invalid offset"),
        (of("BOOL", "[2]", "[2,0]"), "invalid offset"),
        (of("BOOL", &format!("[{most},{most}]"), "[0,2]"), "overflow"),
        (of("F64", &format!("[{most}]"), &format!("[0,{most}]")), "overflow"),
        (of("BOOL", &format!("[{most}]"), &format!("[0,{most}]")), "overflow"),
        (of("BOOL", &format!("[{}]", most / 16), &format!("[0,{}]", most / 16)), "do not fill it"),
        (of("BOOL", "[-2]", "[0,2]"), "invalid value"),
        (of("U8", "[2]", "[0,2]"), "`v` is of dtype U8"),
        (of("F128", "[2]", "[0,2]"), "unknown variant"),
        (HEADER.replace("\"v\"", "\"w\""), "it does not know `w`"),
        ("[]".to_owned(), "invalid type"),
        (format!("{{\"v\":{}", "[".repeat(50_000)), "recursion limit"),
        ("{".to_owned(), "EOF"),
        ("\u{0}".to_owned(), "expected value"),
        (String::new(), "EOF"),
    ];
    for (header, expected) in table {
        let file = tensors(&header, &[1, 0]);
        let error = open(&scratch, &file, &manifest(&file, |_| {})).unwrap_err().to_string();
        assert!(error.contains(expected), "{header:.90}: {error}\nexpected {expected}");
    }
    let file = tensors(HEADER, &[1, 2]);
    let error = open(&scratch, &file, &manifest(&file, |_| {})).unwrap_err().to_string();
    assert!(error.ends_with("`v` has truth values beside 0 and 1"), "{error}");
}

#[test]
fn lengths_that_cannot_be_are_refused_before_anything_is_made_room_for() {
    let scratch = Scratch::new();
    let rest = HEADER.len() as u64 + 2;
    for length in [u64::MAX, u64::MAX - 8, 1 << 60, 1 << 32, 100_000_001, rest + 1] {
        let mut file = tensors(HEADER, &[1, 0]);
        file[..8].copy_from_slice(&length.to_le_bytes());
        let error = open(&scratch, &file, &manifest(&file, |_| {})).unwrap_err().to_string();
        assert!(
            error.contains(&format!("it has {rest} bytes for a header of {length}")),
            "{error}"
        );
    }
    // Files of great length that occupy no blocks on the disk.
    let long = |name: &str, bytes| {
        let file = fs::File::options().write(true).open(scratch.join("step-0000000001").join(name));
        file.unwrap().set_len(bytes).unwrap();
        Checkpoint::open(scratch.join("step-0000000001")).unwrap_err().to_string()
    };
    let mut file = tensors(HEADER, &[1, 0]);
    file[..8].copy_from_slice(&(1_u64 << 39).to_le_bytes());
    let huge = manifest(&file, |m| m["file"]["bytes"] = json!(1_u64 << 40));
    open(&scratch, &file, &huge).unwrap_err();
    assert!(long("variables.safetensors", 1 << 40).contains("549755813888 bytes are too many"));
    assert!(long("manifest.json", 1 << 40).contains("1099511627776 bytes are too many"));
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let scratch = Scratch::new();
    let file = tensors(HEADER, &[1, 0]);
    for name in ["variables.safetensors", "manifest.json"] {
        open(&scratch, &file, &manifest(&file, |_| {})).unwrap();
        let path = scratch.join("step-0000000001").join(name);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = Checkpoint::open(scratch.join("step-0000000001")).unwrap_err().to_string();
        assert!(error.ends_with("it is not a file"), "{error}");
        fs::remove_dir(&path).unwrap();
        if std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|s| s.success()) {
            let error = Checkpoint::open(scratch.join("step-0000000001")).unwrap_err().to_string();
            assert!(error.ends_with("it is not a file"), "{error}");
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn names_that_a_file_cannot_have_are_refused() {
    let scratch = Scratch::new();
    let odd = of_variables(&Mesh::single(), vec![variable("__metadata__", DType::F32, &[])], 0);
    let error =
        Checkpoints::new(&*scratch).save(1, &odd.snapshot().unwrap(), &State::new()).unwrap_err();
    assert!(matches!(error, CheckpointError::Variable { .. }), "{error}");
}

#[test]
fn more_state_than_is_read_is_not_written() {
    let scratch = Scratch::new();
    let state = State::from([("all".to_owned(), " ".repeat(100_000_000))]);
    let checkpoints = Checkpoints::new(&*scratch);
    let error =
        checkpoints.save(1, &session("", 1).snapshot().unwrap(), &state).unwrap_err().to_string();
    assert!(error.starts_with("cannot write") && error.ends_with("keep less state"), "{error}");
    assert!(scratch.names().is_empty());
}

#[test]
fn any_text_is_a_name_and_a_state() {
    let scratch = Scratch::new();
    let names = ["", "\"quoted\"\n", "größe/ß", "\u{0}", "{\"v\":1}", "a b.c:d"];
    let of =
        || of_variables(&Mesh::single(), names.map(|n| variable(n, DType::F32, &[])).into(), 0);
    let state: State = names.iter().map(|n| ((*n).to_owned(), format!("{n}{n}"))).collect();
    let mut saved = of();
    for (i, name) in names.iter().enumerate() {
        saved.write(name, &arr0(i as f32)).unwrap();
    }
    let path =
        Checkpoints::new(&*scratch).save(u64::MAX, &saved.snapshot().unwrap(), &state).unwrap();
    let checkpoint = Checkpoint::open(path).unwrap();
    let mut restored = of();
    restored.restore(&checkpoint, &Restore::all()).unwrap();
    assert_eq!(values(&restored), values(&saved));
    assert_eq!((checkpoint.state(), checkpoint.step()), (&state, u64::MAX));
    // A checkpoint without variables.
    let none = of_variables(&Mesh::single(), vec![], 7);
    let path =
        Checkpoints::new(&*scratch).save(1, &none.snapshot().unwrap(), &State::new()).unwrap();
    assert_eq!(Checkpoint::open(path).unwrap().tensors().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any text as the content of a manifest with a valid checksum.
    #[test]
    fn manifests_of_anything_are_read_or_refused(body in "[\\[\\]{}\":,a-z0-9 \\n-]{0,60}") {
        let text = sealed(&format!("{{{body}}}"));
        let _ = Manifest::parse(text.as_bytes(), Path::new("manifest.json"));
        let head = "\"format\": \"mesh checkpoint\", \"version\": 1";
        let text = sealed(&format!("{{{head}, {body}}}"));
        let _ = Manifest::parse(text.as_bytes(), Path::new("manifest.json"));
        let _ = super::super::header::parse(body.as_bytes());
    }
}
