//! `grpc.reflection`: the definitions of the services, for clients that have none.
//!
//! An unknown name gets an error as a response, and the stream goes on: clients look up several names on one stream.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FileDescriptorSet,
};
use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server as server;
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use tonic_reflection::pb::v1alpha;
use tonic_reflection::pb::v1alpha::server_reflection_server as earlier_server;

use super::health::{ServingState, until_streams_end};

/// The service, in both versions: their messages are the same.
#[derive(Clone, Debug)]
pub(super) struct Reflection {
    definitions: Arc<Definitions>,
    state: watch::Receiver<ServingState>,
}

/// The definitions by the names of files and symbols.
#[derive(Debug, Default)]
struct Definitions {
    /// The encoded definition of each file.
    files: HashMap<String, Vec<u8>>,
    /// The file of each symbol.
    symbols: HashMap<String, String>,
    services: Vec<String>,
}

impl Reflection {
    pub(super) fn new(sets: &[&[u8]], state: watch::Receiver<ServingState>) -> Self {
        let mut definitions = Definitions::default();
        // The definitions are compiled in and valid, so this cannot fail.
        for set in sets.iter().filter_map(|set| FileDescriptorSet::decode(*set).ok()) {
            definitions.add(&set);
        }
        definitions.services.sort_unstable();
        definitions.services.dedup();
        Self { definitions: Arc::new(definitions), state }
    }

    /// Answers requests until the client has sent the last one, or the server ends.
    fn respond<Q: Send + 'static, A: Send + 'static>(
        &self,
        mut requests: Streaming<Q>,
        read: impl Fn(Q) -> ServerReflectionRequest + Send + 'static,
        write: impl Fn(ServerReflectionResponse) -> A + Send + 'static,
    ) -> ReceiverStream<Result<A, Status>> {
        let Self { definitions, mut state } = self.clone();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let request = tokio::select! {
                    request = requests.message() => request,
                    () = until_streams_end(&mut state) => return,
                };
                let Ok(Some(request)) = request else { return };
                let response = write(definitions.response(read(request)));
                if sender.send(Ok(response)).await.is_err() {
                    return;
                }
            }
        });
        ReceiverStream::new(receiver)
    }
}

#[tonic::async_trait]
impl server::ServerReflection for Reflection {
    type ServerReflectionInfoStream = ReceiverStream<Result<ServerReflectionResponse, Status>>;

    async fn server_reflection_info(
        &self,
        request: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        Ok(Response::new(self.respond(request.into_inner(), |it| it, |it| it)))
    }
}

#[tonic::async_trait]
impl earlier_server::ServerReflection for Reflection {
    type ServerReflectionInfoStream =
        ReceiverStream<Result<v1alpha::ServerReflectionResponse, Status>>;

    async fn server_reflection_info(
        &self,
        request: Request<Streaming<v1alpha::ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let requests = request.into_inner();
        Ok(Response::new(self.respond(requests, |it| converted(&it), |it| converted(&it))))
    }
}

/// A message of one version as that of the other, whose fields have the same numbers.
fn converted<T: Message + Default>(message: &impl Message) -> T {
    T::decode(&*message.encode_to_vec()).unwrap_or_default()
}

impl Definitions {
    fn add(&mut self, set: &FileDescriptorSet) {
        for file in &set.file {
            let name = file.name().to_owned();
            let within = |name: &str| match file.package() {
                "" => name.to_owned(),
                package => format!("{package}.{name}"),
            };
            let mut symbols = Vec::new();
            for message in &file.message_type {
                add_message(&mut symbols, &within(message.name()), message);
            }
            for one in &file.enum_type {
                add_enum(&mut symbols, &within(""), one);
            }
            for service in &file.service {
                let full = within(service.name());
                symbols.extend(
                    service.method.iter().map(|method| format!("{full}.{}", method.name())),
                );
                self.services.push(full.clone());
                symbols.push(full);
            }
            self.symbols.extend(symbols.into_iter().map(|symbol| (symbol, name.clone())));
            self.files.insert(name, file.encode_to_vec());
        }
    }

    fn response(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
        let unknown =
            |what: &str, name: &str| error(Code::NotFound, format!("{what} {name} is not known"));
        let file = |name: Option<&String>| {
            let file = self.files.get(name?)?.clone();
            let file_descriptor_proto = vec![file];
            Some(MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                file_descriptor_proto,
            }))
        };
        let message = match &request.message_request {
            None => error(Code::InvalidArgument, "the request asks for nothing".to_owned()),
            Some(MessageRequest::FileByFilename(name)) => {
                file(Some(name)).unwrap_or_else(|| unknown("the file", name))
            }
            Some(MessageRequest::FileContainingSymbol(name)) => {
                file(self.symbols.get(name)).unwrap_or_else(|| unknown("the symbol", name))
            }
            Some(MessageRequest::FileContainingExtension(extension)) => {
                unknown("an extension of", &extension.containing_type)
            }
            // There are none, and some clients take an error here for a failure.
            Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
                let response = ExtensionNumberResponse {
                    base_type_name: name.clone(),
                    extension_number: Vec::new(),
                };
                MessageResponse::AllExtensionNumbersResponse(response)
            }
            Some(MessageRequest::ListServices(_)) => {
                let services = self.services.iter();
                let service = services.map(|name| ServiceResponse { name: name.clone() }).collect();
                MessageResponse::ListServicesResponse(ListServiceResponse { service })
            }
        };
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(message),
        }
    }
}

fn error(code: Code, error_message: String) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code: code.into(), error_message })
}

fn add_message(symbols: &mut Vec<String>, full: &str, message: &DescriptorProto) {
    symbols.push(full.to_owned());
    symbols.extend(message.field.iter().map(|field| format!("{full}.{}", field.name())));
    for nested in &message.nested_type {
        add_message(symbols, &format!("{full}.{}", nested.name()), nested);
    }
    for one in &message.enum_type {
        add_enum(symbols, &format!("{full}."), one);
    }
}

/// Values of an enum are named beside it, not within it.
fn add_enum(symbols: &mut Vec<String>, prefix: &str, one: &EnumDescriptorProto) {
    let values = one.value.iter().map(EnumValueDescriptorProto::name);
    symbols.extend([one.name()].into_iter().chain(values).map(|name| format!("{prefix}{name}")));
}
