"""Records what a Tollgate binary answers to invented requests, and compares another binary with the record.

    scripts/replay/run record BINARY FILE [--requests N]
    scripts/replay/run compare FILE BINARY
    scripts/replay/run instructions BINARY [--requests N] [--plain] [--bare BENCH]

A change of the code that should not change behaviour is recorded before and compared after it. Requests are
drawn from a fixed seed, N for every entry point. Times, ids of decisions and secrets are masked. Intended
changes are listed in changes.txt, which is applied to the record before the comparison. `instructions` counts
what the binary executes for the same requests (valgrind has to be installed), where times would be noise;
with `--plain`, for one valid request of each entry point, and with `--bare` beside handlers of the benchmark
that check nothing.
"""

import argparse
import base64
import difflib
import gzip
import json
import random
import re
import sys
from pathlib import Path

from instructions import instructions
from requests_of import ENTRIES
from world import World

HERE = Path(__file__).parent
SHOWN_DIFFERENCES = 20

MASKS = [
    (r'\bd[0-9a-f]{8}-[a-z][0-9a-f]+', 'DECISION'),
    (r'\btg_[0-9a-f]{12}_[0-9a-f]{64}', 'TOKEN'),
    (r'\btk_[0-9a-f]{12}_[0-9a-f]{64}', 'KEY'),
    (r'("(?:token|key)_id":")[0-9a-f]{12}', r'\1ID'),
    (r'\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z', 'TIME'),
    (r'\b1[78]\d{8}(?:\d{3}|\d{6})?\b', 'TIME'),
    (r'(?i)("?(?:retry_after|retry_ms|reset_after|window_reset_ms|reset_ms|next_ms|full_ms|delay_ms|age)"?: ?)"?\d+s?"?', r'\1N'),
    (r'(?im)^((?:retry-after|x-ratelimit-reset|ratelimit-reset|age): )\d+', r'\1N'),
    (r'("(?:duration_until_reset|durationUntilReset|uptime_seconds)": ?)"?[\d.]+s?"?', r'\1N'),
    (r'("key": ?"retry-after", ?"value": ?)"\d+"', r'\1N'),
    (r'("kind":"(?:api_key|token)","entry":")[0-9a-f]{12}', r'\1ID'),
    (r'(?m)^(date: ).*', r'\1DATE'),
    # The server limits its own admin API, by limits that drain.
    (r'(x-ratelimit-remaining: |"admin_(?:reads|writes)";r=)99\d{5}', r'\1N'),
    (r';t=\d+', ';t=N'),
    (r'(in|after) \d[\d ]*(?:ms|s|min|h|d|days?|hours?)(?: \d+ (?:ms|s|min|h|d))*', r'\1 A WHILE'),
    (r'127\.0\.0\.1:\d{4,5}', 'ADDRESS'),
    (r'"(?:etag|epoch)":"?[0-9a-f-]+"?', '"EPOCH"'),
    (r'(?m)^(etag: ).*', r'\1ETAG'),
]


def unpacked(match):
    return match[1] + base64.b64decode(match[2]).decode()


def masked(text):
    # Its length changes with the digits of what is masked: the rest of a day has four digits in the evening.
    if re.search('"uptime_seconds"|"created_at":|"durationUntilReset"|_ms":', text):
        text = re.sub(r'(?m)^content-length: .*', 'content-length: N', text)
    # Envoy's messages carry bodies in base64.
    text = re.sub(r'("raw_?[bB]ody": ?")([A-Za-z0-9+/=]+)', unpacked, text)
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


def changes():
    """Intended changes: an entry point (or *), a pattern and its replacement, divided by tabs."""
    found = []
    for line in (HERE / 'changes.txt').read_text().splitlines():
        if line and not line.startswith('#'):
            entry, pattern, replacement = line.split('\t')
            found.append((entry, re.compile(pattern), replacement))
    return found


def record(binary, file, count):
    with World(binary) as world, gzip.open(file, 'wt') as out:
        for name, entry in ENTRIES.items():
            drawn = random.Random(f'tollgate {name}')
            sender = entry.sender(world)
            for number in range(count):
                request = entry.draw(drawn, number)
                response = masked(sender.send(request))
                line = {'entry': name, 'request': request, 'response': response}
                out.write(json.dumps(line) + '\n')
            print(f'{name}: {count} requests recorded', flush=True)


def compare(file, binary):
    intended = changes()
    asked, different, senders = {}, {}, {}
    with World(binary) as world, gzip.open(file, 'rt') as lines:
        for line in map(json.loads, lines):
            name = line['entry']
            if name not in senders:
                senders[name] = ENTRIES[name].sender(world)
            expected = line['response']
            for entry, pattern, replacement in intended:
                if entry in ('*', name):
                    expected = pattern.sub(replacement, expected)
            found = masked(senders[name].send(line['request']))
            asked[name] = asked.get(name, 0) + 1
            if found != expected:
                different[name] = different.get(name, 0) + 1
                if different[name] <= SHOWN_DIFFERENCES:
                    show(name, asked[name], line['request'], expected, found)
    for name, count in asked.items():
        print(f'{name}: {count} requests, {different.get(name, 0)} different')
    return 1 if different or not asked else 0


def show(name, number, request, expected, found):
    print(f'--- {name}, request {number}: {json.dumps(request)[:1000]}')
    for line in difflib.unified_diff(expected.splitlines(), found.splitlines(), 'recorded', 'now', lineterm='', n=0):
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    recording = commands.add_parser('record')
    recording.add_argument('binary')
    recording.add_argument('file')
    recording.add_argument('--requests', type=int, default=10_000, help='for every entry point')
    comparing = commands.add_parser('compare')
    comparing.add_argument('file')
    comparing.add_argument('binary')
    counting = commands.add_parser('instructions')
    counting.add_argument('binary')
    counting.add_argument('--requests', type=int, default=2_000, help='for every entry point')
    counting.add_argument('--plain', action='store_true', help='one valid request of each entry point')
    counting.add_argument('--bare', metavar='BENCH', help='the binary of the benchmark, whose bare handlers are counted too')
    arguments = parser.parse_args()
    if arguments.command == 'instructions':
        instructions(arguments.binary, arguments.requests, arguments.plain, arguments.bare)
        return 0
    if arguments.command == 'record':
        record(arguments.binary, arguments.file, arguments.requests)
        return 0
    return compare(arguments.file, arguments.binary)


if __name__ == '__main__':
    sys.exit(main())
