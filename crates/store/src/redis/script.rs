//! The script that settles: one call of it for all operations that wait.

mod encode;
mod limit;
mod plan;
mod reply;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::Cmd;
use smallvec::SmallVec;
use tollgate_core::{Limit, MAX_LIMIT, RuleTag, Timestamp};

use self::encode::EncodedCall;
use crate::StoreError;
use crate::remote::{CounterName, OpResult, OwnedOp};

/// Charges, refunds and resets counters.
pub(super) const SOURCE: &str = concat!(
    include_str!("settle/amounts.lua"),
    include_str!("settle/bucket.lua"),
    include_str!("settle/window.lua"),
    include_str!("settle/log.lua"),
    include_str!("settle/record.lua"),
    include_str!("settle/layout.lua"),
    include_str!("settle/details.lua"),
    include_str!("settle/once.lua"),
    include_str!("settle/other.lua"),
    include_str!("settle/call.lua"),
    include_str!("settle/plan.lua"),
    include_str!("settle/plain.lua"),
    include_str!("settle/write.lua"),
);
/// The largest limit that the script can count in: its numbers are doubles.
pub(super) const MAX_SCRIPT_LIMIT: u64 = 1 << 40;

const _: () = assert!(MAX_SCRIPT_LIMIT < MAX_LIMIT);

/// The digest of a script in Redis: the SHA-1 of its text.
pub(super) fn digest(script: &str) -> String {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, script.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the script can count in this limit.
pub(super) fn holds(limit: &Limit) -> bool {
    limit.limit() <= MAX_SCRIPT_LIMIT && limit.ceiling() <= MAX_SCRIPT_LIMIT
}

/// One call of the script.
#[derive(Debug)]
pub(super) struct ScriptCall<'a> {
    ops: SmallVec<[&'a OwnedOp; 4]>,
    encoded: EncodedCall,
}

/// Which clock dates a call of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptClock {
    Server,
    Caller,
}

impl<'a> ScriptCall<'a> {
    /// `asked_at` is the time by the caller's clock; states are kept `extra` seconds beyond their expiry.
    pub(super) fn new(
        ops: impl Iterator<Item = &'a OwnedOp>,
        asked_at: Timestamp,
        clock: ScriptClock,
        extra: u32,
        prefix: &str,
    ) -> Self {
        let ops: SmallVec<[&'a OwnedOp; 4]> = ops.collect();
        let encoded = EncodedCall::new(&ops, asked_at, clock, extra, prefix);
        Self { ops, encoded }
    }

    /// Adds keys and arguments to `EVALSHA <digest>` or `EVAL <script>`.
    pub(super) fn write(&self, command: &mut Cmd) {
        command.arg(self.encoded.keys.len());
        self.encoded.keys.iter().for_each(|key| {
            command.arg(key);
        });
        command.arg(&self.encoded.numbers).arg(&self.encoded.details);
        for op in &self.ops {
            match op {
                OwnedOp::Settle { idempotency: Some(key), .. } => {
                    command.arg(key.body.as_slice()).arg(key.record.to_string());
                }
                OwnedOp::RefundOnce(once) => {
                    command.arg(once.attempt.to_string());
                }
                OwnedOp::Settle { .. }
                | OwnedOp::Refund(_)
                | OwnedOp::Reset(_)
                | OwnedOp::Record(_) => {}
            }
        }
    }

    /// Reads the reply of the script: one result for each operation.
    pub(super) fn read(&self, reply: &redis::Value) -> Result<Vec<OpResult>, StoreError> {
        reply::read(&self.ops, &self.encoded, reply)
    }
}

pub(super) use self::reply::failed;

/// The text of a log, joined from the list that it is stored in.
pub(super) fn log_text(list: &[String]) -> Option<String> {
    let (head, entries) = list.split_first()?;
    let window = head.strip_prefix("s:")?.split(':').next()?;
    Some(format!("s:{window}:{}", entries.join(",")))
}

/// The key of the log beside a record, which is the name of its counter.
pub(super) fn log_key(record: &str, tag: RuleTag) -> String {
    format!("{record}:{}", URL_SAFE_NO_PAD.encode(tag.bytes()))
}

/// The key of a log, of the record of an idempotency key, or of a mark.
pub(super) fn key(prefix: &str, name: &CounterName) -> String {
    format!("{prefix}{}", name.as_str())
}
