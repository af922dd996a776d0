"""BucketAdvisor: the numbers tried and each one's buckets are the engine's, in picture, page and text."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
import traitlets

import tablestore as ts
import widgets


def crowded(rows: int = 20_000) -> pa.Table:
    """Half of the rows have one customer."""
    ids = np.arange(rows)
    return pa.table(
        {"customer": np.where(ids % 2, 7, ids), "id": ids, "v": np.random.default_rng(1).random(rows)}
    )


@pytest.fixture(scope="module")
def view() -> widgets.BucketAdvisor:
    return advisor()


def advisor() -> widgets.BucketAdvisor:
    asked = {"primary_key": ["customer", "id"], "bucket_key": ["customer"], "target_bytes": 40_000}
    return widgets.BucketAdvisor(crowded(), **asked)


def test_every_number_tried_has_its_row_and_the_chosen_ones_buckets_are_drawn(view) -> None:
    tried = [a.buckets for a in view.advice.alternatives]
    for n in tried:
        view.buckets = n
        body = view.figure(width=1080).body
        assert re.findall(r'data-buckets="(\d+)"', body) == [str(t) for t in tried]
        assert re.findall(r'data-buckets="(\d+)"[^>]*aria-pressed="true"', body) == [str(n)]
        assert body.count("<title>") == n
        assert view.data()["rows"].to_pylist() == view.advice.spread(n)["rows"].to_pylist()
        assert sum(view.data()["rows"].to_pylist()) == 20_000
    view.buckets = view.advice.buckets


def test_the_sums_the_notes_and_the_call_are_shown(view) -> None:
    body, text = view.figure(width=1080).body, view.text()
    assert "one value of the bucket key (customer) takes" in body
    assert "20,000 rows, all looked at" in body
    assert "skew" in body
    assert f"bucket&#39;: {view.advice.buckets}" in body
    assert view.advice.text in text
    assert re.search(r"bucket-\d+ +[\d.]+ KiB +[\d,]+ rows +█+", text)
    assert view.code.endswith(f".spread({view.buckets})")


def test_very_many_buckets_are_drawn_as_columns() -> None:
    view = widgets.BucketAdvisor(crowded(), primary_key=["id"], target_bytes=1_200)
    view.buckets = max(a.buckets for a in view.advice.alternatives)
    assert view.buckets == 1536
    body = view.figure(width=1080).body
    assert body.count("<title>") == 308
    assert "1 bar = 5 buckets, the largest of them" in body


def test_advice_that_was_asked_for_is_taken_and_other_numbers_are_refused() -> None:
    advice = ts.advise_buckets(crowded(500), primary_key=["id"])
    view = widgets.BucketAdvisor(advice)
    assert view.advice is advice
    assert view.refresh().buckets == advice.buckets == 1
    with pytest.raises(traitlets.TraitError, match="were not tried"):
        view.buckets = 5


def test_no_rows_are_reported() -> None:
    view = widgets.BucketAdvisor(crowded(0), primary_key=["id"])
    assert "there are no rows" in view.figure(width=1080).body
