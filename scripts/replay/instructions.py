"""Counts the instructions that a binary executes for a request of every entry point, with callgrind."""

import random
import re
import subprocess
import tempfile
from pathlib import Path

from requests_of import ENTRIES, PLAIN
from world import World

WARM_UP = 200


def instructions(binary, count, is_plain):
    with tempfile.TemporaryDirectory() as folder:
        dumps = Path(folder)
        # One file for each process: the server for checks, and the one with a catalog.
        launcher = ['valgrind', '--tool=callgrind', f'--callgrind-out-file={dumps}/%p', '--']
        with World(binary, launcher) as world:
            for name, entry in (PLAIN if is_plain else ENTRIES).items():
                process = world.processes[1 if name == 'admin' else 0].pid
                drawn = random.Random(f'tollgate {name}')
                sender = entry.sender(world)
                for number in range(WARM_UP):
                    sender.send(entry.draw(drawn, number))
                taken(process, dumps)
                for number in range(WARM_UP, WARM_UP + count):
                    sender.send(entry.draw(drawn, number))
                print(f'{name}: {taken(process, dumps) // (count * entry.checks)} instructions a check', flush=True)


def taken(process, dumps):
    """The instructions since the last call: a dump sets the counts to zero."""
    before = set(dumps.iterdir())
    subprocess.run(['callgrind_control', '-d', str(process)], check=True, stdout=subprocess.DEVNULL)
    new = max(set(dumps.iterdir()) - before, key=lambda file: file.stat().st_mtime)
    return int(re.search(r'^(?:totals|summary): (\d+)', new.read_text(), re.MULTILINE)[1])
