//! Compares with a decoder and a histogram that share no code with the writer.

use super::histogram::Buckets;
use super::wire;

/// CRC-32C bit by bit, from its polynomial.
fn crc(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        }
    }
    !crc
}

fn masked(data: &[u8]) -> u32 {
    let crc = u64::from(crc(data));
    (((crc >> 15) | (crc << 17)) as u32).wrapping_add(0xA282_EAD8)
}

#[test]
fn records_are_framed() {
    // The check value of CRC-32C.
    assert_eq!(crc(b"123456789"), 0xE306_9283);
    for data in [&b""[..], b"a", b"123456789", &[0xFF; 1000]] {
        let mut out = Vec::new();
        wire::record(&mut out, data).unwrap();
        let length = (data.len() as u64).to_le_bytes();
        let parts =
            [&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()];
        assert_eq!(out, parts.concat());
    }
}

#[test]
fn messages_are_as_the_encoding_guide_has_them() {
    let encoded = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = vec![7];
        write(&mut out);
        out.remove(0);
        out
    };
    // Examples of protobuf.dev: `Test1 { a: 150 }`, `Test2 { b: "testing" }`, `Test3 { c: Test1 }`.
    assert_eq!(encoded(&|out| wire::integer(out, 1, 150)), [0x08, 0x96, 0x01]);
    assert_eq!(encoded(&|out| wire::text(out, 2, "testing")), *b"\x12\x07testing");
    let nested = |out: &mut Vec<u8>| wire::message(out, 3, |out| wire::integer(out, 1, 150));
    assert_eq!(encoded(&nested), [0x1A, 0x03, 0x08, 0x96, 0x01]);
    // Lengths of two digits.
    let text = "x".repeat(200);
    let long = encoded(&|out| wire::message(out, 3, |out| wire::text(out, 2, &text)));
    assert_eq!(long[..6], [0x1A, 0xCB, 0x01, 0x12, 0xC8, 0x01]);
    assert_eq!(long[6..], *text.as_bytes());
    let most = encoded(&|out| wire::integer(out, 16, u64::MAX));
    assert_eq!(most, [&[0x80, 0x01][..], &[0xFF; 9], &[0x01]].concat());
    let floats = encoded(&|out| {
        wire::double(out, 1, 1.0);
        wire::float(out, 2, 1.0);
        wire::doubles(out, 3, [1.0, 2.0].into_iter());
    });
    let one = 1.0f64.to_le_bytes();
    let expected = [
        &[0x09][..],
        &one,
        &[0x15],
        &1.0f32.to_le_bytes(),
        &[0x1A, 16],
        &one,
        &2.0f64.to_le_bytes(),
    ];
    assert_eq!(floats, expected.concat());
}

/// Fields of a histogram: five numbers, limits, counts.
fn decode(bytes: &[u8]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let double = |at: usize| f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut numbers, mut lists) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        let (field, kind) = (bytes[at] >> 3, bytes[at] & 7);
        at += 1;
        if kind == 1 {
            numbers.push(double(at));
            assert_eq!(usize::from(field), numbers.len());
            at += 8;
            continue;
        }
        assert_eq!((kind, usize::from(field)), (2, 6 + lists.len()));
        let (mut length, mut shift) = (0, 0);
        loop {
            length |= usize::from(bytes[at] & 0x7F) << shift;
            (at, shift) = (at + 1, shift + 7);
            if bytes[at - 1] < 0x80 {
                break;
            }
        }
        lists.push((0..length / 8).map(|i| double(at + 8 * i)).collect::<Vec<_>>());
        at += length;
    }
    let counts = lists.pop().unwrap();
    (numbers, lists.pop().unwrap(), counts)
}

#[test]
fn histograms_count_everything_once() {
    let spread: Vec<f64> =
        (0..2000).map(|i| ((i * 37 % 2000) as f64 - 900.0).powi(3) / 1e5).collect();
    let cases = [
        spread,
        vec![0.0; 5],
        vec![f64::MAX, f64::MIN, 1e-300, -1e-300, 1e25],
        vec![1.0, f64::NAN, f64::INFINITY, 2.0],
        vec![],
        vec![f64::NAN],
    ];
    let mut buckets = Buckets::new();
    for values in cases {
        let mut out = Vec::new();
        let not_finite = buckets.histogram(values.iter().copied(), &mut out);
        let (numbers, limits, counts) = decode(&out);
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        assert_eq!(not_finite, values.len() - finite.len());
        let ends = |f: fn(f64, f64) -> f64| finite.iter().copied().reduce(f).unwrap_or(0.0);
        let sum: f64 = finite.iter().sum();
        let squares: f64 = finite.iter().map(|v| v * v).sum();
        assert_eq!(
            numbers,
            [ends(f64::min), ends(f64::max), finite.len() as f64, sum, squares],
            "{values:?}"
        );
        assert!(limits.is_sorted_by(|a, b| a < b) && limits.len() == counts.len());
        // Every number in a bucket lies below its limit and not below the limit before.
        let mut below = f64::NEG_INFINITY;
        for (limit, count) in limits.iter().zip(&counts) {
            let last = *limit == f64::MAX;
            let inside = |v: &&f64| **v >= below && (**v < *limit || last);
            assert_eq!(finite.iter().filter(inside).count() as f64, *count, "below {limit}");
            below = *limit;
        }
        assert_eq!(below, f64::MAX);
        let empty = counts.windows(2).any(|pair| pair == [0.0, 0.0]);
        assert!(!empty, "empty neighbours are one");
    }
}

#[test]
fn limits_are_those_of_tensorflow() {
    let mut out = Vec::new();
    // The bucket between 1 and 1.1, whose limits are computed as `1e-12 * 1.1^k`.
    Buckets::new().histogram([1.0].into_iter(), &mut out);
    let (_, limits, counts) = decode(&out);
    assert_eq!(counts, [0.0, 1.0, 0.0]);
    let mut limit = 1e-12;
    while limit <= 1.0 {
        limit *= 1.1;
    }
    assert_eq!(limits[1..], [limit, f64::MAX]);
}
