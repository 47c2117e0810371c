//! A connection of a client that sees every byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Socket(BufReader<TcpStream>);

impl Socket {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("sent");
    }

    /// The head of a response, as it was written.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).expect("a line") > 0, "it ends after {head:?}");
        }
        head
    }

    pub(crate) fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("as many bytes");
        bytes
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&self) {
        self.0.get_ref().shutdown(Shutdown::Write).expect("an end");
    }

    /// Everything up to the end. A reset counts as an end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut bytes) {
            assert!(error.kind() != std::io::ErrorKind::WouldBlock, "it hangs after {bytes:?}");
        }
        bytes
    }
}
