#![allow(clippy::unwrap_used, reason = "a failure fails its test")]

use super::*;
use crate::dataset::{Dataset, Remainder};
use half::{bf16, f16};
use mesh_core::array::Array;
use mesh_core::names::DType;
use ndarray::{arr1, arr2};
use proptest::prelude::*;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn input(bytes: &[u8]) -> Input {
    Input::of_bytes("a file", bytes.to_vec())
}

fn idx_file(element: u8, sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let sizes: Vec<_> = sizes.iter().flat_map(|size| size.to_be_bytes()).collect();
    [&[0, 0, element, (sizes.len() / 4) as u8], &sizes[..], data].concat()
}

fn npy_file(version: u8, descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}   \n");
    let length = header.len() as u32;
    let length = if version == 1 {
        (length as u16).to_le_bytes().to_vec()
    } else {
        length.to_le_bytes().to_vec()
    };
    [b"\x93NUMPY", &[version, 0][..], &length, header.as_bytes(), data].concat()
}

fn safetensors_file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// One tensor `x`.
fn tensor(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let size = data.len();
    let x = format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{size}]}}}}"#);
    safetensors_file(&x, data)
}

fn le<T: Copy, const W: usize>(numbers: &[T], bytes: fn(T) -> [u8; W]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| bytes(number)).collect()
}

/// The same elements in each format that has their type, as arrays of the dtype they are read as.
#[test]
fn every_type_of_element_is_read() {
    let big = |bytes: &[u8], width: usize| -> Vec<u8> {
        bytes.chunks(width).flat_map(|element| element.iter().rev().copied()).collect()
    };
    let whole: Array = arr1(&[3, 0, 100]).into();
    let signed: Array = arr1(&[3, -7, 100]).into();
    let halves = arr1(&[1.5_f32, -2.0, 0.25]);
    // Elements in little-endian order, their width, numpy's and safetensors' names, the number in IDX files.
    type Row = (Vec<u8>, usize, &'static str, &'static str, Option<u8>, Array);
    let table: Vec<Row> = vec![
        (vec![3, 0, 100], 1, "u1", "U8", Some(0x08), whole.clone()),
        (le(&[3, -7, 100], i8::to_le_bytes), 1, "i1", "I8", Some(0x09), signed.clone()),
        (le(&[3, 0, 100], u16::to_le_bytes), 2, "u2", "U16", None, whole.clone()),
        (le(&[3, -7, 100], i16::to_le_bytes), 2, "i2", "I16", Some(0x0b), signed.clone()),
        (le(&[3, 0, 100], u32::to_le_bytes), 4, "u4", "U32", None, whole.clone()),
        (le(&[3, -7, 100], i32::to_le_bytes), 4, "i4", "I32", Some(0x0c), signed.clone()),
        (le(&[3, 0, 100], u64::to_le_bytes), 8, "u8", "U64", None, whole),
        (le(&[3, -7, 100], i64::to_le_bytes), 8, "i8", "I64", None, signed),
        (
            le(&[1.5, -2.0, 0.25].map(f16::from_f32), f16::to_le_bytes),
            2,
            "f2",
            "F16",
            None,
            halves.clone().into(),
        ),
        (
            le(&[1.5, -2.0, 0.25].map(bf16::from_f32), bf16::to_le_bytes),
            2,
            "",
            "BF16",
            None,
            halves.mapv(bf16::from_f32).into(),
        ),
        (
            le(&[1.5, -2.0, 0.25], f32::to_le_bytes),
            4,
            "f4",
            "F32",
            Some(0x0d),
            halves.clone().into(),
        ),
        (
            le(&[1.5, -2.0, 0.25], f64::to_le_bytes),
            8,
            "f8",
            "F64",
            Some(0x0e),
            halves.mapv(f64::from).into(),
        ),
        (vec![1, 0, 1], 1, "b1", "BOOL", None, arr1(&[true, false, true]).into()),
    ];
    for (bytes, width, numpy, name, number, expected) in table {
        let mut files =
            vec![(name, safetensors(input(&tensor(name, "[3]", &bytes))).unwrap()["x"].clone())];
        if !numpy.is_empty() {
            for version in [1, 2, 3] {
                let file = npy_file(version, &format!("'<{numpy}'"), "False", "(3,)", &bytes);
                files.push((numpy, npy(input(&file)).unwrap()));
            }
            let file = npy_file(1, &format!("'>{numpy}'"), "False", "(3,)", &big(&bytes, width));
            files.push((numpy, npy(input(&file)).unwrap()));
        }
        if let Some(number) = number {
            let file = idx_file(number, &[3], &big(&bytes, width));
            files.push((name, idx(input(&file)).unwrap()));
            files.push((name, idx(input(&gzip(&file))).unwrap()));
        }
        for (name, file) in files {
            assert_eq!((file.shape(), file.dtype()), (&[3][..], expected.dtype()), "{name}");
            assert_eq!(file.whole().unwrap(), expected, "{name}");
            assert!(file.contents().unwrap().contains(&format!("{} bytes", bytes.len())));
            let divided = file.divided_by(4.0);
            let quarters = expected.to_f64().mapv(|x| (x / 4.0) as f32);
            assert_eq!((divided.dtype(), divided.whole().unwrap()), (DType::F32, quarters.into()));
        }
    }
}

