//! Messages between the nodes that count in one Redis: a channel for each node, `tg:node:` and its name, and one for all
//! of them.

use std::sync::Arc;

use redis::{Value, cmd};
use tokio::sync::mpsc;

use super::address::{Discovery, RedisUrl};
use super::listener::{Heard, Listener, ListenerTask, Topic};
use super::rule_cache::{RedisRuleCache, RuleServer};
use crate::StoreError;
use crate::mailbox::Mailbox;
use crate::remote::{INBOX_CAPACITY, MARK_NAME, MAX_MESSAGE_BYTES, RemoteSettings};

const NODE_CHANNEL: &str = "node:";

/// Sends messages to other nodes, and receives those to this one.
#[derive(Debug)]
pub(crate) struct RedisMailbox {
    place: Arc<RuleServer>,
    prefix: String,
    is_cluster: bool,
    /// `None` if the rule cache listens for both.
    _listener: Option<ListenerTask>,
}

/// What a node gets by its subscriptions.
pub(crate) struct RedisSubscriptions {
    pub(crate) mailbox: RedisMailbox,
    pub(crate) inbox: mpsc::Receiver<String>,
    /// The rule cache, if it was asked for. It shares the connection of the mailbox.
    pub(crate) rule_cache: Option<RedisRuleCache>,
}

impl RedisMailbox {
    /// Starts to listen for messages to a node, and for rules if `has_rules`. Has to be called within a tokio runtime.
    pub(crate) fn connect(
        url: &str,
        node: &str,
        has_rules: bool,
        settings: &RemoteSettings,
    ) -> Result<RedisSubscriptions, String> {
        let url = RedisUrl::parse(url)?;
        let is_cluster = matches!(url.kind, Discovery::Cluster);
        let prefix = url.prefix.clone();
        let (sender, inbox) = mpsc::channel(INBOX_CAPACITY);
        let hear = |sender: mpsc::Sender<String>| {
            move |heard: Heard<'_>| {
                if let Heard::Message(message) = heard
                    && message.len() <= MAX_MESSAGE_BYTES
                    && let Ok(message) = str::from_utf8(message)
                {
                    // A full inbox loses messages, as a broken connection does.
                    let _ = sender.try_send(message.to_owned());
                }
            }
        };
        let topics = [node, Mailbox::ALL_NODES].map(|node| {
            let channel = format!("{prefix}{NODE_CHANNEL}{node}");
            Topic::new(channel, "messages of other nodes", hear(sender.clone()))
        });
        if has_rules {
            let (rule_cache, place) = RedisRuleCache::start(url, settings, topics.into())?;
            let mailbox = Self { place, prefix, is_cluster, _listener: None };
            return Ok(RedisSubscriptions { mailbox, inbox, rule_cache: Some(rule_cache) });
        }
        // A command that nodes which only count are permitted too.
        let key = format!("{prefix}{MARK_NAME}");
        let mut probe = cmd("GETRANGE");
        probe.arg(&key).arg(0).arg(0);
        let place = Arc::new(RuleServer::new(url, &key, settings)?);
        let _listener = Some(Listener::start(Arc::clone(&place), probe, topics.into()));
        let mailbox = Self { place, prefix, is_cluster, _listener };
        Ok(RedisSubscriptions { mailbox, inbox, rule_cache: None })
    }

    /// Sends messages to a node, in order. Returns false if it is known that the node does not listen.
    pub(crate) async fn send(&self, node: &str, messages: &[String]) -> Result<bool, StoreError> {
        let channel = format!("{}{NODE_CHANNEL}{node}", self.prefix);
        for message in messages {
            let mut publish = cmd("PUBLISH");
            publish.arg(&channel).arg(message);
            let heard = self.place.call(&publish).await?;
            // A cluster node counts only its own subscribers.
            if heard == Value::Int(0) && !self.is_cluster {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
