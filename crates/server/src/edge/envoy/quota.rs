//! Limits in `quota_mode`: a request is refused only if every group of them is exceeded, so that a proxy can send it
//! to a service that has some left.
//!
//! Each counter is a group, unless its descriptor names a backend or a model: then all counters of a model are one
//! group, which is exceeded if any of them is. Envoy AI Gateway relies on that.

use smallvec::SmallVec;
use tollgate::{CheckTarget, ExplicitCharge, Micros};

use super::files::FileCharges;
use super::{Ask, AskedDescriptor};
use crate::app::state::ServerState;

/// The entries that name a group.
const BACKEND: &str = "backend_name";
const MODEL: &str = "model_name_override";

/// Later than any window ends.
const NEVER: Micros = Micros::new(u64::MAX);

/// The group that a counter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaGroup<'a> {
    /// All counters of a backend and a model.
    Model(&'a str, &'a str),
    /// The charge of that index.
    Counter(usize),
}

impl<'a> QuotaGroup<'a> {
    pub(super) fn of(descriptor: &AskedDescriptor<'a>, line: usize) -> Self {
        let value = |name: &str| {
            let mut entries = descriptor.entries.iter().rev();
            entries.find(|(key, _)| *key == name).map_or("", |(_, value)| *value)
        };
        match (value(BACKEND), value(MODEL)) {
            ("", "") => Self::Counter(line),
            (backend, model) => Self::Model(backend, model),
        }
    }
}

/// The quotas among the charges of a request.
#[derive(Debug, Default)]
pub(super) struct Quotas<'a> {
    /// The group of each charge; `None` if its limit is no quota.
    groups: SmallVec<[Option<QuotaGroup<'a>>; 4]>,
}

