//! Where checks write their records: a few buffers, one for each of as many threads, so that no check waits for another
//! or for the task that takes them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::record::MAX_RECORD_BYTES;

/// How many buffers there are.
const BUFFERS: usize = 8;
/// The most bytes of one buffer: the records of about 10,000 requests. With those that are being read, buffers take up to
/// 16 MiB.
const BUFFER_CAPACITY: usize = 1 << 20;

/// With this many bytes, the records of about 300 requests, a buffer is to be taken: what is made of more of them would
/// keep a processor from checks for longer than a check may take.
const TAKEN_BYTES: usize = 32 << 10;

/// The buffers.
#[derive(Debug, Default)]
pub(super) struct Tape {
    buffers: [TapeBuffer; BUFFERS],
    lost: AtomicU64,
    /// Notified when a buffer is to be taken.
    filling: Notify,
}

/// A buffer, on cache lines that no other one is on.
#[derive(Debug, Default)]
#[repr(align(128))]
struct TapeBuffer(Mutex<Vec<u8>>);

thread_local! {
    static BUFFER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads take buffers in turn.
#[inline]
fn buffer() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    BUFFER.with(|buffer| {
        buffer.get().unwrap_or_else(|| {
            let taken = NEXT.fetch_add(1, Relaxed) % BUFFERS;
            buffer.set(Some(taken));
            taken
        })
    })
}

impl Tape {
    /// Writes a record. It is lost if all buffers are in use or the one at hand is full.
    #[inline]
    pub(super) fn write(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let first = buffer();
        for place in 0..BUFFERS {
            let Some(mut buffer) = self.buffers[(first + place) % BUFFERS].0.try_lock() else {
                continue;
            };
            if buffer.len() + MAX_RECORD_BYTES <= BUFFER_CAPACITY {
                let before = buffer.len();
                write(&mut buffer);
                if before <= TAKEN_BYTES && buffer.len() > TAKEN_BYTES {
                    self.filling.notify_one();
                }
                return;
            }
            break;
        }
        self.lost.fetch_add(1, Relaxed);
    }

    /// Waits until a buffer should be taken.
    pub(super) async fn filling(&self) {
        self.filling.notified().await;
    }

    /// How many records were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Exchanges the buffers for empty ones, which keep their memory.
    pub(super) fn take(&self, into: &mut TakenBuffers) {
        for (buffer, taken) in self.buffers.iter().zip(&mut into.0) {
            taken.clear();
            std::mem::swap(&mut *buffer.0.lock(), taken);
        }
    }
}

/// What was taken from the tape.
#[derive(Debug, Default)]
pub(super) struct TakenBuffers(pub(super) [Vec<u8>; BUFFERS]);

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_full_tape_loses_records_and_counts_them() {
        let (tape, mut taken) = (Tape::default(), TakenBuffers::default());
        let record = [7; 1_000];
        let written = 2 * BUFFER_CAPACITY / record.len();
        for _ in 0..written {
            tape.write(|buffer| buffer.extend_from_slice(&record));
        }
        let lost = tape.lost();
        tape.take(&mut taken);
        let kept: usize = taken.0.iter().map(Vec::len).sum();
        assert!(kept <= BUFFER_CAPACITY, "one thread has one buffer");
        assert_eq!(kept / record.len() + usize::try_from(lost).expect("a number"), written);
        tape.write(|buffer| buffer.push(1));
        assert_eq!(tape.lost(), lost, "there is room again");
    }

    /// What was made of half a buffer took a processor for milliseconds, and checks on it waited.
    #[test]
    fn a_buffer_is_to_be_taken_long_before_it_is_full() {
        let (tape, mut taken) = (Tape::default(), TakenBuffers::default());
        for _ in 0..2 {
            for _ in 0..TAKEN_BYTES / 1_000 {
                tape.write(|buffer| buffer.extend_from_slice(&[7; 1_000]));
            }
            let mut filling = pin!(tape.filling());
            assert!(poll_once(filling.as_mut()).is_pending(), "there is little yet");
            tape.write(|buffer| buffer.extend_from_slice(&[7; 1_000]));
            assert!(poll_once(filling).is_ready());
            tape.take(&mut taken);
        }
    }

    fn poll_once(future: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn threads_lose_nothing_that_fits() {
        let tape = Tape::default();
        std::thread::scope(|scope| {
            for number in 0..16_u8 {
                let tape = &tape;
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        tape.write(|buffer| buffer.push(number));
                    }
                });
            }
        });
        let mut taken = TakenBuffers::default();
        tape.take(&mut taken);
        let mut counts = [0; 16];
        taken.0.iter().flatten().for_each(|number| counts[usize::from(*number)] += 1);
        // A buffer that another thread is writing to is passed over, and there are enough of them for two.
        assert_eq!(counts.iter().sum::<u64>() + tape.lost(), 16_000);
    }
}
