//! The pages: each gathers what it shows, and turns its forms into calls of the API.

mod audit;
mod candidate;
mod client;
mod client_decisions;
pub(super) mod client_forms;
mod client_key;
mod client_standing;
mod clients;
pub(super) mod decision;
mod deleted_rule;
mod explained;
mod health;
pub(super) mod keys;
pub(super) mod lists;
mod live;
mod overview;
mod rule;
pub(super) mod rule_forms;
mod rules;
pub(super) mod simulate;
pub(super) mod try_request;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use tollgate_dashboard::model::{Chrome, Tab};
use tollgate_dashboard::{Page, path};

use super::page::{html, see_other};
use super::page_problem::PageProblem;
use super::visit::Visit;

/// Shows the page at the path of a visit.
pub(super) async fn show(visit: Visit) -> Response {
    visit
        .show(|visit| async move {
            if let Some(decision) = clients::typed_decision(&visit) {
                return Ok(see_other(&decision));
            }
            let (chrome, page) = gather(&visit).await?;
            let mut response = html(page.html(&chrome));
            if matches!(page, Page::DeletedRule(_)) {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            Ok(response)
        })
        .await
}

/// What the page at the path of a visit shows.
pub(super) async fn gather(visit: &Visit) -> Result<(Chrome, Page), PageProblem> {
    let under = |prefix: &str| {
        let name = visit.uri.path().strip_prefix(prefix)?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        Some(name.into_owned()).filter(|name| !name.is_empty() && !name.contains('\0'))
    };
    let (tab, page) = match visit.uri.path() {
        path::OVERVIEW => (Tab::Overview, Page::Overview(overview::gather(visit).await?.into())),
        path::RULES => (Tab::Rules, Page::Rules(rules::gather(visit)?.into())),
        path::NEW_RULE => (Tab::Rules, Page::Rule(Box::pin(rule::gather_new(visit)).await?.into())),
        path::CLIENTS => (Tab::Clients, Page::Clients(clients::gather(visit).await?.into())),
        path::CLIENT => (Tab::Clients, Page::Client(client::gather(visit).await?.into())),
        path::LIVE => (Tab::Live, Page::Live(live::gather(visit).await?.into())),
        path::TRY => (Tab::Try, Page::Try(try_request::gather(visit).await?.into())),
        path::SIMULATE => (Tab::Simulate, Page::Simulate(simulate::gather(visit)?.into())),
        path::AUDIT => (Tab::Audit, Page::Audit(audit::gather(visit).await?.into())),
        path::LISTS => (Tab::Lists, Page::Lists(lists::gather(visit).await?.into())),
        path::KEYS => (Tab::Keys, Page::Keys(keys::gather(visit).await?.into())),
        path::HEALTH => (Tab::Health, Page::Health(health::gather(visit)?.into())),
        _ => {
            if let Some(rule_id) = under("/ui/rules/") {
                let page = match Box::pin(rule::gather(visit, &rule_id)).await {
                    Err(problem) if problem.code == "unknown_rule" => {
                        let gone = Box::pin(deleted_rule::gather(visit, &rule_id, problem)).await?;
                        Page::DeletedRule(gone.into())
                    }
                    found => Page::Rule(found?.into()),
                };
                (Tab::Rules, page)
            } else if let Some(id) = under(path::DECISIONS) {
                (Tab::Live, Page::Decision(decision::gather(visit, &id).await?.into()))
            } else {
                return Err(PageProblem::not_found("there is no page at this address"));
            }
        }
    };
    Ok((visit.chrome(tab), page))
}

/// The name in a path.
fn path_of(name: Result<Path<String>, PathRejection>) -> Result<String, PageProblem> {
    let Path(name) = name.map_err(|_| PageProblem::not_found("the address cannot be read"))?;
    if name.contains('\0') {
        return Err(PageProblem::not_found("the address contains a NUL byte: remove it"));
    }
    Ok(name)
}

/// A path of this server, to go to after a form; `None` for anything else, like another site.
pub(in crate::edge::ui) fn local_path(path: Option<&str>) -> Option<String> {
    let path = path?;
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_local.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_lead_to_pages_of_this_server_only() {
        for (path, is_local) in [
            ("/", true),
            ("/ui/rules?q=a%20b&x=1", true),
            ("", false),
            ("ui", false),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("https://evil.example", false),
            ("/a\r\nSet-Cookie: x=1", false),
            ("/ä", false),
        ] {
            assert_eq!(local_path(Some(path)).is_some(), is_local, "{path:?}");
        }
        assert_eq!(local_path(None), None);
    }
}