/// What numpy itself has written: np.save of np.arange(6, dtype="<i8").reshape(3, 2).
#[test]
fn a_file_of_numpys_own_is_read() {
    let mut file =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }"
            .to_vec();
    file.resize(127, b' ');
    file.push(b'\n');
    file.extend((0_i64..6).flat_map(i64::to_le_bytes));
    assert_eq!(npy(input(&file)).unwrap().whole().unwrap(), arr2(&[[0, 1], [2, 3], [4, 5]]).into());
}

#[test]
fn arrays_without_dims_are_whole_and_no_examples() {
    let scalar = npy(input(&npy_file(1, "'<f4'", "False", "()", &2.5_f32.to_le_bytes()))).unwrap();
    assert_eq!((scalar.examples(), scalar.shape().len()), (0, 0));
    assert_eq!(scalar.whole().unwrap().item(), Some(2.5));
    assert!(scalar.read(&[0]).is_err());
    let none = npy(input(&npy_file(1, "'<f4'", "False", "(0, 3)", &[]))).unwrap();
    assert_eq!(none.whole().unwrap().shape(), [0, 3]);
    let three = idx(input(&idx_file(8, &[3], &[1, 2, 3]))).unwrap();
    let two = idx(input(&idx_file(8, &[2], &[1, 2]))).unwrap();
    let said =
        |files: Vec<(&'static str, ArrayFile)>| Dataset::from_files(files).unwrap_err().to_string();
    assert!(said(vec![]).contains("no arrays"));
    assert!(said(vec![("x", scalar.clone())]).contains("`x` has no dims"));
    assert!(said(vec![("x", three.clone()), ("s", scalar)]).contains("`s` has no dims"));
    assert!(
        said(vec![("x", three.clone()), ("y", two)]).contains("`y` has 2 examples, but `x` has 3")
    );
    assert!(said(vec![("x", three.clone()), ("x", three)]).contains("are called `x`"));
}

/// Every fault of a file: the place and what would be legal are named.
#[test]
fn faults_are_named() {
    let f4 = |shape: &str, bytes: usize| npy_file(1, "'<f4'", "False", shape, &vec![0; bytes]);
    let npys: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "byte 0: it is truncated: 10 bytes are declared"),
        (b"\x93NUMPX\x01\x00\x00\x00".to_vec(), "byte 0: it is no file of np.save"),
        (gzip(&f4("(1,)", 4)), "it is no file of np.save"),
        (
            npy_file(4, "'<f4'", "False", "(1,)", &[0; 4]),
            "byte 6: its version is 4, legal are 1, 2 and 3",
        ),
        (b"\x93NUMPY\x02\x00\x00\x00\x01\x00".to_vec(), "byte 12: it is truncated"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
            "a header of 4294967295 bytes: legal are up to 65536",
        ),
        (f4("(2, 3)", 20), "byte 93: it is truncated: 97 bytes"),
        (f4("(2, 3)", 25), "goes on after the 97 bytes"),
        (npy_file(1, "'<c8'", "False", "(1,)", &[0; 8]), "its elements are \"<c8\"; legal are b1"),
        (npy_file(1, "'|O'", "False", "(1,)", &[0; 8]), "its elements are \"|O\""),
        (npy_file(1, "[('a', '<i4')]", "False", "(1,)", &[0; 4]), "arrays of records are not read"),
        (npy_file(1, "'<f4'", "True", "(1,)", &[0; 4]), "np.ascontiguousarray"),
        (f4("(2, x)", 4), "\"x\" is no size of a dim"),
        (f4("2", 4), "\"?\" is no size of a dim"),
        (f4("(4611686018427387904, 4)", 4), "more bytes than a file can have"),
        (b"\x93NUMPY\x01\x00\x02\x00{}".to_vec(), "the header has no 'descr'"),
    ];
    for (file, expected) in npys {
        let said = npy(input(&file)).unwrap_err().to_string();
        assert!(
            said.starts_with("a file, byte ") && said.contains(expected),
            "{expected} in {said}"
        );
    }
    let tensors: Vec<(Vec<u8>, &str)> = vec![
        (vec![0; 7], "byte 7: it is truncated: 8 bytes"),
        (u64::MAX.to_le_bytes().to_vec(), "byte 0: it is no safetensors file: a header of"),
        (9_u64.to_le_bytes().to_vec(), "byte 8: it is truncated: 17 bytes"),
        (safetensors_file("[1]", &[]), "byte 8: its header is none of a safetensors file"),
        (tensor("F32", "[2]", &[0; 4]), "its header is none"),
        (tensor("F8_E4M3", "[4]", &[0; 4]), "`x` is of F8_E4M3; legal are BOOL"),
        ([tensor("F32", "[1]", &[0; 4]), vec![0]].concat(), "goes on after the"),
        (tensor("F32", "[1]", &[0; 4])[..60].to_vec(), "it is truncated"),
    ];
    for (file, expected) in tensors {
        let said = safetensors(input(&file)).unwrap_err().to_string();
        assert!(
            said.starts_with("a file, byte ") && said.contains(expected),
            "{expected} in {said}"
        );
    }
    // Elements are checked when they are read: the place is that in the file.
    let numbers = le(&[1, 2, 3, 1 << 31, 5, 6], i64::to_le_bytes);
    let file = safetensors(input(&tensor("I64", "[3,2]", &numbers))).unwrap()["x"].clone();
    assert_eq!(file.read(&[2, 0]).unwrap(), arr2(&[[5, 6], [1, 2]]).into());
    let said = "a file, element 3 of `x`: 2147483648 does not fit into i32";
    for read in [file.read(&[2, 1]), file.range(1..3), file.whole()] {
        assert_eq!(read.unwrap_err().to_string(), said);
    }
    let truth = npy(input(&npy_file(1, "'|b1'", "False", "(2,)", &[1, 2]))).unwrap();
    let said = truth.whole().unwrap_err().to_string();
    assert!(said.contains("element 1: the byte 2, not 0 or 1, does not fit into bool"), "{said}");
    for (read, expected) in [
        (file.read(&[3]), "a file has 3 examples: none from 3 to 4"),
        (file.range(2..4), "none from 2 to 4"),
        (file.read(&[u64::MAX]), "none from"),
    ] {
        let said = read.unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    for said in [npy("/no/such/file").unwrap_err(), csv("/no/such/file").unwrap_err()] {
        assert!(said.to_string().contains("cannot read /no/such/file: No such file"), "{said}");
    }
    assert!(text(&std::env::temp_dir()).unwrap_err().to_string().contains("it is a directory"));
}

