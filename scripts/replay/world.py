"""The server that requests are sent to, the service behind its gateway, and the ways to reach both."""

import http.client
import http.server
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import grpc
from envoy.service.ratelimit.v3 import rls_pb2
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

HERE = Path(__file__).parent
ADMIN_TOKEN = 'admin-squeamish-ossifrage'
TIMEOUT = 30


class Echo(http.server.BaseHTTPRequestHandler):
    """A service that answers with what it was sent."""

    protocol_version = 'HTTP/1.1'

    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        seen = [f'{self.command} {self.path}', *(f'{name}: {value}' for name, value in sorted(self.headers.items()))]
        content = '\n'.join(seen).encode() + b'\n' + body
        self.send_response(int(self.headers.get('X-Status', 200)))
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class World:
    """Two servers of one binary: one with rules in a file, for checks; one with a catalog, for administration."""

    def __init__(self, binary, launcher=(), policy='policy.yaml'):
        self.binary, self.launcher, self.policy = str(Path(binary).resolve()), list(launcher), str(HERE / policy)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.service = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Echo)
        threading.Thread(target=self.service.serve_forever, daemon=True).start()
        self.processes = []
        upstream = f'http://127.0.0.1:{self.service.server_address[1]}'
        self.checks = self.start('checks', [
            '--rules', self.policy, '--envoy-config', str(HERE / 'ratelimit'),
            '--upstream', upstream, '--gateway', '127.0.0.1:0',
        ])
        self.catalog = self.start('catalog', [])
        self.definitions = self.checks['grpc']
        return self

    def start(self, name, arguments):
        folder = Path(self.folder.name) / name
        folder.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith('TOLLGATE_')}
        environment |= {'TOLLGATE_HTTP': '127.0.0.1:0', 'TOLLGATE_GRPC': '127.0.0.1:0', 'TOLLGATE_ADMIN_TOKEN': ADMIN_TOKEN}
        process = subprocess.Popen(
            [*self.launcher, self.binary, 'serve', '--config', str(HERE / 'tollgate.yaml'), *arguments],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        addresses = {}
        for line in process.stdout:
            words = line.split()
            if len(words) > 1 and '://' in words[1]:
                addresses[words[0]] = words[1].split('://')[1]
            if "-d '" in line:
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return addresses
        raise SystemExit(f'{self.binary} did not start')

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        self.service.shutdown()
        self.folder.cleanup()


class Bare:
    """A handler of the benchmark that takes the place of the server for checks in a world."""

    def __init__(self, bench, handler, world):
        self.definitions = world.definitions
        upstream = [f'127.0.0.1:{world.service.server_address[1]}'] if handler == 'bare-proxy' else []
        self.command = [*world.launcher, str(Path(bench).resolve()), handler, '127.0.0.1:0', *upstream]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        name, address = self.process.stdout.readline().split()
        self.checks = {name: address.split('://')[1]}
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Http:
    """Sends requests over one connection; a closed one is opened again."""

    def __init__(self, address):
        self.address, self.connection, self.decision = address, None, ''

    def send(self, request):
        body = request.get('body')
        if body is not None:
            body = body.replace('$LAST', self.decision).encode('utf-8', 'surrogateescape')
        for attempt in range(2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
                return self.attempt(request, body)
            except (http.client.RemoteDisconnected, ConnectionError):
                self.connection = None
                if attempt:
                    return 'closed without a response'

    def attempt(self, request, body):
        connection = self.connection
        connection.putrequest(request['method'], request['path'], skip_accept_encoding=True)
        for name, value in request.get('headers', []):
            connection.putheader(name, value)
        if body is not None:
            connection.putheader('Content-Length', str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        content = response.read().decode('utf-8', 'backslashreplace')
        if response.will_close:
            self.connection = None
        if '"decision_id":"' in content:
            self.decision = content.split('"decision_id":"')[1].split('"')[0]
        head = [str(response.status), *(f'{name}: {value}' for name, value in response.getheaders())]
        return '\n'.join(head) + '\n\n' + content


class Grpc:
    """Calls whose messages are JSON; definitions come from a server, and those of Envoy from Envoy."""

    def __init__(self, address, definitions):
        self.channel, reflection = (
            grpc.insecure_channel(at, [('grpc.enable_http_proxy', 0)]) for at in (address, definitions))
        self.pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(reflection))
        self.methods = {}

    def send(self, request):
        call, message = request['call'], request['message']
        if call not in self.methods:
            self.methods[call] = self.find(call)
        take, ask = self.methods[call]
        try:
            response = ask(json_format.ParseDict(message, take()), TIMEOUT, request.get('metadata', []))
        except grpc.RpcError as error:
            trailing = sorted((name, str(value)) for name, value in error.trailing_metadata() or () if name != 'date')
            return json.dumps([error.code().name, error.details(), trailing])
        return json.dumps(json_format.MessageToDict(response, preserving_proto_field_name=True), sort_keys=True)

    def find(self, call):
        name, method = call.split('/')
        envoy = rls_pb2.DESCRIPTOR.services_by_name['RateLimitService']
        service = envoy if envoy.full_name == name else self.pool.FindServiceByName(name)
        method = service.methods_by_name[method]
        take = message_factory.GetMessageClass(method.input_type)
        give = message_factory.GetMessageClass(method.output_type)
        return take, self.channel.unary_unary('/' + call, take.SerializeToString, give.FromString)
