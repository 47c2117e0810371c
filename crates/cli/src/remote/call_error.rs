//! Why a call failed: the server refuses it, or there is no response.

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate_api::{DocumentProblem, ProblemBody};
use tollgate_client::{CertificateProblem, ConnectionFailure, Error};

use crate::failure::Failure;
use crate::terminal::{count, printable};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server refuses it.
    Refused(CallRefusal),
    /// There is no response, or an invalid one.
    Failed(Failure),
}

/// Why a server refuses a call.
#[derive(Debug)]
pub(crate) struct CallRefusal {
    pub(crate) status: StatusCode,
    /// One sentence.
    pub(crate) message: String,
    /// What is wrong with a document, one by one.
    pub(crate) problems: Vec<DocumentProblem>,
}

/// A response with the status of an error.
pub(super) fn refused(server: &str, response: &Response<Bytes>) -> CallError {
    let status = response.status();
    let advice = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => " (--token or TOLLGATE_TOKEN)",
        _ => "",
    };
    let Ok(body) = serde_json::from_slice::<ProblemBody<'_>>(response.body()) else {
        return CallError::Failed(Failure::usage(format!(
            "{server} answered {status}. Is it a Tollgate server? (--server){advice}"
        )));
    };
    let ProblemBody { code, detail, problems, .. } = body;
    let message = if problems.is_empty() {
        format!("{detail} ({code})")
    } else {
        let found = count(problems.len() as u64, "problem");
        format!("the server does not take it ({code}): {found}")
    };
    CallError::Refused(CallRefusal {
        status,
        message: printable(&message) + advice,
        problems: problems.into_owned(),
    })
}

/// Why there is no response, and which flag may help.
pub(super) fn connection_failure(error: &Error, is_https: bool, has_ca: bool) -> Failure {
    let message = match error {
        Error::Unreachable { server, failure, reason } => match failure {
            ConnectionFailure::Certificate(problem) => {
                format!("cannot reach {server}: {}", certificate_advice(problem, has_ca))
            }
            ConnectionFailure::Tls => {
                format!("cannot reach {server}: {reason}. Does it speak TLS? (--server)")
            }
            ConnectionFailure::Connect => {
                format!("cannot reach {server}: {reason}. Is `tollgate serve` running? (--server)")
            }
            _ => {
                let or_https = if is_https { "" } else { ", or does it want https" };
                format!(
                    "{server} gave no proper answer: {reason}. Is it a Tollgate server{or_https}? (--server)"
                )
            }
        },
        Error::TimedOut { .. } => format!("{error} (--timeout)"),
        other => other.to_string(),
    };
    Failure::usage(message)
}

fn certificate_advice(problem: &CertificateProblem, has_ca: bool) -> String {
    match problem {
        CertificateProblem::UnknownIssuer if has_ca => {
            "the authority of --ca did not sign its certificate".to_owned()
        }
        CertificateProblem::UnknownIssuer => {
            "no authority that the system trusts signed its certificate. Trust its authority with --ca, \
             if that is what you want."
                .to_owned()
        }
        CertificateProblem::WrongName => {
            "its certificate is for another name. Ask for one of its names (--server).".to_owned()
        }
        CertificateProblem::Expired => "its certificate has expired".to_owned(),
        CertificateProblem::NotYetValid => "its certificate is not valid yet".to_owned(),
        CertificateProblem::AuthorityCertificate => {
            "its certificate is that of an authority, which is no server's. Give the server one with \
             basicConstraints CA:FALSE."
                .to_owned()
        }
        CertificateProblem::Other(why) => format!("its certificate cannot be used: {why}"),
        _ => "its certificate cannot be used".to_owned(),
    }
}

/// A problem in a line: `rule api_default, limit: expected a whole number; write one like 100`.
pub(crate) fn problem_line(problem: &DocumentProblem) -> String {
    let DocumentProblem { rule_id, field, message, advice, .. } = problem;
    let rule = rule_id.as_ref().map(|rule| format!("rule {rule}"));
    let field = Some(field.clone()).filter(|field| !field.is_empty());
    let place: Vec<String> = rule.into_iter().chain(field).collect();
    let place = if place.is_empty() { String::new() } else { place.join(", ") + ": " };
    let advice = advice.as_ref().map(|advice| format!("; {advice}"));
    printable(&format!("{place}{message}{}", advice.unwrap_or_default()))
}

impl CallError {
    /// The failure of a call that names a rule or a revision: one that does not exist is wrong usage.
    pub(crate) fn or_unknown(self) -> Failure {
        let is_unknown = matches!(&self, Self::Refused(refusal)
            if matches!(refusal.status, StatusCode::NOT_FOUND | StatusCode::GONE));
        let failure = Failure::from(self);
        if is_unknown { failure.unanswered() } else { failure }
    }
}

impl From<CallRefusal> for Failure {
    fn from(refusal: CallRefusal) -> Self {
        let lines = refusal.problems.iter().map(|problem| format!("\n  {}", problem_line(problem)));
        Self::refused(refusal.message + &lines.collect::<String>())
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
