//! One connection: HTTP/1.1 or HTTP/2, until it ends or times out.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::Peer;
use super::activity::{Activity, ActivityWatch, ConnectionVerdict, Noticing};
use super::certificate::CertificateDigest;
use super::inline_executor::InlineExecutor;
use super::plain_calls::{PlainCalls, PlainEnd};
use super::share::ConnectionPermit;
use super::shutdown::Shutdown;
use super::socket::Accepted;
use super::tls::Tls;
use super::transport::Transport;
use crate::edge::drain::SharedBody;
use crate::settings::Limits;

/// The HTTP library allows for this many header fields without a heap allocation.
const HEADERS_ON_STACK: usize = 100;
const CONCURRENT_STREAMS: u32 = 64;
/// How many bytes a client may send before they are read, on one stream of HTTP/2 and on all streams
/// together.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How many bytes may wait for the client to read them, on one stream of HTTP/2.
const STREAM_SEND_BUFFER: usize = 64 * 1024;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The protocol settings of all connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionOptions {
    tls: Option<Arc<Tls>>,
    header_bytes: usize,
    header_count: usize,
    header_timeout: Duration,
    idle_timeout: Duration,
    is_joining: bool,
    plain_calls: Option<PlainCalls>,
}

impl ConnectionOptions {
    pub(super) fn new(
        limits: &Limits,
        tls: Option<Arc<Tls>>,
        is_joining: bool,
        plain_calls: Option<PlainCalls>,
    ) -> Self {
        Self {
            plain_calls,
            tls,
            header_bytes: limits.header_bytes.to_usize(),
            header_count: limits.header_count,
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
            is_joining,
        }
    }

    fn http(&self, calls: InlineExecutor) -> auto::Builder<InlineExecutor> {
        let mut http = auto::Builder::new(calls);
        let mut http1 = http.http1();
        // `Watch` enforces the header timeout.
        http1.header_read_timeout(None).max_buf_size(self.header_bytes);
        if self.is_joining {
            http1.writev(false);
        }
        if self.header_count > HEADERS_ON_STACK {
            http1.max_headers(self.header_count);
        }
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(CONCURRENT_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_SEND_BUFFER)
            .max_header_list_size(u32::try_from(self.header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        http
    }

    /// Serves a connection until one side ends it.
    pub(super) async fn serve<S, F, B>(
        &self,
        stream: Accepted,
        seat: ConnectionPermit,
        mut peer: Peer,
        service: S,
        shutdown: &Shutdown,
    ) where
        S: Fn(Request<Incoming>, Peer) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let stream = match stream {
            Accepted::Tcp(stream) => stream,
            Accepted::Unix(stream) => {
                let stream = Transport::Unix(stream);
                return self.serve_stream(stream, seat, peer, service, shutdown).await;
            }
        };
        // Responses are written whole, so waiting for more bytes to send with them only costs time.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            let stream = Transport::Plain(stream);
            return self.serve_stream(stream, seat, peer, service, shutdown).await;
        };
        let handshake = timeout(self.header_timeout, handshake(stream, tls));
        let stream = tokio::select! {
            stream = handshake => stream.ok().flatten(),
            () = shutdown.requested() => None,
        };
        let Some(stream) = stream else { return };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        peer.certificate = shown.map(CertificateDigest::of);
        peer.is_encrypted = true;
        let stream = Transport::Tls(Box::new(stream));
        self.serve_stream(stream, seat, peer, service, shutdown).await;
    }

