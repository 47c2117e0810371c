//! Clients of a service, known by three identifiers each, so that three rules apply to a request.

use tollgate::Request;

/// How many clients there are. Together with their counters they fit into the cache, so that the
/// rows that use them measure matching and judging rather than memory.
pub(crate) const CLIENTS: u32 = 10_000;

/// What is known about the requests of one client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) user_id: String,
    pub(crate) ip: String,
    pub(crate) tenant: String,
    /// Each client uses one of the services, so that rules add no counters.
    pub(crate) path: String,
}

impl Client {
    /// All clients, spread over so many services.
    pub(crate) fn all(services: u32) -> Vec<Self> {
        let client = |number: u32| Self {
            user_id: format!("user-{number:08x}"),
            ip: format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255),
            tenant: format!("tenant-{number:05}"),
            path: format!("/service-{}/orders/{number}", number % services.max(1)),
        };
        (0..CLIENTS).map(client).collect()
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request::new()
            .user_id(&self.user_id)
            .ip(&self.ip)
            .tenant(&self.tenant)
            .method("GET")
            .path(&self.path)
    }
}
