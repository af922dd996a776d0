"""The text pool: the known bytes, and the same slices whether it is made whole or in blocks."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datasets.tpch import streams, text


def test_whole_pool_has_the_md5_of_dbgens() -> None:
    with text.pool_file().open("rb") as file:
        assert hashlib.file_digest(file, "md5").hexdigest() == text.POOL_MD5


def test_slices_are_the_same_from_blocks_and_from_the_whole_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = text._checkpoints()[0][[0, 1, 2, 9000, 20_918]]
    around = np.concatenate([edges, edges + 1, np.maximum(edges - 5, 0), [text.POOL_BYTES - 78]])
    offset = np.concatenate([around, np.random.default_rng(5).integers(0, text.POOL_BYTES - 78, 200)])
    length = np.arange(len(offset)) % 60 + 19
    pool = text.pool_file()
    monkeypatch.setattr(text, "_pool_path", lambda: tmp_path / "pool")
    monkeypatch.setattr(text, "_made", [])
    blocks = text.comments(offset, length)
    assert not (tmp_path / "pool").exists()
    assert pa.compute.binary_length(blocks).to_pylist() == length.tolist()
    (tmp_path / "pool").symlink_to(pool)
    assert blocks.equals(text.comments(offset, length))


def test_a_process_that_makes_many_blocks_makes_the_pool_and_all_read_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, offset, length = tmp_path / "pool", np.array([0]), np.array([3])

    def empty_pool() -> Path:
        pool.touch()
        os.truncate(pool, text.POOL_BYTES)
        return pool

    monkeypatch.setattr(text, "_pool_path", lambda: pool)
    monkeypatch.setattr(text, "pool_file", empty_pool)
    monkeypatch.setattr(text, "_made", [])
    monkeypatch.setattr(text, "_WHOLE_POOL_FROM", 1)
    from_a_block, from_the_pool = (text.comments(offset, length).to_pylist() for _ in range(2))
    assert from_a_block != from_the_pool == ["\0" * 3]
    monkeypatch.setattr(text, "_made", [])
    assert text.comments(offset, length).to_pylist() == ["\0" * 3]


def test_no_comments_need_no_text() -> None:
    none = np.empty(0, np.int64)
    assert text.comments(none, none).equals(pa.array([], pa.string()))


def test_draws_are_those_of_the_stepwise_generator() -> None:
    state, walked = streams.CUSTOMER_KEY.seed, []
    for _ in range(1000):
        state = state * streams.MULTIPLIER % streams.MODULUS
        walked.append(state)
    assert streams.draws(streams.CUSTOMER_KEY.seed, np.arange(1000)).tolist() == walked


@pytest.mark.parametrize("position", [2**16 - 1, 2**16, 2**31 - 3, 2**31 - 2, 2**31 - 1, 123_456_789_012])
def test_far_draws_are_exact(position: int) -> None:
    exact = streams.LINE_COUNT.seed * pow(streams.MULTIPLIER, position + 1, streams.MODULUS) % streams.MODULUS
    assert streams.draws(streams.LINE_COUNT.seed, np.array([position])).tolist() == [exact]
