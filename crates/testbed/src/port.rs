//! Reserves ports, so that no other process takes one between finding it free and using it.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// A node of a Redis cluster listens at a second port, that much above the first.
const BUS: u16 = 10_000;

/// Below the ports that systems hand out to outgoing connections, and so are their companions.
const FIRST: u16 = 10_000;

/// As many as keep ports and their companions apart.
const COUNT: u16 = BUS;

/// A port of this machine that is free, and so is the one ten thousand above it.
///
/// It stays reserved until this process ends: no other process that asks here gets it, so a server
/// can be started there again and again.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    // Processes begin at different ports, so that they seldom try the same ones.
    let start = process::id().wrapping_mul(101);
    for _ in 0..COUNT {
        let step = start.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(step).expect("less than a count that fits");
        if let Ok(reservation) = reserve(port)
            && is_free(port)
            && is_free(port + BUS)
        {
            RESERVED.lock().push(reservation);
            return port;
        }
    }
    panic!("no port is free from {FIRST} to {}", FIRST + COUNT - 1);
}

/// A name that one process at a time can hold. The system takes it back when the process ends, and
/// no file is left over.
fn reserve(port: u16) -> io::Result<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("tollgate-testbed-port-{port}"))?;
    UnixListener::bind_addr(&name)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
