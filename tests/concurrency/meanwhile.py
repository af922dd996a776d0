"""Other processes commit, compact and expire while a verb is under way, at any one of its operations.

What they do is done once, on a copy, so that a trial only swaps files: those of the table before it for those
after it. A verb that changes files gets the real thing, since what there is then depends on it.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.core.errors import CommitConflict, NotFound
from tests.faults import FaultyIO

Verb = Callable[[ts.Table], Any]
REMEDY = re.compile(r"again|latest-full|start with|the oldest is|can be read|have \d")
"""What says what to do, or what there still is."""
READS = ("read ", "open ", "list ", "is_dir ", "exists ", "size ")


class Meanwhile(FaultyIO):
    """Local files; right before operation `at` (counted from 0) something else happens."""

    def __init__(self, at: int | None = None, act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._at, self._act = at, act

    def _run(self, what: str, path: str, action: Any, *, writes: bool) -> Any:
        n, self.count = self.count, self.count + 1
        self.log.append(f"{what} {path}")
        if n == self._at:
            self._act()
        return action()


@dataclass(frozen=True)
class Twin:
    """A table before others were at it, and the same table after that."""

    before: Path
    after: Path

    @classmethod
    def of(cls, folder: Path, make: Callable[[ts.Lake], object], act: Verb) -> Twin:
        """The table that `make` makes, and that which `act` leaves."""
        actual = cls(folder / "before", folder / "after")
        make(ts.connect(str(actual.before)))
        shutil.copytree(actual.before, actual.after)
        act(opened(actual.after))
        return actual

    def swap(self, at: Path) -> None:
        """Let a copy of the table before become that after."""
        before, after = files(self.before), files(self.after)
        for name in sorted(after.keys() - before.keys()):
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            if not (at / name).exists():
                os.link(self.after / name, at / name)
        for name in sorted(after.keys() & before.keys()):
            if after[name] != before[name]:
                (at / name).unlink(missing_ok=True)
                os.link(self.after / name, at / name)
        for name in sorted(before.keys() - after.keys()):
            (at / name).unlink(missing_ok=True)

    @contextmanager
    def copy(self, *, linked: bool) -> Iterator[Path]:
        """A copy of the table before, of links or real."""
        at = self.before.with_name("copy")
        shutil.copytree(self.before, at, copy_function=os.link if linked else shutil.copy2)
        try:
            yield at
        finally:
            shutil.rmtree(at)

    def changed(self) -> set[str]:
        """The files that are in only one of the two or differ, and the folders that they are in."""
        before, after = files(self.before), files(self.after)
        names = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        return names | {str(up) for n in names for up in Path(n).parents}


def files(root: Path) -> dict[str, tuple[int, int]]:
    """The files below a folder, each with what changes when it is written."""
    collected = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            stat = os.stat(path)
            collected[os.path.relpath(path, root)] = stat.st_size, stat.st_mtime_ns
    return collected


def opened(root: Path, io: FaultyIO | None = None) -> ts.Table:
    """The table `d.t` below a folder."""
    return (ts.connect(str(root)) if io is None else ts.connect(str(root), io=io)).table("d.t")


def places(twin: Twin, verb: Verb, *, linked: bool) -> list[int]:
    """The operations of a verb before which the files may be swapped with an effect of its own: those that
    touch what is swapped."""
    with twin.copy(linked=linked) as at:
        io = Meanwhile()
        verb(opened(at, io))
        changed = twin.changed()
        paths = [(line.partition(" ")[2].removeprefix(f"{at}/"), line) for line in io.log]
        return [n for n, (path, line) in enumerate(paths) if path in changed and line.startswith(READS)]


def trial(twin: Twin, verb: Verb, at: int, act: Verb | None) -> tuple[str, Any]:
    """What a verb gives or raises if, right before operation `at`, files are swapped, or `act` is done; with
    that operation."""
    with twin.copy(linked=act is None) as root:
        done = (lambda: twin.swap(root)) if act is None else (lambda: act(opened(root)))
        io = Meanwhile(at, done)
        try:
            actual = verb(opened(root, io))
        except Exception as e:
            actual = e
        line = io.log[at].replace(str(root), "") if at < len(io.log) else "none"
        return line, actual


def wrong(twin: Twin, verb: Verb, *, draw: random.Random, most: int, act: Verb | None = None) -> list[str]:
    """What a verb did that it must not, at places that are drawn, so many at `most`: other rows than those of
    the table before or after it, or another error than that something has expired. `act`: done in place of
    the swap."""
    linked, actual = act is None, list[str]()
    allowed = [_of(root, verb) for root in (twin.before, twin.after)] if linked else []
    there = places(twin, verb, linked=linked)
    for at in draw.sample(there, min(most, len(there))):
        line, given = trial(twin, verb, at, act)
        if isinstance(given, NotFound | CommitConflict):
            if not REMEDY.search(str(given)):
                actual.append(f"{line}: no remedy: {given}")
        elif isinstance(given, Exception):
            actual.append(f"{line}: {given!r}")
        elif linked and given not in allowed:
            actual.append(f"{line}: wrong rows")
    return actual


def _of(root: Path, verb: Verb) -> Any:
    """What a verb gives where nothing happens meanwhile; the error where what it wants has expired."""
    try:
        return verb(opened(root, FaultyIO()))
    except NotFound as e:
        return e
