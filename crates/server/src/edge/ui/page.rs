//! Responses that are pages.

use axum::body::Body;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{HeaderValue, header};

use super::page_problem::PageProblem;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A page as a response.
pub(super) fn html(page: String) -> Response {
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(header::CONTENT_TYPE, HTML);
    response
}

/// A page with what is wrong with a form.
pub(super) fn refused(page: String, problem: &PageProblem) -> Response {
    let mut response = html(page);
    *response.status_mut() = problem.status;
    if let Some(seconds) = problem.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
    }
    response
}

/// Leads to another page after a form.
pub(super) fn see_other(path: &str) -> Response {
    Redirect::to(path).into_response()
}
