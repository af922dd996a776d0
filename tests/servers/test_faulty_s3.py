"""S3 in bad weather: busy, lost, cut and slow answers, listings of many pages, keys that expire.

Nothing is half-written, no row is lost or doubled, and the counts of requests are those of the wire."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, CommitUnknown, Unavailable
from tablestore.io import object_store, outcomes, requests
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.s3_options import S3Options
from tests.servers.faulty_store import FAULTS, FaultyStore, faulty
from tests.servers.s3 import S3Server

COLUMNS = {"k": ts.BIGINT, "v": ts.BIGINT}
_BRIEF = {
    "init_backoff": timedelta(milliseconds=1),
    "max_backoff": timedelta(milliseconds=4),
    "base": 2,
}


@pytest.fixture
def proxy(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    """A proxy before moto; who waits for it waits briefly."""
    monkeypatch.setattr(object_store, "_RETRY", {**object_store._RETRY, "backoff": _BRIEF})
    monkeypatch.setattr(requests, "RETRY_SECONDS", 0.001)
    with faulty(moto.endpoint) as store:
        yield store


@pytest.fixture
def reached(moto: S3Server, proxy: FaultyStore) -> dict[str, Any]:
    """How a lake is reached through the proxy."""
    return {"warehouse": f"{moto.bucket()}/lake", **moto.options, "s3.endpoint": proxy.endpoint}


def file_io(reached: dict[str, Any]) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(S3Options.parse(reached))


@pytest.mark.large
def test_requests_are_those_of_the_wire(reached: dict[str, Any], proxy: FaultyStore) -> None:
    table = ts.connect(**reached).create_table(
        "d.t",
        schema=COLUMNS,
        primary_key=["k"],
        options={"bucket": 2, "num-sorted-run.compaction-trigger": 3},
    )
    for step in (
        lambda: table.write([{"k": k, "v": k} for k in range(10)]),
        lambda: table.write([{"k": k, "v": -k} for k in range(5)]),
        lambda: table.scan().plan(),
        lambda: table.scan().to_arrow(),
        lambda: table.compact(full=True),
        lambda: table.expire_snapshots(keep=1),
    ):
        before, sent = table.inspect.requests(), proxy.requests
        step()
        counted = table.inspect.requests() - before
        assert counted == proxy.requests - sent
        assert counted.total > 0
    io, sent = file_io(reached), proxy.requests
    io.move(f"{reached['warehouse']}/d.db", f"{reached['warehouse']}/e.db")
    io.delete_tree(f"{reached['warehouse']}/e.db")
    counted = io.requests()
    assert counted == proxy.requests - sent
    assert counted.copy > counted.delete > 0
    assert str(counted).startswith(f"{counted.total} requests: ")


@pytest.mark.large
def test_parts_of_large_objects_are_requests(reached: dict[str, Any], proxy: FaultyStore) -> None:
    io, sent = file_io(reached), proxy.requests
    big = f"{reached['warehouse']}/big"
    io.write(big, bytes(20 << 20))
    with io.open_output(f"{big}-2") as out:
        out.write(bytes(9 << 20))
    with io.open_input(big) as opened:
        assert len(opened.read()) == 20 << 20
    assert io.requests() == proxy.requests - sent
    assert io.requests().put == 5 + 4


def test_listings_have_many_pages(
    reached: dict[str, Any], proxy: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of 10 names stand for those of 1,000; each may break off."""
    monkeypatch.setattr(requests, "PAGE", 10)
    monkeypatch.setattr(object_store, "_BULK", 10)
    proxy.page = 10
    io, root = file_io(reached), reached["warehouse"]
    names = [f"f{n:04}" for n in range(25)]
    for name in names:
        io.write(f"{root}/many/{name}", b"1")
    sent, counted = proxy.requests, io.requests()
    assert [s.name for s in io.list(f"{root}/many")] == names
    assert (proxy.requests - sent).list == (io.requests() - counted).list == 3

    def at(*faults: str | None) -> None:
        left = iter(faults)
        proxy.fault = lambda kind, path: next(left, None) if kind == "list" else None

    at("slow", "cut", "busy", "slow", "cut")
    assert [s.name for s in io.list(f"{root}/many")] == names
    at(None, "cut", "lost after")
    io.move(f"{root}/many", f"{root}/moved")
    at(None, None)
    assert [s.name for s in io.list(f"{root}/moved")] == names
    at(None, "cut")
    io.delete_tree(f"{root}/moved")
    assert io.list(f"{root}/moved") == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_verb_survives_a_fault(reached: dict[str, Any], proxy: FaultyStore, fault: str) -> None:
    io, root = file_io(reached), reached["warehouse"]
    data = bytes(range(256)) * 1000
    io.write_new(f"{root}/probe", b"")

    def once() -> None:
        faults = iter([fault])
        proxy.fault = lambda kind, path: next(faults, None)

    once()
    io.write(f"{root}/x", data)
    once()
    assert outcomes.put_new(io, f"{root}/new", data, unique=True)
    once()
    assert not outcomes.put_new(io, f"{root}/new", b"other", unique=True)
    once()
    assert io.read(f"{root}/x") == data
    once()
    with io.open_input(f"{root}/x") as opened:
        once()
        assert opened.read() == data
    once()
    assert io.exists(f"{root}/x")
    once()
    assert [s.name for s in io.list(root)] == ["new", "probe", "x"]
    once()
    assert io.is_dir(root)
    once()
    io.delete(f"{root}/x")
    assert not io.exists(f"{root}/x")


