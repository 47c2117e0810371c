//! The copy of the whole policy, in Redis, for nodes that have neither the catalog nor a copy on their disk.
//!
//! It is a hash, `ratelimit:policy:active`. What it holds is sealed before it comes here: this module only moves bytes.
//! A copy is written chunk by chunk, so that no call occupies Redis for long, and comes into effect by one call, which
//! compares revisions: an older copy does not replace a newer one.

use std::fmt;

use redis::{Cmd, Value, cmd};

use super::address::{DEFAULT_PREFIX, RedisUrl};
use super::node::CallFailure;
use super::rule_cache::{CHANNEL, PublishedRules, RuleServer, read_revision};
use crate::StoreError;
use crate::remote::RemoteSettings;
use crate::remote::clock::wall_clock;

const COPY_KEY: &str = "ratelimit:policy:active";
const SCRIPT: &str = include_str!("copy.lua");
/// The most bytes of a chunk.
const MAX_CHUNK_BYTES: usize = 256 * 1024;
/// The most chunks of a copy.
const MAX_CHUNKS: usize = 256;
/// The most bytes of a header.
const MAX_HEADER_BYTES: usize = 1024;
/// How often a copy that is replaced while it is read is read again.
const MAX_READS: usize = 5;

/// A sealed copy of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPolicy {
    /// The epoch of its revision.
    pub epoch: u64,
    /// The number of its revision.
    pub number: u64,
    /// Hexadecimal digits that no other copy has.
    pub id: String,
    /// What authenticates the chunks.
    pub header: Vec<u8>,
    /// The policy in parts of at most [`SealedPolicy::CHUNK_BYTES`].
    pub chunks: Vec<Vec<u8>>,
}

impl SealedPolicy {
    /// The most bytes of a chunk.
    pub const CHUNK_BYTES: usize = MAX_CHUNK_BYTES;
    /// The most bytes of all chunks.
    pub const MAX_BYTES: usize = MAX_CHUNK_BYTES * MAX_CHUNKS;

    /// The size of the policy as it is in Redis.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

/// What Redis says of the copy there. Anyone who can write to Redis can have written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyCopyHead {
    /// Epoch and number, by which writers compare; `None` if it is not a revision.
    pub revision: Option<(u64, u64)>,
    /// What authenticates the chunks; empty if it is missing.
    pub header: Vec<u8>,
    id: String,
    chunks: usize,
}

/// The result of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyPublication {
    /// It is the copy in Redis.
    Published,
    /// The copy in Redis is as new or newer.
    NotNewer,
    /// Another node began to write a copy at the same time.
    Overtaken,
}

/// Why the copy could not be read or written.
#[derive(Debug)]
pub enum PolicyCopyError {
    /// Redis is unreachable, too slow, or refused the call.
    Redis(StoreError),
    /// What is there is not a whole copy: the key, and why.
    Broken(String),
    /// The copy is too large: its size.
    TooLarge(usize),
}

/// The copy of the policy in Redis, on connections that counters do not share.
#[derive(Debug)]
pub struct RedisPolicyCopy {
    place: RuleServer,
    key: String,
    channel: String,
}

impl RedisPolicyCopy {
    /// The copy in the Redis at a URL, which is connected to when it is needed. URLs are those of
    /// [`RedisStore`](super::RedisStore).
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn connect(url: &str, settings: &RemoteSettings) -> Result<Self, String> {
        let url = RedisUrl::parse(url)?;
        let prefix = if url.prefix == DEFAULT_PREFIX { "" } else { &url.prefix };
        let (key, channel) = (format!("{prefix}{COPY_KEY}"), format!("{prefix}{CHANNEL}"));
        let place = RuleServer::new(url, &key, settings)?;
        Ok(Self { place, key, channel })
    }

    /// What Redis says of the copy there; `None` if there is none.
    ///
    /// # Errors
    /// Redis does not respond, or the key holds something else.
    pub async fn head(&self) -> Result<Option<PolicyCopyHead>, PolicyCopyError> {
        let fields = ["#revision", "#header", "#id", "#chunks"];
        let values = self.fields(MAX_HEADER_BYTES, &fields).await?;
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut values = values.into_iter().map(Option::unwrap_or_default);
        let mut next = || values.next().unwrap_or_default();
        let mut text = || String::from_utf8(next()).unwrap_or_default();
        let revision = read_revision(&text());
        let header = next();
        let mut text = || String::from_utf8(next()).unwrap_or_default();
        let (id, chunks) = (text(), text().parse().unwrap_or(0));
        Ok(Some(PolicyCopyHead { revision, header, id, chunks }))
    }

    /// The copy in Redis; `None` if there is none.
    ///
    /// # Errors
    /// Redis does not respond, or what is there is not whole.
    pub async fn read(&self) -> Result<Option<SealedPolicy>, PolicyCopyError> {
        let mut problem = self.broken("it changes too often to be read");
        for _ in 0..MAX_READS {
            let Some(head) = self.head().await? else { return Ok(None) };
            match self.read_chunks(&head).await {
                Ok(policy) => return Ok(Some(policy)),
                Err(PolicyCopyError::Broken(why)) => problem = PolicyCopyError::Broken(why),
                Err(error) => return Err(error),
            }
            // A copy that was replaced meanwhile has another head; one that is broken stays broken.
            if self.head().await?.as_ref() == Some(&head) {
                return Err(problem);
            }
        }
        Err(problem)
    }

