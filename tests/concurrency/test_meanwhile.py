"""Snapshots are rewritten and expire while they are read: right rows, or an error that says what to do; never
damage.

Each verb is tried with that happening before operations that the seed draws, of those that touch what goes;
`--rounds 1000` tries them all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.meta import refs
from tests.concurrency.meanwhile import Twin, Verb, wrong
from tests.log.followed import Followed
from tests.tables import KEYED

KINDS: dict[str, dict[str, Any]] = {
    "files": {},
    "eventual log": {"log.system": "embedded", "log.consistency": "eventual"},
    "long-lived changelogs": {
        "changelog-producer": "input",
        "changelog.num-retained.min": 20,
        "changelog.num-retained.max": 30,
    },
    "deletion vectors": {"deletion-vectors.enabled": True},
}
OLD, MIDDLE, NEW = 2, 4, 6


@pytest.fixture(scope="module", params=KINDS)
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    """A table of each kind, and what it becomes."""

    def history(lake: ts.Lake) -> None:
        """Overlapping commits, a compaction among them, a tag."""
        plain = {"bucket": 1, "write-only": True, "tablestore.scan.threads": 1}
        table = KEYED.create(lake.warehouse, plain | KINDS[request.param])
        for n in range(5):
            table.write(rows(range(n, n + 4), f"{n}"))
            if n == 2:
                table.compact(full=True)
        table.tags.create("kept", MIDDLE)

    def go_on(table: ts.Table) -> None:
        """All snapshots but the newest go, and the files that a compaction has rewritten."""
        table.compact(full=True)
        table.write(rows([0, 9], "late"))
        table.expire_snapshots(keep=1)

    return Twin.of(tmp_path_factory.mktemp("twin"), history, go_on)


def rows(keys: Any, value: str) -> pa.Table:
    return pa.table({"k": list(keys), "v": [value] * len(keys)})


def listed(actual: pa.Table) -> list[dict[str, Any]]:
    """The rows in an order of their own."""
    return sorted(actual.to_pylist(), key=repr)


def followed(**asked: Any) -> Verb:
    """The state that a stream's steps describe: of those from a state on; of others they only have to be
    readable."""

    def follow(table: ts.Table) -> Counter[Any] | None:
        actual = Followed(1, raw=True)
        for step in table.stream(follow=False, **asked):
            actual.take(step)
        return actual.rows if "start" not in asked else None

    return follow


def shown(*views: str, **asked: Any) -> Verb:
    """Views of `inspect`, of which it is enough that they come."""

    def look(table: ts.Table) -> None:
        for view in views:
            getattr(table.inspect, view)(**asked)

    return look


def joined(cache: str) -> Verb:
    def join(table: ts.Table) -> list[dict[str, Any]]:
        with table.lookup({"k": "id"}, cache=cache) as lookup:
            lookup.join([{"id": 1}])
            lookup.refresh()
            return listed(lookup.join([{"id": k} for k in range(10)]))

    return join


def changed(mode: str) -> Verb:
    return lambda t: listed(t.changes(since=OLD, until=NEW, mode=mode))


def explained(table: ts.Table) -> None:
    explanation = table.scan(where="k > 2").explain()
    assert explanation.row_groups().num_rows
    assert explanation.decisions().num_rows


def at_time(table: ts.Table) -> list[dict[str, Any]]:
    moment = refs.tagged(table.store, "kept").time_millis
    return listed(table.at(timestamp=moment).scan().to_arrow())


def between_times(table: ts.Table) -> list[dict[str, Any]]:
    moment = refs.tagged(table.store, "kept").time_millis
    times = {"incremental-between-timestamp": f"{moment},{moment + 10**9}"}
    return listed(table.with_options(times).scan().to_arrow())


VERBS: dict[str, Callable[[ts.Table], Any]] = {
    "scan": lambda t: listed(t.scan(where="k > 1").to_arrow()),
    "count": lambda t: t.scan().count(),
    "at a snapshot": lambda t: listed(t.at(snapshot=OLD).scan().to_arrow()),
    "at a tag": lambda t: listed(t.at(tag="kept").scan().to_arrow()),
    "at a time": at_time,
    "between times": between_times,
    "changes": changed("auto"),
    "changes as written": changed("delta"),
    "point gets": lambda t: listed(t.get_many([{"k": k} for k in range(9)])),
    "lookup join, full": joined("full"),
    "lookup join, partial": joined("partial"),
    "explain": explained,
    "stream": followed(),
    "stream, looked up": followed(normalize="lookup"),
    "stream from a snapshot": followed(start=MIDDLE),
    "stream from a snapshot, as written": followed(start=MIDDLE, normalize=False),
    "stream from a snapshot, looked up": followed(start=MIDDLE, normalize="lookup"),
    "stream from the earliest": followed(start="earliest"),
    "audit log": lambda t: listed(t.system("audit_log").to_arrow()),
    "metadata": shown(
        "manifest_lists", "manifests", "state", "levels", "partitions", "buckets", snapshot=OLD
    ),
    "history": shown("snapshots", "commits", "edits", "stays", "compactions"),
    "storage": shown("storage", "tags"),
    "health": shown("health", "pressure", "amplification"),
    "doctor": shown("doctor"),
    "merging": shown("merging"),
    "what if": lambda t: t.what_if({"num-sorted-run.compaction-trigger": 4}) and None,
    "check": lambda t: list(map(str, t.check())),
}
OF_A_LOG: dict[str, Callable[[ts.Table], Any]] = {
    "union read": lambda t: listed(t.scan(log=True).to_arrow()),
    "stream inside the log": followed(start={"log": {0: 6}}, normalize=True),
    "snapshots of the log": lambda t: t.log and t.log.snapshots() and None,
}


def verbs(kind: str) -> Iterator[tuple[str, Verb]]:
    yield from VERBS.items()
    if "log" in kind.split():
        yield from OF_A_LOG.items()


@pytest.mark.sample(1)
def test_reads(twin: Twin, request: pytest.FixtureRequest, seeds: tuple[int, ...]) -> None:
    kind, actual = request.node.callspec.params["twin"], list[str]()
    for name, verb in verbs(kind):
        draw = random.Random(f"{seeds[0]} {name}")
        actual += [f"{name}: {text}" for text in wrong(twin, verb, draw=draw, most=max(1, len(seeds) // 2))]
    assert actual == []


@pytest.mark.parametrize("name", ["tag", "branch"])
def test_what_keeps_a_snapshot(twin: Twin, name: str, seeds: tuple[int, ...]) -> None:
    def expire(table: ts.Table) -> None:
        table.write(rows([7], "more"))
        table.expire_snapshots(keep=1)

    def keep(table: ts.Table) -> None:
        if name == "tag":
            table.tags.create("new")
            table.at(tag="new").scan().to_arrow()
        else:
            table.branches.create("new", tag="kept")
            table.branch("new").scan().to_arrow()

    draw = random.Random(f"{seeds[0]} {name}")
    assert wrong(twin, keep, act=expire, draw=draw, most=len(seeds) // 3) == []
