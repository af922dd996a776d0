"""Manifest lists and manifests: values ⇄ Avro bytes (FORMAT.md 8.1, 8.2, 8.3).

`ManifestEntry` is the addition or deletion of a data file (`data_file`), `ManifestFileMeta` one manifest in a
list. Field order and names are the format's; fields that an older writer left out are None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import fastavro

from tablestore.core.errors import Corrupt, TablestoreError, brief
from tablestore.format.avro import container as avro
from tablestore.format.avro.carried import (
    CarriedField,
    fields_of,
    from_text,
    plain_schema_with,
    schema_with,
    to_text,
    values,
)
from tablestore.format.manifests.data_file import APPEND_SOURCE as APPEND_SOURCE
from tablestore.format.manifests.data_file import COMPACT_SOURCE as COMPACT_SOURCE
from tablestore.format.manifests.data_file import EMPTY_ROW as EMPTY_ROW
from tablestore.format.manifests.data_file import EMPTY_STATS as EMPTY_STATS
from tablestore.format.manifests.data_file import DataFileMeta as DataFileMeta
from tablestore.format.manifests.data_file import SimpleStats as SimpleStats
from tablestore.io.paths import is_plain

ADD, DELETE = 0, 1
ENTRY_VERSION = 2
MAX_COUNT = 1 << 50  # bytes or rows of one file
MAX_LEVELS = 1 << 16
MIN_BUCKET = -2
EXTRA_FILES = "_EXTRA_FILES"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file added to or deleted from (partition, bucket). `partition` is a serialized BinaryRow."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    carried: tuple[CarriedField, ...] = field(default=(), compare=False, repr=False)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The fields by which a DELETE matches an ADD; the level is one, since an upgrade changes only that
        (FORMAT.md 8.4)."""
        f = self.file
        return (
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """One manifest in a list; `carried`: fields of later releases, which stay with it."""

    file_name: str
    file_size: int
    num_added: int
    num_deleted: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    carried: tuple[CarriedField, ...] = ()

    @property
    def extra_files(self) -> tuple[str, ...]:
        """Names of files beside the manifest that belong to it, such as Paimon 2.1's sidecars."""
        return next((tuple(f.value) for f in self.carried if f.name == EXTRA_FILES), ())

    @property
    def names(self) -> tuple[str, ...]:
        """Its file and the extra ones, all in the manifest directory."""
        return self.file_name, *self.extra_files


def _nullable(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def _stats_schema(name: str) -> dict[str, Any]:
    counts = {"type": "array", "items": ["null", "long"]}
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            {"name": "_NULL_COUNTS", **_nullable(counts)},
        ],
    }


def file_schema(name: str = "record__FILE") -> dict[str, Any]:
    """The Avro record of a DataFileMeta."""
    strings = {"type": "array", "items": "string"}
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            {"name": "_MIN_KEY", "type": "bytes"},
            {"name": "_MAX_KEY", "type": "bytes"},
            {"name": "_KEY_STATS", "type": _stats_schema(f"{name}__KEY_STATS")},
            {"name": "_VALUE_STATS", "type": _stats_schema(f"{name}__VALUE_STATS")},
            {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
            {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
            {"name": "_SCHEMA_ID", "type": "long"},
            {"name": "_LEVEL", "type": "int"},
            {"name": "_EXTRA_FILES", "type": strings},
            {"name": "_CREATION_TIME", **_nullable({"type": "long", "logicalType": "timestamp-millis"})},
            {"name": "_DELETE_ROW_COUNT", **_nullable("long")},
            {"name": "_EMBEDDED_FILE_INDEX", **_nullable("bytes")},
            {"name": "_FILE_SOURCE", **_nullable("int")},
            {"name": "_VALUE_STATS_COLS", **_nullable(strings)},
            {"name": "_EXTERNAL_PATH", **_nullable("string")},
            {"name": "_FIRST_ROW_ID", **_nullable("long")},
            {"name": "_WRITE_COLS", **_nullable(strings)},
        ],
    }


