//! The view, drawn. Whatever the size of the terminal, what fits is drawn, the most important first.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;
use unicode_width::UnicodeWidthStr as _;

use super::figures::{ListKind, RateSeries, ShownRow};
use super::keys::HELP;
use super::layout::{ViewParts, fit, fit_right, widths};
use super::once::{latency_text, rate, window};
use super::view::{SortColumn, TopView};
use crate::output::{Mood, Paint};
use crate::terminal::{count, grouped, lasting, moment, printable, sparkline};

/// The width of the figures beside their courses.
const RATE_WIDTH: usize = 10;
/// The widest course.
const MAX_COURSE: usize = 60;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut TopView, paint: Paint) {
    let area = frame.area();
    let parts = ViewParts::new(area.height.into());
    view.page = parts.rows.max(1);
    view.scroll_to(view.first);
    let mut canvas = Canvas { frame, area, line: 0, paint };
    let view = &*view;
    if parts.has_title {
        canvas.title(view);
    }
    if parts.has_courses {
        canvas.course(requests_name(view), &view.figures.requests);
        canvas.course("refused/s", &view.figures.refused);
    }
    if parts.has_rates {
        let (requests, refused) = (&view.figures.requests, &view.figures.refused);
        let name = requests_name(view);
        let text = format!("{name} {}  refused/s {}", rate(requests.now), rate(refused.now));
        canvas.put(Line::from(text));
    }
    if parts.has_state {
        canvas.state(view);
    }
    if parts.has_tabs {
        canvas.tabs(view);
    }
    if view.is_help {
        canvas.help(parts.rows + usize::from(parts.has_heads));
    } else {
        canvas.rows(view, parts);
    }
    if parts.has_footer {
        canvas.line = area.height - 1;
        canvas.footer(view);
    }
}

/// What a tenant-admin sees are decisions of its rules.
fn requests_name(view: &TopView) -> &'static str {
    if view.figures.fleet.is_some() { "requests/s" } else { "decisions/s" }
}

/// The screen, from the next line on.
struct Canvas<'f, 'b> {
    frame: &'f mut Frame<'b>,
    area: Rect,
    line: u16,
    paint: Paint,
}

impl Canvas<'_, '_> {
    fn width(&self) -> usize {
        self.area.width.into()
    }

    /// Puts a line onto the screen; what is too long for it is cut.
    fn put(&mut self, line: Line<'_>) {
        if self.line < self.area.height {
            let place = Rect { y: self.area.y + self.line, height: 1, ..self.area };
            self.frame.render_widget(Clear, place);
            self.frame.render_widget(line, place);
            self.line += 1;
        }
    }

