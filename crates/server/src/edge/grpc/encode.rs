//! Writes the fields of messages, without a value that holds them all.

/// Writes a number, unless it is zero, which is what an absent one means.
#[inline]
pub(super) fn some_number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        number(out, field, value);
    }
}

/// Writes a number.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    varint(out, value);
}

/// Writes a text, unless it is empty, which is what an absent one means.
#[inline]
pub(super) fn text(out: &mut Vec<u8>, field: u8, text: &str) {
    if !text.is_empty() {
        bytes(out, field, text.as_bytes());
    }
}

/// Writes bytes.
#[inline]
pub(super) fn bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a floating point number.
#[inline]
pub(super) fn double(out: &mut Vec<u8>, field: u8, value: f64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a message within a message. Its length is known only afterwards; most take one byte.
#[inline]
pub(super) fn nested(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[field << 3 | 2, 0]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
    } else {
        insert_length(out, start, length);
    }
}

fn insert_length(out: &mut Vec<u8>, start: usize, length: usize) {
    let mut digits = Vec::new();
    varint(&mut digits, length as u64);
    out.splice(start - 1..start, digits);
}

#[inline]
fn varint(out: &mut Vec<u8>, mut value: u64) {
    let (mut bytes, mut length) = ([0; 10], 0);
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_of_all_sizes() {
        for value in (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]).chain([u64::MAX]) {
            let mut written = Vec::new();
            varint(&mut written, value);
            let mut expected = Vec::new();
            prost::encoding::encode_varint(value, &mut expected);
            assert_eq!(written, expected);
        }
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut written = vec![7];
            nested(&mut written, 1, |out| out.resize(out.len() + length, 9));
            let mut expected = vec![7, 10];
            prost::encoding::encode_varint(length as u64, &mut expected);
            expected.resize(expected.len() + length, 9);
            assert_eq!(written, expected);
        }
    }
}
