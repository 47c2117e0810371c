"""Counts the instructions that a binary executes for a request of every entry point, with callgrind."""

import random
import re
import subprocess
import tempfile
import time
from pathlib import Path

from requests_of import ENTRIES, PLAIN
from world import Bare, World

WARM_UP = 200
IDLE_SECONDS = 3
# Handlers of the benchmark that respond to the same requests and do nothing else.
BARE = {'http/check': 'bare-axum', 'grpc/check': 'bare-tonic', 'grpc/envoy': 'bare-tonic', 'gateway': 'bare-proxy'}


def instructions(binary, count, is_plain, bench):
    with tempfile.TemporaryDirectory() as folder:
        dumps = Path(folder)
        # One file for each process: the server for checks, and the one with a catalog.
        launcher = ['valgrind', '--tool=callgrind', f'--callgrind-out-file={dumps}/%p', '--']
        with World(binary, launcher, 'plain.yaml' if is_plain else 'policy.yaml') as world:
            for name, entry in (PLAIN if is_plain else ENTRIES).items():
                process = world.processes[1 if name == 'admin' else 0].pid
                ours = counted(name, entry, world, process, count, dumps)
                line = f'{name}: {ours} instructions a check'
                if bench and name in BARE:
                    with Bare(bench, BARE[name], world) as bare:
                        theirs = counted(name, entry, bare, bare.process.pid, count, dumps)
                    line += f', {theirs} of a handler that checks nothing: {ours / theirs:.2f}x'
                print(line, flush=True)


def counted(name, entry, world, process, count, dumps):
    drawn = random.Random(f'tollgate {name}')
    sender = entry.sender(world)
    for number in range(WARM_UP):
        response = sender.send(entry.draw(drawn, number))
        if isinstance(world, Bare) and not is_success(response):
            raise SystemExit(f'{name}: the handler that checks nothing responds with {response}')
    taken(process, dumps)
    began = time.monotonic()
    for number in range(WARM_UP, WARM_UP + count):
        sender.send(entry.draw(drawn, number))
    ended = time.monotonic()
    total = taken(process, dumps)
    # What the process does by itself, such as removing expired counters, is no part of a request.
    idle_from = time.monotonic()
    time.sleep(IDLE_SECONDS)
    idle = taken(process, dumps) * (ended - began) / (time.monotonic() - idle_from)
    return int(total - idle) // (count * entry.checks)


def is_success(response):
    """Failures over gRPC are lists."""
    return response.startswith(('200', '{'))


def taken(process, dumps):
    """The instructions since the last call: a dump sets the counts to zero."""
    before = set(dumps.iterdir())
    subprocess.run(['callgrind_control', '-d', str(process)], check=True, stdout=subprocess.DEVNULL)
    new = max(set(dumps.iterdir()) - before, key=lambda file: file.stat().st_mtime)
    return int(re.search(r'^(?:totals|summary): (\d+)', new.read_text(), re.MULTILINE)[1])
