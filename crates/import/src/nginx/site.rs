//! Where requests are limited: servers, their locations, and the limits that each of them has.

use std::sync::Arc;

use crate::nginx::host::ServerNames;
use crate::nginx::level::BlockLevel;
use crate::nginx::place::FilePosition;

/// All places where requests can be.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// What is limited for requests that no server takes, if anything is.
    pub(super) root: Option<BlockLevel>,
    pub(super) servers: Vec<Server>,
    /// The regions of all servers. Of those that match a request, the narrowest is its own.
    pub(super) regions: Vec<Region>,
}

/// A server that lets requests in.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) place: FilePosition,
    pub(super) names: ServerNames,
    /// Whether requests for hosts that no server names come here.
    pub(super) is_default: bool,
}

/// Some of the requests to a server: those for one of its locations, or for none.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) place: FilePosition,
    /// Its index in the list of servers.
    pub(super) server: usize,
    /// Every path, if there is none.
    pub(super) pattern: Option<Arc<str>>,
    pub(super) level: BlockLevel,
    pub(super) form: LocationForm,
}

/// What a pattern does not say about a location.
#[derive(Debug, Default)]
pub(super) struct LocationForm {
    /// Whether it wins over regular expressions.
    pub(super) is_firm: bool,
    /// The path, if it is a prefix that may end within a segment.
    pub(super) loose_prefix: Option<String>,
}
