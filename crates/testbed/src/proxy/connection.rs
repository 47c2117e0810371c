//! One connection through the proxy: a socket on each side, which are closed together.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use socket2::SockRef;

use super::{Fault, MAX_CONNECTIONS, Network};

/// How long to get through to the server at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How soon a thread that cannot write checks whether it still has to.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);

/// What the threads of a connection share. The last one of them closes it.
pub(super) struct Connection {
    client: TcpStream,
    server: OnceLock<TcpStream>,
    is_over: AtomicBool,
    has_lost: AtomicBool,
    // Last, so that both sockets are closed when it is counted as closed.
    _count: Count,
}

/// Keeps the number of open connections right.
struct Count(Arc<Network>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.state.lock().open -= 1;
        self.0.changed.notify_all();
    }
}

impl Connection {
    /// Accepts a client, if the network accepts connections.
    pub(super) fn admit(network: &Arc<Network>, client: TcpStream) -> Option<Arc<Self>> {
        let mut state = network.state.lock();
        let is_full = state.open >= MAX_CONNECTIONS;
        if is_full || state.is_closing || state.fault == Fault::Refuse {
            drop(state);
            reset_when_closed(&client);
            return None;
        }
        state.open += 1;
        state.accepted += 1;
        let connection = Arc::new(Self {
            client,
            server: OnceLock::new(),
            is_over: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            _count: Count(Arc::clone(network)),
        });
        state.connections.retain(|connection| connection.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
        Some(connection)
    }

    /// Connects to the server; `None` if it is unreachable or the connection is no longer needed.
    pub(super) fn connect(&self, network: &Network) -> Option<&TcpStream> {
        let server = TcpStream::connect_timeout(&network.server, CONNECT_TIMEOUT).ok()?;
        for stream in [&self.client, &server] {
            // Small messages must not wait for each other: delays are what is tested here.
            stream.set_nodelay(true).ok()?;
            stream.set_write_timeout(Some(WRITE_TIMEOUT)).ok()?;
        }
        let server = self.server.get_or_init(|| server);
        (!self.is_over()).then_some(server)
    }

    pub(super) fn client(&self) -> &TcpStream {
        &self.client
    }

    /// Ends it, so that both sides see that something went wrong.
    pub(super) fn reset(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for stream in [Some(&self.client), self.server.get()].into_iter().flatten() {
            reset_when_closed(stream);
            // Wakes the thread that reads, and tells the other side nothing. An error means that
            // there is no other side any more.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Remembers that something did not arrive, so that the stream cannot go on.
    pub(super) fn lose(&self) {
        self.has_lost.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }
}

/// Makes the system reset a connection instead of ending it properly.
fn reset_when_closed(stream: &TcpStream) {
    // An error means that there is nothing to reset any more.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
