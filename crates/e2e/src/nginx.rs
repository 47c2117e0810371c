//! nginx with the site of a test.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::process::Process;
use crate::program;

/// Keeps nginx in the foreground and all its files in one folder.
const CONFIG: &str = "
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include site.conf;
}
";

/// A running nginx, which is ended when this is dropped.
pub struct Nginx {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its configuration, `nginx.conf` and `site.conf`, and its log.
    pub folder: TempDir,
    _process: Process,
}

impl Nginx {
    /// Starts nginx with the directives of `site` inside `http`, which have it listen on `address`.
    pub fn start(address: SocketAddr, site: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("nginx.conf"), CONFIG).expect("written");
        fs::write(folder.path().join("site.conf"), site).expect("written");
        let mut process = Process::start(&mut command(folder.path()));
        process.until("nginx", |_| TcpStream::connect(address).ok());
        Self { address, folder, _process: process }
    }

    /// Its error log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }
}

/// nginx with the configuration in a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = program::nginx();
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
    command
}

/// A port that was just free, since nginx cannot choose one by itself. Tests that run together name hosts
/// that no other test uses.
pub fn free_address(host: &str) -> SocketAddr {
    TcpListener::bind((host, 0)).and_then(|socket| socket.local_addr()).expect("a port")
}
