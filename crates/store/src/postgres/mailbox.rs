//! Messages between the nodes that share a database: a channel for each node, `tollgate_node_` and its name, and one for
//! all of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::PostgresStore;
use super::database::Database;
use super::failure::BatchFailure;
use crate::StoreError;
use crate::mailbox::Mailbox;
use crate::remote::INBOX_CAPACITY;

const SEND: &str = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
/// How long a listener may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before a lost listener connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Sends messages to other nodes, and receives those to this one.
pub(crate) struct PostgresMailbox {
    sender: MailSender,
    listener: JoinHandle<()>,
}

/// The connections that messages are sent on.
enum MailSender {
    /// Those of the store.
    Store(Arc<Database>),
    /// One to a database that is not the store.
    Other(PgPool),
}

/// Omits the connection, which has a password.
impl fmt::Debug for PostgresMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresMailbox").finish_non_exhaustive()
    }
}

impl Drop for PostgresMailbox {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl PostgresMailbox {
    /// Starts to listen for messages to a node. Has to be called within a tokio runtime.
    pub(crate) fn connect(store: &PostgresStore, node: &str) -> (Self, mpsc::Receiver<String>) {
        let database = Arc::clone(&store.database);
        let (sender, inbox) = mpsc::channel(INBOX_CAPACITY);
        let options = database.connections.options().clone();
        let listener = tokio::spawn(listen(options, channel(node), sender));
        (Self { sender: MailSender::Store(database), listener }, inbox)
    }

    /// Starts to listen in a database that is not the store. Has to be called within a tokio runtime.
    pub(crate) fn in_database(
        options: PgConnectOptions,
        node: &str,
    ) -> (Self, mpsc::Receiver<String>) {
        let (sender, inbox) = mpsc::channel(INBOX_CAPACITY);
        let one = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECT_TIMEOUT);
        let pool = one.connect_lazy_with(options.clone());
        let listener = tokio::spawn(listen(options, channel(node), sender));
        (Self { sender: MailSender::Other(pool), listener }, inbox)
    }

    /// Sends messages to a node.
    pub(crate) async fn send(&self, node: &str, messages: &[String]) -> Result<(), StoreError> {
        let database = match &self.sender {
            MailSender::Store(database) => database,
            MailSender::Other(pool) => {
                let sending = sqlx::query(SEND).bind(channel(node)).bind(messages).execute(pool);
                return match timeout(CONNECT_TIMEOUT, sending).await {
                    Ok(sent) => sent.map(drop).map_err(|it| BatchFailure::final_one(it).error()),
                    Err(_) => Err(BatchFailure::late().error()),
                };
            }
        };
        let connections = &database.connections;
        let mut connection = connections.take().await.map_err(|failure| failure.error())?;
        let sending = sqlx::query(SEND).bind(channel(node)).bind(messages);
        let sending = sending.execute(&mut connection);
        let sent = match timeout(database.settings.deadline, sending).await {
            Ok(sent) => sent.map(drop).map_err(BatchFailure::final_one),
            Err(_) => Err(BatchFailure::late()),
        };
        match sent {
            Ok(()) => {
                connections.give_back(connection);
                Ok(())
            }
            Err(failure) => {
                connections.learn(&failure);
                Err(failure.error())
            }
        }
    }
}

fn channel(node: &str) -> String {
    format!("tollgate_node_{node}")
}

fn all_nodes() -> String {
    channel(Mailbox::ALL_NODES)
}

/// Hands on notifications, and connects again whenever the connection is lost.
async fn listen(options: PgConnectOptions, channel: String, inbox: mpsc::Sender<String>) {
    loop {
        if let Ok(mut listener) = listener(&options, &channel).await {
            while let Ok(Some(heard)) = listener.try_recv().await {
                // A full inbox loses messages, as a broken connection does.
                let _ = inbox.try_send(heard.payload().to_owned());
            }
        }
        sleep(RECONNECT_DELAY).await;
    }
}

async fn listener(options: &PgConnectOptions, channel: &str) -> Result<PgListener, sqlx::Error> {
    let one = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECT_TIMEOUT);
    let mut listener = PgListener::connect_with(&one.connect_lazy_with(options.clone())).await?;
    listener.listen_all([channel, &all_nodes()]).await?;
    Ok(listener)
}
