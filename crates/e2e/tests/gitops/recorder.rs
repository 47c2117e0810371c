//! A relay in front of a server that remembers which calls pass through it.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Methods and paths, without queries.
type Calls = Arc<Mutex<BTreeSet<(String, String)>>>;

/// A relay that listens until it is dropped.
pub(crate) struct CallRecorder {
    address: SocketAddr,
    calls: Calls,
    is_closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl CallRecorder {
    /// Starts one in front of a server.
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (calls, is_closing) = (Calls::default(), Arc::<AtomicBool>::default());
        let (seen, is_over) = (Arc::clone(&calls), Arc::clone(&is_closing));
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (client, seen) = (client.expect("a connection"), Arc::clone(&seen));
                // It ends with its connection.
                thread::spawn(move || relay(&client, server, &seen));
            }
        });
        Self { address, calls, is_closing, acceptor: Some(acceptor) }
    }

    /// Where clients call it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> BTreeSet<(String, String)> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        // It waits for connections only; an error means that it has ended.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Passes bytes in both directions. A call is remembered before the server sees it, so before the command ends.
fn relay(mut client: &TcpStream, address: SocketAddr, calls: &Calls) {
    let Ok(server) = TcpStream::connect(address) else { return };
    let (mut from_server, mut to_client) =
        (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
    let back = thread::spawn(move || {
        // A side that closes early ends the connection.
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut to_server, mut line, mut piece) = (&server, Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = client.read(&mut piece) {
        for byte in &piece[..length] {
            if *byte == b'\n' {
                remember(&line, calls);
                line.clear();
            } else {
                line.push(*byte);
            }
        }
        if to_server.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
}

/// Remembers a line that begins a request. Bodies of commands are JSON, which has no such line.
fn remember(line: &[u8], calls: &Calls) {
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim_end().split(' ');
    if let (Some(method), Some(target), Some("HTTP/1.1")) =
        (words.next(), words.next(), words.next())
    {
        let path = target.split('?').next().unwrap_or_default();
        let call = (method.to_lowercase(), path.to_owned());
        calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
    }
}
