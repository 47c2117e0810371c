"""What is sent to each entry point: mostly sensible requests of few clients, so that limits are reached, and some
that are wrong."""

import json
from dataclasses import dataclass
from typing import Callable

from world import ADMIN_TOKEN, Grpc, Http

JSON = ('Content-Type', 'application/json')
BEARER = ('Authorization', f'Bearer {ADMIN_TOKEN}')
CHECK = '/api/v1/rate-limit/'

USERS = [f'user{number}' for number in range(40)] + ['root', 'foe', 'ünïcode', 'a b']
ADDRESSES = [f'198.51.100.{number}' for number in range(40)] + ['2001:db8::1', '2001:db8:0:1::9', '203.0.113.77']
WRONG = [{'user_id': ''}, {'ip': 'no address'}, {'ip': '10.0.0.1:80'}, {'users': 'x'}, {'tenant': 7}]
KEYS = [f'key{number}' for number in range(10)] + ['stolen', 'trial_1', 'known-key']
TENANTS = ['acme', 'globex', 'initech']
PATHS = ['/', '/login', '/orders', '/orders/7', '/orders/7?x=1', '/admin', '/admin/users/1', '/reports/9', '/search', '/a/../login',
         '//login/', '/%6cogin', '/caf%C3%A9', '/login;v=1', '/health', 'orders', '/x' * 40, '/ORDERS']
RAW_PATHS = 3 * [path for path in PATHS if path.startswith('/') and '..' not in path] + ['/login%2Fx', '/a/./b', '/a%5cb', '/%00', '/%zz', '/login%20']
METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'get', 'PURGE']
HOSTS = ['api.example.com', 'x.eu.example.com', 'shop.example', 'API.example.com:8080']
BY_RULE = [('fixed', 'user', USERS), ('log', 'ip', ADDRESSES), ('counter', 'tenant', TENANTS), ('bucket', 'api_key', KEYS), ('leaky', 'custom', ['gold', 'tin']),
           ('gcra', 'ip', ADDRESSES), ('login', 'ip', ADDRESSES), ('costly', 'user', USERS), ('watch', 'user_id', USERS), ('soft', 'user', USERS)]


def some(drawn, chance, values):
    return drawn.choice(values) if drawn.random() < chance else None


def given(**fields):
    return {name: value for name, value in fields.items() if value is not None}


def check(drawn):
    if drawn.random() < 0.15:
        return by_rule(drawn)
    who = given(user_id=some(drawn, 0.6, USERS), ip=some(drawn, 0.5, ADDRESSES), api_key=some(drawn, 0.3, KEYS),
                tenant=some(drawn, 0.3, TENANTS))
    if drawn.random() < 0.02:
        who |= drawn.choice(WRONG)
    body = given(identifiers=who if drawn.random() < 0.9 else None, endpoint=some(drawn, 0.7, PATHS),
                 method=some(drawn, 0.6, METHODS), host=some(drawn, 0.2, HOSTS),
                 tier=some(drawn, 0.1, ['pro', 'free', 'gold']), cost=some(drawn, 0.2, [0, 1, 2, 5, 100, 10**12]),
                 detail=some(drawn, 0.5, [True, False]),
                 idempotency_key=some(drawn, 0.05, [f'key{number}' for number in range(20)]))
    if drawn.random() < 0.2:
        body['attributes'] = {drawn.choice(['plan', 'region', 'header:x-client', 'claim:org']): drawn.choice(['gold', 'eu', 'mobile/1', ''])}
    return body


def by_rule(drawn):
    rule_id, key_type, values = drawn.choice(BY_RULE)
    if drawn.random() < 0.05:
        rule_id, key_type = drawn.choice(['nothing', '', 'pair', rule_id]), drawn.choice(['endpoint', 'custom', 'banana'])
    return given(rule_id=rule_id, key_type=key_type, key_value=drawn.choice(values), request_count=some(drawn, 0.3, [0, 1, 3, 10**9]),
                 detail=some(drawn, 0.5, [True, False]))


def damaged(drawn, text):
    """A body with a mistake in it, now and then."""
    if drawn.random() > 0.03:
        return text
    at = drawn.randrange(len(text) + 1)
    return drawn.choice([text[:at], text[:at] + drawn.choice('{}[]",:x0\\') + text[at:], text.replace('"', "'"), ''])


