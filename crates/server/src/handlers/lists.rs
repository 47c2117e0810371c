//! The whitelist and the blacklist: who is on them, put there, and taken off.

use axum::extract::{OriginalUri, State};
use axum::response::Response;
use http::HeaderMap;
use tollgate_catalog::Kind;

use super::entries::{self, PageProblems};
use crate::admin::ChangesAnswer;
use crate::extract::{JsonBody, RuleEditor, RuleViewer};
use crate::openapi::{AdminProblems, BodyProblems, PageParameters, WriteParameters, WriteProblems};
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;

/// Declares the calls of a list.
macro_rules! list {
    ($list:ident: $kind:expr, $path:literal, $listed:literal) => {
        pub(crate) mod $list {
            use super::*;

            #[doc = concat!("Lists clients that are ", $listed, ".")]
            #[utoipa::path(
                get, path = $path, tag = "lists", security(("token" = [])),
                params(
                    PageParameters,
                    ("identifier_type" = Option<String>, Query, description = "Only entries with this type of identifier"),
                    ("identifier" = Option<String>, Query, description = "Only the entry of this client"),
                    ("tenant" = Option<String>, Query, description = "Only entries of this tenant"),
                    ("detail" = Option<bool>, Query, description = "Also tell version, created_at, created_by, and written_by if a tenant-admin wrote it"),
                ),
                responses(
                    (status = 200, description = "The entries, in the order of their names", body = Object),
                    PageProblems,
                    AdminProblems,
                )
            )]
            pub(crate) async fn get(
                State(app): State<ServerState>,
                RuleViewer(session): RuleViewer,
                OriginalUri(uri): OriginalUri,
            ) -> Result<Response, Problem> {
                entries::page(&app, session, &uri, $kind, &["tenant"]).await
            }

            #[doc = concat!("Makes a client one that is ", $listed, ", or changes why and how long.")]
            #[utoipa::path(
                post, path = $path, tag = "lists", security(("token" = [])),
                request_body(content = Object, description = "The client; for `ip` also a network. Lists of types and identifiers name it by several at once", example = json!({"identifier_type": "ip", "identifier": "10.0.0.0/8", "reason": "our own machines", "expires_at": "2030-12-01T00:00:00Z"})),
                params(WriteParameters),
                responses(
                    (status = 201, description = "Put on the list", body = Object),
                    (status = 200, description = "It was on the list: changed, or what would be", body = Object),
                    BodyProblems,
                    WriteProblems,
                    AdminProblems,
                )
            )]
            pub(crate) async fn post(
                State(app): State<ServerState>,
                RuleEditor(session): RuleEditor,
                OriginalUri(uri): OriginalUri,
                headers: HeaderMap,
                JsonBody(body): JsonBody,
            ) -> Result<Response, Problem> {
                let entry = entries::read(&app, &session, $kind, move || body).await?;
                entries::put(&app, session, &uri, &headers, entry).await
            }

            /// Takes a client off the list.
            #[utoipa::path(
                delete, path = $path, tag = "lists", security(("token" = [])),
                params(
                    ("identifier_type" = Vec<String>, Query, description = "The type of its identifier; several for a client that is named by several at once", example = json!(["ip"])),
                    ("identifier" = Vec<String>, Query, description = "The identifier, or as many as there are types, in the same order", example = json!(["10.0.0.0/8"])),
                    WriteParameters,
                ),
                responses(
                    (status = 204, description = "Taken off"),
                    (status = 200, description = "What would change", body = ChangesAnswer),
                    (status = 404, description = "It is not on the list", body = ProblemBody<'_>, content_type = "application/problem+json"),
                    WriteProblems,
                    AdminProblems,
                )
            )]
            pub(crate) async fn delete(
                State(app): State<ServerState>,
                RuleEditor(session): RuleEditor,
                OriginalUri(uri): OriginalUri,
                headers: HeaderMap,
            ) -> Result<Response, Problem> {
                entries::remove_named(&app, session, &uri, &headers, $kind).await
            }
        }
    };
}

list!(whitelist: Kind::Whitelist, "/api/v1/whitelist", "never limited");
list!(blacklist: Kind::Blacklist, "/api/v1/blacklist", "always refused");
