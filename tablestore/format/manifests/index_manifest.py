"""Index manifests: the full list of live index files of a snapshot ⇄ Avro bytes (FORMAT.md 8.5).

An index file is a HASH index (the key hashes of a dynamic bucket) or a container of deletion vectors. The
list is not a delta: each commit that changes an index rewrites it. Entries of kinds that this engine does not
know (global indexes) pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fastavro

from tablestore.core.errors import Corrupt, brief
from tablestore.format.avro import container as avro
from tablestore.format.avro.container import (
    CarriedField,
    carried_fields,
    carried_of_text,
    carried_text,
    carried_values,
    schema_with,
)
from tablestore.format.manifests.manifest import ADD, DELETE, EMPTY_ROW, MAX_COUNT, NAMESPACE
from tablestore.io.paths import is_plain

HASH, DELETION_VECTORS = "HASH", "DELETION_VECTORS"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Where one data file's deletion vector lies in its container; `cardinality` rows are deleted."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class IndexFileMeta:
    """One file under `index/`. `row_count`: hashes of a HASH index, vectors of a container; `carried`: fields
    of later releases, which stay with it."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    dv_ranges: tuple[VectorRange, ...] | None = None
    external_path: str | None = None
    global_index: Mapping[str, Any] | None = field(default=None, compare=False)
    carried: tuple[CarriedField, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An index file of (partition, bucket); `kind` is ADD in manifests, DELETE only inside a commit."""

    kind: int
    partition: bytes
    bucket: int
    file: IndexFileMeta

    @property
    def place(self) -> tuple[bytes, int, str]:
        """(partition, bucket, index type), which has one live index file, except in tables without
        buckets."""
        return self.partition, self.bucket, self.file.index_type


_FILE = (
    "_INDEX_TYPE string, _FILE_NAME string, _FILE_SIZE long, _ROW_COUNT long, "
    "_DELETIONS_VECTORS_RANGES ranges?, _EXTERNAL_PATH string?, _GLOBAL_INDEX global?"
)


def _record(name: str, text: str, namespace: str = "") -> dict[str, Any]:
    """A record with the fields of an IndexFileMeta."""
    ranges = avro.record("record__DELETIONS_VECTORS_RANGES", "f0 string, f1 int, f2 int, _CARDINALITY long?")
    index = avro.record(
        "record__GLOBAL_INDEX",
        "_ROW_RANGE_START long, _ROW_RANGE_END long, _INDEX_FIELD_ID int, _EXTRA_FIELD_IDS ids?, "
        "_INDEX_META bytes?, _SOURCE_META bytes?",
        ids=avro.array("int"),
    )
    types = {"ranges": avro.array(["null", ranges]), "global": index}
    return avro.record(name, text, namespace=namespace, **types)


_ENTRY = f"_VERSION int, _KIND int, _PARTITION bytes, _BUCKET int, {_FILE}"
_SCHEMA: Any = fastavro.parse_schema(_record("record", _ENTRY, NAMESPACE))

_FIELDS = frozenset(f["name"] for f in _SCHEMA["fields"])


def file_record(f: IndexFileMeta) -> dict[str, Any]:
    """An IndexFileMeta as an Avro record."""
    ranges = None
    if f.dv_ranges is not None:
        ranges = [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in f.dv_ranges
        ]
    return {
        "_INDEX_TYPE": f.index_type,
        "_FILE_NAME": f.file_name,
        "_FILE_SIZE": f.file_size,
        "_ROW_COUNT": f.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": f.external_path,
        "_GLOBAL_INDEX": f.global_index,
    }


def file_of(r: Mapping[str, Any]) -> IndexFileMeta:
    """The IndexFileMeta of an Avro record of any release."""
    ranges = r.get("_DELETIONS_VECTORS_RANGES")
    if ranges is not None:
        ranges = tuple(VectorRange(v["f0"], v["f1"], v["f2"], v.get("_CARDINALITY")) for v in ranges if v)
    return IndexFileMeta(
        index_type=r["_INDEX_TYPE"],
        file_name=r["_FILE_NAME"],
        file_size=r["_FILE_SIZE"],
        row_count=r["_ROW_COUNT"],
        dv_ranges=ranges,
        external_path=r.get("_EXTERNAL_PATH"),
        global_index=r.get("_GLOBAL_INDEX"),
    )


def file_message_schema() -> dict[str, Any]:
    """The schema of `file_message`, for messages between processes."""
    return _record("index", f"{_FILE}, carried string?")


def file_message(f: IndexFileMeta) -> dict[str, Any]:
    """An IndexFileMeta as a record of a message, with what it carries as text."""
    return {**file_record(f), "carried": carried_text(f.carried)}


def file_of_message(r: Mapping[str, Any]) -> IndexFileMeta:
    """The IndexFileMeta of `file_message`."""
    return replace(file_of(r), carried=carried_of_text(r["carried"]))


def encode(entries: Iterable[IndexEntry], codec: str) -> bytes:
    """The bytes of an index manifest."""
    some = list(entries)
    records = (
        {
            "_VERSION": _VERSION,
            "_KIND": e.kind,
            "_PARTITION": e.partition,
            "_BUCKET": e.bucket,
            **file_record(e.file),
            **dict(carried_values(e.file.carried)),
        }
        for e in some
    )
    return avro.encode(schema_with(_SCHEMA, (e.file.carried for e in some)), records, codec)


def decode(data: bytes, path: str) -> list[IndexEntry]:
    """The live index files; raises Corrupt naming `path` and the entry."""
    entries: list[IndexEntry] = []
    records, schema = avro.decode_with_schema(data, path)
    for r in records:
        try:
            if r["_VERSION"] != _VERSION or r["_KIND"] != ADD:
                text = f"version {r['_VERSION']}, kind {r['_KIND']}; expected {_VERSION} and {ADD}"
                raise Corrupt(path, f"entry {len(entries)}: {text}")
            file = replace(file_of(r), carried=carried_fields(r, schema, _FIELDS))
            file = _sound(file, f"entry {len(entries)}", path)
            entries.append(IndexEntry(ADD, r["_PARTITION"] or EMPTY_ROW, r["_BUCKET"], file))
        except (KeyError, TypeError, AttributeError) as e:
            raise Corrupt(path, f"entry {len(entries)} is not an index file: {brief(e)}") from e
    return entries


def _sound(f: IndexFileMeta, where: str, path: str) -> IndexFileMeta:
    """The file; raises Corrupt for names that leave their directories and for impossible numbers."""
    for name in (f.file_name, *(r.data_file for r in f.dv_ranges or ())):
        if not is_plain(name):
            raise Corrupt(path, f"{where}: the file name {name!r} points outside its directory")
    if not (0 <= f.file_size <= MAX_COUNT and 0 <= f.row_count <= MAX_COUNT):
        raise Corrupt(path, f"{where}: {f.file_name} has {f.file_size} bytes, {f.row_count} rows")
    return f


def combined(before: Sequence[IndexEntry], changes: Sequence[IndexEntry]) -> list[IndexEntry]:
    """The list after `changes`: without the deleted file names, then the additions, in order. Pure."""
    gone = {e.file.file_name for e in changes if e.kind == DELETE}
    kept = [e for e in before if e.file.file_name not in gone]
    return kept + [e for e in changes if e.kind == ADD]