impl<'a> Quotas<'a> {
    /// The quotas of a request: `is_quota` says which charges are, and `place_of` which descriptor each charge is
    /// for.
    pub(super) fn of(ask: &Ask<'a>, place_of: &[usize], is_quota: impl Fn(usize) -> bool) -> Self {
        if !(0..place_of.len()).any(&is_quota) {
            return Self::default();
        }
        let group = |(line, place): (usize, &usize)| {
            let descriptor = ask.descriptors.get(*place).filter(|_| is_quota(line))?;
            Some(QuotaGroup::of(descriptor, line))
        };
        Self { groups: place_of.iter().enumerate().map(group).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The group of a charge, if its limit is a quota.
    pub(super) fn group(&self, line: usize) -> Option<QuotaGroup<'a>> {
        self.groups.get(line).copied().flatten()
    }

    /// Whether a group has a charge that is exceeded.
    pub(super) fn is_group_exceeded(&self, group: QuotaGroup<'_>, exceeded: &[bool]) -> bool {
        let mut members = self.groups.iter().zip(exceeded);
        members.any(|(of, is_exceeded)| *of == Some(group) && *is_exceeded)
    }

    /// Whether all groups are exceeded; `false` if there are none.
    pub(super) fn are_all_exceeded(&self, exceeded: &[bool]) -> bool {
        let mut groups = self.groups.iter().flatten().peekable();
        groups.peek().is_some() && groups.all(|group| self.is_group_exceeded(*group, exceeded))
    }

    /// The exceeded groups, each with how long it is: until the last of its exceeded charges has something left. `wait`
    /// says when that is; a charge that never will have is exceeded for ever.
    fn exceeded_groups(
        &self,
        exceeded: &[bool],
        wait: impl Fn(usize) -> Option<Micros>,
    ) -> impl Iterator<Item = (QuotaGroup<'a>, Micros)> {
        let groups = self.groups.iter().flatten();
        groups.filter(|group| self.is_group_exceeded(**group, exceeded)).map(move |group| {
            let is_member =
                |line: &usize| exceeded[*line] && self.groups.get(*line) == Some(&Some(*group));
            let waits = (0..exceeded.len()).filter(is_member).map(&wait);
            (*group, waits.map(|wait| wait.unwrap_or(NEVER)).max().unwrap_or(NEVER))
        })
    }

    /// How long a request has to wait whose exceeded charges refuse it: until no limit is exceeded that is no quota, and
    /// the first group of quotas is not. `wait` is that of a charge; `None`: never.
    pub(super) fn wait(
        &self,
        exceeded: &[bool],
        wait: impl Fn(usize) -> Option<Micros>,
    ) -> Option<Micros> {
        let refuses = |(line, is_exceeded): (usize, &bool)| {
            (*is_exceeded && self.group(line).is_none()).then(|| wait(line).unwrap_or(NEVER))
        };
        let enforced = exceeded.iter().enumerate().filter_map(refuses).max();
        let quotas = self.are_all_exceeded(exceeded).then(|| {
            self.exceeded_groups(exceeded, &wait).map(|(_, wait)| wait).min().unwrap_or(NEVER)
        });
        enforced.max(quotas).filter(|wait| *wait != NEVER)
    }

    /// Marks in `exceeded` the quotas that have less left than their charges cost. They are peeked at, so that they do
    /// not refuse the request, except for the group that has something left soonest, if none has: it tells when to try
    /// again. Another request may use up the last group meanwhile; then this one is refused, also if another group has
    /// some left again.
    pub(super) async fn leave_out_exceeded(
        &self,
        app: &ServerState,
        lines: &mut FileCharges<'_>,
        exceeded: &mut SmallVec<[bool; 4]>,
    ) {
        exceeded.resize(lines.len(), false);
        let is_charge = |(line, charge): &(usize, &ExplicitCharge<'_>)| {
            charge.cost > 0 && self.group(*line).is_some()
        };
        let (places, peeks): (SmallVec<[usize; 4]>, FileCharges<'_>) = lines
            .iter()
            .enumerate()
            .filter(is_charge)
            .map(|(line, charge)| (line, ExplicitCharge { cost: 0, ..*charge }))
            .unzip();
        if peeks.is_empty() {
            return;
        }
        let peeked = app.envoy.limiter.check_unrecorded(CheckTarget::Charges(&peeks)).await;
        let mut next = SmallVec::<[Option<Micros>; 4]>::from_elem(None, lines.len());
        for outcome in peeked.outcomes() {
            let Some(place) = places.get(outcome.subject) else { continue };
            let report = &outcome.outcome.report;
            exceeded[*place] = report.remaining < lines[*place].cost;
            next[*place] = report.next_after;
        }
        let are_all = self.are_all_exceeded(exceeded);
        // By when the next unit is free. If more are needed it may take longer, except in a fixed window.
        let groups = self.exceeded_groups(exceeded, |line| next[line]);
        // A peek does not refuse what is charged here.
        let refuses = |(group, _): &(QuotaGroup<'_>, Micros)| {
            let mut members = places.iter().filter(|place| self.group(**place) == Some(*group));
            are_all && members.any(|place| exceeded[*place])
        };
        let soonest = groups.filter(refuses).min_by_key(|(_, wait)| *wait);
        let soonest = soonest.map(|(group, _)| group);
        for place in places.into_iter().filter(|place| exceeded[*place]) {
            if soonest.is_none() || self.group(place) != soonest {
                lines[place].cost = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor<'a>(entries: &[(&'a str, &'a str)]) -> AskedDescriptor<'a> {
        AskedDescriptor { entries: entries.into(), limit: None, hits: 1 }
    }

    #[test]
    fn a_request_is_refused_if_every_group_is_exceeded() {
        let descriptors = vec![
            descriptor(&[("tenant", "a"), (BACKEND, "one"), (MODEL, "m")]),
            descriptor(&[(MODEL, "m"), (BACKEND, "one")]),
            descriptor(&[(BACKEND, "two")]),
            descriptor(&[("user", "u")]),
        ];
        let ask = Ask { domain: "d", descriptors };
        let check = |quotas: [bool; 4], exceeded: [bool; 4], expected: bool| {
            let quotas = Quotas::of(&ask, &[0, 1, 2, 3], |line| quotas[line]);
            assert_eq!(quotas.are_all_exceeded(&exceeded), expected, "{quotas:?} {exceeded:?}");
        };
        check([false; 4], [true; 4], false);
        check([true; 4], [true; 4], true);
        check([true; 4], [true, false, true, true], true);
        check([true; 4], [true, true, false, true], false);
        check([true, true, false, false], [false, true, false, false], true);
        check([false, false, true, true], [true, true, true, false], false);
    }

    #[test]
    fn a_request_waits_for_the_first_group_and_for_all_limits_that_are_no_quotas() {
        let descriptors = vec![
            descriptor(&[(MODEL, "m"), ("tenant", "a")]),
            descriptor(&[(MODEL, "m")]),
            descriptor(&[("user", "u")]),
            descriptor(&[("path", "/")]),
        ];
        let ask = Ask { domain: "d", descriptors };
        let check = |quotas: [bool; 4], exceeded: [bool; 4], waits: [u64; 4], expected: u64| {
            let quotas = Quotas::of(&ask, &[0, 1, 2, 3], |line| quotas[line]);
            let wait = |line: usize| (waits[line] > 0).then(|| Micros::from_secs(waits[line]));
            let expected = (expected > 0).then(|| Micros::from_secs(expected));
            assert_eq!(quotas.wait(&exceeded, wait), expected, "{quotas:?} {exceeded:?} {waits:?}");
        };
        check([true; 4], [true; 4], [10, 20, 30, 40], 20);
        check([true; 4], [true; 4], [10, 50, 30, 40], 30);
        check([true; 4], [true; 4], [10, 0, 0, 40], 40);
        check([true; 4], [true, false, true, true], [10, 20, 30, 40], 10);
        check([true, true, true, false], [true; 4], [10, 20, 30, 40], 40);
        check([true, true, true, false], [true; 4], [10, 20, 30, 15], 20);
        check([true, true, true, false], [true, true, false, true], [10, 20, 30, 15], 15);
        check([true; 4], [true; 4], [0; 4], 0);
        check([false; 4], [true, false, true, false], [10, 20, 30, 40], 30);
    }
}
