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
    with asked_to_stop(screen, "ending; Ctrl-C again cuts off what is being fetched") as asked:
        server = FlightSqlServer(lake, port=port, token=given, roots=roots, writes=writes)
        path = cache_folder() / f"sql-{server.address.rpartition(':')[2]}.token"
        try:
            print(server.address, flush=True)
            if given is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_private(LocalFileIO(), str(path), server.token.encode(), below=str(path.parent))
                print(f"token in {path}", flush=True)
            asked.wait()
        finally:
            if given is None:
                path.unlink(missing_ok=True)
            _close(server)
    return INTERRUPTED


def _close(server: FlightSqlServer) -> None:
    """End a server; a second Ctrl-C ends the process."""
    try:
        server.close()
    except KeyboardInterrupt:  # the end of Python, too, would wait for a client that reads no further
        os._exit(INTERRUPTED)
