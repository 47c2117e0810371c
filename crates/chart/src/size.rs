//! How large a chart is, and the same chart for wide and for narrow screens.

/// The view box of a chart. An SVG scales with its texts, so a chart for a narrow screen is drawn in a narrow box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Units across.
    pub width: u16,
    /// Units down.
    pub height: u16,
}

impl Size {
    /// As wide as a page.
    pub const WIDE: Self = Self { width: 960, height: 220 };
    /// Half as wide as a page.
    pub const HALF: Self = Self { width: 460, height: 160 };
    /// As wide as the screen of a telephone.
    pub const NARROW: Self = Self { width: 340, height: 180 };

    /// The size, or the smallest one in which a chart with axes has room.
    pub(crate) fn with_room_for_axes(self) -> Self {
        Self { width: self.width.max(80), height: self.height.max(60) }
    }

    pub(crate) fn opening(self, class: &str, label: &str) -> String {
        let Self { width, height } = self;
        let label = crate::escaped(label);
        format!(
            r#"<svg class="{class}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}""#
        )
    }
}

impl Default for Size {
    fn default() -> Self {
        Self::WIDE
    }
}

/// A chart drawn twice: in an element of class `wide`, and in one of class `narrow` with [`Size::NARROW`]. The page's
/// CSS shows one of them.
pub fn for_both_widths(wide: Size, draw: impl Fn(Size) -> String) -> String {
    let narrow = draw(Size::NARROW);
    format!(r#"<div class="wide">{}</div><div class="narrow">{narrow}</div>"#, draw(wide))
}
