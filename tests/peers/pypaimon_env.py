"""pypaimon's own environment: made on first use from `pypaimon.lock`, under this environment's `peers/`.

Holds: the stamp is written last, so an interrupted creation starts over; two test runs take turns.
Where the packages cannot be had, `python()` gives the reason once and tests skip by it.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

LOCK = Path(__file__).with_name("pypaimon.lock")
STAMP = "lock.crc"


@dataclass(frozen=True, slots=True)
class PeerPython:
    """The Python that has pypaimon, or why there is none (`path` is None)."""

    path: Path | None
    reason: str = ""


VENV = Path(sys.prefix) / "peers" / "pypaimon"


def is_made() -> bool:
    """Whether the environment is there, as the lock says."""
    return is_as(VENV, LOCK)


@functools.cache
def python() -> PeerPython:
    """Asked once a run: a failure is not tried again for every test."""
    return make(VENV, lock=LOCK)


def make(venv: Path, *, lock: Path, what: str = "pypaimon") -> PeerPython:
    """The environment at `venv` as `lock` says, made if it is missing, stale or half made."""
    try:
        venv.parent.mkdir(parents=True, exist_ok=True)
        with (venv.parent / f"{venv.name}.turn").open("w") as lock_file:
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            if not is_as(venv, lock):
                shutil.rmtree(venv, ignore_errors=True)
                _run([sys.executable, "-m", "venv", "--without-pip", str(venv)])  # ours can, in half the time
                pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install"]
                quietly = ["--quiet", "--no-input", "--disable-pip-version-check", "--retries", "1"]
                _run([*pip, *quietly, "-r", str(lock)])
                (venv / STAMP).write_text(_checksum(lock))
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return PeerPython(None, f"needs {what}: {said[-1] if said else 'its environment could not be made'}")
    return PeerPython(venv / "bin" / "python")


def is_as(venv: Path, lock: Path) -> bool:
    """Whether the environment at `venv` is there, as `lock` says."""
    stamp = venv / STAMP
    return stamp.exists() and stamp.read_text() == _checksum(lock)


def _checksum(lock: Path) -> str:
    return str(zlib.crc32(lock.read_bytes()))


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
