//! The status and body of a refusal, where a service or a rule has its own.
//!
//! Only refusals by a limit or a ban use it. A client on a block list gets 403 and an unavailable store 503, with a
//! problem document: a text about limits would be wrong there.

use std::borrow::Cow;
use std::sync::Arc;

use ::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use ::http::{HeaderName, HeaderValue, StatusCode};
use tollgate_rules::{FigureValue, RefusalBody, RefusalTemplate, TemplateFigure};

use super::figures::{remaining, reset_at, retry_after};
use super::refusal::{PROBLEM_JSON, code_of, message_of, problem_body, refused_by};
use crate::decision::{Decision, Refusal};

/// How a refusal by a limit or a ban looks, unless its rule says otherwise: by default 429 with a problem document.
#[derive(Clone, Debug, Default)]
pub struct RefusalFormat {
    status: Option<StatusCode>,
    template: Option<Arc<RefusalTemplate>>,
}

impl RefusalFormat {
    /// Sets another status than 429.
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Sets another body than a problem document.
    #[must_use]
    pub fn body(self, template: RefusalTemplate) -> Self {
        Self { template: Some(Arc::new(template)), ..self }
    }

    /// Appends the body of a refusal to `out`; returns its status and content type.
    pub fn write(
        &self,
        decision: &Decision,
        decision_id: &str,
        out: &mut Vec<u8>,
    ) -> (StatusCode, HeaderValue) {
        if !matches!(decision.refusal(), Some(Refusal::RateLimited | Refusal::Banned)) {
            let status = problem_body(decision, decision_id, None, out);
            return (status, HeaderValue::from_static(PROBLEM_JSON));
        }
        // Of several rules that refuse, the one that binds chooses, as it does for the header fields.
        let by_rule = refused_by(decision).and_then(|rule| rule.refusal.as_deref());
        let status = by_rule.and_then(|refusal| StatusCode::from_u16(refusal.status?).ok());
        let status = status.or(self.status);
        let template = match by_rule.and_then(|refusal| refusal.body.as_ref()) {
            Some(RefusalBody::Problem) => None,
            Some(RefusalBody::Template(template)) => Some(template),
            None => self.template.as_deref(),
        };
        // A template's content type was checked when it was read.
        let content_type = |text: &str| HeaderValue::from_str(text).ok();
        match template.and_then(|template| Some((template, content_type(template.content_type())?)))
        {
            Some((template, content_type)) => {
                let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
                template.write(&|figure| value_of(figure, decision, decision_id, status), out);
                (status, content_type)
            }
            None => {
                let status = problem_body(decision, decision_id, status, out);
                (status, HeaderValue::from_static(PROBLEM_JSON))
            }
        }
    }
}

/// The header fields of a body that [`RefusalFormat::write`] wrote, by its content type. Authors of rules choose texts that
/// are sent in the name of the service, so browsers run no script of such a body and do not guess that it is a page.
pub fn content_fields(
    content_type: HeaderValue,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let is_own = content_type != PROBLEM_JSON;
    let guards = [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (CONTENT_SECURITY_POLICY, "sandbox")];
    let guards = guards.map(|(name, value)| (name, HeaderValue::from_static(value)));
    [(CONTENT_TYPE, content_type)].into_iter().chain(guards.into_iter().filter(move |_| is_own))
}

fn value_of<'a>(
    figure: TemplateFigure,
    decision: &'a Decision,
    id: &'a str,
    status: StatusCode,
) -> FigureValue<'a> {
    let number = |number: Option<u64>| number.map_or(FigureValue::Absent, FigureValue::Number);
    let binding = decision.binding();
    match figure {
        TemplateFigure::RuleId => match refused_by(decision) {
            Some(rule) => FigureValue::Text(Cow::Borrowed(&rule.id)),
            None => FigureValue::Absent,
        },
        TemplateFigure::Limit => number(binding.map(|binding| binding.outcome.limit)),
        TemplateFigure::Remaining => number(binding.map(|binding| remaining(&binding.outcome))),
        TemplateFigure::ResetAt => number(
            binding.map(|binding| reset_at(decision.now(), binding.limit(), &binding.outcome)),
        ),
        TemplateFigure::RetryAfter => number(retry_after(decision)),
        TemplateFigure::DecisionId => FigureValue::Text(Cow::Borrowed(id)),
        TemplateFigure::Status => FigureValue::Number(u64::from(status.as_u16())),
        TemplateFigure::Code => FigureValue::Text(Cow::Borrowed(code_of(decision))),
        TemplateFigure::Message => FigureValue::Text(Cow::Owned(message_of(decision))),
    }
}
