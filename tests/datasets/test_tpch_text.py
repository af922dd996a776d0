"""The text pool: the known bytes, and the same slices whether it is made whole or in blocks."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from datasets.tpch import streams, text


def test_whole_pool_has_the_md5_of_dbgens() -> None:
    with text.pool_file().open("rb") as file:
        assert hashlib.file_digest(file, "md5").hexdigest() == text.POOL_MD5


def test_slices_are_the_same_from_blocks_and_from_the_whole_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = text._checkpoints()[0][[0, 1, 2, 9000, 20_918]]
    around = np.concatenate([edges, edges + 1, np.maximum(edges - 5, 0), [text.POOL_BYTES - 78]])
    offset = np.concatenate([around, np.random.default_rng(5).integers(0, text.POOL_BYTES - 78, 200)])
    length = np.arange(len(offset)) % 60 + 19
    blocks = text.comments(offset, length)
    monkeypatch.setattr(text, "_WHOLE_POOL_FROM", 0)
    assert blocks.equals(text.comments(offset, length))
    assert pa.compute.binary_length(blocks).to_pylist() == length.tolist()


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