_NAMESPACE = "org.apache.paimon.avro.generated"


def _entry_schema(file: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "record",
        "namespace": _NAMESPACE,
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_TOTAL_BUCKETS", "type": "int"},
            {"name": "_FILE", "type": file},
        ],
    }


_FILE_SCHEMA = file_schema()
ENTRY_SCHEMA: Any = fastavro.parse_schema(_entry_schema(_FILE_SCHEMA))
LIST_SCHEMA: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": _NAMESPACE,
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_NUM_ADDED_FILES", "type": "long"},
            {"name": "_NUM_DELETED_FILES", "type": "long"},
            {"name": "_PARTITION_STATS", "type": _stats_schema("record__PARTITION_STATS")},
            {"name": "_SCHEMA_ID", "type": "long"},
            {"name": "_MIN_BUCKET", **_nullable("int")},
            {"name": "_MAX_BUCKET", **_nullable("int")},
            {"name": "_MIN_LEVEL", **_nullable("int")},
            {"name": "_MAX_LEVEL", **_nullable("int")},
            {"name": "_MIN_ROW_ID", **_nullable("long")},
            {"name": "_MAX_ROW_ID", **_nullable("long")},
        ],
    }
)

LIST_FIELDS = frozenset(f["name"] for f in LIST_SCHEMA["fields"])
ENTRY_FIELDS = frozenset(f["name"] for f in ENTRY_SCHEMA["fields"])
FILE_FIELDS = frozenset(f["name"] for f in _FILE_SCHEMA["fields"])


def stats_record(stats: SimpleStats) -> dict[str, Any]:
    """SimpleStats as an Avro record."""
    counts = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": counts}


def _stats(record: Mapping[str, Any]) -> SimpleStats:
    counts = record.get("_NULL_COUNTS")
    return SimpleStats(
        record["_MIN_VALUES"] or EMPTY_ROW,
        record["_MAX_VALUES"] or EMPTY_ROW,
        None if counts is None else tuple(counts),
    )


