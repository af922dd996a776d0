"""Blocks of Avro files decompressed by one decompressor: as each alone, or left to be decompressed alone."""

from __future__ import annotations

import random

import pytest

from tablestore.core.errors import Corrupt
from tablestore.core.zstandard import zstd
from tablestore.format.avro.blocks import AvroBlock, plain_block, plain_together

PLAIN = [random.Random(n).randbytes(n * 40) + bytes(n * 100) for n in range(1, 30)]
BLOCKS = [AvroBlock(n, zstd.compress(data)) for n, data in enumerate(PLAIN, 1)]


def without_size(data: bytes) -> bytes:
    """A frame that does not say how many bytes it has, as streams write it."""
    compressor = zstd.ZstdCompressor()
    return compressor.compress(data) + compressor.flush()


def test_blocks_are_decompressed_together_as_alone() -> None:
    assert plain_together(BLOCKS, "zstandard") == [plain_block(b, "zstandard", "f") for b in BLOCKS]


@pytest.mark.parametrize(
    "odd",
    [
        without_size(PLAIN[3]),
        zstd.compress(PLAIN[3]) * 2,
        zstd.compress(PLAIN[3]) + b"more",
        zstd.compress(PLAIN[3])[:-5],
        zstd.compress(PLAIN[3])[:40] + bytes(8) + zstd.compress(PLAIN[3])[48:],
        b"no frame",
        b"",
    ],
)
@pytest.mark.parametrize("at", [0, 7, len(BLOCKS)])
def test_an_odd_block_is_left_to_be_decompressed_alone(odd: bytes, at: int) -> None:
    """Damage may also give other bytes of the same size, which the checksum of their file tells."""
    blocks = [*BLOCKS[:at], AvroBlock(3, odd), *BLOCKS[at:]]
    together = plain_together(blocks, "zstandard")
    assert together is None or together == [plain_block(b, "zstandard", "f") for b in blocks]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_other_codecs_are_decompressed_alone(codec: str) -> None:
    assert plain_together(BLOCKS, codec) is None


def test_more_records_than_bytes_are_refused() -> None:
    bomb = AvroBlock(1_000, zstd.compress(b"ten bytes."))
    assert plain_together([*BLOCKS, bomb], "zstandard") is None
    with pytest.raises(Corrupt, match="1000 records has 10 bytes"):
        plain_block(bomb, "zstandard", "f")


def test_blocks_of_too_many_bytes_are_decompressed_alone() -> None:
    large = [AvroBlock(1, zstd.compress(bytes(40 << 20)))] * 2
    assert plain_together(large, "zstandard") is None
