//! `grpc.health.v1.Health`: one status for all services of this server.

use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{RATELIMIT, auth, rls, v1};

/// The names that have a status; the empty one stands for the server.
const NAMES: [&str; 5] = ["", v1::SERVICE_NAME, rls::SERVICE_NAME, auth::SERVICE_NAME, RATELIMIT];

/// What the server does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServingState {
    Serving,
    /// Load balancers should use other servers.
    NotServing,
    /// Streams that have no end would keep the server from ending.
    EndingStreams,
}

impl ServingState {
    const fn status(self) -> ServingStatus {
        match self {
            Self::Serving => ServingStatus::Serving,
            Self::NotServing | Self::EndingStreams => ServingStatus::NotServing,
        }
    }
}

/// Waits until streams without an end are ended.
pub(super) async fn until_streams_end(state: &mut watch::Receiver<ServingState>) {
    // It fails if the server is gone.
    let _ = state.wait_for(|state| *state == ServingState::EndingStreams).await;
}

/// The service.
#[derive(Debug)]
pub(super) struct HealthChecks(pub(super) watch::Receiver<ServingState>);

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for HealthChecks {
    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if NAMES.contains(&&*request.get_ref().service) {
            return Ok(Response::new(response(self.0.borrow().status())));
        }
        Err(Status::not_found("there is no such service here"))
    }

    /// Sends the status and every change of it. A service that is not known may come with a later version of the
    /// server, so its stream stays open, as the protocol says.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = NAMES.contains(&&*request.get_ref().service);
        let mut state = self.0.clone();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut sent = None;
            loop {
                let now = *state.borrow_and_update();
                let status = if is_known { now.status() } else { ServingStatus::ServiceUnknown };
                if sent != Some(status) {
                    if sender.send(Ok(response(status))).await.is_err() {
                        return;
                    }
                    sent = Some(status);
                }
                if now == ServingState::EndingStreams {
                    return;
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
