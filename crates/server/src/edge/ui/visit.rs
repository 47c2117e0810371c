//! A request of a person who is signed in, and the form that it sends.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, Uri, header};
use tollgate::Timestamp;
use tollgate_dashboard::path;

use super::origin_check::{is_link_from_another_site, is_of_another_site};
use super::page_problem::PageProblem;
use super::session::UiSession;
use super::{UiState, cookie, form};
use crate::admin::auth::{Principal, Right, forbidden};
use crate::app::offload::Offload;
use crate::edge::http::extract::share_name;
use crate::edge::http::problem::Problem;
use crate::edge::listen::Peer;

/// A request of a person who is signed in.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) ui: UiState,
    pub(super) session: UiSession,
    pub(super) principal: Principal,
    pub(super) peer: Peer,
    pub(super) uri: Uri,
    /// The parameters of the query, in their order.
    pub(super) query: Vec<(String, String)>,
    /// Whether an open page asks for its figures again.
    pub(super) is_refresh: bool,
}

impl Visit {
    pub(super) fn may(&self, right: Right) -> bool {
        right.is_of(self.principal.role())
    }

    /// The value of a parameter; an empty one counts as absent, as browsers send empty fields of forms.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.ui.app.now()
    }

    /// The name whose share of the server's queues the visit takes.
    pub(super) fn caller(&self) -> String {
        share_name(&self.principal)
    }

    /// Refuses a page whose figures are not for this role. Calls of the API check for themselves.
    pub(super) fn require(&self, right: Right) -> Result<(), PageProblem> {
        if self.may(right) { Ok(()) } else { Err(forbidden(&self.principal, right).into()) }
    }

    /// Renders a page on a thread that no check waits for. A problem becomes a page too.
    pub(super) async fn show<F>(&self, page: impl FnOnce(Self) -> F + Send + 'static) -> Response
    where
        F: Future<Output = Result<Response, PageProblem>> + Send + 'static,
    {
        self.show_by(&self.ui.app.queues.pages, page).await
    }

    /// Renders a page like [`Visit::show`], in another queue than that of most pages.
    pub(super) async fn show_by<F>(
        &self,
        queue: &Offload,
        page: impl FnOnce(Self) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = Result<Response, PageProblem>> + Send + 'static,
    {
        let visit = self.clone();
        let counted = self.ui.app.guard.admin_call(&self.principal, false);
        let shown = match counted {
            Ok(_) => queue.run(&self.caller(), Box::pin(async move { page(visit).await })).await,
            Err(problem) => Err(problem),
        };
        let response = match shown.map_err(PageProblem::from).and_then(|shown| shown) {
            Ok(response) => response,
            Err(problem) => problem.respond(Some(self)),
        };
        self.keep_alive(response)
    }

    /// Renews the cookie of the session if it was not for a while.
    fn keep_alive(&self, mut response: Response) -> Response {
        let is_set = response.headers().contains_key(header::SET_COOKIE);
        let renewed = self.session.renewed(self.now()).filter(|_| !is_set);
        if let Some(cookie) = renewed.and_then(|session| self.ui.cookie_of(&session)) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl FromRequestParts<UiState> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, ui: &UiState) -> Result<Self, Response> {
        let peer = parts.extensions.get().copied().unwrap_or(Peer::UNKNOWN);
        let open = |text| ui.sessions.open(&ui.app, text);
        let Some((session, principal)) = cookie::sessions(&parts.headers).find_map(open) else {
            return Err(not_signed_in(parts));
        };
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let query =
            form::pairs(query).map_err(|problem| PageProblem::from(problem).respond(None))?;
        let (ui, uri) = (ui.clone(), parts.uri.clone());
        Ok(Self { ui, session, principal, peer, uri, query, is_refresh: false })
    }
}

/// Leads to the sign-in, and from there back to the page.
fn not_signed_in(parts: &Parts) -> Response {
    // Browsers send no cookie after a link on another site, so the same page is asked for once more.
    if parts.method == http::Method::GET && is_link_from_another_site(&parts.headers) {
        let again = HeaderValue::from_static("0");
        return (StatusCode::OK, [(http::HeaderName::from_static("refresh"), again)])
            .into_response();
    }
    // A stream cannot be led elsewhere, and would try again for ever.
    if parts.uri.path() == path::EVENTS {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    // A form is not sent again: its page is.
    let is_form = parts.method != http::Method::GET;
    let asked = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let asked = if is_form || asked == path::OVERVIEW { "" } else { asked };
    Redirect::to(&path::with_query(path::SIGN_IN, &[("next", asked)])).into_response()
}

/// A form that a person who is signed in sent from a page of this session.
#[derive(Debug)]
pub(super) struct FormVisit {
    pub(super) visit: Visit,
    pub(super) form: form::Form,
}

impl FromRequest<UiState> for FormVisit {
    type Rejection = Response;

    async fn from_request(request: Request, ui: &UiState) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        if is_of_another_site(&parts.uri, &parts.headers) {
            return Err(PageProblem::from(cross_site()).respond(None));
        }
        let visit = Visit::from_request_parts(&mut parts, ui).await?;
        let refuse = |problem: Problem| PageProblem::from(problem).respond(Some(&visit));
        let form = form::read(&ui.app, &parts.headers, body).await.map_err(refuse)?;
        let token = form.one(form::TOKEN_FIELD).unwrap_or_default();
        check_token(&visit, token).map_err(refuse)?;
        // The body may have taken a while.
        ui.app.confirm(&visit.principal).map_err(refuse)?;
        Ok(Self { visit, form })
    }
}

/// Refuses a form that does not have the token of its session.
pub(super) fn check_token(visit: &Visit, token: &str) -> Result<(), Problem> {
    if visit.session.is_form_token(token) {
        return Ok(());
    }
    let detail = "this form is not one of your session: it is from before you signed in, or of another site. \
                  Open the page again and repeat the change; nothing was changed";
    Err(Problem::new(StatusCode::FORBIDDEN, "foreign_form", detail))
}

/// The problem of a form that another site sent.
pub(super) fn cross_site() -> Problem {
    let detail = "a web page of another site sent this form; nothing was changed. If you came from a page of this \
                  dashboard, reach it by one name only, and let proxies pass the Host header on";
    Problem::new(StatusCode::FORBIDDEN, "cross_site_request", detail)
}
