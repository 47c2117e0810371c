//! A network between a client and a server that fails on demand, while connections are open.

mod connection;
mod relay;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use self::connection::Connection;
use self::relay::relay;
use crate::clock::Moment;
use crate::port::free_port;
use crate::wait::until;

/// The most connections at a time. Each takes a few threads; further ones are reset.
const MAX_CONNECTIONS: usize = 256;

/// What the network does to bytes that pass through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Everything arrives at once.
    Pass,
    /// Everything arrives, but later.
    Latency {
        /// From the client to the server.
        to_server: Duration,
        /// From the server to the client.
        to_client: Duration,
    },
    /// Connections can be opened and written to, but nothing arrives, not even their end, as when
    /// the other side has lost power. A connection that lost something is reset afterwards.
    Silence,
    /// Open connections are reset, and there are no new ones.
    Refuse,
    /// Everything arrives, at so many bytes per second (at least one) in each direction of each
    /// connection.
    Bandwidth(u32),
}

/// A proxy that listens at a separate port until it is dropped.
pub struct FaultProxy {
    network: Arc<Network>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// What all connections share.
struct Network {
    server: SocketAddr,
    state: Mutex<State>,
    /// Woken by every change of the state, and when a connection has ended.
    changed: Condvar,
}

struct State {
    fault: Fault,
    is_closing: bool,
    is_listening: bool,
    connections: Vec<Weak<Connection>>,
    open: usize,
    accepted: usize,
}

impl FaultProxy {
    /// Starts one in front of a server, which lets everything pass for now.
    pub fn start(server: SocketAddr) -> Self {
        let address = (Ipv4Addr::LOCALHOST, free_port()).into();
        let state = State {
            fault: Fault::Pass,
            is_closing: false,
            is_listening: false,
            connections: Vec::new(),
            open: 0,
            accepted: 0,
        };
        let state = Mutex::new(state);
        let network = Arc::new(Network { server, state, changed: Condvar::new() });
        let shared = Arc::clone(&network);
        let acceptor = thread::spawn(move || shared.accept(address));
        let proxy = Self { network, address, acceptor: Some(acceptor) };
        proxy.set(Fault::Pass);
        proxy
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open. One that a client closed is open until the server closes it
    /// too, except in [`Fault::Silence`].
    pub fn connections(&self) -> usize {
        self.network.state.lock().open
    }

    /// How many connections clients have opened so far.
    pub fn accepted(&self) -> usize {
        self.network.state.lock().accepted
    }

    /// Does this from now on, to open connections too. Returns when it is done.
    pub fn set(&self, fault: Fault) {
        let connections = self.network.change(|state| state.fault = fault);
        for connection in connections {
            if fault == Fault::Refuse || (fault != Fault::Silence && connection.has_lost()) {
                connection.reset();
            }
        }
        self.network.changed.notify_all();
        self.wake_acceptor();
        until("a proxy that obeys", || {
            let state = self.network.state.lock();
            let refuses = fault == Fault::Refuse;
            (state.is_listening != refuses && (state.open == 0 || !refuses)).then_some(())
        });
    }

    /// It waits for connections only, so it gets one if it has to stop waiting.
    fn wake_acceptor(&self) {
        let state = self.network.state.lock();
        let is_wanted = state.is_listening && (state.is_closing || state.fault == Fault::Refuse);
        drop(state);
        if is_wanted {
            // An error means that it has stopped already.
            let _ = TcpStream::connect(self.address);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let connections = self.network.change(|state| state.is_closing = true);
        connections.iter().for_each(|connection| connection.reset());
        self.network.changed.notify_all();
        self.wake_acceptor();
        if let Some(acceptor) = self.acceptor.take() {
            // It panics only where the port was taken, which has been said.
            let _ = acceptor.join();
        }
    }
}

impl Network {
    /// Changes the state, and returns the connections that are open then.
    fn change(&self, change: impl FnOnce(&mut State)) -> Vec<Arc<Connection>> {
        let mut state = self.state.lock();
        change(&mut state);
        let connections = state.connections.iter().filter_map(Weak::upgrade).collect();
        self.changed.notify_all();
        connections
    }

    /// Listens while that is allowed, until the end.
    fn accept(self: Arc<Self>, address: SocketAddr) {
        loop {
            let listener = TcpListener::bind(address).expect("a port that was reserved");
            self.say_listening(true);
            while let Ok((client, _)) = listener.accept() {
                if let Some(connection) = Connection::admit(&self, client) {
                    let network = Arc::clone(&self);
                    thread::spawn(move || relay(&network, &connection));
                }
                if self.is_refusing() {
                    break;
                }
            }
            drop(listener);
            self.say_listening(false);
            let mut state = self.state.lock();
            let is_refusing = |state: &mut State| state.fault == Fault::Refuse && !state.is_closing;
            self.changed.wait_while(&mut state, is_refusing);
            if state.is_closing {
                return;
            }
        }
    }

    fn say_listening(&self, is_listening: bool) {
        self.state.lock().is_listening = is_listening;
    }

    fn is_refusing(&self) -> bool {
        let state = self.state.lock();
        state.is_closing || state.fault == Fault::Refuse
    }

    /// What happens to a connection now. If that is silence, the connection has lost something.
    fn fault_for(&self, connection: &Connection) -> Fault {
        let state = self.state.lock();
        if state.fault == Fault::Silence {
            connection.lose();
        }
        state.fault
    }

    /// Waits until then, but not for a connection that has ended.
    fn pause(&self, connection: &Connection, end: Moment) {
        let mut state = self.state.lock();
        while !end.has_passed() && !connection.is_over() {
            self.changed.wait_for(&mut state, end.left());
        }
    }

    /// Waits until the network is no longer silent, but not for a connection that has ended.
    fn wait_for_sound(&self, connection: &Connection) {
        let mut state = self.state.lock();
        while state.fault == Fault::Silence && !connection.is_over() {
            self.changed.wait(&mut state);
        }
    }
}
