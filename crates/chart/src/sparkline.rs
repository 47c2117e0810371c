//! A small line without axes, beside a figure or in a table.

use std::fmt::Write as _;

use crate::series::{drawable, runs};
use crate::text::number;
use crate::time_chart::follow;
use crate::{Size, escaped};

/// Keeps the line inside of the view box.
const MARGIN: f64 = 2.0;

/// A small line without axes.
#[derive(Clone, Copy, Debug)]
pub struct Sparkline<'a> {
    /// A sentence that says what the line shows.
    pub label: &'a str,
    /// The values at equal distances; `None` where there is no data.
    pub values: &'a [Option<f64>],
    /// A further CSS class of the line, such as `bad`; or nothing.
    pub class: &'a str,
    /// The view box.
    pub size: Size,
}

impl Sparkline<'_> {
    /// The view box of a line beside a figure.
    pub const SIZE: Size = Size { width: 120, height: 28 };

    /// The line as an `svg` element. Zero is at the bottom.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let (width, height) = (f64::from(self.size.width), f64::from(self.size.height));
        let value = |index: usize| drawable(self.values[index]);
        let most = (0..self.values.len()).filter_map(value).fold(0.0, f64::max);
        // As many as a picture has points.
        let last = self.values.len().saturating_sub(1).max(1) as f64;
        let margin = MARGIN.min(width / 2.0).min(height / 2.0);
        let point = |index: usize| {
            let x = margin + (width - 2.0 * margin) * (index as f64 / last);
            let part = if most > 0.0 { value(index).unwrap_or(0.0) / most } else { 0.0 };
            (x, height - margin - (height - 2.0 * margin) * part.clamp(0.0, 1.0))
        };
        let class = match self.class {
            "" => "line".to_owned(),
            class => format!("line {}", escaped(class)),
        };
        let mut svg = self.size.opening("spark", self.label) + ">";
        let mut path = String::new();
        for (first, last) in runs(self.values.len(), |index| value(index).is_some()) {
            if first == last {
                let (x, y) = point(first);
                let _ = write!(
                    svg,
                    r#"<circle class="dot {}" cx="{}" cy="{}" r="1"/>"#,
                    escaped(self.class),
                    number(x),
                    number(y)
                );
            } else {
                follow(&mut path, (first..=last).map(point), 'M');
            }
        }
        if !path.is_empty() {
            let _ = write!(svg, r#"<path class="{class}" d="{path}"/>"#);
        }
        svg + "</svg>"
    }
}
