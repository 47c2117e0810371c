//! What can be done to a client: another limit for a while, a place on the deny list, a tier, a reset.

use axum::response::Response;
use http::Method;
use serde_json::{Map, Value as JsonValue, json};
use tollgate::Micros;
use tollgate_api::Changed;
use tollgate_dashboard::model::{ClientMenu, ClientMistake, Identifier, Tab};
use tollgate_dashboard::{Page, path};

use super::client::{gather_of, pairs};
use super::client_key::is_digest;
use super::explained::check_of;
use super::local_path;
use crate::edge::http::wire::time::rfc_3339;
use crate::edge::ui::form::{self, Form};
use crate::edge::ui::notice;
use crate::edge::ui::page::{refused, see_other};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::{FormVisit, Visit};

/// The longest time that a form sets, in minutes: a year.
const MAX_MINUTES: u64 = 366 * 24 * 60;

/// Makes an exception from a rule for a client.
pub(in crate::edge::ui) async fn set_override(visit: FormVisit) -> Response {
    answer(visit, ClientMenu::Override).await
}

/// Puts a client on the deny list.
pub(in crate::edge::ui) async fn ban(visit: FormVisit) -> Response {
    answer(visit, ClientMenu::Deny).await
}

/// Puts a client into a tier, or takes it out.
pub(in crate::edge::ui) async fn set_tier(visit: FormVisit) -> Response {
    answer(visit, ClientMenu::Tier).await
}

/// Resets the counters of a client, under one rule or all.
pub(in crate::edge::ui) async fn reset(visit: FormVisit) -> Response {
    answer(visit, ClientMenu::Reset).await
}

/// Does what a menu is for. A mistake comes back on the page of the client, with what was entered.
async fn answer(FormVisit { visit, form }: FormVisit, menu: ClientMenu) -> Response {
    visit
        .show(move |visit| async move {
            let done = match menu {
                ClientMenu::Override => override_limit(&visit, &form).await,
                ClientMenu::Deny => deny(&visit, &form).await,
                ClientMenu::Tier => change_tier(&visit, &form).await,
                ClientMenu::Reset => reset_counters(&visit, &form).await,
            };
            match done {
                Err(problem) if problem.status.is_client_error() => {
                    again(&visit, &form, menu, problem).await
                }
                done => done,
            }
        })
        .await
}

/// The page of the client with what is wrong with a form.
async fn again(
    visit: &Visit,
    form: &Form,
    menu: ClientMenu,
    problem: PageProblem,
) -> Result<Response, PageProblem> {
    // Without a client there is no page of it.
    let Ok(client) = client_of(form) else { return Err(problem) };
    let page_of = shown_client(form).unwrap_or_else(|| client.clone());
    let page = gather_of(visit, page_of, String::new(), String::new()).await;
    let Ok(mut page) = page else { return Err(problem) };
    let own = ["csrf", "next", "type", "value"];
    let entered = form.fields().filter(|(name, _)| !own.contains(name));
    page.mistake = Some(ClientMistake {
        menu,
        text: problem.sentence(),
        client,
        entered: entered.map(|(name, text)| (name.to_owned(), text.to_owned())).collect(),
    });
    let html = Page::Client(Box::new(page)).html(&visit.chrome(Tab::Clients));
    Ok(refused(html, &problem))
}

/// The client whose page a form was on, by the address that it leads back to.
fn shown_client(form: &Form) -> Option<Vec<Identifier>> {
    let next = local_path(form.text("next"))?;
    let query = next.strip_prefix(path::CLIENT)?.strip_prefix('?')?;
    let fields = form::pairs(query.as_bytes()).ok()?;
    pairs(fields.iter().map(|(name, value)| (&**name, &**value))).ok()
}

async fn override_limit(visit: &Visit, form: &Form) -> Result<Response, PageProblem> {
    let client = client_of(form)?;
    let mut body = named(&client);
    body.insert("rule_id".to_owned(), json!(form.required("rule_id")?));
    for name in ["limit", "burst", "multiplier"] {
        if let Some(text) = form.text(name) {
            body.insert(name.to_owned(), number(name, text)?);
        }
    }
    if ["limit", "burst", "multiplier"].iter().all(|name| form.text(name).is_none()) {
        return Err(PageProblem::invalid("fill in a limit, or how many times the limit it is"));
    }
    add_end(visit, form, &mut body)?;
    visit.send(Method::PUT, "/api/v1/overrides", &[], &body.into()).await?;
    Ok(back(form, &client, "override-set", None))
}

