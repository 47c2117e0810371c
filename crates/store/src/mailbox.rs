//! Messages between nodes, through the store that they share.

use sqlx::postgres::PgConnectOptions;
use tokio::sync::mpsc;

use crate::postgres::PostgresMailbox;
use crate::redis::RedisMailbox;
use crate::remote::MAX_MESSAGE_BYTES;
use crate::{RedisRuleCache, StoreError};

/// What a node listens to in its store.
#[derive(Debug, Default)]
pub struct StoreSubscriptions {
    /// The mailbox of the node, and the messages to it; `None` for counters in memory.
    pub mailbox: Option<(Mailbox, mpsc::Receiver<String>)>,
    /// The rules in Redis.
    pub rule_cache: Option<RedisRuleCache>,
}

/// Sends messages to other nodes. Messages can be lost, and anyone who can write to the store can send them.
#[derive(Debug)]
pub struct Mailbox(pub(crate) MailCarrier);

/// What carries messages.
#[derive(Debug)]
pub(crate) enum MailCarrier {
    /// Channels of Redis.
    Redis(RedisMailbox),
    /// Notifications of PostgreSQL.
    Postgres(PostgresMailbox),
}

impl Mailbox {
    /// The longest message.
    pub const MAX_MESSAGE_BYTES: usize = MAX_MESSAGE_BYTES;

    /// The name to which a message is for all nodes, the sender included. No node has it.
    pub const ALL_NODES: &str = "all";

    /// A mailbox in a database of PostgreSQL that is not the store, and the messages to the node of this name. Has to be
    /// called within a tokio runtime.
    #[must_use]
    pub fn in_database(options: PgConnectOptions, node: &str) -> (Self, mpsc::Receiver<String>) {
        let (mailbox, inbox) = PostgresMailbox::in_database(options, node);
        (Self(MailCarrier::Postgres(mailbox)), inbox)
    }

    /// Sends messages to a node. Returns false if it is known that the node does not listen.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn send(&self, node: &str, messages: &[String]) -> Result<bool, StoreError> {
        match &self.0 {
            MailCarrier::Redis(mailbox) => mailbox.send(node, messages).await,
            MailCarrier::Postgres(mailbox) => mailbox.send(node, messages).await.map(|()| true),
        }
    }
}
