//! Clients of a service, known by three identifiers each, so that three rules apply to a request.

use tollgate::Request;

use crate::Fallible;
use crate::keys::Draw;

const CLIENTS: u32 = 10_000;
/// How many requests are read before the first of them is checked.
const PREFETCH_CAPACITY: usize = 64;

/// What is known about the requests of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) user_id: String,
    pub(crate) ip: String,
    pub(crate) tenant: String,
    /// Each client uses one of the services, so that rules add no counters.
    pub(crate) path: String,
}

impl Client {
    /// All clients, spread over so many services.
    fn all(services: u32) -> Vec<Self> {
        let client = |number: u32| Self {
            user_id: format!("user-{number:08x}"),
            ip: format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255),
            tenant: format!("tenant-{number:05}"),
            path: format!("/service-{}/orders/{number}", number % services.max(1)),
        };
        (0..CLIENTS).map(client).collect()
    }

    /// Becomes another client without asking for memory.
    fn turn_into(&mut self, other: &Self) {
        self.user_id.clone_from(&other.user_id);
        self.ip.clone_from(&other.ip);
        self.tenant.clone_from(&other.tenant);
        self.path.clone_from(&other.path);
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

/// Requests of clients drawn at random. They are copied ahead of their checks, so that their texts
/// are as warm as those that a server has just read.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) clients: Vec<Client>,
    draw: Draw,
    ahead: Vec<Client>,
    refused: u64,
}

impl Requests {
    pub(crate) fn over_services(services: u32) -> Self {
        Self {
            clients: Client::all(services),
            draw: Draw::new(1, u64::from(CLIENTS)),
            ahead: vec![Client::default(); PREFETCH_CAPACITY],
            refused: 0,
        }
    }

    pub(crate) fn take(&mut self, steps: u32, mut check: impl FnMut(&Client) -> bool) {
        for _ in 0..steps as usize / PREFETCH_CAPACITY {
            for ahead in &mut self.ahead {
                ahead.turn_into(&self.clients[self.draw.next() as usize]);
            }
            for client in &self.ahead {
                self.refused += u64::from(!check(client));
            }
        }
    }

    /// A refused check writes nothing and would be measured as a fast one.
    pub(crate) fn expect_all_admitted(&self) -> Fallible<()> {
        match self.refused {
            0 => Ok(()),
            refused => Err(format!("{refused} checks were refused").into()),
        }
    }
}
