//! A real HTTP server with a set of keys, on a free port, which misbehaves on demand.

use std::convert::Infallible;
use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Response, Uri};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What the server does with a request.
#[derive(Clone)]
pub(crate) enum Answer {
    Body(String),
    Status(u16),
    /// No response.
    Silence,
    /// A response when the gate is opened.
    Behind(Arc<Semaphore>, String),
}

pub(crate) struct JwksServer {
    address: std::net::SocketAddr,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl JwksServer {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::new(AtomicUsize::new(0));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&answer), Arc::clone(&asked)));
        Self { address, answer, asked, accepting }
    }

    pub(crate) fn url(&self) -> Uri {
        format!("http://{}/keys?token=hidden", self.address).parse().expect("a URL")
    }

    pub(crate) fn set(&self, answer: Answer) {
        *self.answer.lock().expect("no panic") = answer;
    }

    /// How many requests it has received.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits for that many requests.
    pub(crate) async fn until_asked(&self, times: usize) {
        while self.asked() < times {
            tokio::task::yield_now().await;
        }
    }

    /// Stops: from now on connections are refused.
    pub(crate) async fn stop(&mut self) {
        self.accepting.abort();
        assert!((&mut self.accepting).await.is_err(), "it accepts until it is stopped");
    }
}

async fn accept(listener: TcpListener, answer: Arc<Mutex<Answer>>, asked: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
        let service = service_fn(move |_| {
            let answer = answer.lock().expect("no panic").clone();
            asked.fetch_add(1, Ordering::SeqCst);
            respond(answer)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn respond(answer: Answer) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match answer {
        Answer::Body(body) => (200, body),
        Answer::Status(status) => (status, String::new()),
        Answer::Silence => future::pending().await,
        Answer::Behind(gate, body) => {
            let _open = gate.acquire().await;
            (200, body)
        }
    };
    let response = Response::builder().status(status).header("location", "/elsewhere");
    Ok(response.body(Full::new(body.into())).expect("a response"))
}
