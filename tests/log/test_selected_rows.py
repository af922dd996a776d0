"""A condition on the rows of a log: what comes is what it selects, and no other row is decoded whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tablestore.format.predicates.predicate import bind, col
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import LogBatch
from tablestore.log.offsets import Offsets
from tablestore.table.union_read import selected_rows
from tests.log.embedded_logs import SCHEMA, append, content, open_log


class Seen(EmbeddedLog):
    """A log that keeps how many rows it gave of each choice of columns."""

    decoded: dict[tuple[str, ...], int]

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        for batch in super().read(start, stop, columns):
            names = tuple(columns or ())
            self.decoded[names] = self.decoded.get(names, 0) + batch.rows.num_rows
            yield batch


def selected(log: EmbeddedLog, where: Any) -> list[tuple[int, int, str]]:
    """(bucket, offset, text) of the rows."""
    actual = selected_rows(log, {}, log.bounds().end, ["text"], bind(where, SCHEMA))
    return [
        (batch.bucket, offset, text)
        for batch in actual
        for offset, text in zip(batch.offsets.tolist(), batch.rows["text"].to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("where", "ids"),
    [(col("id") == 23, {23}), (col("id") > 100, set()), (col("id").is_in([1, 9, 22]), {1, 9, 22})],
)
def test_only_selected_rows_of_an_embedded_log_are_decoded(tmp_path: Path, where: Any, ids: set[int]) -> None:
    log = open_log(tmp_path, kind=Seen)
    assert isinstance(log, Seen)
    log.decoded = {}
    for begin in range(0, 30, 10):
        append(log, {0: range(begin, begin + 10, 2), 1: range(begin + 1, begin + 10, 2)})
    rows = [
        (b, offset, f"row {i}") for b, numbered in content(log).items() for offset, i in numbered if i in ids
    ]
    log.decoded = {}
    assert sorted(selected(log, where)) == sorted(rows)
    assert log.decoded[("id",)] == 30
    assert log.decoded.get(("text",), 0) <= 5 * len(ids)
