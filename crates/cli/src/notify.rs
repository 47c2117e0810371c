//! Tells systemd when the server is ready and when it ends, so that `systemctl start` waits for it. Other
//! service managers do not set the variable, and get nothing.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Where systemd listens, for services with `Type=notify`.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The server takes requests.
pub(crate) fn ready() {
    send("READY=1");
}

/// The server finishes what has begun.
pub(crate) fn stopping() {
    send("STOPPING=1");
}

fn send(state: &str) {
    let Some(socket) = env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send_to(&socket, state) {
        warn!("systemd cannot be notified of {state} ({SOCKET}): {error}");
    }
}

/// A name that begins with @ is not a file.
fn send_to(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not delay the server.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &SocketAddr, name: &OsStr) {
        let manager = UnixDatagram::bind_addr(address).expect("a socket");
        send_to(name, "READY=1").expect("sent");
        let mut message = [0; 64];
        let length = manager.recv(&mut message).expect("a message");
        assert_eq!(&message[..length], b"READY=1");
    }

    #[test]
    fn a_state_arrives_at_a_file_and_at_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        check(&SocketAddr::from_pathname(&path).expect("an address"), path.as_os_str());
        let name = format!("tollgate-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an address");
        check(&address, OsStr::new(&format!("@{name}")));
        assert!(send_to(folder.path().join("nowhere").as_os_str(), "READY=1").is_err());
    }
}