    fn colour(&self, mood: Mood) -> Style {
        let colour = match mood {
            Mood::Good => Color::Green,
            Mood::Bad => Color::Red,
            Mood::Doubtful => Color::Yellow,
        };
        // Without colours, what is not good is bold.
        match mood {
            _ if self.paint.has_colours() => Style::new().fg(colour).add_modifier(Modifier::BOLD),
            Mood::Good => Style::new(),
            Mood::Bad | Mood::Doubtful => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// The server, and whether these are its figures of now.
    fn title(&mut self, view: &TopView) {
        let (state, style) = match &view.lost {
            _ if view.is_paused => {
                (format!("PAUSED at {}", moment(view.figures.at)), self.colour(Mood::Doubtful))
            }
            Some(lost) => {
                let lasting = match lost.lasting().as_secs() {
                    seconds @ 0..60 => format!("{seconds} s"),
                    seconds => lasting(seconds as f64),
                };
                (format!("NO RESPONSE for {lasting}"), self.colour(Mood::Bad))
            }
            None => (moment(view.figures.at), Style::new()),
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let left = self.width().saturating_sub(state.width() + 1);
        let title = fit(&format!("tollgate top  {}", view.server), left);
        self.put(Line::from(vec![
            Span::styled(title, bold),
            " ".into(),
            Span::styled(state, style),
        ]));
    }

    /// A rate, and its bars: the newest to the right.
    fn course(&mut self, name: &str, series: &RateSeries) {
        let figure = format!("{name:<12}{}  ", fit_right(&rate(series.now), RATE_WIDTH));
        let room = self.width().saturating_sub(figure.width()).min(MAX_COURSE);
        let first = series.points.len().saturating_sub(room);
        let bars = sparkline(&series.points[first..]);
        let mood = if name == "refused/s" { Mood::Bad } else { Mood::Good };
        let style = match self.paint.has_colours() {
            true => self.colour(mood).remove_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        self.put(Line::from(vec![figure.into(), Span::styled(bars, style)]));
    }

    /// Latency, store and nodes; or why there is no response.
    fn state(&mut self, view: &TopView) {
        if let Some(lost) = view.lost.as_ref().filter(|_| !view.is_paused) {
            let (text, style) = (format!("retrying: {}", lost.why), self.colour(Mood::Bad));
            return self.put(Line::styled(fit(&text, self.width()), style));
        }
        let figures = &view.figures;
        let mut parts: Vec<Span<'_>> = Vec::new();
        let latency = figures.latency.map_or_else(|| "none".to_owned(), latency_text);
        if let Some(fleet) = &figures.fleet {
            parts.push(format!("checks {latency}").into());
            let mood = match fleet.store.as_str() {
                "memory" | "up" => Mood::Good,
                "partly_up" => Mood::Doubtful,
                _ => Mood::Bad,
            };
            let store = format!("store {}", fleet.store.replace('_', " "));
            parts.push(Span::styled(store, self.colour(mood)));
            parts.push(count(fleet.nodes as u64, "node").into());
            if figures.unreachable_since.is_some() {
                parts.push(Span::styled("others unreachable", self.colour(Mood::Bad)));
            }
            if fleet.draining > 0 {
                let text = format!("{} draining", fleet.draining);
                parts.push(Span::styled(text, self.colour(Mood::Doubtful)));
            }
        }
        if figures.silent > 0 {
            let text = format!("{} silent", figures.silent);
            parts.push(Span::styled(text, self.colour(Mood::Doubtful)));
        }
        parts.extend(figures.bans.map(|bans| count(bans, "ban").into()));
        parts.push(format!("revision {}", figures.revision).into());
        parts.push(format!("up {}", lasting(figures.uptime_seconds.floor())).into());
        let mut line = Line::default();
        for part in parts {
            // Half a figure could be taken for a whole one. The first part is cut if it has to be.
            if !line.spans.is_empty() && line.width() + 2 + part.width() > self.width() {
                break;
            }
            if !line.spans.is_empty() {
                line.push_span("  ");
            }
            line.push_span(part);
        }
        self.put(line);
    }

    /// The lists, the one that is shown highlighted; by number alone if there is no room for their names.
    fn tabs(&mut self, view: &TopView) {
        let short = |kind: ListKind| match kind {
            ListKind::WouldRefuse => "shadow rules",
            other => other.title(),
        };
        let whole: usize = ListKind::ALL.iter().map(|kind| short(*kind).len() + 5).sum();
        let mut spans = Vec::new();
        for (number, kind) in (1..).zip(ListKind::ALL) {
            let is_shown = kind == view.list;
            let text = match (whole <= self.width(), is_shown) {
                (true, _) => format!(" {number} {} ", short(kind)),
                (false, true) => format!(" {number} {} ", kind.title()),
                (false, false) => format!(" {number} "),
            };
            let style = if is_shown {
                Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
            } else {
                Style::new()
            };
            spans.push(Span::styled(text, style));
            spans.push(" ".into());
        }
        self.put(Line::from(spans));
    }

    fn rows(&mut self, view: &TopView, parts: ViewParts) {
        let rows = view.rows();
        let columns: Vec<(SortColumn, usize)> = view
            .columns()
            .into_iter()
            .map(|column| {
                let cells = rows.iter().map(|row| cell(column, row).width());
                (column, cells.max().unwrap_or(0).max(head(column, view).width()))
            })
            .collect();
        let widths = widths(&columns, self.width());
        if parts.has_heads {
            let heads = widths.iter().map(|(column, width)| {
                let text = head(*column, view);
                if is_figure(*column) { fit_right(&text, *width) } else { fit(&text, *width) }
            });
            let style = Style::new().add_modifier(Modifier::UNDERLINED);
            let heads = fit(&heads.collect::<Vec<_>>().join("  "), self.width());
            self.put(Line::styled(heads, style));
        }
        if rows.is_empty() {
            return self.put(Line::from(empty(view)));
        }
        for row in rows.into_iter().skip(view.first).take(parts.rows) {
            let mut spans = Vec::new();
            for (column, width) in &widths {
                if !spans.is_empty() {
                    spans.push(Span::raw("  "));
                }
                let text = cell(*column, row);
                spans.push(match column {
                    _ if !is_figure(*column) => Span::raw(fit(&text, *width)),
                    SortColumn::Used if row.used.is_some_and(|used| used >= 100) => {
                        Span::styled(fit_right(&text, *width), self.colour(Mood::Bad))
                    }
                    _ => Span::raw(fit_right(&text, *width)),
                });
            }
            self.put(Line::from(spans));
        }
    }

    fn help(&mut self, lines: usize) {
        for (keys, what) in HELP.into_iter().take(lines) {
            self.put(Line::from(format!("{keys:<24}{what}")));
        }
    }

    fn footer(&mut self, view: &TopView) {
        if view.is_typing {
            let text =
                format!("filter: {}_   Enter keeps it, Esc removes it", printable(&view.filter));
            return self.put(Line::styled(text, Style::new().add_modifier(Modifier::BOLD)));
        }
        let list = &view.figures.lists[view.list as usize];
        let shown = view.rows().len();
        let mut facts = vec![format!("by {}, {}", view.figures.by, window(&view.figures))];
        if !view.filter.is_empty() {
            let filter = printable(&view.filter);
            facts.push(format!("{shown} of {} with \"{filter}\"", list.rows.len()));
        }
        if list.may_lack > 0 {
            facts.push(format!("each may lack {}", grouped(list.may_lack)));
        }
        let keys = "q quit  ? help  Tab list  s sort  / filter  p pause";
        let facts = facts.join(", ");
        let room = self.width().saturating_sub(keys.width() + 2);
        let text = if room >= facts.width() {
            format!("{keys}  {facts}")
        } else if view.filter.is_empty() {
            format!("q quit  ? help  {facts}")
        } else {
            facts
        };
        self.put(Line::styled(fit(&text, self.width()), Style::new().add_modifier(Modifier::DIM)));
    }
}

const fn is_figure(column: SortColumn) -> bool {
    matches!(column, SortColumn::Count | SortColumn::Used)
}

/// The name of a column, with the direction if rows are sorted by it.
fn head(column: SortColumn, view: &TopView) -> String {
    let name = match column {
        SortColumn::Count => "requests",
        SortColumn::Used => "used",
        SortColumn::Name => &view.figures.by,
        SortColumn::Tenant => "tenant",
        SortColumn::Rule => "rule",
    };
    // Figures begin with the highest, texts with the first.
    match column == view.sort {
        true if is_figure(column) != view.is_reversed => format!("{name} ↓"),
        true => format!("{name} ↑"),
        false => name.to_owned(),
    }
}

fn cell(column: SortColumn, row: &ShownRow) -> String {
    match column {
        SortColumn::Count => grouped(row.count),
        SortColumn::Used => row.used.map(|used| format!("{used} %")).unwrap_or_default(),
        SortColumn::Name => row.name.clone(),
        SortColumn::Tenant => row.tenant.clone(),
        SortColumn::Rule => row.rule.clone(),
    }
}

/// Why there are no rows.
fn empty(view: &TopView) -> String {
    if !view.filter.is_empty() {
        return format!("nothing with \"{}\"", printable(&view.filter));
    }
    let what = match view.list {
        ListKind::Refused => "no refusals",
        ListKind::NearLimit => "nothing near a limit",
        ListKind::Busiest => "no requests",
        ListKind::WouldRefuse => "no refusals by shadow rules",
    };
    format!("{what} in {}", window(&view.figures))
}

#[cfg(test)]
mod tests;
