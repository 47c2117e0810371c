//! The connection to a server. It is opened once for all callers, in the background: connecting may take longer than
//! a request may wait, and then the next request finds it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value};
use tokio::sync::watch;

/// How long connecting may take. No request waits that long.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How many commands may wait to be written.
const PIPELINE_CAPACITY: usize = 1_024;

/// A connection that is being opened, is open, or failed.
type Attempt = watch::Receiver<Option<Result<MultiplexedConnection, RedisError>>>;

/// The connection to one server, reopened when it fails.
pub(super) struct Connection {
    client: Client,
    newest: Mutex<Option<Attempt>>,
}

/// An open connection. Clones share it.
#[derive(Clone)]
pub(super) struct OpenConnection {
    connection: MultiplexedConnection,
    attempt: Attempt,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        Self { client, newest: Mutex::new(None) }
    }

    /// Starts to connect, unless there is a connection.
    pub(super) fn begin_to_connect(&self) {
        drop(self.attempt());
    }

    /// Waits for the connection.
    pub(super) async fn connection(&self) -> Result<OpenConnection, RedisError> {
        let attempt = self.attempt();
        let made =
            attempt.clone().wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        match made {
            Some(made) => Ok(OpenConnection { connection: made?, attempt }),
            // The task was dropped, which happens when the runtime ends.
            None => Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into()),
        }
    }

    /// Sends a command. A connection that was closed while idle is replaced.
    pub(super) async fn send(
        &self,
        connection: &mut OpenConnection,
        command: &Cmd,
        asks: bool,
    ) -> Result<Value, RedisError> {
        let mut sending = pin!(exchange(connection.connection.clone(), command, asks));
        match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
            Poll::Pending => return sending.await,
            // An error without any wait means that nothing was sent.
            Poll::Ready(Err(error)) if error.is_connection_dropped() => {}
            Poll::Ready(answer) => return answer,
        }
        self.disconnect(connection);
        *connection = self.connection().await?;
        exchange(connection.connection.clone(), command, asks).await
    }

    /// Drops a connection that does not work, unless it was replaced already.
    pub(super) fn disconnect(&self, connection: &OpenConnection) {
        let mut newest = self.newest.lock();
        if newest.as_ref().is_some_and(|newest| newest.same_channel(&connection.attempt)) {
            newest.take();
        }
    }

    /// The newest attempt; a new one if that failed.
    fn attempt(&self) -> Attempt {
        let mut newest = self.newest.lock();
        match newest.as_ref() {
            Some(attempt) if !matches!(*attempt.borrow(), Some(Err(_))) => attempt.clone(),
            _ => newest.insert(self.begin()).clone(),
        }
    }

    fn begin(&self) -> Attempt {
        let (made, attempt) = watch::channel(None);
        let client = self.client.clone();
        tokio::spawn(async move {
            let config = AsyncConnectionConfig::new()
                // Callers have separate timeouts.
                .set_response_timeout(None)
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_pipeline_buffer_size(PIPELINE_CAPACITY);
            tokio::select! {
                connection = client.get_multiplexed_async_connection_with_config(&config) => {
                    // All callers may have stopped waiting.
                    let _ = made.send(Some(connection));
                }
                // The connection is no longer needed.
                () = made.closed() => {}
            }
        });
        attempt
    }
}

async fn exchange(
    mut connection: MultiplexedConnection,
    command: &Cmd,
    asks: bool,
) -> Result<Value, RedisError> {
    if !asks {
        return connection.send_packed_command(command).await?.extract_error();
    }
    // Right before its command: other callers may use the connection in between.
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let mut values = connection.send_packed_commands(&pipeline, 0, 2).await?;
    values.pop().unwrap_or_default().extract_error()
}
