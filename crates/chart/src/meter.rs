//! How much of something is used: one horizontal bar.

use crate::series::drawable;
use crate::text::number;
use crate::{Size, escaped};

/// The view box, which is stretched to the size that the page gives it.
const SIZE: Size = Size { width: 100, height: 8 };

/// How much of something is used.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a> {
    /// A sentence that says what is measured, and the figures.
    pub label: &'a str,
    /// The part.
    pub value: f64,
    /// The whole.
    pub whole: f64,
    /// A further CSS class of the bar, such as `k-ref`; or nothing.
    pub class: &'a str,
}

impl Meter<'_> {
    /// The bar as an `svg` element. A part that is not nothing is visible.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let value = drawable(Some(self.value)).unwrap_or(0.0);
        let part = match drawable(Some(self.whole)) {
            Some(whole) if whole > 0.0 => (value / whole).clamp(0.0, 1.0),
            _ => 0.0,
        };
        let least = if value > 0.0 && part > 0.0 { 0.5 } else { 0.0 };
        let class = match self.class {
            "" => "fill".to_owned(),
            class => format!("fill {}", escaped(class)),
        };
        format!(
            r#"{} preserveAspectRatio="none"><rect class="track" x="0" y="0" width="100" height="8"/><rect class="{class}" x="0" y="0" width="{}" height="8"/></svg>"#,
            SIZE.opening("meter", self.label),
            number((part * 100.0).max(least)),
        )
    }
}
