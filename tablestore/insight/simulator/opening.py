"""`ts.simulator`: a simulation from plain arguments, for whoever uses the public names only; and the files of
a table's bucket as those that a simulation begins with: rows of `inspect.levels()`.

Names, levels, order, sizes, rows and deletes are the table's, so picks are, too. Of keys only their places
are known. The axis is therefore one of ranks: between two places lie as many keys as the densest file there
has rows, stretched to the key space of the workload. Pure.
"""

from __future__ import annotations

import reprlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from math import inf, log
from numbers import Real
from typing import Any

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.insight.inspect.columns import SOURCES
from tablestore.insight.simulator.density import Pieces
from tablestore.insight.simulator.sim_bucket import SimFile
from tablestore.insight.simulator.simulator import Schedule, Simulator
from tablestore.insight.simulator.workload import Workload


@checked
def simulator(
    workload: Workload | Mapping[str, Any] | str = "uniform",
    options: Mapping[str, Any] | None = None,
    *,
    buckets: int = 1,
    seed: int = 0,
    samples: int | None = None,
    write_only: bool = False,
    start: Any = None,
) -> Simulator:
    """A simulation of one table under `options`, which runs by `advance`, or by hand: `flush`, `compact`.

    `workload` is a `Workload`, its name ("uniform", "zipf", "sequential", "time-series"), or a mapping of
    what it is made of (`kind`, `rows`, `keys`, `updates`, `deletes`, `skew`, …). It goes to `buckets`
    buckets.
    The same `seed` gives the same rows, of which `samples` stand for those of a flush (None: each is drawn).
    With `write_only` nothing is compacted unless it is asked for. `start` are the files of one bucket of a
    table, `inspect.levels(bucket=…)` or its rows: the simulation begins with them as they are and goes on by
    expected sizes. Raises InvalidRequest and InvalidOption.

    >>> options = {"num-sorted-run.compaction-trigger": 3}
    >>> tree = ts.simulator({"kind": "zipf", "rows": 1_000}, options).advance(20)
    >>> tree.inspect.levels().num_rows < 20
    True
    """
    asked, files = workload_of(workload), None
    if start is not None:
        if samples:
            raise InvalidRequest(
                f"samples {samples}: keys of a table's files are not drawn; leave samples out"
            )
        files, space = start_files(start_rows(start), asked.key_space)
        asked, samples = replace(asked, keys=space) if asked.spread else asked, 0
    simulation = Simulator(
        asked,
        options,
        buckets=buckets,
        seed=seed,
        samples=samples,
        schedule=Schedule(write_only=write_only),
    )
    if files is not None:
        simulation.begin(files)
    return simulation


def workload_of(asked: Workload | Mapping[str, Any] | str) -> Workload:
    """A workload in any of its forms. Raises InvalidRequest for fields that it does not have."""
    if isinstance(asked, Workload):
        return asked
    if isinstance(asked, str):
        return Workload(asked)
    try:
        return Workload(**asked)
    except TypeError as wrong:
        raise InvalidRequest(f"workload {dict(asked)!r}: {wrong}") from wrong


StartRow = Mapping[str, Any]
Span = tuple[float, float]

_THIN = 1e-9  # the width of a file whose keys share a place
_SOURCE_CODES = {name: code for code, name in SOURCES.items()}
_COLUMNS = ("level", "run", "file_name", "rows", "deletes", "bytes", "min_key_pos", "max_key_pos")


def start_rows(given: Any) -> list[StartRow]:
    """The files that are given, as an Arrow table of `inspect.levels()` or as its rows, newest run first.

    Raises InvalidRequest for what is no such rows, for files of several buckets, and for rows that lack a
    column or have it in another type.
    """
    listed = given.to_pylist() if hasattr(type(given), "to_pylist") else given
    rows: list[StartRow] = list(listed) if isinstance(listed, Iterable) else []
    if not isinstance(listed, Iterable) or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidRequest(f"start takes the rows of table.inspect.levels(), not {reprlib.repr(given)}")
    places = {(row.get("partition", ""), row.get("bucket", 0)) for row in rows}
    if len(places) > 1:
        raise InvalidRequest(
            f"start holds files of {len(places)} buckets: give those of one, "
            "table.inspect.levels(partition=…, bucket=…)"
        )
    for name in _COLUMNS:
        kind = str if name == "file_name" else Real
        if not all(isinstance(row.get(name), kind) for row in rows):
            raise InvalidRequest(f"a file of start has no {name!r}: give rows of table.inspect.levels()")
    return rows


def start_files(rows: Sequence[StartRow], keys: int) -> tuple[list[SimFile], int]:
    """The simulated files of `rows`, and the size of the key space, which is `keys` or more."""
    spans = _spans(rows)
    cuts, below = _ranks(rows, spans)
    stretch = max(1.0, keys / below[-1]) if below and below[-1] else 1.0

    def rank(place: float) -> int:
        return round(stretch * below[bisect_left(cuts, place)])

    files: list[SimFile] = []
    last = (-1, -1)  # run of the file before, and its greatest key
    for row, (left, right) in zip(rows, spans, strict=True):
        low = max(rank(left), last[1] + 1 if last[0] == row["run"] else 0)
        high = max(rank(right) - 1, low)
        last = row["run"], high
        files.append(_file(row, low, high))
    return files, max(keys, *(f.max_key + 1 for f in files)) if files else keys


def _spans(rows: Iterable[StartRow]) -> list[Span]:
    """From where to where on the axis of places each file reaches; those of a run do not overlap."""
    spans: list[Span] = []
    run, end = -1, 0.0
    for row in rows:
        left = max(row["min_key_pos"], end) if row["run"] == run else row["min_key_pos"]
        run, end = row["run"], max(row["max_key_pos"], left) + _THIN
        spans.append((left, end))
    return spans


def _ranks(rows: Sequence[StartRow], spans: Sequence[Span]) -> tuple[list[float], list[float]]:
    """Places in order, and how many keys lie before each: where files overlap, those of the densest."""
    cuts = sorted({place for span in spans for place in span})
    dense = [0.0] * max(len(cuts) - 1, 0)
    for row, (left, right) in zip(rows, spans, strict=True):
        density = row["rows"] / (right - left)
        for i in range(bisect_left(cuts, left), bisect_left(cuts, right)):
            dense[i] = max(dense[i], density)
    widths = (b - a for a, b in pairwise(cuts))
    return cuts, list(accumulate((d * w for d, w in zip(dense, widths, strict=True)), initial=0.0))


def _file(row: StartRow, low: int, high: int) -> SimFile:
    rows, deletes = row["rows"], row["deletes"]
    part = (_pieces(low, high, rows, deletes), rows, deletes, low, high)
    file = SimFile(row["file_name"], row["bytes"], part, row["level"])
    file.min_sequence, file.max_sequence = row.get("min_sequence") or 0, row.get("max_sequence") or 0
    file.creation_time_ms = _millis(row.get("creation_time"))
    file.file_source = _SOURCE_CODES.get(row.get("file_source") or "")
    return file


def _pieces(low: int, high: int, rows: int, deletes: int) -> Pieces:
    """So many rows between two keys, evenly."""
    share = rows / (high + 1 - low)
    draws = inf if share >= 1 else -log(1 - share)
    return ((float(low), float(high + 1), draws, deletes / rows if rows else 0.0, 0.0),)


def _millis(time: datetime | int | None) -> int:
    """Milliseconds since 1970; a time without a zone is UTC."""
    if isinstance(time, datetime):
        return round(time.replace(tzinfo=UTC).timestamp() * 1000)
    return time or 0
