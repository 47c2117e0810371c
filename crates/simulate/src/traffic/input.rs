//! Where traffic comes from: files or standard input, plain or gzipped, read as a stream.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;

use super::InputError;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BUFFER: usize = 128 * 1024;
const GZIP_BUFFER: usize = 1024;

/// One place to read traffic from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// How far reading has come, in bytes as they are stored: compressed ones count compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far, of all inputs.
    pub read: u64,
    /// Bytes there are, unless an input is of unknown length. A log that is still being written
    /// grows beyond it.
    pub total: Option<u64>,
}

impl Input {
    /// The input an argument stands for: `-` is standard input.
    #[must_use]
    pub fn from_argument(argument: &str) -> Self {
        match argument {
            "-" => Self::Stdin,
            path => Self::File(PathBuf::from(path)),
        }
    }

    /// What to call it in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read>, InputError> {
        Ok(match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::File(path) => Box::new(
                File::open(path).map_err(|cause| InputError::Open { name: self.name(), cause })?,
            ),
        })
    }

    /// Pipes and devices have no size.
    fn size(&self) -> Option<u64> {
        let Self::File(path) = self else { return None };
        let metadata = fs::metadata(path).ok()?;
        metadata.is_file().then_some(metadata.len())
    }
}

/// How many bytes there are to read, if all inputs have a size.
#[must_use]
pub fn total_size(inputs: &[Input]) -> Option<u64> {
    inputs.iter().map(Input::size).sum()
}

/// A stream that reports how much was read from it.
pub(super) struct MeteredInput<'a, R> {
    stream: R,
    progress: &'a mut Progress,
    report: &'a mut dyn FnMut(Progress),
}

impl<'a, R: Read> MeteredInput<'a, R> {
    pub(super) fn new(
        stream: R,
        progress: &'a mut Progress,
        report: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self { stream, progress, report }
    }
}

impl<R: Read> Read for MeteredInput<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.progress.read += read as u64;
        (self.report)(*self.progress);
        Ok(read)
    }
}

/// The stream itself, or what is in it if it begins like gzip. Rotated logs are often several
/// gzip members one after the other.
pub(super) fn decompressed<'a>(mut stream: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut start = Vec::new();
    stream.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
    let is_gzip = start == GZIP_MAGIC;
    // A little at a time if it is compressed: a stream that has to end is noticed when it is read, and a few bytes can
    // be a thousand times as many lines.
    let capacity = if is_gzip { GZIP_BUFFER } else { BUFFER };
    let whole = BufReader::with_capacity(capacity, Cursor::new(start).chain(stream));
    if is_gzip {
        Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole))))
    } else {
        Ok(Box::new(whole))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    struct CountedReads<'a>(&'a [u8], &'a mut usize);

    impl Read for CountedReads<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            *self.1 += 1;
            self.0.read(buffer)
        }
    }

    #[test]
    fn a_compressed_stream_is_read_a_little_at_a_time_so_that_it_can_be_ended() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&b"{}\n".repeat(4 << 20)).expect("packed");
        let packed = packed.finish().expect("packed");
        let mut reads = 0;
        let mut unpacked = 0;
        let mut stream = decompressed(CountedReads(&packed, &mut reads)).expect("gzip");
        loop {
            let length = stream.fill_buf().expect("unpacked").len();
            if length == 0 {
                break;
            }
            unpacked += length;
            stream.consume(length);
        }
        drop(stream);
        assert_eq!(unpacked, 12 << 20);
        assert!(
            reads > packed.len() / (2 * GZIP_BUFFER),
            "{reads} reads of {} bytes",
            packed.len()
        );
    }
}
