"""A process that writes commits 1 to N of one stream to a table with a log; started again after a kill it
goes on. `python -m tests.servers.kafka_writer WAREHOUSE TABLE USER SLOT COMMITS`."""

from __future__ import annotations

import faulthandler
import random
import sys
import time

import tablestore as ts
from tablestore.core.errors import CommitConflict, CommitUnknown, Unavailable
from tablestore.table.table import Table

PAUSE = 0.01


def rows(user: int, number: int) -> list[dict[str, int]]:
    """The rows of a commit: of a keyed table updates of a few keys of the stream's own."""
    return [{"k": 100 * user + (3 * number + i) % 7, "v": number} for i in range(4)]


def opened(warehouse: str, name: str, slot: str) -> Table:
    table = ts.connect(warehouse).table(name)
    return table.with_options({"tablestore.log.writer-slot": slot})


def main(warehouse: str, name: str, user: str, slot: str, commits: str) -> None:
    faulthandler.dump_traceback_later(30, repeat=True)  # where it waits, if it does
    over = time.monotonic() + 200
    table = None
    while time.monotonic() < over:
        try:
            table = table or opened(warehouse, name, slot)
            position = table.refresh().position(f"writer-{user}")
            number = position[0] + 1 if position else 1
            if number > int(commits):
                return
            table.write(rows(int(user), number), user=f"writer-{user}", identifier=number)
        except (CommitConflict, CommitUnknown, Unavailable) as e:
            print(f"{user}: again after {e}", flush=True)
            table = None
            time.sleep(random.random() * 20 * PAUSE)
        time.sleep(PAUSE)
    raise SystemExit("it does not end")


if __name__ == "__main__":
    main(*sys.argv[1:])
