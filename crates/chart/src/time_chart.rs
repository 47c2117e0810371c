//! Lines or stacked areas over time.

use std::fmt::Write as _;

use crate::series::runs;
use crate::text::{number, tick, width_of};
use crate::time_axis::{TimeAxis, TimeLabels};
use crate::value_axis::ValueAxis;
use crate::{Series, Size, escaped};

const TOP: f64 = 12.0;
const BOTTOM: f64 = 24.0;
const RIGHT: f64 = 12.0;
/// From the labels of the vertical axis to the axis.
const GAP: f64 = 8.0;
/// Space that a label of the horizontal axis needs.
const TIME_LABEL_WIDTH: f64 = 68.0;
/// Half the width of an area for a single point.
const POINT: f64 = 1.0;

/// How values over time are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One line for each series.
    #[default]
    Lines,
    /// Areas on top of each other, the first series at the bottom. Where some series have a value, the others count
    /// as zero; where none has, there is a gap.
    Stacked,
}

/// How the values behind the picture can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hover {
    /// Only by the label.
    #[default]
    None,
    /// By a title for each time, which browsers show without a script.
    Titles,
    /// By a script: the chart can have the focus, and has the attributes `data-times` (seconds since the epoch),
    /// `data-series` (a list of objects with `name`, `class` and `values`), `data-unit`, `data-plot` (left, top,
    /// right, bottom of the data in the view box) and `data-span` (the times at the left and at the right).
    Data,
}

/// A dashed vertical line with a text: something happened then.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Seconds since the epoch.
    pub at: i64,
    /// A few characters that stand beside the line.
    pub name: &'a str,
    /// What browsers show when the pointer is on it.
    pub title: &'a str,
}

/// Lines or stacked areas over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeChart<'a> {
    /// A sentence that says what the chart shows.
    pub label: &'a str,
    /// Seconds since the epoch, ascending.
    pub times: &'a [i64],
    /// Each with one value for each time.
    pub series: &'a [Series<'a>],
    /// Lines or areas.
    pub shape: Shape,
    /// Follows each figure of the vertical axis: `/s`, ` ms`, ` %`.
    pub unit: &'a str,
    /// Changes to show.
    pub marks: &'a [Mark<'a>],
    /// From when until when, in seconds since the epoch; else from the first time to the last.
    pub span: Option<(i64, i64)>,
    /// What times are called.
    pub clock: TimeLabels,
    /// The view box, at least 80 by 60.
    pub size: Size,
    /// How values can be read.
    pub hover: Hover,
}

