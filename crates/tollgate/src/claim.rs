//! What a decision charged, as bytes: with them, every process that shares the store can refund the decision and say what
//! it was, also when the one that made it is gone.
//!
//! A claim carries the limit of each charge as it was. If the rule has another limit meanwhile, its counter is still the
//! one that was charged; if it has another algorithm or window, or was removed, there is no such counter, and the
//! refund changes nothing. The bytes are not protected: a caller that passes them on has to seal them.

use std::fmt;

use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, CalendarUnit, Charge, Key, Limit, Micros, Mode, Outcome, Quota, Report, Timestamp,
};
use tollgate_rules::document::Consistency;
use tollgate_rules::{find_calendar, rule_digest};
use tollgate_store::{
    ExpiringRefund, Op, OpOutcome, Refund, RefundOnce, Store, StoreError, StoreErrorKind,
};

use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::receipt::{ReceiptReader, marks, read_marks};
use crate::soft::SoftState;
use crate::used_key::UsedKey;

/// The format of a claim, so that a later one is not misread.
const FORMAT: u8 = 3;

/// What a decision charged, read from bytes.
pub struct RefundClaim<'a> {
    /// When it was charged, by the clock of the store.
    charged_at: Timestamp,
    /// How the store named its counters then.
    naming: u64,
    revision: u64,
    tier: Option<&'a str>,
    /// The call of its idempotency key, and the subject beside which the store has the record.
    key: Option<([u8; 16], &'a [u8])>,
    charges: SmallVec<[ClaimedCharge<'a>; 4]>,
}

struct ClaimedCharge<'a> {
    rule_id: &'a str,
    subject: &'a [u8],
    rest: &'a [u8],
    group: u64,
    limit: Limit,
    units: u64,
    mode: Mode,
    state: SoftState,
    /// What was left afterwards.
    remaining: u64,
    delay: Option<Micros>,
    /// How long the charge has an effect.
    lasts: Micros,
}

/// What a rule did in a decision, as its claim has it.
#[derive(Clone, Copy, Debug)]
pub struct ClaimedOutcome<'a> {
    /// The rule.
    pub rule_id: &'a str,
    /// The limit, as it was.
    pub limit: Limit,
    /// How close the client was to it.
    pub state: SoftState,
    /// The figures. The index of the rule is that of the outcome.
    pub outcome: Outcome,
}

