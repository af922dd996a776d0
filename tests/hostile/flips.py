"""Single flipped bits in every kind of file that the engine writes: what do readers make of them?

    python -m tests.hostile.flips SEED FLIPS [KIND …]        or        run(seed, flips).summary()

Tables of every kind are written once a run. Then, again and again, one bit of one file is flipped (kinds in
turn, file and bit drawn from the seed), the table is read as users read it, and the file is put back. A flip
is *unnoticed* if every answer is right, *named* if a read raised an error of the engine and the others were
right; if an answer was wrong, `check()` is tried. What it does not name either is *silent*. Cases run in
worker processes: one that ends is *died*, and the next goes on after it.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.format.manifests.index_manifest import HASH
from tablestore.lsm.lookup import cache as lookup_cache
from tablestore.meta import consumers, manifest_cache, statistics
from tablestore.meta.deletion_files import read_hashes
from tests.hostile.limits import FEW_THREADS

ROOT = Path(__file__).resolve().parents[2]
UNNOTICED, NAMED = "unnoticed", "named"
BY_CHECK, SILENT, DIED = "named by check", "silent", "died"
ALWAYS_RIGHT: tuple[str, ...] = (
    "parquet",
    "orc",
    "avro",
    "changelog",
    "file-index",
    "index",
    "manifest",
    "manifest-list",
    "index-manifest",
    "snapshot",
)
ALWAYS_RIGHT += ("schema", "tag", "branch", "statistics", "consumer", "hint")
"""Kinds of files of which no flip may give a wrong answer."""
KINDS = {
    "parquet": "**/bucket-*/data-*.parquet",
    "orc": "**/bucket-*/data-*.orc",
    "avro": "**/bucket-*/data-*.avro",
    "changelog": "**/bucket-*/changelog-*",
    "file-index": "**/bucket-*/*.index",
    "index": "index/index-*",
    "manifest": "manifest/manifest-[0-9a-f]*",
    "manifest-list": "manifest/manifest-list-*",
    "index-manifest": "manifest/index-manifest-*",
    "snapshot": "snapshot/snapshot-*",
    "hint": "snapshot/*EST",
    "schema": "schema/schema-*",
    "tag": "tag/tag-*",
    "branch": "branch/branch-*/*/*",
    "statistics": "statistics/stat-*",
    "consumer": "consumer/consumer-*",
    "checksum": "tablestore/checksums/*",
}


@dataclass
class FlipReport:
    """How many flips of each kind of file ended in which way; `cases` repeats those that went wrong."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    cases: list[str] = field(default_factory=list)

    def of(self, outcome: str, kinds: Sequence[str] = tuple(KINDS)) -> int:
        """Flips in files of these kinds that ended so."""
        return sum(self.counts[kind, outcome] for kind in kinds)

    @property
    def wrong(self) -> list[str]:
        """Cases that break the promise: silent ones, deaths, wrong by default where nothing may be."""
        return self.cases

    def summary(self) -> str:
        """One line a kind of file."""
        outcomes = (UNNOTICED, NAMED, BY_CHECK, SILENT, DIED)
        lines = [f"{'':15}" + "".join(f"{o:>20}" for o in outcomes)]
        for kind in KINDS:
            row = [self.counts[kind, o] for o in outcomes]
            if any(row):
                lines.append(f"{kind:15}" + "".join(f"{n:20,}" for n in row))
        return "\n".join([*lines, *self.cases[:20]])


def run(
    seed: int, flips: int, *, kinds: Sequence[str] = tuple(KINDS), scratch: str | None = None
) -> FlipReport:
    """The report of so many flips; `kinds` take turns. `scratch`: where tables are written."""
    report = FlipReport()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        make_tables(Path(folder))
        first, deaths = 0, 0
        while first < flips:
            first = _some(report, folder, seed, range(first, flips), kinds)
            deaths += first < flips
            if deaths > 100:
                raise AssertionError("workers end again and again:\n" + report.summary())
    return report


