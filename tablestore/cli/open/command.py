"""A table in JupyterLab, as a page or as text, or the tables of a warehouse to choose from.

Names and paths never become code: what goes into the notebook is a Python literal, and options, which may be
secret, reach it by the environment.

JupyterLab shows a notebook that has run already, with a server, a kernel and a private folder of its own, all
removed at the end. The server gets a session for the notebook first, the cells run in that session's kernel,
their outputs are saved through the server, which so trusts them; when JupyterLab opens the notebook it finds
the running kernel and the widgets in it. Invariants: the folder is the user's only (0700), the address
carries a fresh token, the server listens on 127.0.0.1 and is ended with its kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

import tablestore as ts
from tablestore import doors
from tablestore.cli.open.kernel import KERNEL, QUIET, environment, install_kernel
from tablestore.cli.places import NotOpened, location_of, one_line

OPTIONS = "TABLESTORE_OPEN_OPTIONS"
"""The environment variable in which the options go to the kernel."""
START_SECONDS, RUN_SECONDS = 60, 300


def main(asked: argparse.Namespace) -> int:
    """Show the table or list the tables; 0, 1 for what cannot be opened, 2 where a table must be chosen."""
    try:
        options = dict(asked.option)
        path = location_of(asked.path)
        table = table_at(path, options, asked.roots)
        if table is None:
            return listed(path, options, asked.door.program, wanted=asked.text or asked.to is not None)
        return shown(table, asked, options)
    except (NotOpened, ts.TablestoreError, OSError) as error:
        print(f"{asked.door.program} open: {one_line(error)}", file=sys.stderr)
        return 1


def table_at(path: str, options: Mapping[str, str], roots: Sequence[str] = ()) -> ts.Table | None:
    """The table at `path`; None if it is a warehouse or a database."""
    try:
        return ts.open(path, options=options, roots=roots)
    except ts.NotFound:
        if tables_of(path, options):
            return None
        raise


def tables_of(path: str, options: Mapping[str, Any]) -> list[str]:
    """The paths of the tables of a warehouse, or of one of its databases."""
    warehouse, _, last = path.rstrip("/").rpartition("/")
    database = last.removesuffix(".db") if last.endswith(".db") else None
    try:
        lake = ts.connect(warehouse if database else path, **dict(options))
        names = [name for name in lake.tables() if database in (None, name.partition(".")[0])]
        return [lake.table(name).location for name in names]
    except ts.TablestoreError:
        return []


def listed(path: str, options: Mapping[str, str], program: str, *, wanted: bool) -> int:
    """Print the tables; an error if a page or text was wanted, for then one must be chosen."""
    there = tables_of(path, options)
    many = "one table" if len(there) == 1 else f"{len(there)} tables"
    print(f"{path} holds {many}; {'choose' if wanted else 'open'} one:")
    for each in there:
        print(f"  {program} open {shlex.quote(_plain(each))}")
    return 2 if wanted else 0


def _plain(location: str) -> str:
    return location.removeprefix("file://")


def shown(table: ts.Table, asked: argparse.Namespace, options: Mapping[str, str]) -> int:
    """Text, a page, both, or JupyterLab."""
    if not asked.text and asked.to is None:
        os.environ[OPTIONS] = json.dumps(options)
        cells = cells_for(table, with_options=bool(options), roots=asked.roots)
        return show_live(cells, name="workbench.ipynb", browser=not asked.no_browser)
    bench = doors.cockpit_of_table(table)
    if asked.text:
        print(bench.text())
    if asked.to is not None:
        print(bench.to_html(asked.to), file=sys.stderr if asked.text else sys.stdout)
    return 0


def cells_for(table: ts.Table, *, with_options: bool, roots: Sequence[str] = ()) -> list[str]:
    """The cells of the notebook: paths are literals, options are read from the environment."""
    path = repr(_plain(table.location)) + (f", roots={list(roots)!r}" if roots else "")
    if not with_options:
        return [
            f"import tablestore as ts\nimport widgets\n\ntable = ts.open({path})",
            "widgets.Workbench(table)",
        ]
    opening = f'table = ts.open({path}, options=json.loads(os.environ["{OPTIONS}"]))'
    return [
        f"import json\nimport os\n\nimport tablestore as ts\nimport widgets\n\n{opening}",
        "widgets.Workbench(table)",
    ]


def show_live(cells: list[str], *, name: str, browser: bool) -> int:
    """Run `cells` as a notebook, open it, and stay until the server ends or Ctrl-C."""
    folder = Path(tempfile.mkdtemp(prefix="tablestore-open-"))
    server = LiveServer(folder)
    signals = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(each, _interrupted) for each in signals]
    try:
        server.start()
        server.run(name, cells)
        print(server.address(name), flush=True)
        print("Ctrl-C ends it.", file=sys.stderr, flush=True)
        if browser:
            webbrowser.open(server.address(name))
        return server.wait()
    except KeyboardInterrupt:
        return 130
    finally:
        for each in signals:  # a second Ctrl-C must not leave a server behind
            signal.signal(each, signal.SIG_IGN)
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
        for each, before in zip(signals, previous, strict=True):
            signal.signal(each, before)


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


class LiveServer:
    """One JupyterLab for one notebook. Not thread-safe; callers serialise."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._token = folder, secrets.token_hex(24)
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, name: str) -> str:
        """Where the notebook is."""
        return f"http://127.0.0.1:{self._port}/lab/tree/{name}?token={self._token}"

    def start(self) -> None:
        """Start the server and wait until it answers; raises OSError with what it said."""
        for folder in ("notebooks", "runtime", "settings", "data"):
            (self._folder / folder).mkdir()
        (self._folder / "settings" / "overrides.json").write_text(json.dumps(QUIET))
        install_kernel(self._folder / "data", python=sys.executable)
        log = self._folder / "server.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command(), env=self._environment(), stdout=out, stderr=out, start_new_session=True
            )
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                self._ask("GET", "status")
                return
            time.sleep(0.05)
        raise OSError(f"JupyterLab did not start: {log.read_text(errors='replace')[-500:]}")

    def _command(self) -> list[str]:
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--ip=127.0.0.1",
            f"--port={self._port}",
            "--no-browser",
        ]
        command += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={self._folder / 'notebooks'}"]
        command += [f"--LabApp.app_settings_dir={self._folder / 'settings'}", "--log-level=WARN"]
        command += ["--LabApp.news_url=None", "--LabApp.extension_manager=readonly"]
        command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        return command + ["--allow-root"] * (os.geteuid() == 0)

    def _environment(self) -> dict[str, str]:
        own = environment() | {
            "JUPYTER_RUNTIME_DIR": str(self._folder / "runtime"),
            "JUPYTER_TOKEN": self._token,
        }
        return os.environ | own | {"JUPYTER_DATA_DIR": str(self._folder / "data")}

    def run(self, name: str, cells: list[str]) -> None:
        """Run the cells in the kernel of the notebook's session and save it with their outputs."""
        self._save(name, [_cell(source) for source in cells])
        asked = {"path": name, "name": name, "type": "notebook", "kernel": {"name": KERNEL}}
        session = self._ask("POST", "sessions", asked)
        done = _executed(self._folder / "runtime" / f"kernel-{session['kernel']['id']}.json", cells)
        self._save(name, done)

    def _save(self, name: str, cells: list[dict[str, Any]]) -> None:
        kernel = {"name": KERNEL, "display_name": "Tablestore workbench", "language": "python"}
        notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        self._ask("PUT", f"contents/{name}", {"type": "notebook", "format": "json", "content": notebook})

    def _ask(self, method: str, what: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/{what}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"token {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def wait(self) -> int:
        """Stay until the server is shut down."""
        return self._process.wait() if self._process is not None else 0

    def stop(self) -> None:
        """End the server with its kernels."""
        if self._process is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(8)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _cell(
    source: str, count: int | None = None, outputs: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": f"cell-{secrets.token_hex(4)}",
        "metadata": {"trusted": True},
        "source": source,
        "execution_count": count,
        "outputs": outputs or [],
    }


def _executed(connection: Path, cells: list[str]) -> list[dict[str, Any]]:
    """The cells with their outputs, run one after another in the kernel; an error is an output too."""
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine misses heartbeats
    try:
        client.wait_for_ready(timeout=START_SECONDS)
        done = []
        for source in cells:
            outputs: list[dict[str, Any]] = []
            reply = client.execute_interactive(
                source, timeout=RUN_SECONDS, output_hook=lambda message, to=outputs: _keep(message, to)
            )
            done.append(_cell(source, reply["content"]["execution_count"], outputs))
        return done
    except RuntimeError as error:
        raise OSError(f"the kernel did not run the notebook: {error}") from None
    finally:
        client.stop_channels()


def _keep(message: dict[str, Any], outputs: list[dict[str, Any]]) -> None:
    """A message of the kernel as an output of a notebook."""
    kind, content = message["header"]["msg_type"], message["content"]
    fields = {
        "stream": ("name", "text"),
        "display_data": ("data", "metadata"),
        "execute_result": ("data", "metadata", "execution_count"),
        "error": ("ename", "evalue", "traceback"),
    }
    if kind in fields:
        outputs.append({"output_type": kind, **{field: content[field] for field in fields[kind]}})