def draw_check(drawn, _):
    call = drawn.choices(['check', 'peek', 'explain', 'refund', 'reset'], [80, 8, 6, 3, 3])[0]
    headers = [JSON]
    if call in ('explain', 'refund', 'reset') and drawn.random() < 0.9:
        headers.append(BEARER)
    body = json.dumps(check(drawn))
    if call == 'refund':
        body = json.dumps({'decision_id': drawn.choice(['$LAST', 'd00000000-a0', 'nonsense'])})
    elif drawn.random() < 0.05 and call == 'check':
        headers.append(('Idempotency-Key', f'"header{drawn.randrange(20)}"'))
    return {'method': 'POST', 'path': CHECK + call, 'headers': headers, 'body': damaged(drawn, body)}


def draw_batch(drawn, _):
    checks = [check(drawn) for _ in range(drawn.choices([0, 1, 2, 5, 20], [1, 30, 30, 30, 9])[0])]
    for one in checks:
        one.pop('detail', None)
    return {'method': 'POST', 'path': CHECK + 'check/batch', 'headers': [JSON], 'body': damaged(drawn, json.dumps({'checks': checks}))}


def draw_grpc(drawn, _):
    def message():
        body = check(drawn)
        body = {name: value for name, value in body.items() if not name.startswith('key_') and name != 'request_count'}
        if 'identifiers' in body:
            body['identifiers'] = {name: str(value) for name, value in body['identifiers'].items() if name != 'users'}
        if drawn.random() < 0.3:
            body.pop('identifiers', None)
            body['identifier'] = drawn.choice(ADDRESSES)
            body['dimension'] = drawn.choice(['', 'user', 'ip', 'api_key', 'tenant', 'ip', 'user', 'banana'])
        return body
    call = drawn.choices(['CheckRateLimit', 'GetRemainingQuota', 'ResetLimit', 'CheckBatch'], [75, 10, 5, 10])[0]
    content = {'checks': [message() for _ in range(drawn.randrange(5))]} if call == 'CheckBatch' else message()
    token = [('authorization', f'Bearer {ADMIN_TOKEN}')] if drawn.random() < 0.5 else []
    return {'call': f'tollgate.v1.RateLimiter/{call}', 'message': content, 'metadata': token}


def descriptors(drawn):
    def entry():
        key = drawn.choice(['remote_address', 'tenant', 'path', 'generic_key', 'user', 'unknown'])
        values = {'remote_address': ADDRESSES, 'tenant': TENANTS + ['trial'], 'path': PATHS, 'user': USERS}
        return {'key': key, 'value': drawn.choice(values.get(key, ['slow', 'fast', '']))}
    found = []
    for _ in range(drawn.choices([0, 1, 2, 3], [2, 60, 25, 13])[0]):
        one = {'entries': [entry() for _ in range(drawn.choice([1, 1, 2, 3]))]}
        if drawn.random() < 0.1:
            one['hits_addend'] = str(drawn.choice([0, 2, 1000]))
        if drawn.random() < 0.05:
            one['limit'] = {'requests_per_unit': drawn.choice([1, 5]), 'unit': 'DAY'}
        found.append(one)
    return {'domain': drawn.choices(['shop', 'other', 'unknown', ''], [80, 14, 5, 1])[0], 'descriptors': found,
            **({'hits_addend': drawn.choice([1, 3, 50])} if drawn.random() < 0.2 else {})}


