//! The service behind a proxy: it responds to every request, and records it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Serves until the test ends.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Starts a service.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let memory = Arc::clone(&asked);
        // The thread ends with the process of the tests; it holds nothing but a port.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let memory = Arc::clone(&memory);
                thread::spawn(move || serve(&stream, &memory));
            }
        });
        Self { address, asked }
    }

    /// Method and path of every request that came, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a lock").clone()
    }
}

/// Responds to every request of a connection; none of them has a body.
fn serve(mut stream: &TcpStream, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines();
    let mut first = None;
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            first.get_or_insert(line);
            continue;
        }
        let line = first.take().unwrap_or_default();
        let mut words = line.split(' ').take(2);
        let words = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        asked.lock().expect("a lock").push(format!("{} {}", words.0, words.1));
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nupstream";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
