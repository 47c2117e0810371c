//! What a node sends to the others: its announcement, and the figures that they ask for.

use tollgate::store::Mailbox;

use super::query::{FigureQuery, FigureResponse, SENT_ENTRIES};
use super::sealed::{FigureHead, FigureMessageKind, FigureNumber};
use crate::app::fleet_secret::FleetSecret;
use crate::app::state::Shared;
use crate::observe::recent_traffic::top::TopAsk;

impl Shared {
    /// Announces this node to the others.
    pub(super) async fn announce(&self, mailbox: &Mailbox, secret: &FleetSecret) {
        let Some(number) = FigureNumber::random() else { return };
        let (kind, sender) = (FigureMessageKind::Announcement, self.fleet_figures.node);
        let head = FigureHead { kind, sender, receiver: None, number };
        let content = serde_json::to_vec(&self.announcement(self.now())).unwrap_or_default();
        let Some(texts) = head.seal(secret, &content) else { return };
        if let Err(error) = mailbox.send(Mailbox::ALL_NODES, &texts).await {
            tracing::debug!("this node cannot announce itself: {error}");
        }
    }

    /// Responds to another node.
    pub(super) async fn respond_with_figures(
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
