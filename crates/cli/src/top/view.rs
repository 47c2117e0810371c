//! The state of the view: which list, in which order, and what the server last said.

use std::cmp::Ordering;
use std::time::Duration;

use tollgate::Stopwatch;

use super::events::PollOrder;
use super::figures::{ListKind, LiveFigures, ShownRow};
use crate::admin::RankedBy;
use crate::terminal::printable;

/// The longest text to filter by.
pub(super) const MAX_FILTER: usize = 100;

/// The column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortColumn {
    Count,
    Used,
    Name,
    Tenant,
    Rule,
}

impl SortColumn {
    pub(super) const ALL: [Self; 5] =
        [Self::Count, Self::Used, Self::Name, Self::Tenant, Self::Rule];

    /// Figures from the highest on, texts from the beginning of the alphabet on.
    fn compare(self, one: &ShownRow, other: &ShownRow) -> Ordering {
        let by_column = match self {
            Self::Count => other.count.cmp(&one.count),
            Self::Used => other.used.cmp(&one.used),
            Self::Name => one.name.cmp(&other.name),
            Self::Tenant => one.tenant.cmp(&other.tenant),
            Self::Rule => one.rule.cmp(&other.rule),
        };
        by_column.then_with(|| other.count.cmp(&one.count)).then_with(|| one.name.cmp(&other.name))
    }
}

/// Why there are no new figures, and for how long there have been none.
#[derive(Clone, Debug)]
pub(super) struct LostServer {
    since: Stopwatch,
    pub(super) why: String,
}

impl LostServer {
    pub(super) fn lasting(&self) -> Duration {
        self.since.elapsed()
    }
}

/// What is on the screen, and how.
#[derive(Debug)]
pub(super) struct TopView {
    pub(super) server: String,
    pub(super) by: RankedBy,
    pub(super) window: u64,
    pub(super) list: ListKind,
    pub(super) sort: SortColumn,
    pub(super) is_reversed: bool,
    /// Only rows with this text in them, in lower case.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) is_help: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    /// How many rows fit, as they were last drawn.
    pub(super) page: usize,
    pub(super) figures: LiveFigures,
    pub(super) lost: Option<LostServer>,
}

impl TopView {
    pub(super) fn new(server: &str, by: RankedBy, window: u64) -> Self {
        Self {
            server: server.to_owned(),
            by,
            window,
            list: ListKind::Refused,
            sort: SortColumn::Count,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            is_help: false,
            first: 0,
            page: 1,
            figures: LiveFigures::default(),
            lost: None,
        }
    }

    /// What the server is asked for.
    pub(super) fn order(&self) -> PollOrder {
        PollOrder { by: self.by, window: self.window, is_paused: self.is_paused }
    }

    /// Takes new figures, or why there are none: then the last ones stay. A view that pauses stays as it is.
    pub(super) fn take(&mut self, polled: Result<LiveFigures, String>) {
        if self.is_paused {
            return;
        }
        match polled {
            Ok(figures) => {
                self.figures = figures;
                self.lost = None;
            }
            Err(why) => {
                let since = self.lost.as_ref().map_or_else(Stopwatch::start, |lost| lost.since);
                // One line: it has one.
                let why = printable(why.lines().next().unwrap_or_default());
                self.lost = Some(LostServer { since, why });
            }
        }
    }

    /// The rows of the list that fit the filter, in order.
    pub(super) fn rows(&self) -> Vec<&ShownRow> {
        let list = &self.figures.lists[self.list as usize];
        let is_wanted = |row: &&ShownRow| {
            let texts = [&row.name, &row.tenant, &row.rule];
            texts.iter().any(|text| text.to_lowercase().contains(&self.filter))
        };
        let mut rows: Vec<&ShownRow> = list.rows.iter().filter(is_wanted).collect();
        rows.sort_by(|one, other| self.sort.compare(one, other));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// The columns that have something in them.
    pub(super) fn columns(&self) -> Vec<SortColumn> {
        let rows = &self.figures.lists[self.list as usize].rows;
        let has = |column: &SortColumn| match column {
            SortColumn::Count | SortColumn::Name => true,
            SortColumn::Used => rows.iter().any(|row| row.used.is_some()),
            SortColumn::Tenant => rows.iter().any(|row| !row.tenant.is_empty()),
            SortColumn::Rule => rows.iter().any(|row| !row.rule.is_empty()),
        };
        SortColumn::ALL.into_iter().filter(has).collect()
    }
}
