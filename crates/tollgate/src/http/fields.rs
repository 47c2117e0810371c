//! The header fields that report a decision. They are written for every check, so all values share one allocation.

use ::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use bytes::Bytes;
use smallvec::SmallVec;
use tollgate_core::Micros;

use super::families::{HeaderDraft, HeaderFamilies, ResetForm};
use super::figures::{remaining, reset_at, retry_after};
use super::listed::{RuleList, enforced};
use crate::decision::{Decision, RuleOutcome};
use crate::soft::SoftState;

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_POLICY: HeaderName = HeaderName::from_static("x-ratelimit-policy");
const X_WARNING: HeaderName = HeaderName::from_static("x-ratelimit-warning");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The largest integer of a structured field (RFC 9651): fifteen digits.
const MAX_INTEGER: u64 = 999_999_999_999_999;
/// Enough for the fields of a request with two or three rules.
const TEXT_CAPACITY: usize = 256;

/// Writes the fields that report a decision, and replaces any of the same name.
///
/// A decision without a rule has no fields of a family. Single figures are those of the rule that binds;
/// `X-RateLimit-Reset` is the time when the limit resets ([`RuleOutcome::reset_after`]). In the lists of draft 11, `r`
/// is what is left and `t` the seconds until more is; `t` is left out while nothing is in use. `w` is the seconds in which the rate
/// refills the limit, rounded up: the window, or with a `burst` of five times the limit, five windows. It is left out
/// below a second, which it cannot express.
///
/// The lists name all rules that applied if they fit into 1 KiB each. Otherwise they name the rule that binds, then
/// rules that refuse, then those with the smallest share left.
///
/// `X-RateLimit-Warning` belongs to the `X-` families and reads `per_user: 2 of 10 left`. It is sent with allowed
/// requests only.
///
/// A refusal also has `Cache-Control: no-store` and, if the request may pass later, `Retry-After`, whatever the
/// families.
pub fn write_fields(decision: &Decision, families: HeaderFamilies, headers: &mut HeaderMap) {
    HeaderFields::of(decision, families).insert_into(headers);
    if !decision.is_allowed() {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
}

/// Calls `take` with each field that [`write_fields`] writes.
pub fn for_each_field(
    decision: &Decision,
    families: HeaderFamilies,
    mut take: impl FnMut(&HeaderName, &str),
) {
    let fields = HeaderFields::of(decision, families);
    let mut start = 0;
    for (name, end) in &fields.ends {
        take(name, &fields.text.0[start..*end]);
        start = *end;
    }
    if !decision.is_allowed() {
        take(&CACHE_CONTROL, "no-store");
    }
}

/// Fields whose values share one text.
#[derive(Default)]
struct HeaderFields {
    text: FieldText,
    /// Each with the end of its value.
    ends: SmallVec<[(HeaderName, usize); 8]>,
}

impl HeaderFields {
    fn of(decision: &Decision, families: HeaderFamilies) -> Self {
        let mut fields = Self::default();
        if let Some(binding) = decision.binding() {
            if let Some(reset) = families.x {
                fields.x(decision, &binding, reset);
            }
            match families.draft {
                Some(HeaderDraft::Eleven) => fields.draft_11(decision),
                Some(HeaderDraft::Seven) => fields.draft_7(decision, &binding),
                Some(HeaderDraft::Six) => fields.draft_6(decision, &binding),
                None => {}
            }
        }
        if let Some(seconds) = retry_after(decision) {
            fields.field(RETRY_AFTER, |text| text.number(seconds));
        }
        fields
    }

    fn field(&mut self, name: HeaderName, write: impl FnOnce(&mut FieldText)) {
        write(&mut self.text);
        self.ends.push((name, self.text.0.len()));
    }

    fn x(&mut self, decision: &Decision, binding: &RuleOutcome<'_>, reset: ResetForm) {
        self.field(X_LIMIT, |text| text.number(binding.outcome.limit));
        self.field(X_REMAINING, |text| text.number(remaining(&binding.outcome)));
        self.field(X_RESET, |text| {
            text.number(match reset {
                ResetForm::Epoch => reset_at(decision.now(), binding.limit(), &binding.outcome),
                ResetForm::Delta => binding.reset_after(decision.now()).as_secs_ceil(),
            });
        });
        self.field(X_POLICY, |text| text.quota(binding));
        if let Some(warned) = warned(decision, *binding) {
            self.field(X_WARNING, |text| {
                text.plain(&warned.rule.id);
                text.plain(": ");
                text.number(remaining(&warned.outcome));
                text.plain(" of ");
                text.number(warned.outcome.limit);
                text.plain(" left");
            });
        }
    }

    fn draft_11(&mut self, decision: &Decision) {
        let listed = RuleList::of(decision);
        self.field(POLICY, |text| {
            text.list(listed.iter(decision), |text, outcome| {
                text.string(&outcome.rule.id);
                text.parameter(";q=", outcome.outcome.limit);
                text.window(outcome);
            });
        });
        self.field(RATELIMIT, |text| {
            text.list(listed.iter(decision), |text, outcome| {
                text.string(&outcome.rule.id);
                text.parameter(";r=", remaining(&outcome.outcome));
                if let Some(next) = outcome.outcome.report.next_after {
                    text.parameter(";t=", next.as_secs_ceil());
                }
            });
        });
    }

    fn draft_7(&mut self, decision: &Decision, binding: &RuleOutcome<'_>) {
        self.early_policy(decision);
        self.field(RATELIMIT, |text| {
            text.plain("limit=");
            text.number(binding.outcome.limit);
            text.plain(", remaining=");
            text.number(remaining(&binding.outcome));
            text.plain(", reset=");
            text.number(binding.reset_after(decision.now()).as_secs_ceil());
        });
    }

    fn draft_6(&mut self, decision: &Decision, binding: &RuleOutcome<'_>) {
        self.early_policy(decision);
        self.field(LIMIT, |text| text.number(binding.outcome.limit));
        self.field(REMAINING, |text| text.number(remaining(&binding.outcome)));
        let reset_after = binding.reset_after(decision.now()).as_secs_ceil();
        self.field(RESET, |text| text.number(reset_after));
    }

    /// Policies had no names before draft 8.
    fn early_policy(&mut self, decision: &Decision) {
        let listed = RuleList::of(decision);
        self.field(POLICY, |text| text.list(listed.iter(decision), FieldText::quota));
    }

    fn insert_into(self, headers: &mut HeaderMap) {
        if self.ends.is_empty() {
            return;
        }
        headers.reserve(self.ends.len());
        // An empty map has no field to replace.
        let is_first = headers.is_empty();
        let text = Bytes::from(self.text.0);
        let mut start = 0;
        for (name, end) in self.ends {
            // Every value is visible ASCII here; one that is not is left out.
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(start..end)) {
                if is_first {
                    headers.append(name, value);
                } else {
                    headers.insert(name, value);
                }
            }
            start = end;
        }
    }
}

