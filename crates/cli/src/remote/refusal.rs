//! Why a server did not do what it was asked, as it tells it.

use http::StatusCode;
use serde::Deserialize;

use super::layout::printable;
use crate::failure::Failure;
use crate::terminal::count;

/// What came instead of an answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server says no.
    Refused(Refusal),
    /// There was no server to say anything, or what it said makes no sense.
    Failed(Failure),
}

/// What a server says when it says no.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// One sentence.
    pub(crate) told: String,
    /// What is wrong with a document, one by one.
    pub(crate) flaws: Vec<Flaw>,
}

/// One thing that is wrong with a document.
#[derive(Debug, Deserialize)]
pub(crate) struct Flaw {
    pub(crate) rule_id: Option<String>,
    #[serde(default)]
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) advice: Option<String>,
}

/// An error as the server tells it.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    #[serde(default)]
    problems: Vec<Flaw>,
}

impl Refusal {
    /// Reads what a server answered; none if no server of ours said it.
    pub(super) fn read(status: StatusCode, text: &str) -> Option<Self> {
        let Problem { code, detail, problems } = serde_json::from_str(text).ok()?;
        let told = if problems.is_empty() {
            format!("{detail} ({code})")
        } else {
            let found = count(problems.len() as u64, "problem");
            format!("the server does not take it ({code}): {found}")
        };
        Some(Self { status, told: printable(&told) + advice(status), flaws: problems })
    }
}

/// What can be done about it.
pub(super) fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => " (--token or TOLLGATE_TOKEN)",
        _ => "",
    }
}

impl Flaw {
    /// One line: `rule api_default, limit: expected a whole number; write one like 100`.
    pub(crate) fn line(&self) -> String {
        let rule = self.rule_id.as_ref().map(|rule| format!("rule {rule}"));
        let field = Some(self.field.clone()).filter(|field| !field.is_empty());
        let place: Vec<String> = rule.into_iter().chain(field).collect();
        let place = if place.is_empty() { String::new() } else { place.join(", ") + ": " };
        let advice = self.advice.as_ref().map(|advice| format!("; {advice}"));
        printable(&format!("{place}{}{}", self.message, advice.unwrap_or_default()))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let lines = refusal.flaws.iter().map(|flaw| format!("\n  {}", flaw.line()));
        Self::refused(refusal.told + &lines.collect::<String>())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
