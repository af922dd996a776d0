"""The kernel of this environment for JupyterLab, and a lab that asks nobody for news. No import of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

KERNEL = "tablestore-workbench"
QUIET = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    }
}


def install_kernel(share: Path, *, python: str, name: str = KERNEL) -> Path:
    """Write the kernel's description, anew each time: the checkout may have moved."""
    folder = share / "kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Tablestore workbench",
        "language": "python",
        "metadata": {"debugger": True},
    }
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1))
    return folder


def environment() -> dict[str, str]:
    """Variables of the server: its kernels and their Spark are of this Python."""
    return {"PYSPARK_PYTHON": sys.executable, "JUPYTER_PREFER_ENV_PATH": "1"}
