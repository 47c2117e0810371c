//! What a page says when there is nothing to show, something failed, or a text is wrong.

use maud::{Markup, html};

use super::texts::{moment, t};
use crate::model::{DiffKind, DiffLine, Failure, Finding, FindingKind, Severity, Time};

/// Nothing to show yet, and what to do next.
pub(crate) fn empty(what: &str, next: &Markup) -> Markup {
    html! { div.empty { p { b { (what) } } p.dim { (next) } } }
}

/// A part that could not be read: what failed, since when, what still works.
pub(crate) fn failed(failure: &Failure, now: Time) -> Markup {
    html! {
        div.failed role="status" {
            p {
                b { (t(&failure.what)) }
                @if let Some(since) = failure.since { " Since " (moment(since, now)) " UTC." }
            }
            @if let Some(still_works) = &failure.still_works { p.dim { (t(still_works)) } }
        }
    }
}

/// The class of a severity.
pub(crate) const fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warn",
        Severity::Bad => "bad",
    }
}

/// What the linter found. Lines are those of a text: a form has none.
pub(crate) fn findings(findings: &[Finding], has_lines: bool) -> Markup {
    let errors = findings.iter().filter(|finding| finding.kind == FindingKind::Error).count();
    html! {
        div #findings .lint role="status" {
            @if errors == 0 { p { b.ok { "No errors." } } }
            @for finding in findings {
                p.finding {
                    @match finding.kind {
                        FindingKind::Error => b.bad { "Error" },
                        FindingKind::Advice => b.warn { "Advice" },
                    }
                    @if let (Some(line), true) = (finding.line, has_lines) { " line " (line) }
                    @if !finding.field.is_empty() { " " code { (t(&finding.field)) } }
                    ": " (t(&finding.message))
                    @if let Some(advice) = &finding.advice { span.dim { " — " (t(advice)) } }
                }
            }
        }
    }
}

/// A difference line by line, with signs.
pub(crate) fn diff(lines: &[DiffLine]) -> Markup {
    html! {
        pre.diff tabindex="0" aria-label="The difference, line by line" {
            @for line in lines {
                @match line.kind {
                    DiffKind::Same => span.same { "  " (t(&line.text)) },
                    DiffKind::Removed => del { "- " (t(&line.text)) },
                    DiffKind::Added => ins { "+ " (t(&line.text)) },
                }
                "\n"
            }
        }
    }
}

/// What figures do not show.
pub(crate) fn caveat(text: Option<&str>) -> Markup {
    html! { @if let Some(text) = text { p.caveat { (t(text)) } } }
}
