//! Clients: one that speaks HTTP, one that sends any bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Identity;
use crate::server::soon;

/// Status and body of a response.
pub(crate) type Answer = (u16, String);

/// Sends one request over a new connection.
pub(crate) async fn get<S>(stream: S, version: Version, path: &str) -> Result<Answer, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::builder();
    let stream = TokioIo::new(stream);
    let response = if version == Version::HTTP_2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        let request = request.uri(format!("http://localhost{path}"));
        sender.send_request(request.body(Empty::<Bytes>::new()).expect("a request")).await?
    } else {
        let (mut sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        let request = request.uri(path).header("host", "localhost");
        sender.send_request(request.body(Empty::<Bytes>::new()).expect("a request")).await?
    };
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    soon("connecting", TcpStream::connect(address)).await.expect("a connection")
}

/// A connection from another address of this machine.
pub(crate) async fn connect_from(own: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((own, 0))).expect("an address of this machine");
    soon("connecting", socket.connect(address)).await.expect("a connection")
}

/// Connects to a server called `localhost` over TLS, with or without a client certificate.
pub(crate) async fn connect_tls(
    address: SocketAddr,
    roots: RootCertStore,
    identity: Option<&Identity>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain(), identity.private_key())
            .expect("a client certificate"),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, connect(address).await).await
}

/// Sends bytes as they are.
pub(crate) async fn send(stream: &mut TcpStream, bytes: &str) {
    stream.write_all(bytes.as_bytes()).await.expect("sent");
}

/// Reads until the server closes the connection.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends the connection as well.
    let _ = soon("the end of the connection", stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one HTTP/1.1 response, on a connection that stays open. The version is in its first line, and
/// at the end of its body.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while text.matches("HTTP/1.1").count() < 2 {
        let mut bytes = [0; 1024];
        let count = soon("an answer", stream.read(&mut bytes)).await.expect("bytes");
        assert!(count > 0, "the connection ended after {text:?}");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    text
}
