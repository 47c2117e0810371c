"""A collector of traces with the messages that OpenTelemetry publishes: prints each span that it is
sent as a line of JSON, and each request before it as the hexadecimal digits of its bytes.

Its arguments are a port, and a certificate and its key if it is encrypted. It prints the port first.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

# The messages come with those of Envoy, in a version that calls scopes libraries. On the wire both are
# the same.
SPANS_OF_RESOURCE = trace_pb2.ResourceSpans.DESCRIPTOR.fields_by_name
SCOPES = next(
    name for name in ("scope_spans", "instrumentation_library_spans") if name in SPANS_OF_RESOURCE
)


def say(line):
    print(json.dumps(line), flush=True)


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def attributes(message):
    return {attribute.key: value(attribute.value) for attribute in message.attributes}


def show(resource, span):
    kind = json_format.MessageToDict(span)["kind"]
    return {
        "service": attributes(resource)["service.name"],
        "name": span.name,
        "kind": kind,
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "is_error": span.status.code == span.status.STATUS_CODE_ERROR,
        "is_in_order": 0 < span.start_time_unix_nano <= span.end_time_unix_nano,
        "attributes": attributes(span),
    }


def export(content, _):
    request = trace_service_pb2.ExportTraceServiceRequest.FromString(content)
    say({"bytes": content.hex()})
    for of_resource in request.resource_spans:
        for of_scope in getattr(of_resource, SCOPES):
            for span in of_scope.spans:
                say(show(of_resource.resource, span))
    return trace_service_pb2.ExportTraceServiceResponse()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main(port, *files):
    # Requests come one after the other, so that lines do too.
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    handler = grpc.unary_unary_rpc_method_handler(
        export, response_serializer=lambda message: message.SerializeToString()
    )
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"Export": handler}),)
    )
    address = f"127.0.0.1:{port}"
    if files:
        certificate, key = map(read, files)
        secrets = grpc.ssl_server_credentials([(key, certificate)])
        port = server.add_secure_port(address, secrets)
    else:
        port = server.add_insecure_port(address)
    server.start()
    say({"port": port})
    server.wait_for_termination()


main(*sys.argv[1:])