/// The rule to warn of: the one that binds, or else the first that warns.
fn warned<'a>(decision: &'a Decision, binding: RuleOutcome<'a>) -> Option<RuleOutcome<'a>> {
    let mut candidates = std::iter::once(binding).chain(enforced(decision));
    candidates.find(|outcome| decision.is_allowed() && outcome.state == SoftState::Warning)
}

/// Writes structured fields.
struct FieldText(String);

impl Default for FieldText {
    fn default() -> Self {
        Self(String::with_capacity(TEXT_CAPACITY))
    }
}

impl FieldText {
    fn plain(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn number(&mut self, number: u64) {
        self.plain(itoa::Buffer::new().format(number.min(MAX_INTEGER)));
    }

    /// A string in quotes. Rule ids need no escapes; a character that a string cannot contain becomes a `?`.
    fn string(&mut self, text: &str) {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        self.0.push('"');
        if text.bytes().all(is_plain) {
            self.plain(text);
            self.0.push('"');
            return;
        }
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => self.0.extend(['\\', byte.into()]),
                b' '..=b'~' => self.0.push(byte.into()),
                _ => self.0.push('?'),
            }
        }
        self.0.push('"');
    }

    /// A parameter; `name` includes `;` and `=`.
    fn parameter(&mut self, name: &str, number: u64) {
        self.plain(name);
        self.number(number);
    }

    /// A limit and the time in which it refills: `1000;w=3600`.
    fn quota(&mut self, outcome: &RuleOutcome<'_>) {
        self.number(outcome.outcome.limit);
        self.window(outcome);
    }

    fn window(&mut self, outcome: &RuleOutcome<'_>) {
        let window = outcome.outcome.window;
        if window >= Micros::from_secs(1) {
            self.parameter(";w=", window.as_secs_ceil());
        }
    }

    fn list<T>(&mut self, items: impl Iterator<Item = T>, write: impl Fn(&mut Self, &T)) {
        for (number, item) in items.enumerate() {
            if number > 0 {
                self.plain(", ");
            }
            write(self, &item);
        }
    }
}
