//! Routes and OpenAPI operations of the entities, made from their rows.

use std::collections::BTreeMap;
use std::future::Future;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use serde_json::{Value as Json, json};
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem,
    Paths,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{Array, Object, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    self, Content, ContentBuilder, Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema as _, ToSchema as _};
use utoipa_axum::router::UtoipaMethodRouter;

use super::call::AdminCall;
use super::resources::{DETAIL_WITH_AUTHOR, EntryKey, Id, Put, Resource};
use super::response::{RuleOrTrial, RuleWritten};
use super::{read, write};
use crate::app::state::ServerState;
use crate::edge::http::openapi::{
    AdminProblems, BodyProblems, PageParameters, PageProblems, WriteParameters, WriteProblems,
    problem,
};
use crate::edge::http::problem::Problem;

/// The prefix of paths.
const API: &str = "/api/v1/";
/// The prefix of the second family of paths.
const ADMIN_API: &str = "/admin/api/v1/rate-limits/";

/// Responses by their status.
type Responses = BTreeMap<String, RefOr<openapi::Response>>;

impl Resource {
    /// The calls of this entity, each with its description.
    pub(crate) fn routes(&'static self) -> Vec<UtoipaMethodRouter<ServerState>> {
        let mut routes = Vec::new();
        if let Some(list) = &self.list {
            let query = list.query.iter().map(query_parameter);
            let parameters = parameters::<PageParameters>().into_iter().chain(query);
            let responses = [ok("200", list.ok, object()), PageProblems::responses()];
            let operation = self.operation(list.about, parameters, None, responses);
            let handle = move |call| read::list(call, self, list);
            routes.push(self.route(HttpMethod::Get, None, operation, handle));
        }
        if let Some(put) = &self.put {
            let operation = self.put_operation(put, put.about, None);
            let handle = move |call| write::put(call, self);
            routes.push(self.route(put.method.clone(), None, operation, handle));
        }
        if let (Some(item), Some(put)) = (&self.item, &self.put) {
            let id = Some(item.id);
            let example = Id { example: item.example, ..item.id };
            let responses = [
                ok("200", item.ok, object()),
                Responses::from_iter([
                    ("400".to_owned(), problem("The path or the query cannot be read").into()),
                    ("404".to_owned(), problem(item.missing).into()),
                ]),
            ];
            let key = [example.parameter(), query_parameter(&DETAIL_WITH_AUTHOR)];
            let get = self.operation(item.get, key, None, responses);
            routes.push(self.route(HttpMethod::Get, id, get, move |call| read::get(call, self)));
            let replace = self.put_operation(put, item.put, id);
            let handle = move |call| write::put_item(call, self, item.id.name);
            routes.push(self.route(HttpMethod::Put, id, replace, handle));
            let body = body("The fields to change", "application/merge-patch+json", item.fields);
            let responses = [ok("200", put.changed, schemas_of(put).1), BodyProblems::responses()];
            let id_parameter = [item.id.parameter()];
            let patch = self.write_operation(item.patch, id_parameter, Some(body), responses);
            routes.push(
                self.route(HttpMethod::Patch, id, patch, move |call| write::patch(call, self)),
            );
        }
        if let Some(delete) = &self.delete {
            let mut removed = ok("200", "What would change", reference("ChangesAnswer"));
            removed.insert("204".to_owned(), openapi::Response::new(delete.removed).into());
            let key = delete.key.parameters();
            let operation = self.write_operation(delete.about, key, None, [removed]);
            let id = if let EntryKey::Id(id) = delete.key { Some(id) } else { None };
            let handle = move |call| write::delete(call, self, &delete.key);
            routes.push(self.route(HttpMethod::Delete, id, operation, handle));
        }
        routes
    }

    /// A call that the readers or the writers of this entity may make.
    fn route<F>(
        &'static self,
        method: HttpMethod,
        id: Option<Id>,
        operation: Operation,
        handle: impl Fn(AdminCall) -> F + Clone + Send + Sync + 'static,
    ) -> UtoipaMethodRouter<ServerState>
    where
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let (filter, right) = match method {
            HttpMethod::Get => (MethodFilter::GET, self.reader),
            HttpMethod::Put => (MethodFilter::PUT, self.writer),
            HttpMethod::Post => (MethodFilter::POST, self.writer),
            HttpMethod::Patch => (MethodFilter::PATCH, self.writer),
            _ => (MethodFilter::DELETE, self.writer),
        };
        let is_write = method != HttpMethod::Get;
        let methods =
            on(filter, move |State(app): State<ServerState>, request: Request| async move {
                handle(AdminCall::admit(app, request, right, is_write)?).await
            });
        let path = match id {
            Some(id) => format!("{}/{{{}}}", self.path, id.name),
            None => self.path.to_owned(),
        };
        let mut paths = Paths::new();
        paths.paths.insert(path, PathItem::new(method, operation));
        let route = (schemas(), paths, methods);
        if self.has_admin_path { in_both_families(route) } else { route }
    }

    fn put_operation(&self, put: &Put, about: &str, id: Option<Id>) -> Operation {
        let (created, changed) = schemas_of(put);
        let responses = [
            ok("201", put.created, created),
            ok("200", put.changed, changed),
            BodyProblems::responses(),
        ];
        let body = body(put.body, "application/json", put.example);
        self.write_operation(about, id.map(|id| id.parameter()), Some(body), responses)
    }

    fn write_operation(
        &self,
        about: &str,
        key: impl IntoIterator<Item = Parameter>,
        body: Option<RequestBody>,
        responses: impl IntoIterator<Item = Responses>,
    ) -> Operation {
        let parameters = key.into_iter().chain(parameters::<WriteParameters>());
        let responses = responses.into_iter().chain([WriteProblems::responses()]);
        self.operation(about, parameters, body, responses)
    }

    /// Of several responses with one status, the last is described.
    fn operation(
        &self,
        about: &str,
        parameters: impl IntoIterator<Item = Parameter>,
        body: Option<RequestBody>,
        responses: impl IntoIterator<Item = Responses>,
    ) -> Operation {
        let (summary, description) = match about.split_once("\n\n") {
            Some((summary, description)) => (summary, Some(description)),
            None => (about, None),
        };
        let responses = responses.into_iter().chain([AdminProblems::responses()]);
        OperationBuilder::new()
            .tag(self.tag)
            .summary(Some(summary))
            .description(description)
            .parameters(Some(parameters))
            .request_body(body)
            .responses(responses.flatten().collect::<openapi::Responses>())
            .security(SecurityRequirement::new("token", [] as [&str; 0]))
            .build()
    }
}