async fn deny(visit: &Visit, form: &Form) -> Result<Response, PageProblem> {
    let client = client_of(form)?;
    put_on_list(visit, form, "blacklist", &client).await?;
    Ok(back(form, &client, "denied", None))
}

async fn change_tier(visit: &Visit, form: &Form) -> Result<Response, PageProblem> {
    let client = client_of(form)?;
    let Some(tier) = form.text("tier") else {
        visit.delete("/api/v1/clients", &query_of(&client)).await?;
        return Ok(back(form, &client, "tier-removed", None));
    };
    let mut body = named(&client);
    body.insert("tier".to_owned(), json!(tier));
    visit.send(Method::PUT, "/api/v1/clients", &[], &body.into()).await?;
    Ok(back(form, &client, "tier-set", None))
}

async fn reset_counters(visit: &Visit, form: &Form) -> Result<Response, PageProblem> {
    let client = client_of(form)?;
    if client.iter().any(is_digest) {
        let detail = "counters are kept by the API key itself, not by its digest: open the page of the client by its key";
        return Err(PageProblem::invalid(detail));
    }
    let mut check = check_of(&client, "", "");
    if let (Some(rule_id), Some(fields)) = (form.text("rule_id"), check.as_object_mut()) {
        fields.insert("rule_id".to_owned(), json!(rule_id));
    }
    let done = visit.send(Method::POST, "/api/v1/rate-limit/reset", &[], &check).await?;
    let Changed { counters } = done.json()?;
    Ok(back(form, &client, "reset", Some(counters as u64)))
}

/// The client that a form names.
pub(super) fn client_of(form: &Form) -> Result<Vec<Identifier>, PageProblem> {
    pairs(form.fields())
}

/// A client as entries name it.
pub(super) fn named(client: &[Identifier]) -> Map<String, JsonValue> {
    let (types, values): (Vec<&str>, Vec<&str>) =
        client.iter().map(|it| (it.identifier_type.as_str(), it.value.as_str())).unzip();
    let field = |texts: Vec<&str>| match &*texts {
        [one] => json!(one),
        many => json!(many),
    };
    Map::from_iter([
        ("identifier_type".to_owned(), field(types)),
        ("identifier".to_owned(), field(values)),
    ])
}

/// A client as queries name it.
pub(super) fn query_of(client: &[Identifier]) -> Vec<(&str, &str)> {
    client
        .iter()
        .flat_map(|it| {
            [("identifier_type", it.identifier_type.as_str()), ("identifier", it.value.as_str())]
        })
        .collect()
}

/// Puts a client on the allow list or the deny list, with the reason and the end that a form names.
pub(super) async fn put_on_list(
    visit: &Visit,
    form: &Form,
    list: &str,
    client: &[Identifier],
) -> Result<(), PageProblem> {
    let mut body = named(client);
    if let Some(reason) = form.text("reason") {
        body.insert("reason".to_owned(), json!(reason));
    }
    add_end(visit, form, &mut body)?;
    visit.send(Method::POST, &format!("/api/v1/{list}"), &[], &body.into()).await?;
    Ok(())
}

/// Adds the end of an entry, so many minutes from now; none if the field is empty.
fn add_end(
    visit: &Visit,
    form: &Form,
    body: &mut Map<String, JsonValue>,
) -> Result<(), PageProblem> {
    let Some(text) = form.text("minutes") else { return Ok(()) };
    let minutes = text.parse().ok().filter(|minutes| (1..=MAX_MINUTES).contains(minutes));
    let Some(minutes) = minutes else {
        let detail =
            format!("minutes: a whole number from 1 to {MAX_MINUTES}, or nothing for always");
        return Err(PageProblem::invalid(detail));
    };
    let end = visit.now().plus(Micros::from_secs(minutes * 60));
    body.insert("expires_at".to_owned(), json!(rfc_3339(end)));
    Ok(())
}

fn number(name: &str, text: &str) -> Result<JsonValue, PageProblem> {
    let number = serde_json::from_str::<serde_json::Number>(text);
    number
        .map(JsonValue::Number)
        .map_err(|_| PageProblem::invalid(format!("{name}: a number like 100, not `{text}`")))
}

/// Leads back to the page of the form, or to that of the client.
fn back(form: &Form, client: &[Identifier], word: &str, number: Option<u64>) -> Response {
    let path = local_path(form.text("next")).unwrap_or_else(|| path::client_by(client));
    see_other(&notice::with(&path, word, number))
}
