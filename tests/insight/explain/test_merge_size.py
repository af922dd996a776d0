"""Estimates of merges: exact where key ranges do not meet, near where keys are drawn, within their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.insight.explain.merge_size import SizeModel, merged
from tests.lsm.trees import KEY, data_file


def file_of(name: str, keys: np.ndarray, at: int, *, deletes: int = 0, level: int = 0) -> DataFileMeta:
    keys = np.unique(keys)
    return data_file(
        name,
        int(keys[0]),
        int(keys[-1]),
        level=level,
        row_count=len(keys),
        delete_count=deletes,
        file_size=900 + 20 * len(keys),
        min_sequence=at * 10_000,
        max_sequence=at * 10_000 + 9_999,
    )


def test_files_that_do_not_meet_give_all_their_rows() -> None:
    files = [file_of("a", np.arange(100), 0, deletes=7), file_of("b", np.arange(100, 150), 1)]
    kept, dropped = merged(files, KEY), merged(files, KEY, drop_deletes=True)
    assert (kept.rows, kept.exact) == (150, True)
    assert (dropped.rows, dropped.exact, dropped.rows_min, dropped.rows_max) == (143, True, 143, 143)


def test_unknown_deletes_make_rows_uncertain() -> None:
    file = data_file("a", 0, 99, row_count=100, delete_count=None)
    assert not merged([file], KEY, drop_deletes=True).exact
    assert merged([file], KEY).exact


@pytest.mark.parametrize("space", [500, 2_000, 10_000])
def test_random_keys_of_a_dense_range_are_estimated_within_a_few_percent(space: int) -> None:
    chance = np.random.default_rng(space)
    sets = [np.arange(space), *(chance.integers(0, space, 400) for _ in range(4))]
    files = [file_of(str(i), keys, i) for i, keys in enumerate(sets)]
    actual = merged(files, KEY)
    assert not actual.exact
    assert actual.rows == pytest.approx(space, rel=0.02)


def test_a_model_learns_how_many_keys_there_are() -> None:
    chance, space = np.random.default_rng(1), 1_000
    keys = chance.choice(1 << 40, space, replace=False)  # few keys of a wide range
    draws = [chance.choice(keys, 300) for _ in range(30)]
    files = [file_of(str(i), d, i) for i, d in enumerate(draws)]
    union = file_of("out", np.concatenate(draws[:5]), 5, level=5)
    assert not merged(files[:5], KEY).exact
    model = SizeModel.learned([(files[:5], [union])], KEY, files)
    assert model.keys == pytest.approx(space, rel=0.15)
    actual, wanted = merged(files[5:25], KEY, model=model), len(np.unique(np.concatenate(draws[5:25])))
    assert actual.rows == pytest.approx(wanted, rel=0.05)
    assert actual.bytes == pytest.approx(900 + 20 * wanted, rel=0.05)


def test_deletes_under_newer_rows_are_gone_already() -> None:
    old = file_of("old", np.arange(1_000), 0, deletes=1_000)
    new = file_of("new", np.arange(1_000), 1)
    assert merged([old, new], KEY, drop_deletes=True).rows == 1_000
    assert merged([file_of("new", np.arange(1_000), 1, deletes=1_000), old], KEY, drop_deletes=True).rows == 0


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 200), st.integers(1, 100), st.integers(0, 100)),
        min_size=1,
        max_size=6,
    ),
    drop=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_estimates_stay_within_their_bounds(spans: list[tuple[int, int, int, int]], drop: bool) -> None:
    files = [
        data_file(
            str(i),
            low,
            low + width,
            row_count=min(rows, width + 1),
            delete_count=min(deletes, rows, width + 1),
            min_sequence=i,
            max_sequence=i,
        )
        for i, (low, width, rows, deletes) in enumerate(spans)
    ]
    actual = merged(files, KEY, drop_deletes=drop)
    assert 0 <= actual.rows_min <= actual.rows <= actual.rows_max <= sum(f.row_count for f in files)
    assert actual.bytes >= 0
    assert actual.rows_min == actual.rows_max or not actual.exact


def test_a_copy_is_never_larger_than_its_files_by_the_sizes_of_others() -> None:
    """Files of small rows in a table of large ones: their copy is made of them, not of the others."""
    large = [replace(file_of(f"l{n}", np.arange(100), n), file_size=50_000 + n) for n in range(4)]
    small = [replace(file_of(f"s{n}", np.arange(n, 200, 2), n), file_size=900) for n in range(3)]
    model = SizeModel.learned([], KEY, large)
    assert model.bytes_of(100) > 900
    actual = merged(small, KEY, drop_deletes=True, model=model)
    assert 0 < actual.bytes <= sum(f.file_size for f in small)
