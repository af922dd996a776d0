"""A real JupyterLab for tests: one server and one page for many notebooks, every wait with a limit.

The server lives in a process group and a folder of its own (HOME, Jupyter's and IPython's directories) and is
always ended with its kernels. A notebook counts as open when its session is connected, its kernel idle and
its cells are in the page; asking the page's indicators alone is a race. `Notebook.check` holds a notebook to
its word: no failed cell, no complaint in the console, no request or socket but to the server itself.

WORKBENCH_JUPYTER may name the Python of another environment, whose JupyterLab (and jupyterlab_widgets,
anywidget) is used then; kernels stay those of this one.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

from notebooks.cli.lab import jupyter_path
from notebooks.cli.places import ROOT
from notebooks.demo.ports import free_port
from tablestore.cli.open.kernel import QUIET, install_kernel

if TYPE_CHECKING:
    from playwright import sync_api as playwright

START_SECONDS, OPEN_SECONDS, RUN_SECONDS, ASK_SECONDS = 180, 180, 600, 120
# JupyterLab's debugger asks a kernel that is being restarted.
NOISE = ("Could not restore the debugger state",)
VIEWPORT = {"width": 1500, "height": 1700}
DARK, LIGHT = "JupyterLab Dark", "JupyterLab Light"

# In the page: `panel(path)` is the open document, `within` ends what takes too long.
_HELPERS = """
window.lwLab = {
  panel: (path) => [...jupyterapp.shell.widgets("main")].find((w) => w.context && w.context.path === path),
  within: (work, seconds, what) => Promise.race([work, new Promise((_, no) =>
    setTimeout(() => no(new Error(what + " took more than " + seconds + " s")), seconds * 1000))]),
  async open(path) {
    const p = await jupyterapp.commands.execute("docmanager:open", { path });
    await p.context.ready; await p.sessionContext.ready; await p.revealed;
    const idle = () => { const k = p.sessionContext.session && p.sessionContext.session.kernel;
      return k && k.status === "idle" && k.connectionStatus === "connected" ? k : null; };
    while (!idle()) await new Promise((go) => setTimeout(go, 25));
    await idle().info;
    while (!p.node.querySelector(".jp-Cell")) await new Promise((go) => setTimeout(go, 25));
  },
  async run(path) {
    const p = this.panel(path);
    jupyterapp.shell.activateById(p.id);
    await jupyterapp.commands.execute("notebook:run-all-cells");
    const k = p.sessionContext.session.kernel;
    while (k.status !== "idle") await new Promise((go) => setTimeout(go, 25));
    await this.shown(path);
  },
  async shown(path) {
    const p = this.panel(path);
    const views = [...p.content.widgets].flatMap((c) => c.model.outputs ? c.model.outputs.toJSON() : [])
      .filter((o) => o.data && o.data["application/vnd.jupyter.widget-view+json"]).length;
    const there = () => p.node.querySelectorAll(".jp-OutputArea-output .jupyter-widgets > *").length;
    const until = Date.now() + 5000;
    while (there() < views && Date.now() < until) await new Promise((go) => setTimeout(go, 25));
  },
  async ask(path, code) {
    const k = this.panel(path).sessionContext.session.kernel;
    const reply = await k.requestExecute({ code: "", silent: true, store_history: false, stop_on_error: false,
      user_expressions: { value: code } }).done;
    return reply.content.user_expressions ? reply.content.user_expressions.value : reply.content;
  },
  async restart(path) {
    const p = this.panel(path);
    await p.sessionContext.restartKernel();
    while (p.sessionContext.session.kernel.status !== "idle") await new Promise((go) => setTimeout(go, 25));
  },
  cells(path) { return this.panel(path).content.model.toJSON().cells; },
  async close(path) {
    const p = this.panel(path);
    if (!p) return;
    await p.context.save();
    await p.sessionContext.shutdown();
    p.dispose();
  },
};
"""


class LabServer:
    """A JupyterLab server under `folder`; notebooks lie in `folder/notebooks`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "notebooks"
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.log = folder / "server.log"
        self._process = self._start(folder)
        self._wait()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        settings = folder / "app-settings"
        install_kernel(folder / "share", python=sys.executable, name="python3")
        for folder_made in (self.root, settings, folder / "home"):
            folder_made.mkdir(parents=True)
        (settings / "overrides.json").write_text(json.dumps(QUIET))
        command = [
            os.environ.get("WORKBENCH_JUPYTER", sys.executable),
            "-m",
            "jupyterlab",
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={self.port}",
        ]
        command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}", "--allow-root"]
        command += [f"--ServerApp.root_dir={self.root}", f"--LabApp.app_settings_dir={settings}"]
        command += ["--LabApp.news_url=None", "--LabApp.extension_manager=readonly", "--log-level=WARN"]
        command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        command += [
            "--LabApp.expose_app_in_browser=True",
            "--ServerApp.jpserver_extensions={'jupytext': False}",
        ]
        private = {
            f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")
        }
        private |= {"HOME": str(folder / "home"), "IPYTHONDIR": str(folder / "ipython")}
        private |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "PYTHONPATH": str(ROOT)}
        private |= {
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
            "JUPYTER_PATH": jupyter_path(f"{folder}/share"),
        }
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command, env=os.environ | private, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        asked = urllib.request.Request(f"{self.url}/api/status?token={self.token}")
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), urllib.request.urlopen(asked, timeout=5):
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the server with everything it started."""
        for how, seconds in ((signal.SIGTERM, 8), (signal.SIGKILL, 8)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):  # kernels that outlived the server
            os.killpg(self._process.pid, signal.SIGKILL)


class Lab:
    """JupyterLab in a page; notebooks are opened and closed in it one after another."""

    def __init__(self, server: LabServer, browser: playwright.Browser) -> None:
        self.server, self.browser = server, browser
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self._opened: list[Notebook] = []
        self._count = 0
        self._context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
        self.page = self._context.new_page()
        self.page.set_default_timeout(OPEN_SECONDS * 1000)
        self._listen()
        self.page.add_init_script(_HELPERS)
        self.page.goto(f"{server.url}/lab?reset&token={server.token}")
        self._restored()
        self.page.set_default_timeout(120_000)

    def _restored(self) -> None:
        self.page.wait_for_function("window.jupyterapp !== undefined")
        self.js("async () => { await jupyterapp.restored; }", what="JupyterLab")

    def _listen(self) -> None:
        page = self.page
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("request", lambda request: self._note_request(request.url))
        page.on("websocket", lambda opened: self._note_request(opened.url))

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith(NOISE):
            self.complaints.append(f"console: {text}")

    def _note_request(self, url: str) -> None:
        allowed = (f"{self.server.url}/", f"ws{self.server.url[4:]}/", "data:", "blob:")
        if not url.startswith(allowed):
            self.strangers.append(url)

    def js(self, function: str, *arguments: object, seconds: float = ASK_SECONDS, what: str = "this") -> Any:
        """What an async JavaScript function of the page gives, within `seconds`."""
        race = "([f, a, s, what]) => Promise.race([eval(f)(...a), new Promise((_, no) => setTimeout(() => no("
        race += "new Error(what + ' took more than ' + s + ' s')), s * 1000))])"
        return self.page.evaluate(race, [f"({function})", list(arguments), seconds, what])

    def open(self, cells: list[str], *, run: bool = True) -> Notebook:
        """A new notebook of these code cells, run to its end unless `run` is False."""
        self._count += 1
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel}
        )
        path = self.server.root / f"test_{self._count}.ipynb"
        path.write_text(nbformat.writes(notebook))
        return self._show(path, run=run)

    def open_file(self, path: Path, *, run: bool = True) -> Notebook:
        """A copy of a notebook that is there already."""
        self._count += 1
        copy = self.server.root / f"{self._count}_{path.name}"
        copy.write_bytes(path.read_bytes())
        return self._show(copy, run=run)

    def _show(self, path: Path, *, run: bool) -> Notebook:
        self.complaints.clear()
        self.strangers.clear()
        notebook = Notebook(self, path.name)
        self._opened.append(notebook)
        self.js("(path) => lwLab.open(path)", path.name, seconds=OPEN_SECONDS, what=f"opening {path.name}")
        self.js("() => jupyterapp.commands.execute('filebrowser:hide-main').catch(() => 0)")
        if run:
            notebook.run_all()
        return notebook

    def theme(self, name: str) -> None:
        """`LIGHT` or `DARK`; returns when the page wears it."""
        self.js("(name) => jupyterapp.commands.execute('apputils:change-theme', { theme: name })", name)
        self.page.locator(f'body[data-jp-theme-light="{"true" if name == LIGHT else "false"}"]').wait_for(
            state="attached"
        )

    def close_notebooks(self) -> None:
        """Close what is open and end its kernels."""
        while self._opened:
            self._opened.pop().close()

    def close(self) -> None:
        """Close the page; left as it is, JupyterLab would hold the browser up."""
        self.page.goto("about:blank")
        self._context.close()


class Notebook:
    """One open notebook and its kernel."""

    def __init__(self, lab: Lab, path: str) -> None:
        self.lab, self.path = lab, path
        self.page = lab.page

    def run_all(self, *, seconds: float = RUN_SECONDS) -> Notebook:
        """Run every cell and wait until the kernel is idle and the widgets stand."""
        self.lab.js("(path) => lwLab.run(path)", self.path, seconds=seconds, what=f"running {self.path}")
        return self

    def restart_and_run_all(self, *, seconds: float = RUN_SECONDS) -> Notebook:
        """A new kernel, then every cell."""
        self.lab.js("(path) => lwLab.restart(path)", self.path, seconds=OPEN_SECONDS, what="restarting")
        return self.run_all(seconds=seconds)

    def kernel(self, expression: str) -> Any:
        """The value of a Python expression in the kernel, through JSON."""
        code = f"__import__('json').dumps({expression}, default=str)"
        reply = self.lab.js("(path, code) => lwLab.ask(path, code)", self.path, code, what=expression)
        if reply.get("status") != "ok":
            raise AssertionError(f"{expression}: {reply.get('ename')}: {reply.get('evalue')}")
        return json.loads(ast.literal_eval(reply["data"]["text/plain"]))

    def expect(self, expression: str, value: object, *, seconds: float = 120) -> None:
        """Wait until the kernel holds `value`: what a click does arrives a moment after it."""
        until = time.monotonic() + seconds
        while (actual := self.kernel(expression)) != value and time.monotonic() < until:
            self.page.wait_for_timeout(30)
        assert actual == value, f"{expression} is {actual!r} in the kernel, not {value!r}"

    def reload(self) -> Notebook:
        """Save, load the whole page anew, and open the notebook again on the kernel that still runs."""
        self.lab.js("(path) => lwLab.panel(path).context.save()", self.path, what="saving")
        self.page.goto(f"{self.lab.server.url}/lab?reset&token={self.lab.server.token}")
        self.lab._restored()
        self.lab.js("(path) => lwLab.open(path)", self.path, seconds=OPEN_SECONDS, what="opening it again")
        self.lab.js("(path) => lwLab.shown(path)", self.path)
        return self

    def cells(self) -> list[dict[str, Any]]:
        """The cells with their outputs."""
        return self.lab.js("(path) => lwLab.cells(path)", self.path)

    def outputs(self) -> list[dict[str, Any]]:
        """All outputs, in order."""
        return [output for cell in self.cells() for output in cell.get("outputs", ())]

    def printed(self) -> str:
        """What the cells printed, in order."""
        texts = (output.get("text", "") for output in self.outputs() if output["output_type"] == "stream")
        return "".join(text if isinstance(text, str) else "".join(text) for text in texts)

    def failures(self) -> list[str]:
        """The errors of cells, each with its cell's first line, and code cells that did not run."""
        collected = []
        for cell in self.cells():
            if cell["cell_type"] != "code" or not "".join(cell["source"]).strip():
                continue
            first = "".join(cell["source"]).strip().splitlines()[0]
            if cell["execution_count"] is None:
                collected.append(f"did not run: {first}")
            errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
            collected += [f"{error['ename']}: {error['evalue']} in: {first}" for error in errors]
        return collected

    def check(self) -> None:
        """No failed cell, no complaint of the page, nothing asked of any other host."""
        actual = [*self.failures(), *self.lab.complaints]
        actual += [f"asked another host: {url}" for url in self.lab.strangers]
        assert not actual, "\n".join(actual)

    def close(self) -> None:
        """Close it and end its kernel."""
        self.lab.js("(path) => lwLab.close(path)", self.path, what=f"closing {self.path}")
