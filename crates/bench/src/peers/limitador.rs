//! limitador in memory with three limits, called as its interface requires: a context for every check.

use std::collections::HashMap;

use ::limitador::RateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};
use tollgate_instructions::Client;

use super::{LIMIT, WINDOW_SECONDS};
use crate::Fallible;

pub(crate) struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    /// One limit for each of the identifiers, with room for the counters of all clients.
    pub(crate) fn with_counters(clients: &[Client]) -> Fallible<Self> {
        let identifiers = ["user_id", "ip", "tenant"];
        let limiter = RateLimiter::new((clients.len() * identifiers.len() * 2) as u64);
        for identifier in identifiers {
            let variables = vec![identifier.try_into()?];
            let (limit, window) = (u64::from(LIMIT), u64::from(WINDOW_SECONDS));
            limiter.add_limit(Limit::new("bench", limit, window, vec![], variables));
        }
        let peer = Self { limiter, namespace: "bench".into() };
        clients.iter().for_each(|client| {
            peer.check(client);
        });
        Ok(peer)
    }

    pub(crate) fn check(&self, client: &Client) -> bool {
        let context = Context::from(HashMap::from([
            ("user_id".to_owned(), client.user_id.clone()),
            ("ip".to_owned(), client.ip.clone()),
            ("tenant".to_owned(), client.tenant.clone()),
        ]));
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        answer.is_ok_and(|answer| !answer.limited)
    }
}
