//! What fits: texts into columns, columns into a line, and lines onto the screen.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::view::SortColumn;

/// The narrowest column of names.
const MIN_NAME: usize = 10;
/// The widest columns of tenants and rules, in shares of what is left of the line.
const TENANT_SHARE: usize = 4;
const RULE_SHARE: usize = 3;
/// The space between two columns.
const GAP: usize = 2;

/// Which parts of the view there is room for, from the top to the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ViewParts {
    /// Each line is a whole one, from here on.
    pub(super) has_title: bool,
    pub(super) has_courses: bool,
    /// Both rates in one line, if there is no room for courses.
    pub(super) has_rates: bool,
    pub(super) has_state: bool,
    pub(super) has_tabs: bool,
    pub(super) has_heads: bool,
    pub(super) rows: usize,
    pub(super) has_footer: bool,
}

impl ViewParts {
    pub(super) fn new(height: usize) -> Self {
        let has = |least: usize| height >= least;
        let mut parts = Self {
            has_title: has(3),
            has_courses: has(11),
            has_rates: has(6) && !has(11),
            has_state: has(8),
            has_tabs: has(4),
            has_heads: has(5),
            rows: 0,
            has_footer: has(7),
        };
        let taken = [
            parts.has_title,
            parts.has_courses,
            parts.has_courses,
            parts.has_rates,
            parts.has_state,
            parts.has_tabs,
            parts.has_heads,
            parts.has_footer,
        ];
        parts.rows = height - taken.iter().filter(|has| **has).count();
        parts
    }
}

/// A text in exactly so many columns of the terminal: cut with an ellipsis, or filled up with spaces.
pub(super) fn fit(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    if text.width() <= width {
        return format!("{text}{}", " ".repeat(missing));
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = used + c.width().unwrap_or(0);
        // The ellipsis takes one.
        if next + 1 > width {
            break;
        }
        used = next;
        cut.push(c);
    }
    if used < width {
        cut.push('…');
        used += 1;
    }
    // A wide character that did not fit leaves a space.
    cut + &" ".repeat(width - used)
}

/// A figure in exactly so many columns, to the right.
pub(super) fn fit_right(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    fit(&format!("{}{text}", " ".repeat(missing)), width)
}

/// The widths of columns, as many as fit, whose contents have these widths. The name takes what is left.
pub(super) fn widths(columns: &[(SortColumn, usize)], line: usize) -> Vec<(SortColumn, usize)> {
    let mut shown: Vec<(SortColumn, usize)> = columns.to_vec();
    let share = |column: SortColumn, width: usize| match column {
        SortColumn::Tenant => width.min(line / TENANT_SHARE),
        SortColumn::Rule => width.min(line / RULE_SHARE),
        _ => width,
    };
    for (column, width) in &mut shown {
        *width = share(*column, *width);
    }
    let others = |shown: &[(SortColumn, usize)]| -> usize {
        shown.iter().filter(|(it, _)| *it != SortColumn::Name).map(|(_, it)| it + GAP).sum()
    };
    // The least important ones go first.
    for column in [SortColumn::Rule, SortColumn::Tenant, SortColumn::Used, SortColumn::Count] {
        if others(&shown) + MIN_NAME > line {
            shown.retain(|(it, _)| *it != column);
        }
    }
    let left = line.saturating_sub(others(&shown));
    for (column, width) in &mut shown {
        if *column == SortColumn::Name {
            // Columns to the right are close to the names, not at the edge.
            *width = (*width).max(MIN_NAME).min(left);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_exactly_the_width_of_their_column() {
        let check = |text: &str, width: usize, expected: &str| {
            assert_eq!(fit(text, width), expected, "{text}");
            assert_eq!(fit(text, width).width(), width, "{text}");
        };
        check("abc", 5, "abc  ");
        check("abc", 3, "abc");
        check("abcd", 3, "ab…");
        check("中文字", 6, "中文字");
        check("中文字", 5, "中文…");
        check("中文字", 4, "中… ");
        check("中", 1, "…");
        check("a", 0, "");
        check("", 0, "");
        assert_eq!(fit_right("12", 5), "   12");
    }

    #[test]
    fn every_height_is_used_and_never_more() {
        for height in 0..60 {
            let parts = ViewParts::new(height);
            assert!(parts.rows <= height, "{height}: {parts:?}");
            assert!(height < 1 || parts.rows >= 1, "{height}: {parts:?}");
        }
        assert_eq!(ViewParts::new(24).rows, 17);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        use SortColumn::{Count, Name, Rule, Tenant, Used};
        let all = [(Count, 6), (Used, 5), (Name, 30), (Tenant, 9), (Rule, 20)];
        let kept = |line| widths(&all, line).into_iter().map(|(it, _)| it).collect::<Vec<_>>();
        assert_eq!(kept(80), [Count, Used, Name, Tenant, Rule]);
        assert_eq!(kept(40), [Count, Used, Name, Tenant]);
        assert_eq!(kept(26), [Count, Used, Name]);
        assert_eq!(kept(18), [Count, Name]);
        assert_eq!(kept(10), [Name]);
        for line in 0..200 {
            let sum: usize = widths(&all, line).iter().map(|(_, width)| width + GAP).sum();
            assert!(sum <= line + GAP, "{line}");
        }
    }
}
