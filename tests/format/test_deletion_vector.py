from __future__ import annotations

import json
import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.format import deletion_vector, roaring
from tablestore.format.deletion_vector import DeletionFile, DeletionVector
from tablestore.io.fileio import LocalFileIO

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon-java"
TWO_VECTORS = bytes.fromhex(
    "01000000165e43f2d03a3000000100000000000000100000000200d1060251"
    "000000185e43f2d03a300000010000000000010010000000020003 00c898f63d".replace(" ", "")
)
SHAPES = {
    "none": np.zeros(0, np.int64),
    "one": np.array([7]),
    "array": np.arange(0, 8000, 2),
    "bitmap": np.flatnonzero(np.random.default_rng(1).random(65536) < 0.5),
    "runs": np.r_[np.arange(5, 60_000), np.arange(65_530, 65_600)],
    "full container": np.arange(65_536),
    "four containers with runs": np.r_[
        np.arange(10), (1 << 16) + np.array([3]), (2 << 16) + np.arange(9000), (9 << 16)
    ],
    "last position": np.array([0, (1 << 31) - 1]),
}


def test_the_container_of_two_vectors_is_javas_byte_for_byte() -> None:
    vectors = [("a", DeletionVector.of(np.array([2]))), ("b", DeletionVector.of(np.array([3, 2, 2])))]
    data, ranges = deletion_vector.container(vectors, bitmap64=False)
    assert data == TWO_VECTORS
    assert [(r.data_file, r.offset, r.length, r.cardinality) for r in ranges] == [
        ("a", 1, 22, 1),
        ("b", 31, 24, 2),
    ]


@pytest.mark.parametrize("bitmap64", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_positions_come_back(tmp_path: Path, shape: str, bitmap64: bool) -> None:
    vector = DeletionVector.of(SHAPES[shape])
    data, ranges = deletion_vector.container([("f", vector), ("g", vector)], bitmap64=bitmap64)
    (tmp_path / "index").write_bytes(data)
    for r in ranges:
        file = DeletionFile(str(tmp_path / "index"), r.offset, r.length, r.cardinality)
        assert deletion_vector.read(LocalFileIO(), file) == vector
    assert len(data) == ranges[-1].offset + ranges[-1].length + (0 if bitmap64 else 8)


def test_positions_above_32_bits_need_the_wide_form() -> None:
    vector = DeletionVector.of(np.array([1, 1 << 33, (1 << 33) + 1]))
    data = deletion_vector.encode(vector, bitmap64=True)
    assert deletion_vector.decode(data, length=len(data)) == vector
    with pytest.raises(InvalidRequest, match="bitmap64"):
        deletion_vector.encode(vector, bitmap64=False)


def test_a_mask_leaves_out_what_is_deleted() -> None:
    vector = DeletionVector.of(np.array([0, 5, 6, 12]))
    assert vector.alive(1, 4) is None
    assert vector.alive(5, 3).tolist() == [False, False, True]
    assert vector.union(DeletionVector.of(np.array([5, 7]))) == DeletionVector.of(np.array([0, 5, 6, 7, 12]))


@pytest.mark.parametrize("table", ["pk_deletion_vectors", "append_deletion_vectors"])
def test_vectors_of_java_read_and_are_written_alike(table: str) -> None:
    expected = json.loads((GOLDEN / "expected" / f"{table}.json").read_text())
    for entry in expected["index_files"]:
        path = GOLDEN / "warehouse" / "j.db" / table / "index" / entry["name"]
        files = {n: DeletionFile(str(path), start, size, card) for n, start, size, card in entry["dv_ranges"]}
        actual = deletion_vector.read_many(LocalFileIO(), str(path), files)
        order = sorted(files, key=lambda n: files[n].offset)
        assert (
            deletion_vector.container([(n, actual[n]) for n in order], bitmap64=False)[0] == path.read_bytes()
        )


def test_damaged_containers_are_corrupt_and_name_the_file(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    path = tmp_path / "index"
    for seed in seeds:
        chance = random.Random(seed)
        vector = DeletionVector.of(SHAPES[chance.choice(list(SHAPES))])
        data, (r,) = deletion_vector.container([("f", vector)], bitmap64=chance.random() < 0.5)
        file = DeletionFile(str(path), r.offset, r.length, r.cardinality)
        for _ in range(50):
            damaged = bytearray(data)
            if chance.random() < 0.3:
                del damaged[chance.randrange(len(damaged)) :]
            else:
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(damaged))
            with pytest.raises(Corrupt, match=str(path)):
                deletion_vector.read(LocalFileIO(), file, rows=1 << 31)


def test_bitmaps_with_a_right_checksum_but_wrong_inside_are_refused(seeds: tuple[int, ...]) -> None:
    """Whatever the bytes: ValueError or strictly increasing positions within the bound."""
    for seed in seeds:
        chance = random.Random(seed)
        for decode, encode in ((roaring.decode32, roaring.encode32), (roaring.decode64, roaring.encode64)):
            for shape in SHAPES.values():
                damaged = bytearray(encode(shape))
                for _ in range(chance.randrange(1, 4)):
                    damaged[chance.randrange(min(len(damaged), 80))] = chance.randrange(256)
                try:
                    decoded = decode(bytes(damaged), max_count=200_000)
                except ValueError:
                    continue
                assert len(decoded) <= 200_000
                assert (np.diff(decoded) > 0).all()


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"offset": 0}, "outside"),
        ({"offset": 2000}, "outside"),
        ({"length": 21}, "where the index manifest says 21"),
        ({"cardinality": 2}, "2 are promised"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(tmp_path: Path, changed: dict[str, int], complaint: str) -> None:
    (tmp_path / "index").write_bytes(TWO_VECTORS)
    written = {"offset": 1, "length": 22, "cardinality": 1} | changed
    with pytest.raises(Corrupt, match=complaint):
        deletion_vector.read(LocalFileIO(), DeletionFile(str(tmp_path / "index"), **written))


def test_a_position_beyond_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(TWO_VECTORS)
    with pytest.raises(Corrupt, match="row 2 of a file with 2 rows"):
        deletion_vector.read(LocalFileIO(), DeletionFile(str(tmp_path / "index"), 1, 22, 1), rows=2)


def test_the_checksum_is_of_magic_and_bitmap() -> None:
    data = deletion_vector.encode(DeletionVector.of(np.array([2])), bitmap64=False)
    assert int.from_bytes(data[-4:], "big") == zlib.crc32(data[4:-4])