#[test]
fn tables_are_read_and_their_faults_named() {
    let file = "\u{feff}a, b ,\"c,\"\"d\"\"\"\r\n1,2.5,3\n\n-4,\"5e-1\", 6\r\n";
    for file in [file.as_bytes().to_vec(), gzip(file.as_bytes())] {
        let table = csv(input(&file)).unwrap();
        assert_eq!(table.columns(), ["a", "b", "c,\"d\""]);
        assert_eq!(table.rows(), 2);
        let expected = arr2(&[[2.5_f32, 1.0], [0.5, -4.0]]);
        assert_eq!(table.f32(&["b", "a"]).unwrap(), expected.into());
        assert_eq!(table.i32("c,\"d\"").unwrap(), arr1(&[3, 6]).into());
        let said = table.i32("b").unwrap_err().to_string();
        assert_eq!(said, "a file, row 0, column `b`: 2.5 does not fit into i32");
        let said = table.f32(&["z"]).unwrap_err().to_string();
        assert_eq!(said, "a file has no column `z`: it has a, b, c,\"d\"");
    }
    let headerless = Csv::default().headerless().delimiter(';').read(input(b"1;2\n3;4")).unwrap();
    assert_eq!(headerless.i32("1").unwrap(), arr1(&[2, 4]).into());
    assert_eq!(csv(input(b"")).unwrap().rows(), 0);
    let long = [b"a\n".to_vec(), vec![b'1'; (1 << 20) + 1]].concat();
    for (file, expected) in [
        (&b"a,b\n1,2\n3\n"[..], "line 3: it has 1 fields, but there are 2 columns"),
        (b"a,b\n1,2,3\n", "line 2: it has 3 fields"),
        (b"a,b\n1,x\n", "line 2: column `b`: \"x\" is no finite number"),
        (b"a,b\n1,\n", "line 2: column `b`: \"\" is no finite number"),
        (b"a\nnan\n", "line 2: column `a`: \"nan\" is no finite number"),
        (b"a\n1e999\n", "is no finite number"),
        (b"a,a\n", "line 1: two columns are called `a`"),
        (b"\"a\nb\",c\n", "line 1: a quote is not closed on its line"),
        (b"\"a\"b,c\n", "line 1: \"b,c\" follows a quoted field: legal is ','"),
        (b"a\n\xff\n", "line 2: it is no UTF-8"),
        (&long, "line 2: a line is at most 1048576 bytes long"),
        (&gzip(b"a\n1\n")[..15], "as gzip it is damaged or cut short"),
    ] {
        let said = csv(input(file)).unwrap_err().to_string();
        assert!(said.contains("a file") && said.contains(expected), "{expected} in {said}");
    }
}

