//! HTML that is safe by its type: texts are escaped where they become markup, and nowhere else.

use std::fmt::Write as _;
use std::ops::AddAssign;

use tollgate_chart::escaped;

/// HTML.
#[derive(Clone, Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// A text from anywhere: escaped, with invisible characters made visible.
    pub(super) fn text(text: &str) -> Self {
        Self(escaped(text))
    }

    /// What charts are made of.
    pub(super) fn chart(svg: String) -> Self {
        Self(svg)
    }

    /// An element of a class, or of none.
    pub(super) fn element(name: &'static str, class: &'static str, inner: Self) -> Self {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let inner = inner.0;
        Self(format!("<{name}{class}>{inner}</{name}>"))
    }

    /// An element with a text.
    pub(super) fn with_text(name: &'static str, class: &'static str, text: &str) -> Self {
        Self::element(name, class, Self::text(text))
    }

    /// One after the other.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl AddAssign for Markup {
    fn add_assign(&mut self, other: Self) {
        self.0 += &other.0;
    }
}

/// A section with a heading, a sentence about it, and what it shows.
pub(super) fn card(heading: Markup, about: &str, inner: Markup) -> Markup {
    let mut content = Markup::element("h2", "", heading);
    if !about.is_empty() {
        content += Markup::with_text("p", "dim about", about);
    }
    content += inner;
    Markup::element("section", "card", content)
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) name: &'static str,
    /// `num` for figures, `opt` for what narrow screens do not show.
    pub(super) class: &'static str,
}

/// Columns by their names and classes.
pub(super) const fn heading(name: &'static str, class: &'static str) -> Heading {
    Heading { name, class }
}

/// A table.
pub(super) fn table<const N: usize>(headings: [Heading; N], rows: Vec<[Markup; N]>) -> Markup {
    let mut text = String::from("<table><thead><tr>");
    for Heading { name, class } in headings {
        let _ = write!(text, "<th scope=\"col\" class=\"{class}\">{}</th>", escaped(name));
    }
    text += "</tr></thead><tbody>";
    for row in rows {
        text += "<tr>";
        for (cell, Heading { class, .. }) in row.into_iter().zip(headings) {
            let _ = write!(text, "<td class=\"{class}\">{}</td>", cell.0);
        }
        text += "</tr>";
    }
    Markup(text + "</tbody></table>")
}
