"""The environment: `.venv`, made from `requirements.lock` by the Python of the system.

Invariants: `.venv/workbench.stamp` (checksum of the lock, place of the checkout) is written last, so a
stamp that matches means a complete environment. A creation that was cut short leaves its mark and the
next call starts over; two at once take turns on a file lock that dies with its holder. A checkout that
was only moved is mended without the network. Called by `workbench` as a plain script: standard library
only, no import of ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STAMP = "workbench.stamp"
UNFINISHED = "workbench.unfinished"
CONTENTS = "pyspark, pyarrow, jupyterlab and some 120 more"
SHOWN = ("Collecting", "Downloading", "Using cached", "Building", "Installing")
SIZES = "about 650 MB to fetch, 1.3 GB on disk"


def main(arguments: list[str]) -> int:
    root, stamp = Path(arguments[0]), arguments[1]
    with _turn(root / "requirements.lock") as turn:
        venv = root / ".venv"
        before = _read(venv / STAMP)
        if before == stamp and _works(venv):
            return 0  # another call made it while this one waited
        if before.split("\n")[0] == stamp.split("\n")[0] and _works(venv):
            relocate(venv, old=Path(before.split("\n", 1)[1]) / ".venv")
        else:
            _make(root, venv, turn=turn)
        (venv / STAMP).write_text(stamp)
    archive_classes(venv)
    return 0


def _make(root: Path, venv: Path, *, turn: int) -> None:
    """A complete environment, or an exit with the reason; an existing sound one is brought up to the lock."""
    if _works(venv) and not (venv / UNFINISHED).exists():
        _say(f"bringing the environment in {venv} up to requirements.lock")
    else:
        _say(f"making the environment in {venv}")
        _say(f"  fetches {CONTENTS} ({SIZES}); `./workbench clean` removes it")
        shutil.rmtree(venv, ignore_errors=True)
        _call(
            [sys.executable, "-m", "venv", str(venv)], remedy="Debian, Ubuntu: sudo apt install python3-venv"
        )
    (venv / UNFINISHED).touch()
    _install(venv, lock=root / "requirements.lock", turn=turn)
    link_sources(venv)
    (venv / UNFINISHED).unlink()
    _say("  done")


def _install(venv: Path, *, lock: Path, turn: int) -> None:
    """pip, its chatter kept in a log file and one line of progress on a terminal.

    pip holds the turn too: if this process is killed, the next call waits for the pip that was left alone.
    """
    scratch, log = venv / "tmp", venv / "install.log"
    scratch.mkdir(exist_ok=True)
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--no-input", "-r", str(lock)]
    total = sum(1 for line in lock.read_text().splitlines() if "==" in line)
    environment = os.environ | {"TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)
    pip = subprocess.Popen(
        command,
        env=environment,
        pass_fds=(turn,),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with log.open("w") as kept, pip:
        count = 0
        for line in pip.stdout or ():
            kept.write(line)
            count += line.startswith(("Collecting", "Requirement already satisfied"))
            if line.lstrip().startswith(SHOWN):
                _progress(line.split(" (from")[0].strip(), count=min(count, total), total=total)
    _progress("", count=total, total=total)
    shutil.rmtree(scratch, ignore_errors=True)
    if pip.returncode != 0:
        tail = "\n".join("    " + line for line in log.read_text().splitlines()[-6:])
        _stop(
            f"pip could not install the packages; it said\n{tail}\n  all of it: {log}",
            remedy="check the network or the package index in your pip settings, then call again",
        )


def link_sources(venv: Path) -> None:
    """Make the packages of the checkout importable; paths are relative, so a moved checkout keeps working."""
    for packages in venv.glob("lib/python3.*/site-packages"):
        (packages / "tablestore_workbench.pth").write_text("../../../..\n")
        alias = packages / "pyspark_tablestore"
        if not alias.is_symlink() and not alias.exists():
            alias.symlink_to("../../../../tablestore/spark/pyspark_tablestore")


def archive_classes(venv: Path) -> None:
    """Let a process of its own make Spark's class archive, when nobody else wants the processor. Nobody waits
    for it, and nothing depends on it: Spark starts faster once it is there."""
    if any(venv.glob("lib/python3.*/site-packages/pyspark")):
        subprocess.Popen(
            ["nice", "-n", "19", str(venv / "bin" / "python"), "-P", "-m", "tablestore.spark.class_archive"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def relocate(venv: Path, *, old: Path) -> None:
    """Rewrite the interpreter line of every script that still names the environment at `old`."""
    python = str(venv / "bin" / "python")
    before = re.escape(os.fsencode(old))
    plain = re.compile(rb"#!" + before + rb"/bin/python[0-9.]*\n")
    trampoline = re.compile(rb"#!/bin/sh\n'''exec' \"?" + before + rb"/bin/python[^\n]*\n' '''\n")
    header = f"#!{python}\n"
    if " " in python or len(header) > 127:  # the system would cut such a line
        header = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
    for script in (venv / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        with script.open("rb") as opened:
            start = opened.read(4096)
        interpreter_line = plain.match(start) or trampoline.match(start)
        if interpreter_line:
            script.write_bytes(os.fsencode(header) + script.read_bytes()[interpreter_line.end() :])
        elif script.name.lower().startswith("activate"):
            script.write_bytes(script.read_bytes().replace(os.fsencode(old), os.fsencode(venv)))


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[int]:
    """Hold the file's lock; the system lets go of it when its last holder ends, however it ends."""
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another call is making the environment; waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream.fileno()


def _works(venv: Path) -> bool:
    python = venv / "bin" / "python"
    if not python.exists():
        return False
    probe = "import sys, pip; sys.exit(sys.prefix == sys.base_prefix)"
    return subprocess.run([str(python), "-c", probe], capture_output=True, check=False).returncode == 0


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else "\n"


def _call(command: list[str], *, remedy: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        _stop((done.stderr or done.stdout).strip(), remedy=remedy)


def _progress(line: str, *, count: int, total: int) -> None:
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 14
        sys.stderr.write(f"\r  [{count:3}/{total}] {line[:width]:{width}}" if line else "\r\x1b[K")
        sys.stderr.flush()


def _say(text: str) -> None:
    print(f"workbench: {text}" if not text.startswith(" ") else text, file=sys.stderr, flush=True)


def _stop(text: str, *, remedy: str) -> None:
    sys.exit(f"workbench: {text}\n  remedy: {remedy}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
