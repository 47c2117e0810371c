//! Checks that bypass the HTTP library, if they are plain and nothing has to be awaited.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use super::App;
use crate::admin::auth::Right;
use crate::edge::host_check::HostCheck;
use crate::edge::http::handlers::check;
use crate::edge::http::wire::plain_call::PlainCall;
use crate::edge::listen::{Peer, PlainCalls};

impl App {
    /// Responds to checks that are read from the bytes of their connection; `None` if all have to go their usual way: it is
    /// known only later whether the caller stays, or a span or other fields are to be added.
    pub(crate) fn plain_calls(self: &Arc<Self>) -> Option<PlainCalls> {
        let is_usual = self.traces.is_some() || self.version_fields.is_some();
        if is_usual || self.state.can_callers_leave() {
            return None;
        }
        let app = Arc::clone(self);
        Some(PlainCalls::new(move |bytes, peer, out| app.respond_plainly(bytes, peer, out)))
    }

    /// Responds to the plain call that the bytes begin with, and returns how many it takes; `None` if it goes its usual way.
    fn respond_plainly(&self, bytes: &[u8], peer: Peer, out: &mut Vec<u8>) -> Option<usize> {
        let call = PlainCall::read(bytes)?;
        let PlainCall { host, authorization, body, bytes } = call;
        let is_known = |check: &HostCheck| host.is_empty() || check.is_known(host);
        if body.len() > self.state.body_bytes || !self.host_check.as_ref().is_none_or(is_known) {
            return None;
        }
        let tokens = &self.state.tokens;
        if tokens.needs_token(peer.certificate, Right::Caller) {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, authorization?.parse().ok()?);
            // A wrong token is counted on the usual way.
            tokens.admit(&headers, peer.certificate, Right::Caller, self.state.now()).ok()?;
        }
        if !check::respond_plainly(&self.state, body, out) {
            return None;
        }
        self.state.metrics.count_response(StatusCode::OK);
        Some(bytes)
    }
}
