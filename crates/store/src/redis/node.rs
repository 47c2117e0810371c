//! One Redis server: calls to it, each with a timeout, and why one failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, RedisError, Value, cmd};
use tokio::time::timeout;

use super::address::Address;
use super::connection::Connection;
use crate::remote::RemoteSettings;
use crate::remote::breaker::{Breaker, Proof};
use crate::remote::clock::Moment;
use crate::{StoreError, StoreErrorKind};

/// One server.
pub(super) struct RedisNode {
    pub(super) address: Address,
    pub(super) breaker: Arc<Breaker>,
    deadline: Duration,
    link: Connection,
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The server responded with an error; nothing was changed.
    Said(RedisError),
    /// The server is unreachable or did not respond; whether anything was changed is unknown.
    Silent(StoreError),
}

impl RedisNode {
    pub(super) fn new(address: Address, client: Client, settings: &RemoteSettings) -> Self {
        let breaker = Arc::new(Breaker::new(address.to_string(), settings));
        Self { address, breaker, deadline: settings.deadline, link: Connection::new(client) }
    }

    /// Starts to connect, unless there is a connection.
    pub(super) fn begin_to_connect(&self) {
        self.link.begin_to_connect();
    }

    /// Waits until there is a connection, so that the next command is sent at once.
    pub(super) async fn is_ready(&self) -> Result<(), CallFailure> {
        match timeout(self.deadline, self.link.connection()).await {
            Ok(made) => made.map(drop).map_err(failure),
            Err(_) => Err(CallFailure::Silent(StoreErrorKind::Timeout.into())),
        }
    }

    /// Sends a command. `asks`: after `ASKING`, for a cluster node that is importing the slot.
    pub(super) async fn call(&self, command: &Cmd, asks: bool) -> Result<Value, CallFailure> {
        let began = Moment::now();
        self.breaker.count_call();
        let answer = self.exchange(command, asks).await;
        self.breaker.record_latency(began.elapsed());
        answer
    }

    /// Whether the server takes commands that write, which a replica or a full server does not. This is no call of a
    /// request, and is not counted as one. `key` is one that does not exist.
    pub(super) async fn probe(&self, key: &str) -> Result<Proof, StoreError> {
        // Refused like every command that may need memory, and writes nothing.
        let mut write_nothing = cmd("SETRANGE");
        write_nothing.arg(key).arg(0).arg("");
        match self.exchange(&write_nothing, false).await {
            // It is a server of a cluster that has other keys.
            Err(CallFailure::Said(error)) if matches!(error.code(), Some("MOVED" | "ASK")) => {
                Ok(Proof::Read)
            }
            answer => answer.map(|_| Proof::Write).map_err(StoreError::from),
        }
    }

    async fn exchange(&self, command: &Cmd, asks: bool) -> Result<Value, CallFailure> {
        let mut used = None;
        let answer = timeout(self.deadline, async {
            let connection = used.insert(self.link.connection().await?);
            self.link.send(connection, command, asks).await
        });
        let failure = match answer.await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => failure(error),
            // The connection may be half open, and then no response ever comes.
            Err(_) => CallFailure::Silent(StoreErrorKind::Timeout.into()),
        };
        if let (CallFailure::Silent(_), Some(connection)) = (&failure, &used) {
            self.link.disconnect(connection);
        }
        Err(failure)
    }
}

fn failure(error: RedisError) -> CallFailure {
    if error.is_io_error() || error.is_unrecoverable_error() || error.code().is_none() {
        CallFailure::Silent(StoreError::new(StoreErrorKind::Unavailable, error))
    } else {
        CallFailure::Said(error)
    }
}
