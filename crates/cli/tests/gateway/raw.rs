//! An upstream that does with each connection what a test says, byte by byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Serves until the tests are over: its thread ends with their process, and holds nothing but a port.
pub(crate) struct RawUpstream {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// One connection, as the upstream sees it.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl RawUpstream {
    pub(crate) fn start(serve: impl Fn(&mut Wire) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (heads, connections) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (told, count, serve) = (Arc::clone(&heads), Arc::clone(&connections), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
                count.fetch_add(1, Ordering::SeqCst);
                let (heads, serve) = (Arc::clone(&told), Arc::clone(&serve));
                thread::spawn(move || serve(&mut Wire { stream: BufReader::new(stream), heads }));
            }
        });
        Self { address, heads, connections }
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

impl Wire {
    /// The next head, as it was written; none at the end of the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        self.heads.lock().expect("a lock").push(head.clone());
        Some(head)
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

    fn answer_echo(&mut self) -> Option<()> {
        let head = self.head()?;
        let body = self.body(&head)?;
        let echo = format!("{} {head}", body.len());
        self.say(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{echo}", echo.len()));
        Some(())
    }

    /// Says something. Who listens may be gone.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = self.stream.get_mut().write_all(text.as_bytes());
    }

    /// Whether the other side ends the connection before anything else comes.
    pub(crate) fn ends(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// The value of a field of a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