/// How a claim was refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Now, to so many counters. Those whose window has ended are not among them.
    Refunded {
        /// How many.
        counters: usize,
    },
    /// Before, by this process or another.
    RefundedBefore,
    /// Not at all: every window has ended.
    Expired,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Writes what another process needs to refund a decision, and returns how many bytes that took. `call` is that of
    /// its idempotency key, if it had one. `None`: `out` is too short, or only this process can refund the decision,
    /// since it counted locally or charged nothing.
    pub fn write_claim(
        &self,
        decision: &Decision,
        call: Option<[u8; 16]>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.store().is_shared() || decision.parts.degraded.is_some() {
            return None;
        }
        let mut claim = ClaimWriter { out, len: 0 };
        claim.byte(FORMAT)?;
        claim.push(&decision.parts.now.as_micros().to_le_bytes())?;
        claim.push(&self.store().naming().to_le_bytes())?;
        claim.number(decision.revision().number)?;
        claim.bytes(decision.tier().map(str::as_bytes))?;
        claim.bytes(call.as_ref().map(<[u8; 16]>::as_slice))?;
        if call.is_some() {
            let first = decision.reported_charges().find(|(_, charge, _)| charge.cost > 0);
            let first = first.map(|(_, charge, _)| charge.key.subject);
            let beside = decision.first_shared_subject();
            claim.bytes(beside.filter(|beside| first != Some(*beside)))?;
        }
        let (mut last_subject, mut is_empty) = (None, true);
        for (rule, charge, result) in decision.reported_charges() {
            let (report, mode) = (&result.report, result.mode);
            let Charge { key, limit, cost, .. } = charge;
            if rule.consistency == Consistency::Local {
                return None;
            }
            if cost == 0 {
                continue;
            }
            claim.bytes(Some(key.rule.as_bytes()))?;
            claim.bytes(Some(key.subject).filter(|subject| last_subject != Some(*subject)))?;
            claim.bytes(Some(key.rest))?;
            claim.push(&key.group.to_le_bytes())?;
            claim.number(cost)?;
            claim.byte(marks(mode, result.soft, true))?;
            claim.number(report.remaining)?;
            claim.number(report.delay.map_or(0, |delay| delay.get().saturating_add(1)))?;
            claim.number(report.reset_after.get())?;
            claim.limit(limit)?;
            (last_subject, is_empty) = (Some(key.subject), false);
        }
        (!is_empty).then_some(claim.len)
    }

    /// Refunds what a claim is about, once, whichever process does. `mark` identifies the decision.
    ///
    /// # Errors
    /// The store failed; a repeated call refunds what was not refunded yet.
    pub async fn refund_claim(
        &self,
        claim: &RefundClaim<'_>,
        mark: [u8; 16],
    ) -> Result<ClaimOutcome, StoreError> {
        // Counters that have other names now started anew: they were never charged for this.
        if claim.naming != self.store().naming() {
            return Ok(ClaimOutcome::Expired);
        }
        let refunds: SmallVec<[ExpiringRefund<'_>; 4]> = claim
            .charges
            .iter()
            .map(|ClaimedCharge { rule_id, subject, rest, group, limit, units, lasts, .. }| {
                let named = (*rule_id, rule_digest(rule_id));
                let key = Key::of_digest(&self.hasher, named, subject, rest);
                ExpiringRefund {
                    refund: Refund {
                        key: key.in_group(*group),
                        limit,
                        units: *units,
                        charged_at: Some(claim.charged_at),
                    },
                    ends_at: claim.charged_at.plus(*lasts),
                }
            })
            .collect();
        let op = Op::RefundOnce(RefundOnce { refunds: &refunds, mark });
        match self.store().submit_one(op, self.clock.now()).await? {
            OpOutcome::Refunded { counters } => Ok(ClaimOutcome::Refunded { counters }),
            OpOutcome::RefundedBefore => Ok(ClaimOutcome::RefundedBefore),
            OpOutcome::RefundExpired => Ok(ClaimOutcome::Expired),
            _ => Err(StoreErrorKind::Corrupt.into()),
        }
    }
}

impl<'a> RefundClaim<'a> {
    /// Reads a claim; `None` if it is not one.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = ReceiptReader(bytes);
        if reader.byte()? != FORMAT {
            return None;
        }
        let charged_at = Timestamp::from_micros(reader.fixed()?);
        let naming = reader.fixed()?;
        let revision = reader.number()?;
        let tier = reader.bytes()?.map(str::from_utf8).transpose().ok()?;
        let call: Option<[u8; 16]> = reader.bytes()?.map(TryInto::try_into).transpose().ok()?;
        let beside = if call.is_some() { reader.bytes()? } else { None };
        let mut charges: SmallVec<[ClaimedCharge<'a>; 4]> = SmallVec::new();
        while !reader.0.is_empty() {
            let rule_id = str::from_utf8(reader.bytes()??).ok()?;
            let same = charges.last().map(|charge| charge.subject);
            let subject = reader.bytes()?.or(same)?;
            let (rest, group, units) = (reader.bytes()??, reader.fixed()?, reader.number()?);
            let (mode, state, _) = read_marks(reader.byte()?)?;
            charges.push(ClaimedCharge {
                rule_id,
                subject,
                rest,
                group,
                units,
                mode,
                state,
                remaining: reader.number()?,
                delay: reader.span()?,
                lasts: Micros::new(reader.number()?),
                limit: read_limit(&mut reader)?,
            });
        }
        let first = charges.first()?;
        let key = call.map(|call| (call, beside.unwrap_or(first.subject)));
        Some(Self { charged_at, naming, revision, tier, key, charges })
    }

    /// The idempotency key of the decision, if it had one, given its note.
    #[must_use]
    pub fn used_key(&self, note: &str) -> Option<UsedKey> {
        let (call, subject) = self.key?;
        Some(UsedKey { call, note: note.to_owned(), subject: subject.into() })
    }

