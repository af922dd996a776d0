"""An auditor of tables that shares nothing with the engine: JSON, fastavro, file sizes, Parquet footers.

It adds up what lies on disk: who wrote what, what is live, what runs there are. For tables none of whose
snapshots are gone, in data files of Parquet, below one root or with external paths. Used by `test_audit.py`.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

Entry = dict[str, Any]
Place = tuple[bytes, int]


def avro(path: Path) -> list[dict[str, Any]]:
    """The records of an Avro file."""
    with path.open("rb") as file:
        return list(fastavro.reader(file))


@dataclass
class Sums:
    """Bytes of files by what happened to them."""

    ingested: int = 0
    compacted: int = 0
    moved: int = 0
    read: int = 0
    changelog: int = 0


@dataclass
class Audit:
    """A table on disk, as of its newest snapshot."""

    root: Path
    snapshots: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (self.root / "snapshot").glob("snapshot-*"):
            fields = json.loads(path.read_text())
            self.snapshots[fields["id"]] = fields

    def entries(self, manifest_list: str | None) -> list[Entry]:
        """Entries of all manifests of a list, in order."""
        if not manifest_list:
            return []
        names = [m["_FILE_NAME"] for m in avro(self.root / "manifest" / manifest_list)]
        return [e for name in names for e in avro(self.root / "manifest" / name)]

    def live(self, snapshot: int) -> list[Entry]:
        """Files of a snapshot: added and not deleted."""
        fields = self.snapshots[snapshot]
        collected: dict[tuple[Any, ...], Entry] = {}
        for e in self.entries(fields["baseManifestList"]) + self.entries(fields["deltaManifestList"]):
            key = (e["_PARTITION"], e["_BUCKET"], e["_FILE"]["_LEVEL"], e["_FILE"]["_FILE_NAME"])
            if e["_KIND"] == 0:
                collected[key] = e
            else:
                del collected[key]
        return list(collected.values())

    def path(self, e: Entry) -> Path:
        """Where a data file lies."""
        outside = e["_FILE"].get("_EXTERNAL_PATH")
        if outside:
            return Path(outside.removeprefix("file:"))
        (actual,) = self.named[e["_FILE"]["_FILE_NAME"]]
        return actual

    @property
    def named(self) -> dict[str, list[Path]]:
        """Every file below the root by its name, but for the engine's own (checksums have the names of their
        data files)."""
        actual: dict[str, list[Path]] = defaultdict(list)
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if Path(folder, f) != self.root / "tablestore"]
            for name in names:
                actual[name].append(Path(folder, name))
        return actual

    def flows(self) -> dict[Place, Sums]:
        """What each bucket's commits wrote, moved and took away."""
        sums: dict[Place, Sums] = defaultdict(Sums)
        for fields in self.snapshots.values():
            delta = self.entries(fields["deltaManifestList"])
            added = Counter(e["_FILE"]["_FILE_NAME"] for e in delta if e["_KIND"] == 0)
            gone = Counter(e["_FILE"]["_FILE_NAME"] for e in delta if e["_KIND"] == 1)
            for e in delta:
                name, size, mine = e["_FILE"]["_FILE_NAME"], e["_FILE"]["_FILE_SIZE"], sums[place(e)]
                if fields["commitKind"] != "COMPACT":
                    mine.ingested += size if e["_KIND"] == 0 and not gone[name] else 0
                elif e["_KIND"] == 0 and gone[name]:
                    mine.moved += size
                elif e["_KIND"] == 0:
                    mine.compacted += size
                elif not added[name]:
                    mine.read += size
            for e in self.entries(fields.get("changelogManifestList")):
                sums[place(e)].changelog += e["_FILE"]["_FILE_SIZE"]
        return sums


def place(e: Entry) -> Place:
    """Partition bytes and bucket."""
    return e["_PARTITION"], e["_BUCKET"]


@dataclass(frozen=True)
class LiveState:
    """What is live in some buckets, sizes and rows taken from the files themselves."""

    bytes: int
    files: int
    rows: int
    runs: int


def state(audit: Audit, live: list[Entry]) -> LiveState:
    """Sizes from the disk, rows from footers (of Avro: counted); a run: a file of level 0, a level above."""
    paths = [audit.path(e) for e in live]
    rows = sum(len(avro(p)) if p.suffix == ".avro" else pq.read_metadata(p).num_rows for p in paths)
    runs = {(place(e), e["_FILE"]["_LEVEL"] or e["_FILE"]["_FILE_NAME"]) for e in live}
    return LiveState(sum(p.stat().st_size for p in paths), len(paths), rows, len(runs))