def _strings(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def file_record(f: DataFileMeta) -> dict[str, Any]:
    """A DataFileMeta as an Avro record."""
    return {
        "_FILE_NAME": f.file_name,
        "_FILE_SIZE": f.file_size,
        "_ROW_COUNT": f.row_count,
        "_MIN_KEY": f.min_key,
        "_MAX_KEY": f.max_key,
        "_KEY_STATS": stats_record(f.key_stats),
        "_VALUE_STATS": stats_record(f.value_stats),
        "_MIN_SEQUENCE_NUMBER": f.min_sequence,
        "_MAX_SEQUENCE_NUMBER": f.max_sequence,
        "_SCHEMA_ID": f.schema_id,
        "_LEVEL": f.level,
        "_EXTRA_FILES": list(f.extra_files),
        "_CREATION_TIME": f.creation_time_ms,
        "_DELETE_ROW_COUNT": f.delete_count,
        "_EMBEDDED_FILE_INDEX": f.embedded_index,
        "_FILE_SOURCE": f.file_source,
        "_VALUE_STATS_COLS": None if f.value_stats_cols is None else list(f.value_stats_cols),
        "_EXTERNAL_PATH": f.external_path,
        "_FIRST_ROW_ID": f.first_row_id,
        "_WRITE_COLS": None if f.write_cols is None else list(f.write_cols),
    }


def file_of(r: Mapping[str, Any]) -> DataFileMeta:
    """The DataFileMeta of an Avro record of any release."""
    get = r.get
    return DataFileMeta(
        file_name=r["_FILE_NAME"],
        file_size=r["_FILE_SIZE"],
        row_count=r["_ROW_COUNT"],
        min_key=r["_MIN_KEY"] or EMPTY_ROW,
        max_key=r["_MAX_KEY"] or EMPTY_ROW,
        key_stats=_stats(r["_KEY_STATS"]),
        value_stats=_stats(r["_VALUE_STATS"]),
        min_sequence=r["_MIN_SEQUENCE_NUMBER"],
        max_sequence=r["_MAX_SEQUENCE_NUMBER"],
        schema_id=r["_SCHEMA_ID"],
        level=r["_LEVEL"],
        extra_files=_strings(get("_EXTRA_FILES")) or (),
        creation_time_ms=avro.millis(get("_CREATION_TIME")),
        delete_count=get("_DELETE_ROW_COUNT"),
        embedded_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=get("_FILE_SOURCE"),
        value_stats_cols=_strings(get("_VALUE_STATS_COLS")),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=_strings(get("_WRITE_COLS")),
    )


def file_message_schema(name: str = "file") -> dict[str, Any]:
    """The schema of `file_message`, for messages between processes."""
    plain = file_schema(name)
    return {**plain, "fields": [*plain["fields"], {"name": "carried", **_nullable("string")}]}


def file_message(f: DataFileMeta) -> dict[str, Any]:
    """A DataFileMeta as a record of a message, with what it carries as text."""
    return {**file_record(f), "carried": to_text(f.carried)}


def file_of_message(r: Mapping[str, Any]) -> DataFileMeta:
    """The DataFileMeta of `file_message`."""
    return replace(file_of(r), carried=from_text(r["carried"]))


def schema_of(entries: Iterable[ManifestEntry]) -> Any:
    """The Avro schema of a manifest of these entries, with the fields that they carry."""
    some = [e for e in entries if e.carried or e.file.carried]
    if not some:
        return ENTRY_SCHEMA
    file = plain_schema_with(_FILE_SCHEMA, (e.file.carried for e in some))
    return fastavro.parse_schema(plain_schema_with(_entry_schema(file), (e.carried for e in some)))


def encode_entries(
    entries: Iterable[ManifestEntry], codec: str, schema: Mapping[str, Any] | None = None
) -> bytes:
    """The bytes of a manifest; `schema`: another one than `schema_of` the entries, for more of them."""
    some = entries if schema is not None else list(entries)
    records = (
        {
            "_VERSION": ENTRY_VERSION,
            "_KIND": e.kind,
            "_PARTITION": e.partition,
            "_BUCKET": e.bucket,
            "_TOTAL_BUCKETS": e.total_buckets,
            "_FILE": {**file_record(e.file), **dict(values(e.file.carried))},
            **dict(values(e.carried)),
        }
        for e in some
    )
    return avro.encode(schema_of(some) if schema is None else schema, records, codec)


def decode_entries(data: bytes, path: str) -> list[ManifestEntry]:
    """The entries of a manifest, in order; raises Corrupt naming `path` and the entry."""
    entries: list[ManifestEntry] = []
    records, schema = avro.decode_with_schema(data, path)
    for r in records:
        try:
            if r["_VERSION"] != ENTRY_VERSION or r["_KIND"] not in (ADD, DELETE):
                problem = (
                    f"entry {len(entries)}: version {r['_VERSION']}, kind {r['_KIND']}; expected 2 and 0 or 1"
                )
                raise Corrupt(path, problem)
            file = _sound(file_of(r["_FILE"]), r["_BUCKET"], f"entry {len(entries)}", path)
            if later := fields_of(r["_FILE"], schema, FILE_FIELDS, within="_FILE"):
                file = replace(file, carried=later)
            place = r["_KIND"], r["_PARTITION"] or EMPTY_ROW, r["_BUCKET"], r["_TOTAL_BUCKETS"]
            entries.append(ManifestEntry(*place, file, fields_of(r, schema, ENTRY_FIELDS)))
        except (KeyError, TypeError, AttributeError) as e:
            raise Corrupt(path, f"entry {len(entries)} is not a manifest entry: {brief(e)}") from e
    return entries


def _sound(f: DataFileMeta, bucket: int, where: str, path: str) -> DataFileMeta:
    """The file; raises Corrupt for names that leave the bucket and for impossible numbers."""
    for name in (f.file_name, *f.extra_files):
        if not is_plain(name):
            raise Corrupt(path, f"{where}: the file name {name!r} points outside its directory")
    counts = (f.file_size, f.row_count, f.delete_count or 0)
    if not all(0 <= n <= MAX_COUNT for n in counts) or not 0 <= f.level < MAX_LEVELS or bucket < MIN_BUCKET:
        text = f"{f.file_size} bytes, {f.row_count} rows, {f.delete_count} deletes, level {f.level}"
        raise Corrupt(path, f"{where}: {f.file_name} in bucket {bucket} has {text}")
    return f


def listed_names(manifests: Iterable[ManifestFileMeta]) -> dict[str, int]:
    """The files of these manifests with their bytes, 0 for those beside a manifest."""
    names: dict[str, int] = {}
    for m in manifests:
        names |= {**dict.fromkeys(m.extra_files, 0), m.file_name: m.file_size}
    return names


def encode_list(manifests: Iterable[ManifestFileMeta], codec: str) -> bytes:
    """The bytes of a manifest list."""
    some = list(manifests)
    records = (
        {
            "_VERSION": ENTRY_VERSION,
            "_FILE_NAME": m.file_name,
            "_FILE_SIZE": m.file_size,
            "_NUM_ADDED_FILES": m.num_added,
            "_NUM_DELETED_FILES": m.num_deleted,
            "_PARTITION_STATS": stats_record(m.partition_stats),
            "_SCHEMA_ID": m.schema_id,
            "_MIN_BUCKET": m.min_bucket,
            "_MAX_BUCKET": m.max_bucket,
            "_MIN_LEVEL": m.min_level,
            "_MAX_LEVEL": m.max_level,
            "_MIN_ROW_ID": m.min_row_id,
            "_MAX_ROW_ID": m.max_row_id,
            **dict(values(m.carried)),
        }
        for m in some
    )
    return avro.encode(schema_with(LIST_SCHEMA, (m.carried for m in some)), records, codec)


def decode_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """The manifests a list names, in order; raises Corrupt naming `path`."""
    manifests = list[ManifestFileMeta]()
    records, schema = avro.decode_with_schema(data, path)
    for r in records:
        try:
            if r["_VERSION"] != ENTRY_VERSION:
                raise Corrupt(
                    path, f"row {len(manifests)}: version {r['_VERSION']}, expected {ENTRY_VERSION}"
                )
            for name in (r["_FILE_NAME"], *(r.get(EXTRA_FILES) or ())):
                if not is_plain(name):
                    problem = f"row {len(manifests)}: the file name {name!r} points outside its directory"
                    raise Corrupt(path, problem)
            counts = (r["_FILE_SIZE"], r["_NUM_ADDED_FILES"], r["_NUM_DELETED_FILES"])
            if not all(0 <= n <= MAX_COUNT for n in counts):
                raise Corrupt(path, f"row {len(manifests)}: bytes, files added, files deleted are {counts}")
            manifests.append(
                ManifestFileMeta(
                    file_name=r["_FILE_NAME"],
                    file_size=r["_FILE_SIZE"],
                    num_added=r["_NUM_ADDED_FILES"],
                    num_deleted=r["_NUM_DELETED_FILES"],
                    partition_stats=_stats(r["_PARTITION_STATS"]),
                    schema_id=r["_SCHEMA_ID"],
                    min_bucket=r.get("_MIN_BUCKET"),
                    max_bucket=r.get("_MAX_BUCKET"),
                    min_level=r.get("_MIN_LEVEL"),
                    max_level=r.get("_MAX_LEVEL"),
                    min_row_id=r.get("_MIN_ROW_ID"),
                    max_row_id=r.get("_MAX_ROW_ID"),
                    carried=fields_of(r, schema, LIST_FIELDS),
                )
            )
        except (KeyError, TypeError, AttributeError, TablestoreError) as e:
            if isinstance(e, Corrupt):
                raise
            raise Corrupt(path, f"row {len(manifests)} is not a manifest: {brief(e)}") from e
    return manifests
