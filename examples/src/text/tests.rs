#![allow(clippy::unwrap_used, reason = "a failure fails its test")]

use super::windows::{even_starts, random_starts};
use super::*;
use mesh_optimize::dataset::Record;
use mesh_optimize::dataset::read::{ReadAt, write_tokens};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn all(tokens: &Tokens) -> Vec<i32> {
    tokens.read(0, tokens.len() as usize).unwrap()
}

fn of_bytes(bytes: impl IntoIterator<Item = u8>) -> Text {
    Text::load(Input::of_bytes("x", bytes.into_iter().collect::<Vec<_>>())).unwrap()
}

fn token_file(tokens: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_tokens(&mut bytes, tokens).unwrap();
    bytes
}

fn of_tokens(bytes: Vec<u8>, vocab: usize) -> Result<Text, ReadError> {
    Text::load_tokens(Input::of_bytes("tokens", bytes), vocab)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn rows(record: &Record, name: &str) -> Vec<Vec<i32>> {
    let array = record.get(name).unwrap().as_i32().unwrap();
    array.outer_iter().map(|row| row.iter().copied().collect()).collect()
}

#[test]
fn tales_are_the_same_each_time_and_are_text() {
    let text = Text::tales();
    let (train, held_out) = (all(&text.train), all(&text.held_out));
    assert_eq!(train, all(&Text::tales().train));
    let bytes: Vec<_> = train.into_iter().chain(held_out).map(|byte| byte as u8).collect();
    assert!(bytes.iter().all(|b| b.is_ascii_graphic() || b" \n".contains(b)));
    assert!(text.held_out.len() > 4096, "{}", text.held_out.len());
    // No tale occurs twice, so held-out tales cannot be memorised.
    let whole = String::from_utf8(bytes).unwrap();
    let mut tales: Vec<_> = whole.split("\n\n").collect();
    let count = tales.len();
    tales.sort_unstable();
    tales.dedup();
    assert_eq!(tales.len(), count);
}

#[test]
fn the_last_tenth_is_held_out() {
    let text = of_bytes(0..105);
    assert_eq!((text.train.len(), text.held_out.len()), (95, 10));
    assert_eq!(all(&text.held_out)[0], 95);
}

#[test]
fn the_least_size_named_is_the_least_legal() {
    for (batch, length) in [(1, 1), (1, 9), (3, 7), (16, 64)] {
        let of = |bytes: u64| of_bytes((0..bytes).map(|_| b'x')).check(batch, length);
        let Err(TextError::Short { least, .. }) = of(0) else { panic!("nothing is enough") };
        assert!(of(least).is_ok() && of(least - 1).is_err());
        let text = of_bytes((0..least).map(|_| b'x'));
        let (batch, length) = (batch as u64, length as u64);
        assert!(text.train.len() > batch * length && text.held_out.len() > length);
        let text = of_bytes((1..least).map(|_| b'x'));
        assert!(text.train.len() <= batch * length || text.held_out.len() <= length);
    }
    assert!(of_bytes([]).check(usize::MAX, usize::MAX).is_err());
}

#[test]
fn windows_hold_tokens_and_what_follows() {
    let tokens: Vec<u16> = (300..500).collect();
    for text in [of_bytes(0..200), of_tokens(token_file(&tokens), 500).unwrap()] {
        for batch in text.batches(3, 7, 5).unwrap().pass(0) {
            let batch = batch.unwrap();
            let (these, following) = (rows(&batch, "bytes"), rows(&batch, "following"));
            assert_eq!((these.len(), these[0].len()), (3, 7));
            for (these, following) in these.iter().zip(following) {
                assert_eq!(these[1..], following[..6]);
                assert!(following.windows(2).all(|pair| pair[1] == pair[0] + 1));
            }
        }
    }
}

#[test]
fn batches_are_those_of_their_steps() {
    let text = of_bytes((0..=255).cycle().take(1000));
    let batches = text.batches(4, 10, 9).unwrap();
    // 900 training bytes have 22 windows of 40.
    assert_eq!(batches.cardinality(), Some(22));
    for (pass, index) in [(0, 0), (0, 21), (3, 5)] {
        let step = pass * 22 + index + 1;
        let starts: Vec<_> = random_starts(900, 10, 4, 9, step).map(|start| start % 256).collect();
        let batch = batches.skip(index as usize).pass(pass).next().unwrap().unwrap();
        let firsts: Vec<_> = rows(&batch, "bytes").iter().map(|row| row[0] as u64).collect();
        assert_eq!(firsts, starts);
    }
}

#[test]
fn held_out_windows_count_once() {
    let text = of_bytes((0..=255).cycle().take(1010));
    let batches = text.held_out_batches(4, 10, 7).unwrap();
    let (mut firsts, mut weights) = (Vec::new(), Vec::new());
    for batch in &batches {
        let batch = batch.unwrap();
        firsts.extend(rows(&batch, "bytes").iter().map(|row| row[0]));
        weights.extend(batch.get("weight").unwrap().to_f64());
    }
    let expected: Vec<_> = even_starts(101, 10, 7).map(|at| ((909 + at) % 256) as i32).collect();
    assert_eq!(firsts[..7], expected);
    assert_eq!(weights, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn random_windows_reach_both_ends_and_depend_on_the_step() {
    let starts = |step| random_starts(10, 4, 200, 7, step).collect::<Vec<_>>();
    let first = starts(1);
    assert_eq!((first.iter().min(), first.iter().max()), (Some(&0), Some(&5)));
    assert_eq!(first, starts(1));
    assert_ne!(first, starts(2));
}

#[test]
fn even_windows_do_not_overlap_and_cover() {
    let starts: Vec<_> = even_starts(101, 10, 100).collect();
    assert_eq!(starts, (0..10).map(|i| i * 10).collect::<Vec<_>>());
    let starts: Vec<_> = even_starts(1_000, 10, 7).collect();
    assert_eq!(starts.len(), 7);
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 140));
    assert_eq!(even_starts(10, 10, 5).len(), 0);
}

#[test]
fn token_files_come_back_as_they_were_written() {
    let tokens: Vec<u16> = (0..=u16::MAX).step_by(7).chain([u16::MAX, 0]).collect();
    let expected: Vec<_> = tokens.iter().map(|&token| i32::from(token)).collect();
    let plain = token_file(&tokens);
    for bytes in [gzip(&plain), plain] {
        let text = of_tokens(bytes, 1 << 16).unwrap();
        assert_eq!([all(&text.train), all(&text.held_out)].concat(), expected);
        assert_eq!((text.unit(), text.name()), ("token", "tokens"));
        let some = text.held_out.read(5, 3).unwrap();
        assert_eq!(some, expected[text.train.len() as usize + 5..][..3]);
    }
    assert!(of_tokens(token_file(&[]), 1).unwrap().train.is_empty());
}

#[test]
fn every_fault_of_a_token_file_is_named() {
    let good = token_file(&[1, 2, 3]);
    let with = |word: usize, value: i32| {
        let mut bytes = good.clone();
        bytes[4 * word..][..4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let longer = |bytes: &[u8]| [bytes, &[0]].concat();
    let flipped = {
        let mut bytes = gzip(&good);
        let middle = bytes.len() - 6;
        bytes[middle] ^= 1;
        bytes
    };
    for (bytes, expected) in [
        (vec![], "byte 0: it is truncated: 1024 bytes are declared"),
        (good[..1023].to_vec(), "byte 1023: it is truncated"),
        (good[..1024].to_vec(), "byte 1024: it is truncated: 1030 bytes are declared"),
        (good[..1029].to_vec(), "byte 1029: it is truncated"),
        (longer(&good), "it goes on after the 1030 bytes"),
        (with(0, 20_240_521), "version are 20240521 and 1, legal are 20240520 and 1"),
        // A file of Llama 3, whose tokens are wider.
        (with(0, 20_240_801), "no token file of this kind"),
        (with(0, MAGIC_OF_A_BIG_ENDIAN_FILE), "no token file of this kind"),
        (with(1, 2), "20240520 and 2"),
        (with(2, -1), "declares -1 tokens: legal are 0 to 2147483647"),
        (with(2, i32::MAX), "truncated: 4294968318 bytes"),
        (gzip(&with(2, i32::MAX)), "legal are 0 to 536870912 in a compressed file; decompress"),
        (gzip(&with(2, 1 << 28)), "byte 1030: it is truncated"),
        (gzip(&longer(&good)), "it goes on after"),
        (gzip(&[&good[..], &[0; 1 << 22]].concat()), "it goes on after"),
        (gzip(&good)[..20].to_vec(), "as gzip it is damaged or cut short"),
        (flipped, "as gzip it is damaged or cut short"),
        (vec![0x1f, 0x8b], "as gzip it is damaged or cut short"),
    ] {
        let said = of_tokens(bytes, 10).unwrap_err().to_string();
        assert!(said.contains(expected), "expected `{expected}` in `{said}`");
        assert!(said.contains("tokens"), "no file in `{said}`");
    }
}

const MAGIC_OF_A_BIG_ENDIAN_FILE: i32 = 20_240_520_i32.swap_bytes();

#[test]
fn a_token_beyond_the_vocabulary_is_named_with_its_position() {
    let mut tokens = vec![7_u16; 100];
    tokens[93] = 50;
    let text = of_tokens(token_file(&tokens), 50).unwrap();
    assert!(text.train.read(0, 90).is_ok() && text.held_out.read(4, 6).is_ok());
    let said = text.held_out.read(1, 4).unwrap_err().to_string();
    assert_eq!(said, "tokens, token 93: it is 50: a vocabulary of 50 has 0 to 49");
    let said = text.train.read(85, 6).unwrap_err().to_string();
    assert_eq!(said, "tokens has 90 tokens here: none from 85 to 91");
    assert!(text.train.read(u64::MAX, usize::MAX).is_err());
    // The same through a data set.
    let batches = text.held_out_batches(1, 3, 3).unwrap();
    let said = batches.pass(0).find_map(Result::err).unwrap().to_string();
    assert!(said.contains("tokens, token 93: it is 50"), "{said}");
}

/// Bytes that count how much of them was read, and that can be truncated.
struct Counted {
    bytes: Mutex<Vec<u8>>,
    read: Arc<AtomicU64>,
}

impl ReadAt for Counted {
    fn size(&self) -> std::io::Result<u64> {
        self.bytes.lock().unwrap().size()
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.bytes.lock().unwrap().read_exact_at(offset, bytes)
    }
}

#[test]
fn a_batch_reads_its_windows_and_a_process_its_rows() {
    let tokens: Vec<u16> = (0..50_000).map(|i| i as u16).collect();
    let read = Arc::new(AtomicU64::new(0));
    let bytes = Counted { bytes: Mutex::new(token_file(&tokens)), read: read.clone() };
    let text = Text::load_tokens(Input::of_bytes("x", bytes), 1 << 16).unwrap();
    let since = || read.swap(0, Ordering::Relaxed);
    // The header, and what fills a reader's buffer.
    assert!(since() <= 1 << 14);
    let batches = text.batches(8, 16, 3).unwrap();
    let whole = batches.skip(100).pass(2).next().unwrap().unwrap();
    assert_eq!(since(), 8 * 17 * 2);
    let own = batches.rows(4..6, 8).unwrap().skip(100).pass(2).next().unwrap().unwrap();
    assert_eq!(since(), 2 * 17 * 2);
    assert_eq!(rows(&own, "bytes"), rows(&whole, "bytes")[4..6]);
}

#[test]
fn a_file_that_loses_its_end_is_an_error() {
    let path = std::env::temp_dir().join(format!("mesh-tokens-{}", std::process::id()));
    std::fs::write(&path, token_file(&[3; 1000])).unwrap();
    let text = Text::load_tokens(&path, 4).unwrap();
    assert_eq!(text.held_out.read(0, 100).unwrap(), [3; 100]);
    File::options().write(true).open(&path).unwrap().set_len(2000).unwrap();
    let said = text.held_out.read(0, 100).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(said.contains("cannot read") && said.contains("mesh-tokens"), "{said}");
}
