//! What a node sends to the others: its announcement, and the figures that they ask for.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate::store::{BreakerState, Mailbox};
use tollgate::{Stopwatch, Timestamp};

use super::nodes::Announcement;
use super::query::{FigureQuery, FigureResponse, SENT_ENTRIES};
use super::sealed::{FigureHead, FigureMessageKind, FigureNumber};
use crate::app::fleet_secret::FleetSecret;
use crate::app::readiness::NodeReadiness;
use crate::app::state::Shared;
use crate::observe::recent_traffic::top::TopAsk;

/// How often a node announces itself.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a node that ends waits until its farewell is sent.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(500);
/// The time from one response to the next, at least.
const MIN_RESPONSE_INTERVAL: Duration = Duration::from_millis(2);
/// For each moment that a response takes, this many pass until the next: a flood of queries takes a fifth of a processor.
const PAUSE_FACTOR: u32 = 4;
/// How many queries are remembered.
const MAX_ANSWERED: usize = 256;

/// The last queries that were responded to. Any client of the store can send a sealed query once more.
#[derive(Debug, Default)]
struct AnsweredQueries(VecDeque<FigureNumber>);

impl AnsweredQueries {
    /// Whether a query is not a copy of one of the last.
    fn is_new(&mut self, number: FigureNumber) -> bool {
        if self.0.contains(&number) {
            return false;
        }
        if self.0.len() >= MAX_ANSWERED {
            self.0.pop_front();
        }
        self.0.push_back(number);
        true
    }
}

impl Shared {
    /// What this node says of itself.
    pub(super) fn announcement(&self, now: Timestamp) -> Announcement {
        let (in_force, readiness) = (self.policy_source.in_force(), self.readiness());
        let servers = self.limiter.store().status();
        let up = servers.iter().filter(|server| server.breaker == BreakerState::Closed).count();
        let away = servers.iter().find(|server| server.breaker != BreakerState::Closed);
        let failure = away.and_then(|server| server.failure);
        let last = self.history.last().map(|point| point.requests).unwrap_or_default();
        Announcement {
            host: self.fleet_figures.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.fleet_figures.started.as_micros(),
            revision: in_force.revision.number,
            revision_since: in_force.since.as_micros(),
            file_digest: in_force.file_digest,
            envoy_digest: self.envoy.source.file_digest(),
            requests_per_second: last.all() as f64,
            refused_per_second: (last.refused + last.denied + last.error) as f64,
            store_servers_up: u32::try_from(up).unwrap_or(u32::MAX),
            store_servers: u32::try_from(servers.len()).unwrap_or(u32::MAX),
            store_failure: failure.map(|kind| kind.name().to_owned()),
            is_waiting: readiness == NodeReadiness::WaitingForCatalog,
            is_draining: readiness == NodeReadiness::Draining,
            is_farewell: false,
            at: now.as_micros(),
        }
    }

    /// Announces this node to the others, and responds to their queries, until it is dropped.
    pub(crate) async fn exchange_figures(&self) {
        let Some(mailbox) = self.remote_journal.mailbox() else { return };
        let Some(mut queries) = self.fleet_figures.queries.lock().take() else { return };
        let announcing = async {
            loop {
                self.learn_secret().await;
                if let Some(secret) = self.fleet.secret() {
                    self.announce(mailbox, secret).await;
                }
                sleep(ANNOUNCE_INTERVAL).await;
            }
        };
        let responding = async {
            let mut answered = AnsweredQueries::default();
            while let Some((head, query)) = queries.recv().await {
                if !answered.is_new(head.number) {
                    continue;
                }
                let watch = Stopwatch::start();
                if let Some(secret) = self.fleet.secret() {
                    self.respond_with_figures(mailbox, secret, head, query).await;
                }
                sleep(MIN_RESPONSE_INTERVAL.max(watch.elapsed() * PAUSE_FACTOR)).await;
            }
        };
        tokio::join!(announcing, responding);
    }

    /// Tells the others that this node ends, so that they do not miss it.
    pub(crate) async fn say_farewell(&self) {
        let (Some(mailbox), Some(secret)) = (self.remote_journal.mailbox(), self.fleet.secret())
        else {
            return;
        };
        let last = Announcement { is_farewell: true, ..self.announcement(self.now()) };
        let _ = timeout(FAREWELL_TIMEOUT, self.send_announcement(mailbox, secret, &last)).await;
    }

    /// Announces this node to the others.
    async fn announce(&self, mailbox: &Mailbox, secret: &FleetSecret) {
        let now = self.now();
        self.fleet_figures.exchange.note_announcement(now);
        self.send_announcement(mailbox, secret, &self.announcement(now)).await;
    }

    async fn send_announcement(
        &self,
        mailbox: &Mailbox,
        secret: &FleetSecret,
        said: &Announcement,
    ) {
        let Some(number) = FigureNumber::random() else { return };
        let (kind, sender) = (FigureMessageKind::Announcement, self.fleet_figures.node);
        let head = FigureHead { kind, sender, receiver: None, number };
        let content = serde_json::to_vec(said).unwrap_or_default();
        let Some(texts) = head.seal(secret, &content) else { return };
        if let Err(error) = mailbox.send(Mailbox::ALL_NODES, &texts).await {
            tracing::debug!("this node cannot announce itself: {error}");
        }
    }

    /// Responds to another node.
    async fn respond_with_figures(
        &self,
        mailbox: &Mailbox,
        secret: &FleetSecret,
        asked: FigureHead,
        query: FigureQuery,
    ) {
        let response = match query {
            FigureQuery::Top(ask) => {
                let limit = ask.limit.min(SENT_ENTRIES);
                FigureResponse::Top(self.own_top(TopAsk { limit, ..ask }).await)
            }
            FigureQuery::Stats => FigureResponse::Stats(self.own_stats().into()),
            FigureQuery::Tail(ask) => FigureResponse::Tail(self.sent_tail(ask)),
        };
        let (kind, number) = (FigureMessageKind::Response, asked.number);
        let (sender, receiver) = (self.fleet_figures.node, Some(asked.sender));
        let head = FigureHead { kind, sender, receiver, number };
        let content = serde_json::to_vec(&response).unwrap_or_default();
        let Some(texts) = head.seal(secret, &content) else { return };
        if let Err(error) = mailbox.send(&asked.sender.text(), &texts).await {
            tracing::debug!("figures were not sent to another node: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query that was sent again 200 times a second kept a node busy.
    #[test]
    fn a_copy_of_a_query_is_not_responded_to() {
        let mut answered = AnsweredQueries::default();
        let number = || FigureNumber::random().expect("random bytes");
        let first = number();
        assert!(answered.is_new(first) && !answered.is_new(first));
        for _ in 0..MAX_ANSWERED {
            assert!(answered.is_new(number()));
        }
        assert_eq!(answered.0.len(), MAX_ANSWERED);
    }
}
