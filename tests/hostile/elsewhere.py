"""Metadata files with a path to somewhere else in one field, and what verbs then reach outside the table.

The table has one of each: tags, a branch, a consumer, changelogs that outlive snapshots, deletion vectors,
file indexes, statistics, history. A case is one field of one file with one hostile value, in a copy of the
table; fields are found by walking the files, so a new one is covered.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.core.options.table_options import TableOptions
from tablestore.format import binary_row, checksums
from tablestore.format.manifests import index_manifest, manifest
from tablestore.format.types.arrow_types import STRING
from tablestore.io.fileio import LocalFileIO, Sync

OLD = "data-00000000-0000-0000-0000-000000000000-0.parquet"
Case = tuple[str, str, Callable[[], bytes]]  # file, what was put where, what gives its bytes


class Watcher:
    """Local files; notes each path outside `root` that a verb is asked for."""

    def __init__(self, root: str) -> None:
        self._inner, self._root, self.outside = LocalFileIO(), os.path.realpath(root), list[str]()

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)

        def watched(path: Any, *rest: Any, **named: Any) -> Any:
            paths = path.paths if isinstance(path, Sync) else (path, *(rest if verb == "move" else ()))
            for each in paths:
                if not f"{os.path.realpath(each)}/".startswith(f"{self._root}/"):
                    self.outside.append(f"{verb} {each}")
            return getattr(self._inner, verb)(path, *rest, **named)

        return watched


def make_table(lake: Path) -> Path:
    """The directory of a table that has every kind of metadata file, with names that hold no checksums: who
    forges a file leaves them out."""
    with patch.object(checksums, "named", lambda uuid, data: uuid):
        return _made(lake)


def _made(lake: Path) -> Path:
    t = ts.connect(lake).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "p": ts.STRING, "v": ts.STRING},
        primary_key=["k", "p"],
        partition_by=["p"],
        options={
            "bucket": 1,
            "deletion-vectors.enabled": True,
            "changelog-producer": "lookup",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "0b",
            "snapshot.num-retained.min": 1,
            "snapshot.num-retained.max": 3,
            "changelog.num-retained.max": 100,
            "changelog.num-retained.min": 50,
        },
    )
    for turn in range(6):
        t.write(pa.table({"k": [turn, 1, 2], "p": ["a", "a", "b"], "v": [f"{turn}", "x", "y"]}))
    t.analyze()
    t.tags.create("kept")
    t.branches.create("b", tag="kept")
    t.branch("b").write({"k": [9], "p": ["a"], "v": ["z"]})
    t.consumers.reset("reader", next_snapshot=t.store.snapshots.latest_id())
    t.expire_snapshots(keep=3)
    assert t.check() == []
    return Path(t.location)


def reached(
    table: Path, copy: Path, outside: Path, changed: dict[str, bytes], roots: Sequence[Path] = ()
) -> list[str]:
    """What is asked of paths outside the copy in which files are changed, and what is not there any more."""
    for folder in (copy, outside):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(table, copy)
    precious = [outside / OLD, outside / "bucket-0" / OLD, outside / "p=a/bucket-0" / OLD, copy.parent / OLD]
    for path in precious:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
        os.utime(path, (1, 1))
    for name, data in changed.items():
        (copy / name).write_bytes(data)
    watcher = Watcher(str(copy))
    for verb in VERBS:
        with contextlib.suppress(TablestoreError, FileNotFoundError):
            verb(ts.open(copy, io=watcher, roots=roots))  # type: ignore[arg-type]  # a watcher forwards what FileIO has
    return watcher.outside + [f"gone: {path}" for path in precious if not path.exists()]


def _all_changes(t: ts.Table) -> None:
    first = t.store.snapshots.earliest_id() or 1
    t.changes(since=first)


VERBS: tuple[Callable[[ts.Table], Any], ...] = (
    lambda t: t.scan().to_arrow(),
    lambda t: t.at(tag="kept").scan().to_arrow(),
    lambda t: t.branch("b").scan().to_arrow(),
    _all_changes,
    lambda t: t.check(),
    lambda t: t.inspect.storage(),
    lambda t: t.get({"k": 1, "p": "a"}),
    lambda t: t.remove_orphans(older_than="1d", dry_run=False),
    lambda t: t.overwrite({"k": [1], "p": ["a"], "v": ["new"]}, partition={"p": "a"}),
    lambda t: t.expire_snapshots(keep=1),
    lambda t: t.tags.delete("kept"),
    lambda t: t.branches.delete("b"),
    lambda t: t.remove_orphans(older_than="0 ms", force=True, dry_run=False),
)


def cases(table: Path, outside: Path) -> Iterator[Case]:
    """Every field of every metadata file of the table with every hostile value."""
    away = (
        f"../../../../{outside.name}/{OLD}",
        f"{outside}/{OLD}",
        f"../{OLD}",
        "..",
        f"file:{outside}",
    )
    for path in sorted(p for p in table.rglob("*") if p.is_file()):
        name, data = str(path.relative_to(table)), path.read_bytes()
        folder, kind = path.parent.name, path.name
        if folder.startswith("bucket-") or folder == "index":
            continue
        created: Iterator[tuple[str, Callable[[], bytes]]]
        if kind.startswith("index-manifest"):
            created = _rows(list(index_manifest.decode(data, name)), away, index_manifest.encode)
        elif kind.startswith("manifest-list"):
            created = _rows(list(manifest.decode_list(data, name)), away, manifest.encode_list)
        elif kind.startswith("manifest"):
            created = _rows(list(manifest.decode_entries(data, name)), away, manifest.encode_entries)
        else:
            created = _text(data, away, options=folder == "schema")
        yield from ((name, what, changed) for what, changed in created)


def _rows(
    rows: list[Any], away: Sequence[str], encode: Callable[[list[Any], str], bytes]
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Rows of which one has another text, list of texts or missing text in one field, however deep."""
    for i, row in enumerate(rows):
        for what, changed in _fields(row, away):
            yield what, partial(encode, [*rows[:i], changed, *rows[i + 1 :]], "none")


