//! Explains a request that a person composes, and checks it if that is wanted.

use axum::response::Response;
use http::Method;
use serde_json::{Map, Value as JsonValue};
use tollgate_api::{CheckResponse, RecordedRequest};
use tollgate_dashboard::model::{Explanation, Identifier, Tab, TryForm, TryRequest, Verdict};
use tollgate_dashboard::{Page, path};

use super::explained::explanation;
use crate::admin::auth::Right;
use crate::edge::http::routes::CHECK;
use crate::edge::ui::convert::identifier;
use crate::edge::ui::page::{self, refused};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::{FormVisit, Visit};
use crate::observe::audit_log::{recorded, shortened};

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<TryRequest, PageProblem> {
    let form = form_of(|name| visit.parameter(name));
    tried(visit, form, false).await.map(|(page, _)| page)
}

/// Checks and charges the request.
pub(in crate::edge::ui) async fn check(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let (page, problem) = tried(&visit, form_of(|name| form.text(name)), true).await?;
            let html = Page::Try(Box::new(page)).html(&visit.chrome(Tab::Try));
            Ok(match problem {
                Some(problem) => refused(html, &problem),
                None => page::html(html),
            })
        })
        .await
}

/// The page with an explanation, or with what is wrong with the form.
async fn tried(
    visit: &Visit,
    form: TryForm,
    is_charged: bool,
) -> Result<(TryRequest, Option<PageProblem>), PageProblem> {
    visit.require(Right::Look)?;
    let is_empty = form == TryForm::default();
    let explained = if is_empty { Ok(None) } else { explain(visit, &form, is_charged).await };
    let mut page =
        TryRequest { form, can_check: visit.may(Right::Caller), ..TryRequest::default() };
    match explained {
        Ok(explanation) => {
            page.explanation = explanation;
            Ok((page, None))
        }
        Err(problem) => {
            page.problem = Some(problem.sentence());
            Ok((page, Some(problem)))
        }
    }
}

/// Explains a request. One that is charged is checked first: the figures are those after it.
async fn explain(
    visit: &Visit,
    form: &TryForm,
    is_charged: bool,
) -> Result<Option<Explanation>, PageProblem> {
    let check = request_of(form)?;
    let checked = if is_charged {
        let response = visit.send(Method::POST, CHECK, &[], &check).await?;
        Some(response.json::<CheckResponse<'_>>()?)
    } else {
        None
    };
    let explained = visit.explain(&check).await?;
    let mut explanation = explanation(&explained, identity_of(form));
    if let Some(checked) = checked {
        explanation.is_charged = true;
        explanation.decision_id = checked.decision_id.map(std::borrow::Cow::into_owned);
        if let Some(id) = explanation.decision_id.clone() {
            visit.ui.app.audit_log.tried.keep(id, recorded_of(form));
        }
        explanation.verdict = match (checked.allowed, checked.delay_ms) {
            (false, _) => Verdict::Refused,
            (true, Some(_)) => Verdict::Waits,
            (true, None) => Verdict::Passes,
        };
        explanation.binding = checked.rule_id.map(std::borrow::Cow::into_owned);
        explanation.because = checked.because.or(explanation.because);
        explanation.retry_ms = checked.retry_after.flatten().map(|seconds| seconds * 1_000);
        explanation.delay_ms = checked.delay_ms;
        for rule in &mut explanation.rules {
            rule.binds = explanation.binding.as_ref() == Some(&rule.rule_id);
        }
    }
    Ok(Some(explanation))
}

/// The request as typed.
fn form_of<'a>(field: impl Fn(&str) -> Option<&'a str>) -> TryForm {
    let text = |name: &str| field(name).unwrap_or_default().to_owned();
    TryForm {
        method: text("method"),
        endpoint: text("endpoint"),
        host: text("host"),
        user_id: text("user_id"),
        api_key: text("api_key"),
        ip: text("ip"),
        tenant: text("tenant"),
        tier: text("tier"),
        cost: text("cost"),
        attributes: text("attributes"),
    }
}

/// The request as the API takes it.
fn request_of(form: &TryForm) -> Result<JsonValue, PageProblem> {
    let (mut identifiers, mut attributes, mut check) = (Map::new(), Map::new(), Map::new());
    for (name, value) in path::try_fields(form) {
        let text = JsonValue::from(value);
        match name {
            "user_id" | "api_key" | "ip" | "tenant" => {
                identifiers.insert(name.to_owned(), text);
            }
            "cost" => {
                let cost = value
                    .parse::<u64>()
                    .map_err(|_| PageProblem::invalid("cost: a whole number like 1, or nothing"))?;
                check.insert(name.to_owned(), cost.into());
            }
            "attributes" => {
                for line in value.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    let Some((name, value)) = line.split_once('=') else {
                        let detail = "attributes: one `name=value` in each line, like header:x=1";
                        return Err(PageProblem::invalid(detail));
                    };
                    attributes.insert(name.trim().to_owned(), value.trim().into());
                }
            }
            other => {
                check.insert(other.to_owned(), text);
            }
        }
    }
    check.insert("identifiers".to_owned(), identifiers.into());
    if !attributes.is_empty() {
        check.insert("attributes".to_owned(), attributes.into());
    }
    Ok(check.into())
}

/// The request as the log of decisions would have it.
fn recorded_of(form: &TryForm) -> RecordedRequest {
    let known = |text: &str| Some(shortened(text).to_owned()).filter(|text| !text.is_empty());
    let path = form.endpoint.split(['?', '#']).next().unwrap_or_default();
    let identity = identity_of(form).into_iter();
    RecordedRequest {
        method: known(&form.method),
        endpoint: known(path),
        identifiers: identity
            .map(|it| {
                let value = recorded(Some(&it.identifier_type), &it.value);
                (it.identifier_type, value)
            })
            .collect(),
        ..RecordedRequest::default()
    }
}

fn identity_of(form: &TryForm) -> Vec<Identifier> {
    let fields = [
        ("user_id", &form.user_id),
        ("api_key", &form.api_key),
        ("ip", &form.ip),
        ("tenant", &form.tenant),
    ];
    let known = fields.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(kind, value)| identifier(kind, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_form_becomes_a_check() {
        let form = TryForm {
            method: "POST".to_owned(),
            endpoint: "/login".to_owned(),
            ip: "192.0.2.1".to_owned(),
            cost: "2".to_owned(),
            attributes: "header:x = a=b\n\nclaim:plan=pro\n".to_owned(),
            ..TryForm::default()
        };
        let expected = json!({
            "method": "POST", "endpoint": "/login", "identifiers": {"ip": "192.0.2.1"}, "cost": 2,
            "attributes": {"header:x": "a=b", "claim:plan": "pro"},
        });
        assert_eq!(request_of(&form).expect("a check"), expected);
        let wrong = |form: &TryForm| request_of(form).expect_err("a problem").detail;
        let cost = TryForm { cost: "-1".to_owned(), ..TryForm::default() };
        assert!(wrong(&cost).starts_with("cost:"));
        let attributes = TryForm { attributes: "x".to_owned(), ..TryForm::default() };
        assert!(wrong(&attributes).starts_with("attributes:"));
    }
}
