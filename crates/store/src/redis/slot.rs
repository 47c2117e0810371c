//! Computes which of the 16,384 slots of a Redis Cluster a key is in.

use crate::remote::CounterName;

/// How many slots there are.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a counter: it depends on the subject alone.
pub(super) fn slot(name: &CounterName) -> u16 {
    crc16(name.tag().as_bytes()) % SLOTS
}

/// The slot of a key without braces.
pub(super) fn slot_of_key(key: &str) -> u16 {
    crc16(key.as_bytes()) % SLOTS
}

/// CRC-16 of the XMODEM kind.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of_key("foo"), 12_182);
        assert_eq!(slot_of_key(""), 0);
    }
}