@pytest.mark.large
@pytest.mark.parametrize("fault", ["busy after", "lost", "cut"])
@pytest.mark.parametrize("at", range(5))
def test_a_large_object_is_whole_or_absent(
    reached: dict[str, Any], proxy: FaultyStore, fault: str, at: int
) -> None:
    """Begin, two parts, end: one of them fails."""
    io, path = file_io(reached), f"{reached['warehouse']}/large"
    faults = iter([None] * at + [fault])
    proxy.fault = lambda kind, asked: next(faults, None)
    data = random.Random(at).randbytes(10 << 20)
    with contextlib.suppress(Unavailable), io.open_output(path) as out:
        out.write(data)
    proxy.fault = lambda kind, asked: None
    if io.exists(path):
        assert io.read(path) == data
    with io.open_output(f"{path}-again") as out:
        out.write(data)
    assert io.read(f"{path}-again") == data


def test_keys_that_expire_are_named(reached: dict[str, Any], proxy: FaultyStore) -> None:
    table = ts.connect(**reached).create_table("d.t", schema=COLUMNS, primary_key=["k"])
    table.write([{"k": 1, "v": 1}])
    proxy.fault = lambda kind, path: "expired"
    with pytest.raises(Unavailable, match=r"credentials have expired: connect again with new s3\.access-key"):
        table.write([{"k": 2, "v": 2}])
    proxy.fault = lambda kind, path: None
    assert table.scan().count() == 1


@pytest.mark.large
def test_no_row_is_lost_or_doubled(
    reached: dict[str, Any], proxy: FaultyStore, seeds: tuple[int, ...]
) -> None:
    """Random writes under identifiers, compactions and scans, with faults at random requests."""
    lake = ts.connect(**reached)
    for seed in seeds:
        faulty_life(lake, proxy, random.Random(seed), f"d.t{seed}")


def faulty_life(lake: ts.Lake, proxy: FaultyStore, chance: random.Random, name: str) -> None:
    often, weather = chance.choice([0.02, 0.1, 0.3]), random.Random(chance.random())
    table = lake.create_table(
        name,
        schema=COLUMNS,
        primary_key=["k"],
        options={"bucket": 2, "num-sorted-run.compaction-trigger": 3, "snapshot.num-retained.max": 12},
    )

    def fault(kind: str, path: str) -> str | None:
        return weather.choice(FAULTS) if weather.random() < often else None

    def calm(kind: str, path: str) -> str | None:
        return None

    state: dict[int, int] = {}
    for identifier in range(1, 6):
        proxy.fault = fault
        keys = chance.sample(range(40), chance.randint(1, 20))
        state |= dict.fromkeys(keys, identifier)
        for attempt in range(10):
            proxy.fault = fault if attempt < 9 else calm
            with contextlib.suppress(Unavailable, CommitUnknown, CommitConflict):
                with table.writer(user="job", identifier=identifier) as w:
                    w.write([{"k": k, "v": identifier} for k in keys])
                break  # else the same identifier again: what is there already adds nothing
        with contextlib.suppress(Unavailable, CommitUnknown, CommitConflict):
            if chance.random() < 0.4:
                table.compact(full=chance.random() < 0.5)
        with contextlib.suppress(Unavailable):
            assert rows_of(table) == state
        proxy.fault = calm
        assert rows_of(table) == state
    assert table.check() == []


def rows_of(table: ts.Table) -> dict[int, int]:
    rows = table.scan().to_arrow()
    pairs = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(pairs) == rows.num_rows, "no key twice"
    return pairs
