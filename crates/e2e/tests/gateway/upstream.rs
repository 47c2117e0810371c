//! An upstream of HTTP/1.1 and HTTP/2 that records requests, and does what the path says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) version: Version,
    pub(crate) target: String,
    pub(crate) fields: HeaderMap,
    /// How long the body was; `None` if it broke off.
    pub(crate) length: Option<u64>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Seen {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().expect("a text"))
    }
}

/// Runs until it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    arrived: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let memory = Arc::clone(&seen);
        let arrived = Arc::<AtomicUsize>::default();
        let heads = Arc::clone(&arrived);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (memory, heads) = (Arc::clone(&memory), Arc::clone(&heads));
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        heads.fetch_add(1, Ordering::Relaxed);
                        answer(request, Arc::clone(&memory))
                    });
                    let http = auto::Builder::new(TokioExecutor::new());
                    // An error of the connection is its end.
                    let _ =
                        http.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, seen, arrived, _runtime: runtime }
    }

    /// All requests whose bodies have ended, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("a lock").clone()
    }

    /// How many requests have begun to arrive.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().expect("a request")
    }
}

async fn answer(
    mut request: Request<Incoming>,
    memory: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<AnyBody>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut words = path.trim_start_matches('/').split('/');
    let (what, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let number: u64 = number.parse().unwrap_or(0);
    if what == "upgrade" {
        return Ok(upgrade(&mut request, &memory));
    }
    if what == "echo" {
        return Ok(Response::new(request.into_body().map_err(|_| unreachable()).boxed_unsync()));
    }
    let (parts, body) = request.into_parts();
    let (length, trailers) = read(body).await;
    memory.lock().expect("a lock").push(Seen {
        version: parts.version,
        target: parts.uri.to_string(),
        fields: parts.headers,
        length,
        trailers,
    });
    let is_head = parts.method == Method::HEAD;
    Ok(match what {
        "hang" => std::future::pending().await,
        "source" => {
            let left = if is_head { 0 } else { number };
            let mut response = Response::new(Source { left, has_trailers: false }.boxed_unsync());
            response.headers_mut().insert("content-length", HeaderValue::from(number));
            response
        }
        "chunks" => Response::new(Source { left: number, has_trailers: true }.boxed_unsync())
            .with("trailer", "x-sum"),
        "status" => {
            let mut response = text(format!("status {number}"));
            *response.status_mut() = StatusCode::from_u16(number as u16).expect("a status");
            response
        }
        "cost" => text("costly".to_owned()).with("x-request-cost", &number.to_string()),
        "hop" => text("hop".to_owned())
            .with("connection", "x-hop")
            .with("x-hop", "1")
            .with("keep-alive", "timeout=5")
            .with("x-end", "2"),
        _ => text(format!("{} bytes", length.unwrap_or(0))),
    })
}

/// Bodies of the test break off in no test that echoes them.
fn unreachable() -> Infallible {
    panic!("an echoed body broke off")
}

trait With {
    fn with(self, name: &'static str, value: &str) -> Self;
}

impl With for Response<AnyBody> {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers_mut().insert(name, value.parse().expect("a value"));
        self
    }
}

fn text(text: String) -> Response<AnyBody> {
    Response::new(Full::from(text).boxed_unsync())
}

async fn read(mut body: Incoming) -> (Option<u64>, Option<HeaderMap>) {
    let (mut length, mut trailers) = (0, None);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (None, None) };
        length += frame.data_ref().map_or(0, Bytes::len) as u64;
        trailers = frame.into_trailers().ok().or(trailers);
    }
    (Some(length), trailers)
}

/// Upgrades to a protocol that echoes every byte.
fn upgrade(request: &mut Request<Incoming>, memory: &Mutex<Vec<Seen>>) -> Response<AnyBody> {
    memory.lock().expect("a lock").push(Seen {
        version: request.version(),
        target: request.uri().to_string(),
        fields: request.headers().clone(),
        length: Some(0),
        trailers: None,
    });
    let Some(protocol) = request.headers().get("upgrade").cloned() else {
        return text("no upgrade".to_owned());
    };
    let upgraded = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
        // The client may be gone.
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut writer).await;
    });
    let mut response =
        text(String::new()).with("connection", "upgrade").with("sec-websocket-accept", "yes");
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert("upgrade", protocol);
    response
}

/// So many bytes, made as they are read.
struct Source {
    left: u64,
    has_trailers: bool,
}

impl Body for Source {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];
        if self.left > 0 {
            let length = self.left.min(PIECE.len() as u64);
            self.left -= length;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(
                &PIECE[..length as usize],
            )))));
        }
        let is_last = std::mem::take(&mut self.has_trailers);
        let trailers = HeaderMap::from_iter([(
            "x-sum".parse().expect("a name"),
            HeaderValue::from_static("7"),
        )]);
        Poll::Ready(is_last.then(|| Ok(Frame::trailers(trailers))))
    }
}
