//! The server that a command calls, by the flags of the command line.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ETAG, IF_MATCH, LINK, USER_AGENT};
use http::{Request, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tollgate::identity::Secret;
use tollgate_client::{BuildError, Client};

use super::call_error::{CallError, connection_failure, refused};
use super::token;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::terminal::{printable, printable_json};

/// Everything but what RFC 3986 calls unreserved.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// When the catalog last responded, in a response that was read without it.
const STALE_SINCE: http::HeaderName = http::HeaderName::from_static("x-tollgate-stale-since");

/// A server.
pub(crate) struct Remote {
    client: Client,
    is_https: bool,
    has_ca: bool,
    /// Keeps connections open from one call to the next, for commands that call again and again.
    runtime: Option<Runtime>,
}

/// The response to a successful call.
pub(crate) struct Fetched<T> {
    /// The body as it came, with escapes for characters that would do something to a terminal.
    pub(crate) text: String,
    pub(crate) value: T,
    /// The version of the resource.
    pub(crate) etag: Option<String>,
    /// The path of the next page, if there is one.
    pub(super) next: Option<String>,
}

impl Remote {
    pub(crate) fn new(arguments: &ServerArguments) -> Result<Self, Failure> {
        let ServerArguments { server, ca, timeout, .. } = arguments;
        Self::connect(server, ca.as_deref(), *timeout, token::of(arguments)?)
    }

    /// A server whose check API is called.
    pub(super) fn for_checks(arguments: &ServerArguments) -> Result<Self, Failure> {
        let ServerArguments { server, ca, timeout, .. } = arguments;
        Self::connect(server, ca.as_deref(), *timeout, token::of_caller(arguments)?)
    }

    /// A server that gets no token, also if there is one in the environment.
    pub(super) fn without_token(
        server: &str,
        ca: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        Self::connect(server, ca, timeout, None)
    }

    fn connect(
        server: &str,
        ca: Option<&Path>,
        timeout: Duration,
        token: Option<Secret>,
    ) -> Result<Self, Failure> {
        let is_https = server.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        let mut builder = Client::builder(server).timeout(timeout);
        if let Some(token) = token {
            builder = builder.token(token.expose());
        }
        if let Some(file) = ca.filter(|_| is_https) {
            builder = builder.authority(fs::read(file).map_err(|error| unusable_ca(file, &error))?);
        }
        let client = builder.build().map_err(|error| match (&error, ca) {
            (BuildError::Address(_), _) => Failure::usage(format!("{error} (--server)")),
            (BuildError::Token(_), _) => Failure::usage(format!("{error} (--token)")),
            (BuildError::Authority(why), Some(file)) => unusable_ca(file, why),
            _ => Failure::usage(format!("{error} (--ca)")),
        })?;
        Ok(Self { client, is_https, has_ca: ca.is_some(), runtime: None })
    }

    /// The same server, over connections that stay open.
    pub(crate) fn keep_connections(self) -> Result<Self, Failure> {
        Ok(Self { runtime: Some(runtime()?), ..self })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Fetched<T>, CallError> {
        self.fetch(Request::get(path), Bytes::new())
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Fetched<T>, CallError> {
        // Texts and numbers always serialise.
        self.fetch(Request::post(path), serde_json::to_vec(body).unwrap_or_default().into())
    }

    /// Calls without a body; with an `etag` only for that version of the resource.
    pub(crate) fn post_empty<T: DeserializeOwned>(
        &self,
        path: &str,
        etag: Option<&str>,
    ) -> Result<Fetched<T>, CallError> {
        self.fetch(if_match(Request::post(path), etag), Bytes::new())
    }

    /// Replaces a resource; with an `etag` only that version of it.
    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        etag: Option<&str>,
    ) -> Result<Fetched<T>, CallError> {
        self.fetch(if_match(Request::put(path), etag), body.into())
    }

    /// Deletes a resource; with an `etag` only that version of it.
    pub(crate) fn delete(&self, path: &str, etag: Option<&str>) -> Result<(), CallError> {
        self.call(if_match(Request::delete(path), etag), Bytes::new()).map(drop)
    }

    /// Deletes something, and returns the response, if there is more to it than its status.
    pub(crate) fn delete_for<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<Fetched<T>>, CallError> {
        let response = self.call(Request::delete(path), Bytes::new())?;
        let is_empty = response.body().is_empty();
        if is_empty { Ok(None) } else { self.read(&response).map(Some) }
    }

    fn fetch<T: DeserializeOwned>(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Fetched<T>, CallError> {
        self.read(&self.call(request, body)?)
    }

    fn read<T: DeserializeOwned>(
        &self,
        response: &Response<Bytes>,
    ) -> Result<Fetched<T>, CallError> {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(since) = header(STALE_SINCE) {
            eprintln!(
                "tollgate: the catalog has been unavailable since {}: this is what is in force",
                printable(since)
            );
        }
        let etag = header(ETAG).map(str::to_owned);
        let next = header(LINK).and_then(next_page).map(str::to_owned);
        let text = String::from_utf8_lossy(response.body()).into_owned();
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Fetched { text: printable_json(&text), value, etag, next }),
            Err(error) => Err(CallError::Failed(Failure::usage(format!(
                "{} gave an answer that cannot be read: {error}. Is it a Tollgate server? (--server)",
                self.client.server()
            )))),
        }
    }

    fn call(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Bytes>, CallError> {
        let server = self.client.server();
        let response = self.send(request, body)?;
        if response.status().is_success() { Ok(response) } else { Err(refused(server, &response)) }
    }

    /// The response to a GET, whatever its status.
    pub(super) fn response(&self, path: &str) -> Result<Response<Bytes>, Failure> {
        self.send(Request::get(path), Bytes::new())
    }

    fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        let server = self.client.server();
        let request = request
            .header(USER_AGENT, agent)
            .body(body)
            .map_err(|error| Failure::usage(format!("cannot ask {server}: {error}")))?;
        let call = self.client.call(request);
        let called = match &self.runtime {
            Some(runtime) => runtime.block_on(call),
            None => block_on(call)?,
        };
        called.map_err(|error| connection_failure(&error, self.is_https, self.has_ca))
    }
}

/// A text as one segment of a path, whatever it contains.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

fn if_match(request: http::request::Builder, etag: Option<&str>) -> http::request::Builder {
    match etag {
        Some(etag) => request.header(IF_MATCH, etag),
        None => request,
    }
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::usage(format!("cannot start a connection: {error}")))
}

/// Each call has its own runtime: the name of a host that is still being resolved must not delay the end of the
/// command, and a connection that was idle during a confirmation is not used again.
fn block_on<T>(call: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(call);
    runtime.shutdown_background();
    Ok(result)
}

fn unusable_ca(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot use --ca {}: {why}", file.display()))
}

/// Where a `Link` header says that the list goes on.
fn next_page(link: &str) -> Option<&str> {
    let (path, relation) = link.strip_prefix('<')?.split_once('>')?;
    relation.contains("rel=\"next\"").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_anything() {
        assert_eq!(segment("api_default.v-2"), "api_default.v-2");
        assert_eq!(segment("a/b?c d%é"), "a%2Fb%3Fc%20d%25%C3%A9");
    }
}
