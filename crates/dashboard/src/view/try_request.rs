//! A composed request, and its explanation beside it.

use maud::{Markup, html};

use super::explanation::explanation;
use crate::model::{Chrome, TryForm, TryRequest};
use crate::part::{Field, empty, hidden, post, select, t};
use crate::path;

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &TryRequest) -> Markup {
    html! {
        div.two.wide {
            section.card {
                h2 { "Request" }
                @if let Some(problem) = &model.problem { div.notice.bad role="alert" { (t(problem)) } }
                (form(&model.form))
                @if model.can_check && model.explanation.is_some() { (check(chrome, &model.form)) }
            }
            section.card {
                @match &model.explanation {
                    Some(found) => (explanation(found, chrome.now)),
                    None => {
                        h2 { "Decision" }
                        (empty("Compose a request and explain it.", &html! {
                            "Every rule is listed: whether it applies, why not, its key and what is left of it."
                        }))
                    }
                }
            }
        }
    }
}

fn form(form: &TryForm) -> Markup {
    let methods: Vec<(&str, &str)> = METHODS.iter().map(|it| (*it, *it)).collect();
    let method = if form.method.is_empty() { "GET" } else { &form.method };
    let field = |label, name, value, placeholder| {
        Field { label, name, value, placeholder, ..Field::default() }.html()
    };
    html! {
        form method="get" action=(path::TRY) {
            div.form {
                (select("Method", "method", &methods, method))
                (Field { label: "Endpoint", name: "endpoint", value: &form.endpoint, placeholder: "/orders", is_wide: true, ..Field::default() }.html())
                (field("User", "user_id", &form.user_id, ""))
                (field("Tenant", "tenant", &form.tenant, ""))
                (field("Address", "ip", &form.ip, "203.0.113.7"))
                (field("API key", "api_key", &form.api_key, ""))
                (field("Host", "host", &form.host, ""))
                (field("Tier", "tier", &form.tier, ""))
                (Field { label: "Cost", name: "cost", value: &form.cost, placeholder: "1", kind: "number", ..Field::default() }.html())
                (Field {
                    label: "Attributes", name: "attributes", value: &form.attributes, is_wide: true, is_multiline: true,
                    hint: "headers, claims and others, one name=value a line", ..Field::default()
                }.html())
            }
            div.actions { button.primary type="submit" { "Explain" } }
        }
    }
}

/// The same request again, to be charged.
fn check(chrome: &Chrome, form: &TryForm) -> Markup {
    let fields = html! {
        @for (name, value) in path::try_fields(form) { (hidden(name, value)) }
        p.dim { "A check charges the counters, as a real request would." }
        button type="submit" { "Check this request (charges)" }
    };
    html! { div.charge { (post(chrome, path::TRY, None, &fields)) } }
}
