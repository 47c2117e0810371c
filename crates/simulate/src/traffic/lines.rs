//! Cuts a stream into lines without ever holding more than one, and no line without end.

use std::io::{self, BufRead, Read as _};

/// The longest line that is read, in bytes, without its line end.
pub const MAX_LINE: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line, without its line end.
#[derive(Debug)]
pub(super) struct InputLine<'a> {
    /// From 1.
    pub(super) number: u64,
    /// All of the line, or the beginning of one that is too long.
    pub(super) bytes: &'a [u8],
    pub(super) too_long: bool,
}

/// The lines of a stream that are not blank.
#[derive(Debug)]
pub(super) struct InputLines<R> {
    stream: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> InputLines<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new(), number: 0 }
    }

    /// How many lines have been read, the blank ones too.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn next(&mut self) -> io::Result<Option<InputLine<'_>>> {
        loop {
            let Some(too_long) = self.fill()? else { return Ok(None) };
            if too_long || !self.text().trim_ascii().is_empty() {
                return Ok(Some(InputLine { number: self.number, bytes: self.text(), too_long }));
            }
        }
    }

    /// Reads one line into the buffer and says whether it was cut; `None` at the end.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        self.buffer.clear();
        // Room for a byte order mark and for both bytes of a line end.
        let most = MAX_LINE + BYTE_ORDER_MARK.len() + 2;
        self.stream.by_ref().take(most as u64).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.buffer.len() == most && !self.buffer.ends_with(b"\n") {
            self.stream.skip_until(b'\n')?;
        }
        self.number += 1;
        Ok(Some(self.text().len() > MAX_LINE))
    }

    fn text(&self) -> &[u8] {
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        match self.number {
            0 | 1 => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &[u8], expected: &[(u64, usize, bool)]) {
        // A tiny buffer, so that lines, line ends and the mark are split between reads.
        let mut lines = InputLines::new(io::BufReader::with_capacity(2, stream));
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("memory can be read") {
            found.push((line.number, line.bytes.len(), line.too_long));
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_cut_and_counted() {
        check(b"", &[]);
        check(b"\n\r\n  \n", &[]);
        check(b"a", &[(1, 1, false)]);
        check(b"a\r\nbc\n\n\nd", &[(1, 1, false), (2, 2, false), (5, 1, false)]);
        check(b"\xef\xbb\xbfab\n\xef\xbb\xbfab\n", &[(1, 2, false), (2, 5, false)]);
        check(b"\xef\xbb\xbf\r\nx", &[(2, 1, false)]);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
        let longest = vec![b'x'; MAX_LINE];
        for end in [&b""[..], b"\n", b"\r\n"] {
            for mark in [&b""[..], BYTE_ORDER_MARK] {
                check(&[mark, &longest, end].concat(), &[(1, MAX_LINE, false)]);
            }
        }
        let stream = io::repeat(b'x').take(10_000_000).chain(&b"\nshort\r\n"[..]);
        let mut lines = InputLines::new(io::BufReader::new(stream));
        let line = lines.next().expect("readable").expect("a line");
        assert!(line.too_long && line.number == 1);
        assert!(lines.buffer.capacity() < 4 * MAX_LINE, "the rest of the line is not kept");
        let line = lines.next().expect("readable").expect("another line");
        assert_eq!((line.number, line.bytes, line.too_long), (2, &b"short"[..], false));
        let too_long = [&longest[..], b"y\nz"].concat();
        let mut lines = InputLines::new(&too_long[..]);
        assert!(lines.next().expect("readable").expect("a line").too_long);
        assert_eq!(lines.next().expect("readable").expect("a line").bytes, b"z");
    }
}
