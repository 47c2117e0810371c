//! The cost of forwarding without checks, retries, bounds and header fields: a proxy of the same HTTP library.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::Fallible;

/// Serves until the process is ended, and says where.
pub(crate) fn serve(address: SocketAddr, upstream: SocketAddr) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let authority: Authority = upstream.to_string().parse()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        writeln!(io::stdout(), "gateway http://{}", listener.local_addr()?)?;
        let client = Client::builder(TokioExecutor::new()).build_http::<Incoming>();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (client, authority) = (client.clone(), authority.clone());
            let forward = service_fn(move |mut request: Request<Incoming>| {
                *request.uri_mut() = at(&authority, request.uri());
                client.request(request)
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), forward));
        }
    })
}

/// The same target at the upstream.
fn at(authority: &Authority, target: &Uri) -> Uri {
    let mut parts = target.clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(authority.clone());
    Uri::from_parts(parts).unwrap_or_default()
}