impl Id {
    fn parameter(&self) -> Parameter {
        let Self { name, about, example } = self;
        parameter(name, ParameterIn::Path, Required::True, about, typed(Type::String))
            .example(Some(json!(example)))
            .build()
    }
}

impl EntryKey {
    fn parameters(&self) -> Vec<Parameter> {
        let (rule, types, example) = match self {
            Self::Id(id) => return vec![id.parameter()],
            Self::Client { rule, types, example } => (rule, types, example),
        };
        let in_query = |name, about, schema, example| {
            parameter(name, ParameterIn::Query, Required::True, about, schema)
                .example(Some(example))
                .build()
        };
        let rule = rule
            .map(|example| in_query("rule_id", "The rule", typed(Type::String), json!(example)));
        let texts = || Array::new(Object::with_type(Type::String)).into();
        let values = "The identifier, or as many as there are types, in the same order";
        let types = in_query("identifier_type", types, texts(), json!([example.0]));
        let values = in_query("identifier", values, texts(), json!([example.1]));
        rule.into_iter().chain([types, values]).collect()
    }
}

/// An optional parameter of a query.
fn query_parameter((name, about): &(&str, &str)) -> Parameter {
    let is_flag = matches!(*name, "detail" | "enabled");
    let schema = typed(if is_flag { Type::Boolean } else { Type::String });
    parameter(name, ParameterIn::Query, Required::False, about, schema).build()
}

fn parameter(
    name: &str,
    place: ParameterIn,
    required: Required,
    about: &str,
    schema: RefOr<Schema>,
) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(about))
        .schema(Some(schema))
}

fn typed(kind: Type) -> RefOr<Schema> {
    Object::with_type(kind).into()
}

fn object() -> RefOr<Schema> {
    typed(Type::Object)
}

fn reference(schema: &str) -> RefOr<Schema> {
    Ref::from_schema_name(schema).into()
}

fn schemas_of(put: &Put) -> (RefOr<Schema>, RefOr<Schema>) {
    put.schemas
        .map_or_else(|| (object(), object()), |(one, other)| (reference(one), reference(other)))
}

fn ok(status: &str, about: &str, schema: RefOr<Schema>) -> Responses {
    let content = Content::new(Some(schema));
    let response = ResponseBuilder::new().description(about).content("application/json", content);
    Responses::from_iter([(status.to_owned(), response.into())])
}

fn parameters<P: IntoParams>() -> Vec<Parameter> {
    P::into_params(|| None)
}

fn body(about: &str, media_type: &str, example: &str) -> RequestBody {
    let example: Json = serde_json::from_str(example).unwrap_or_default();
    let content = ContentBuilder::new().schema(Some(object())).example(Some(example)).build();
    RequestBodyBuilder::new()
        .description(Some(about))
        .content(media_type, content)
        .required(Some(Required::True))
        .build()
}

/// The schemas that rows name.
fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let mut schemas = vec![
        (RuleWritten::name().into_owned(), RuleWritten::schema()),
        (RuleOrTrial::name().into_owned(), RuleOrTrial::schema()),
    ];
    RuleOrTrial::schemas(&mut schemas);
    schemas
}

/// Adds the same calls under the other family of paths.
pub(crate) fn in_both_families(
    (schemas, mut paths, methods): UtoipaMethodRouter<ServerState>,
) -> UtoipaMethodRouter<ServerState> {
    let here = paths.paths.iter();
    let there: Vec<_> =
        here.map(|(path, calls)| (path.replacen(API, ADMIN_API, 1), calls.clone())).collect();
    paths.paths.extend(there);
    (schemas, paths, methods)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::resources::RESOURCES;

    #[test]
    fn every_call_of_an_entity_is_described() {
        for (_, paths, _) in RESOURCES.iter().flat_map(|entity| entity.routes()) {
            for (path, item) in paths.paths {
                let PathItem { get, put, post, patch, delete, .. } = item;
                let calls: Vec<Operation> =
                    [get, put, post, patch, delete].into_iter().flatten().collect();
                let [call] = &calls[..] else { panic!("{path}: {} calls", calls.len()) };
                assert!(call.summary.is_some() && call.responses.responses.len() > 4, "{path}");
            }
        }
    }
}