def draw_envoy(drawn, _):
    return {'call': 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', 'message': descriptors(drawn)}


def draw_json(drawn, _):
    return {'method': 'POST', 'path': '/json', 'headers': [JSON], 'body': damaged(drawn, json.dumps(descriptors(drawn)))}


def client_headers(drawn):
    found = []
    for chance, name, values in [
            (0.9, 'X-Forwarded-For', ADDRESSES + ['198.51.100.1, 10.0.0.1']), (0.3, 'X-API-Key', KEYS),
            (0.1, 'X_API_Key', KEYS), (0.08, 'Authorization', ['Bearer nonsense', 'Basic dXNlcjpwYXNz', 'Bearer\tx', 'bearer  y=']),
            (0.1, 'X-Client', ['mobile/1', 'web']), (0.05, 'X-Original-URL', ['/admin']), (0.05, 'X-Tollgate-Cost', ['5'])]:
        value = some(drawn, chance, values)
        if value:
            found.append((name, value.encode('utf-8').decode('latin-1')))
    return found


def draw_authorize(drawn, _):
    headers = client_headers(drawn)
    style = drawn.choice(['forwarded', 'original', 'path'])
    path = drawn.choice(RAW_PATHS)
    if style == 'forwarded':
        headers += [('X-Forwarded-Method', drawn.choice(METHODS)), ('X-Forwarded-Uri', path), ('X-Forwarded-Host', drawn.choice(HOSTS))]
    if style == 'original':
        headers += [('X-Original-Method', drawn.choice(METHODS)), ('X-Original-URI', path)]
    at = CHECK + 'authorize' + (path if style == 'path' else '')
    return {'method': drawn.choice(['GET', 'GET', 'POST', 'HEAD']), 'path': at, 'headers': headers}


def draw_gateway(drawn, _):
    method = drawn.choice(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS'])
    headers = client_headers(drawn)
    status = some(drawn, 0.1, ['404', '500', '503'])
    if status:
        headers.append(('X-Status', status))
    request = {'method': method, 'path': drawn.choice(RAW_PATHS), 'headers': headers}
    if method in ('POST', 'PUT'):
        request['body'] = drawn.choice(['', 'x=1', 'y' * 5000])
    return request


def draw_admin(drawn, number):
    def call(method, path, body=None, headers=()):
        token = [] if drawn.random() < 0.02 else [BEARER]
        query = '?dry_run=true' if method != 'GET' and drawn.random() < 0.05 else ''
        text = None if body is None else damaged(drawn, json.dumps(body))
        return {'method': method, 'path': '/api/v1' + path + query, 'headers': [*token, *([JSON] if text is not None else []), *headers],
                **({} if text is None else {'body': text})}
    rule_id = f'rule{drawn.randrange(12)}'
    subject = {'identifier_type': drawn.choice(['user_id', 'ip', 'api_key', 'tenant', 'banana']), 'identifier': drawn.choice(USERS + ADDRESSES + KEYS + ['', 'no address'])}
    query = f'?identifier_type={subject["identifier_type"]}&identifier=u{drawn.randrange(5)}'
    rule = given(rule_id=rule_id, limit=drawn.choice([1, 10, 1000, 0, -1, 'lots']), window=drawn.choice(['1s', '1m', '1h', 'soon']),
                 identifier_type=drawn.choice(['user_id', 'ip', ['tenant', 'user_id'], 'user']), tenant=some(drawn, 0.2, TENANTS),
                 algorithm=some(drawn, 0.5, ['gcra', 'token_bucket', 'fixed_window', 'sliding_window_log', 'fast']),
                 burst=some(drawn, 0.1, [5, 50]), action=some(drawn, 0.2, ['reject', 'log_only', 'throttle']),
                 limt=some(drawn, 0.02, [5]), priority=some(drawn, 0.1, [1, 5]))
    listed = drawn.choice(['whitelist', 'blacklist'])
    draws = [
        lambda: call('POST', '/rules', rule),
        lambda: call('PUT', f'/rules/{rule_id}', rule),
        lambda: call('PATCH', f'/rules/{rule_id}', {drawn.choice(['limit', 'window', 'burst', 'nothing']): drawn.choice([5, '1m', None])}),
        lambda: call('DELETE', f'/rules/{rule_id}'),
        lambda: call('GET', drawn.choice(['/rules', f'/rules/{rule_id}', '/rules?limit=2', '/rules?tenant=acme', '/rules?bad=1'])),
        lambda: call('POST', f'/{listed}', {**subject, **given(reason=some(drawn, 0.5, ['scraping']), expires_at=some(drawn, 0.2, ['2030-01-01T00:00:00Z', 'never']))}),
        lambda: call('DELETE', f'/{listed}{query}'),
        lambda: call('GET', f'/{listed}'),
        lambda: call('PUT', '/tiers', {'tiers': [{'tier': name, **({'default': True} if at == 0 else {})} for at, name in enumerate(drawn.sample(['free', 'pro', 'gold'], drawn.randrange(4)))]}),
        lambda: call('GET', '/tiers'),
        lambda: call('PUT', '/clients', {**subject, 'tier': drawn.choice(['free', 'pro', 'nope'])}),
        lambda: call('GET', '/clients'),
        lambda: call('PUT', '/overrides', {**subject, 'rule_id': rule_id, **given(limit=some(drawn, 0.8, [5, 50]), reason=some(drawn, 0.5, ['asked nicely']))}),
        lambda: call('GET', '/overrides'),
        lambda: call('GET', f'/users/user{drawn.randrange(4)}/limits'),
        lambda: call('PUT', f'/users/user{drawn.randrange(4)}/tier', {'tier': drawn.choice(['free', 'pro'])}),
        lambda: call('DELETE', f'/users/user{drawn.randrange(4)}/tier'),
        lambda: call('POST', '/api-keys', {'key': f'made-up-key-{number}', 'owner': drawn.choice(USERS[:3])}),
        lambda: call('GET', drawn.choice(['/bans', '/policy', '/stats', '/top', '/unknown', '/rate-limits/status'])),
    ]
    return drawn.choice(draws)()


@dataclass
class Entry:
    """An entry point: how requests are drawn, and who sends them."""

    draw: Callable
    sender: Callable
    # How many checks a request has.
    checks: int = 1


def plain_user(number):
    return f'plain{number % PLAIN_CLIENTS}'


def plain_address(number):
    return f'198.51.100.{number % PLAIN_CLIENTS}'


def plain_check(number):
    return {'identifiers': {'user_id': plain_user(number)}, 'endpoint': '/orders', 'method': 'GET', 'detail': False}


def plain(path, body):
    return {'method': 'POST', 'path': CHECK + path, 'headers': [JSON], 'body': json.dumps(body)}


PLAIN_BATCH = 100
# As many as there are requests to warm up, so that their counters exist.
PLAIN_CLIENTS = 200
# One valid request of each entry point, to which one rule of `plain.yaml` applies: what most requests are like.
PLAIN = {
    'http/check': Entry(lambda _, number: plain('check', plain_check(number)), lambda world: Http(world.checks['http'])),
    'http/batch_check': Entry(
        lambda _, number: plain('check/batch', {'checks': [{'rule_id': 'per_user', 'key_type': 'user', 'key_value': plain_user(number + one)} for one in range(PLAIN_BATCH)]}),
        lambda world: Http(world.checks['http']), PLAIN_BATCH),
    'grpc/check': Entry(
        lambda _, number: {'call': 'tollgate.v1.RateLimiter/CheckRateLimit', 'message': plain_check(number)},
        lambda world: Grpc(world.checks['grpc'], world.definitions)),
    'grpc/envoy': Entry(
        lambda _, number: {'call': 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
                           'message': {'domain': 'shop', 'descriptors': [{'entries': [{'key': 'remote_address', 'value': plain_address(number)}]}]}},
        lambda world: Grpc(world.checks['grpc'], world.definitions)),
    'gateway': Entry(
        lambda _, number: {'method': 'GET', 'path': '/orders', 'headers': [('X-Forwarded-For', plain_address(number))]},
        lambda world: Http(world.checks['gateway'])),
}

ENTRIES = {
    'check': Entry(draw_check, lambda world: Http(world.checks['http'])),
    'batch': Entry(draw_batch, lambda world: Http(world.checks['http'])),
    'grpc': Entry(draw_grpc, lambda world: Grpc(world.checks['grpc'], world.definitions)),
    'envoy': Entry(draw_envoy, lambda world: Grpc(world.checks['grpc'], world.definitions)),
    'json': Entry(draw_json, lambda world: Http(world.checks['http'])),
    'authorize': Entry(draw_authorize, lambda world: Http(world.checks['http'])),
    'gateway': Entry(draw_gateway, lambda world: Http(world.checks['gateway'])),
    'admin': Entry(draw_admin, lambda world: Http(world.catalog['http'])),
}
