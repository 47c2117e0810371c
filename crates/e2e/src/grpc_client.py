"""A gRPC client that others wrote: reads calls as lines of JSON, and prints the result of each.

Messages of Envoy are those that Envoy publishes; all others are learned from the server itself.
The first line says where the server is. Numbers of 64 bits are texts, as in the JSON of protobuf.
"""

import json
import sys
import threading

import grpc
from envoy.service.ratelimit.v3 import rls_pb2
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

# A server that takes longer hangs.
TIMEOUT = 20


def open_channel(target):
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
    ]
    if target["address"].startswith("unix:"):
        # The library would send the path, which is no valid authority.
        options.append(("grpc.default_authority", "localhost"))
    if "authority" not in target:
        return grpc.insecure_channel(target["address"], options)

    def read(name):
        if name not in target:
            return None
        with open(target[name], "rb") as file:
            return file.read()

    secrets = grpc.ssl_channel_credentials(read("authority"), read("key"), read("certificate"))
    options.append(("grpc.ssl_target_name_override", "localhost"))
    return grpc.secure_channel(target["address"], secrets, options)


class Definitions:
    """Finds out what a method takes and gives."""

    OURS = {
        module.DESCRIPTOR.services_by_name[name].full_name: module.DESCRIPTOR.services_by_name[name]
        for module, name in [(rls_pb2, "RateLimitService"), (health_pb2, "Health")]
    }

    def __init__(self, channel):
        self.database = ProtoReflectionDescriptorDatabase(channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)

    def find(self, path):
        name, method = path.split("/")
        service = self.OURS.get(name) or self.pool.FindServiceByName(name)
        method = service.methods_by_name[method]
        take = message_factory.GetMessageClass(method.input_type)
        give = message_factory.GetMessageClass(method.output_type)
        return take, give


def show(message):
    shown = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    if "raw_body" in shown:
        shown["raw_body"] = message.raw_body.decode()
    return shown


def metadata_of(command):
    return [(name.lower(), value) for name, value in command.get("metadata", {}).items()]


def attempt(act):
    try:
        return {"ok": act()}
    except grpc.RpcError as error:
        trailing = {name: str(value) for name, value in error.trailing_metadata() or ()}
        return {"code": error.code().name, "detail": error.details(), "metadata": trailing}


class Client:
    def __init__(self, target):
        self.target = target
        self.channel = open_channel(target)
        self.definitions = Definitions(self.channel)

    def call(self, command):
        """One call."""
        take, give = self.definitions.find(command["call"])
        message = json_format.ParseDict(command["message"], take())
        ask = self.channel.unary_unary(
            "/" + command["call"], take.SerializeToString, give.FromString
        )
        timeout = command.get("timeout", TIMEOUT)
        compression = grpc.Compression.Gzip if command.get("gzip") else None
        return attempt(
            lambda: show(ask(message, timeout, metadata_of(command), compression=compression))
        )

    def raw(self, command):
        """One call with bytes for a message: the text, repeated."""
        content = bytes.fromhex(command["bytes"]) * command.get("times", 1)
        ask = self.channel.unary_unary("/" + command["raw"], lambda raw: raw, lambda raw: raw)
        return attempt(lambda: ask(content, TIMEOUT, metadata_of(command)).hex())

    def services(self, _):
        return attempt(lambda: sorted(self.definitions.database.get_services()))

    def watch(self, command):
        """How health changes, one line for each state, until it is `command["until"]`."""
        ask = self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        statuses = ask(health_pb2.HealthCheckRequest(service=command["watch"]), TIMEOUT)

        def act():
            for status in statuses:
                name = health_pb2.HealthCheckResponse.ServingStatus.Name(status.status)
                if name == command["until"]:
                    return name
                say({"ok": name})

        return attempt(act)

    def watch_unknown(self, command):
        """The first status of a service that does not exist, and whether its stream goes on: a later call
        on the same connection would come after its end."""
        ask = self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        statuses = ask(health_pb2.HealthCheckRequest(service=command["watch_unknown"]), TIMEOUT)

        def act():
            name = health_pb2.HealthCheckResponse.ServingStatus.Name(next(statuses).status)
            check = self.channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            check(health_pb2.HealthCheckRequest(), TIMEOUT)
            goes_on = statuses.is_active()
            statuses.cancel()
            return [name, goes_on]

        return attempt(act)

    def reflect(self, command):
        """Looks up symbols on one stream. Says the error code of each, or the names of its files."""
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        requests = [
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
            for symbol in command["reflect"]
        ]

        def act():
            found = []
            for response in stub.ServerReflectionInfo(iter(requests), TIMEOUT):
                if response.HasField("error_response"):
                    found.append(response.error_response.error_code)
                else:
                    found.append(len(response.file_descriptor_response.file_descriptor_proto))
            return found

        return attempt(act)

    def silence(self, command):
        """Opens streams and says nothing on them. Says how each ends."""

        def nothing(is_over):
            is_over.wait()
            yield from ()

        silent = []
        channels = [open_channel(self.target) for _ in range(command["silence"])]
        for channel in channels:
            ask = channel.stream_unary("/" + command["method"], lambda raw: raw, lambda raw: raw)
            for _ in range(command["streams"]):
                is_over = threading.Event()
                call = ask.future(nothing(is_over), metadata=metadata_of(command))
                silent.append((call, is_over))
        ends = {}
        for call, is_over in silent:
            error = call.exception(TIMEOUT)
            end = f"{error.code().name}: {error.details()}"
            ends[end] = ends.get(end, 0) + 1
            is_over.set()
        for channel in channels:
            channel.close()
        return {"ok": ends}

    def hammer(self, command):
        """Makes the same calls over many connections at once, when the next line comes. Says how
        often the answer was allowed."""
        take, give = self.definitions.find(command["hammer"])
        message = json_format.ParseDict(command["message"], take())
        channels = [open_channel(self.target) for _ in range(command["connections"])]
        for channel in channels:
            grpc.channel_ready_future(channel).result(TIMEOUT)
        allowed = [0] * len(channels)
        errors = []

        def ask(place):
            ask = channels[place].unary_unary(
                "/" + command["hammer"], take.SerializeToString, give.FromString
            )
            for _ in range(command["times"]):
                try:
                    answer = ask(message, TIMEOUT)
                except grpc.RpcError as error:
                    errors.append(str(error))
                    return
                is_over = getattr(answer, "overall_code", 1) != 1
                allowed[place] += bool(getattr(answer, "allowed", not is_over))

        threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(channels))]
        say({"ok": "ready"})
        sys.stdin.readline()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for channel in channels:
            channel.close()
        return {"ok": sum(allowed)} if not errors else {"ok": errors[0]}


def say(answer):
    print(json.dumps(answer), flush=True)


def main():
    client = Client(json.loads(sys.stdin.readline()))
    commands = [
        client.call,
        client.raw,
        client.services,
        client.watch,
        client.watch_unknown,
        client.reflect,
        client.silence,
        client.hammer,
    ]
    while line := sys.stdin.readline():
        command = json.loads(line)
        act = next(act for act in commands if act.__name__ in command)
        say(act(command))


main()
