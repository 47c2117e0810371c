//! The connection to a server. It is made once for all who need it, and none of them has to wait until
//! it is there: making it may take longer than a request may, and the next request finds it.

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
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How many commands may wait to be written.
const WAITING_COMMANDS: usize = 1_024;

/// A connection that is being made, is there, or could not be made.
type Attempt = watch::Receiver<Option<Result<MultiplexedConnection, RedisError>>>;

/// The way to one server.
pub(super) struct Link {
    client: Client,
    newest: Mutex<Option<Attempt>>,
}

/// A connection that is there. Clones are one and the same.
#[derive(Clone)]
pub(super) struct Connection {
    connection: MultiplexedConnection,
    attempt: Attempt,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self { client, newest: Mutex::new(None) }
    }

    /// Begins to make the connection, if there is none.
    pub(super) fn begin_to_connect(&self) {
        drop(self.attempt());
    }

    /// The connection, once it is there.
    pub(super) async fn connection(&self) -> Result<Connection, RedisError> {
        let attempt = self.attempt();
        let made =
            attempt.clone().wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        match made {
            Some(made) => Ok(Connection { connection: made?, attempt }),
            // Nobody makes it any more, which happens when the runtime ends.
            None => Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into()),
        }
    }

    /// Sends a command. A connection that has ended while nobody used it is replaced.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        command: &Cmd,
        asks: bool,
    ) -> Result<Value, RedisError> {
        let mut sending = pin!(exchange(connection.connection.clone(), command, asks));
        match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
            Poll::Pending => return sending.await,
            // What fails before it waits for anything has not been sent.
            Poll::Ready(Err(error)) if error.is_connection_dropped() => {}
            Poll::Ready(answer) => return answer,
        }
        self.hang_up(connection);
        *connection = self.connection().await?;
        exchange(connection.connection.clone(), command, asks).await
    }

    /// Gives a connection up that does not work; those that replaced it already stay.
    pub(super) fn hang_up(&self, connection: &Connection) {
        let mut newest = self.newest.lock();
        if newest.as_ref().is_some_and(|newest| newest.same_channel(&connection.attempt)) {
            newest.take();
        }
    }

    /// The newest attempt, unless it failed: then another.
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
                // Callers have deadlines of their own.
                .set_response_timeout(None)
                .set_connection_timeout(Some(CONNECT_WITHIN))
                .set_pipeline_buffer_size(WAITING_COMMANDS);
            tokio::select! {
                connection = client.get_multiplexed_async_connection_with_config(&config) => {
                    // Whether anybody still waits or not.
                    let _ = made.send(Some(connection));
                }
                // Nobody needs it any more.
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
    // Right before the command it is for: others may use the connection in between.
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let mut values = connection.send_packed_commands(&pipeline, 0, 2).await?;
    values.pop().unwrap_or_default().extract_error()
}
