//! A decision in a tenth of its bytes, with what is needed to explain and refund it.
//!
//! Servers keep the last thousands of decisions, and write one for every request. A `Decision` has room for several
//! rules, and most of that room is empty. A receipt writes numbers in as few bytes as they need. Decisions with rare
//! content (an override of the limit, a list, an unavailable store, long keys) are kept as they are.

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;
use tollgate_core::{Micros, Mode, Report, Timestamp, decide};
use tollgate_rules::{Admission, Plan, Restored};

use crate::decision::{Decision, DecisionParts, DecisionReason, RuleResult};
use crate::snapshot::Snapshot;
use crate::soft::SoftState;

/// Enough for most decisions: three rules with keys of twenty bytes.
const RECEIPT_CAPACITY: usize = 182;

/// A decision in compact form, made by [`Decision::receipt`].
pub struct Receipt(ReceiptForm);

enum ReceiptForm {
    Packed(Arc<Snapshot>, Packed),
    Whole(Box<Decision>),
}

impl Decision {
    /// Makes a receipt. Of the decision and its receipt, only one may be refunded.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        let mut packed = Packed::default();
        if self.pack(&mut packed).is_some() {
            return Receipt(ReceiptForm::Packed(Arc::clone(&self.snapshot), packed));
        }
        let snapshot = Guard::from_inner(Arc::clone(&self.snapshot));
        let mut whole = Self { snapshot, parts: self.parts.clone() };
        // A refusal has nothing to refund, and its keys may be as long as headers are.
        if !self.is_allowed() {
            whole.parts.plan.forget_keys();
        }
        Receipt(ReceiptForm::Whole(Box::new(whole)))
    }

    /// Writes the decision; `None` if it does not fit, or has rare content.
    #[inline]
    fn pack(&self, packed: &mut Packed) -> Option<()> {
        let Self { snapshot, parts } = self;
        let DecisionParts { plan, reason, degraded, asked_at, now, results, .. } = &**parts;
        let is_ordinary = *reason == DecisionReason::Rules
            && degraded.is_none()
            && plan.admission == Admission::Judge
            && results.len() == plan.planned().len();
        if !is_ordinary {
            return None;
        }
        packed.fixed(now.as_micros())?;
        packed.fixed(asked_at.as_micros())?;
        packed.bytes(plan.tier().map(str::as_bytes))?;
        packed.number(results.len() as u64)?;
        let charges = plan.charges(snapshot.policy.rules());
        for ((planned, result), charge) in plan.planned().iter().zip(results).zip(charges) {
            if planned.own_limit.is_some() {
                return None;
            }
            let Report { remaining, retry_after, reset_after, next_after, delay } = result.report;
            packed.number(planned.rule as u64)?;
            packed.number(planned.subject as u64)?;
            packed.byte(marks(planned.mode, result.soft, result.admitted))?;
            packed.number(planned.cost)?;
            packed.fixed(planned.fingerprint())?;
            let is_kept = self.is_allowed();
            packed.bytes(is_kept.then_some(charge.key.subject))?;
            packed.bytes(is_kept.then_some(charge.key.rest))?;
            packed.number(remaining)?;
            packed.number(reset_after.get())?;
            packed.span(retry_after)?;
            packed.span(next_after)?;
            packed.span(delay)?;
        }
        Some(())
    }

    /// Reads the decision. An unreadable receipt becomes a decision without a result.
    fn unpack(snapshot: &Arc<Snapshot>, packed: &Packed) -> Self {
        Self::try_unpack(snapshot, packed)
            .unwrap_or_else(|| Self::kept(snapshot, Timestamp::default()))
    }

    fn try_unpack(snapshot: &Arc<Snapshot>, packed: &Packed) -> Option<Self> {
        let mut packed = ReceiptReader(packed.written());
        let now = Timestamp::from_micros(packed.fixed()?);
        let asked_at = Timestamp::from_micros(packed.fixed()?);
        let tier = packed.bytes()?.map(|tier| str::from_utf8(tier).ok());
        let count = packed.number()?;
        let mut decision = Self::kept(snapshot, asked_at);
        let (mut restored, mut result) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let rule = usize::try_from(packed.number()?).ok()?;
            let number = usize::try_from(packed.number()?).ok()?;
            let (mode, soft, admitted) = read_marks(packed.byte()?)?;
            restored.push(Restored {
                rule,
                number,
                mode,
                cost: packed.number()?,
                fingerprint: packed.fixed()?,
                subject: packed.bytes()?.unwrap_or_default(),
                rest: packed.bytes()?.unwrap_or_default(),
            });
            let remaining = packed.number()?;
            let reset_after = Micros::new(packed.number()?);
            let retry_after = packed.span()?;
            let next_after = packed.span()?;
            let delay = packed.span()?;
            let report = Report { remaining, retry_after, reset_after, next_after, delay };
            result.push((admitted, soft, report));
        }
        let parts = &mut *decision.parts;
        parts.plan = Plan::restore(tier.flatten(), restored);
        let rules = snapshot.policy.rules();
        for (line, (planned, result)) in parts.plan.planned().iter().zip(result).enumerate() {
            let (admitted, soft, report) = result;
            let limit = planned.limit(rules.get(planned.rule)?).capacity();
            let mode = planned.mode;
            parts.results.push(RuleResult { line, limit, report, mode, admitted, soft });
        }
        parts.verdict = decide(parts.results.iter().map(RuleResult::vote));
        parts.reason = DecisionReason::Rules;
        parts.now = now;
        Some(decision)
    }
}

