"""Tables with a log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.table.logged import LogCommitter
from tests.log import held
from tests.tables import TableSpec

LOG = {"log.system": "embedded", "bucket": 2}


KEYED = TableSpec({"k": ts.INT, "v": ts.BIGINT}, ("k",), options=LOG)


EVENTUAL = KEYED.with_options({"log.consistency": "eventual"})


SUMS = KEYED.with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})


APPEND = TableSpec({"k": ts.INT, "v": ts.BIGINT}, options={**LOG, "bucket-key": "k"})


def kinds(table: ts.Table) -> list[int]:
    """The row kinds in the log, by bucket and offset."""
    actual = sorted(held.logged(table), key=lambda b: (b.bucket, b.offsets[0]))
    return [kind for batch in actual for kind in batch.kinds.to_pylist()]


def lake_of(path: Path) -> ts.Lake:
    return ts.connect(str(path))


@contextlib.contextmanager
def interleaved(step: Callable[[], object]) -> Iterator[None]:
    """Somebody takes a step, once, between the last look at the table and the log and the append."""
    looked, done = LogCommitter._basis_in_log, list[int]()

    def moved(self: LogCommitter, *args: Any) -> Any:
        actual = looked(self, *args)
        if not done:
            done.append(1)
            step()
        return actual

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogCommitter, "_basis_in_log", moved)
        yield
    assert done


def fails(*_: Any, **__: Any) -> None:
    raise Unavailable(5, "no space")
