"""`lab`: JupyterLab on 127.0.0.1 with a token, the first notebook open, the environment's own kernel.

Notebooks in any directory find `tablestore`, `widgets` and `datasets`. What it writes lies under the
environment's `share/jupyter`. Other arguments go to JupyterLab.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from notebooks.cli.places import CHECKOUT, EXTENSION, NOTEBOOKS, ROOT
from tablestore.cli.door import command_parser
from tablestore.cli.open.kernel import KERNEL, QUIET, environment, install_kernel

FIRST = ("00_start_here.ipynb", "01_tpch_cdc_ingest.ipynb")


def main(arguments: list[str]) -> int:
    parser = command_parser("lab", __doc__ or "", CHECKOUT)
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument("--port", type=int, default=8888, help="the first port tried (default 8888)")
    options, rest = parser.parse_known_args(arguments)
    share = Path(sys.prefix) / "share" / "jupyter"
    install_kernel(share, python=sys.executable)
    write_settings(share)
    command = lab_command(port=options.port, browser=not options.no_browser, root=os.geteuid() == 0)
    os.environ.update(lab_environment(os.environ.get("PYTHONPATH", "")))
    os.execv(sys.executable, [*command, *rest])


def jupyter_path(given: str) -> str:
    """Where Jupyter looks first: the folder with our extension, then what is `given`."""
    return os.pathsep.join([os.fspath(EXTENSION), *([given] if given else [])])


def write_settings(share: Path) -> None:
    """No news, no update checks, no toast over the notebook; settings of others in the file are kept."""
    path = share / "lab" / "settings" / "overrides.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(kept | QUIET, indent=1))


def lab_command(*, port: int, browser: bool, root: bool) -> list[str]:
    """The command line. The server keeps its own default of a fresh token a start."""
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--port={port}"]
    command += [
        f"--ServerApp.root_dir={NOTEBOOKS}",
        f"--MultiKernelManager.default_kernel_name={KERNEL}",
        "--log-level=WARN",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    command += [f"--ContentsManager.hide_globs={name}" for name in unlisted()]
    present = [name for name in FIRST if (NOTEBOOKS / name).exists()]
    if present:
        command.append(f"--LabApp.default_url=/lab/tree/{present[0]}")
    return command + ["--no-browser"] * (not browser) + ["--allow-root"] * root


def unlisted() -> list[str]:
    """Names that the lab's list of files leaves out: Jupyter's own, folders of code, and the scripts that
    are twins of notebooks. They open by their paths as ever."""
    code = {path.parent.relative_to(NOTEBOOKS).parts[0] for path in NOTEBOOKS.glob("*/*.py")}
    twins = {path.with_suffix(".py").name for path in NOTEBOOKS.glob("*.ipynb")}
    jupyters = ("__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~")
    return [*jupyters, "jupytext.toml", "_executed", *sorted(code), *sorted(twins)]


def lab_environment(pythonpath: str) -> dict[str, str]:
    """What the server needs: our extension, which is not installed in a checkout, and for its kernels the
    checkout on the path and the environment's own kernels first."""
    paths = [os.fspath(ROOT), *([pythonpath] if pythonpath else [])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "JUPYTER_PATH": jupyter_path(os.environ.get("JUPYTER_PATH", "")),
        **environment(),
    }
