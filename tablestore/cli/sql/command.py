"""The shell, the scripts that the options name, or a server for clients of Arrow Flight SQL."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

import tablestore as ts
from tablestore.cli.places import cache_folder
from tablestore.cli.running import INTERRUPTED, REFUSED, asked_to_stop, require_port
from tablestore.cli.sql.output import WRITERS, CountedStream, Writer, as_text
from tablestore.cli.sql.shell import Shell
from tablestore.io.fileio import LocalFileIO
from tablestore.io.private_file import write_private
from tablestore.sql import Session
from tablestore.sql.flight.server import FlightSqlServer
from tablestore.sql.settings import SETTINGS


def main(asked: argparse.Namespace) -> int:
    """Run the shell or the script; 0, or 1 at the first error, 2 where nothing can be served, 130 after
    Ctrl-C."""
    try:
        if asked.serve:
            return serve(lake_of(asked), port=asked.port or 0, roots=asked.roots or [], writes=asked.write)
        session = session_of(asked)
        for path in asked.init:
            for _ in session.script(read(path)):
                pass
        texts = list(scripts(asked))
        if not texts and sys.stdin.isatty():
            return Shell(session).run()
        write = WRITERS.get(asked.format, as_text)
        for text in texts or [sys.stdin.read()]:
            run(session, text, write)
        await_jobs(session)
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ts.TablestoreError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return REFUSED if asked.serve else 1
    return 0


def session_of(asked: argparse.Namespace) -> Session:
    """A session as the command line asks for it."""
    if asked.option and asked.lake is None:
        raise ts.InvalidRequest("--option says how to reach a warehouse: name one")
    lake = None if asked.lake is None else lake_of(asked)
    session = ts.sql_session(lake, roots=asked.roots)
    if asked.engine != SETTINGS["execution.engine"].default:
        session.settings.set("execution.engine", asked.engine)
    return session


def lake_of(asked: argparse.Namespace) -> ts.Lake:
    """The lake that the command line names. Raises NotFound where it is not there."""
    lake = ts.connect(asked.lake, **dict(asked.option))
    if not asked.create:
        lake.require_there("--create makes an empty one")
    return lake


def scripts(asked: argparse.Namespace) -> Iterator[str]:
    """The texts of -f and -e, in this order."""
    if asked.file is not None:
        yield read(asked.file)
    if asked.execute is not None:
        yield asked.execute


def read(path: str) -> str:
    """The text of a script."""
    return Path(path).read_text(encoding="utf-8-sig")


def await_jobs(session: Session) -> None:
    """Wait for the jobs that a script started; Ctrl-C stops them behind their batch. Raises what one failed
    with."""
    running = session.jobs.running()
    if running:
        print(f"jobs run until they end: {', '.join(running)}; Ctrl-C stops them", file=sys.stderr)
    try:
        session.jobs.wait()
    except KeyboardInterrupt:
        session.jobs.stop_all()
        print(f"stopped: {', '.join(running)}", file=sys.stderr)
        raise


def run(session: Session, text: str, write: Writer) -> None:
    """Run a script and print what its statements give; raises at the first error. Ctrl-C ends it, of a stream
    with what came so far."""
    for result in session.script(text):
        stream = CountedStream(result) if result.streaming else None
        try:
            write(stream or result)
        except KeyboardInterrupt:
            result.stop()
            if stream is not None:
                print(f"stopped: {stream.summary()}", file=sys.stderr)
            raise
        sys.stdout.flush()


TOKEN = "TABLESTORE_SQL_TOKEN"


def serve(lake: ts.Lake, *, port: int, roots: list[str], writes: bool) -> int:
    """Serve until Ctrl-C; the exit code. The first line on stdout is the address, the second names the file
    with the token; TABLESTORE_SQL_TOKEN in the environment is the token instead. Raises InvalidRequest for
    a port that is taken, MissingPackage."""
    require_port(port)
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
