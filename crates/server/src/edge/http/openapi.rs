//! The parts of the OpenAPI description that are not written beside the handlers.

use std::collections::BTreeMap;

use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContactBuilder, Content, InfoBuilder, License, OpenApi, Ref, RefOr, Required,
    Response, ResponseBuilder,
};
use utoipa::{IntoParams, IntoResponses};

use serde_json::Value;
use tollgate::http::PROBLEM_JSON;

use crate::edge::http::reference;

/// Adds what all calls share, and returns the description as JSON.
pub(crate) fn complete(mut api: OpenApi) -> Value {
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    api.info = InfoBuilder::new()
        .title("Tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Decides for every request whether it may pass. Begin with `POST /api/v1/rate-limit/check`. On the \
             machine of the server, checks need no token unless `check_auth` says so; for the rest, press \
             **Authorize** and paste the token that the server printed at its first start. Errors are \
             `application/problem+json` with a stable `code`.",
        ))
        .license(Some(license))
        .contact(Some(ContactBuilder::new().name(Some("The Tollgate authors")).build()))
        .build();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    api.components.get_or_insert_with(Components::new).add_security_scheme("token", token);
    name_operations(&mut api.paths);
    // A description always serialises.
    let mut api = serde_json::to_value(&api).unwrap_or_default();
    reference::arrange(&mut api);
    api
}

/// Names every operation by its method and path: names of handlers say too little.
fn name_operations(paths: &mut Paths) {
    for (path, item) in &mut paths.paths {
        let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
        let place = words.collect::<Vec<_>>().join("_");
        for (method, operation) in operations(item) {
            operation.operation_id = Some(format!("{method}_{place}"));
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, patch, delete, .. } = item;
    let calls = [("get", get), ("put", put), ("post", post), ("patch", patch), ("delete", delete)];
    calls.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Parameters that select a page of a list.
pub(crate) struct PageParameters;

impl IntoParams for PageParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = Object::builder()
            .schema_type(SchemaType::new(Type::Integer))
            .minimum(Some(1))
            .maximum(Some(1_000));
        vec![
            optional("limit", ParameterIn::Query, limit, "How many at most; 100 if not given"),
            optional(
                "after",
                ParameterIn::Query,
                text(),
                "Continue after this entry; the `Link` header of a page says where",
            ),
        ]
    }
}

/// Parameters of a change: `dry_run` and `If-Match`.
pub(crate) struct WriteParameters;

impl IntoParams for WriteParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            dry_run(),
            optional(
                "If-Match",
                ParameterIn::Header,
                text(),
                "The `ETag` of the entry to change, so that no other change is overwritten",
            ),
        ]
    }
}

/// The parameter of a change of something that has no `ETag`.
pub(crate) struct TrialParameter;

impl IntoParams for TrialParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![dry_run()]
    }
}

fn dry_run() -> Parameter {
    let flag = Object::builder().schema_type(SchemaType::new(Type::Boolean));
    optional("dry_run", ParameterIn::Query, flag, "Change nothing, return what would change")
}

fn text() -> ObjectBuilder {
    Object::builder().schema_type(SchemaType::new(Type::String))
}

fn optional(name: &str, place: ParameterIn, of: ObjectBuilder, about: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(of.build()))
        .build()
}

/// The problems of a call with a body.
pub(crate) struct BodyProblems;

impl IntoResponses for BodyProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            ("400", "The body cannot be read"),
            ("408", "The body did not arrive in time"),
            ("413", "The body is too large"),
            ("415", "The body is not JSON"),
        ])
    }
}

/// The problems of any call.
pub(crate) struct CallProblems;

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            ("401", "A token is needed"),
            ("403", "The token has another role"),
            ("421", "The server does not answer to this host"),
            ("429", "This server is called too often"),
        ])
    }
}

/// The problems of any call of the admin API, which always needs a token.
pub(crate) type AdminProblems = CallProblems;

/// The problems of a call that lists entries.
pub(crate) struct PageProblems;

impl IntoResponses for PageProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[("400", "The query cannot be read"), ("503", "The catalog is unavailable")])
    }
}

/// The problems of a change.
pub(crate) struct WriteProblems;

impl IntoResponses for WriteProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            ("400", "The query, the path or the body cannot be read"),
            ("404", "There is no entry of that name"),
            ("405", "The rules come from a file, and are changed there"),
            ("409", "Still referenced by another entry"),
            ("412", "The entry was changed meanwhile"),
            ("422", "The resulting policy would be invalid, or larger than a bound allows"),
            ("503", "The catalog cannot be reached, or too many changes are in progress"),
            ("504", "Timed out; the outcome is unknown"),
            ("507", "The disk of the catalog is almost full, and the rest is kept for operators"),
        ])
    }
}

fn problems(described: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let described = described.iter();
    described.map(|(status, text)| ((*status).to_owned(), problem(text).into())).collect()
}

/// The description of a response that is a problem.
pub(crate) fn problem(description: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
    ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build()
}
