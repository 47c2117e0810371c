//! Numbers that look random and are the same in every run.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `SplitMix64`.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap_or(0) % end.max(1)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Damages bytes in one to four places.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let (from, to) = (self.below(bytes.len()), self.below(bytes.len()));
            match self.below(6) {
                0 => bytes.truncate(from),
                1 if !bytes.is_empty() => bytes[from] = self.byte(),
                2 => bytes.insert(from, self.byte()),
                3 if from < to => drop(bytes.drain(from..to)),
                4 if from < to => {
                    let copy = bytes[from..to].to_vec();
                    bytes.splice(to..to, copy);
                }
                _ => {
                    let text = *self.pick(&[
                        "\"", "{", "}", "[", "]", ",", ":", "\\", "\0", "null", "1e99", "-1",
                    ]);
                    bytes.splice(from..from, text.bytes());
                }
            }
        }
    }
}
