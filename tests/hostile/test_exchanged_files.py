"""Files of one table, or of one place, put in the place of another's: one clear error, never other rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format import deletion_vector
from tablestore.lsm.lookup import cache as lookup_cache
from tablestore.meta import manifest_cache


def made(lake: ts.Lake, name: str, **options: Any) -> ts.Table:
    return lake.create_table(
        f"d.{name}",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 1, **options},
    )


def exchange(one: Path, other: Path) -> None:
    shutil.move(one, one.with_name("aside"))
    shutil.move(other, one)
    shutil.move(one.with_name("aside"), other)


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    for forget in (manifest_cache.LOCAL.clear, lookup_cache.LOCAL.clear, deletion_vector.forget_verified):
        forget()


def test_exchanged_deletion_vectors(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t", **{"deletion-vectors.enabled": True})
    for p in (1, 2):
        t.write([{"p": p, "k": k, "v": k} for k in range(10)])
        t.delete(f"p = {p} AND k = {p}")
    sound = t.scan().to_arrow()
    first, second = sorted(Path(t.location, "index").iterdir())[-2:]
    assert first.stat().st_size == second.stat().st_size
    exchange(first, second)
    deletion_vector.forget_verified()
    looks: tuple[Callable[[], Any], ...] = (t.scan().to_arrow, lambda: t.get({"p": 1, "k": 2}))
    for look in looks:
        with pytest.raises(Corrupt, match="its bytes have the checksum"):
            look()
    exchange(first, second)
    assert t.scan().to_arrow() == sound


def test_the_position_of_another_consumer_or_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        table.consumers.reset("a", 1)
        table.consumers.reset("b", 2)
    own, foreign = (Path(x.location, "consumer", "consumer-a") for x in (t, other))
    shutil.copy(own.with_name("consumer-b"), own)
    with pytest.raises(Corrupt, match=r"it is the position of consumer 'b'"):
        list(t.stream(consumer="a", follow=False))
    shutil.copy(foreign, own)
    with pytest.raises(Corrupt, match=r"table\.consumers\.delete\('a'\)") as e:
        list(t.stream(consumer="a", follow=False))
    assert str(own) in str(e.value)
    t.consumers.delete("a")
    assert len(list(t.stream(consumer="a", follow=False))) == 1


def test_a_position_of_another_engine_says_not_whose_it_is(tmp_path: Path) -> None:
    t = made(ts.connect(tmp_path), "t")
    t.write([{"p": 1, "k": 1, "v": 1}])
    t.consumers.reset("a", 1)
    Path(t.location, "consumer", "consumer-a").write_text('{"nextSnapshot": 2}')
    assert list(t.stream(consumer="a", follow=False)) == []


@pytest.mark.parametrize("place", ["schema/schema-1", "branch/branch-b/schema/schema-0"])
def test_the_schema_of_another_table(tmp_path: Path, place: str) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        table.branches.create("b")
        table.alter(ts.add("w", ts.INT))
    assert ts.open(t.location).branch("b").scan().count() == 0
    shutil.copy(Path(other.location, place), Path(t.location, place))
    with pytest.raises(Corrupt, match="it is of another table") as e:
        ts.open(t.location).branch("b").scan().to_arrow()
    assert place in str(e.value)


def test_an_older_schema_of_another_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    t, other = made(lake, "t"), made(lake, "other")
    for table in (t, other):
        table.write([{"p": 1, "k": 1, "v": 1}])
        for name in ("w", "x"):
            table = table.alter(ts.add(name, ts.INT))
            table.write([{"p": 1, "k": 2, "v": 1}])
    shutil.copy(Path(other.location, "schema/schema-1"), Path(t.location, "schema/schema-1"))
    with pytest.raises(Corrupt, match="it is of another table"):
        ts.open(t.location).scan().to_arrow()