impl Receipt {
    /// Replaces this receipt with that of another decision.
    #[inline]
    pub fn replace(&mut self, decision: &Decision) {
        if let ReceiptForm::Packed(snapshot, packed) = &mut self.0 {
            packed.len = 0;
            if decision.pack(packed).is_some() {
                if !Arc::ptr_eq(snapshot, &decision.snapshot) {
                    *snapshot = Arc::clone(&decision.snapshot);
                }
                return;
            }
        }
        *self = decision.receipt();
    }

    /// The decision.
    pub fn open(self) -> Decision {
        match self.0 {
            ReceiptForm::Packed(snapshot, packed) => Decision::unpack(&snapshot, &packed),
            ReceiptForm::Whole(decision) => *decision,
        }
    }

    /// Reads the decision.
    pub fn look<T>(&self, look: impl FnOnce(&Decision) -> T) -> T {
        match &self.0 {
            ReceiptForm::Packed(snapshot, packed) => look(&Decision::unpack(snapshot, packed)),
            ReceiptForm::Whole(decision) => look(decision),
        }
    }

    /// About how many bytes it takes besides itself: none for most decisions.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            ReceiptForm::Packed(..) => 0,
            ReceiptForm::Whole(decision) => {
                let results = size_of_val(decision.parts.results.as_slice());
                size_of::<Decision>()
                    + size_of::<DecisionParts>()
                    + results
                    + decision.parts.plan.heap_bytes()
            }
        }
    }

    /// The policy that the decision was made by.
    #[must_use]
    pub fn policy(&self) -> &tollgate_rules::Policy {
        match &self.0 {
            ReceiptForm::Packed(snapshot, _) => &snapshot.policy,
            ReceiptForm::Whole(decision) => decision.policy(),
        }
    }
}

/// Omits keys: they may be secrets.
impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look(|decision| f.debug_tuple("Receipt").field(decision).finish())
    }
}

pub(crate) fn marks(mode: Mode, soft: SoftState, admitted: bool) -> u8 {
    let mode = match mode {
        Mode::Enforce => 0,
        Mode::Shadow => 1,
        Mode::Debit => 2,
    };
    let soft = match soft {
        SoftState::Normal => 0,
        SoftState::Warning => 1,
        SoftState::Throttled => 2,
    };
    mode | soft << 2 | u8::from(admitted) << 4
}

pub(crate) fn read_marks(marks: u8) -> Option<(Mode, SoftState, bool)> {
    let mode = [Mode::Enforce, Mode::Shadow, Mode::Debit];
    let soft = [SoftState::Normal, SoftState::Warning, SoftState::Throttled];
    let at = |place: u8| usize::from(marks >> place & 0b11);
    Some((*mode.get(at(0))?, *soft.get(at(2))?, marks & 1 << 4 != 0))
}

/// Numbers and texts, one after the other.
struct Packed {
    len: u8,
    bytes: [u8; RECEIPT_CAPACITY],
}

impl Default for Packed {
    fn default() -> Self {
        Self { len: 0, bytes: [0; RECEIPT_CAPACITY] }
    }
}

impl Packed {
    fn written(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let start = usize::from(self.len);
        let end = start + bytes.len();
        self.bytes.get_mut(start..end)?.copy_from_slice(bytes);
        self.len = u8::try_from(end).ok()?;
        Some(())
    }

    #[inline]
    fn byte(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(usize::from(self.len))? = byte;
        self.len += 1;
        Some(())
    }

    #[inline]
    fn fixed(&mut self, number: u64) -> Option<()> {
        self.push(&number.to_le_bytes())
    }

    /// Seven bits to a byte; the eighth is set if more follow.
    #[inline]
    fn number(&mut self, mut number: u64) -> Option<()> {
        while number > 0x7f {
            self.byte(number as u8 | 0x80)?;
            number >>= 7;
        }
        self.byte(number as u8)
    }

    /// A time, or none.
    #[inline]
    fn span(&mut self, span: Option<Micros>) -> Option<()> {
        self.number(match span {
            None => 0,
            // The largest span stands for everything as long.
            Some(span) => span.get().saturating_add(1),
        })
    }

    /// A text after its length, or none.
    #[inline]
    fn bytes(&mut self, bytes: Option<&[u8]>) -> Option<()> {
        self.number(bytes.map_or(0, |bytes| bytes.len() as u64 + 1))?;
        self.push(bytes.unwrap_or_default())
    }
}

/// Reads what was packed.
pub(crate) struct ReceiptReader<'a>(pub(crate) &'a [u8]);

impl<'a> ReceiptReader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn fixed(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(number)
    }

    pub(crate) fn span(&mut self) -> Option<Option<Micros>> {
        Some(self.number()?.checked_sub(1).map(Micros::new))
    }

    pub(crate) fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        let Some(len) = self.number()?.checked_sub(1) else { return Some(None) };
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(Some(bytes))
    }
}

#[cfg(test)]
mod tests;
