"""How rows reach DuckDB: files that need no merge by its own reader, the rest as Arrow."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

import tablestore as ts
from tablestore.meta import partition_sweep
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.query import sources
from tablestore.sql.query.planning import BoundQuery, prepared


@pytest.fixture(autouse=True)
def _native_for_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_WORTHWHILE_BYTES", 0)


@pytest.fixture
def layered(lake: ts.Lake) -> ts.Table:
    """Partition 1 compacted, partition 2 with unmerged changes over it."""
    table = lake.create_table(
        "shop.layered",
        schema={"day": ts.DATE, "k": ts.INT, "v": ts.STRING, "gone": ts.BOOLEAN},
        primary_key=["day", "k"],
        partition_by=["day"],
        options={"bucket": 1},
    )
    first, second = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
    table.write(
        [{"day": d, "k": k, "v": f"v{k}", "gone": False} for d in (first, second) for k in range(100)]
    )
    table.compact(full=True)
    table.write([{"day": second, "k": k, "v": f"w{k}", "gone": True} for k in range(50, 60)])
    table.delete("day = DATE '2026-01-02' AND k < 5")
    return table


def planned(session: Session, text: str) -> BoundQuery:
    tree: Any = reader(()).read(pieces(text)[0])
    return prepared(session, tree, text)


def test_files_without_a_merge_are_read_by_duckdb(session: Session, layered: ts.Table) -> None:
    created = "count(*) AS n, count(DISTINCT v) AS d, max(v) AS m"
    text = f"SELECT day, {created} FROM layered GROUP BY day ORDER BY day"
    (feed,) = sources.feeds(planned(session, text).sources)
    assert (len(feed.files), len(feed.base), len(feed.over.newer)) == (1, 1, 1)
    assert feed.plan is not None
    assert not feed.plan.splits
    assert [tuple(r.values()) for r in session.sql(text).to_arrow().to_pylist()] == [
        (dt.date(2026, 1, 1), 100, 100, "v99"),
        (dt.date(2026, 1, 2), 95, 95, "w59"),
    ]


def test_a_plan_in_parts_feeds_what_a_whole_one_does(
    session: Session, layered: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    layered.write([{"day": dt.date(2026, 1, 3), "k": 1, "v": "x", "gone": False}])
    texts = (
        "SELECT count(v) AS n, max(v) AS m FROM layered WHERE gone = false",
        "SELECT count(*) AS n FROM layered",
        "SELECT v FROM layered WHERE day > DATE '2026-01-01' ORDER BY day, k",
    )

    def fed(text: str) -> tuple[Any, ...]:
        (feed,) = sources.feeds(planned(session, text).sources)
        left = () if feed.plan is None else feed.plan.splits
        rows = session.sql(text).to_arrow().to_pylist()
        return rows, feed.rows, feed.files, feed.flagged, feed.base, feed.over, left, feed.counted

    whole = [fed(text) for text in texts]
    monkeypatch.setattr(partition_sweep, "PART_ENTRIES", 1)
    assert len([*layered.scan().plan_parts()]) == 3
    assert [fed(text) for text in texts] == whole
    assert all(files and base for _, _, files, _, base, *_ in whole[:1])
    monkeypatch.setattr(sources, "_WORTHWHILE_BYTES", 1 << 20)
    for text, (rows, number, *_) in zip(texts, whole, strict=True):
        (feed,) = sources.feeds(planned(session, text).sources)
        assert (feed.native, feed.plan, feed.rows) == ((), None, number)
        assert session.sql(text).to_arrow().to_pylist() == rows


def test_one_partition_needs_its_own_files_only(session: Session, layered: ts.Table) -> None:
    text = "SELECT sum(k) AS s FROM layered WHERE day = DATE '2026-01-01' AND v <> 'v7'"
    (feed,) = sources.feeds(planned(session, text).sources)
    assert feed.plan is not None
    assert (len(feed.files), feed.plan.splits) == (1, ())
    assert session.sql(text).to_arrow().to_pylist() == [{"s": 4943}]


@pytest.mark.parametrize("change", ["evolved", "vectors", "orc"])
def test_other_files_come_from_the_scan(session: Session, lake: ts.Lake, change: str) -> None:
    options: dict[str, Any] = {"bucket": 1}
    options |= {"deletion-vectors.enabled": True} if change == "vectors" else {}
    options |= {"file.format": "orc"} if change == "orc" else {}
    table = lake.create_table(
        "shop.other", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options
    )
    table.write([{"k": k, "v": k} for k in range(100)])
    table.compact(full=True)
    if change == "evolved":
        table.alter(ts.retype("v", ts.BIGINT))
    if change == "vectors":
        table.write([{"k": 1, "v": 1000}])
    text = "SELECT sum(v) AS s, count(*) AS n FROM other WHERE k >= 0"
    (feed,) = sources.feeds(planned(session, text).sources)
    total = 4950 + (999 if change == "vectors" else 0)
    assert session.sql(text).to_arrow().to_pylist() == [{"s": total, "n": 100}]
    if change != "vectors":
        assert not feed.files


def test_deletes_at_level_zero_are_no_rows(session: Session, lake: ts.Lake) -> None:
    table = lake.create_table(
        "shop.fresh", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    table.write([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    table.delete("k = 1")
    assert session.sql("SELECT count(*) AS n, sum(v) AS s FROM fresh").to_arrow().to_pylist() == [
        {"n": 1, "s": 2}
    ]


def test_a_self_join_of_changes_scans_once(
    session: Session, layered: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_WORTHWHILE_BYTES", 1 << 40)  # so that all rows come from the scan
    text = (
        "SELECT count(*) AS n FROM layered a JOIN layered b ON a.k = b.k AND a.day = b.day "
        "WHERE a.day = DATE '2026-01-02' AND b.day = DATE '2026-01-02' AND a.v LIKE 'w%'"
    )
    (feed,) = sources.feeds(planned(session, text).sources)
    assert feed.views == ["__table_0", "__table_1"]
    assert session.sql(text).to_arrow().to_pylist() == [{"n": 10}]


def test_a_query_that_only_chooses_needs_no_engine(session: Session, layered: ts.Table) -> None:
    direct = planned(session, "SELECT v AS text, k FROM layered l WHERE l.k = 7 LIMIT 1").direct
    assert direct is not None
    assert direct.rows().read_all().to_pylist() == [{"text": "v7", "k": 7}]
    for text in (
        "SELECT k + 1 FROM layered",
        "SELECT k FROM layered ORDER BY k",
        "SELECT DISTINCT k FROM layered",
        "SELECT k FROM layered WHERE k = k",
        "SELECT k FROM layered LIMIT 1 OFFSET 1",
        "SELECT count(*) FROM layered",
    ):
        assert planned(session, text).direct is None
    assert len(session.sql("SELECT k FROM layered LIMIT 2 OFFSET 1").to_arrow()) == 2
    assert len(session.sql("SELECT k FROM layered WHERE upper(v) = 'V7' LIMIT 5").to_arrow()) == 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(1, all=3)
def test_changes_over_files_give_what_the_scan_gives(session: Session, lake: ts.Lake, seed: int) -> None:
    draw = random.Random(seed)
    table = lake.create_table(
        "shop.random",
        schema={"p": ts.INT, "k": ts.STRING, "v": ts.INT, "w": ts.STRING},
        primary_key=["p", "k"],
        partition_by=["p"] if seed % 2 else None,
        options={"bucket": 2, "write-only": True},
    )
    table.write([{"p": n % 2, "k": f"k{n}", "v": n, "w": None} for n in range(200)])
    table.compact(full=True)
    overlaid = 0
    for step in range(8):
        some = draw.sample(range(260), 12)
        table.write([{"p": n % 2, "k": f"k{n}", "v": 1000 + step, "w": "x"} for n in some])
        table.delete(f"k IN ({', '.join(repr(f'k{n}') for n in draw.sample(range(260), 5))})")
        if draw.random() < 0.2:
            table.compact(full=draw.random() < 0.3)
        rows = sorted((r["p"], r["k"], r["v"], r["w"]) for r in table.scan().to_arrow().to_pylist())
        result = session.sql("SELECT p, k, v + 0 AS v, w FROM random ORDER BY p, k").to_arrow().to_pylist()
        assert [tuple(r.values()) for r in result] == rows
        low = "SELECT count(*) AS n, sum(v) AS s FROM random WHERE v < 1000 AND p = 1 AND k > 'k15'"
        chosen = [r[2] for r in rows if r[2] < 1000 and r[0] == 1 and r[1] > "k15"]
        assert session.sql(low).to_arrow().to_pylist() == [{"n": len(chosen), "s": sum(chosen)}]
        (feed,) = sources.feeds(planned(session, low).sources)
        overlaid += bool(feed.base)
    assert overlaid
    assert table.check() == []


def test_a_row_by_its_key_is_looked_up(session: Session, layered: ts.Table) -> None:
    text = "SELECT v, k FROM layered WHERE k = {} AND day = DATE '2026-01-02'"
    direct = planned(session, text.format(55)).direct
    assert direct is not None
    assert direct.table is not None
    assert session.sql(text.format(55)).to_arrow().to_pylist() == [{"v": "w55", "k": 55}]
    assert session.sql(text.format(3)).to_arrow().to_pylist() == []
    assert session.sql(text.format(99999999999)).to_arrow().to_pylist() == []
    old = "SELECT v FROM layered VERSION AS OF 2 WHERE k = 3 AND day = DATE '2026-01-02'"
    assert session.sql(old).to_arrow().to_pylist() == [{"v": "v3"}]
    for other in (f"{text.format(3)} AND v = 'v3'", "SELECT v FROM layered WHERE k = 3"):
        actual = planned(session, other).direct
        assert actual is not None
        assert actual.table is None


def test_rows_are_counted_by_the_metadata_of_files(session: Session, lake: ts.Lake) -> None:
    """Where each row of a file is one of the table; else they are read to be counted."""
    options = {"bucket": -1, "deletion-vectors.enabled": True}
    table = lake.create_table(
        "shop.counted", schema={"p": ts.INT, "v": ts.INT}, partition_by=["p"], options=options
    )
    table.write([{"p": n % 3, "v": n} for n in range(100)])
    table.write([{"p": n % 3, "v": n} for n in range(50)])
    counted = "SELECT count(*) AS n FROM counted"
    for text, rows in (
        (counted, 150),
        (f"{counted} /*+ OPTIONS('scan.snapshot-id' = '1') */", 100),
        ("SELECT count(*) + 1 AS n FROM counted", 151),
        ("SELECT count(*) AS n FROM counted a, (VALUES (1), (2)) AS b (x)", 300),
        ("SELECT count(*) AS n FROM counted a, counted b", 22_500),
        ("SELECT sum(1) AS n FROM counted", 150),
        (f"{counted} WHERE p = 0", 51),
        ("SELECT count(v) AS n FROM counted", 150),
        ("SELECT count(*) AS n FROM (SELECT * FROM counted LIMIT 7)", 7),
    ):
        assert session.sql(text).to_arrow()["n"].to_pylist() == [rows], text
    (feed,) = sources.feeds(planned(session, counted).sources)
    assert (feed.counted, feed.rows, feed.native) == (True, 150, ())
    assert "150 rows are counted by the metadata of their files" in session.sql(f"EXPLAIN {counted}").text(
        width=None
    )
    table.delete("v < 10")
    assert session.sql(counted).to_arrow()["n"].to_pylist() == [130]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(2, all=3)
def test_counts_are_those_of_the_scan(session: Session, lake: ts.Lake, seed: int) -> None:
    """Of tables with and without a key, with deletes by markers, vectors and rewritten files."""
    draw = random.Random(seed)
    keyed = seed % 3 < 2
    options = {"bucket": 2, "write-only": True} if keyed else {"bucket": -1}
    options |= {"deletion-vectors.enabled": True, "write-only": False} if seed % 3 else {}
    table = lake.create_table(
        "shop.random",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"] if keyed else None,
        options=options,
    )
    counted = 0
    for step in range(10):
        table.write([{"k": k, "v": step} for k in draw.sample(range(100), 20)])
        if draw.random() < 0.5:
            table.delete(f"k < {draw.randrange(30)}")
        if draw.random() < 0.5:
            table.compact(full=True)
        expected = table.scan().to_arrow().num_rows
        assert session.sql("SELECT count(*) AS n FROM random").to_arrow()["n"].to_pylist() == [expected]
        (feed,) = sources.feeds(planned(session, "SELECT count(*) AS n FROM random").sources)
        counted += feed.counted
    assert counted