    /// Checks a head; an error is the status it is refused with.
    fn admit<T>(&self, request: &Request<T>) -> Result<(), StatusCode> {
        if request.headers().len() > self.header_count {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        // Of two hosts, a proxy before Tollgate and a service behind it might each use another.
        match request.headers().get_all(header::HOST).iter().count() {
            0 if request.version() == Version::HTTP_11 => Err(StatusCode::BAD_REQUEST),
            0 | 1 => Ok(()),
            _ => Err(StatusCode::BAD_REQUEST),
        }
    }

    async fn serve_stream<S, F, B>(
        &self,
        stream: Transport,
        seat: ConnectionPermit,
        peer: Peer,
        service: S,
        shutdown: &Shutdown,
    ) where
        S: Fn(Request<Incoming>, Peer) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let activity = Arc::new(Activity::default());
        let mut stream = Noticing::new(stream, Arc::clone(&activity), seat);
        let mut watch = ActivityWatch::new(self.header_timeout, self.idle_timeout);
        let mut looks = interval(ActivityWatch::period(self.header_timeout, self.idle_timeout));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.reset();
        if let Some(plain_calls) = &self.plain_calls {
            let serving = plain_calls.serve(&mut stream, peer, shutdown);
            let end = until_quiet(serving, (&mut watch, &mut looks), &activity).await;
            match end.unwrap_or(PlainEnd::Closed) {
                PlainEnd::HandOver(unread) => stream.read_again(unread),
                PlainEnd::Closed => return,
            }
        }
        let stream = TokioIo::new(stream);
        let calls = InlineExecutor::default();
        let service = service_fn(|request: Request<Incoming>| {
            let asks_to_close = shutdown.is_announced() && request.version() <= Version::HTTP_11;
            let running = activity.begin(request.version());
            calls.expect(running.pace());
            let answer = self.admit(&request).map(|()| service(request, peer));
            async move {
                Ok::<_, Infallible>(match answer {
                    Ok(answer) => {
                        let mut answer = answer.await;
                        // A connection that is switched to another protocol stays open.
                        let is_switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
                        if asks_to_close && !is_switched {
                            let close = HeaderValue::from_static("close");
                            answer.headers_mut().insert(header::CONNECTION, close);
                        }
                        if let Some(rest) = answer.extensions_mut().remove::<SharedBody>() {
                            rest.count_by(running.steps());
                        }
                        answer.map(|body| running.answer(Some(body)))
                    }
                    Err(status) => {
                        let mut refusal = Response::new(running.answer(None));
                        *refusal.status_mut() = status;
                        refusal
                    }
                })
            }
        });
        let http = self.http(calls.clone());
        let mut connection = pin!(http.serve_connection_with_upgrades(stream, service));
        let mut asked_to_end = pin!(shutdown.requested());
        let (mut is_draining, mut is_closing) = (false, false);
        loop {
            tokio::select! {
                biased;
                ended = poll_fn(|context| calls.poll(connection.as_mut(), context)) => {
                    if let Err(error) = ended {
                        debug!(peer = %peer.address, %error, "connection ended");
                    }
                    return;
                }
                () = asked_to_end.as_mut(), if !is_draining => {
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = looks.tick() => {
                    calls.end_stuck(watch.most_quiet());
                    match watch.look(&activity) {
                        ConnectionVerdict::Alive => {}
                        // HTTP/2 clients get a GOAWAY first, so that they send nothing more here.
                        ConnectionVerdict::Idle if !is_closing => {
                            is_closing = true;
                            connection.as_mut().graceful_shutdown();
                        }
                        verdict => {
                            debug!(peer = %peer.address, ?verdict, "connection closed");
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Waits for something that happens on a connection; `None` if the connection passes a timeout before.
async fn until_quiet<T>(
    something: impl Future<Output = T>,
    (watch, looks): (&mut ActivityWatch, &mut Interval),
    activity: &Activity,
) -> Option<T> {
    let mut something = pin!(something);
    loop {
        tokio::select! {
            biased;
            done = something.as_mut() => return Some(done),
            _ = looks.tick() => {
                let verdict = watch.look(activity);
                if verdict != ConnectionVerdict::Alive {
                    debug!(?verdict, "connection closed");
                    return None;
                }
            }
        }
    }
}

/// Failures are logged at debug level only: most are caused by scanners.
async fn handshake(stream: TcpStream, tls: &Tls) -> Option<TlsStream<TcpStream>> {
    match TlsAcceptor::from(tls.current()).accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            debug!(%error, "TLS handshake failed");
            None
        }
    }
}
