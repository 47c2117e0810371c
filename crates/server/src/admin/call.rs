//! A call of the admin API whose caller is admitted. The permission comes from the row of the entity.

use axum::body::Body;
use axum::extract::{FromRequest as _, FromRequestParts as _, Path, Request};
use bytes::Bytes;
use http::request::Parts;

use crate::admin::auth::Right;
use crate::app::state::ServerState;
use crate::edge::http::extract::{JsonBody, Session, admit, read_name};
use crate::edge::http::problem::Problem;

pub(crate) struct AdminCall {
    pub(crate) app: ServerState,
    pub(crate) session: Session,
    pub(crate) parts: Parts,
    body: Body,
}

impl AdminCall {
    /// Admits a caller with a permission, before its body is read.
    pub(crate) fn admit(
        app: ServerState,
        request: Request,
        right: Right,
        is_write: bool,
    ) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let session = admit(&mut parts, &app, right, is_write)?;
        Ok(Self { app, session, parts, body })
    }

    /// The id at the end of the path.
    pub(crate) async fn id(&mut self) -> Result<String, Problem> {
        read_name(Path::from_request_parts(&mut self.parts, &self.app).await)
    }

    /// The body, which has to be JSON.
    pub(crate) async fn json(&mut self) -> Result<Bytes, Problem> {
        let body = std::mem::take(&mut self.body);
        let request = Request::from_parts(self.parts.clone(), body);
        JsonBody::from_request(request, &self.app).await.map(|JsonBody(body)| body)
    }
}
