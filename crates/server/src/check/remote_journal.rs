//! Decisions of other nodes: a node asks the one that made a decision, through the store that they share, and responds
//! to others from its journal. Checks take no part in it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tollgate::store::Mailbox;

use super::decision_id::{DecisionId, NodeName};
use super::journal_query::{
    Direction, JournalQuery, MAX_RESPONSE_BYTES, QueryMessage, QueryNumber,
};
use crate::app::fleet_secret::FleetSecret;
use crate::app::state::Shared;
use crate::edge::http::handlers::decisions::explain;
use crate::edge::http::handlers::recorded_request::add_kept;

/// How long a query may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How many queries of other nodes wait for a response; more are lost.
const MAX_WAITING_QUERIES: usize = 64;
/// The time from one response to the next, at least: a flood of queries takes little of this node's time.
const MIN_RESPONSE_INTERVAL: Duration = Duration::from_millis(2);

/// What another node says of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteDecision {
    /// Its explanation, as JSON.
    Explained(String),
    /// It was refunded. Nodes of earlier versions do not explain those.
    GivenBack,
    /// The node does not remember it.
    Forgotten,
    /// Its explanation is too long.
    TooLong,
    /// The node did not respond: it is gone, or the store is unavailable.
    Silent,
}

impl RemoteDecision {
    fn write(&self) -> Vec<u8> {
        match self {
            Self::Explained(json) => [b"e".as_slice(), json.as_bytes()].concat(),
            Self::GivenBack => b"g".to_vec(),
            Self::TooLong => b"l".to_vec(),
            Self::Forgotten | Self::Silent => b"f".to_vec(),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        match bytes.split_first() {
            Some((b'e', json)) => {
                String::from_utf8(json.to_vec()).map_or(Self::Silent, Self::Explained)
            }
            Some((b'g', [])) => Self::GivenBack,
            Some((b'l', [])) => Self::TooLong,
            Some((b'f', [])) => Self::Forgotten,
            // A node of a later version.
            _ => Self::Silent,
        }
    }
}

/// Asks other nodes for their decisions.
#[derive(Debug)]
pub(crate) struct RemoteJournal {
    node: NodeName,
    mailbox: Option<Mailbox>,
    /// Messages to this node, until they are read.
    inbox: Mutex<Option<mpsc::Receiver<String>>>,
    pending: Mutex<HashMap<QueryNumber, PendingQuery>>,
}

/// A query that waits for its response.
#[derive(Debug)]
struct PendingQuery {
    query: JournalQuery,
    id: DecisionId,
    parts: Vec<Option<Vec<u8>>>,
    done: oneshot::Sender<Vec<u8>>,
}

/// Forgets a query when its caller has the response, or stopped waiting.
struct PendingPlace<'j> {
    journal: &'j RemoteJournal,
    number: QueryNumber,
}

impl Drop for PendingPlace<'_> {
    fn drop(&mut self) {
        self.journal.pending.lock().remove(&self.number);
    }
}

impl RemoteJournal {
    /// `mailbox` is that of this node, with the messages to it; `None` if nodes share neither a store nor a database.
    pub(crate) fn new(node: NodeName, mailbox: Option<(Mailbox, mpsc::Receiver<String>)>) -> Self {
        let (mailbox, inbox) = mailbox.unzip();
        Self { node, mailbox, inbox: Mutex::new(inbox), pending: Mutex::default() }
    }

    /// The mailbox of this node.
    pub(crate) const fn mailbox(&self) -> Option<&Mailbox> {
        self.mailbox.as_ref()
    }

    /// Asks the node that made a decision. Takes at most a second. The caller bounds how many calls there are.
    pub(crate) async fn ask(&self, secret: &FleetSecret, id: DecisionId) -> RemoteDecision {
        let asked = timeout(QUERY_TIMEOUT, self.exchange(secret, id)).await;
        asked.ok().flatten().map_or(RemoteDecision::Silent, |it| RemoteDecision::read(&it))
    }

