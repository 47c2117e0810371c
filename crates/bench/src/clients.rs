//! Requests of clients that are known by three identifiers each, so that three rules apply to a request.

use tollgate_instructions::Client;

use crate::Fallible;
use crate::keys::Draw;

const CLIENTS: u32 = 10_000;
/// How many requests are read before the first of them is checked.
const PREFETCH_CAPACITY: usize = 64;

/// Becomes another client without asking for memory.
fn turn_into(client: &mut Client, other: &Client) {
    client.user_id.clone_from(&other.user_id);
    client.ip.clone_from(&other.ip);
    client.tenant.clone_from(&other.tenant);
    client.path.clone_from(&other.path);
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
        Self::drawn_by(1, services)
    }

    pub(crate) fn drawn_by(seed: u64, services: u32) -> Self {
        Self {
            clients: Client::all(CLIENTS, services),
            draw: Draw::new(seed, u64::from(CLIENTS)),
            ahead: vec![Client::default(); PREFETCH_CAPACITY],
            refused: 0,
        }
    }

    pub(crate) fn take(&mut self, steps: u32, mut check: impl FnMut(&Client) -> bool) {
        for _ in 0..steps as usize / PREFETCH_CAPACITY {
            for ahead in &mut self.ahead {
                turn_into(ahead, &self.clients[self.draw.next() as usize]);
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
