"""`sql`: statements over a lake: a shell, or a script from -e, -f or standard input.

A script stops at its first error, which goes to standard error; the exit code is then 1. It waits for the
jobs that it started.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import tablestore as ts
from notebooks.cli.lake_verbs import INTERRUPTED, add_warehouse_options
from notebooks.cli.sql_output import WRITERS, Writer, as_text
from notebooks.cli.sql_shell import Shell
from notebooks.cli.sql_stream import CountedStream
from notebooks.demo import sql_connectors
from tablestore.sql import Session
from tablestore.sql.settings import SETTINGS


def main(arguments: list[str]) -> int:
    """Run the shell or the script; 0, or 1 at the first error, 130 after Ctrl-C."""
    asked = parser().parse_args(arguments)
    sql_connectors.provide()
    try:
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
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = argparse.ArgumentParser(prog="workbench sql", description=__doc__.partition("\n")[0])
    p.add_argument("lake", nargs="?", help="a warehouse, the catalog `lake`; others come by CREATE CATALOG")
    add_warehouse_options(p)
    p.add_argument(
        "-i", "--init", action="append", default=[], metavar="FILE.sql", help="run first; prints nothing"
    )
    p.add_argument("-f", "--file", metavar="FILE.sql", help="run the script")
    p.add_argument("-e", "--execute", metavar="SQL", help="run these statements")
    engines = SETTINGS["execution.engine"].values
    p.add_argument("--engine", choices=engines, default=engines[0], help="who computes a SELECT")
    p.add_argument(
        "--roots",
        action="append",
        metavar="DIRECTORY",
        help="confine the statements: beside tables they reach what lies in here only",
    )
    p.add_argument("--create", action="store_true", help="make the warehouse where there is none")
    p.set_defaults(format="text")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--json", dest="format", action="store_const", const="json", help="an object a row")
    form.add_argument("--csv", dest="format", action="store_const", const="csv", help="values with commas")
    return p


def session_of(asked: argparse.Namespace) -> Session:
    """A session as the command line asks for it."""
    if asked.option and asked.lake is None:
        raise ts.InvalidRequest("--option says how to reach a warehouse: name one")
    lake = None if asked.lake is None else ts.connect(asked.lake, **dict(asked.option))
    if lake is not None and not asked.create:
        lake.require_there("--create makes an empty one")
    session = ts.sql_session(lake, roots=asked.roots)
    if asked.engine != SETTINGS["execution.engine"].default:
        session.settings.set("execution.engine", asked.engine)
    return session


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