impl TimeChart<'_> {
    /// The chart as an `svg` element.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let plot = self.plot();
        let mut svg = self.size.with_room_for_axes().opening("chart", self.label);
        if self.hover == Hover::Data {
            svg += &self.data(&plot);
        }
        svg.push('>');
        self.draw_axes(&plot, &mut svg);
        match self.shape {
            Shape::Lines => self.draw_lines(&plot, &mut svg),
            Shape::Stacked => self.draw_areas(&plot, &mut svg),
        }
        for mark in self.marks.iter().filter(|mark| plot.times.contains(mark.at)) {
            plot.draw_mark(mark, &mut svg);
        }
        if self.hover == Hover::Titles {
            self.draw_titles(&plot, &mut svg);
        }
        svg + "</svg>"
    }

    fn plot(&self) -> Plot {
        let ends = self.times.first().copied().zip(self.times.last().copied());
        let (from, to) = self.span.or(ends).unwrap_or((0, 0));
        let most = (0..self.times.len())
            .map(|index| match self.shape {
                Shape::Lines => {
                    self.series.iter().filter_map(|series| series.at(index)).fold(0.0, f64::max)
                }
                Shape::Stacked => self.below(self.series.len(), index),
            })
            .fold(0.0, f64::max);
        let values = ValueAxis::for_values_up_to(most);
        let labels = values.ticks().into_iter().map(|value| self.value_label(value, values));
        let widest = labels.map(|label| width_of(&label)).fold(0.0, f64::max);
        let size = self.size.with_room_for_axes();
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        let left = (widest + GAP).min(width / 2.0);
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        Plot { left, top: TOP, right, bottom, width, times: TimeAxis::new(from, to), values }
    }

    /// The sum of the first series at an index.
    fn below(&self, series: usize, index: usize) -> f64 {
        self.series.iter().take(series).filter_map(|series| series.at(index)).sum()
    }

    fn value_label(&self, value: f64, axis: ValueAxis) -> String {
        format!("{}{}", tick(value, axis.step), self.unit)
    }

    fn draw_axes(&self, plot: &Plot, svg: &mut String) {
        let Plot { left, right, bottom, width, .. } = *plot;
        let (x1, x2) = (number(left), number(right));
        for (i, value) in plot.values.ticks().into_iter().enumerate() {
            let y = plot.y(value);
            let class = if i == 0 { "axis" } else { "grid" };
            let (line, baseline) = (number(y), number(y + 4.0));
            let _ = write!(
                svg,
                r#"<line class="{class}" x1="{x1}" x2="{x2}" y1="{line}" y2="{line}"/><text class="tick" x="{}" y="{baseline}" text-anchor="end">{}</text>"#,
                number((left - GAP + 2.0).max(0.0)),
                escaped(&self.value_label(value, plot.values)),
            );
        }
        if self.times.is_empty() && self.span.is_none() {
            return;
        }
        let most = (plot.right - plot.left) / TIME_LABEL_WIDTH;
        // A few, and never negative.
        for (time, label) in plot.times.ticks(most as i64, self.clock) {
            let x = plot.x(time);
            let half = width_of(&label) / 2.0;
            let anchor = match x {
                x if x - half < 0.0 => "start",
                x if x + half > width => "end",
                _ => "middle",
            };
            let (x, y) = (number(x), number(bottom + 18.0));
            let _ = write!(
                svg,
                r#"<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{label}</text>"#
            );
        }
    }

    fn draw_lines(&self, plot: &Plot, svg: &mut String) {
        for series in self.series {
            let class = escaped(series.class);
            let mut path = String::new();
            let mut dots = String::new();
            for (first, last) in runs(self.times.len(), |index| series.at(index).is_some()) {
                let points: Vec<(f64, f64)> = (first..=last)
                    .filter_map(|index| {
                        Some((plot.x(self.times[index]), plot.y(series.at(index)?)))
                    })
                    .collect();
                match points[..] {
                    [(x, y)] => {
                        let (x, y) = (number(x), number(y));
                        let _ = write!(
                            dots,
                            r#"<circle class="dot {class}" cx="{x}" cy="{y}" r="2"/>"#
                        );
                    }
                    _ => follow(&mut path, points.into_iter(), 'M'),
                }
            }
            if !path.is_empty() {
                let _ = write!(svg, r#"<path class="line {class}" d="{path}"/>"#);
            }
            *svg += &dots;
        }
    }

    fn draw_areas(&self, plot: &Plot, svg: &mut String) {
        let has_data = |index| self.series.iter().any(|series| series.at(index).is_some());
        let runs = runs(self.times.len(), has_data);
        for (i, series) in self.series.iter().enumerate() {
            let mut path = String::new();
            for &(first, last) in &runs {
                if (first..=last).all(|index| series.at(index).unwrap_or(0.0) <= 0.0) {
                    continue;
                }
                let edge = |series: usize, index: usize| {
                    (plot.x(self.times[index]), plot.y(self.below(series, index)))
                };
                let (mut upper, mut lower): (Vec<_>, Vec<_>) =
                    (first..=last).map(|index| (edge(i + 1, index), edge(i, index))).unzip();
                if let ([(x, high)], [(_, low)]) = (&upper[..], &lower[..]) {
                    let (left, right) = ((x - POINT).max(plot.left), (x + POINT).min(plot.right));
                    (upper, lower) =
                        (vec![(left, *high), (right, *high)], vec![(left, *low), (right, *low)]);
                }
                follow(&mut path, upper.into_iter(), 'M');
                follow(&mut path, lower.into_iter().rev(), 'L');
                path.push('Z');
            }
            if !path.is_empty() {
                let _ = write!(svg, r#"<path class="area {}" d="{path}"/>"#, escaped(series.class));
            }
        }
    }

    /// Invisible areas, each with the figures of one time as its title.
    fn draw_titles(&self, plot: &Plot, svg: &mut String) {
        let x = |index: usize| self.times.get(index).map(|time| plot.x(*time));
        for index in 0..self.times.len() {
            let figures: Vec<String> = self
                .series
                .iter()
                .filter_map(|series| {
                    let value = number(series.at(index)?);
                    Some(format!("{} {value}{}", series.name, self.unit))
                })
                .collect();
            let (Some(here), false) = (x(index), figures.is_empty()) else { continue };
            let between =
                |other: Option<f64>| other.map_or(here, |other| f64::midpoint(other, here));
            let left = between(index.checked_sub(1).and_then(x)).max(plot.left);
            let right = between(x(index + 1)).clamp(left, plot.right.max(left));
            let _ = write!(
                svg,
                r#"<rect class="hit" x="{}" y="{}" width="{}" height="{}"><title>{}: {}</title></rect>"#,
                number(left),
                number(plot.top),
                number(right - left),
                number(plot.bottom - plot.top),
                self.clock.exactly(self.times[index]),
                escaped(&figures.join(", ")),
            );
        }
    }

    /// What a script needs for a tooltip and a cursor.
    fn data(&self, plot: &Plot) -> String {
        let times: Vec<String> = self.times.iter().map(ToString::to_string).collect();
        let series: Vec<String> = self
            .series
            .iter()
            .map(|series| {
                let value = |index| series.at(index).map_or_else(|| "null".to_owned(), number);
                let values: Vec<String> = (0..self.times.len()).map(value).collect();
                format!(
                    r#"{{"name":{},"class":{},"values":[{}]}}"#,
                    json(series.name),
                    json(series.class),
                    values.join(",")
                )
            })
            .collect();
        let ends = self.times.first().copied().zip(self.times.last().copied());
        let (from, to) = self.span.or(ends).unwrap_or((0, 0));
        format!(
            r#" tabindex="0" data-times="[{}]" data-series="{}" data-unit="{}" data-plot="{} {} {} {}" data-span="{from} {to}""#,
            times.join(","),
            escaped(&format!("[{}]", series.join(","))),
            escaped(self.unit),
            number(plot.left),
            number(plot.top),
            number(plot.right),
            number(plot.bottom),
        )
    }
}

/// Where the data is in the view box.
struct Plot {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    /// Of the view box.
    width: f64,
    times: TimeAxis,
    values: ValueAxis,
}

impl Plot {
    fn x(&self, time: i64) -> f64 {
        self.left + (self.right - self.left) * self.times.fraction(time)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.values.fraction(value)
    }

    fn draw_mark(&self, mark: &Mark<'_>, svg: &mut String) {
        let x = self.x(mark.at);
        let is_right = x + 4.0 + width_of(mark.name) > self.width;
        let (text, anchor) = if is_right { (x - 4.0, "end") } else { (x + 4.0, "start") };
        let _ = write!(
            svg,
            r#"<g><title>{}</title><line class="mark" x1="{x}" x2="{x}" y1="{}" y2="{}"/><text class="marktext" x="{}" y="{}" text-anchor="{anchor}">{}</text></g>"#,
            escaped(mark.title),
            number(self.top),
            number(self.bottom),
            number(text.max(0.0)),
            number(self.top - 2.0),
            escaped(mark.name),
            x = number(x),
        );
    }
}

/// Adds points to a path, the first one with another command.
pub(crate) fn follow(path: &mut String, points: impl Iterator<Item = (f64, f64)>, first: char) {
    for (i, (x, y)) in points.enumerate() {
        let command = if i == 0 { first } else { 'L' };
        let _ = write!(path, "{command}{},{}", number(x), number(y));
    }
}

/// A text as JSON. Line breaks and other controls are shown by [`escaped`] later; JSON has them as escapes.
fn json(text: &str) -> String {
    let mut json = String::from('"');
    for c in crate::shown(text).chars() {
        if matches!(c, '"' | '\\') {
            json.push('\\');
        }
        json.push(c);
    }
    json + "\""
}
