//! What listeners serve. All services are one type, so that the code of the HTTP library for connections
//! is compiled once, in this crate, and not for each service where it is started.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::edge::gateway::{Gateway, GatewayBody, GatewayCall};
use crate::edge::listen::{Listener, Peer, Shutdown, serve};

/// A service, for one listener.
#[derive(Clone, Debug)]
pub enum Service {
    /// The check API, and the admin API unless that has a separate listener.
    Public(Arc<App>),
    /// The admin API.
    Admin(Arc<App>),
    /// gRPC.
    Grpc(Arc<App>),
    /// The gateway.
    Gateway(Arc<Gateway>),
}

impl Service {
    /// Serves a listener in the background, as [`serve`] does.
    pub fn spawn(self, listener: Listener, shutdown: Shutdown) -> JoinHandle<usize> {
        // The gateway forwards bodies of any size.
        let listener = match &self {
            Self::Gateway(_) => listener,
            Self::Public(app) => listener.joining_responses().with_plain_calls(app.plain_calls()),
            Self::Admin(_) | Self::Grpc(_) => listener.joining_responses(),
        };
        let service = move |request, peer| self.call(request, peer);
        tokio::spawn(serve(listener, service, shutdown))
    }

    fn call(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ServiceBody>> + Send + use<> {
        match self {
            Self::Public(app) => match app.begin_check(request, peer) {
                Ok(call) => Call::Check { call },
                Err(request) => {
                    let call = Arc::clone(app).serve_public(request, peer);
                    Call::Boxed { call: Box::pin(async { call.await.map(ServiceBody::Http) }) }
                }
            },
            Self::Grpc(app) => Call::Grpc { call: Arc::clone(app).serve_grpc(request, peer) },
            // On the heap: a connection reserves memory for the largest call, and most are checks.
            Self::Admin(app) => {
                let call = Arc::clone(app).serve_admin(request, peer);
                Call::Boxed { call: Box::pin(async { call.await.map(ServiceBody::Http) }) }
            }
            Self::Gateway(gateway) => {
                Call::Gateway { call: Arc::clone(gateway).serve(request, peer) }
            }
        }
    }
}

type BoxedCall = Pin<Box<dyn Future<Output = Response<ServiceBody>> + Send>>;

pin_project! {
    #[project = CallProjection]
    enum Call<H, G> {
        Check { #[pin] call: H },
        Grpc { #[pin] call: G },
        Gateway { call: GatewayCall },
        Boxed { call: BoxedCall },
    }
}

impl<H, G> Future for Call<H, G>
where
    H: Future<Output = axum::response::Response>,
    G: Future<Output = Response<tonic::body::Body>>,
{
    type Output = Response<ServiceBody>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project() {
            CallProjection::Check { call } => ready!(call.poll(context)).map(ServiceBody::Http),
            CallProjection::Grpc { call } => ready!(call.poll(context)).map(ServiceBody::Grpc),
            CallProjection::Gateway { call } => {
                ready!(call.as_mut().poll(context)).map(ServiceBody::Gateway)
            }
            CallProjection::Boxed { call } => ready!(call.as_mut().poll(context)),
        })
    }
}

/// The body of a response.
#[derive(Debug)]
enum ServiceBody {
    Http(axum::body::Body),
    Grpc(tonic::body::Body),
    Gateway(GatewayBody),
}

impl Body for ServiceBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Http(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Grpc(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Gateway(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http(body) => body.is_end_stream(),
            Self::Grpc(body) => body.is_end_stream(),
            Self::Gateway(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http(body) => body.size_hint(),
            Self::Grpc(body) => body.size_hint(),
            Self::Gateway(body) => body.size_hint(),
        }
    }
}