/// Bytes that count how much of them was read.
struct Counted(Vec<u8>, Arc<AtomicU64>);

impl ReadAt for Counted {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(offset, bytes)
    }
}

#[test]
fn a_batch_reads_its_examples_only() {
    let rows = 1000;
    let data = vec![7; rows * 16];
    let files = [
        idx_file(0x0d, &[rows as u32, 4], &data),
        npy_file(1, "'<f4'", "False", &format!("({rows}, 4)"), &data),
        tensor("F32", &format!("[{rows},4]"), &data),
    ];
    type Open = fn(Input) -> ArrayFile;
    let readers: [Open; 3] = [
        |input| idx(input).unwrap(),
        |input| npy(input).unwrap(),
        |input| safetensors(input).unwrap()["x"].clone(),
    ];
    for (bytes, open) in files.into_iter().zip(readers) {
        let read = Arc::new(AtomicU64::new(0));
        let file = open(Input::of_bytes("x", Counted(bytes, read.clone())));
        assert!(read.swap(0, Ordering::Relaxed) <= 1 << 14, "the header and a reader's buffer");
        let batches = Dataset::from_files([("x", file)]).unwrap();
        let batches = batches.shuffle(rows, 3).unwrap().batch(10, Remainder::Drop).unwrap();
        let own = batches.rows(2..5, 10).unwrap();
        assert_eq!(batches.pass(1).nth(3).unwrap().unwrap().get("x").unwrap().shape(), [10, 4]);
        assert_eq!(read.swap(0, Ordering::Relaxed), 160);
        own.pass(1).nth(3).unwrap().unwrap();
        assert_eq!(read.swap(0, Ordering::Relaxed), 48);
    }
}

/// A gzip file that declares more than is held in memory is refused before it is decompressed.
#[test]
fn compressed_files_have_a_bound() {
    let said = idx(input(&gzip(&idx_file(8, &[1 << 30, 2], &[])))).unwrap_err().to_string();
    assert!(said.contains("legal are up to 1073741824 in a compressed file; decompress"), "{said}");
    let said = idx(input(&idx_file(8, &[u32::MAX; 255], &[]))).unwrap_err().to_string();
    assert!(said.contains("more bytes than a file can have"), "{said}");
}

proptest! {
    #[test]
    fn rows_are_those_of_the_whole_in_any_order(rows in prop::collection::vec(0..20_u64, 0..40)) {
        let numbers: Vec<i32> = (0..60).collect();
        let file = tensor("I32", "[20,3]", &le(&numbers, i32::to_le_bytes));
        let file = safetensors(input(&file)).unwrap()["x"].clone();
        let expected: Vec<_> = rows.iter().flat_map(|&row| [0, 1, 2].map(|i| 3 * row as i32 + i)).collect();
        let found = file.read(&rows).unwrap();
        prop_assert_eq!(found.shape(), [rows.len(), 3]);
        prop_assert_eq!(found.as_i32().unwrap().iter().copied().collect::<Vec<_>>(), expected);
    }
}
