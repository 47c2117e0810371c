//! A request that was recorded elsewhere than in a log: by a server that keeps its recent requests.

use std::borrow::Cow;

use tollgate_core::Timestamp;

use super::record::LogEntry;

/// A recorded request. Secrets should be digests.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrafficRequest<'a> {
    /// When it came.
    pub time: Timestamp,
    /// What it costs.
    pub cost: u64,
    /// The user.
    pub user: Option<&'a str>,
    /// The API key.
    pub api_key: Option<&'a str>,
    /// The address of the client.
    pub ip: Option<&'a str>,
    /// The tenant.
    pub tenant: Option<&'a str>,
    /// The tier of the client.
    pub tier: Option<&'a str>,
    /// The host it was sent to.
    pub host: Option<&'a str>,
    /// Its method.
    pub method: Option<&'a str>,
    /// Its path.
    pub path: Option<&'a str>,
}

impl<'a> From<&TrafficRequest<'a>> for LogEntry<'a> {
    fn from(request: &TrafficRequest<'a>) -> Self {
        let text = |text: Option<&'a str>| text.map(Cow::Borrowed);
        Self {
            cost: request.cost,
            user: text(request.user),
            api_key: text(request.api_key),
            ip: text(request.ip),
            tenant: text(request.tenant),
            tier: text(request.tier),
            host: text(request.host),
            method: text(request.method),
            path: text(request.path),
            ..Self::at(request.time)
        }
    }
}
