//! The description of the API, as far as it is not written beside the handlers.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContactBuilder, Content, InfoBuilder, License, OpenApi, Ref, RefOr, Response,
    ResponseBuilder,
};

use tollgate::http::PROBLEM_JSON;

/// Adds what concerns all calls.
pub(crate) fn complete(mut api: OpenApi) -> OpenApi {
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    api.info = InfoBuilder::new()
        .title("Tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Decides for every request whether it may pass. Errors are `application/problem+json` \
             with a stable `code`.",
        ))
        .license(Some(license))
        .contact(Some(ContactBuilder::new().name(Some("The Tollgate authors")).build()))
        .build();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    api.components.get_or_insert_with(Components::new).add_security_scheme("token", token);
    api
}

/// What can be wrong with the body of any call that has one.
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

/// Why a call of the check API is not answered.
pub(crate) struct CallProblems;

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[("401", "A token is needed"), ("429", "This server is called too often")])
    }
}

/// Why a call of the admin API is not answered.
pub(crate) struct AdminProblems;

impl IntoResponses for AdminProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = CallProblems::responses();
        responses.extend(problems(&[("403", "The token has another role")]));
        responses
    }
}

fn problems(told: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let problem = |description: &str| {
        let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
        ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build()
    };
    told.iter().map(|(status, told)| ((*status).to_owned(), problem(told).into())).collect()
}
