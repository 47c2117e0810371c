//! Routes and OpenAPI operations of the entities, made from their rows.

use std::future::Future;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use serde_json::{Map, Value as Json, json};
use utoipa::openapi::path::{HttpMethod, Operation, PathItem, Paths};
use utoipa::openapi::{RefOr, Schema};
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

/// Responses by their status, as OpenAPI writes them.
type Responses = Map<String, Json>;

impl Resource {
    /// The calls of this entity, each with its description.
    pub(crate) fn routes(&'static self) -> Vec<UtoipaMethodRouter<ServerState>> {
        let mut routes = Vec::new();
        if let Some(list) = &self.list {
            let query = list.query.iter().map(query_parameter);
            let parameters = parameters::<PageParameters>().into_iter().chain(query);
            let responses = [ok("200", list.ok, &object()), of::<PageProblems>()];
            let operation = self.operation(list.about, parameters, &Json::Null, responses);
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
                ok("200", item.ok, &object()),
                Responses::from_iter([
                    ("400".to_owned(), json!(problem("The path or the query cannot be read"))),
                    ("404".to_owned(), json!(problem(item.missing))),
                ]),
            ];
            let key = [example.parameter(), query_parameter(&DETAIL_WITH_AUTHOR)];
            let get = self.operation(item.get, key, &Json::Null, responses);
            routes.push(self.route(HttpMethod::Get, id, get, move |call| read::get(call, self)));
            let replace = self.put_operation(put, item.put, id);
            let handle = move |call| write::put_item(call, self, item.id.name);
            routes.push(self.route(HttpMethod::Put, id, replace, handle));
            let body = body("The fields to change", "application/merge-patch+json", item.fields);
            let responses = [ok("200", put.changed, &schemas_of(put).1), of::<BodyProblems>()];
            let patch = self.write_operation(item.patch, [item.id.parameter()], &body, responses);
            routes.push(
                self.route(HttpMethod::Patch, id, patch, move |call| write::patch(call, self)),
            );
        }
        if let Some(delete) = &self.delete {
            let mut removed = ok("200", "What would change", &reference("ChangesAnswer"));
            removed.insert("204".to_owned(), json!({"description": delete.removed}));
            let key = delete.key.parameters();
            let operation = self.write_operation(delete.about, key, &Json::Null, [removed]);
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
            ok("201", put.created, &created),
            ok("200", put.changed, &changed),
            of::<BodyProblems>(),
        ];
        let body = body(put.body, "application/json", put.example);
        self.write_operation(about, id.map(|id| id.parameter()), &body, responses)
    }

    fn write_operation(
        &self,
        about: &str,
        key: impl IntoIterator<Item = Json>,
        body: &Json,
        responses: impl IntoIterator<Item = Responses>,
    ) -> Operation {
        let parameters = key.into_iter().chain(parameters::<WriteParameters>());
        let responses = responses.into_iter().chain([of::<WriteProblems>()]);
        self.operation(about, parameters, body, responses)
    }

    /// An operation as OpenAPI writes it. Of several responses with one status, the last is described.
    fn operation(
        &self,
        about: &str,
        parameters: impl IntoIterator<Item = Json>,
        body: &Json,
        responses: impl IntoIterator<Item = Responses>,
    ) -> Operation {
        let (summary, description) = match about.split_once("\n\n") {
            Some((summary, description)) => (summary, Some(description)),
            None => (about, None),
        };
        let parameters: Vec<Json> = parameters.into_iter().collect();
        let responses = responses.into_iter().chain([of::<AdminProblems>()]);
        let responses: Responses = responses.flatten().collect();
        let operation = json!({
            "tags": [self.tag], "summary": summary, "description": description,
            "parameters": parameters, "requestBody": body, "responses": responses,
            "security": [{"token": []}],
        });
        // A test checks that all of them can be read.
        serde_json::from_value(operation).unwrap_or_default()
    }
}

impl Id {
    fn parameter(&self) -> Json {
        let Self { name, about, example } = self;
        json!({
            "name": name, "in": "path", "description": about, "required": true,
            "schema": {"type": "string"}, "example": example,
        })
    }
}

impl EntryKey {
    fn parameters(&self) -> Vec<Json> {
        let (rule, types, example) = match self {
            Self::Id(id) => return vec![id.parameter()],
            Self::Client { rule, types, example } => (rule, types, example),
        };
        let several = |name: &str, about: &str, example: &str| {
            json!({
                "name": name, "in": "query", "description": about, "required": true,
                "schema": {"type": "array", "items": {"type": "string"}}, "example": [example],
            })
        };
        let rule = rule.map(|example| {
            json!({
                "name": "rule_id", "in": "query", "description": "The rule", "required": true,
                "schema": {"type": "string"}, "example": example,
            })
        });
        let values = "The identifier, or as many as there are types, in the same order";
        let types = several("identifier_type", types, example.0);
        rule.into_iter().chain([types, several("identifier", values, example.1)]).collect()
    }
}

/// An optional parameter of a query.
fn query_parameter((name, about): &(&str, &str)) -> Json {
    let is_flag = matches!(*name, "detail" | "enabled");
    let kind = json!({"type": if is_flag { "boolean" } else { "string" }});
    json!({"name": name, "in": "query", "description": about, "required": false, "schema": kind})
}

fn object() -> Json {
    json!({"type": "object"})
}

fn reference(schema: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn schemas_of(put: &Put) -> (Json, Json) {
    put.schemas
        .map_or_else(|| (object(), object()), |(one, other)| (reference(one), reference(other)))
}

fn ok(status: &str, about: &str, schema: &Json) -> Responses {
    let response =
        json!({"description": about, "content": {"application/json": {"schema": schema}}});
    Responses::from_iter([(status.to_owned(), response)])
}

fn of<P: IntoResponses>() -> Responses {
    P::responses().into_iter().map(|(status, response)| (status, json!(response))).collect()
}

fn parameters<P: IntoParams>() -> Vec<Json> {
    P::into_params(|| None).into_iter().map(|parameter| json!(parameter)).collect()
}

fn body(about: &str, media_type: &str, example: &str) -> Json {
    let example: Json = serde_json::from_str(example).unwrap_or_default();
    let content = json!({(media_type): {"schema": object(), "example": example}});
    json!({"description": about, "content": content, "required": true})
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
