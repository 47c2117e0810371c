//! The description of the API, as far as it is not written beside the handlers.

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Components, ContactBuilder, InfoBuilder, License, OpenApi};

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
