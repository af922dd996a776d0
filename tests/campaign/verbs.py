"""Every verb that changes a table, as an act that may be repeated after it failed half-way.

An act on a table that has `history` ends in the same state however often it is called, so a failed one that
is called again must end like one that never failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

import tablestore as ts
from tablestore.core.errors import AlreadyExists, NotFound
from tests.campaign.lives import LIVES, Life

SEED = 5
COMMITS = 5
Act = Callable[[ts.Table], object]


def history(lake: ts.Lake, life: Life) -> ts.Table:
    """`d.t` with overlapping commits, deletes, a compaction, a tag of an expired snapshot and a branch."""
    table = life.create(lake, writers=1, seed=SEED)
    for step in range(COMMITS):
        _write(life, table, step)
        if step == 1:
            table.tags.create("early")
            table.branches.create("side", "early")
        if step == 2:
            table.compact(full=True)
    table.expire_snapshots(keep=4)
    return table


def _write(life: Life, table: ts.Table, step: int) -> None:
    rows = life.step(SEED, 0, step)
    kinds = {"row_kind_column": "kind"} if "kind" in rows.column_names else {}
    table.write(rows, user="w0", identifier=step, **kinds)


def _stream(life: Life) -> Act:
    """A commit of a stream, and again if it failed: then scans show it, whatever the kind of table."""
    return lambda table: _write(life, table, COMMITS)


def _again(act: Act, done: type[Exception]) -> Act:
    """An act that says by an exception that it was done before."""

    def run(table: ts.Table) -> None:
        with contextlib.suppress(done):
            act(table)

    return run


def _branch(table: ts.Table) -> None:
    with contextlib.suppress(AlreadyExists):
        table.branches.create("other")


def _add_column(table: ts.Table) -> None:
    if "extra" not in table.refresh().schema.names:
        table.alter(ts.add("extra", ts.INT))


def _consumer(table: ts.Table) -> None:
    table.consumers.reset("reader", table.store.snapshots.latest_id() or 1)


@dataclass(frozen=True)
class Verb:
    """An act, and on which kinds of tables it goes. `same_rows`: it changes no row of the newest snapshot;
    `stepwise`: it goes back snapshot by snapshot, and may stop at any of them."""

    act: Callable[[Life], Act]
    fits: Callable[[Life], bool] = lambda life: True
    same_rows: bool = False
    stepwise: bool = False


def _plain(act: Act) -> Callable[[Life], Act]:
    return lambda life: act


def _takes_deletes(life: Life) -> bool:
    return life.deletes


VERBS: Mapping[str, Verb] = {
    "write": Verb(_stream),
    "delete": Verb(_plain(lambda t: t.delete(ts.col("k") < 12)), _takes_deletes),
    "update": Verb(_plain(lambda t: t.update({"v": 77}, where=ts.col("k") < 9)), _takes_deletes),
    "overwrite": Verb(lambda life: lambda t: t.overwrite(_overwriting(life))),
    "truncate": Verb(_plain(lambda t: t.truncate())),
    "compact": Verb(_plain(lambda t: t.compact()), lambda life: not life.lagging, same_rows=True),
    "compact fully": Verb(
        _plain(lambda t: t.compact(full=True)), lambda life: not life.lagging, same_rows=True
    ),
    "expire": Verb(_plain(lambda t: t.expire_snapshots(keep=1)), same_rows=True),
    "roll back to a tag": Verb(
        _plain(lambda t: t.rollback(tag="early")), lambda life: not life.logged, stepwise=True
    ),
    "create a tag": Verb(_plain(_again(lambda t: t.tags.create("now"), AlreadyExists)), same_rows=True),
    "delete a tag": Verb(_plain(_again(lambda t: t.tags.delete("early"), NotFound)), same_rows=True),
    "create a branch": Verb(_plain(_branch), same_rows=True),
    "delete a branch": Verb(_plain(_again(lambda t: t.branches.delete("side"), NotFound)), same_rows=True),
    "add a column": Verb(_plain(_add_column)),
    "analyze": Verb(_plain(lambda t: t.analyze()), same_rows=True),
    "compact manifests": Verb(_plain(lambda t: t.compact_manifests()), same_rows=True),
    "remove orphans": Verb(
        _plain(lambda t: t.remove_orphans("0 s", dry_run=False, force=True)), same_rows=True
    ),
    "place a consumer": Verb(_plain(_consumer), same_rows=True),
}


def _overwriting(life: Life) -> pa.Table:
    rows = life.step(SEED, 0, 99)
    return rows.drop_columns(["kind"]) if "kind" in rows.column_names else rows


def fitting() -> list[tuple[str, str]]:
    """(verb, kind of table) of all that go together."""
    return [(v, life.name) for v, verb in VERBS.items() for life in LIVES.values() if verb.fits(life)]
