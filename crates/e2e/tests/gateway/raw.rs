//! An upstream that does with each connection what a test says, byte by byte.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Serves until it is dropped. A panic in one of its threads then fails the test.
pub(crate) struct RawUpstream {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    listener: Option<JoinHandle<Vec<Served>>>,
}

/// A connection while it is served, and its thread.
type Served = (Open, JoinHandle<()>);
type Open = Arc<Mutex<Option<TcpStream>>>;

/// One connection, as the upstream sees it.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    heads: Arc<Mutex<Vec<String>>>,
    open: Open,
}

impl RawUpstream {
    pub(crate) fn start(serve: impl Fn(&mut Wire) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (heads, connections) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (told, count, serve) = (Arc::clone(&heads), Arc::clone(&connections), Arc::new(serve));
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let listener = thread::spawn(move || {
            let mut served = Vec::new();
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    break;
                }
                stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
                count.fetch_add(1, Ordering::SeqCst);
                let same = stream.try_clone().expect("the same connection");
                let open = Arc::new(Mutex::new(Some(same)));
                let (heads, serve) = (Arc::clone(&told), Arc::clone(&serve));
                let mut wire =
                    Wire { stream: BufReader::new(stream), heads, open: Arc::clone(&open) };
                served.push((open, thread::spawn(move || serve(&mut wire))));
            }
            served
        });
        Self { address, heads, connections, is_over, listener: Some(listener) }
    }

    /// Answers each request with its own head, and the length of its body before.
    pub(crate) fn echo() -> Self {
        Self::start(|wire| while wire.answer_echo().is_some() {})
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("a lock").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for RawUpstream {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // A connection wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        let served = self.listener.take().map(JoinHandle::join);
        for (open, thread) in served.and_then(Result::ok).into_iter().flatten() {
            if let Some(stream) = &*open.lock().expect("a lock") {
                // The other side may have ended it.
                let _ = stream.shutdown(Shutdown::Both);
            }
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // It ends now, not when the upstream does.
        *self.open.lock().expect("a lock") = None;
    }
}

impl Wire {
    /// The next head, as it was written; none at the end of the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        self.note(head.clone());
        Some(head)
    }

    /// Keeps a head for the test.
    pub(crate) fn note(&self, head: String) {
        self.heads.lock().expect("a lock").push(head);
    }

    /// The body that belongs to a head.
    pub(crate) fn body(&mut self, head: &str) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        if let Some(length) = field(head, "content-length") {
            body.resize(length.parse().ok()?, 0);
            self.stream.read_exact(&mut body).ok()?;
        } else if field(head, "transfer-encoding").is_some() {
            loop {
                let mut line = String::new();
                self.stream.read_line(&mut line).ok()?;
                let length = usize::from_str_radix(line.trim(), 16).ok()?;
                let start = body.len();
                body.resize(start + length + 2, 0);
                self.stream.read_exact(&mut body[start..]).ok()?;
                body.truncate(start + length);
                if length == 0 {
                    break;
                }
            }
        }
        Some(body)
    }

    pub(crate) fn answer_echo(&mut self) -> Option<()> {
        let head = self.head()?;
        let body = self.body(&head)?;
        let echo = format!("{} {head}", body.len());
        self.say(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{echo}", echo.len()));
        Some(())
    }

    /// Sends text. The client may be gone.
    pub(crate) fn say(&mut self, text: &str) {
        self.send(text.as_bytes());
    }

    /// Sends bytes. The client may be gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// As many bytes; none if the connection ends before.
    pub(crate) fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether the other side ends the connection before anything else comes, and in time.
    pub(crate) fn ends(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// The value of a field of a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
