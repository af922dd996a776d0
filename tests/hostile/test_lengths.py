"""Files that promise more than they hold: lengths, counts and nestings that nobody may believe.

Each reader runs in a process with little memory and a time limit, so that believing one of them fails.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import commit_message, deletion_vector, hashing
from tablestore.format import schema as schema_format
from tablestore.format import snapshot as snapshot_format
from tablestore.format.avro import container as avro
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests import index_manifest, manifest
from tablestore.io.fileio import LocalFileIO
from tests.hostile.bombs import BOMBS, container
from tests.hostile.limits import FEW_THREADS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.large
def test_avro_bombs_are_refused_in_little_memory_and_time() -> None:
    command = [sys.executable, "-m", "tests.hostile.bombs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=FEW_THREADS)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [s["bomb"] for s in said] == [
        f"{name} {reader}" for name in BOMBS for reader in ("rows", "columns")
    ], done.stderr[-2000:]
    assert [s for s in said if s["wrong"]] == []


@pytest.mark.parametrize(
    "read",
    [
        lambda data: snapshot_format.from_json(data, "snapshot-1"),
        lambda data: schema_format.from_json(data, "schema-0"),
    ],
    ids=["snapshot", "schema"],
)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"null",
        b"3",
        b"\xff\xfe",
        b'{"id": 1e999}',
        b"9" * 10_000,
    ],
    ids=[
        "empty",
        "open",
        "deep lists",
        "deep objects",
        "null",
        "number",
        "no text",
        "infinite",
        "long number",
    ],
)
def test_json_that_is_no_metadata_is_corrupt(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"^(snapshot-1|schema-0): "):
        read(data)


def test_a_deletion_vector_may_not_claim_more_positions_than_its_file_has_rows(tmp_path: Path) -> None:
    runs = struct.pack("<HHH", 1, 0, 65535)  # one container, one run over all its positions
    bitmap = struct.pack("<I", 12347 | 0 << 16) + b"\x01" + struct.pack("<HH", 0, 65535) + runs
    body = struct.pack(">i", 1581511376) + bitmap
    data = b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    path = tmp_path / "index-0"
    path.write_bytes(data)
    where = DeletionFile(str(path), 1, len(body))
    assert deletion_vector.read(LocalFileIO(), where).cardinality == 65536
    with pytest.raises(Corrupt, match="65,536 positions, of 10 possible ones"):
        deletion_vector.read(LocalFileIO(), where, rows=10)


@pytest.mark.parametrize(
    ("offset", "length"), [(1, 2**31 - 1), (-1, 20), (2**31 - 1, 20), (0, 20), (1, -1), (1, 3)]
)
def test_a_range_outside_its_container_is_corrupt(tmp_path: Path, offset: int, length: int) -> None:
    path = tmp_path / "index-0"
    path.write_bytes(b"\x01" + bytes(40))
    with pytest.raises(Corrupt, match="index-0"):
        deletion_vector.read(LocalFileIO(), DeletionFile(str(path), offset, length))


def test_a_hash_index_of_a_broken_number_of_bytes_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="index-0: a hash index of 7 bytes"):
        hashing.decode_index(bytes(7), "index-0")


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_commit_message_that_was_cut_is_refused(cut: int) -> None:
    data = commit_message.encode(commit_message.CommitMessage(bytes(12), 0, 1))
    if cut < len(data):
        with pytest.raises(ValueError, match="commit message"):
            commit_message.decode(data[:cut])


NAMES = ["../up", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "x\0y"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_leave_their_directory_are_refused_by_every_list_of_files(name: str) -> None:
    stats = manifest.EMPTY_STATS
    row = manifest.ManifestFileMeta(name, 1, 0, 0, stats, 0)
    with pytest.raises(Corrupt, match="list-1: row 0: the file name"):
        manifest.decode_list(manifest.encode_list([row], "none"), "list-1")
    for names in ((name, ()), ("data-0.parquet", (name,))):
        file = manifest.DataFileMeta(names[0], 1, 1, b"", b"", stats, stats, 0, 0, 0, 0, names[1])
        data = manifest.encode_entries([manifest.ManifestEntry(0, bytes(12), 0, 1, file)], "none")
        with pytest.raises(Corrupt, match="manifest-1: entry 0: the file name"):
            manifest.decode_entries(data, "manifest-1")
    for file_name, data_file in ((name, "data"), ("index-0", name)):
        ranges = (index_manifest.VectorRange(data_file, 1, 22, 1),)
        meta = index_manifest.IndexFileMeta("DELETION_VECTORS", file_name, 1, 1, ranges)
        data = index_manifest.encode([index_manifest.IndexEntry(0, bytes(12), 0, meta)], "none")
        with pytest.raises(Corrupt, match="index-1: entry 0: the file name"):
            index_manifest.decode(data, "index-1")


@pytest.mark.parametrize("key", ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"])
@pytest.mark.parametrize("name", NAMES)
def test_names_that_leave_their_directory_are_refused_in_snapshots(key: str, name: str) -> None:
    body = {"version": 3, "id": 1, "schemaId": 0, "baseManifestList": "b", "deltaManifestList": "d"}
    body |= {"commitUser": "u", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1, key: name}
    with pytest.raises(Corrupt, match=f"snapshot-1: field '{key}'"):
        snapshot_format.from_json(json.dumps(body).encode(), "snapshot-1")


def test_records_of_a_foreign_schema_are_corrupt() -> None:
    other = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]})
    data = container(json.dumps(other).encode(), 2, b"\x02\x04")
    with pytest.raises(Corrupt, match="m: entry 0 is not a manifest entry"):
        manifest.decode_entries(data, "m")
    assert avro.decode_with_schema(data, "m")[0] == [{"x": 1}, {"x": 2}]
