"""pyfluss's own environment, made once from `pyfluss.lock`, and its calls by `pyfluss_calls.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.peers.pypaimon_env import is_as, make

LOCK = Path(__file__).with_name("pyfluss.lock")
PROGRAM = Path(__file__).with_name("pyfluss_calls.py")
VENV = Path(sys.prefix) / "peers" / "pyfluss"


def is_made() -> bool:
    """Whether the environment is there, as the lock says."""
    return is_as(VENV, LOCK)


def make_environment() -> None:
    """Make it. Raises RuntimeError where the packages cannot be had."""
    created = make(VENV, lock=LOCK, what="pyfluss")
    if created.path is None:
        raise RuntimeError(created.reason)


def calls(address: str, password: str) -> dict[str, Any]:
    """What pyfluss gets from the server at `address`, by the name of the call."""
    command = [VENV / "bin" / "python", "-I", PROGRAM, address]  # beside it there is another `fluss`
    done = subprocess.run(command, input=password, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    document: dict[str, Any] = json.loads(done.stdout)
    return document
