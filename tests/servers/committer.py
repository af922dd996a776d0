"""A process that commits one row at a time, for races.

`python -m tests.servers.committer OPTIONS TABLE FIRST COUNT`: OPTIONS is the JSON of `connect`'s. It says
"ready", waits for a line, then prints each key once it is committed.
"""

from __future__ import annotations

import json
import sys

import tablestore as ts


def main(options: str, name: str, first: str, count: str) -> None:
    table = ts.connect(**json.loads(options)).table(name)
    print("ready", flush=True)
    sys.stdin.readline()
    for k in range(int(first), int(first) + int(count)):
        table.write([{"k": k, "v": "x"}])
        print(k, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