def _some(report: FlipReport, folder: str, seed: int, numbers: range, kinds: Sequence[str]) -> int:
    """Let a worker go on until it ends; the number of the next case."""
    arguments = [folder, str(seed), str(numbers.start), str(numbers.stop), *kinds]
    command = [sys.executable, "-m", "tests.hostile.flips", "--worker", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=FEW_THREADS) as worker:
        begun: dict[str, Any] | None = None
        said = 0
        for line in worker.stdout or ():
            said, case = said + 1, json.loads(line)
            if "outcome" in case:
                report.counts[case["kind"], case["outcome"]] += 1
                if case["outcome"] in (SILENT, DIED) or (
                    case["outcome"] == BY_CHECK and case["kind"] in ALWAYS_RIGHT
                ):
                    report.cases.append(line.strip())
                begun = None
            else:
                begun = case
    if worker.returncode and begun is None:
        raise AssertionError(f"a worker failed before its first case, or between two: {' '.join(command)}")
    if begun is None:
        return numbers.stop
    report.counts[begun["kind"], DIED] += 1
    report.cases.append(json.dumps({**begun, "outcome": DIED, "code": worker.returncode}))
    return begun["case"] + 1


# ---- tables


def make_tables(folder: Path) -> None:
    """One table for each way in which files are written and read."""
    lake = ts.connect(str(folder))
    small = {"bucket": 1, "num-sorted-run.compaction-trigger": 10}
    for form in ("parquet", "orc", "avro"):
        t = _keyed(lake, f"keyed_{form}", {**small, "file.format": form, "changelog-producer": "input"})
        _upserts(t, 3)
    indexed = {"file-index.bloom-filter.columns": "name,amount", "file-index.in-manifest-threshold": "1 b"}
    for name, options in {
        "beside": indexed,
        "inside": {**indexed, "file-index.in-manifest-threshold": "1 mb"},
    }.items():
        t = lake.create_table(f"f.{name}", schema=_rows(0, 1).schema, options={"bucket": -1, **options})
        for i in range(3):
            t.write(_rows(100 * i, 100 * i + 100))
    paged = _keyed(lake, "paged", small)
    paged.write(_rows(0, 40_000))
    marked = _keyed(lake, "marked", {"bucket": 2, "deletion-vectors.enabled": True})
    _upserts(marked, 3)
    dynamic = _keyed(lake, "dynamic", {"bucket": -1, "dynamic-bucket.target-row-num": 60})
    _upserts(dynamic, 3)
    noted = _keyed(lake, "noted", {**small, "bucket": 2})
    _upserts(noted, 2)
    noted.tags.create("plain")
    noted.tags.create("timed", retain="3650 d")
    noted.branches.create("side", tag="plain")
    noted.alter(ts.add("more", ts.INT))
    _upserts(ts.open(f"{noted.location}"), 2)
    ts.open(noted.location).analyze()
    for change in ts.open(noted.location).stream(start=1, follow=False, consumer="reader", normalize=False):
        change.done()


def _keyed(lake: Any, name: str, options: dict[str, Any]) -> Any:
    return lake.create_table(f"f.{name}", schema=_rows(0, 1).schema, primary_key=["id"], options=options)


def _rows(first: int, last: int, salt: int = 0) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "amount": pa.array([(i * 7919 + salt) % 100_003 for i in ids], pa.int32()),
            "ratio": pa.array([((i * 31 + salt) % 977) / 7 for i in ids], pa.float64()),
            "name": pa.array(
                [f"name {(i + salt) % 13} of {i}" if i % 11 else None for i in ids], pa.string()
            ),
            "kind": pa.array(["abc"[(i + salt) % 3] for i in ids], pa.string()),
        }
    )


def _upserts(t: Any, commits: int) -> None:
    for i in range(commits):
        t.write(_rows(50 * i, 50 * i + 120, salt=i))


# ---- what readers ask


def _scan(t: Any) -> Any:
    return _ordered(t.scan().to_arrow())


def _filtered(t: Any) -> Any:
    wanted = [ts.col("amount") > 60_000, ts.col("name") == "name 3 of 16", ts.col("id") == 77]
    return [_ordered(t.scan(where=w).to_arrow()) for w in wanted]


def _got(t: Any) -> Any:
    if not t.primary_key:
        return None
    return _ordered(t.get_many(pa.table({"id": pa.array([3, 20, 77, 119, 8_200, 30_001], pa.int64())})))


def _changed(t: Any) -> Any:
    return [c.to_arrow() for c in t.stream(start=1, follow=False, normalize=False)]


