"""A process that damages files of one table, one at a time, and looks at the table each time.

    python -m tests.hostile.worker TABLE_DIR SCRATCH KINDS SEED COUNT

TABLE_DIR is copied to SCRATCH. COUNT times for each of KINDS (`manifest,data`; see `DIRECTORIES`) a file is
damaged, the table is read in every way there is, the file is put back. Each case prints one JSON line before
it runs and one after, so the parent knows which case ended the process. Memory is capped: a reader that
believes a huge length fails here.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.core.errors import Corrupt, TablestoreError, Unsupported
from tablestore.insight.check.check import examine
from tablestore.meta import manifest_cache
from tests.hostile.damage import hostile
from tests.hostile.limits import at_most

MEMORY = 6 << 30  # address space; Arrow and Polars reserve a good part of it
SECONDS = 40
DIRECTORIES = {
    "schema": ("schema", "schema-*"),
    "snapshot": ("snapshot", "snapshot-*"),
    "hint": ("snapshot", "*EST"),
    "manifest-list": ("manifest", "manifest-list-*"),
    "manifest": ("manifest", "manifest-[0-9a-f]*"),
    "index-manifest": ("manifest", "index-manifest-*"),
    "index": ("index", "index-*"),
    "tag": ("tag", "tag-*"),
    "branch": ("branch", "branch-*/*/*"),
    "consumer": ("consumer", "consumer-*"),
    "changelog": ("changelog", "changelog-*"),
    "statistics": ("statistics", "stat-*"),
    "data": (".", "**/bucket-*/*"),
}


class Hang(BaseException):
    """A case took longer than any honest one can."""


def main() -> None:
    source, scratch, kinds, seed, count = sys.argv[1:6]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    table = Path(scratch)
    shutil.copytree(source, table)
    before = seen(table)
    for kind in kinds.split(","):
        _damage(table, kind, random.Random(f"{seed} {kind}"), int(count), before)


def _damage(table: Path, kind: str, rng: random.Random, count: int, before: dict[str, Any]) -> None:
    """`count` cases of one kind of file, each printed."""
    files = sorted(p for p in table.glob("/".join(DIRECTORIES[kind])) if p.is_file())
    for number in range(count):
        path = rng.choice(files)
        data = path.read_bytes()
        what, damaged = hostile(rng, kind, data)
        place = {"case": number, "file": str(path.relative_to(table)), "what": what}
        print(json.dumps({**place, "begins": True}), flush=True)
        path.write_bytes(damaged)
        with at_most(SECONDS, _hang):
            wrong = _judged(table, path, kind, before)
        print(json.dumps({**place, "wrong": wrong}), flush=True)
        path.write_bytes(data)


def _hang(*_: Any) -> None:
    raise Hang


def _judged(table: Path, damaged: Path, kind: str, before: dict[str, Any]) -> str | None:
    """What is wrong with how the table was read, None if nothing is."""
    for name, look in LOOKS.items():
        manifest_cache.LOCAL.clear()
        try:
            actual = look(table)
        except Corrupt as e:
            outside = "points outside the table" in str(e)  # then the place named is that path
            if not outside and not _is_place(str(e.path), table):
                return f"{name}: {e!r} names no file of the table"
            continue
        except TablestoreError as e:
            if kind in ALLOWED.get(type(e).__name__, ()):
                continue
            return f"{name}: {type(e).__name__}: {e}"
        except Hang:
            return f"{name}: more than {SECONDS} s"
        except BaseException as e:
            return f"{name}: {e!r}{_where(e)}"
        if kind in CHECKSUMMED and actual is not None and actual != before[name]:
            return f"{name}: a wrong answer where a checksum could tell ({damaged.name})"
    return None


def _where(error: BaseException) -> str:
    at = error.__traceback__
    places = []
    while at is not None:
        places.append(f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}")
        at = at.tb_next
    return f" at {' < '.join(places[-4:])}"


def _is_place(path: str, table: Path) -> bool:
    return str(table) in path


# What else than Corrupt may come of a damaged file, for a reason.
ALLOWED = {
    "Unsupported": ("schema", "branch", "data", "index-manifest", "manifest"),  # options; formats by suffix
    "InvalidOption": ("schema", "branch"),  # the option's text is what is damaged, and it is named
    "InvalidRequest": ("schema", "branch"),
    "SchemaMismatch": ("schema", "branch"),
}
CHECKSUMMED = ("index",)


def _rows(table: Path) -> Any:
    return sorted(map(repr, ts.open(str(table)).scan().to_arrow().to_pylist()))


def _check(table: Path) -> Any:
    actual = [str(v) for v in examine(ts.open(str(table)).store).violations]
    stopped = [v for v in actual if "the check stopped" in v]
    if stopped and not any(isinstance(v, str) and str(table) in v.split("stopped:")[1] for v in stopped):
        raise AssertionError(stopped[0])
    return None


def _inspect(table: Path) -> Any:
    inspect = ts.open(str(table)).inspect
    errors = []
    for name in INSPECTED:
        try:
            getattr(inspect, name)()
        except TablestoreError as e:
            errors.append(e)
    for e in errors:
        raise e


def _stream(table: Path) -> Any:
    oldest = ts.open(str(table)).store.snapshots.earliest_id()
    for step in ts.open(str(table)).stream(start=oldest, follow=False, normalize=False):
        step.to_arrow()


def _refs(table: Path) -> Any:
    t = ts.open(str(table))
    for name in t.inspect.tags().column("tag_name").to_pylist():
        t.at(tag=name).scan().to_arrow()


INSPECTED = ("snapshots", "schemas", "options", "manifests", "files", "partitions", "buckets", "tags")
INSPECTED += ("branches", "consumers", "commits", "levels", "storage", "amplification", "doctor", "pressure")
LOOKS = {"rows": _rows, "inspect": _inspect, "stream": _stream, "refs": _refs, "check": _check}


def seen(table: Path) -> dict[str, Any]:
    """What the sound table gives; a look that the engine refuses is dropped."""
    collected = {}
    for name, look in list(LOOKS.items()):
        try:
            collected[name] = look(table)
        except Unsupported:
            del LOOKS[name]
    return collected


if __name__ == "__main__":
    main()