    /// When it was charged, by the clock of the store.
    #[must_use]
    pub const fn charged_at(&self) -> Timestamp {
        self.charged_at
    }

    /// The revision of the policy that decided.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The tier that the request was checked in.
    #[must_use]
    pub const fn tier(&self) -> Option<&'a str> {
        self.tier
    }

    /// What each rule that was charged did, in order of precedence.
    pub fn outcomes(&self) -> impl Iterator<Item = ClaimedOutcome<'a>> {
        self.charges.iter().enumerate().map(|(rule, charge)| {
            let ClaimedCharge { limit, units, mode, remaining, delay, lasts, .. } = *charge;
            let report = Report { remaining, reset_after: lasts, delay, ..Report::default() };
            let outcome = Outcome {
                rule,
                mode,
                admitted: true,
                limit: limit.capacity(),
                window: limit.refill_time_at(self.charged_at),
                cost: units,
                report,
                surplus: 0,
            };
            ClaimedOutcome { rule_id: charge.rule_id, limit, state: charge.state, outcome }
        })
    }

    /// The rules that were charged, each with how much.
    pub fn charges(&self) -> impl Iterator<Item = (&str, u64)> {
        self.charges.iter().map(|charge| (charge.rule_id, charge.units))
    }

    /// The rules whose charge has not ended at that time, each with how much it is.
    pub fn lasting(&self, now: Timestamp) -> impl Iterator<Item = (&str, u64)> {
        let lasts = move |it: &&ClaimedCharge<'_>| self.charged_at.plus(it.lasts) > now;
        self.charges.iter().filter(lasts).map(|charge| (charge.rule_id, charge.units))
    }
}

/// Omits keys: they may be secrets.
impl fmt::Debug for RefundClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.charges()).finish()
    }
}

/// Writes into a slice; `None` once it is full.
struct ClaimWriter<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl ClaimWriter<'_> {
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.out.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        self.push(&[byte])
    }

    /// Seven bits to a byte; the eighth is set if more follow.
    fn number(&mut self, mut number: u64) -> Option<()> {
        while number > 0x7f {
            self.byte(number as u8 | 0x80)?;
            number >>= 7;
        }
        self.byte(number as u8)
    }

    /// Bytes after their number, or none.
    fn bytes(&mut self, bytes: Option<&[u8]>) -> Option<()> {
        self.number(bytes.map_or(0, |bytes| bytes.len() as u64 + 1))?;
        self.push(bytes.unwrap_or_default())
    }

    /// The quota that a limit was compiled from.
    fn limit(&mut self, limit: &Limit) -> Option<()> {
        let algorithm = limit.algorithm();
        let place = Algorithm::ALL.iter().position(|one| *one == algorithm)?;
        self.byte(u8::try_from(place).ok()?)?;
        self.number(limit.limit())?;
        self.number(limit.window().get())?;
        self.number(if limit.capacity() == limit.limit() { 0 } else { limit.capacity() })?;
        self.number(limit.ceiling() - limit.capacity())?;
        self.number(limit.max_delay().get())?;
        self.bytes(limit.calendar().map(|calendar| calendar.zone().as_bytes()))?;
        let Some(calendar) = limit.calendar() else { return Some(()) };
        let place = CalendarUnit::ALL.iter().position(|one| *one == calendar.unit())?;
        self.byte(u8::try_from(place).ok()?)
    }
}

fn read_limit(reader: &mut ReceiptReader<'_>) -> Option<Limit> {
    let algorithm = *Algorithm::ALL.get(usize::from(reader.byte()?))?;
    let (limit, window) = (reader.number()?, Micros::new(reader.number()?));
    let burst = Some(reader.number()?).filter(|burst| *burst > 0);
    let (grace, max_delay) = (reader.number()?, Micros::new(reader.number()?));
    let calendar = match reader.bytes()? {
        Some(zone) => {
            let unit = CalendarUnit::ALL.get(usize::from(reader.byte()?))?;
            Some(find_calendar(*unit, str::from_utf8(zone).ok()?)?)
        }
        None => None,
    };
    Quota { algorithm, limit, window, burst, grace, max_delay, calendar }.compile().ok()
}

#[cfg(test)]
mod tests;