    async fn exchange(&self, secret: &FleetSecret, id: DecisionId) -> Option<Vec<u8>> {
        let mailbox = self.mailbox.as_ref()?;
        let number = QueryNumber::random()?;
        let query = JournalQuery { asker: self.node, owner: id.node, number };
        let message = query.ask(secret, id)?;
        let (done, response) = oneshot::channel();
        let pending = PendingQuery { query, id, parts: Vec::new(), done };
        self.pending.lock().insert(number, pending);
        let _place = PendingPlace { journal: self, number };
        match mailbox.send(&id.node.text(), &[message]).await {
            Ok(true) => response.await.ok(),
            Ok(false) => None,
            Err(error) => {
                tracing::debug!("another node cannot be asked for a decision: {error}");
                None
            }
        }
    }

    /// Takes a part of a response. One that does not belong to a query of this node is ignored.
    fn accept(&self, secret: &FleetSecret, message: &QueryMessage) {
        let mut all = self.pending.lock();
        let Some(pending) = all.get_mut(&message.query.number) else { return };
        if pending.query != message.query {
            return;
        }
        let Some(content) = message.response(secret, pending.id) else {
            tracing::warn!("a response for decision {} is forged", pending.id);
            return;
        };
        pending.parts.resize(usize::from(message.parts), None);
        if let Some(part) = pending.parts.get_mut(usize::from(message.part)) {
            *part = Some(content);
        }
        let whole: Option<Vec<&[u8]>> = pending.parts.iter().map(Option::as_deref).collect();
        if let Some(whole) = whole.map(|parts| parts.concat())
            && let Some(pending) = all.remove(&message.query.number)
        {
            // The caller may have stopped waiting.
            let _ = pending.done.send(whole);
        }
    }
}

impl Shared {
    /// Responds to queries of other nodes, receives their responses, and passes on messages about figures, until it is
    /// dropped.
    pub(crate) async fn exchange_journals(&self) {
        let Some(mut inbox) = self.remote_journal.inbox.lock().take() else { return };
        let (waiting, mut queries) = mpsc::channel(MAX_WAITING_QUERIES);
        let hearing = async move {
            while let Some(text) = inbox.recv().await {
                let Some(secret) = self.fleet.secret() else { continue };
                if self.fleet_figures.hear(secret, &text, self.now()) {
                    continue;
                }
                let Some(message) = QueryMessage::read(&text) else { continue };
                match message.direction {
                    Direction::Response => self.remote_journal.accept(secret, &message),
                    // The node that asked gives up after a while.
                    Direction::Query => drop(waiting.try_send(message)),
                }
            }
        };
        let responding = async {
            while let Some(message) = queries.recv().await {
                self.respond_to(&message).await;
                sleep(MIN_RESPONSE_INTERVAL).await;
            }
        };
        tokio::join!(hearing, responding);
    }

    async fn respond_to(&self, message: &QueryMessage) {
        let QueryMessage { query, .. } = message;
        let RemoteJournal { node, mailbox: Some(mailbox), .. } = &self.remote_journal else {
            return;
        };
        let Some(secret) = self.fleet.secret().filter(|_| query.owner == *node) else { return };
        let Some(id) = message.asked(secret) else {
            tracing::debug!("a query for a decision is forged");
            return;
        };
        let explained = self
            .journal
            .with(id, |decision, is_refunded| explain(&id.text(), decision, is_refunded))
            .map(|explained| add_kept(self, &id.text(), explained));
        let response = match explained {
            Ok(json) if json.len() >= MAX_RESPONSE_BYTES => RemoteDecision::TooLong,
            Ok(json) => RemoteDecision::Explained(json),
            Err(_) => RemoteDecision::Forgotten,
        };
        let Some(messages) = query.respond(secret, id, &response.write()) else { return };
        if let Err(error) = mailbox.send(&query.asker.text(), &messages).await {
            tracing::debug!("a response to another node was not sent: {error}");
        }
    }
}
