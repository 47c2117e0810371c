//! Where a listener listens: a port, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::value::Setting;

/// What the name of a Unix socket begins with.
const UNIX: &str = "unix:";

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket, which is a file: only this machine reaches it, and its permissions say who.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address, unless it is a Unix socket.
    #[must_use]
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Setting for ListenAddress {
    fn expected() -> String {
        format!("{}, or {UNIX} and the name of a Unix socket", SocketAddr::expected())
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNIX) {
            Some("") => None,
            Some(path) => Some(Self::Unix(path.into())),
            None => text.parse().ok().map(Self::Tcp),
        }
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}
