//! Numbers as MessagePack, which the script unpacks.

/// Numbers as MessagePack.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    bytes: Vec<u8>,
    count: u32,
}

impl Numbers {
    pub(super) fn push(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(small @ ..=0x7f) => self.bytes.push(small),
            _ => {
                self.bytes.push(0xcf);
                self.bytes.extend(number.to_be_bytes());
            }
        }
        self.count += 1;
    }

    /// None is -1.
    pub(super) fn push_or_none(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.push(number),
            None => {
                self.bytes.push(0xff);
                self.count += 1;
            }
        }
    }

    pub(super) fn append(&mut self, others: &Self) {
        self.bytes.extend_from_slice(&others.bytes);
        self.count += others.count;
    }

    pub(super) fn into_array(self) -> Vec<u8> {
        let mut array = Vec::with_capacity(self.bytes.len() + 5);
        array.push(0xdd);
        array.extend(self.count.to_be_bytes());
        array.extend(self.bytes);
        array
    }
}
