//! A named row of values, and the legend that names them.

use crate::escaped;

/// The largest value that is drawn; larger ones are drawn as this.
const MAX_VALUE: f64 = 1e15;

/// A named row of values.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its name in legends and tooltips.
    pub name: &'a str,
    /// The CSS class that gives it a colour.
    pub class: &'a str,
    /// One value for each time; `None` where there is no data.
    pub values: &'a [Option<f64>],
}

impl Series<'_> {
    /// The value at an index, if it can be drawn.
    pub(crate) fn at(&self, index: usize) -> Option<f64> {
        drawable(self.values.get(index).copied().flatten())
    }
}

/// A value, if it can be drawn.
pub(crate) fn drawable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0).map(|value| value.min(MAX_VALUE))
}

/// The ranges of consecutive indices for which there is something.
pub(crate) fn runs(length: usize, has_data: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for index in (0..length).filter(|index| has_data(*index)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    runs
}

/// The names of series with their colours, as HTML.
#[must_use]
pub fn legend(entries: &[(&str, &str)]) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(class, name)| {
            format!(r#"<span><i class="{}"></i>{}</span>"#, escaped(class), escaped(name))
        })
        .collect();
    format!(r#"<span class="legend">{}</span>"#, entries.join(" "))
}
