"""A commit to a table with a log fails or is killed at single I/O operations. Whoever comes next makes files
and log hold the same rows; a replay adds nothing, and what was said of a commit is true."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitUnknown
from tests.faults import FailedCall, Killed, failed_calls
from tests.log import held
from tests.tables import TableSpec

EVERY = 6
LOG = {"log.system": "embedded", "bucket": 2, "snapshot.num-retained.min": 100}
COLUMNS = {"k": ts.INT, "v": ts.BIGINT}
DEDUPLICATE = TableSpec(COLUMNS, ("k",), options=LOG)
EVENTUAL = DEDUPLICATE.with_options({"log.consistency": "eventual"})
SUMS = DEDUPLICATE.with_options({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
APPEND = TableSpec(COLUMNS, options={**LOG, "bucket-key": "k"})
SPECS = {"deduplicate": DEDUPLICATE, "eventual": EVENTUAL, "aggregation": SUMS, "append": APPEND}
BEFORE = [{"k": k, "v": 1} for k in range(4)]
NEW = [{"k": k, "v": 10} for k in range(2, 8)]
LAST = [{"k": 3, "v": 100}]


def outcomes(
    spec: TableSpec,
    tmp_path: Path,
    act: Callable[[ts.Table], Any],
    seed: int,
    every: int = EVERY,
    *,
    before: list[dict[str, int]] = BEFORE,
) -> Iterator[FailedCall]:
    """The table after some failures of `act`; it has the rows `before`."""
    spec.create(str(tmp_path / "start")).write(before)
    return failed_calls(
        tmp_path / "start",
        tmp_path,
        lambda lake: act(lake.table("d.t")),
        lambda cases: cases[seed % every :: every],
    )


def wanted(spec: TableSpec, *writes: list[dict[str, int]]) -> list[str]:
    """The rows of a table of that kind after these writes."""
    written: dict[int, list[int]] = {}
    for row in (row for rows in writes for row in rows):
        written.setdefault(row["k"], []).append(row["v"])
    if spec is APPEND:
        values = [(k, v) for k, vs in written.items() for v in vs]
    else:
        values = [(k, sum(vs) if spec is SUMS else vs[-1]) for k, vs in written.items()]
    return sorted(str({"k": k, "v": v}) for k, v in values)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.sample(1)
def test_a_batch_write_is_there_or_not(name: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    spec = SPECS[name]
    for call in outcomes(spec, tmp_path, lambda t: t.write(NEW), seeds[0]):
        held.require_prefix(call.lake, call.table)
        call.table.write(LAST)
        held.require_prefix(call.lake, call.table)
        assert held.position(call.table) == held.end(call.table), call.place
        now, both = held.rows(call.table), wanted(spec, BEFORE, NEW, LAST)
        if call.error is None:
            assert now == both, call.place
        elif spec is EVENTUAL or isinstance(call.error, (CommitUnknown, Killed)):
            assert now in (both, wanted(spec, BEFORE, LAST)), call.place
        else:
            assert now == wanted(spec, BEFORE, LAST), (call.place, call.error)


@pytest.mark.large
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.sample(1)
def test_a_replay_adds_nothing(name: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    spec = SPECS[name]

    def act(t: ts.Table) -> ts.Committed:
        return t.write(NEW, user="stream", identifier=1, position="here")

    for call in outcomes(spec, tmp_path, act, seeds[0]):
        act(call.table)
        held.require_prefix(call.lake, call.table)
        assert held.rows(call.table) == wanted(spec, BEFORE, NEW), call.place
        assert act(call.table).replayed
        assert held.position(call.table) == held.end(call.table), call.place
        assert call.table.position("stream") == (1, "here")
        call.table.write(LAST)
        assert held.rows(call.table) == wanted(spec, BEFORE, NEW, LAST), call.place
        rows = sum(len(batch.kinds) for batch in held.logged(call.table))
        once = len(BEFORE) + len(NEW) + len(LAST)
        assert rows >= once if spec is EVENTUAL else rows == once, call.place


@pytest.mark.parametrize("name", ["deduplicate", "aggregation"])
@pytest.mark.sample(1)
def test_messages_of_an_engine_are_committed_once(name: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    spec = SPECS[name]

    def act(t: ts.Table) -> ts.Committed:
        messages = []
        for part in (NEW[:3], NEW[3:]):
            with contextlib.closing(t.open_writer(user="engine", sequence_base=1000)) as w:
                w.write(pa.Table.from_pylist(part, schema=t.schema))
                messages += w.prepare()
        return t.commit(messages, user="engine", identifier=1)

    for call in outcomes(spec, tmp_path, act, seeds[0], every=2 * EVERY):
        act(call.table)
        held.require_prefix(call.lake, call.table)
        assert held.rows(call.table) == wanted(spec, BEFORE, NEW), call.place


@pytest.mark.parametrize("name", ["deduplicate", "append"])
@pytest.mark.sample(1)
def test_a_kill_heals_at_a_compaction(name: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    spec = SPECS[name]
    for call in outcomes(spec, tmp_path, lambda t: t.write(NEW), seeds[0] + 1, every=3 * EVERY):
        call.table.compact(full=True)
        held.require_prefix(call.lake, call.table)
        assert held.position(call.table) == held.end(call.table), call.place


@pytest.mark.parametrize("what", ["delete", "update"])
@pytest.mark.sample(1)
def test_a_change_of_rows_without_a_key_is_there_or_not(
    what: str, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    """`delete` takes two equal rows and another, `update` makes equal ones of them."""
    spec = APPEND.with_options({"deletion-vectors.enabled": True})
    before = [*BEFORE, {"k": 2, "v": 1}]

    def act(t: ts.Table) -> ts.Committed:
        return t.delete("k >= 2") if what == "delete" else t.update({"v": 5}, where="k >= 2")

    after = [dict(row, v=5) if row["k"] >= 2 else row for row in before if what == "update" or row["k"] < 2]
    for call in outcomes(spec, tmp_path, act, seeds[0], every=2 * EVERY, before=before):
        held.require_prefix(call.lake, call.table)
        call.table.write(LAST)
        held.require_prefix(call.lake, call.table)
        assert held.position(call.table) == held.end(call.table), call.place
        now = held.rows(call.table)
        both = [sorted(map(str, [*rows, *LAST])) for rows in (after, before)]
        if call.error is None:
            assert now == both[0], call.place
        elif isinstance(call.error, (CommitUnknown, Killed)):
            assert now in both, call.place
        else:
            assert now == both[1], (call.place, call.error)