def _past(t: Any) -> Any:
    actual = [
        _ordered(t.at(tag=name).scan().to_arrow()) for name in t.inspect.tags().column("tag_name").to_pylist()
    ]
    snapshots = t.store.snapshots.all()
    actual.append(_ordered(t.at(timestamp=snapshots[0].time_millis).scan().to_arrow()))
    return [*actual, [(s.id, s.time_millis, s.watermark, dict(s.properties or {})) for s in snapshots]]


def _branched(t: Any) -> Any:
    if not t.location.endswith("noted"):
        return None
    lake = ts.connect(t.location.rsplit("/", 2)[0])
    return _ordered(lake.table("f.noted$branch_side").scan().to_arrow())


def _beside(t: Any) -> Any:
    """Hashes that a writer would go by, statistics that a planner would, where a stream would go on."""
    store = t.store
    latest = store.snapshots.latest()
    entries = [e for e in store.manifests.index_entries(latest) if e.file.index_type == HASH]
    hashes = [(e.bucket, read_hashes(store, e).tobytes()) for e in entries]
    return [sorted(hashes), statistics.read(store, latest), consumers.all_next(store)]


def _ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").combine_chunks()


LOOKS: dict[str, Callable[[Any], Any]] = {
    **{"scan": _scan, "filters": _filtered, "get": _got, "changes": _changed},
    **{"past": _past, "branch": _branched, "beside": _beside},
}
ASKED = {  # the looks that open files of a kind
    **dict.fromkeys(("parquet", "orc", "avro", "file-index"), ("scan", "filters", "get", "changes")),
    **dict.fromkeys(("changelog", "checksum"), ("scan", "changes")),
    **dict.fromkeys(("statistics", "consumer"), ("beside",)),
    **{"tag": ("past",), "branch": ("branch", "scan"), "index": ("scan", "get", "beside")},
}


def _answers(table: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """What each look gives; an error of the engine is an answer, too."""
    for name in names:
        manifest_cache.LOCAL.clear()
        lookup_cache.LOCAL.clear()
        try:
            yield name, LOOKS[name](ts.open(table))
        except TablestoreError as e:
            yield name, e


def _judged(table: str, kind: str, sound: dict[str, Any]) -> tuple[str, str]:
    """(outcome, what was wrong)."""
    named, wrong = _compared(table, tuple(ASKED.get(kind, tuple(LOOKS))), sound)
    if not wrong:
        return (NAMED if named else UNNOTICED), ""
    manifest_cache.LOCAL.clear()
    problems = ts.open(table).check()
    return (BY_CHECK if problems else SILENT), ", ".join(wrong)


def _compared(table: str, names: Sequence[str], sound: dict[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """The looks that named damage, and those whose answers are wrong."""
    named, wrong = [], []
    for name, answer in _answers(table, names):
        if isinstance(answer, TablestoreError):
            named.append(name)
        elif answer != sound[name]:
            wrong.append(name)
    return named, tuple(wrong)


def _worker(folder: str, seed: str, first: str, after: str, *kinds: str) -> None:
    logging.disable()
    files = {k: sorted(p for p in Path(folder).glob(f"f.db/*/{KINDS[k]}") if p.is_file()) for k in kinds}
    kinds = tuple(k for k in kinds if files[k])
    sound: dict[str, dict[str, Any]] = {}
    for number in range(int(first), int(after)):
        rng, kind = random.Random(f"{seed} {number}"), kinds[number % len(kinds)]
        path = rng.choice(files[kind])
        table = str(Path(*path.parts[: len(Path(folder).parts) + 2]))
        if table not in sound:
            sound[table] = dict(_answers(table, tuple(LOOKS)))
        data = path.read_bytes()
        if not data:
            continue
        at, bit = rng.randrange(len(data)), rng.randrange(8)
        case = {"case": number, "kind": kind, "file": str(path.relative_to(folder)), "byte": at, "bit": bit}
        case["of"] = len(data)
        print(json.dumps(case), flush=True)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        try:
            outcome, what = _judged(table, kind, sound[table])
        finally:
            path.write_bytes(data)
        print(json.dumps({**case, "outcome": outcome, "wrong": what}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        _worker(*sys.argv[2:])
    else:
        print(run(int(sys.argv[1]), int(sys.argv[2]), kinds=tuple(sys.argv[3:]) or tuple(KINDS)).summary())