def _fields(value: Any, away: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for f in fields(value):
        old = getattr(value, f.name)
        parts = old if isinstance(old, tuple) and old and is_dataclass(old[0]) else ()
        if is_dataclass(old):
            yield from ((what, replace(value, **{f.name: new})) for what, new in _fields(old, away))
        for i, part in enumerate(parts):
            for what, new in _fields(part, away):
                yield what, replace(value, **{f.name: (*old[:i], new, *old[i + 1 :])})
        if "str" in str(f.type) and f.name != "global_index" and not parts:
            many = "tuple" in str(f.type)
            own = [f"{away[-1]}/{value.file_name}"] if f.name == "external_path" else []
            for text in (*own, *away):
                yield f"{f.name}: {text}", replace(value, **{f.name: (text,) if many else text})
        elif f.name in ("partition", "min_partition", "max_partition"):
            for text in away:
                yield f"{f.name}: {text}", replace(value, **{f.name: binary_row.encode((text,), (STRING,))})


def _text(data: bytes, away: Sequence[str], *, options: bool) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """JSON of which one value is another text; of other files the whole text, or each line of JSON."""
    lines = data.decode().splitlines()
    try:
        parsed = [json.loads(data)]
    except ValueError:
        parsed = [json.loads(line) for line in lines] if lines[0].startswith("{") else []
    for text in away:
        yield f"all: {text}", text.encode
    for i, body in enumerate(parsed):
        for what, changed in _leaves(body, away):
            whole = [json.dumps(each) for each in (*parsed[:i], changed, *parsed[i + 1 :])]
            yield what, "\n".join(whole).encode
    for f in fields(TableOptions) if options else ():
        for text in away if "str" in str(f.type) else ():
            changed = parsed[0] | {"options": parsed[0]["options"] | {f.metadata["key"]: text}}
            yield f"{f.metadata['key']}: {text}", json.dumps(changed).encode


def _leaves(body: Any, away: Sequence[str], at: str = "") -> Iterator[tuple[str, Any]]:
    """JSON values that differ in one leaf; a key may change, too."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from ((what, body | {key: new}) for what, new in _leaves(value, away, f"{at}.{key}"))
    elif isinstance(body, list):
        for i, value in enumerate(body):
            yield from (
                (w, [*body[:i], new, *body[i + 1 :]]) for w, new in _leaves(value, away, f"{at}[{i}]")
            )
    else:
        yield from ((f"{at}: {text}", text) for text in away)
