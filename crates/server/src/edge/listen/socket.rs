//! A socket that connections arrive on: a TCP port, or a Unix socket.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};

/// Who may connect to a Unix socket: its owner and its group, whatever the umask.
const SOCKET_MODE: u32 = 0o660;
/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// The address of peers on a Unix socket: they are on this machine.
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A connection that was accepted.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The file of a Unix socket, which is removed with its listener, unless another server has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: Option<u64>,
}

impl Socket {
    /// Opens a Unix socket. A file that a server left behind which did not end well is replaced.
    pub(super) async fn bind_unix(path: &Path) -> io::Result<Self> {
        let bound = match listen_at(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_behind(path).await => {
                fs::remove_file(path)?;
                listen_at(path)
            }
            bound => bound,
        };
        let inode = fs::metadata(path).ok().map(|file| file.ino());
        Ok(Self::Unix(bound?, SocketFile { path: path.to_owned(), inode }))
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(..) => Ok(LOCAL),
        }
    }

    pub(super) fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, file) => Some(&file.path),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Accepted::Tcp(stream), address))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream), LOCAL))
            }
        }
    }
}

/// Listens on a new Unix socket. Its permissions are set before anyone can connect.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    socket.listen(BACKLOG)
}

/// Whether the file is a socket that no server listens on.
async fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).await.is_err_and(refused)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::metadata(&self.path).ok().map(|file| file.ino());
        if found.is_some() && found == self.inode {
            // If this fails, the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
