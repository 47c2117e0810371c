//! A second pass over the traffic, with the result of each request known: over time, by client, by path.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::Timestamp;

use super::super::tally::{Tally, client_of};
use super::Verdict;
use crate::traffic::{RecordView, Traffic};

/// Most columns of the course of time.
const MAX_COLUMNS: u64 = 120;
/// Columns of the small charts of clients.
const CLIENT_COLUMNS: usize = 40;
/// Most paths of one client that are counted.
const MAX_PATHS_OF_CLIENT: usize = 1_000;
/// Lengths of a column in seconds.
const STEPS: [u64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_592_000, 31_536_000,
];

/// Requests by what became of them, in columns of a round length.
#[derive(Debug)]
pub(super) struct Timeline {
    /// Seconds since the epoch at which the first column begins.
    first: u64,
    /// Seconds that a column lasts.
    pub(super) step: u64,
    pub(super) allowed: Vec<u64>,
    pub(super) throttled: Vec<u64>,
    pub(super) refused: Vec<u64>,
}

impl Timeline {
    fn new(first: Timestamp, last: Timestamp) -> Self {
        let (first, last) = (first.as_micros() / 1_000_000, last.as_micros() / 1_000_000);
        let columns = |step: u64| last / step - first / step + 1;
        let fits = |step: &u64| columns(*step) <= MAX_COLUMNS;
        let step = STEPS.into_iter().find(fits).unwrap_or((last - first) / (MAX_COLUMNS - 1) + 1);
        let length = usize::try_from(columns(step)).unwrap_or(0);
        let empty = vec![0; length];
        let first = first / step * step;
        Self { first, step, allowed: empty.clone(), throttled: empty.clone(), refused: empty }
    }

    pub(super) fn column(&self, time: Timestamp) -> usize {
        let second = time.as_micros() / 1_000_000;
        usize::try_from(second.saturating_sub(self.first) / self.step).unwrap_or(0)
    }

    fn add(&mut self, time: Timestamp, verdict: Verdict) {
        let column = self.column(time);
        let row = match verdict {
            Verdict::Allowed => &mut self.allowed,
            Verdict::Throttled => &mut self.throttled,
            Verdict::Refused => &mut self.refused,
        };
        if let Some(count) = row.get_mut(column) {
            *count += 1;
        }
    }

    /// When each column begins, in seconds since the epoch.
    pub(super) fn times(&self) -> Vec<i64> {
        let begin = |column: u64| self.first.saturating_add(column * self.step);
        let columns = 0..self.allowed.len() as u64;
        columns.map(|column| i64::try_from(begin(column)).unwrap_or(i64::MAX)).collect()
    }

    /// All requests of a column.
    pub(super) fn requests(&self) -> Vec<u64> {
        let sum = |i: usize| self.allowed[i] + self.throttled[i] + self.refused[i];
        (0..self.allowed.len()).map(sum).collect()
    }
}

/// One of the clients refused most often.
#[derive(Debug)]
pub(super) struct ClientRow<'t> {
    pub(super) name: &'t str,
    pub(super) requests: u64,
    pub(super) refused: u64,
    /// Refusals over time.
    pub(super) over_time: Vec<u64>,
    /// Refusals by path.
    paths: HashMap<&'t str, u64, RandomState>,
    /// The last one.
    pub(super) user_agent: Option<&'t str>,
}

impl<'t> ClientRow<'t> {
    /// The path refused most often.
    pub(super) fn path(&self) -> Option<&'t str> {
        let most = self.paths.iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
        most.map(|(path, _)| *path)
    }
}

/// Requests of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathRow<'t> {
    pub(super) path: &'t str,
    pub(super) requests: u64,
    pub(super) refused: u64,
}

/// Requests over time, by client and by path.
#[derive(Debug)]
pub(super) struct Breakdown<'t> {
    pub(super) timeline: Timeline,
    pub(super) clients: Vec<ClientRow<'t>>,
    /// The paths refused most often.
    pub(super) paths: Vec<PathRow<'t>>,
}

impl<'t> Breakdown<'t> {
    pub(super) fn new(
        traffic: &'t Traffic,
        tally: &Tally<'t>,
        verdicts: &[Verdict],
        top: usize,
    ) -> Self {
        let (first, last) = (tally.course.first, tally.course.last);
        let mut timeline = Timeline::new(first, last);
        let mut clients: Vec<ClientRow<'t>> = tally
            .most_refused(top)
            .into_iter()
            .map(|(name, client)| ClientRow {
                name,
                requests: client.requests,
                refused: client.refused,
                over_time: vec![0; CLIENT_COLUMNS],
                paths: HashMap::default(),
                user_agent: None,
            })
            .collect();
        let places: HashMap<&str, usize, RandomState> =
            clients.iter().enumerate().map(|(i, client)| (client.name, i)).collect();
        let width = last.since(first).get() / CLIENT_COLUMNS as u64 + 1;
        let column = |record: RecordView<'t>| {
            let column = record.time().since(first).get() / width;
            usize::try_from(column).unwrap_or(0).min(CLIENT_COLUMNS - 1)
        };
        let mut paths: HashMap<&'t str, PathRow<'t>, RandomState> = HashMap::default();
        for (record, verdict) in traffic.iter().zip(verdicts) {
            timeline.add(record.time(), *verdict);
            let is_refused = *verdict == Verdict::Refused;
            if let Some(path) = record.path() {
                let row = paths.entry(path).or_insert(PathRow { path, ..PathRow::default() });
                row.requests += 1;
                row.refused += u64::from(is_refused);
            }
            let place = places.get(client_of(record)).filter(|_| is_refused);
            let Some(client) = place.and_then(|place| clients.get_mut(*place)) else { continue };
            client.over_time[column(record)] += 1;
            client.user_agent = record.header("user-agent").or(client.user_agent);
            if let Some(path) = record.path()
                && (client.paths.len() < MAX_PATHS_OF_CLIENT || client.paths.contains_key(path))
            {
                *client.paths.entry(path).or_default() += 1;
            }
        }
        let mut paths: Vec<PathRow<'t>> =
            paths.into_values().filter(|row| row.refused > 0).collect();
        paths.sort_unstable_by(|a, b| {
            (b.refused, b.requests).cmp(&(a.refused, a.requests)).then_with(|| a.path.cmp(b.path))
        });
        paths.truncate(top);
        Self { timeline, clients, paths }
    }
}