    async fn read_chunks(&self, head: &PolicyCopyHead) -> Result<SealedPolicy, PolicyCopyError> {
        let (epoch, number) =
            head.revision.ok_or_else(|| self.broken("the field #revision is missing or broken"))?;
        if head.header.is_empty() {
            return Err(self.broken("the field #header is missing"));
        }
        if !(1..=MAX_CHUNKS).contains(&head.chunks) {
            return Err(self.broken("the field #chunks is missing or broken"));
        }
        let mut chunks = Vec::with_capacity(head.chunks);
        for place in 1..=head.chunks {
            let field = chunk_field(&head.id, place);
            let chunk = self.fields(MAX_CHUNK_BYTES, &[&field]).await?.pop().flatten();
            let missing = || self.broken(&format!("chunk {place} of {} is missing", head.chunks));
            chunks.push(chunk.ok_or_else(missing)?);
        }
        let (id, header) = (head.id.clone(), head.header.clone());
        Ok(SealedPolicy { epoch, number, id, header, chunks })
    }

    /// Publishes a copy, unless the one in Redis is as new or newer. A copy whose header is `replaced` is replaced
    /// whatever its revision: the caller found that it is not genuine.
    ///
    /// # Errors
    /// Redis does not respond, the key holds something else, or the copy is too large.
    pub async fn publish(
        &self,
        policy: &SealedPolicy,
        replaced: Option<&[u8]>,
    ) -> Result<PolicyPublication, PolicyCopyError> {
        let is_too_long = policy.chunks.iter().any(|chunk| chunk.len() > MAX_CHUNK_BYTES);
        if is_too_long || policy.chunks.len() > MAX_CHUNKS {
            return Err(PolicyCopyError::TooLarge(policy.bytes()));
        }
        let began = self.replace("begin", policy, replaced).await?;
        if began != PolicyPublication::Published {
            return Ok(began);
        }
        for (chunk, place) in policy.chunks.iter().zip(1..) {
            let mut command = cmd("HSET");
            command.arg(&self.key).arg(chunk_field(&policy.id, place)).arg(chunk);
            self.call(&command).await?;
        }
        self.replace("commit", policy, replaced).await
    }

    async fn replace(
        &self,
        mode: &str,
        policy: &SealedPolicy,
        replaced: Option<&[u8]>,
    ) -> Result<PolicyPublication, PolicyCopyError> {
        let mut command = self.script(mode);
        let (max_epoch, max_number) = PublishedRules::max_revision(wall_clock());
        command.arg(&policy.id).arg(policy.epoch).arg(policy.number);
        command.arg(max_epoch).arg(max_number).arg(replaced.unwrap_or_default());
        command.arg(&policy.header).arg(policy.chunks.len()).arg(&self.channel);
        Ok(match self.call(&command).await? {
            Value::Int(1) => PolicyPublication::Published,
            Value::Int(0) => PolicyPublication::NotNewer,
            _ => PolicyPublication::Overtaken,
        })
    }

    /// The values of fields, none of them longer than `max_bytes`.
    async fn fields(
        &self,
        max_bytes: usize,
        fields: &[&str],
    ) -> Result<Vec<Option<Vec<u8>>>, PolicyCopyError> {
        let mut command = self.script("read");
        command.arg(max_bytes).arg(fields);
        match self.call(&command).await? {
            Value::Array(values) => Ok(values.into_iter().map(bytes_of).collect()),
            _ => Err(self.broken("a field is too long")),
        }
    }

    fn script(&self, mode: &str) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(SCRIPT).arg(1).arg(&self.key).arg(mode);
        command
    }

    async fn call(&self, command: &Cmd) -> Result<Value, PolicyCopyError> {
        self.place.call(command).await.map_err(|failure| match failure {
            CallFailure::Said(error) if error.to_string().contains("WRONGTYPE") => {
                self.broken("it is not a hash: delete it")
            }
            failure => PolicyCopyError::Redis(failure.into()),
        })
    }

    fn broken(&self, why: &str) -> PolicyCopyError {
        PolicyCopyError::Broken(format!("{}: {why}", self.key))
    }
}

fn chunk_field(id: &str, place: usize) -> String {
    format!("{id}:{place}")
}

fn bytes_of(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

impl fmt::Display for PolicyCopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(error) => error.fmt(f),
            Self::Broken(why) => f.write_str(why),
            Self::TooLarge(bytes) => {
                let max = SealedPolicy::MAX_BYTES;
                write!(f, "it takes {bytes} bytes, and {max} are the most")
            }
        }
    }
}

impl std::error::Error for PolicyCopyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Redis(error) => error.source(),
            Self::Broken(_) | Self::TooLarge(_) => None,
        }
    }
}
