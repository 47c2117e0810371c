//! Signing in with a token of the admin API, and signing out.

use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tollgate_dashboard::model::SignIn;
use tollgate_dashboard::{path, sign_in as sign_in_page};

use super::origin_check::{is_https, is_of_another_site};
use super::page::{html, see_other};
use super::page_problem::PageProblem;
use super::pages::local_path;
use super::session::{ABSOLUTE_TIMEOUT, UiSession};
use super::visit::{FormVisit, Visit, cross_site};
use super::{UiShared, UiState, cookie, form};
use crate::admin::auth::{Principal, Right, TOKEN_HEADER, WRONG_TOKEN};
use crate::edge::http::problem::Problem;
use crate::edge::listen::Peer;
use crate::policy::source::PolicySource;

/// The longest form. Everybody may send one, so it has room for a token and an address, and no more.
const MAX_FORM_BYTES: usize = 16 << 10;

/// The page where a token is entered.
pub(super) async fn show(State(ui): State<UiState>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let next = next_of(&parts);
    if Visit::from_request_parts(&mut parts, &ui).await.is_ok() {
        return see_other(&next);
    }
    let peer = parts.extensions.get().copied().unwrap_or(Peer::UNKNOWN);
    html(sign_in_page(&page(&ui, peer, &next, None)))
}

/// Opens a session for the holder of a token.
pub(super) async fn sign_in(State(ui): State<UiState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if is_of_another_site(&parts.uri, &parts.headers) {
        return PageProblem::from(cross_site()).respond(None);
    }
    let form = match form::read_within(MAX_FORM_BYTES, &ui.app, &parts.headers, body).await {
        Ok(form) => form,
        Err(problem) => return PageProblem::from(problem).respond(None),
    };
    let next = local_path(form.text("next")).unwrap_or_else(|| path::OVERVIEW.to_owned());
    let peer = parts.extensions.get().copied().unwrap_or(Peer::UNKNOWN);
    let admitted = admit(&ui, form.text("token").unwrap_or_default(), peer);
    let opened = admitted.and_then(|principal| {
        let is_secure = peer.is_encrypted || is_https(&parts.headers);
        let cookie = open(&ui, &principal, is_secure)?;
        Ok((principal, cookie))
    });
    match opened {
        Ok((principal, cookie)) => {
            let (actor, address) = (principal.name(), peer.address.ip());
            tracing::info!(actor, %address, "signed in to the dashboard");
            ([(header::SET_COOKIE, cookie)], see_other(&next)).into_response()
        }
        Err(problem) => {
            let (status, fields) = (problem.status(), problem.clone().headers_mut().clone());
            let why = Some(reason(problem));
            let mut response = html(sign_in_page(&page(&ui, peer, &next, why)));
            *response.status_mut() = status;
            if let Some(seconds) = fields.get(header::RETRY_AFTER) {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
            }
            response
        }
    }
}

/// Ends the session.
pub(super) async fn sign_out(FormVisit { visit, .. }: FormVisit) -> Response {
    visit.ui.sessions.sign_out(&visit.session, visit.now());
    ([(header::SET_COOKIE, cookie::remove())], see_other(path::SIGN_IN)).into_response()
}

/// The holder of a token, if it may see anything here. A wrong one counts as a failed login.
fn admit(ui: &UiShared, token: &str, peer: Peer) -> Result<Principal, Problem> {
    let mut headers = HeaderMap::new();
    // A token that is no header value is a wrong one.
    let value = HeaderValue::from_str(token).unwrap_or(HeaderValue::from_static("-"));
    headers.insert(TOKEN_HEADER, value);
    let peer = Peer { certificate: None, ..peer };
    let principal = ui.app.admit(&headers, peer, Right::RuleViewer)?;
    ui.app.guard.admin_call(&principal, false)?;
    Ok(principal)
}

/// The cookie with a new session.
fn open(ui: &UiShared, principal: &Principal, is_secure: bool) -> Result<HeaderValue, Problem> {
    let session = ui.app.tokens.bind(principal);
    let session = session.and_then(|binding| UiSession::new(binding, ui.app.now(), is_secure));
    let cookie = session.and_then(|session| ui.cookie_of(&session));
    cookie.ok_or_else(|| Problem::internal("the system gives no random numbers"))
}

impl UiShared {
    /// The cookie of a session.
    pub(super) fn cookie_of(&self, session: &UiSession) -> Option<HeaderValue> {
        let text = self.sessions.seal(&self.app, session)?;
        cookie::set(&text, ABSOLUTE_TIMEOUT, session.is_secure)
    }
}

fn page(ui: &UiShared, peer: Peer, next: &str, problem: Option<String>) -> SignIn {
    let command = match &ui.app.policy_source {
        PolicySource::Catalog(catalog_sync) => {
            // Where the catalog is concerns only people on this machine.
            let is_local = peer.address.ip().to_canonical().is_loopback();
            let url = Some(catalog_sync.catalog.url().to_string()).filter(|_| is_local);
            let url = url.as_deref().unwrap_or("URL");
            Some(format!("tollgate tokens create --role viewer --catalog {url}"))
        }
        PolicySource::File(_) => None,
    };
    SignIn {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        problem,
        next: next.to_owned(),
        command,
        ..SignIn::default()
    }
}

/// Why signing in failed, as a sentence.
fn reason(problem: Problem) -> String {
    match (problem.code(), problem.status()) {
        (WRONG_TOKEN, _) => "This token is not known here.".to_owned(),
        (_, StatusCode::FORBIDDEN) => {
            "This token can only check requests: sign in with one of role viewer, operator, admin or \
             tenant-admin."
                .to_owned()
        }
        _ => PageProblem::from(problem).sentence(),
    }
}

/// The page to show afterwards.
fn next_of(parts: &Parts) -> String {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let next = form_urlencoded::parse(query).find(|(name, _)| name == "next");
    let next = next.and_then(|(_, next)| local_path(Some(&next)));
    next.unwrap_or_else(|| path::OVERVIEW.to_owned())
}
