//! Why a page cannot be shown or a form was refused: a problem of the API, or one of the dashboard, as a page.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use tollgate_api::{DocumentProblem, ProblemBody};
use tollgate_dashboard::model::{ErrorPage, Failure, SignIn, Tab};
use tollgate_dashboard::{Page, path, sign_in};

use super::page::html;
use super::visit::Visit;
use crate::edge::http::problem::Problem;

/// A problem on its way to a page.
#[derive(Clone, Debug)]
pub(super) struct PageProblem {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) detail: String,
    /// Everything that is wrong with a document, one by one.
    pub(super) problems: Vec<DocumentProblem>,
    retry_after: Option<HeaderValue>,
}

impl From<Problem> for PageProblem {
    fn from(mut problem: Problem) -> Self {
        Self {
            status: problem.status(),
            code: problem.code().to_owned(),
            retry_after: problem.headers_mut().remove(header::RETRY_AFTER),
            detail: problem.detail().to_owned(),
            problems: Vec::new(),
        }
    }
}

impl PageProblem {
    pub(super) fn internal(detail: &str) -> Self {
        Problem::internal(detail).into()
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Problem::not_found("unknown_path", detail).into()
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Problem::unprocessable("invalid_form", detail).into()
    }

    /// A problem that the API responded with.
    pub(super) fn of_api(status: StatusCode, body: Option<ProblemBody<'_>>) -> Self {
        let Some(body) = body else {
            let detail = "the API refused the call, and did not say why: see the log";
            return Self { status, ..Self::internal(detail) };
        };
        Self {
            status,
            code: body.code.into_owned(),
            detail: body.detail.into_owned(),
            problems: body.problems.into_owned(),
            retry_after: None,
        }
    }

    /// When to try again, for the header field.
    pub(super) const fn retry_after(&self) -> Option<&HeaderValue> {
        self.retry_after.as_ref()
    }

    /// The detail as a sentence.
    pub(super) fn sentence(&self) -> String {
        let text = self.detail.trim_end_matches('.');
        let word = text.split(' ').next().unwrap_or_default();
        // The name of a field or a file stays as it is.
        let is_word = word
            .trim_end_matches([',', ';'])
            .chars()
            .all(|c| c.is_alphabetic() || matches!(c, '-' | '\''));
        let mut characters = text.chars();
        let first = characters.next().filter(|_| is_word).map(char::to_uppercase);
        match first {
            Some(first) => first.chain(characters).chain(['.']).collect(),
            None => format!("{text}."),
        }
    }

    /// The problem in place of a part of a page.
    pub(super) fn failure(&self) -> Failure {
        let still_works = match &*self.code {
            "catalog_unavailable" => Some("Checks go on with the rules in force.".to_owned()),
            _ => None,
        };
        Failure { what: self.sentence(), since: None, still_works }
    }

    /// The problem as a page: in the frame of the visit, or with the form to sign in.
    pub(super) fn respond(&self, visit: Option<&Visit>) -> Response {
        let title = match &*self.code {
            "unknown_rule" => "No such rule",
            "unknown_decision" => "No such decision",
            "rules_from_file" | "no_log" => "Not with rules from a file",
            "catalog_unavailable" => "The catalog does not respond",
            "changed_meanwhile" => "Changed meanwhile",
            "right_missing" | "other_tenant" | "read_only" => "Not allowed",
            "invalid_document" | "invalid_form" | "missing_field" => "The form has mistakes",
            "too_many_calls" => "Too many requests",
            "unknown_host" => "Unknown host",
            "foreign_form" | "cross_site_request" => "This form was not accepted",
            _ => self.status.canonical_reason().unwrap_or("Error"),
        };
        let mut response = match visit {
            Some(visit) => self.in_frame(visit, title),
            None => {
                let problem = Some(format!("{title}. {}", self.sentence()));
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let next = path::OVERVIEW.to_owned();
                html(sign_in(&SignIn { version, problem, next, ..SignIn::default() }))
            }
        };
        *response.status_mut() = self.status;
        if let Some(seconds) = &self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
        }
        response
    }
    fn in_frame(&self, visit: &Visit, title: &str) -> Response {
        let still_works = match self.status.as_u16() {
            503 | 504 => Some("Checks go on with the rules in force.".to_owned()),
            _ => None,
        };
        let mut links = vec![("Overview".to_owned(), path::OVERVIEW.to_owned())];
        if self.code == "unknown_rule" {
            links.insert(0, ("All rules".to_owned(), path::RULES.to_owned()));
        }
        let page = ErrorPage {
            status: self.status.as_u16(),
            title: title.to_owned(),
            detail: self.sentence(),
            since: None,
            still_works,
            links,
        };
        html(Page::Error(Box::new(page)).html(&visit.chrome(Tab::default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_a_capital_unless_it_begins_with_a_name() {
        let check = |detail: &str, expected: &str| {
            assert_eq!(PageProblem::invalid(detail).sentence(), expected);
        };
        check("the log is empty", "The log is empty.");
        check("first, choose a log.", "First, choose a log.");
        check("rule_id: there is no rule", "rule_id: there is no rule.");
        check("`kind` is one of rule, tier", "`kind` is one of rule, tier.");
        check("access.log is empty", "access.log is empty.");
        check("", ".");
    }
}
