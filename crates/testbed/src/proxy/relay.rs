//! Carries bytes between the two sides of a connection, as well as the network allows.
//!
//! In each direction one thread reads and one writes, so that a delay blocks nothing: bytes that are read meanwhile
//! wait in a queue.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::{Fault, Network};
use crate::clock::Moment;

/// The most bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// How many chunks can be in flight in one direction.
const PIECES: usize = 64;

/// Where bandwidth is scarce, bytes are passed on so many times a second.
const STEPS_PER_SECOND: u32 = 50;

/// Some bytes, and when they arrive.
struct Piece {
    arrival: Moment,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// One direction of a connection.
struct Way<'a> {
    network: &'a Network,
    connection: &'a Connection,
    direction: Direction,
    from: &'a TcpStream,
    to: &'a TcpStream,
}

/// Serves a connection until it ends.
pub(super) fn relay(network: &Network, connection: &Connection) {
    let client = connection.client();
    if network.fault_for(connection) == Fault::Silence {
        swallow(client);
        return;
    }
    let Some(server) = connection.connect(network) else {
        connection.reset();
        return;
    };
    let way = |direction, from, to| Way { network, connection, direction, from, to };
    let there = way(Direction::ToServer, client, server);
    let back = way(Direction::ToClient, server, client);
    thread::scope(|scope| {
        for way in [&there, &back] {
            let (queue, pieces) = sync_channel(PIECES);
            scope.spawn(move || way.read(&queue));
            scope.spawn(move || way.write(pieces));
        }
    });
}

/// Reads and discards. The connection ends when the client closes it, or it is reset.
fn swallow(mut client: &TcpStream) {
    let mut bytes = [0; PIECE];
    while client.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

impl Way<'_> {
    /// Reads until the end; the queue ends with it.
    fn read(&self, queue: &SyncSender<Piece>) {
        let mut from = self.from;
        let mut buffer = [0; PIECE];
        loop {
            let count = match from.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            let piece = Piece { arrival: self.arrival(), bytes: buffer[..count].to_vec() };
            if count == 0 || queue.send(piece).is_err() {
                return;
            }
        }
    }

    fn arrival(&self) -> Moment {
        let delay = match (self.network.state.lock().fault, self.direction) {
            (Fault::Latency { to_server, .. }, Direction::ToServer) => to_server,
            (Fault::Latency { to_client, .. }, Direction::ToClient) => to_client,
            _ => Duration::ZERO,
        };
        Moment::after(delay)
    }

    /// Passes on what is read, and at last its end.
    fn write(&self, pieces: Receiver<Piece>) {
        for piece in pieces {
            self.network.pause(self.connection, piece.arrival);
            if !self.pass_on(&piece.bytes) {
                break;
            }
        }
        self.end();
    }

    /// Whether the other side is still connected.
    fn pass_on(&self, mut bytes: &[u8]) -> bool {
        let mut to = self.to;
        while !bytes.is_empty() && !self.connection.is_over() {
            let fault = self.network.fault_for(self.connection);
            let most = match fault {
                Fault::Silence => return true,
                Fault::Bandwidth(rate) => (rate / STEPS_PER_SECOND).max(1) as usize,
                Fault::Pass | Fault::Latency { .. } | Fault::Refuse => bytes.len(),
            };
            match to.write(&bytes[..most.min(bytes.len())]) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    if let Fault::Bandwidth(rate) = fault {
                        self.rest(count, rate);
                    }
                }
                Err(error) if is_busy(error.kind()) => {}
                Err(_) => return false,
            }
        }
        !self.connection.is_over()
    }

    /// Waits as long as so many bytes take.
    fn rest(&self, bytes: usize, rate: u32) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let time = Duration::from_secs(1) * bytes / rate.max(1);
        self.network.pause(self.connection, Moment::after(time));
    }

    /// Passes on the end of the stream. A silent network does not deliver it; but a client that is gone need not be
    /// waited for.
    fn end(&self) {
        if self.network.fault_for(self.connection) == Fault::Silence {
            match self.direction {
                Direction::ToServer => self.connection.reset(),
                Direction::ToClient => self.network.wait_for_sound(self.connection),
            }
        }
        // A proper end would come before the reset, and hide it.
        if !self.connection.has_lost() && !self.connection.is_over() {
            // An error means that the other side has left as well.
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }
}

fn is_busy(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
