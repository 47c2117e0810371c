//! Horizontal bars in groups, to compare a few things by a few figures.

use std::fmt::Write as _;

use crate::series::drawable;
use crate::text::{fitted, number, width_of};
use crate::{Size, escaped};

const BAR_HEIGHT: f64 = 14.0;
const BAR_GAP: f64 = 3.0;
const GROUP_GAP: f64 = 12.0;
const NAME_HEIGHT: f64 = 18.0;
/// From a name to its bars, and from a bar to its figure.
const SPACE: f64 = 8.0;
/// Below this width names stand above their bars.
const MIN_WIDTH_FOR_COLUMN: u16 = 420;
/// Largest share of the width that the column of names has.
const MAX_COLUMN: f64 = 0.4;

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// The CSS class that gives it a colour.
    pub class: &'a str,
    /// Its length.
    pub value: f64,
    /// The figure beside it.
    pub text: &'a str,
}

/// Bars that belong together.
#[derive(Clone, Copy, Debug)]
pub struct BarGroup<'a> {
    /// What they belong to.
    pub name: &'a str,
    /// From top to bottom.
    pub bars: &'a [Bar<'a>],
}

/// Horizontal bars in groups, all on one scale from zero.
#[derive(Clone, Copy, Debug)]
pub struct BarChart<'a> {
    /// A sentence that says what the chart shows.
    pub label: &'a str,
    /// From top to bottom.
    pub groups: &'a [BarGroup<'a>],
    /// The width of the view box; the height follows from the bars.
    pub width: u16,
}

impl BarChart<'_> {
    /// The chart as an `svg` element.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let width = f64::from(self.width);
        let has_column = self.width >= MIN_WIDTH_FOR_COLUMN;
        let all = || self.groups.iter().flat_map(|group| group.bars);
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let left = if has_column {
            let names = widest(&mut self.groups.iter().map(|group| width_of(group.name)));
            names.min(width * MAX_COLUMN) + SPACE
        } else {
            0.0
        };
        let figures = widest(&mut all().map(|bar| width_of(bar.text))) + SPACE;
        let room = (width - left - figures).max(1.0).min(width - left);
        let most = all().filter_map(|bar| drawable(Some(bar.value))).fold(0.0, f64::max);

        let mut drawn = String::new();
        let mut y = 0.0;
        for (i, group) in self.groups.iter().enumerate() {
            y += if i == 0 { 0.0 } else { GROUP_GAP };
            let name = escaped(&fitted(group.name, if has_column { left - SPACE } else { width }));
            let baseline = number(y + BAR_HEIGHT - 3.0);
            let _ = write!(drawn, r#"<text class="name" x="0" y="{baseline}">{name}</text>"#);
            y += if has_column { 0.0 } else { NAME_HEIGHT };
            for bar in group.bars {
                let part = match drawable(Some(bar.value)) {
                    Some(value) if most > 0.0 => value / most,
                    _ => 0.0,
                };
                let length = room * part.clamp(0.0, 1.0);
                let _ = write!(
                    drawn,
                    r#"<rect class="bar {}" x="{}" y="{}" width="{}" height="{BAR_HEIGHT}"/><text class="value" x="{}" y="{}">{}</text>"#,
                    escaped(bar.class),
                    number(left),
                    number(y),
                    number(length),
                    number((left + length + SPACE / 2.0).min(width)),
                    number(y + BAR_HEIGHT - 3.0),
                    escaped(bar.text),
                );
                y += BAR_HEIGHT + BAR_GAP;
            }
            if group.bars.is_empty() && has_column {
                y += BAR_HEIGHT + BAR_GAP;
            }
        }
        // Whole, positive, and small: as high as the bars.
        let height = y.ceil().clamp(1.0, f64::from(u16::MAX)) as u16;
        let size = Size { width: self.width, height };
        format!("{}>{drawn}</svg>", size.opening("bars", self.label))
    }
}
