"""`sql LAKE --serve`: the lake's tables for clients of Arrow Flight SQL, until Ctrl-C.

The first line on stdout is the address, the second names the file with the token. TABLESTORE_SQL_TOKEN in the
environment is the token instead.
"""

from __future__ import annotations

import os

from rich.console import Console

import tablestore as ts
from tablestore.cli.places import cache_folder
from tablestore.cli.running import INTERRUPTED, asked_to_stop
from tablestore.io.fileio import LocalFileIO
from tablestore.io.private_file import write_private
from tablestore.sql.flight.server import FlightSqlServer

TOKEN = "TABLESTORE_SQL_TOKEN"


def serve(lake: ts.Lake, *, port: int, roots: list[str], writes: bool) -> int:
    """Serve until Ctrl-C; the exit code. Raises InvalidRequest for a port that is taken, MissingPackage."""
    given = os.environ.get(TOKEN)
    screen = Console(stderr=True)
    with (
        FlightSqlServer(lake, port=port, token=given, roots=roots, writes=writes) as server,
        asked_to_stop(screen, "ending") as asked,
    ):
        print(server.address, flush=True)
        if given is None:
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"sql-{server.address.rpartition(':')[2]}.token"
            write_private(LocalFileIO(), str(path), server.token.encode(), below=str(folder))
            print(f"token in {path}", flush=True)
        try:
            asked.wait()
        finally:
            if given is None:
                path.unlink(missing_ok=True)
    return INTERRUPTED
