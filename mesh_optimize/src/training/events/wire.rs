//! The part of protocol buffers' wire format that events need, and TensorFlow's record format.
//!
//! <https://protobuf.dev/programming-guides/encoding/>;
//! `tensorflow/core/lib/io/record_writer.cc`.

use std::io::{self, Write};

/// Adds a number in base 128, lowest digits first. The top bit of each byte but the last is set.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Adds a field's number and the type of its value.
fn key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(out, field << 3 | wire_type);
}

/// A whole number that is not negative.
pub(super) fn integer(out: &mut Vec<u8>, field: u64, value: u64) {
    key(out, field, 0);
    varint(out, value);
}

pub(super) fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    key(out, field, 1);
    out.extend(value.to_le_bytes());
}

pub(super) fn float(out: &mut Vec<u8>, field: u64, value: f32) {
    key(out, field, 5);
    out.extend(value.to_le_bytes());
}

pub(super) fn text(out: &mut Vec<u8>, field: u64, value: &str) {
    key(out, field, 2);
    varint(out, value.len() as u64);
    out.extend(value.bytes());
}

/// Adds a packed list of doubles.
pub(super) fn doubles(out: &mut Vec<u8>, field: u64, values: impl ExactSizeIterator<Item = f64>) {
    key(out, field, 2);
    varint(out, 8 * values.len() as u64);
    values.for_each(|value| out.extend(value.to_le_bytes()));
}

/// Adds a message as a field of another.
pub(super) fn message(out: &mut Vec<u8>, field: u64, inner: impl FnOnce(&mut Vec<u8>)) {
    key(out, field, 2);
    let begin = out.len();
    inner(out);
    // The length comes before the content and is known only now.
    let end = out.len();
    varint(out, (end - begin) as u64);
    let digits = out.len() - end;
    out[begin..].rotate_right(digits);
}

/// A record: the data's length, the length's checksum, the data, the data's checksum.
pub(super) fn record(out: &mut impl Write, data: &[u8]) -> io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(&length).to_le_bytes())?;
    out.write_all(data)?;
    out.write_all(&masked(data).to_le_bytes())
}

/// CRC-32C, rotated and offset. A plain checksum of data that contain their own checksum would be
/// weak.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xA282_EAD8)
}
