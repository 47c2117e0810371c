//! One call to a server: what was answered, or one sentence on why nothing was.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, LINK, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use tollgate::identity::Secret;

use super::address::Address;
use super::refusal::{CallError, Refusal, advice};
use super::{token, trust};
use crate::arguments::ServerArguments;
use crate::failure::Failure;

/// No answer is larger: a hundred thousand rules fit.
const LARGEST_ANSWER: usize = 64 << 20;

/// Asks one server.
pub(crate) struct Client {
    address: Address,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    /// Whether an authority was named to trust.
    has_ca: bool,
    http: HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What a server answered when all went well.
pub(crate) struct Answer<T> {
    /// As it came.
    pub(crate) text: String,
    pub(crate) value: T,
    /// The version of what was asked for.
    pub(crate) tag: Option<String>,
    /// Where the next page is, if there is one.
    pub(super) next: Option<String>,
}

/// What can be said about a call besides its body.
pub(crate) type Header = (&'static str, String);

impl Client {
    pub(crate) fn new(arguments: &ServerArguments) -> Result<Self, Failure> {
        let address = Address::parse(&arguments.server)?;
        let token = token::of(arguments)?;
        let trust = trust::settings(address.is_https(), arguments.ca.as_deref())?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            address,
            authorization: token.as_ref().map(bearer).transpose()?,
            timeout: arguments.timeout,
            has_ca: arguments.ca.is_some(),
            http: HyperClient::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// Reads a resource.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, CallError> {
        self.call(Method::GET, path, String::new(), None)
    }

    /// Asks a question, or makes something.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        header: Option<Header>,
    ) -> Result<Answer<T>, CallError> {
        self.call(Method::POST, path, body, header)
    }

    /// Puts something in place of what is there.
    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        header: Option<Header>,
    ) -> Result<Answer<T>, CallError> {
        self.call(Method::PUT, path, body, header)
    }

    /// Removes something.
    pub(crate) fn delete(&self, path: &str, header: Option<Header>) -> Result<(), CallError> {
        self.ask(Method::DELETE, path, String::new(), header).map(drop)
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: String,
        header: Option<Header>,
    ) -> Result<Answer<T>, CallError> {
        let answer = self.ask(method, path, body, header)?;
        let field = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let tag = field(ETAG).map(str::to_owned);
        let next = field(LINK).and_then(next_page).map(str::to_owned);
        let text = answer.into_body();
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer { text, value, tag, next }),
            Err(error) => Err(CallError::Failed(Failure::usage(format!(
                "{} gave an answer that cannot be read: {error}. Is it a Tollgate server? (--server)",
                self.address
            )))),
        }
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        body: String,
        header: Option<Header>,
    ) -> Result<Response<String>, CallError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.address.join(path))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| Failure::usage(format!("cannot ask {}: {error}", self.address)))?;
        let answer = self.wait_for(request)?;
        if answer.status().is_success() {
            Ok(answer)
        } else {
            Err(self.refused(answer.status(), answer.body()))
        }
    }

    fn wait_for(&self, request: Request<Full<Bytes>>) -> Result<Response<String>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Failure::usage(format!("cannot start a connection: {error}")))?;
        let answer = runtime.block_on(async {
            tokio::time::timeout(self.timeout, Box::pin(self.exchange(request))).await
        });
        // A name that is still being looked up must not keep us.
        runtime.shutdown_background();
        answer.unwrap_or_else(|_| {
            let waited = self.timeout;
            Err(Failure::usage(format!(
                "{} did not answer within {waited:?} (--timeout)",
                self.address
            )))
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<String>, Failure> {
        let response = self.http.request(request).await.map_err(|error| {
            if error.is_connect() { self.unreachable(&error) } else { self.broken(&error) }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.broken(&*error))?.to_bytes();
        Ok(Response::from_parts(head, String::from_utf8_lossy(&body).into_owned()))
    }

    fn unreachable(&self, error: &(dyn Error + 'static)) -> Failure {
        let told = match cause(error).downcast_ref::<rustls::Error>() {
            Some(error) => trust::distrust(error, self.has_ca),
            None => format!("{}. Is `tollgate serve` running? (--server)", reason(error)),
        };
        Failure::usage(format!("cannot reach {}: {told}", self.address))
    }

    fn broken(&self, error: &(dyn Error + 'static)) -> Failure {
        let advice = match self.address.is_https() {
            true => "Is it a Tollgate server? (--server)",
            false => "Is it a Tollgate server, or does it want https? (--server)",
        };
        Failure::usage(format!(
            "{} gave no proper answer: {}. {advice}",
            self.address,
            reason(error)
        ))
    }

    fn refused(&self, status: StatusCode, text: &str) -> CallError {
        let refusal = Refusal::read(status, text);
        refusal.map_or_else(
            || {
                CallError::Failed(Failure::usage(format!(
                    "{} answered {status}. Is it a Tollgate server? (--server){}",
                    self.address,
                    advice(status)
                )))
            },
            CallError::Refused,
        )
    }
}

/// Where a `Link` header says that the list goes on.
fn next_page(link: &str) -> Option<&str> {
    let (path, relation) = link.strip_prefix('<')?.split_once('>')?;
    relation.contains("rel=\"next\"").then_some(path)
}

fn bearer(token: &Secret) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        .map_err(|_| Failure::usage("the token has characters that HTTP cannot carry (--token)"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The first cause of an error, which is what people can do something about.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    loop {
        // An error wrapped for input and output does not count as its own source.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source()) {
            Some(deeper) => cause = deeper,
            None => return cause,
        }
    }
}

/// The first cause in words, without the number that the operating system has for it.
fn reason(error: &(dyn Error + 'static)) -> String {
    let cause = cause(error);
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => cause.to_string(),
    }
}
